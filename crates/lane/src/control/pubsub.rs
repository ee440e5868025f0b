//! PUBSUB: who has subscribed to what. Lanes say what their clients have, and here that becomes one answer: a channel to which clients of
//! several lanes have subscribed is one. On a lane's own port it is about that lane's clients, as a node's answer is.

use std::collections::BTreeSet;
use std::sync::Arc;

use wire::command::Id;
use wire::glob::STANDING_PATTERN_SIZE_MAX;
use wire::reply;

use super::Begun;
use crate::admin::{Order, Question, Report};
use crate::help;
use crate::pubsub::{Kind, Name, PATTERN_TOO_LONG, Query};
use crate::request::Args;

/// Names that PUBSUB NUMSUB looks at in one call.
const ASKED_MAX: usize = 16 * 1024;

/// Asks lanes, or answers at once.
pub(super) fn begin(question: &Question, out: &mut Vec<u8>) -> Begun {
    let args = Args::Owned(&question.request);
    let kind = kind(question.command.id);
    let query = match question.command.id {
        Id::PubsubNumpat => Query::Names(kind, None),
        Id::PubsubChannels | Id::PubsubShardchannels if args.len() < 4 => {
            let pattern = (args.len() == 3).then(|| args.flat(2));
            if pattern.is_some_and(|pattern| pattern.len() > STANDING_PATTERN_SIZE_MAX) {
                reply::error(out, PATTERN_TOO_LONG);
                return Begun::Answered;
            }
            Query::Names(kind, pattern.map(Box::from))
        }
        Id::PubsubNumsub | Id::PubsubShardnumsub if args.len() - 2 > ASKED_MAX => {
            reply::error(out, &format!("ERR too many names, at most {ASKED_MAX} are looked at"));
            return Begun::Answered;
        }
        Id::PubsubNumsub | Id::PubsubShardnumsub => {
            Query::Counts(kind, (2..args.len()).map(|index| args.flat(index).to_vec()).collect())
        }
        _ => {
            reply::error_bytes(out, &help::unknown_shape("PUBSUB", args));
            return Begun::Answered;
        }
    };
    Begun::InSight(Order::Survey(Arc::new(query)))
}

/// Answers with what lanes have said.
pub(super) fn conclude(question: &Question, reports: Vec<(u16, Report)>, out: &mut Vec<u8>) {
    let args = Args::Owned(&question.request);
    let (mut names, mut counts) = (BTreeSet::<Name>::new(), vec![0; args.len().saturating_sub(2)]);
    for (_, report) in reports {
        match report {
            Report::Names(some) => names.extend(some),
            Report::Counts(some) => counts.iter_mut().zip(some).for_each(|(sum, count)| *sum += count),
            _ => unreachable!("lanes report what they were asked for"),
        }
    }
    let integer = |out: &mut Vec<u8>, count: u64| {
        reply::integer(out, i64::try_from(count).expect("clients are fewer than 2^63"));
    };
    match question.command.id {
        Id::PubsubNumpat => integer(out, names.len() as u64),
        Id::PubsubNumsub | Id::PubsubShardnumsub => {
            reply::array(out, 2 * counts.len());
            for (index, count) in (2..).zip(counts) {
                reply::bulk(out, args.flat(index));
                integer(out, count);
            }
        }
        _ => {
            reply::array(out, names.len());
            names.iter().for_each(|name| reply::bulk(out, name));
        }
    }
}

fn kind(id: Id) -> Kind {
    match id {
        Id::PubsubNumpat => Kind::Pattern,
        Id::PubsubShardchannels | Id::PubsubShardnumsub => Kind::Shard,
        _ => Kind::Channel,
    }
}

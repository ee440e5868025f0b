//! CLIENT TRACKING: read here, because whom a client names may be on any lane, and because all lanes have to know of what it wants before it
//! is answered.
//!
//! ```text
//! whom it names ─ all lanes ─▶ the client's lane takes it down, or refuses ─ if its lane wants something new ─▶ all lanes
//! ```

use std::sync::Arc;

use wire::reply::{self, OK, Put};

use super::{Asker, Begun, Control};
use crate::admin::{Filter, Order, Question, Report};
use crate::request::Args;
use crate::tracking::{Redirect, Track, Wanted};
use wire::command::Id;

const NOBODY: &str = "ERR The client ID you want redirect to does not exist";

/// What is asked for, and the number of the client that is named, if one is.
fn parse(args: Args<'_>) -> Result<(Wanted, Option<i64>), &'static str> {
    let mut wanted = Wanted::default();
    let mut redirect = None;
    let mut index = 3;
    while index < args.len() {
        let word = args.flat(index);
        let is = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
        let has_more = index + 1 < args.len();
        if is("redirect") && has_more {
            if redirect.is_some() {
                return Err("ERR A client can only redirect to a single other client");
            }
            index += 1;
            let number = wire::number::parse_i64(args.flat(index));
            redirect = Some(number.ok_or("ERR value is not an integer or out of range")?);
        } else if is("prefix") && has_more {
            index += 1;
            wanted.prefixes.push(args.flat(index).into());
        } else {
            match () {
                () if is("bcast") => wanted.is_broadcast = true,
                () if is("optin") => wanted.opts_in = true,
                () if is("optout") => wanted.opts_out = true,
                () if is("noloop") => wanted.is_quiet = true,
                () => return Err("ERR syntax error"),
            }
        }
        index += 1;
    }
    wanted.is_on = args.flat(2).eq_ignore_ascii_case(b"on");
    if !wanted.is_on && !args.flat(2).eq_ignore_ascii_case(b"off") {
        return Err("ERR syntax error");
    }
    Ok((wanted, redirect))
}

fn order(asker: Asker, wanted: Wanted) -> Order {
    Order::Track(Arc::new(Track { asker: asker.client, is_exec: asker.is_exec, wanted }))
}

/// CLIENT TRACKING begins.
pub(super) fn begin(asker: Asker, question: &Question, out: &mut Vec<u8>) -> Begun {
    match parse(Args::Owned(&question.request)) {
        Err(text) => reply::error(out, text),
        Ok((wanted, None)) => return Begun::AtHome(order(asker, wanted)),
        Ok((_, Some(number))) => match u64::try_from(number) {
            Err(_) => reply::error(out, NOBODY),
            Ok(id) => {
                let filter = Filter { ids: Some(vec![id]), asker_id: question.from.id, ..Filter::default() };
                return Begun::Everywhere(Order::List(Arc::new(filter)));
            }
        },
    }
    Begun::Answered
}

/// What there is to answer in the end.
pub(super) fn conclude(reports: &[(u16, Report)], out: &mut Vec<u8>) {
    match reports.first() {
        Some((_, Report::List(_))) => reply::error(out, NOBODY),
        Some((_, Report::Tracking(Err(text)))) => reply::error(out, text),
        _ => out.put(OK),
    }
}

impl Control {
    /// Lanes have done what was asked of them first; none if they have more to do for it, else the question back.
    pub(super) fn track_further(
        &mut self,
        asker: Asker,
        question: Question,
        reports: &[(u16, Report)],
    ) -> Option<(Asker, Question)> {
        if question.command.id != Id::ClientTracking {
            return Some((asker, question));
        }
        let home = asker.lane..asker.lane + 1;
        let (lanes, order) = match reports.first() {
            Some((_, Report::List(_))) => {
                let portraits = reports.iter().filter_map(|(_, report)| match report {
                    Report::List(portraits) => Some(portraits),
                    _ => None,
                });
                let Some(found) = portraits.flatten().next() else { return Some((asker, question)) };
                let (mut wanted, _) = parse(Args::Owned(&question.request)).expect("read before");
                wanted.redirect = Some(Redirect { id: found.id, lane: found.lane, client: found.handle });
                (home, order(asker, wanted))
            }
            Some((lane, Report::Tracking(Ok(Some(wishes))))) => {
                (0..self.lane_count, Order::Wishes { lane: *lane, wishes: Arc::clone(wishes) })
            }
            _ => return Some((asker, question)),
        };
        self.give(lanes, &order, Some((asker, question)));
        None
    }
}

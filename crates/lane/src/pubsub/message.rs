//! A message: made once, by the lane that owns its channel or whose key it is about, and lent to all lanes that hand it out.

use std::sync::Arc;

use store::Rope;
use wire::reply::{self, Proto};
use wire::route::Slot;

use super::Kind;
use crate::request::{Arg, Args};

/// See the top of this file.
pub(crate) struct Message {
    pub(crate) channel: Vec<u8>,
    pub(crate) slot: Slot,
    pub(crate) is_sharded: bool,
    /// It is about a key of this lane: whoever has come through another's own port does not get it, for that is another node.
    pub(crate) of_lane: Option<u16>,
    pub(crate) body: Body,
}

/// What is said.
#[derive(Clone)]
pub(crate) enum Body {
    /// In one piece, which is short.
    Flat(Arc<Vec<u8>>),
    Rope(Rope),
}

impl Body {
    pub(crate) fn len(&self) -> usize {
        match self {
            Body::Flat(bytes) => bytes.len(),
            Body::Rope(rope) => rope.len(),
        }
    }
}

impl Message {
    /// Of a PUBLISH or SPUBLISH with these arguments; none if the channel's name is too long for one.
    pub(crate) fn of(args: Args<'_>, is_sharded: bool) -> Option<Message> {
        let channel = args.get(1).flat()?.to_vec();
        let slot = Slot::of(&channel);
        let body = match args.get(2) {
            Arg::Flat(bytes) => Body::Flat(Arc::new(bytes.to_vec())),
            Arg::Rope(rope) => Body::Rope(rope.clone()),
        };
        Some(Message { channel, slot, is_sharded, of_lane: None, body })
    }

    /// Bytes in it.
    pub(crate) fn size(&self) -> usize {
        self.channel.len() + self.body.len()
    }

    /// Whose subscribers get it by name.
    pub(crate) fn kind(&self) -> Kind {
        if self.is_sharded { Kind::Shard } else { Kind::Channel }
    }

    /// What stands before the body, for those who subscribe to its channel or this pattern.
    pub(crate) fn head(&self, proto: Proto, pattern: Option<&[u8]>) -> Vec<u8> {
        let mut head = Vec::new();
        reply::push(&mut head, proto, 3 + usize::from(pattern.is_some()));
        let word: &[u8] = match (self.is_sharded, pattern) {
            (true, _) => b"smessage",
            (false, None) => b"message",
            (false, Some(_)) => b"pmessage",
        };
        reply::bulk(&mut head, word);
        if let Some(pattern) = pattern {
            reply::bulk(&mut head, pattern);
        }
        reply::bulk(&mut head, &self.channel);
        reply::bulk_header(&mut head, self.body.len());
        head
    }
}

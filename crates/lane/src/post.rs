//! What other lanes and the control thread have for this lane's clients: answers, and lines for those who monitor.
//!
//! A client's answers come in a row, as its asks went, so that what they have in common is looked up once for all of them.

use net::Net;
use wire::reply::Put;

use crate::client::Client;
use crate::core::{Core, Reply};
use crate::replies::Sink;
use crate::slab::{Handle, Slab};
use crate::tally::ErrorCode;

/// Where answers find the clients that wait for them.
pub(crate) struct Post<'a, N> {
    pub(crate) clients: &'a mut Slab<Client>,
    /// Gets those to whom something came.
    pub(crate) stirred: &'a mut Vec<Handle<Client>>,
    pub(crate) net: &'a mut N,
}

impl<N: Net> Post<'_, N> {
    /// Hands a client what a lane, or the control thread, has answered: replies, and the slots they are for.
    pub(crate) fn deliver<'r>(
        &mut self,
        core: &mut Core,
        lane: u16,
        client: u64,
        replies: impl Iterator<Item = (u32, Reply<'r>)>,
    ) {
        let handle = Handle::from_bits(client);
        let Some(client) = self.clients.get_mut(handle) else {
            return replies.for_each(|(_, reply)| core.forget_reply(reply));
        };
        self.stirred.push(handle);
        let mut output = self.net.output(client.conn);
        for (slot, reply) in replies {
            if lane == core.lane_count {
                core.count_control_error(client, &reply);
            }
            match (reply, &mut output) {
                // However much the client has not read: a few answers of 512 bytes at most can still come.
                (Reply::Bytes(bytes), Some(output)) if client.replies.is_front(slot) => {
                    output.extend(bytes);
                    client.replies.pass_front();
                }
                (Reply::Bytes(bytes), _) => client.replies.fill_bytes(slot, bytes),
                (Reply::Content(content), _) => client.replies.fill(slot, content),
            }
        }
    }

    /// Shows a client lines of MONITOR, between replies, or what a replica gets. It may just have said RESET.
    pub(crate) fn show(&mut self, client: u64, lines: &[u8]) {
        let handle = Handle::from_bits(client);
        let Some(client) = self.clients.get_mut(handle) else { return };
        self.stirred.push(handle);
        if client.is_replica {
            client.following.get_or_insert_default().sent_size += lines.len() as u64;
        }
        if (client.is_monitor || client.is_replica)
            && let Some(output) = self.net.output(client.conn)
        {
            Sink::Client { output, replies: &mut client.replies }.put(lines);
        }
    }
}

impl Core {
    /// The control thread may have answered with an error; its client waits for nothing else.
    fn count_control_error(&mut self, client: &Client, reply: &Reply<'_>) {
        let front = match reply {
            Reply::Bytes(bytes) => bytes,
            Reply::Content(content) => content.front(),
        };
        if front.first() == Some(&b'-')
            && let Some(command) = client.last
        {
            self.space.tally.failed(command.id, vec![ErrorCode::of(front)]);
        }
    }

    /// A reply without a reader.
    pub(crate) fn forget_reply(&mut self, reply: Reply<'_>) {
        if let Reply::Content(content) = reply {
            self.space.discard_content(content);
        }
    }
}

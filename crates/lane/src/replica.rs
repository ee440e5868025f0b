//! Clients that are replicas: what they say of themselves, and what their lane tells the control thread of them.
//!
//! What they are sent comes from the control thread in frames, as lines of MONITOR do; each is paid back when it has left the lane,
//! so that never more than a window of it lies here.

use net::{Close, ConnId, Net};
use wire::command::{Command, Id, lookup};
use wire::reply::{self, OK, Proto, Put};

use crate::client::{Announced, Client, LeftOut};
use crate::commands::SYNTAX;
use crate::connection::Wish;
use crate::core::Core;
use crate::dispatch::{Caller, Flow, Input};
use crate::keyspace::Call;
use crate::part::Origin;
use crate::peers::{ControlHead, ControlKind, Parcel};
use crate::replies::Sink;
use crate::request::{Arg, Request};
use crate::slab::Handle;
use crate::transaction::Transaction;
use crate::turn::Lane;

/// The longest address that a replica may say it has, in bytes: one less than Redis' NET_HOST_STR_LEN.
const HOST_SIZE_MAX: usize = 255;

/// REPLCONF option value …: as in Redis, those before one that is wrong have taken effect.
pub(crate) fn configure(client: &mut Client, call: &Call<'_>, sink: &mut Sink<'_>) -> Wish {
    let args = call.args;
    if args.len().is_multiple_of(2) {
        reply::error(sink, SYNTAX);
        return Wish::Nothing;
    }
    for index in (1..args.len()).step_by(2) {
        let (option, value) = (args.flat(index), args.flat(index + 1));
        // These two have no reply.
        if option.eq_ignore_ascii_case(b"ack") {
            let offset = wire::number::parse_i64(value).and_then(|offset| u64::try_from(offset).ok());
            return offset.filter(|_| client.is_replica).map_or(Wish::Nothing, Wish::Acknowledge);
        }
        if option.eq_ignore_ascii_case(b"getack") {
            return Wish::Nothing;
        }
        let following = client.following.get_or_insert_default();
        if let Err(text) = announce(&mut following.announced, option, value) {
            reply::error_bytes(sink, &text);
            return Wish::Nothing;
        }
    }
    sink.put(OK);
    Wish::Nothing
}

fn announce(announced: &mut Announced, option: &[u8], value: &[u8]) -> Result<(), Vec<u8>> {
    let number = || wire::number::parse_i64(value).ok_or("ERR value is not an integer or out of range");
    match option.to_ascii_lowercase().as_slice() {
        b"listening-port" => announced.port = u16::try_from(number()?).unwrap_or(0),
        b"ip-address" if value.len() <= HOST_SIZE_MAX => {
            let is_printable = value.iter().all(u8::is_ascii_graphic);
            announced.ip = String::from_utf8(value.to_vec()).ok().filter(|_| is_printable);
        }
        b"ip-address" => {
            let size = value.len();
            let text =
                format!("ERR REPLCONF ip-address provided by replica instance is too long: {size} bytes");
            return Err(text.into_bytes());
        }
        b"capa" => announced.takes_any_length |= value.eq_ignore_ascii_case(b"eof"),
        b"rdb-only" => match number()? {
            number @ (0 | 1) => announced.wants_snapshot_only = number == 1,
            _ => return Err("ERR value is out of range, value must between 0 and 1".into()),
        },
        b"rdb-filter-only" => {
            let words = wire::resp::words(value).ok_or("ERR Missing rdb-filter-only values")?;
            announced.leaves_out = LeftOut { keys: true, functions: true };
            for word in words {
                if !word.eq_ignore_ascii_case(b"functions") {
                    let text: &[u8] = b"ERR Unsupported rdb-filter-only option: ";
                    return Err([text, reply::quoted(&word)].concat());
                }
                announced.leaves_out.functions = false;
            }
        }
        _ => return Err([b"ERR Unrecognized REPLCONF option: ", reply::quoted(option)].concat()),
    }
    Ok(())
}

impl Core {
    /// A command of a replica, which may say how far it is, and that it is one. Whatever else has an answer, which it would take for a part
    /// of the stream: as in Redis it is closed instead.
    #[cold]
    pub(crate) fn hear_replica(
        &mut self,
        caller: &mut Caller<'_>,
        command: &'static Command,
        input: &mut Input<'_>,
    ) -> Flow {
        match command.id {
            Id::Replconf => self.dispatch_connection(caller, command, input),
            Id::Sync | Id::Psync | Id::Monitor => Flow::Next,
            _ => Flow::Leave,
        }
    }

    /// A replica has come so far.
    pub(crate) fn tell_ack(&mut self, client: Handle<Client>, offset: u64) {
        let head = ControlHead { target: client.to_bits(), round: 0, kind: ControlKind::Acked };
        let control = self.lane_count;
        // It says so again within a second.
        let _ = self.peer(control).try_tell(head, &mut Some(Parcel::Offset(Box::new(offset))));
    }

    /// Begins a snapshot for the control thread: on all lanes at one point in time, with what they hold locked for as long as that takes.
    pub(crate) fn sync(&mut self, ticket: u64, charge: u16, sync: u64, epoch: u64) {
        let command = lookup(b"sync").expect("SYNC is in the table");
        let mut request = Request::default();
        request.push(Arg::Flat(b"sync"));
        for number in [sync, epoch] {
            request.push(Arg::Flat(number.to_string().as_bytes()));
        }
        let origin = Origin::Control { ticket, charge };
        let begun =
            self.begin_transaction(Transaction::of_command(origin, Proto::Resp2, command, request, 0));
        assert!(begun.is_none(), "the control thread is told, not delivered to");
    }

    /// A client has gone, or says RESET, that is a replica or waits for some.
    pub(crate) fn end_replica(&mut self, client: &mut Client, handle: Handle<Client>) {
        if std::mem::take(&mut client.is_replica) {
            let head = ControlHead { target: handle.to_bits(), round: 0, kind: ControlKind::ReplicaGone };
            self.untold.push_back((self.lane_count, head));
        }
        if client.waits_for_replicas() {
            let head = ControlHead { target: handle.to_bits(), round: 0, kind: ControlKind::WaiterGone };
            self.untold.push_back((self.lane_count, head));
        }
        self.tell_untold();
    }
}

impl Lane {
    /// This client is a replica from now on, if it is still there.
    pub(crate) fn make_replica<N: Net>(&mut self, client: u64, net: &mut N) -> bool {
        let handle = Handle::from_bits(client);
        let Some(client) = self.clients.get_mut(handle) else { return false };
        client.is_replica = true;
        // What it says from here on is looked at where strangers' commands are: see `Core::hear_replica`.
        client.is_authenticated = false;
        let had_size = put_size(client, net);
        let following = client.following.get_or_insert_default();
        (following.had_size, following.sent_size, following.told_size) = (had_size, 0, 0);
        self.replicas.push(handle);
        true
    }

    /// Something has come from a replica, if it is one, be it nothing but an empty line: it is there.
    pub(crate) fn note_alive(&mut self, conn: ConnId) {
        let Some(handle) = self.client_of(conn) else { return };
        if self.clients.get(handle).is_some_and(|client| client.is_replica) {
            let head = ControlHead { target: handle.to_bits(), round: 0, kind: ControlKind::Acked };
            let control = self.core.lane_count;
            let _ = self.core.peer(control).try_tell(head, &mut None);
        }
    }

    /// Tells the control thread how much of what replicas were sent has left, and closes one that has been answered something: it would
    /// take that for a part of the stream. After the turn's flush.
    pub(crate) fn note_taken<N: Net>(&mut self, net: &mut N) {
        let Lane { replicas, clients, core, .. } = self;
        replicas.retain(|&handle| {
            let Some(client) = clients.get_mut(handle).filter(|client| client.is_replica) else {
                return false;
            };
            let put_size = put_size(client, net);
            let unread = net.output(client.conn).map_or(0, |output| output.len()) + client.replies.size();
            let following = client.following.get_or_insert_default();
            if put_size != following.had_size + following.sent_size {
                net.close(client.conn, Close::Now);
                return false;
            }
            let left = following.sent_size.saturating_sub(unread as u64);
            let news = left.saturating_sub(following.told_size);
            if news > 0 {
                following.told_size = left;
                let round = u32::try_from(news).expect("a window is smaller");
                let head = ControlHead { target: handle.to_bits(), round, kind: ControlKind::Taken };
                core.untold.push_back((core.lane_count, head));
            }
            true
        });
    }
}

/// Bytes that a connection has been given, those that wait in a queue of replies included.
fn put_size<N: Net>(client: &Client, net: &mut N) -> u64 {
    let written = net.output(client.conn).map_or(0, |output| output.written());
    written + client.replies.size() as u64
}

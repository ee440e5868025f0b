//! Clients in and out: connections that come, from sockets or from other lanes, what they bring, and their end.

use net::{Close, ConnId, Handover, ListenerId, Need, Net};

use super::Lane;
use crate::client::{Client, Dialect, Door, Ends, Port};
use crate::language::Language;
use crate::peers::{ControlHead, ControlKind, Parcel};
use crate::serve::give_up;
use crate::slab::Handle;

impl Lane {
    pub(super) fn open<N: Net>(&mut self, conn: ConnId, listener: ListenerId, ends: Ends, net: &mut N) {
        self.core.stats.connections += 1;
        let door = self.core.settings.doors.get(listener.0 as usize).copied().unwrap_or(Door::SHARED);
        if !self.core.board.admit(self.core.settings.client_count_max) {
            self.core.stats.clients_rejected += 1;
            if let Some(output) = net.output(conn) {
                output.extend(match door.dialect {
                    Dialect::Redis => b"-ERR max number of clients reached\r\n".as_slice(),
                    Dialect::Memcached => b"ERROR Too many open connections\r\n",
                    // Who has asked nothing is told nothing.
                    Dialect::Couchbase | Dialect::Management | Dialect::Aerospike => b"",
                });
            }
            return net.close(conn, Close::AfterFlush);
        }
        self.core.board.burden(self.core.id);
        self.admit(conn, door, ends);
        self.place(conn, door, ends.peer, net);
    }

    fn admit(&mut self, conn: ConnId, door: Door, ends: Ends) -> Handle<Client> {
        let index = conn.index() as usize;
        if self.by_conn.len() <= index {
            self.by_conn.resize(index + 1, None);
        }
        // Closed in this turn, a connection has lost its place already, and its end is told in the next one.
        if let Some((before, _)) = self.by_conn[index] {
            self.leave(before);
        }
        let id = self.core.board.next_client_id();
        let is_authenticated = match door.dialect {
            Dialect::Redis => self.core.settings.users.are_open(),
            _ => self.core.settings.password.is_none(),
        };
        let now_ns = self.core.space.now.mono_ns;
        let mut client = Client::new(conn, door, ends, id, now_ns, is_authenticated);
        client.db = self.core.settings.first_database(door.dialect);
        client.language = Language::of(door.dialect, &self.core.settings.namespaces);
        let handle = self.clients.insert(client);
        self.by_conn[index] = Some((conn, handle));
        self.weigh(handle);
        if !is_authenticated {
            self.core.strangers.push_back((handle, now_ns));
        }
        handle
    }

    /// Gives a connection that has not been read from to another lane, which serves its packets' queue or has fewer clients;
    /// false if it stays here after all.
    pub(crate) fn hand_over<N: Net>(
        &mut self,
        conn: ConnId,
        dialect: Dialect,
        lane: u16,
        is_pinned: bool,
        net: &mut N,
    ) -> bool {
        let Some(handover) = net.give(conn) else { return false };
        self.forget(conn);
        let mut parcel = Some(Parcel::Handover(Box::new(handover)));
        let kind = ControlKind::Handover;
        let head = ControlHead { target: u64::from(is_pinned), round: dialect as u32, kind };
        self.core.board.burden(lane);
        let is_given = self.core.peer(lane).try_tell(head, &mut parcel);
        if is_given {
            self.core.stats.handovers += 1;
        } else if let Some(Parcel::Handover(handover)) = parcel {
            self.core.board.relieve(lane);
            self.core.board.burden(self.core.id);
            self.take(*handover, dialect, net);
        }
        is_given
    }

    /// Lets a connection in that a lane gives, and that has been this lane's burden since. Should the system not, its client
    /// has gone.
    pub(super) fn take<N: Net>(&mut self, handover: Handover, dialect: Dialect, net: &mut N) {
        let ends = Ends { peer: handover.peer, local: handover.local };
        match net.take(handover) {
            Some(conn) => {
                self.admit(conn, Door { port: Port::Shared, dialect }, ends);
            }
            None => {
                self.core.board.relieve(self.core.id);
                self.core.board.dismiss();
            }
        }
    }

    /// Lets a connection of this program's own in: nobody counts it, and nothing is asked of it.
    pub(super) fn take_inner<N: Net>(&mut self, handover: Handover, net: &mut N) {
        let ends = Ends { peer: handover.peer, local: handover.local };
        let Some(conn) = net.take(handover) else { return };
        self.core.board.burden(self.core.id);
        let handle = self.admit(conn, Door::SHARED, ends);
        let client = self.clients.get_mut(handle).expect("it has just been let in");
        client.is_inner = true;
        client.is_authenticated = true;
    }

    /// A client that was held back goes on.
    pub(crate) fn enqueue(&mut self, handle: Handle<Client>) {
        if let Some(client) = self.clients.get_mut(handle) {
            self.ready.go_on(handle, client);
        }
    }

    #[inline(always)]
    pub(crate) fn client_of(&self, conn: ConnId) -> Option<Handle<Client>> {
        let (known, handle) = (*self.by_conn.get(conn.index() as usize)?)?;
        (known == conn).then_some(handle)
    }

    /// Says whether its client is a replica, or waits for some or for the end of a pause.
    #[inline(always)]
    pub(super) fn arrived(&mut self, conn: ConnId) -> bool {
        let Some(handle) = self.client_of(conn) else { return false };
        let client = self.clients.get_mut(handle).expect("a known connection has a client");
        client.need = Need::More;
        self.ready.arrive(handle, client, self.core.space.now.mono_ns);
        client.is_replica || client.is_blocked || client.is_held
    }

    /// Input has come of a client that is served otherwise than by and by: one that has ended its side while it waits for others is closed;
    /// a replica lives.
    #[cold]
    pub(super) fn look_behind<N: Net>(&mut self, conn: ConnId, net: &mut N) {
        let Some(handle) = self.client_of(conn) else { return };
        let client = self.clients.get_mut(handle).expect("a known connection has a client");
        if !client.is_held && !client.waits_for_replicas() {
            return self.note_alive(conn);
        }
        if let Some(stream) = net.stream(conn, Need::More).filter(|stream| stream.end) {
            let unread = stream.output.len();
            give_up(client, net, unread);
            self.stirred.push(handle);
        }
    }

    /// Forgets a client. What it has begun goes on to its end; answers find nobody.
    pub(super) fn leave(&mut self, conn: ConnId) {
        let client = self.client_of(conn).and_then(|handle| self.clients.get(handle));
        let is_counted = client.is_some_and(|client| !client.is_inner);
        self.forget(conn);
        if is_counted {
            self.core.board.dismiss();
        }
    }

    /// Forgets a client of this lane, who may go on as another's.
    fn forget(&mut self, conn: ConnId) -> bool {
        let Some(handle) = self.client_of(conn) else { return false };
        self.by_conn[conn.index() as usize] = None;
        let client = self.clients.remove(handle).expect("a known connection has a client");
        self.core.clients_size -= client.weighed();
        self.core.forget_client(client, handle);
        self.core.board.relieve(self.core.id);
        true
    }
}

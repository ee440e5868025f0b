//! What other lanes say, and the control thread: answers to this lane's asks, words to its parts, asks of its data.

use std::collections::VecDeque;
use std::sync::Arc;

use net::Net;
use store::Budget;
use wire::command::{COMMANDS, Scope};
use wire::reply::{self, Proto, Put};
use wire::route::Slot;

use super::{Core, Ordered, Pending, Ran};
use crate::client::{Dialect, Port};
use crate::keyspace::{Call, Route};
use crate::locks::Refusal;
use crate::part::Origin;
use crate::peers::{
    AnswerHead, AnswerKind, AskHead, AskKind, ControlHead, ControlKind, Parcel, Peer, TRACKED_QUIET,
    TRACKED_READS, decode_grant,
};
use crate::post::Post;
use crate::replies::{Content, Sink};
use crate::request::{Args, Request};
use crate::slab::Handle;
use crate::timing::{Extent, StretchKind};
use crate::tracking::By;
use crate::transaction::PartAnswer;
use crate::turn::Meter;
use crate::watch::WatcherId;

/// A reply that another lane has sent.
pub(crate) enum Reply<'a> {
    Bytes(&'a [u8]),
    Content(Content),
}

/// What a control frame brings for clients.
pub(crate) enum Told {
    /// A connection that another lane gives, and what is spoken on it.
    Handover(Box<net::Handover>, Dialect),
    /// A connection of this program's own.
    Inner(Box<net::Handover>),
    /// Lines for a client that monitors.
    Lines(u64, Arc<Vec<u8>>),
    /// The reply to a client's command that was put off, and its place.
    Answered(u64, u32, Content),
}

/// The words of an ask.
enum Words<'a> {
    /// In its frame, which holds few.
    Frame(Args<'a>),
    /// However many: they are taken as they are, not copied.
    Owned(&'a mut Request),
}

impl Words<'_> {
    #[inline]
    fn args(&self) -> Args<'_> {
        match self {
            Words::Frame(args) => *args,
            Words::Owned(request) => Args::Owned(request),
        }
    }

    /// The same once more.
    fn lend(&mut self) -> Words<'_> {
        match self {
            Words::Frame(args) => Words::Frame(*args),
            Words::Owned(request) => Words::Owned(request),
        }
    }

    /// For later. Of those that are owned none is left.
    fn take(&mut self) -> Request {
        match self {
            Words::Frame(args) => args.to_request(),
            Words::Owned(request) => std::mem::take(request),
        }
    }
}

/// Frames of lines, 64 KiB each at most, that are taken in a turn.
const LINES_PER_TURN: usize = 4;

/// Asks that are looked at before the first of them runs.
const ASKS_AHEAD: usize = 16;

impl Core {
    /// Takes all answers of a lane; those to clients go into the post.
    pub(crate) fn hear_answers<N: Net>(&mut self, lane: u16, post: &mut Post<'_, N>) {
        let at = usize::from(lane);
        let mut peer = self.peers[at].take().expect("a lane has a peer for every other");
        // Parts may be told things while answers are taken, so the peer goes back for each of those.
        while let Some(frame) = peer.answers_in.peek() {
            let (head, bytes) = AnswerHead::decode(frame);
            if head.kind == AnswerKind::Inline {
                let (mut count, mut charge, mut longest) = (0, 0, 0);
                let answers = peer.answers_in.ahead().map(AnswerHead::decode);
                let replies = answers
                    .take_while(|(next, _)| next.kind == AnswerKind::Inline && next.target == head.target)
                    .map(|(next, bytes)| {
                        count += 1;
                        charge += usize::from(next.charge);
                        longest = longest.max(bytes.len());
                        (next.slot, Reply::Bytes(bytes))
                    });
                post.deliver(self, lane, head.target, replies);
                peer.credit(charge, count, longest);
                peer.answers_in.pop_seen(count);
                continue;
            }
            let granted = (head.kind == AnswerKind::Granted).then(|| decode_grant(bytes));
            let parcel = peer.answers_in.take_parcel();
            peer.answers_in.pop();
            let size = if let Some(Parcel::Content(content)) = &parcel { content.size() } else { 0 };
            peer.credit(usize::from(head.charge), 1, size);
            self.peers[at] = Some(peer);
            let transaction = Handle::from_bits(head.target);
            match (head.kind, parcel) {
                (AnswerKind::Content, Some(Parcel::Content(content))) => {
                    let reply = (head.slot, Reply::Content(*content));
                    post.deliver(self, lane, head.target, std::iter::once(reply));
                }
                (AnswerKind::Granted, None) => {
                    let (part, grant) = granted.expect("just read");
                    self.hear_part(transaction, lane, PartAnswer::Granted { part, grant });
                }
                (AnswerKind::Later, None) => {}
                (AnswerKind::Exec, Some(Parcel::Content(content))) => {
                    self.hear_answer(transaction, *content);
                }
                (AnswerKind::GivenBack, Some(Parcel::Transaction(mut transaction))) => {
                    transaction.come_back(Handle::from_bits(head.target), head.slot);
                    let delivery = self.begin_transaction(*transaction);
                    self.deliveries.extend(delivery);
                }
                (AnswerKind::Refused, None) => {
                    let refusal = Refusal::from_bits(head.slot);
                    self.hear_part(transaction, lane, PartAnswer::Refused(refusal));
                }
                (AnswerKind::Results, Some(Parcel::Results(results))) => {
                    self.hear_part(transaction, lane, PartAnswer::Results(*results));
                }
                _ => unreachable!("answers carry what their kind says"),
            }
            peer = self.peers[at].take().expect("just put back");
        }
        peer.answers_in.release();
        self.peers[at] = Some(peer);
    }

    /// Takes the control frames of a lane, and of the control thread, up to [`LINES_PER_TURN`] of which have lines for
    /// clients that monitor; what concerns clients goes to `take`. False when some were left for the next turn.
    pub(crate) fn hear_control(&mut self, lane: u16, take: &mut impl FnMut(Told)) -> bool {
        let at = usize::from(lane);
        let mut lines_left = LINES_PER_TURN;
        while lines_left > 0 {
            let control = &mut self.peers[at].as_mut().expect("a lane has a peer for every other").control_in;
            let Some(frame) = control.peek() else { break };
            let head = ControlHead::decode(frame);
            let parcel = control.take_parcel();
            control.pop();
            match (head.kind, parcel) {
                (ControlKind::Go, Some(Parcel::Go(go))) => self.part_goes(head.target, *go),
                (ControlKind::Withdraw, None) => self.withdraw_part(head.target),
                (ControlKind::Handover, Some(Parcel::Handover(handover))) => {
                    self.stats.pin_placed += head.target;
                    take(Told::Handover(handover, Dialect::from_bits(head.round)));
                }
                (ControlKind::Inner, Some(Parcel::Handover(handover))) => take(Told::Inner(handover)),
                (ControlKind::Lines, Some(Parcel::Lines(lines))) => {
                    lines_left -= 1;
                    take(Told::Lines(head.target, lines));
                }
                (ControlKind::Waited, Some(Parcel::Offset(count))) => {
                    let mut content = Content::default();
                    content.put(format!(":{count}\r\n").as_bytes());
                    take(Told::Answered(head.target, head.round, content));
                }
                (ControlKind::Waited, None) => {
                    let mut content = Content::default();
                    reply::error(&mut content, "UNBLOCKED client unblocked via CLIENT UNBLOCK");
                    take(Told::Answered(head.target, head.round, content));
                }
                (ControlKind::Answered, Some(Parcel::Content(content))) => {
                    take(Told::Answered(head.target, head.round, *content));
                }
                (ControlKind::Unwatch, None) => {
                    self.space.unwatch(WatcherId { lane, client: head.target, round: head.round });
                }
                (ControlKind::News, Some(Parcel::News(news))) => self.hear_news(lane, *news),
                (ControlKind::Yield, None) => {
                    self.space.room.owe(lane, head.target, false, self.space.now.mono_ns);
                }
                (ControlKind::Need, None) => {
                    self.space.room.owe(lane, head.target, true, self.space.now.mono_ns);
                }
                (ControlKind::Lend, None) => {
                    self.space.room.receive(head.target, head.round > 0, self.space.now.mono_ns);
                }
                (ControlKind::Message, Some(Parcel::Message(message))) => {
                    self.hear_message(lane, head.target, message);
                }
                (ControlKind::Receivers, None) => {
                    self.hear_receivers(lane, head.target, u64::from(head.round));
                }
                (ControlKind::Publish, Some(Parcel::Message(message))) => {
                    self.publish(message, Origin::Transaction { lane, transaction: head.target });
                }
                (ControlKind::Published, None) => self.hear_published(head.target, head.round),
                // The turn that hears it looks.
                (ControlKind::Crowded, None) => {}
                _ => unreachable!("control frames carry what their kind says"),
            }
        }
        self.peers[at].as_mut().expect("as above").control_in.release();
        lines_left > 0
    }

    /// Serves up to `count` asks of a lane, as long as they have time; says how many.
    pub(crate) fn hear_asks(&mut self, lane: u16, count: usize, meter: &impl Meter) -> usize {
        let at = usize::from(lane);
        let mut peer = self.peers[at].take().expect("a lane has a peer for every other");
        // Who asks is answered.
        self.addressed.insert(at);
        let mut served = 0;
        let mut mark = self.mark(meter);
        if lane < self.lane_count {
            self.stats.ring_depth_max = self.stats.ring_depth_max.max(peer.asks_in.waiting_size() as u64);
        }
        let mut routes = [None; ASKS_AHEAD];
        while served < count && !self.timing.is_spell_over() {
            let place = served % ASKS_AHEAD;
            if place == 0 {
                // Asks that are published from here on wait for the next look: routes are of what has been seen.
                if peer.asks_in.is_empty() {
                    break;
                }
                routes = self.approach_asks(&peer);
            }
            let Some(frame) = peer.asks_in.peek() else { break };
            served += 1;
            let (head, args) = AskHead::decode(frame);
            let mut extent = Extent { arg_count: args.len(), size: frame.len() };
            match head.kind {
                AskKind::Inline => {
                    let answer = self.serve_ask(lane, &head, Words::Frame(args), routes[place].as_ref());
                    peer.asks_in.pop();
                    if let Some((head, content)) = answer {
                        peer.answer(head, &self.reply, content);
                    }
                }
                AskKind::Tracked => {
                    let answer = self.serve_tracked(lane, &head, Words::Frame(args));
                    peer.asks_in.pop();
                    if let Some((head, content)) = answer {
                        peer.answer(head, &self.reply, content);
                    }
                }
                AskKind::TrackedRequest => {
                    let Some(Parcel::Request(mut request)) = peer.asks_in.take_parcel() else {
                        unreachable!("asks carry what their kind says")
                    };
                    peer.asks_in.pop();
                    extent = Extent::of(&request);
                    self.space.expect_bytes(request.size());
                    let answer = self.serve_tracked(lane, &head, Words::Owned(&mut request));
                    self.space.expect_bytes(0);
                    if let Some((head, content)) = answer {
                        peer.answer(head, &self.reply, content);
                    }
                    self.space.discard(*request);
                }
                AskKind::Request => {
                    let Some(Parcel::Request(mut request)) = peer.asks_in.take_parcel() else {
                        unreachable!("asks carry what their kind says")
                    };
                    peer.asks_in.pop();
                    extent = Extent::of(&request);
                    self.space.expect_bytes(request.size());
                    let answer = self.serve_ask(lane, &head, Words::Owned(&mut request), None);
                    self.space.expect_bytes(0);
                    if let Some((head, content)) = answer {
                        peer.answer(head, &self.reply, content);
                    }
                    self.space.discard(*request);
                }
                AskKind::Prepare => {
                    let Some(Parcel::Prepare(prepare)) = peer.asks_in.take_parcel() else {
                        unreachable!("asks carry what their kind says")
                    };
                    peer.asks_in.pop();
                    self.peers[at] = Some(peer);
                    self.admit_prepared(lane, *prepare);
                    peer = self.peers[at].take().expect("just put back");
                }
                AskKind::Publish => {
                    let Some(Parcel::Request(request)) = peer.asks_in.take_parcel() else {
                        unreachable!("asks carry what their kind says")
                    };
                    peer.asks_in.pop();
                    extent = Extent::of(&request);
                    self.peers[at] = Some(peer);
                    self.publish_for(lane, &head, *request);
                    peer = self.peers[at].take().expect("just put back");
                }
                AskKind::Transaction => {
                    let Some(Parcel::Transaction(transaction)) = peer.asks_in.take_parcel() else {
                        unreachable!("asks carry what their kind says")
                    };
                    peer.asks_in.pop();
                    self.peers[at] = Some(peer);
                    self.stats.asks_served += 1;
                    self.begin_transaction(*transaction);
                    peer = self.peers[at].take().expect("just put back");
                }
                AskKind::Order => {
                    let order = peer.asks_in.take_parcel();
                    peer.asks_in.pop();
                    let Some(Parcel::Order(order)) = order else {
                        unreachable!("asks carry what their kind says")
                    };
                    self.orders.push_back(Ordered {
                        ticket: head.client,
                        charge: head.charge,
                        order: *order,
                    });
                }
                AskKind::Question | AskKind::ExecQuestion => {
                    unreachable!("only the control thread is asked questions")
                }
            }
            let runs = !matches!(
                head.kind,
                AskKind::Prepare | AskKind::Order | AskKind::Question | AskKind::ExecQuestion
            );
            let command = runs.then(|| &COMMANDS[usize::from(head.id)]);
            let now = self.mark(meter);
            self.timing.note(StretchKind::Ask, command, extent, now.wrapping_sub(mark));
            mark = now;
        }
        peer.asks_in.release();
        self.peers[at] = Some(peer);
        served
    }

    /// Brings near what the next asks will look at, as is done for clients' commands; where their keys belong. Asks that
    /// arrive later have none.
    fn approach_asks(&mut self, peer: &Peer) -> [Option<Route>; ASKS_AHEAD] {
        let mut routes = [None; ASKS_AHEAD];
        let walks = std::mem::take(&mut self.space.walks);
        let mut approaches = self.space.shard.approaches(walks);
        for (route, frame) in routes.iter_mut().zip(peer.asks_in.ahead()) {
            let (head, args) = AskHead::decode(frame);
            if matches!(head.kind, AskKind::Inline) {
                *route = self.route_of(&head, args);
                if let Some(Route { slot, hash }) = *route {
                    approaches.begin(head.db, slot.number(), hash);
                }
            }
        }
        self.space.walks = approaches.arrive();
        routes
    }

    /// Where the key of an ask that has one belongs.
    fn route_of(&self, head: &AskHead, args: Args<'_>) -> Option<Route> {
        let command = &COMMANDS[usize::from(head.id)];
        let slot = Slot::new(head.key_slot).filter(|_| command.scope == Scope::Key)?;
        let bytes = args.flat(usize::from(command.keys.first));
        Some(Route { slot, hash: self.space.shard.key(head.db, slot.number(), bytes).hash })
    }

    /// As [`Core::serve_ask`], for a client that tracks keys. What has more keys than a step remembers becomes a part, which does.
    #[cold]
    fn serve_tracked(
        &mut self,
        lane: u16,
        head: &AskHead,
        mut words: Words<'_>,
    ) -> Option<(AnswerHead, Content)> {
        let (remembers, is_quiet) = (head.proto & TRACKED_READS > 0, head.proto & TRACKED_QUIET > 0);
        let by = By { reader: (lane, head.client), remembers, is_quiet };
        let head = AskHead { proto: head.proto & !(TRACKED_READS | TRACKED_QUIET), ..*head };
        self.space.by = Some(by);
        let answer = self.serve_ask(lane, &head, words.lend(), None);
        self.space.by = None;
        if answer.is_some() {
            let command = &COMMANDS[usize::from(head.id)];
            let of = (command, words.args(), head.db);
            let is_whole =
                self.space.remember_keys(Some(by), of, &mut 0, &mut Budget::new(u32::MAX, u32::MAX));
            assert!(is_whole, "what runs at once has few keys");
        }
        answer
    }

    /// Runs a command of another lane's client. The reply's bytes are in `self.reply`; without an answer it has to wait.
    #[inline]
    fn serve_ask(
        &mut self,
        lane: u16,
        head: &AskHead,
        mut words: Words<'_>,
        route: Option<&Route>,
    ) -> Option<(AnswerHead, Content)> {
        self.stats.asks_served += 1;
        let command = &COMMANDS[usize::from(head.id)];
        let proto = if head.proto == 3 { Proto::Resp3 } else { Proto::Resp2 };
        let args = words.args();
        debug_assert!(
            route.is_none_or(|known| Some(*known) == self.route_of(head, args)),
            "a route is its ask's"
        );
        let found;
        let route = match route {
            None => {
                found = self.route_of(head, args);
                found.as_ref()
            }
            known => known,
        };
        let call = Call { command, args, db: head.db, proto, route, port: Port::Shared };
        let (asker, by) = ((lane, head.client), self.space.by);
        let origin = Origin::Ask { lane, client: head.client, slot: head.slot, charge: head.charge };
        let pending = |request: Request| Pending {
            origin,
            port: Port::Shared,
            proto,
            db: head.db,
            command,
            request,
            route: route.copied(),
            by,
        };
        if let Some(line) = self.lines.get_mut(&asker) {
            line.push_back(pending(words.take()));
            return None;
        }
        let mut content = Content::default();
        let ran = if self.can_run(&call) {
            let mut bytes = std::mem::take(&mut self.reply);
            bytes.clear();
            let ran = self.run(&call, &mut Sink::Ask { bytes: &mut bytes, content: &mut content });
            self.reply = bytes;
            ran
        } else {
            Ran::Waits
        };
        if content.has_erred() {
            self.space.tally.failed(command.id, content.take_errors());
        }
        match ran {
            Ran::Done => {}
            Ran::Begun(progress) => {
                let mut whole = Content::default();
                whole.put(&self.reply);
                whole.append(content);
                self.lines.insert(asker, VecDeque::new());
                self.go_on(pending(words.take()), progress, whole);
                return None;
            }
            Ran::Waits => {
                self.lines.insert(asker, VecDeque::new());
                self.begin_part(pending(words.take()));
                return None;
            }
        }
        let answer = AnswerHead {
            target: head.client,
            slot: head.slot,
            charge: head.charge,
            kind: AnswerKind::Inline,
        };
        Some((answer, content))
    }
}

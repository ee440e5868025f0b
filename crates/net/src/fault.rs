//! A net made worse, for tests: any [`Net`] with faults denser than life, from a seed.
//!
//! What it does is what networks and kernels may do at any time, so a lane that keeps the seam's contract notices
//! nothing but delay: frames arrive cut, events late and in another order among connections, output leaves in
//! pieces, and now and then a connection is cut off. It never changes, repeats or loses a byte of one that lives, and
//! the same seed over the same calls does the same.

use std::collections::{BTreeMap, VecDeque};

use crate::chance::Chance;
use crate::{Bell, Close, ConnId, Counters, Event, Handover, Limits, Need, Net, Output, Stream, Wait, Why};

/// The longest time for which an event is held back, turns.
const DELAY_TURNS_MAX: usize = 5;

/// How often what goes wrong, in thousandths. All zero is a quiet net that passes everything through.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// A look at the input shows only a part of what was received; the rest is announced in a later turn.
    pub cut_input: u16,
    /// Input or room is told up to five turns late. Beginnings and ends are not: where a connection was, another may be
    /// taken in this very turn, and a lane is never told of two in one place.
    pub delay_event: u16,
    /// Only a part of a connection's output leaves in a turn.
    pub shorten_send: u16,
    /// A turn tells its events in another order among connections.
    pub reorder_events: u16,
    /// A turn begins by cutting off some connection.
    pub drop_connection: u16,
    /// A connection that another net has given is not let in.
    pub refuse_taken: u16,
}

/// What has gone wrong so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Injected {
    /// Looks at input that were cut.
    pub cuts: u64,
    /// Events told late.
    pub delays: u64,
    /// Sends that were shortened.
    pub short_sends: u64,
    /// Turns with events in another order.
    pub reorders: u64,
    /// Connections cut off.
    pub drops: u64,
    /// Given connections not let in.
    pub refusals: u64,
}

/// A [`Net`] that makes another one worse.
#[derive(Debug)]
pub struct Fault<N> {
    inner: N,
    faults: Faults,
    chance: Chance,
    injected: Injected,
    lines: BTreeMap<ConnId, Line>,
    held: VecDeque<Held>,
    fresh: Vec<Event>,
}

/// One connection.
#[derive(Debug, Default)]
struct Line {
    /// The lane may see this much of the unconsumed input below.
    shown: usize,
    /// There is more of it.
    hidden: bool,
    /// The net below has announced input that it was not asked for yet.
    told_below: bool,
    /// The lane has been told of input that it has not asked for yet.
    told: bool,
    output: Output,
    above_mark: bool,
    /// The lane has closed it, and what waits here still has to go.
    closing: bool,
    /// Cut off by us.
    dropped: bool,
}

#[derive(Debug)]
struct Held {
    event: Event,
    turns_left: usize,
}

impl<N: Net> Fault<N> {
    /// Makes `inner` worse. `seed` decides everything.
    pub fn new(inner: N, faults: Faults, seed: u64) -> Fault<N> {
        Fault {
            inner,
            faults,
            chance: Chance::new(seed),
            injected: Injected::default(),
            lines: BTreeMap::new(),
            held: VecDeque::new(),
            fresh: Vec::new(),
        }
    }

    /// The net below, to add listeners to.
    pub fn inner(&mut self) -> &mut N {
        &mut self.inner
    }

    /// Changes what goes wrong from now on.
    pub fn set_faults(&mut self, faults: Faults) {
        self.faults = faults;
    }

    /// What has gone wrong so far.
    pub fn injected(&self) -> Injected {
        self.injected
    }

    fn drop_some(&mut self) {
        let victims = self.lines.iter().filter(|(_, line)| !line.dropped && !line.closing);
        let count = victims.clone().count();
        if count == 0 {
            return;
        }
        let (&conn, _) = victims.clone().nth(self.chance.below(count)).expect("below their count");
        self.lines.get_mut(&conn).expect("it was just found").dropped = true;
        self.inner.close(conn, Close::Now);
        self.injected.drops += 1;
    }

    /// Takes over what happened below, and what was hidden here.
    fn hold_fresh(&mut self) {
        let mut fresh = std::mem::take(&mut self.fresh);
        self.inner.poll(&mut fresh);
        for mut event in fresh.drain(..) {
            match &mut event {
                Event::Opened { conn, .. } => {
                    self.lines.insert(*conn, Line::default());
                }
                Event::Input(conn) => {
                    if let Some(line) = self.lines.get_mut(conn) {
                        line.told_below = true;
                    }
                    continue;
                }
                Event::Writable(_) => continue,
                Event::Closed { conn, why } => {
                    if let Some(line) = self.lines.get_mut(conn) {
                        if *why == Why::Asked && line.dropped {
                            *why = Why::Reset;
                        }
                        // Nothing more is told of it: a late word would hold up what happens to its successor.
                        line.told = true;
                    }
                }
            }
            self.hold(event);
        }
        self.fresh = fresh;
        let mut due = Vec::new();
        for (conn, line) in &mut self.lines {
            if (line.told_below || line.hidden) && !line.told {
                line.told = true;
                due.push(*conn);
            }
        }
        for conn in due {
            self.hold(Event::Input(conn));
        }
    }

    fn hold(&mut self, event: Event) {
        let mut turns_left = 0;
        if let Event::Closed { conn, .. } = event {
            self.held.retain(|held| whose(held.event) != conn || matches!(held.event, Event::Opened { .. }));
        }
        let may_be_late = matches!(event, Event::Input(_) | Event::Writable(_));
        if self.chance.hits(self.faults.delay_event) && may_be_late {
            turns_left = 1 + self.chance.below(DELAY_TURNS_MAX);
            self.injected.delays += 1;
        }
        self.held.push_back(Held { event, turns_left });
    }

    /// The held events that are due, in an order that keeps what happened at each index. The index and not the
    /// handle, because a successor may not be announced before its predecessor's end.
    fn release(&mut self) -> Vec<Event> {
        let mut due = Vec::new();
        let mut kept: VecDeque<Held> = VecDeque::new();
        for mut held in self.held.drain(..) {
            let index = whose(held.event).index();
            let behind = kept.iter().any(|earlier| whose(earlier.event).index() == index);
            if held.turns_left == 0 && !behind {
                due.push(held.event);
            } else {
                held.turns_left = held.turns_left.saturating_sub(1);
                kept.push_back(held);
            }
        }
        self.held = kept;
        if due.len() > 1 && self.chance.hits(self.faults.reorder_events) {
            let mut keys = BTreeMap::new();
            for event in &due {
                keys.insert(whose(*event).index(), self.chance.below(1 << 20));
            }
            due.sort_by_key(|event| keys[&whose(*event).index()]);
            self.injected.reorders += 1;
        }
        due
    }

    /// Lets output through to the net below, once the piece before has left it.
    fn pass_down(&mut self) {
        for (&conn, line) in &mut self.lines {
            let Some(below) = self.inner.output(conn) else { continue };
            if below.is_empty() && line.output.held() > 0 {
                let mut size = line.output.held();
                if self.chance.hits(self.faults.shorten_send) {
                    size = self.chance.below(size);
                    self.injected.short_sends += 1;
                }
                below.append_front(&mut line.output, size);
            }
            if line.closing && line.output.held() == 0 {
                self.inner.close(conn, Close::AfterFlush);
            }
        }
    }

    /// Looks at what the net below has sent, and notes who has sunk below the mark.
    fn look_below(&mut self) {
        let mark = self.inner.limits().output_mark;
        let mut writable = Vec::new();
        for (&conn, line) in &mut self.lines {
            let Some(below) = self.inner.output(conn) else { continue };
            line.output.set_under_way(below.len());
            let above = mark < line.output.len();
            if std::mem::replace(&mut line.above_mark, above) && !above && !line.closing {
                writable.push(conn);
            }
        }
        for conn in writable {
            self.hold(Event::Writable(conn));
        }
    }

    /// Whether a turn would have something to do with what is held here.
    fn has_held_work(&mut self) -> bool {
        let mut has_work = !self.held.is_empty();
        for (&conn, line) in &self.lines {
            has_work |= (line.hidden || line.told_below) && !line.told;
            has_work |= (line.output.held() > 0 || line.closing)
                && self.inner.output(conn).is_some_and(|below| below.is_empty());
        }
        has_work
    }

    /// A connection that the lane may still use.
    fn is_open(&self, conn: ConnId) -> bool {
        self.lines.get(&conn).is_some_and(|line| !line.closing && !line.dropped)
    }
}

impl<N: Net> Net for Fault<N> {
    fn poll(&mut self, events: &mut Vec<Event>) {
        if self.chance.hits(self.faults.drop_connection) {
            self.drop_some();
        }
        self.hold_fresh();
        for event in self.release() {
            if let Event::Closed { conn, .. } = event {
                self.lines.remove(&conn);
            }
            events.push(event);
        }
    }

    fn stream(&mut self, conn: ConnId, need: Need) -> Option<Stream<'_>> {
        if !self.is_open(conn) {
            return None;
        }
        let line = self.lines.get_mut(&conn)?;
        let mut need_below = Need::Rest;
        if need == Need::More {
            line.told = false;
            // What is hidden here comes before what can be received.
            if !line.hidden {
                need_below = Need::More;
                line.told_below = false;
            }
        }
        let below = self.inner.stream(conn, need_below)?;
        if need == Need::More {
            let fresh = below.input.len() - line.shown;
            let mut more = fresh;
            if fresh > 0 && self.chance.hits(self.faults.cut_input) {
                more = self.chance.below(fresh);
                self.injected.cuts += 1;
            }
            line.shown += more;
            line.hidden = line.shown < below.input.len();
        }
        let end = below.end && line.shown == below.input.len();
        let Stream { input, received, .. } = below;
        Some(Stream { input: &input[..line.shown], received, output: &mut line.output, end })
    }

    fn output(&mut self, conn: ConnId) -> Option<&mut Output> {
        if !self.is_open(conn) || self.inner.output(conn).is_none() {
            return None;
        }
        self.lines.get_mut(&conn).map(|line| &mut line.output)
    }

    fn consume(&mut self, conn: ConnId, size: usize) {
        if self.is_open(conn) && self.inner.output(conn).is_some() {
            let line = self.lines.get_mut(&conn).expect("it is open");
            assert!(size <= line.shown, "no more is consumed than was shown");
            line.shown -= size;
            self.inner.consume(conn, size);
        }
    }

    fn close(&mut self, conn: ConnId, how: Close) {
        let Some(line) = self.lines.get_mut(&conn) else { return };
        line.closing = true;
        if how == Close::Now {
            self.inner.close(conn, how);
        }
    }

    fn flush(&mut self) {
        self.pass_down();
        self.inner.flush();
        self.look_below();
    }

    fn give(&mut self, conn: ConnId) -> Option<Handover> {
        if !self.is_open(conn) || self.lines.get(&conn)?.output.written() != 0 {
            return None;
        }
        let handover = self.inner.give(conn)?;
        self.lines.remove(&conn);
        self.held.retain(|held| whose(held.event) != conn);
        Some(handover)
    }

    fn take(&mut self, handover: Handover) -> Option<ConnId> {
        if self.chance.hits(self.faults.refuse_taken) {
            self.injected.refusals += 1;
            return None;
        }
        let conn = self.inner.take(handover)?;
        self.lines.insert(conn, Line::default());
        Some(conn)
    }

    fn queue(&mut self, conn: ConnId) -> Option<u32> {
        if self.is_open(conn) { self.inner.queue(conn) } else { None }
    }

    fn cpu(&mut self, conn: ConnId) -> Option<u32> {
        if self.is_open(conn) { self.inner.cpu(conn) } else { None }
    }

    fn limits(&self) -> Limits {
        self.inner.limits()
    }

    fn counters(&self) -> Counters {
        self.inner.counters()
    }

    fn kept(&self, conn: ConnId) -> (usize, usize) {
        let (input_size, output_size) = self.inner.kept(conn);
        (input_size, output_size + self.lines.get(&conn).map_or(0, |line| line.output.len()))
    }

    /// With what waits here, which does take a walk: this net is for tests.
    fn kept_size(&self) -> usize {
        self.inner.kept_size() + self.lines.values().map(|line| line.output.held()).sum::<usize>()
    }
}

impl<N: Net + Wait> Wait for Fault<N> {
    fn wait(&mut self, timeout_ns: Option<u64>) {
        if !self.has_held_work() {
            self.inner.wait(timeout_ns);
        }
    }

    fn has_work(&mut self) -> bool {
        self.has_held_work() || self.inner.has_work()
    }

    fn bell(&self) -> Bell {
        self.inner.bell()
    }
}

fn whose(event: Event) -> ConnId {
    match event {
        Event::Opened { conn, .. }
        | Event::Input(conn)
        | Event::Writable(conn)
        | Event::Closed { conn, .. } => conn,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mem::{Client, Mem};

    /// Three clients talk for a while over a net with all faults: what the lane sees, and what went wrong.
    fn run(seed: u64) -> (Vec<Event>, Vec<Vec<u8>>, Injected) {
        let most = Faults {
            cut_input: 400,
            delay_event: 400,
            shorten_send: 400,
            reorder_events: 500,
            drop_connection: 10,
            refuse_taken: 0,
        };
        let mut net = Fault::new(Mem::new(Limits::default()), most, seed);
        let (_, port) = net.inner().listen();
        let clients: Vec<Client> = (0..3).map(|_| port.connect()).collect();
        let (mut all, mut seen) = (Vec::new(), Vec::new());
        for _ in 0..200 {
            let mut events = Vec::new();
            for client in &clients {
                client.write(b"some bytes");
            }
            net.poll(&mut events);
            for event in &events {
                if let Event::Input(conn) = event
                    && let Some(stream) = net.stream(*conn, Need::More)
                {
                    seen.push(stream.input.to_vec());
                    let size = stream.input.len();
                    stream.output.extend(stream.input);
                    net.consume(*conn, size);
                }
            }
            net.flush();
            all.append(&mut events);
        }
        (all, seen, net.injected())
    }

    #[test]
    fn a_seed_says_it_all() {
        assert_eq!(run(1), run(1));
        assert_ne!(run(1), run(2));
    }

    #[test]
    fn every_fault_happens_and_each_end_is_told_once() {
        let (mut drops, mut ends) = (0, 0);
        for seed in 0..20 {
            let (events, seen, injected) = run(seed);
            assert!(
                0 < injected.cuts && 0 < injected.delays && 0 < injected.short_sends && 0 < injected.reorders
            );
            assert!(seen.iter().any(|bytes| bytes.len() % 10 != 0), "a cut is seen");
            drops += injected.drops;
            for event in events {
                if let Event::Closed { why, .. } = event {
                    assert_eq!(why, Why::Reset);
                    ends += 1;
                }
            }
        }
        assert!(
            0 < drops && drops - 10 < ends && ends <= drops,
            "{drops} dropped, {ends} told, some not yet"
        );
    }
}

//! What all lanes of a server see: the few words that are shared.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use wire::route::Slot;

use crate::lease::Account;

/// Sets of channels that the board tells apart: a lane is sent a message if it has subscribers of a channel of the same set.
const BITS: u16 = 4096;
const WORD_BITS: u16 = 64;

/// What all lanes of a server see: some counters, touched when connections come and go, when memory is borrowed and by
/// multi-lane work only.
pub struct Board {
    /// The newest transaction number.
    numbers: AtomicU64,
    /// The newest number of a record of changes, while there are replicas.
    records: AtomicU64,
    /// The number up to which replicas have been sent them; the highest there is while nobody follows.
    sent_records: AtomicU64,
    /// The same of the log's files; the highest there is while there is no log.
    logged_records: AtomicU64,
    /// No lane does anything any more.
    has_ended: AtomicBool,
    /// The newest client id.
    client_ids: AtomicU64,
    /// Clients of all lanes, those on their way from one to another included.
    client_count: AtomicUsize,
    /// Clients of each lane, and those on their way to it.
    loads: Vec<AtomicU32>,
    /// Somebody answers what lanes ask the control thread.
    is_attended: AtomicBool,
    /// Bytes that each lane's clients hold, while there is a limit.
    crowd: Vec<AtomicU64>,
    /// Lanes that have found no client that may be closed.
    spared: Vec<AtomicBool>,
    /// What each lane's clients subscribe to.
    interests: Vec<Interest>,
    /// What of `maxmemory` is borrowed.
    pub(crate) account: Account,
}

/// What a lane's clients subscribe to, as far as others need to know.
struct Interest {
    /// A bit for each set of channels, plain and sharded.
    channels: Box<[AtomicU64; (BITS / WORD_BITS) as usize]>,
    /// Some pattern: then they may get whatever is said on a channel that is not sharded.
    has_patterns: AtomicBool,
}

impl Default for Interest {
    fn default() -> Interest {
        let channels = Box::new([const { AtomicU64::new(0) }; (BITS / WORD_BITS) as usize]);
        Interest { channels, has_patterns: AtomicBool::new(false) }
    }
}

impl Board {
    /// For so many lanes.
    pub fn new(lane_count: u16) -> Board {
        Board {
            numbers: AtomicU64::new(0),
            records: AtomicU64::new(0),
            sent_records: AtomicU64::new(u64::MAX),
            logged_records: AtomicU64::new(u64::MAX),
            has_ended: AtomicBool::new(false),
            client_ids: AtomicU64::new(0),
            client_count: AtomicUsize::new(0),
            loads: (0..lane_count).map(|_| AtomicU32::new(0)).collect(),
            is_attended: AtomicBool::new(false),
            crowd: (0..lane_count).map(|_| AtomicU64::new(0)).collect(),
            spared: (0..lane_count).map(|_| AtomicBool::new(false)).collect(),
            interests: (0..lane_count).map(|_| Interest::default()).collect(),
            account: Account::new(lane_count),
        }
    }

    pub(crate) fn lane_count(&self) -> u16 {
        u16::try_from(self.loads.len()).expect("lanes are counted in 16 bits")
    }

    pub(crate) fn next_client_id(&self) -> u64 {
        self.client_ids.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// There is a control thread from now on.
    pub(crate) fn attend(&self) {
        self.is_attended.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_attended(&self) -> bool {
        self.is_attended.load(Ordering::Relaxed)
    }

    /// Counts a client that has come to some lane, unless there are `count_max` already.
    pub(crate) fn admit(&self, count_max: usize) -> bool {
        let more = |count: usize| (count < count_max).then_some(count + 1);
        self.client_count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    /// A client has gone.
    pub(crate) fn dismiss(&self) {
        self.client_count.fetch_sub(1, Ordering::Relaxed);
    }

    /// A client has come to a lane, or is about to: who looks for the lightest lane sees it from now on.
    pub(crate) fn burden(&self, lane: u16) {
        self.loads[usize::from(lane)].fetch_add(1, Ordering::Relaxed);
    }

    /// A client of a lane, or one on its way to it, has gone.
    pub(crate) fn relieve(&self, lane: u16) {
        self.loads[usize::from(lane)].fetch_sub(1, Ordering::Relaxed);
    }

    /// Clients of a lane, and those on their way to it.
    pub(crate) fn load(&self, lane: u16) -> u32 {
        self.loads[usize::from(lane)].load(Ordering::Relaxed)
    }

    /// What a lane's clients hold has changed.
    pub(crate) fn set_crowd(&self, lane: u16, size: u64) {
        self.crowd[usize::from(lane)].store(size, Ordering::Relaxed);
        self.spared[usize::from(lane)].store(false, Ordering::Relaxed);
    }

    /// A lane has found no client that may be closed; until that changes, others close theirs. True if it is news.
    pub(crate) fn spare_crowd(&self, lane: u16) -> bool {
        !self.spared[usize::from(lane)].swap(true, Ordering::Relaxed)
    }

    /// Bytes that the clients of all lanes hold, and the lane whose clients hold most, of those that may close some.
    pub(crate) fn crowd(&self) -> (u64, u16) {
        let sizes = || self.crowd.iter().map(|size| size.load(Ordering::Relaxed));
        let is_spared = |lane: u16| self.spared[usize::from(lane)].load(Ordering::Relaxed);
        let largest = (0..).zip(sizes()).max_by_key(|(lane, size)| (!is_spared(*lane), *size));
        (sizes().sum(), largest.map_or(0, |(lane, _)| lane))
    }

    /// The lane to which a new client of `lane` had better go: the least loaded, if that has at least two fewer.
    pub(crate) fn lighter_lane(&self, lane: u16) -> Option<u16> {
        let load = |lane: &u16| self.load(*lane);
        let lightest = (0..self.lane_count()).min_by_key(load)?;
        (load(&lightest) + 1 < load(&lane)).then_some(lightest)
    }

    /// Which set a channel belongs to.
    pub(crate) fn bit_of(slot: Slot) -> u16 {
        slot.number() % BITS
    }

    /// A lane's clients subscribe to channels of a set, or none any more. The client hears of it after that, and so does whoever publishes
    /// because it has.
    pub(crate) fn set_subscribed(&self, lane: u16, bit: u16, is_subscribed: bool) {
        let word = &self.interests[usize::from(lane)].channels[usize::from(bit / WORD_BITS)];
        let mask = 1 << (bit % WORD_BITS);
        if is_subscribed {
            word.fetch_or(mask, Ordering::Release);
        } else {
            word.fetch_and(!mask, Ordering::Release);
        }
    }

    /// The same of patterns.
    pub(crate) fn set_has_patterns(&self, lane: u16, is_subscribed: bool) {
        self.interests[usize::from(lane)].has_patterns.store(is_subscribed, Ordering::Release);
    }

    /// Whether a lane may have somebody who gets what is said on a channel of this slot.
    pub(crate) fn listens(&self, lane: u16, slot: Slot, is_sharded: bool) -> bool {
        let interest = &self.interests[usize::from(lane)];
        let bit = Board::bit_of(slot);
        let word = interest.channels[usize::from(bit / WORD_BITS)].load(Ordering::Acquire);
        word & 1 << (bit % WORD_BITS) != 0 || !is_sharded && interest.has_patterns.load(Ordering::Acquire)
    }

    pub(crate) fn fresh_number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// The number of a record of changes. What follows from something that has a record has a higher one.
    pub(crate) fn fresh_record(&self) -> u64 {
        self.records.fetch_add(1, Ordering::AcqRel) + 1
    }

    /// At least the number of every record of something that is known here.
    pub(crate) fn newest_record(&self) -> u64 {
        self.records.load(Ordering::Acquire)
    }

    /// Replicas have been sent every record up to this number.
    pub(crate) fn note_sent(&self, number: u64) {
        self.sent_records.store(number, Ordering::Release);
    }

    /// Whether replicas, if there are any, have been sent whatever anybody has heard of as done.
    pub fn is_replicated(&self) -> bool {
        self.newest_record() <= self.sent_records.load(Ordering::Acquire)
    }

    /// The log's files have taken every record up to this number.
    pub(crate) fn note_logged(&self, number: u64) {
        self.logged_records.store(number, Ordering::Release);
    }

    /// Whether what changes is written to a log.
    pub fn is_logging(&self) -> bool {
        self.logged_records.load(Ordering::Acquire) < u64::MAX
    }

    /// Whether the log's files, if there are any, have taken whatever anybody has heard of as done.
    pub fn is_logged(&self) -> bool {
        self.newest_record() <= self.logged_records.load(Ordering::Acquire)
    }

    /// No lane does anything any more: what transactions have not come to an end with they never will.
    pub fn note_ended(&self) {
        self.has_ended.store(true, Ordering::Release);
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Acquire)
    }

    /// At least every number that has arrived here: the ring that brought it orders its drawing before this.
    pub(crate) fn newest_number(&self) -> u64 {
        self.numbers.load(Ordering::Relaxed)
    }
}

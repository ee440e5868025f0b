//! The mesh: all rings between all lanes and the control thread, how large they are, and where their memory comes from.

use std::sync::Arc;

use ring::{Consumer, HEADER_SIZE, Mailbox, Producer, credit, frame_size, memory_size, payload_max, ring};

use super::frames::{ANSWER_HEADER, ASK_HEADER, CONTROL_SIZE, Parcel};
use super::{Lengths, Peer, SHORT_SIZE};

/// Bytes of all pairs' rings together, slots included, as long as the smallest rings allow it.
const RINGS_SIZE_MAX: usize = 64 * 1024 * 1024;
/// Bytes of the rings that a lane reads of the others', which are there from the start: an empty server holds at most 8 MiB and 4 for each
/// lane, of which its first page of keys takes half.
const READ_SIZE_MAX: usize = 1190 * 1024;
/// What a pair's rings take beside them, in bytes: slots, positions, and what an allocator rounds up.
const READ_SIZE_BESIDE: usize = 8 * 1024;
/// Nothing is gained by a larger ring: this is more than the asks that a turn's budget of commands can make.
const ASKS_SIZE_MAX: usize = 128 * 1024;
/// The same where one of the two is the control thread, which is asked far less: what a lane holds when it is empty is mostly rings.
const CONTROL_ASKS_SIZE_MAX: usize = 32 * 1024;
/// Ten answers may be under way, and what is longer than 62 bytes moves as a parcel. Of a pair with smaller rings most
/// would be positions and counts.
const ASKS_SIZE_MIN: usize = 512;
/// A longer ask or answer moves as a parcel.
const INLINE_SIZE_MAX: usize = 512;
/// Parts in flight from one lane to another; more wait at home.
const CONTROL_FRAMES_MAX: usize = 64;
/// Bytes of the ask ring for each of them where rings are small.
const ASKS_SIZE_PER_CONTROL_FRAME: usize = 96;
/// Control frames for which no part reserves the place, at the least.
const TOLD_FRAMES_MIN: usize = 10;

/// All of one lane's connections to the others.
pub struct Links {
    /// By the other's number; `None` at one's own. The control thread's number is the count of lanes.
    pub(crate) peers: Vec<Option<Peer>>,
    pub(crate) mailbox: Arc<Mailbox>,
}

impl Links {
    /// Where the others say that they have something; the runner declares sleep there.
    pub fn mailbox(&self) -> Arc<Mailbox> {
        Arc::clone(&self.mailbox)
    }
}

/// How large the rings of each pair are, bytes.
struct Sizes {
    asks: usize,
    answers: usize,
    control: usize,
    /// Frames of the control ring that parts may reserve.
    control_frames: usize,
}

impl Sizes {
    /// The largest that stay within [`RINGS_SIZE_MAX`] for all pairs together, the control thread's included, and within
    /// [`READ_SIZE_MAX`] for each lane.
    fn of_server(lane_count: usize) -> Sizes {
        let pair_count = (lane_count + 1) * lane_count;
        let is_too_much = |sizes: &Sizes| {
            RINGS_SIZE_MAX < sizes.memory() * pair_count || READ_SIZE_MAX < sizes.read() * (lane_count - 1)
        };
        let mut sizes = Sizes::of_pair(ASKS_SIZE_MAX);
        while ASKS_SIZE_MIN < sizes.asks && is_too_much(&sizes) {
            sizes = Sizes::of_pair(sizes.asks / 2);
        }
        sizes
    }

    /// Bytes that are there from the start for one pair.
    fn read(&self) -> usize {
        self.asks + self.answers + self.control + READ_SIZE_BESIDE
    }

    /// Those to and from the control thread.
    fn of_control(&self) -> Sizes {
        Sizes::of_pair(self.asks.min(CONTROL_ASKS_SIZE_MAX))
    }

    fn of_pair(asks: usize) -> Sizes {
        let control_frames = CONTROL_FRAMES_MAX.min(asks / ASKS_SIZE_PER_CONTROL_FRAME);
        // What is free is told up to half of the ring, less a header.
        let control = 2 * ((control_frames + TOLD_FRAMES_MIN) * frame_size(CONTROL_SIZE) + HEADER_SIZE);
        let control = control.next_power_of_two();
        Sizes { asks, answers: 2 * asks, control, control_frames }
    }

    /// Asks, answers, control: bytes, and the parcels that may be under way. As many as there are frames, so that room for
    /// a frame is room for its parcel; of answers as many as there is credit for at once.
    fn rings(&self) -> [(usize, usize); 3] {
        [
            (self.asks, self.asks / frame_size(ASK_HEADER)),
            (self.answers, self.answers / frame_size(ANSWER_HEADER + SHORT_SIZE)),
            (self.control, self.control / frame_size(CONTROL_SIZE)),
        ]
    }

    /// Bytes of memory behind one pair's rings.
    fn memory(&self) -> usize {
        self.rings().map(|(size, parcels)| memory_size::<Parcel>(size, parcels)).iter().sum()
    }
}

/// The rings between `lane_count` lanes and the control thread, whose links come last.
pub fn mesh(lane_count: usize) -> Vec<Links> {
    mesh_placed(lane_count, &mut |_| {})
}

/// The same. `place` is called with a lane's number before the memory of the rings that it reads, its mailbox and its
/// ends is taken and touched, so that a caller who moves to that lane's cpu gets pages of that cpu's node. The control
/// thread, the last number, has no cpu of its own.
pub fn mesh_placed(lane_count: usize, place: &mut dyn FnMut(usize)) -> Vec<Links> {
    let node_count = lane_count + 1;
    let sizes = Sizes::of_server(lane_count);
    let control_sizes = sizes.of_control();
    let sizes_of =
        |one: usize, other: usize| if one.max(other) == lane_count { &control_sizes } else { &sizes };
    let inline_size_max = INLINE_SIZE_MAX.min(payload_max(control_sizes.asks) / 4);

    let mut mailboxes: Vec<Arc<Mailbox>> = Vec::new();
    let mut senders: Vec<Vec<Option<[Producer<Parcel>; 3]>>> = Vec::new();
    let mut receivers: Vec<Vec<Option<[Consumer<Parcel>; 3]>>> = Vec::new();
    for _ in 0..node_count {
        senders.push((0..node_count).map(|_| None).collect());
        receivers.push((0..node_count).map(|_| None).collect());
    }
    for to in 0..node_count {
        place(to);
        mailboxes.push(Arc::new(Mailbox::new(node_count)));
        for from in (0..node_count).filter(|&from| from != to) {
            let [asks, answers, control] =
                sizes_of(from, to).rings().map(|(size, parcels)| ring(size, parcels));
            senders[from][to] = Some([asks.0, answers.0, control.0]);
            receivers[to][from] = Some([asks.1, answers.1, control.1]);
        }
    }
    let rows = senders.into_iter().zip(receivers).enumerate();
    rows.map(|(me, (senders, receivers))| {
        place(me);
        let peers = senders.into_iter().zip(receivers).enumerate().map(|(other, ends)| {
            let (Some([asks, answers, control]), Some([asks_in, answers_in, control_in])) = ends else {
                return None;
            };
            let sizes = sizes_of(me, other);
            let answer_credit = credit(sizes.answers, ANSWER_HEADER + inline_size_max);
            Some(Peer {
                mailbox: Arc::clone(&mailboxes[other]),
                me,
                asks,
                answers,
                control,
                asks_in,
                answers_in,
                control_in,
                answer_credit,
                answer_credit_max: answer_credit,
                control_credit: sizes.control_frames,
                control_credit_max: sizes.control_frames,
                inline_size_max,
                lengths: Lengths::new(inline_size_max),
            })
        });
        Links { peers: peers.collect(), mailbox: Arc::clone(&mailboxes[me]) }
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::super::{AnswerSize, ControlHead, ControlKind};
    use super::*;

    /// Lanes whose rings stay within what was promised; docs/rings.md tells this number.
    const LANES_AFFORDABLE: usize = 112;

    #[test]
    fn rings_stay_affordable() {
        let of_server = |lanes: usize| Sizes::of_server(lanes).memory() * (lanes + 1) * lanes;
        for lanes in 1..=LANES_AFFORDABLE {
            assert!(of_server(lanes) <= RINGS_SIZE_MAX, "{lanes} lanes: {} bytes", of_server(lanes));
        }
        let asks =
            [1, 4, 5, 6, 7, 12, 13, 20, 21, 34, 64, 94, 96, 251].map(|lanes| Sizes::of_server(lanes).asks);
        let want = [128, 128, 64, 64, 32, 32, 16, 16, 8, 8, 2, 1].map(|kib| kib * 1024);
        assert_eq!(asks, [&want[..], &[512, 512]].concat()[..]);
        let memory = [256, 128, 64, 32, 16, 4, 2, 1].map(|asks| Sizes::of_pair(asks * 512).memory());
        assert_eq!(
            memory,
            [533_632, 271_488, 140_416, 74_880, 42_112, 13_440, 7_296, 5_248],
            "docs/rings.md tells these numbers"
        );
        assert_eq!(of_server(251) >> 20, 316, "and this one");
    }

    /// At any number of lanes parts and handovers have room, wherever the ring's last frame ended; and a short answer is
    /// charged no more than a long one, which the slots for answers' parcels rely on.
    #[test]
    fn small_rings_carry_what_lanes_say() {
        let head = ControlHead { target: 0, round: 0, kind: ControlKind::Withdraw };
        for lanes in [1, 16, 32, 48, 64, 94, 100] {
            let mut links = mesh(lanes);
            let (first, control) = links.split_at_mut(lanes);
            let peer = first[0].peers[lanes].as_mut().expect("the control thread is a peer");
            let other = control[0].peers[0].as_mut().expect("a lane is a peer");
            assert!(peer.charge(AnswerSize::Short) <= peer.charge(AnswerSize::Long));
            assert!(5 * usize::from(peer.charge(AnswerSize::Long)) <= peer.answer_credit_max);
            assert!(peer.can_prepare());
            for _ in 0..200 {
                for told in 0..TOLD_FRAMES_MIN {
                    assert!(peer.try_tell(head, &mut None), "{lanes} lanes, {told} told");
                }
                peer.publish();
                while other.control_in.peek().is_some() {
                    other.control_in.pop();
                }
                other.control_in.release();
            }
        }
    }

    /// Each lane's rings come after its place is taken, and so do its ends.
    #[test]
    fn memory_is_taken_lane_by_lane() {
        let mut places = Vec::new();
        let links = mesh_placed(2, &mut |lane| places.push(lane));
        assert_eq!(places, [0, 1, 2, 0, 1, 2]);
        assert_eq!(links.len(), 3, "the control thread's come last");
    }
}

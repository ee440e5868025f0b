//! Netlink: messages as bytes, and the socket that asks the kernel and waits for its whole answer.
//!
//! ```text
//! struct nlmsghdr   length u32 | type u16 | flags u16 | sequence u32 | port u32
//! header            of the family (struct tcmsg, struct genlmsghdr, …)
//! attributes        length u16 | type u16 | value | padding to 4 bytes    repeated; a value may be attributes again
//! ```
//!
//! Numbers are in the machine's order. Sources: netlink(7), include/uapi/linux/netlink.h and genetlink.h.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use super::errno::{said, unanswered};
use crate::Refusal;

/// rtnetlink: links, addresses, routes, rules, queueing.
pub(super) const ROUTE: i32 = 0;
/// Families that are found by name.
pub(super) const GENERIC: i32 = 16;

/// Create what is not there.
pub(super) const CREATE: u16 = 0x400;
/// Fail if it is there.
pub(super) const EXCLUSIVE: u16 = 0x200;
/// Put it in the place of what is there.
pub(super) const REPLACE: u16 = 0x100;
/// Tell all of them.
pub(super) const DUMP: u16 = 0x300;

const REQUEST: u16 = 1;
const ACK: u16 = 4;
/// A dump during which something changed.
const DUMP_INTERRUPTED: u16 = 0x10;
/// The error repeats no request, so attributes follow its first header.
const CAPPED: u16 = 0x100;
/// Attributes about the error are there.
const ACK_TLVS: u16 = 0x200;

const ERROR: u16 = 2;
const DONE: u16 = 3;

pub(super) const HEADER_SIZE: usize = 16;
const ATTRIBUTE_HEADER_SIZE: usize = 4;
/// Marks a value that is attributes again.
const NESTED: u16 = 1 << 15;
/// What of an attribute's type is its number.
const KIND_MASK: u16 = 0x3fff;

const SOL_NETLINK: i32 = 270;
const OPTION_CAP_ACK: i32 = 10;
const OPTION_EXT_ACK: i32 = 11;
const OPTION_STRICT: i32 = 12;
/// Of an error's attributes: the sentence.
const EXT_ACK_MESSAGE: u16 = 1;

/// Answers are read in pieces of at most so many bytes; the kernel sends dumps in pieces of 32 KiB and less.
const PIECE_SIZE: usize = 64 << 10;
/// An answer that takes longer than this is none.
const ANSWER_SECONDS: i64 = 5;
/// A dump into which a change fell is asked for again, so often.
const DUMPS_COUNT_MAX: usize = 5;

/// One request, or a value made of attributes.
#[derive(Debug)]
pub(super) struct Message {
    bytes: Vec<u8>,
}

impl Message {
    /// A request of this type, with the family's header.
    pub(super) fn new(kind: u16, flags: u16, header: &[u8]) -> Message {
        let mut bytes = vec![0; HEADER_SIZE];
        bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
        bytes[6..8].copy_from_slice(&(flags | REQUEST).to_ne_bytes());
        bytes.extend(header);
        Message { bytes }
    }

    /// An attribute of bytes.
    pub(super) fn put(&mut self, kind: u16, value: &[u8]) -> &mut Message {
        let length = u16::try_from(ATTRIBUTE_HEADER_SIZE + value.len()).expect("values are short");
        self.bytes.extend(length.to_ne_bytes());
        self.bytes.extend(kind.to_ne_bytes());
        self.bytes.extend(value);
        self.pad();
        self
    }

    pub(super) fn put_u8(&mut self, kind: u16, value: u8) -> &mut Message {
        self.put(kind, &[value])
    }

    pub(super) fn put_u16(&mut self, kind: u16, value: u16) -> &mut Message {
        self.put(kind, &value.to_ne_bytes())
    }

    pub(super) fn put_u32(&mut self, kind: u16, value: u32) -> &mut Message {
        self.put(kind, &value.to_ne_bytes())
    }

    pub(super) fn put_u64(&mut self, kind: u16, value: u64) -> &mut Message {
        self.put(kind, &value.to_ne_bytes())
    }

    /// Text with its final zero.
    pub(super) fn put_text(&mut self, kind: u16, value: &str) -> &mut Message {
        self.put(kind, &[value.as_bytes(), &[0]].concat())
    }

    /// An attribute that holds bytes first (a structure), then attributes.
    pub(super) fn nest(&mut self, kind: u16, first: &[u8], rest: impl FnOnce(&mut Message)) -> &mut Message {
        let start = self.bytes.len();
        self.put(kind | NESTED, first);
        rest(self);
        let length = u16::try_from(self.bytes.len() - start).expect("values are short");
        self.bytes[start..start + 2].copy_from_slice(&length.to_ne_bytes());
        self
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }

    /// Makes the same request one of another type: to take away what it would have made.
    pub(super) fn set_kind(&mut self, kind: u16, flags: u16) {
        self.bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
        self.bytes[6..8].copy_from_slice(&(flags | REQUEST).to_ne_bytes());
    }

    /// The family's header.
    #[cfg(test)]
    pub(super) fn header<const SIZE: usize>(&self) -> [u8; SIZE] {
        *self.bytes[HEADER_SIZE..].first_chunk().expect("a header is there")
    }

    /// As it would be sent, but for its length and number.
    #[cfg(test)]
    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// The attributes alone, behind a family's header of so many bytes.
    #[cfg(test)]
    pub(super) fn attributes(&self, header_size: usize) -> Attributes<'_> {
        Attributes(&self.bytes[HEADER_SIZE + header_size..])
    }
}

/// Attributes, in order. What is cut off is not there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Attributes<'a>(pub(super) &'a [u8]);

impl<'a> Attributes<'a> {
    /// The first of this kind.
    pub(super) fn find(self, kind: u16) -> Option<&'a [u8]> {
        let mut all = self;
        all.find_map(|(this, value)| (this == kind).then_some(value))
    }

    /// Those within the first of this kind; none where it is not there.
    pub(super) fn within(self, kind: u16) -> Attributes<'a> {
        Attributes(self.find(kind).unwrap_or_default())
    }

    pub(super) fn u8(self, kind: u16) -> Option<u8> {
        self.find(kind)?.first().copied()
    }

    pub(super) fn u16(self, kind: u16) -> Option<u16> {
        Some(u16::from_ne_bytes(*self.find(kind)?.first_chunk()?))
    }

    pub(super) fn u32(self, kind: u16) -> Option<u32> {
        Some(u32::from_ne_bytes(*self.find(kind)?.first_chunk()?))
    }

    /// A number of whatever width it was sent in.
    pub(super) fn number(self, kind: u16) -> Option<u64> {
        let bytes = self.find(kind)?;
        match bytes.len() {
            1 => Some(u64::from(bytes[0])),
            2 => self.u16(kind).map(u64::from),
            4 => self.u32(kind).map(u64::from),
            _ => Some(u64::from_ne_bytes(*bytes.first_chunk()?)),
        }
    }

    /// Text up to its zero; what is no UTF-8 is shown as such.
    pub(super) fn text(self, kind: u16) -> Option<String> {
        let bytes = self.find(kind)?;
        let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
        Some(String::from_utf8_lossy(&bytes[..end]).into_owned())
    }
}

impl<'a> Iterator for Attributes<'a> {
    type Item = (u16, &'a [u8]);

    fn next(&mut self) -> Option<(u16, &'a [u8])> {
        let length = usize::from(u16::from_ne_bytes(*self.0.first_chunk()?));
        let kind = u16::from_ne_bytes(*self.0.get(2..)?.first_chunk()?) & KIND_MASK;
        let value = self.0.get(ATTRIBUTE_HEADER_SIZE..length)?;
        self.0 = self.0.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    }
}

/// A part of an answer: the family's header and what follows.
#[derive(Debug)]
pub(super) struct Reply(Vec<u8>);

impl Reply {
    /// The family's header of so many bytes, zeros where it is shorter, and the attributes behind it.
    pub(super) fn split<const SIZE: usize>(&self) -> ([u8; SIZE], Attributes<'_>) {
        let mut header = [0; SIZE];
        let size = SIZE.min(self.0.len());
        header[..size].copy_from_slice(&self.0[..size]);
        (header, Attributes(&self.0[size..]))
    }
}

/// A number at a place of a header or structure; zero where it ends before.
pub(super) fn u32_at(bytes: &[u8], offset: usize) -> u32 {
    bytes.get(offset..).and_then(|rest| rest.first_chunk()).map_or(0, |word| u32::from_ne_bytes(*word))
}

/// As [`u32_at`].
pub(super) fn u16_at(bytes: &[u8], offset: usize) -> u16 {
    bytes.get(offset..).and_then(|rest| rest.first_chunk()).map_or(0, |word| u16::from_ne_bytes(*word))
}

/// A socket of one protocol, in the network namespace of the thread that opened it.
#[derive(Debug)]
pub(crate) struct Netlink {
    socket: OwnedFd,
    sequence: u32,
    piece: Vec<u8>,
}

impl Netlink {
    pub(super) fn open(protocol: i32) -> Result<Netlink, Refusal> {
        // SAFETY: no memory is passed; the result is checked.
        let number = unsafe { libc::socket(libc::AF_NETLINK, libc::SOCK_RAW | libc::SOCK_CLOEXEC, protocol) };
        if number < 0 {
            return Err(unanswered("a netlink socket could not be opened", &io::Error::last_os_error()));
        }
        // SAFETY: the number is a descriptor that was just opened and is nobody else's.
        let socket = unsafe { OwnedFd::from_raw_fd(number) };
        let netlink = Netlink { socket, sequence: 0, piece: vec![0; PIECE_SIZE] };
        // Older kernels lack some of these: then errors have no words, and dumps are filtered here.
        for option in [OPTION_CAP_ACK, OPTION_EXT_ACK, OPTION_STRICT] {
            netlink.set(SOL_NETLINK, option, &1_i32.to_ne_bytes());
        }
        let time = [ANSWER_SECONDS.to_ne_bytes(), 0_i64.to_ne_bytes()].concat();
        netlink.set(libc::SOL_SOCKET, libc::SO_RCVTIMEO, &time);
        Ok(netlink)
    }

    fn set(&self, level: i32, option: i32, value: &[u8]) {
        let size = libc::socklen_t::try_from(value.len()).expect("options are short");
        // SAFETY: the pointer and the size are of one slice that lives through the call.
        unsafe { libc::setsockopt(self.socket.as_raw_fd(), level, option, value.as_ptr().cast(), size) };
    }

    /// Asks for one thing, or for all of a kind (`DUMP` among the flags), and waits for the whole answer.
    ///
    /// # Errors
    /// The kernel's refusal in its own words, where it has some.
    pub(super) fn ask(&mut self, message: &Message) -> Result<Vec<Reply>, Refusal> {
        for _ in 0..DUMPS_COUNT_MAX {
            if let Some(replies) = self.ask_once(message)? {
                return Ok(replies);
            }
        }
        Err(Refusal::new(
            crate::kernel::Cause::Busy,
            format!("the list changed {DUMPS_COUNT_MAX} times while it was read: try again"),
        ))
    }

    /// None: a change fell into it.
    fn ask_once(&mut self, message: &Message) -> Result<Option<Vec<Reply>>, Refusal> {
        self.sequence += 1;
        let mut bytes = message.bytes.clone();
        let length = u32::try_from(bytes.len()).expect("requests are short");
        bytes[0..4].copy_from_slice(&length.to_ne_bytes());
        let flags = u16_at(&bytes, 6);
        let is_dump = flags & DUMP == DUMP;
        bytes[6..8].copy_from_slice(&(flags | if is_dump { 0 } else { ACK }).to_ne_bytes());
        bytes[8..12].copy_from_slice(&self.sequence.to_ne_bytes());
        // SAFETY: the pointer and the length are of one vector that lives through the call.
        let sent = unsafe { libc::send(self.socket.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), 0) };
        if sent < 0 {
            return Err(unanswered("the kernel took no request", &io::Error::last_os_error()));
        }
        let mut replies = Vec::new();
        let mut is_whole = true;
        loop {
            let size = self.receive()?;
            let mut rest = &self.piece[..size];
            while rest.len() >= HEADER_SIZE {
                let length = u32_at(rest, 0) as usize;
                let (kind, flags, sequence) = (u16_at(rest, 4), u16_at(rest, 6), u32_at(rest, 8));
                let Some(body) = rest.get(HEADER_SIZE..length) else { break };
                rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
                if sequence != self.sequence {
                    continue;
                }
                is_whole &= flags & DUMP_INTERRUPTED == 0;
                match kind {
                    ERROR | DONE => {
                        let code = i32::from_ne_bytes(body.first_chunk().copied().unwrap_or_default());
                        if code != 0 {
                            return Err(said(-code, &words(body, kind, flags)));
                        }
                        return Ok(is_whole.then_some(replies));
                    }
                    _ => replies.push(Reply(body.to_vec())),
                }
            }
        }
    }

    fn receive(&mut self) -> Result<usize, Refusal> {
        loop {
            // SAFETY: the pointer and the length are of one vector that lives through the call.
            let size = unsafe {
                libc::recv(
                    self.socket.as_raw_fd(),
                    self.piece.as_mut_ptr().cast(),
                    self.piece.len(),
                    libc::MSG_TRUNC,
                )
            };
            match usize::try_from(size) {
                Ok(size) if size > self.piece.len() => {
                    return Err(Refusal::new(
                        crate::kernel::Cause::Failed,
                        format!("the kernel sent {size} bytes at once, more than {PIECE_SIZE}"),
                    ));
                }
                Ok(size) => return Ok(size),
                Err(_) => {
                    let error = io::Error::last_os_error();
                    if error.kind() != io::ErrorKind::Interrupted {
                        return Err(unanswered("the kernel did not answer", &error));
                    }
                }
            }
        }
    }
}

/// What the kernel says about an error: `struct nlmsgerr` repeats the request's header, and the rest of it unless capped.
fn words(body: &[u8], kind: u16, flags: u16) -> String {
    if flags & ACK_TLVS == 0 {
        return String::new();
    }
    let behind = match kind {
        DONE => 4,
        _ if flags & CAPPED != 0 => 4 + HEADER_SIZE,
        _ => 4 + (u32_at(body, 4) as usize).next_multiple_of(4),
    };
    Attributes(body.get(behind..).unwrap_or_default()).text(EXT_ACK_MESSAGE).unwrap_or_default()
}

/// A generic family, found by name.
#[derive(Clone, Copy, Debug)]
pub(super) struct Family(u16);

impl Family {
    /// Asks for its number. None: this kernel has no such family.
    pub(super) fn find(netlink: &mut Netlink, name: &str) -> Result<Option<Family>, Refusal> {
        const CONTROLLER: u16 = 16;
        const GET_FAMILY: u8 = 3;
        const FAMILY_ID: u16 = 1;
        const FAMILY_NAME: u16 = 2;
        let mut request = Family(CONTROLLER).request(GET_FAMILY, 0);
        request.put_text(FAMILY_NAME, name);
        match netlink.ask(&request) {
            Ok(replies) => {
                let number = |reply: &Reply| reply.split::<GENERIC_HEADER_SIZE>().1.u16(FAMILY_ID);
                Ok(replies.iter().find_map(number).map(Family))
            }
            Err(refusal) if refusal.cause == crate::kernel::Cause::Gone => Ok(None),
            Err(refusal) => Err(refusal),
        }
    }

    /// A request of this family: `struct genlmsghdr` is the command, the version, and two bytes of nothing.
    pub(super) fn request(self, command: u8, flags: u16) -> Message {
        Message::new(self.0, flags, &[command, 1, 0, 0])
    }
}

/// Size of `struct genlmsghdr`.
pub(super) const GENERIC_HEADER_SIZE: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_laid_out_as_netlink_wants_and_read_again() {
        let mut message = Message::new(36, CREATE, &[9; 20]);
        message.put_text(1, "mq").nest(2, &[7; 2], |inner| {
            inner.put_u32(3, 0x0102_0304).put_u8(4, 5);
        });
        let length = |n: u16| n.to_ne_bytes();
        let want = [
            &length(7)[..],
            &length(1),
            b"mq\0\0",
            &length(24),
            &length(2 | NESTED),
            &[7, 7, 0, 0],
            &length(8),
            &length(3),
            &0x0102_0304_u32.to_ne_bytes(),
            &length(5),
            &length(4),
            &[5, 0, 0, 0],
        ]
        .concat();
        assert_eq!(message.bytes[HEADER_SIZE + 20..], want);
        assert_eq!(u16_at(&message.bytes, 6), CREATE | REQUEST);
        let attributes = message.attributes(20);
        assert_eq!(attributes.text(1).unwrap(), "mq");
        let inner = Attributes(&attributes.find(2).unwrap()[4..]);
        assert_eq!((inner.u32(3), inner.u8(4), inner.number(4)), (Some(0x0102_0304), Some(5), Some(5)));
    }

    #[test]
    fn what_is_cut_off_is_not_there() {
        let mut message = Message::new(0, 0, &[]);
        message.put_u32(1, 1).put_u32(2, 2);
        let bytes = &message.bytes[HEADER_SIZE..];
        for end in 0..bytes.len() {
            let seen = Attributes(&bytes[..end]).count();
            assert_eq!(seen, end / 8, "{end}");
        }
        assert_eq!(Attributes(&[0, 0, 0, 0, 1, 1, 1, 1]).count(), 0, "a length of nothing ends it");
    }

    #[test]
    fn the_kernels_words_are_found_behind_the_request() {
        let mut said = Message::new(0, 0, &[]);
        said.put_text(EXT_ACK_MESSAGE, "Exclusivity flag on");
        let said = &said.bytes[HEADER_SIZE..];
        let capped = [&[0; 4 + HEADER_SIZE][..], said].concat();
        assert_eq!(words(&capped, ERROR, CAPPED | ACK_TLVS), "Exclusivity flag on");
        let request = [&[0; 4][..], &24_u32.to_ne_bytes(), &[0; 20], said].concat();
        assert_eq!(words(&request, ERROR, ACK_TLVS), "Exclusivity flag on");
        assert_eq!(words(&capped, ERROR, CAPPED), "");
    }

    /// A message of the kernel: type, flags, number of the request, body.
    fn message(kind: u16, flags: u16, sequence: u32, body: &[u8]) -> Vec<u8> {
        let length = u32::try_from(HEADER_SIZE + body.len()).unwrap();
        [
            &length.to_ne_bytes()[..],
            &kind.to_ne_bytes(),
            &flags.to_ne_bytes(),
            &sequence.to_ne_bytes(),
            &[0; 4],
            body,
        ]
        .concat()
    }

    /// What an asker gets of a kernel that has said all of this beforehand, a datagram each; how often it asked.
    fn told(answers: &[Vec<u8>]) -> (Result<Vec<Vec<u8>>, Refusal>, u32) {
        let (socket, kernel) = std::os::unix::net::UnixDatagram::pair().unwrap();
        for answer in answers {
            kernel.send(answer).unwrap();
        }
        let mut netlink = Netlink { socket: socket.into(), sequence: 0, piece: vec![0; PIECE_SIZE] };
        let replies = netlink.ask(&Message::new(36, DUMP, &[]));
        (replies.map(|replies| replies.into_iter().map(|reply| reply.0).collect()), netlink.sequence)
    }

    #[test]
    fn a_dump_into_which_a_change_fell_is_asked_for_again() {
        let done = |sequence, flags| message(DONE, flags, sequence, &[0; 4]);
        // The number of its dump is in each part; the change is marked in a part or at the end.
        let dumps = |changed_count: u32| -> Vec<Vec<u8>> {
            let dump = |sequence: u32| {
                let flags = if sequence <= changed_count { DUMP_INTERRUPTED } else { 0 };
                let (part, end) = if sequence.is_multiple_of(2) { (flags, 0) } else { (0, flags) };
                let parts = [message(20, part, sequence, &sequence.to_ne_bytes()), done(sequence, end)];
                // What an earlier request was not waited for comes first.
                [message(20, 0, 99, b"late"), parts.concat()]
            };
            (1..=changed_count + 1).flat_map(dump).collect()
        };
        let count = u32::try_from(DUMPS_COUNT_MAX).unwrap();
        for changed in 0..count {
            let (replies, asked) = told(&dumps(changed));
            assert_eq!((replies.unwrap(), asked), (vec![(changed + 1).to_ne_bytes().to_vec()], changed + 1));
        }
        let (refused, asked) = told(&dumps(count));
        let refusal = refused.unwrap_err();
        assert!(
            refusal.cause == crate::kernel::Cause::Busy && refusal.reason.contains("changed 5 times"),
            "{refusal}"
        );
        assert_eq!(asked, count);
    }

    #[test]
    fn an_answer_ends_with_its_error() {
        let error = |code: i32| [&code.to_ne_bytes()[..], &[0; HEADER_SIZE]].concat();
        let (refused, asked) =
            told(&[message(20, 0, 1, b"part"), message(ERROR, 0, 1, &error(-libc::EBUSY))]);
        assert_eq!((refused.unwrap_err().cause, asked), (crate::kernel::Cause::Busy, 1));
        let (replies, _) = told(&[message(20, 0, 1, b"part"), message(ERROR, 0, 1, &error(0))]);
        assert_eq!(replies.unwrap(), [b"part".to_vec()]);
    }
}

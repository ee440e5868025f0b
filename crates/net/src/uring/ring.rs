//! The two queues that are shared with the kernel, and with [`handle`](super::handle) all of this backend that is unsafe.
//!
//! Two rules make it short:
//! * The kernel works for us only during `io_uring_enter`, on our own thread (deferred task run, single issuer). No
//!   byte of a buffer and no place of a queue changes while other code of this thread runs.
//! * A send is submitted with `MSG_DONTWAIT`, so it ends in the enter that submits it, with what the socket took, or
//!   `EAGAIN` (Linux, io_uring/net.c: such a request is not armed for later). Output is lent for one enter.

use std::io::{self, IoSlice, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;

use io_uring::squeue::{Entry, Flags};
use io_uring::types::{CancelBuilder, Fd, Fixed, Napi};
use io_uring::{IoUring, cqueue, opcode};

use super::buffers::{BUFFER_SIZE, Buffers, GROUP};
use super::handle::{Handle, Work};
use super::token::{Task, Token};
use crate::Output;
use crate::epoll::sys::shut_sending;

/// Places for submissions. A turn that needs more enters once more.
const SUBMISSIONS_COUNT: u32 = 512;

/// Places for completions. If more come, the kernel keeps them and the next enter brings them.
const COMPLETIONS_COUNT: u32 = 4096;

/// Sends of several pieces in one enter; more take one more enter.
const MESSAGES_COUNT: usize = 64;

/// Pieces of output that go with one send; more wait for the next turn.
const SLICES_MAX: usize = 64;

/// Connections whose sends go by a place: as many of these as RLIMIT_NOFILE allows. Those beyond go by their descriptors.
const PLACES_COUNTS: [u32; 3] = [4096, 1024, 256];

/// What became of an operation.
#[derive(Debug)]
pub(super) struct Completion {
    pub(super) token: Token,
    /// As the system call would have returned it, or minus the errno.
    pub(super) result: i32,
    /// The client that was accepted.
    pub(super) fd: Option<OwnedFd>,
    /// The buffer that was received into; ours until it is given back.
    pub(super) buffer: Option<u16>,
    /// The operation goes on.
    pub(super) more: bool,
}

/// A `sendmsg` of several pieces. The header points into its own slices.
struct Message {
    header: libc::msghdr,
    slices: [libc::iovec; SLICES_MAX],
}

pub(super) struct Ring {
    ring: IoUring,
    handle: Handle,
    /// Sockets that can be known by a place at once.
    places_count: u32,
    pub(super) buffers: Buffers,
    messages: Box<[Message]>,
    messages_count: usize,
    /// Sends submitted or about to be, whose completions have not been seen.
    sends_open: usize,
    /// Collected and not yet looked at.
    pub(super) completions: Vec<Completion>,
    /// A receive may bring more than once.
    pub(super) receives_last: bool,
    enters: u64,
    operations: u64,
    seatings: u64,
}

impl Ring {
    /// A ring of the calling thread, which alone may use it.
    pub(super) fn new(buffers_count: u16) -> io::Result<Ring> {
        let ring = IoUring::builder()
            .setup_cqsize(COMPLETIONS_COUNT)
            .setup_submit_all()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_taskrun_flag()
            .build(SUBMISSIONS_COUNT)?;
        let buffers = Buffers::new(&ring.submitter(), buffers_count)?;
        let handle = Handle::of(&ring);
        let can_seat = |count: &u32| ring.submitter().register_files_sparse(*count).is_ok();
        let places_count = PLACES_COUNTS.into_iter().find(can_seat).unwrap_or(0);
        let empty = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
        let message = || Message {
            // SAFETY: all zeros is a valid, empty msghdr.
            header: unsafe { std::mem::zeroed() },
            slices: [empty; SLICES_MAX],
        };
        let messages = (0..MESSAGES_COUNT).map(|_| message()).collect();
        let mut ring = Ring {
            ring,
            handle,
            places_count,
            buffers,
            messages,
            messages_count: 0,
            sends_open: 0,
            completions: Vec::new(),
            receives_last: false,
            enters: 0,
            operations: 0,
            seatings: 0,
        };
        ring.receives_last = ring.can_receives_last()?;
        if !ring.can_unseat() {
            ring.places_count = 0;
        }
        Ok(ring)
    }

    /// Whether the kernel lets go of a socket when its place is freed, as it does since 6.4; before, only a while later.
    fn can_unseat(&mut self) -> bool {
        let Ok((ours, mut theirs)) = UnixStream::pair() else { return false };
        let ours = OwnedFd::from(ours);
        if theirs.set_nonblocking(true).is_err() || !self.seat(&ours, 0) {
            return false;
        }
        self.unseat(&ours, 0);
        drop(ours);
        self.seatings = 0;
        matches!(theirs.read(&mut [0]), Ok(0))
    }

    /// Whether the kernel knows the limit of a receive that lasts (6.17), and lets such a one tell of bytes and of the end behind them that
    /// came before it looked: until "io_uring/poll: fix multishot recv missing EOF on wakeup race" (CVE-2026-23473, early in
    /// 2026) it told only of the bytes, and a break behind bytes was lost likewise. The limit and the end are tried.
    fn can_receives_last(&mut self) -> io::Result<bool> {
        const TIME_NS: u64 = 10_000_000;
        let Ok((ours, mut theirs)) = UnixStream::pair() else { return Ok(false) };
        let entry = with_limit(opcode::RecvMulti::new(Fd(ours.as_raw_fd()), GROUP).build(), 2);
        self.push(entry, Token::CANCEL);
        self.ring.submit()?;
        self.collect();
        if self.completions.is_empty() {
            theirs.write_all(b"?")?;
            theirs.shutdown(Shutdown::Write)?;
            self.call(2, Some(TIME_NS));
        }
        let told: Vec<_> = self.completions.iter().map(|told| (told.result, told.more)).collect();
        if told.last().is_none_or(|(_, more)| *more) {
            self.cancel(Token::CANCEL);
            self.call(self.completions.len() + 2, Some(TIME_NS));
        }
        for completion in self.completions.drain(..) {
            completion.buffer.into_iter().for_each(|buffer| self.buffers.give_back(buffer));
        }
        (self.enters, self.operations) = (0, 0);
        Ok(told == [(1, true), (0, false)])
    }

    /// As [`Uring::be_plain`](super::Uring::be_plain).
    pub(super) fn be_plain(&mut self) {
        (self.receives_last, self.places_count) = (false, 0);
    }

    /// Calls of `io_uring_enter` so far.
    pub(super) fn enters(&self) -> u64 {
        self.enters
    }

    /// Operations submitted so far.
    pub(super) fn operations(&self) -> u64 {
        self.operations
    }

    /// Accepts whoever knocks, until told otherwise or out of descriptors.
    pub(super) fn accept(&mut self, listener: &OwnedFd, token: Token) {
        let entry = opcode::AcceptMulti::new(fd(listener)).flags(libc::SOCK_CLOEXEC).build();
        self.push(entry, token);
    }

    /// Tells when one of `mask` holds, once, or at each change. Errors and hang-ups are always told (poll(2)), and that the client
    /// has shut down its sending side: from then on what tells once tells that at once, each time.
    pub(super) fn poll(&mut self, socket: &OwnedFd, token: Token, mask: i16, always: bool) {
        let mask = u32::try_from(mask).expect("the bits of poll are positive");
        self.push(opcode::PollAdd::new(fd(socket), mask).multi(always).build(), token);
    }

    /// Receives up to `size` bytes into buffers: once, or, where more than a buffer has room, whenever something comes.
    ///
    /// The latter the kernel ends with the receive that reaches the limit, and that one may fill its buffer.
    pub(super) fn receive(&mut self, socket: &OwnedFd, token: Token, size: usize) {
        let entry = if self.receives_last && BUFFER_SIZE < size {
            let limit = u32::try_from(size - BUFFER_SIZE + 1).expect("some thousand bytes");
            with_limit(opcode::RecvMulti::new(fd(socket), GROUP).build(), limit)
        } else {
            let size = u32::try_from(size.min(BUFFER_SIZE)).expect("some thousand bytes");
            let entry = opcode::Recv::new(fd(socket), std::ptr::null_mut(), size).buf_group(GROUP).build();
            entry.flags(Flags::BUFFER_SELECT)
        };
        self.push(entry, token);
    }

    /// Has a socket known by this place from now on. By its descriptor the kernel takes a reference to it for each operation and gives it
    /// back, with an atomic instruction each. False if it can't be.
    pub(super) fn seat(&mut self, socket: &OwnedFd, place: u32) -> bool {
        let is_seated = place < self.places_count && self.occupy(place, socket.as_raw_fd()).is_ok();
        if !is_seated && place < self.places_count {
            // Nobody is asked to try with each send.
            self.places_count = 0;
        }
        is_seated
    }

    /// The place is free, and its socket is held by nothing but its descriptor and what is under way.
    pub(super) fn unseat(&mut self, socket: &OwnedFd, place: u32) {
        if self.occupy(place, -1).is_err() {
            // The kernel lacks memory for it, before 6.13: the client is told, and the next at this place frees the socket.
            shut_sending(socket);
        }
    }

    fn occupy(&mut self, place: u32, fd: RawFd) -> io::Result<usize> {
        self.seatings += 1;
        self.ring.submitter().register_files_update(place, &[fd])
    }

    /// Calls of `io_uring_register` for [seats](Ring::seat) so far.
    pub(super) fn seatings(&self) -> u64 {
        self.seatings
    }

    /// Sends up to `size_max` bytes of `output`; how many were offered.
    ///
    /// # Safety
    /// Until the next `enter` or `submit` has returned, `output` neither changes nor goes.
    pub(super) unsafe fn send(
        &mut self,
        socket: Line<'_>,
        token: Token,
        output: &Output,
        size_max: usize,
    ) -> usize {
        const FLAGS: i32 = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
        let mut one = [IoSlice::new(&[])];
        let (_, mut offered_size) = output.gather(&mut one, size_max);
        let entry = if offered_size == output.len() || offered_size == size_max {
            let size = u32::try_from(offered_size).expect("a send of a turn is small");
            match socket {
                Line::Place(place) => {
                    opcode::Send::new(Fixed(place), one[0].as_ptr(), size).flags(FLAGS).build()
                }
                Line::Socket(socket) => {
                    opcode::Send::new(fd(socket), one[0].as_ptr(), size).flags(FLAGS).build()
                }
            }
        } else {
            // Submitting later would give the message to the next send while this one's entry is not there yet.
            if self.messages_count == self.messages.len() || self.ring.submission().is_full() {
                self.submit();
            }
            let mut slices = [IoSlice::new(&[]); SLICES_MAX];
            let (count, size) = output.gather(&mut slices, size_max);
            offered_size = size;
            let message = &mut self.messages[self.messages_count];
            self.messages_count += 1;
            for (place, slice) in message.slices.iter_mut().zip(&slices[..count]) {
                *place = libc::iovec { iov_base: slice.as_ptr().cast_mut().cast(), iov_len: slice.len() };
            }
            message.header.msg_iov = message.slices.as_mut_ptr();
            message.header.msg_iovlen = count;
            let (header, flags) = (&raw const message.header, FLAGS.cast_unsigned());
            match socket {
                Line::Place(place) => opcode::SendMsg::new(Fixed(place), header).flags(flags).build(),
                Line::Socket(socket) => opcode::SendMsg::new(fd(socket), header).flags(flags).build(),
            }
        };
        self.push(entry, token);
        self.sends_open += 1;
        offered_size
    }

    /// Ends the operation of that token, whose completion still comes. One that is over is left alone.
    pub(super) fn cancel(&mut self, token: Token) {
        self.push(opcode::AsyncCancel::new(token.pack()).build(), Token::CANCEL);
    }

    fn push(&mut self, entry: Entry, token: Token) {
        if self.ring.submission().is_full() {
            self.submit();
        }
        let entry = entry.user_data(token.pack());
        // SAFETY: what the entry points to is a send's output and message. The caller of `send` promises the former
        // until the enter that ends the send, and messages are not written to before that either: `send` takes one when
        // there is room for its entry. Sockets may be closed at any time: the kernel holds the file.
        unsafe { self.ring.submission().push(&entry) }.expect("there is room, or was just made");
        self.operations += 1;
    }

    /// Hands over what was pushed, without asking for more than what comes of it at once.
    pub(super) fn submit(&mut self) {
        while !self.ring.submission().is_empty() {
            self.call(0, Some(0));
        }
        self.messages_count = 0;
    }

    /// Hands over what was pushed, sleeps up to `timeout_ns` for something else than the ends of sends (`None`: for
    /// ever; zero: only looks), and collects what has happened. Looks on, without sleeping, while the kernel says
    /// that it has more and fewer than `count_min` are here: it works off about 20 at a time (Linux 6.13,
    /// `IO_LOCAL_TW_DEFAULT_MAX`), or as many as are waited for. Calls nothing if there is nothing to do.
    pub(super) fn enter(&mut self, timeout_ns: Option<u64>, count_min: usize) {
        if timeout_ns != Some(0) && self.completions.is_empty() {
            self.call(self.sends_open + 1, timeout_ns);
        } else if !self.ring.submission().is_empty() {
            self.call(self.sends_open, Some(0));
        }
        self.submit();
        while self.sends_open > 0 || (self.has_pending() && self.completions.len() < count_min) {
            let count_before = self.completions.len();
            self.call(self.sends_open, Some(0));
            if self.sends_open == 0 && self.completions.len() == count_before {
                break;
            }
        }
    }

    /// Whether an enter may bring something, as far as can be seen without one. The kernel says so after it has
    /// queued the work (`io_req_local_work_add`), and another core may say so when the work is done already; the flag
    /// then stays until there is work again. So whoever goes by it stops at an enter that brings nothing.
    pub(super) fn has_pending(&mut self) -> bool {
        let submission = self.ring.submission();
        submission.taskrun() || submission.cq_overflow()
    }

    /// One `io_uring_enter`. Sends end inside it, so waiting for as many completions as there are sends never sleeps,
    /// and one more is the first piece of news.
    fn call(&mut self, want: usize, timeout_ns: Option<u64>) {
        self.enters += 1;
        let works_off = want > 0 || self.has_pending();
        let work = Work { count: self.ring.submission().len(), want, works_off };
        let timeout_ns = timeout_ns.filter(|nanoseconds| 0 < *nanoseconds);
        // SAFETY: what was pushed points to what lives until the enter that ends it, as `push` says.
        let entered = unsafe { self.handle.enter(&work, timeout_ns) };
        if let Err(error) = entered {
            match error.raw_os_error() {
                // Time is up; a signal; completions to be collected first, or memory short for a moment. Whoever
                // has not been submitted yet is still there.
                Some(libc::ETIME | libc::EINTR | libc::EBUSY | libc::EAGAIN) => {}
                _ => panic!("io_uring_enter of the thread that owns the ring succeeds: {error}"),
            }
        }
        self.collect();
    }

    fn collect(&mut self) {
        for entry in self.ring.completion() {
            let token = Token::unpack(entry.user_data());
            if token.task == Task::Send {
                self.sends_open -= 1;
            }
            let (result, flags) = (entry.result(), entry.flags());
            let (buffer, more) = (cqueue::buffer_select(flags), cqueue::more(flags));
            let fd = (token.task == Task::Accept && 0 <= result).then(|| {
                // SAFETY: the kernel has just made this descriptor for us, and tells nobody else.
                unsafe { OwnedFd::from_raw_fd(result) }
            });
            self.completions.push(Completion { token, result, fd, buffer, more });
        }
    }

    /// Lets the kernel poll network cards up to `duration_us` before it sleeps; zero: no longer.
    pub(super) fn set_busy_poll(&self, duration_us: u32) -> io::Result<()> {
        let mut napi = Napi::new().set_busy_poll_timeout(duration_us).set_prefer_busy_poll(duration_us > 0);
        let submitter = self.ring.submitter();
        if duration_us > 0 {
            submitter.register_napi(&mut napi)
        } else {
            submitter.unregister_napi(&mut napi)
        }
    }
}

impl Drop for Ring {
    /// The kernel lets go of sockets now and not at its leisure, so that a port is free when its net is gone.
    fn drop(&mut self) {
        let _ = self.ring.submitter().register_sync_cancel(None, CancelBuilder::any());
        let mut count_before = usize::MAX;
        while self.has_pending() && self.completions.len() != count_before {
            count_before = self.completions.len();
            self.call(0, Some(0));
        }
        let _ = self.ring.submitter().unregister_buf_ring(GROUP);
        let _ = self.ring.submitter().unregister_files();
        self.handle.forget();
    }
}

/// A socket, as an operation is told of it.
#[derive(Clone, Copy)]
pub(super) enum Line<'a> {
    Socket(&'a OwnedFd),
    /// By where it was [seated](Ring::seat).
    Place(u32),
}

/// Such a receive ends when it has brought so many bytes (Linux 6.17).
fn with_limit(mut entry: Entry, limit: u32) -> Entry {
    const { assert!(size_of::<Entry>() == 64, "it is the kernel's `struct io_uring_sqe`, and nothing else") };
    // SAFETY: bytes 44 to 47 of the 64 are `optlen` (`include/uapi/linux/io_uring.h`), and aligned.
    unsafe { (&raw mut entry).cast::<u32>().add(11).write(limit) };
    entry
}

fn fd(fd: &OwnedFd) -> Fd {
    Fd(fd.as_raw_fd())
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Read;
    use std::sync::Arc;

    use super::*;
    use crate::epoll::sys;
    use crate::output::Pool;
    use crate::uring::probe;
    use crate::{Chunk, ConnId};

    /// A ring that waits for so many bells, none of which has rung.
    fn listening(count: usize) -> Option<(Ring, Vec<File>)> {
        if let Err(why) = probe() {
            eprintln!("left out: {why}");
            return None;
        }
        let mut ring = Ring::new(16).unwrap();
        let bells: Vec<OwnedFd> = (0..count).map(|_| sys::eventfd().unwrap()).collect();
        bells.iter().for_each(|bell| ring.poll(bell, Token::BELL, libc::POLLIN, false));
        ring.enter(Some(0), count);
        assert!(ring.completions.is_empty(), "no bell has rung");
        Some((ring, bells.into_iter().map(File::from).collect()))
    }

    /// Two sends of several pieces, the first of which finds no place: it waits for nobody else's bytes.
    #[test]
    fn a_message_that_finds_no_place_is_sent_as_it_is() {
        let Some((mut ring, _)) = listening(0) else { return };
        let pairs = [(); 2].map(|()| UnixStream::pair().unwrap());
        let chunk: Chunk = Arc::new(vec![b'.'; 40_000]);
        let mut pool = Pool::default();
        let outputs = [b"first", b"other"].map(|text| {
            let mut output = Output::new();
            output.lend(&mut pool);
            output.extend(text);
            output.push_chunk(Arc::clone(&chunk), 0..10);
            output
        });
        let sockets = pairs.each_ref().map(|(ours, _)| OwnedFd::from(ours.try_clone().unwrap()));
        for _ in 0..SUBMISSIONS_COUNT {
            ring.cancel(Token::BELL);
        }
        let sending = Token::of(Task::Send, ConnId { index: 1, generation: 1 });
        for (socket, output) in sockets.iter().zip(&outputs) {
            // SAFETY: neither output changes or goes before the enter.
            let offered = unsafe { ring.send(Line::Socket(socket), sending, output, 1 << 16) };
            assert_eq!(offered, 15);
        }
        ring.enter(Some(0), 0);
        for ((_, theirs), text) in pairs.iter().zip(["first..........", "other.........."]) {
            let mut got = [0; 15];
            (&*theirs).read_exact(&mut got).unwrap();
            assert_eq!(std::str::from_utf8(&got).unwrap(), text);
        }
    }

    /// A seated socket whose descriptor is gone ends when the ring goes, and not later; and the ring's own place is free again.
    #[test]
    fn a_ring_that_goes_lets_go_of_all_it_held() {
        for _ in 0..20 {
            let Some((mut ring, _)) = listening(0) else { return };
            assert!(ring.handle.has_place());
            let (ours, mut theirs) = UnixStream::pair().unwrap();
            theirs.set_nonblocking(true).unwrap();
            assert!(ring.seat(&OwnedFd::from(ours), 7));
            assert_eq!(theirs.read(&mut [0]).unwrap_err().kind(), io::ErrorKind::WouldBlock);
            drop(ring);
            assert_eq!(theirs.read(&mut [0]).unwrap(), 0, "it has ended");
        }
    }

    fn strike(bell: &mut File) {
        bell.write_all(&1_u64.to_ne_bytes()).unwrap();
    }

    /// The kernel works off some 20 completions at a time; a look goes on until as many are here as it wants.
    #[test]
    fn a_look_brings_more_than_the_kernel_works_off_at_once() {
        let Some((mut ring, mut bells)) = listening(200) else { return };
        bells.iter_mut().for_each(strike);
        ring.enter(Some(0), 128);
        let count = ring.completions.len();
        assert!((128..=200).contains(&count), "{count} completions");
        ring.enter(Some(0), 200);
        assert_eq!(ring.completions.len(), 200);
    }

    /// One has been seen and is not yet taken; what comes before the next look is found by that look, though nothing is
    /// submitted with it.
    #[test]
    fn what_comes_between_two_looks_is_found_by_the_second() {
        let Some((mut ring, mut bells)) = listening(3) else { return };
        for (index, bell) in bells.iter_mut().enumerate() {
            strike(bell);
            assert!(ring.has_pending(), "the kernel says so");
            ring.enter(Some(0), 3);
            assert_eq!(ring.completions.len(), index + 1);
        }
        let enters = ring.enters();
        ring.enter(Some(0), 4);
        assert!(ring.enters() <= enters + 1 && ring.completions.len() == 3, "a look that finds nothing ends");
    }
}

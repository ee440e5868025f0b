//! Lines of the server's log until they are written: whoever has something to say leaves it here, and a thread of its own writes it.
//! So whoever reads the log slowly, or not at all, keeps nobody waiting: not the control thread, on which replicas and the log of
//! changes depend, and no lane.

use std::collections::VecDeque;
use std::io::Write;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Lines that wait have no more bytes than this. What finds no room is left out, and so is what comes behind it until all that waits is
/// written; then a line says how many it were.
const SIZE_MAX: usize = 1 << 20;

pub(crate) struct LogQueue {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    has_writer: bool,
    lines: VecDeque<String>,
    /// Bytes of the lines that wait, and of the one that is being written.
    size: usize,
    left_out_count: u64,
}

impl State {
    fn is_settled(&self) -> bool {
        self.size == 0 && self.left_out_count == 0
    }
}

impl LogQueue {
    pub(crate) const fn new() -> LogQueue {
        let state = State { has_writer: false, lines: VecDeque::new(), size: 0, left_out_count: 0 };
        LogQueue { state: Mutex::new(state), changed: Condvar::new() }
    }

    /// From now on somebody calls [`LogQueue::write_next`] over and over.
    pub(crate) fn note_writer(&self) {
        self.lock().has_writer = true;
    }

    /// Takes a line, whose end belongs to it.
    ///
    /// # Errors
    /// The line, if nobody writes what waits.
    pub(crate) fn push(&self, line: String) -> Result<(), String> {
        let mut state = self.lock();
        if !state.has_writer {
            return Err(line);
        }
        if state.left_out_count > 0 || SIZE_MAX < state.size + line.len() {
            state.left_out_count += 1;
        } else {
            state.size += line.len();
            state.lines.push_back(line);
        }
        self.changed.notify_all();
        Ok(())
    }

    /// Waits for something to write, and writes it in one piece. `notice` makes the line that says how many were left out.
    pub(crate) fn write_next(&self, out: &mut impl Write, notice: impl FnOnce(u64) -> String) {
        let state = self.lock();
        let waited = self.changed.wait_while(state, |state| state.is_settled());
        let mut state = waited.unwrap_or_else(PoisonError::into_inner);
        let (line, told_count) = match state.lines.pop_front() {
            Some(line) => (line, 0),
            None => {
                let line = notice(state.left_out_count);
                state.size += line.len();
                (line, state.left_out_count)
            }
        };
        drop(state);
        // A reader that has gone away is no reason to stop.
        let _ = out.write_all(line.as_bytes());
        let mut state = self.lock();
        state.size -= line.len();
        state.left_out_count -= told_count;
        drop(state);
        self.changed.notify_all();
    }

    /// Waits until all is written that waits, no longer than that.
    pub(crate) fn settle(&self, duration_max: Duration) {
        let is_unsettled = |state: &mut State| !state.is_settled();
        drop(self.changed.wait_timeout_while(self.lock(), duration_max, is_unsettled));
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str) -> String {
        format!("{text}\n")
    }

    /// What is written in so many steps.
    fn written(queue: &LogQueue, count: usize) -> String {
        let mut out = Vec::new();
        for _ in 0..count {
            queue.write_next(&mut out, |count| line(&format!("{count} left out")));
        }
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn lines_are_written_in_order() {
        let queue = LogQueue::new();
        assert_eq!(queue.push(line("early")), Err(line("early")), "nobody writes");
        queue.note_writer();
        ["a", "b", "c"].iter().for_each(|text| queue.push(line(text)).unwrap());
        assert_eq!(written(&queue, 2), "a\nb\n");
        queue.push(line("d")).unwrap();
        assert_eq!(written(&queue, 2), "c\nd\n");
        queue.settle(Duration::MAX);
    }

    #[test]
    fn what_finds_no_room_is_counted_and_told() {
        let queue = LogQueue::new();
        queue.note_writer();
        let half = line(&"x".repeat(SIZE_MAX / 2 - 1));
        for _ in 0..3 {
            queue.push(half.clone()).unwrap();
        }
        queue.push(line("short, and behind what is missing")).unwrap();
        assert_eq!(written(&queue, 1), half);
        queue.push(line("with room, and what is missing untold")).unwrap();
        assert_eq!(written(&queue, 2), format!("{half}3 left out\n"));
        queue.push(line("again")).unwrap();
        assert_eq!(written(&queue, 1), "again\n");
        queue.settle(Duration::MAX);
    }

    /// A line that is being written takes room, and the end of its writing is waited for.
    #[test]
    fn what_is_not_written_yet_counts() {
        struct Slow<'a>(&'a LogQueue);
        impl Write for Slow<'_> {
            fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
                self.0.settle(Duration::ZERO);
                assert!(!self.0.lock().is_settled());
                self.0.push("y".repeat(SIZE_MAX - bytes.len() + 1)).unwrap();
                Ok(bytes.len())
            }
            fn flush(&mut self) -> std::io::Result<()> {
                Ok(())
            }
        }
        let queue = LogQueue::new();
        queue.note_writer();
        queue.push(line("x")).unwrap();
        queue.write_next(&mut Slow(&queue), line_of_none);
        assert_eq!(written(&queue, 1), "1 left out\n");
    }

    fn line_of_none(_: u64) -> String {
        unreachable!("nothing was left out before")
    }

    #[test]
    fn a_reader_that_has_gone_away_keeps_nothing_waiting() {
        struct Gone;
        impl Write for Gone {
            fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
                Err(std::io::ErrorKind::BrokenPipe.into())
            }
            fn flush(&mut self) -> std::io::Result<()> {
                Ok(())
            }
        }
        let queue = LogQueue::new();
        queue.note_writer();
        queue.push(line("x")).unwrap();
        queue.write_next(&mut Gone, line_of_none);
        queue.settle(Duration::MAX);
    }
}

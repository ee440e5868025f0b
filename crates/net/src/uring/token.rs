//! What an operation is called in the kernel's queues: its task and whose it is, in 64 bits.
//!
//! ```text
//!   63    56 55                 32 31                        0
//!   [ task | index of a connection | generation              ]   or the number of a listener
//! ```

use crate::ConnId;

/// Connections of one net at once, less one: as many as an index in a token can name.
pub(super) const INDEX_MAX: u32 = (1 << 24) - 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Task {
    /// The bell has rung.
    Bell = 0,
    /// An operation was cancelled, or was over.
    Cancel = 1,
    /// Clients are let in at a listener.
    Accept = 2,
    /// Somebody knocks at a listener that has no descriptor to let him in with.
    Knock = 3,
    /// There is something to receive for the first time.
    First = 4,
    /// Bytes are received.
    Receive = 5,
    /// Output is sent.
    Send = 6,
    /// A socket that took less than was offered has room.
    Room = 7,
    /// A connection from which nothing is received breaks.
    Watch = 8,
}

const TASKS: [Task; 9] = [
    Task::Bell,
    Task::Cancel,
    Task::Accept,
    Task::Knock,
    Task::First,
    Task::Receive,
    Task::Send,
    Task::Room,
    Task::Watch,
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) task: Task,
    /// Of a connection or a listener.
    index: u32,
    generation: u32,
}

impl Token {
    pub(super) const BELL: Token = Token { task: Task::Bell, index: 0, generation: 0 };
    pub(super) const CANCEL: Token = Token { task: Task::Cancel, index: 0, generation: 0 };

    pub(super) fn of(task: Task, conn: ConnId) -> Token {
        assert!(conn.index <= INDEX_MAX, "a lane serves fewer than 16 million connections");
        Token { task, index: conn.index, generation: conn.generation }
    }

    pub(super) fn of_listener(task: Task, number: u32) -> Token {
        Token { task, index: number, generation: 0 }
    }

    pub(super) fn conn(self) -> ConnId {
        ConnId { index: self.index, generation: self.generation }
    }

    pub(super) fn listener(self) -> u32 {
        self.index
    }

    pub(super) fn pack(self) -> u64 {
        let task = u64::from(self.task as u8);
        task << 56 | u64::from(self.index) << 32 | u64::from(self.generation)
    }

    pub(super) fn unpack(packed: u64) -> Token {
        let part = |shift: u32, bits: u64| {
            u32::try_from(packed >> shift & bits).expect("at most 32 bits are left by the mask")
        };
        let task = usize::try_from(part(56, 0xff)).expect("eight bits");
        let task = *TASKS.get(task).expect("the kernel gives tokens back as they were");
        Token { task, index: part(32, u64::from(INDEX_MAX)), generation: part(0, u64::from(u32::MAX)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_comes_back_as_it_went() {
        for task in TASKS {
            for (index, generation) in [(0, 0), (1, u32::MAX), (INDEX_MAX, 1), (77, 1 << 31)] {
                let token = Token::of(task, ConnId { index, generation });
                assert_eq!(Token::unpack(token.pack()), token);
            }
        }
    }
}

//! What an agent may be asked when. What it does then takes time, so it is told here when that is over.
//!
//! ```text
//! idle ──prepare──▶ preparing ──prepared──▶ ready ──start──▶ running ──ended──▶ idle
//!                       └─────could not─────▶ idle
//! ```
//! A prepared load that is not wanted ends with the connection.

use super::Breach;
use super::message::{Ask, Describe, Ping, Start, Task};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Idle,
    Preparing,
    Ready,
    Running,
}

/// What the agent has to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Act {
    /// Say what the clocks say.
    Pong(Ping),
    /// Look at the machine.
    Describe {
        /// Also whether others use it; nothing of this program's disturbs that.
        is_watched: bool,
    },
    /// Make connections and threads, then call [`Session::prepared`].
    Prepare(Box<Task>),
    /// Begin, and call [`Session::ended`] when it is over.
    Start(Start),
    /// End what runs.
    Stop,
    /// It was too late to do anything.
    Nothing,
}

/// One coordinator's.
pub struct Session(State);

impl Session {
    /// Nothing is prepared.
    #[expect(clippy::new_without_default, reason = "a session begins at an event, and is no plain value")]
    pub fn new() -> Session {
        Session(State::Idle)
    }

    /// The coordinator has said something.
    ///
    /// # Errors
    /// It should not have, now.
    pub fn asked(&mut self, ask: Ask) -> Result<Act, Breach> {
        let untimely = |what: &str| Err(Breach::Untimely(what.to_owned()));
        Ok(match (ask, self.0) {
            (Ask::Ping(ping), _) => Act::Pong(ping),
            (Ask::Describe(Describe { is_before }), state) => {
                Act::Describe { is_watched: is_before && state == State::Idle }
            }
            (Ask::Prepare(task), State::Idle) => {
                self.0 = State::Preparing;
                Act::Prepare(task)
            }
            (Ask::Prepare(_), _) => return untimely("prepare, before the last load has ended"),
            (Ask::Start(start), _) if start.first >= start.of => {
                return untimely("start, as a thread that is none of them");
            }
            (Ask::Start(start), State::Ready) => {
                self.0 = State::Running;
                Act::Start(start)
            }
            (Ask::Start(_), _) => return untimely("start, before the load is ready"),
            (Ask::Stop, State::Running) => Act::Stop,
            // It has ended meanwhile.
            (Ask::Stop, State::Idle) => Act::Nothing,
            (Ask::Stop, _) => return untimely("stop, before the load has begun"),
        })
    }

    /// The load is ready, or can't be made.
    pub fn prepared(&mut self, is_ready: bool) {
        assert!(self.0 == State::Preparing, "only what was to be prepared is");
        self.0 = if is_ready { State::Ready } else { State::Idle };
    }

    /// The load is over.
    pub fn ended(&mut self) {
        assert!(self.0 == State::Running, "only what has begun ends");
        self.0 = State::Idle;
    }
}

#[cfg(test)]
mod tests {
    use super::super::message::tests::task;
    use super::*;

    const START: Start = Start { at_ns: 1, first: 0, of: 1 };

    fn describe(is_before: bool) -> Ask {
        Ask::Describe(Describe { is_before })
    }

    fn prepare() -> Ask {
        Ask::Prepare(Box::new(task()))
    }

    #[test]
    fn loads_follow_one_another() {
        let mut session = Session::new();
        for _ in 0..2 {
            assert_eq!(session.asked(describe(true)), Ok(Act::Describe { is_watched: true }));
            assert_eq!(session.asked(describe(false)), Ok(Act::Describe { is_watched: false }));
            assert!(matches!(session.asked(prepare()), Ok(Act::Prepare(_))));
            session.prepared(true);
            assert_eq!(session.asked(Ask::Start(START)), Ok(Act::Start(START)));
            assert_eq!(session.asked(describe(true)), Ok(Act::Describe { is_watched: false }));
            assert_eq!(session.asked(Ask::Stop), Ok(Act::Stop));
            session.ended();
            assert_eq!(session.asked(Ask::Stop), Ok(Act::Nothing), "it came too late");
        }
        assert!(session.asked(prepare()).is_ok());
        session.prepared(false);
        assert!(session.asked(prepare()).is_ok(), "one that could not be prepared is forgotten");
    }

    #[test]
    fn what_comes_at_the_wrong_time_ends_the_session() {
        let at = |state: State, ask: Ask| Session(state).asked(ask);
        for (state, ask) in [
            (State::Idle, Ask::Start(START)),
            (State::Preparing, Ask::Start(START)),
            (State::Running, Ask::Start(START)),
            (State::Preparing, prepare()),
            (State::Ready, prepare()),
            (State::Running, prepare()),
            (State::Preparing, Ask::Stop),
            (State::Ready, Ask::Stop),
            (State::Ready, Ask::Start(Start { first: 1, ..START })),
            (State::Ready, Ask::Start(Start { of: 0, ..START })),
        ] {
            assert!(matches!(at(state, ask.clone()), Err(Breach::Untimely(_))), "{ask:?} while {state:?}");
        }
        for state in [State::Idle, State::Preparing, State::Ready, State::Running] {
            let ping = Ping { sent_ns: 5 };
            assert_eq!(at(state, Ask::Ping(ping)), Ok(Act::Pong(ping)));
        }
    }
}

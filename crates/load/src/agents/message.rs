//! What frames hold: JSON, an object each, whose `say` tells which.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::Breach;
use crate::connect::{Dialect, Endpoint};
use crate::engine::ErrorText;
use crate::record::Second;
use crate::workload::Workload;

/// From the coordinator.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "say", rename_all = "snake_case")]
pub enum Ask {
    /// What does your clock say? Also a sign of life.
    Ping(Ping),
    /// What machine are you on?
    Describe(Describe),
    /// Connect, and be ready.
    Prepare(Box<Task>),
    /// Begin what is prepared.
    Start(Start),
    /// End what runs; nothing, if nothing does.
    Stop,
}

/// From an agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "say", rename_all = "snake_case")]
pub enum Answer {
    /// The coordinator has the agent for itself until it hangs up.
    Welcome,
    /// Another one has it.
    Busy(Busy),
    /// Its clocks.
    Pong(Pong),
    /// Its machine.
    Described(Described),
    /// Connections stand, so many threads wait.
    Ready(Ready),
    /// What was to be prepared can't be.
    Refused(Refused),
    /// A second of the load is over.
    Second(Box<Reported>),
    /// The load is.
    Done(Done),
}

/// See [`Ask::Ping`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ping {
    /// When it was sent, by the coordinator's clock. It comes back, so that nobody has to remember it.
    pub sent_ns: u64,
}

/// See [`Ask::Describe`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Describe {
    /// Before the first load: then it is also watched for a second whether others use it.
    pub is_before: bool,
}

/// See [`Answer::Pong`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pong {
    /// The ping's.
    pub sent_ns: u64,
    /// When the ping came, by the agent's monotonic clock, whose zero says nothing.
    pub received_ns: u64,
    /// When this left.
    pub answered_ns: u64,
    /// The same by the agent's wall clock, in milliseconds since 1970.
    pub unix_ms: u64,
}

/// See [`Answer::Busy`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Busy {
    /// Who has it.
    pub with: String,
    /// Since when, in seconds.
    pub since_s: u64,
}

/// See [`Answer::Described`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Described {
    /// What [`crate::environment`] saw.
    pub environment: serde_json::Value,
    /// Why the machine is not quiet, if that was watched.
    pub complaints: Vec<String>,
}

/// See [`Answer::Ready`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ready {
    /// Threads.
    pub thread_count: u32,
}

/// See [`Answer::Refused`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refused {
    /// Why, and what to do.
    pub problem: String,
}

/// A load as an agent is to make it. What is over all agents and what is its own stands at each field.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Task {
    /// Where the server is, as seen from the agent.
    pub address: Endpoint,
    /// What it speaks.
    pub dialect: Dialect,
    /// Who logs in.
    pub user: Option<String>,
    /// Whether a password is needed. It does not travel: the agent has its own.
    pub has_password: bool,
    /// The database that is used.
    pub database: u32,
    /// The bucket or namespace that is used, unless it is the usual one.
    #[serde(default)]
    pub namespace: Option<String>,
    /// Whether it is a Redis Cluster.
    pub is_cluster: bool,
    /// The agent's own.
    pub connection_count: u32,
    /// Requests that a connection sends at once.
    pub pipeline: u32,
    /// The agent's own, at most.
    pub thread_count: u16,
    /// Where its threads are pinned.
    pub cpus: Vec<usize>,
    /// Requests a second over all agents; none: a closed pace.
    pub rate: Option<f64>,
    /// Evenly spaced, at a rate.
    pub is_even: bool,
    /// In which a rate grows from nothing.
    pub ramp_ns: u64,
    /// Threads wait awake.
    pub is_spinning: bool,
    /// What is asked.
    pub workload: Workload,
    /// How long requests are begun.
    pub duration_ns: u64,
    /// Over all agents.
    pub requests_max: u64,
    /// Of the whole load: each thread's own follows from it and its number.
    pub seed: u64,
}

/// See [`Ask::Start`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Start {
    /// By the agent's monotonic clock.
    pub at_ns: u64,
    /// The number of the agent's first thread among all agents'.
    pub first: u32,
    /// Threads of all agents.
    pub of: u32,
}

/// See [`Answer::Second`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reported {
    /// The requests.
    #[serde(flatten)]
    pub second: Second,
    /// What the agent's kernel counted meanwhile, per second and by the names of [`crate::environment::counters`].
    #[serde(default)]
    pub counters: BTreeMap<String, f64>,
}

/// How an agent's load ended; its last second has come before.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Done {
    /// Why before its time.
    pub failure: Option<String>,
    /// From the first request to the last reply.
    pub elapsed_ns: u64,
    /// What share of a second the last one is.
    pub last_share: f64,
    /// Replies.
    pub answered: u64,
    /// Requests that were never answered.
    pub unanswered: u64,
    /// What errors said.
    pub error_texts: Vec<ErrorText>,
    /// Of each thread, the share of its core that its work took.
    pub thread_use: Vec<f64>,
    /// From the instant at which all were to begin until this agent's last thread did.
    pub late_ns: u64,
}

/// As a frame's body.
pub fn written(message: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(message).expect("messages have text for keys")
}

/// From a frame's body.
///
/// # Errors
/// It is no message of that side.
pub fn read<M: DeserializeOwned>(body: &[u8]) -> Result<M, Breach> {
    serde_json::from_slice(body).map_err(|error| Breach::Nonsense(error.to_string()))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::workload::Operation;

    pub(in crate::agents) fn task() -> Task {
        Task {
            address: "10.0.0.5:7000".parse().unwrap(),
            dialect: Dialect::Resp3,
            user: Some("me".to_owned()),
            has_password: true,
            database: 3,
            namespace: Some("beer".to_owned()),
            is_cluster: true,
            connection_count: 25,
            pipeline: 1,
            thread_count: 4,
            cpus: vec![2, 3],
            rate: Some(12_345.678),
            is_even: true,
            ramp_ns: 1,
            is_spinning: true,
            workload: Workload {
                operations: "get:9,set:1".parse().unwrap(),
                value_size: "64:3,1024:1".parse().unwrap(),
                key_distribution: "zipf:0.99".parse().unwrap(),
                ..Workload::default()
            },
            duration_ns: u64::MAX,
            requests_max: u64::MAX - 1,
            seed: u64::MAX - 2,
        }
    }

    #[test]
    fn messages_come_as_they_were_sent() {
        for ask in [
            Ask::Ping(Ping { sent_ns: u64::MAX }),
            Ask::Describe(Describe { is_before: true }),
            Ask::Prepare(Box::new(task())),
            Ask::Start(Start { at_ns: 7, first: 4, of: 8 }),
            Ask::Stop,
        ] {
            assert_eq!(read::<Ask>(&written(&ask)), Ok(ask));
        }
        let mut second = Second::new([Operation::Get, Operation::Set].into_iter());
        second.operations[1].response.record(123_456).unwrap();
        second.number = 9;
        let done = Done { last_share: 0.123_456_789, thread_use: vec![0.1, 0.2], ..Done::default() };
        let counters = BTreeMap::from([("cpu_steal".to_owned(), 0.123_456_789)]);
        let reported = Reported { second, counters };
        for answer in [Answer::Welcome, Answer::Second(Box::new(reported)), Answer::Done(done)] {
            assert_eq!(read::<Answer>(&written(&answer)), Ok(answer));
        }
        for body in [&b""[..], b"{", b"[]", b"{\"say\":\"dance\"}", b"{\"say\":\"prepare\"}", &[0xff; 9]] {
            assert!(matches!(read::<Ask>(body), Err(Breach::Nonsense(_))), "{body:?}");
        }
    }
}

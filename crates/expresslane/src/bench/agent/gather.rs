//! What agents say while a load runs becomes one load's seconds and outcome. No sockets: words come in, seconds come out.

use load::agents::Breach;
use load::agents::clock::Offset;
use load::agents::message::{Answer, Done};
use load::agents::progress::Progress;
use load::agents::told::{AgentRun, AgentSecond};
use load::merge::Merge;
use load::record::Second;
use load::workload::Workload;

use crate::bench::crew::Outcome;

/// Seconds by which an agent may be behind the clock. What waits for it meanwhile stays in memory.
const BEHIND_S_MAX: u32 = 10;

struct Part {
    progress: Progress,
    told: AgentRun,
    done: Option<Done>,
    is_running: bool,
}

/// A load under way on all agents.
pub(super) struct Gathering {
    parts: Vec<Part>,
    merge: Merge,
    /// The first agent that was lost.
    lost: Option<String>,
}

impl Gathering {
    /// Of agents with these names and clocks.
    pub(super) fn new<'a>(
        agents: impl Iterator<Item = (&'a str, Option<Offset>)>,
        workload: &Workload,
    ) -> Gathering {
        let part = |(name, clock_before): (&str, Option<Offset>)| Part {
            progress: Progress::new(workload),
            told: AgentRun { name: name.to_owned(), clock_before, ..AgentRun::default() },
            done: None,
            is_running: true,
        };
        let parts: Vec<Part> = agents.map(part).collect();
        let merge = Merge::new(parts.len());
        Gathering { parts, merge, lost: None }
    }

    /// An agent has said something.
    ///
    /// # Errors
    /// It should not have, or not so: it is to be lost.
    pub(super) fn heard(&mut self, agent: usize, answer: Answer) -> Result<(), Breach> {
        let part = &mut self.parts[agent];
        match answer {
            Answer::Second(reported) if part.is_running => {
                part.progress.second(&reported)?;
                part.told.seconds.push(AgentSecond::of(&reported));
                self.merge.add(agent, &reported.second);
                Ok(())
            }
            Answer::Done(done) if part.is_running => {
                part.progress.done(&done)?;
                part.is_running = false;
                part.told.failure.clone_from(&done.failure);
                part.told.late_ns = done.late_ns;
                part.told.unanswered = done.unanswered;
                part.told.thread_use.clone_from(&done.thread_use);
                part.done = Some(done);
                self.merge.end(agent, None);
                Ok(())
            }
            _ => Err(Breach::Untimely("what is no part of a load".to_owned())),
        }
    }

    /// Nothing more will come from it. What has come stays.
    pub(super) fn lose(&mut self, agent: usize, why: &str) {
        let part = &mut self.parts[agent];
        if part.is_running {
            part.is_running = false;
            part.told.failure = Some(format!("lost: {why}"));
            self.merge.end(agent, None);
            self.lost.get_or_insert_with(|| format!("agent {} was lost: {why}", part.told.name));
        }
    }

    /// A second that all are through with.
    pub(super) fn take(&mut self) -> Option<Second> {
        self.merge.take()
    }

    /// Agents that still load.
    pub(super) fn running(&self) -> impl Iterator<Item = usize> {
        self.parts.iter().enumerate().filter(|(_, part)| part.is_running).map(|(agent, _)| agent)
    }

    /// Whether one was lost.
    pub(super) fn has_lost(&self) -> bool {
        self.lost.is_some()
    }

    /// Agents whose seconds should have come long ago, after so many seconds of the load.
    pub(super) fn behind(&self, elapsed_s: u32) -> Vec<usize> {
        let is_behind =
            |agent: &usize| self.parts[*agent].progress.next().saturating_add(BEHIND_S_MAX) < elapsed_s;
        self.running().filter(is_behind).collect()
    }

    /// What came of it, with the clocks as they are now and the skews of wall clocks.
    pub(super) fn outcome(self, clocks: &[Option<(Offset, i64)>], was_stopped: bool) -> Outcome {
        let mut outcome = Outcome { failure: self.lost, was_stopped, ..Outcome::default() };
        let number = |part: &Part| part.progress.next();
        let last = self.parts.iter().filter(|part| part.done.is_some()).map(number).max();
        for (mut part, clock) in self.parts.into_iter().zip(clocks) {
            part.told.answered = part.told.seconds.iter().map(|second| second.answered).sum();
            part.told.clock_after = clock.map(|(offset, _)| offset);
            part.told.wall_skew_ms = clock.map(|(_, skew_ms)| skew_ms);
            outcome.answered += part.told.answered;
            let is_last = last == Some(part.progress.next());
            if let Some(done) = part.done {
                let named = |failure: String| format!("agent {}: {failure}", part.told.name);
                outcome.failure = outcome.failure.or(done.failure.map(named));
                outcome.elapsed_ns = outcome.elapsed_ns.max(done.elapsed_ns);
                outcome.late_ns = outcome.late_ns.max(done.late_ns);
                outcome.unanswered += done.unanswered;
                outcome.thread_use.extend(done.thread_use);
                if is_last {
                    outcome.last_share = outcome.last_share.max(done.last_share);
                }
                outcome.add_error_texts(done.error_texts);
            }
            outcome.agents.push(part.told);
        }
        outcome
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use load::agents::message::Reported;
    use load::engine::ErrorText;
    use load::workload::Operation;

    fn second(number: u32, count: u64, ns: u64) -> Answer {
        let mut second = Second { number, begun: count, ..Second::new([Operation::Get].into_iter()) };
        second.operations[0].response.record_n(ns, count).unwrap();
        second.send_lag.record_n(ns / 10, count).unwrap();
        let counters = [("tcp_retransmits".to_owned(), f64::from(number) + 0.5)].into();
        Answer::Second(Box::new(Reported { second, counters }))
    }

    fn done(last_share: f64, thread_use: f64) -> Answer {
        let error_texts = vec![ErrorText { text: "OOM".to_owned(), count: 2 }];
        Answer::Done(Done { last_share, thread_use: vec![thread_use], error_texts, ..Done::default() })
    }

    fn two() -> Gathering {
        let agents = [("h1:7411", None), ("h2:7411", None)];
        Gathering::new(agents.into_iter(), &Workload::default())
    }

    fn shown(gathering: &mut Gathering) -> Vec<(u32, u64)> {
        std::iter::from_fn(|| gathering.take()).map(|second| (second.number, second.count())).collect()
    }

    const CLOCK: Option<(Offset, i64)> = Some((Offset { offset_ns: 5, error_ns: 1 }, -3));

    #[test]
    fn two_agents_are_one_load() {
        let mut gathering = two();
        gathering.heard(0, second(0, 90, 1_000_000)).unwrap();
        assert_eq!(shown(&mut gathering), []);
        gathering.heard(1, second(0, 10, 50_000_000)).unwrap();
        let first = gathering.take().unwrap();
        assert_eq!(first.count(), 100);
        // Of a hundred replies the 95th is one of the slow host's; the mean of both hosts' percentiles is nobody's.
        assert!(first.response().value_at_quantile(0.95).abs_diff(50_000_000) < 50_000);
        gathering.heard(0, second(1, 5, 1000)).unwrap();
        gathering.heard(0, done(0.4, 0.2)).unwrap();
        assert_eq!(shown(&mut gathering), [], "the other one is not through with it");
        gathering.heard(1, second(1, 6, 1000)).unwrap();
        gathering.heard(1, done(0.6, 0.9)).unwrap();
        assert_eq!(shown(&mut gathering), [(1, 11)]);
        assert_eq!(gathering.running().count(), 0);
        let outcome = gathering.outcome(&[CLOCK, CLOCK], false);
        assert_eq!((outcome.answered, outcome.failure.clone(), outcome.was_stopped), (111, None, false));
        assert_eq!((outcome.last_share, outcome.thread_use.clone()), (0.6, vec![0.2, 0.9]));
        assert_eq!(outcome.error_texts, [ErrorText { text: "OOM".to_owned(), count: 4 }]);
        let [one, two] = &outcome.agents[..] else { panic!("{:?}", outcome.agents) };
        assert_eq!((one.answered, two.answered, two.wall_skew_ms), (95, 16, Some(-3)));
        let counted = |agent: &AgentRun| {
            agent.seconds.iter().map(|second| second.counters["tcp_retransmits"]).collect::<Vec<_>>()
        };
        assert_eq!((counted(one), counted(two)), (vec![0.5, 1.5], vec![0.5, 1.5]), "each its own");
        assert!(one.send_lag(0..2).max() < 101_000 && two.send_lag(0..1).max() > 4_900_000);
    }

    /// One ends a second before the other, and both late: the worst of each counts, and what the last second was is the last one's.
    #[test]
    fn what_agents_say_at_their_end_is_kept() {
        let mut gathering = two();
        let said = [
            Done {
                failure: Some("the server is gone".to_owned()),
                elapsed_ns: 5_000,
                last_share: 0.9,
                unanswered: 3,
                thread_use: vec![0.2],
                late_ns: 70,
                ..Done::default()
            },
            Done { elapsed_ns: 6_000, last_share: 0.4, unanswered: 2, late_ns: 40, ..Done::default() },
        ];
        gathering.heard(0, second(0, 1, 1000)).unwrap();
        gathering.heard(1, second(0, 1, 1000)).unwrap();
        gathering.heard(1, second(1, 1, 1000)).unwrap();
        for (agent, end) in said.into_iter().enumerate() {
            gathering.heard(agent, Answer::Done(end)).unwrap();
            assert!(gathering.heard(agent, second(2, 1, 1000)).is_err(), "it has ended");
            assert!(gathering.heard(agent, done(0.5, 0.5)).is_err(), "it has ended");
        }
        let outcome = gathering.outcome(&[CLOCK, None], true);
        assert_eq!(outcome.failure.as_deref(), Some("agent h1:7411: the server is gone"));
        assert_eq!((outcome.elapsed_ns, outcome.late_ns, outcome.unanswered), (6_000, 70, 5));
        assert_eq!((outcome.last_share, outcome.was_stopped), (0.4, true));
        let [one, two] = &outcome.agents[..] else { panic!("{:?}", outcome.agents) };
        assert_eq!(one.failure.as_deref(), Some("the server is gone"));
        assert_eq!((one.late_ns, one.unanswered, &one.thread_use[..]), (70, 3, &[0.2][..]));
        assert_eq!((one.clock_after.map(|clock| clock.offset_ns), two.clock_after), (Some(5), None));
    }

    /// A lost agent is named, what it sent before is part of the result, and the other one's seconds come.
    #[test]
    fn a_lost_agent_is_named_and_its_seconds_stay() {
        let mut gathering = two();
        gathering.heard(0, second(0, 1, 1000)).unwrap();
        gathering.heard(1, second(0, 10, 1000)).unwrap();
        gathering.heard(1, second(1, 10, 1000)).unwrap();
        gathering.lose(0, "it hung up");
        assert!(gathering.has_lost());
        assert_eq!(shown(&mut gathering), [(0, 11), (1, 10)]);
        assert_eq!(gathering.running().collect::<Vec<_>>(), [1]);
        assert!(gathering.heard(0, second(1, 1, 1000)).is_err(), "it was given up");
        assert!(gathering.heard(0, done(0.5, 0.1)).is_err(), "it was given up");
        gathering.heard(1, done(0.5, 0.1)).unwrap();
        gathering.lose(1, "too late to be lost");
        let outcome = gathering.outcome(&[None, CLOCK], false);
        assert_eq!(outcome.failure.as_deref(), Some("agent h1:7411 was lost: it hung up"));
        assert_eq!(outcome.agents[0].failure.as_deref(), Some("lost: it hung up"));
        assert_eq!((outcome.agents[1].failure.clone(), outcome.answered), (None, 21));
    }

    #[test]
    fn the_last_second_is_that_of_those_who_ended() {
        let mut gathering = two();
        gathering.heard(0, second(0, 1, 1000)).unwrap();
        gathering.heard(0, second(1, 1, 1000)).unwrap();
        gathering.heard(1, second(0, 1, 1000)).unwrap();
        gathering.lose(0, "it hung up");
        gathering.heard(1, done(0.7, 0.1)).unwrap();
        assert_eq!(gathering.outcome(&[None, CLOCK], false).last_share, 0.7);
    }

    #[test]
    fn an_agent_that_talks_nonsense_is_to_be_lost() {
        let mut gathering = two();
        for answer in [second(1, 1, 1), Answer::Welcome] {
            assert!(gathering.heard(0, answer).is_err());
        }
        assert_eq!(shown(&mut gathering), [], "none of it was added");
    }

    #[test]
    fn who_sends_no_seconds_is_behind() {
        let mut gathering = two();
        gathering.heard(0, second(0, 1, 1)).unwrap();
        assert!(gathering.behind(10).is_empty());
        assert_eq!(gathering.behind(11), [1]);
        assert_eq!(gathering.behind(12), [0, 1]);
        gathering.heard(1, done(0.0, 0.0)).unwrap();
        assert_eq!(gathering.behind(12), [0], "one that has ended owes nothing");
    }
}

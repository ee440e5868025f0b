//! Running: the next commands as jobs for their lanes, a stage at a time.

use wire::command::{Combine, Id, Scope, lookup};

use super::{After, Go, Phase, Plan, STAGE_COUNT_MAX, Transaction};
use crate::part::{Job, Work};
use crate::request::{Args, Request};

impl Transaction {
    /// Collects the jobs of the next commands, as many as can run without waiting for one another.
    pub(super) fn fill_stage(&mut self) {
        self.stage_end = self.position;
        // Who is refused asks again.
        let may_ask_again = self.looks_at_once();
        let end = self.commands.len().min(self.position + STAGE_COUNT_MAX);
        while self.stage_end < end {
            let is_alone = self.commands[self.stage_end].plan.is_alone();
            if is_alone && self.stage_end > self.position {
                break;
            }
            self.fill_command(self.stage_end, may_ask_again);
            self.stage_end += 1;
            if is_alone {
                break;
            }
        }
    }

    fn fill_command(&mut self, index: usize, may_ask_again: bool) {
        let number = u32::try_from(index).expect("a MULTI queues fewer than 2^32 commands");
        let (watcher, database_count) = (self.watcher, self.database_count);
        let planned = &mut self.commands[index];
        let (command, db) = (planned.command, planned.db);
        if let Some(work) = planned.scan_work() {
            let at = match planned.plan {
                Plan::Whole(lane) => self.lane_index(lane),
                _ => planned.scan_lane(),
            };
            return self.lanes[at].jobs.push(Job { command: number, db, work });
        }
        let work = |request: Request| match (command.id, watcher) {
            (Id::Watch, Some(id)) => Work::Watch { id, request },
            _ => Work::Run { command, request, route: None, within: None },
        };
        match planned.plan {
            Plan::Here | Plan::Asked | Plan::Script | Plan::Denied(_) => {}
            Plan::Whole(lane) => {
                let request = if may_ask_again {
                    Args::Owned(&planned.request).to_request()
                } else {
                    std::mem::take(&mut planned.request)
                };
                let at = self.lane_index(lane);
                self.lanes[at].jobs.push(Job { command: number, db, work: work(request) });
            }
            Plan::Scatter(_) => {
                for share in &mut planned.shares {
                    if command.scope == Scope::AllLanes(Combine::Any) {
                        let count = lookup(b"dbsize").expect("DBSIZE is in the table");
                        let (within, command, request) = (Some(command.id), count, Request::default());
                        let work = Work::Run { command, request, route: None, within };
                        self.lanes[share.lane].jobs.push(Job { command: number, db, work });
                    }
                    let request = std::mem::take(&mut share.request);
                    self.lanes[share.lane].jobs.push(Job { command: number, db, work: work(request) });
                }
            }
            Plan::Relay(step) => {
                for (lane, db, work) in planned.relay_jobs(step, database_count) {
                    self.lanes[lane].jobs.push(Job { command: number, db, work });
                }
            }
        }
    }

    pub(super) fn begin_stage(&mut self) -> After {
        self.stage += 1;
        self.fill_stage();
        match self.commands.get(self.position).map(|planned| planned.plan) {
            Some(Plan::Asked) => {
                self.phase = Phase::Asking;
                return After::Ask;
            }
            Some(Plan::Script) => {
                self.phase = Phase::Scripting;
                return After::Again;
            }
            _ => {}
        }
        let is_calling = self.is_calling();
        let is_last = !is_calling && self.stage_end == self.commands.len() && self.alone_end <= self.position;
        let mut gos = Vec::new();
        for index in 0..self.lanes.len() {
            let part = &mut self.lanes[index];
            if part.is_live && (is_last || !part.jobs.is_empty()) {
                let (jobs, growth) = (std::mem::take(&mut part.jobs), part.growth.take());
                gos.push((index, self.go(jobs, is_last, growth)));
            }
        }
        if gos.is_empty() {
            return self.begin_combining();
        }
        self.phase = Phase::Running { awaited: gos.len() };
        After::Go(gos)
    }

    pub(super) fn go(&self, jobs: Vec<Job>, releases: bool, growth: Option<u64>) -> Go {
        let (proto, at_ms, by, stage) = (self.proto, self.grant.at_ms, self.by, self.stage);
        Go { jobs, releases, proto, growth, may_exceed: self.may_exceed(), at_ms, by, stage }
    }
}

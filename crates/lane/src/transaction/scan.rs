//! SCAN over several lanes: the lane of its cursor looks at its keys, then the next one, until so many were looked at as the call is to look
//! at, or there are no more. Nothing is locked, and nothing is kept from call to call.
//!
//! A lane is asked when those before it have answered. A SCAN alone plans anew for each; one in a MULTI or a script has parts on all of the
//! lanes that it may come to from the beginning, for no part may join those that hold locks.

use wire::command::Id;
use wire::route::Slot;

use super::{Plan, Planned, Share, Surroundings, Transaction};
use crate::cluster;
use crate::commands::State;
use crate::commands::scan::Scanning;
use crate::part::{Outcome, Work};
use crate::replies::Content;
use crate::request::{Args, Request};

impl Transaction {
    /// SCAN, or a question of CLUSTER about a slot.
    pub(super) fn plan_partition(&mut self, index: usize, around: &Surroundings<'_>) -> Plan {
        let is_single = !self.is_multi && !self.is_calling();
        let planned = &mut self.commands[index];
        let owner = |slot: Slot| if around.all.len() == 1 { around.lane } else { around.map.owner(slot).0 };
        if planned.command.id != Id::Scan {
            let slot = cluster::slot(planned.request.get(2).flat().unwrap_or_default());
            let lane = slot.map_or(around.lane, owner);
            self.join(lane);
            return Plan::Whole(lane);
        }
        if around.all.len() == 1 {
            self.join(around.lane);
            return Plan::Whole(around.lane);
        }
        if planned.state.is_none() {
            let scanning = Scanning::of(Args::Owned(&planned.request));
            planned.state = scanning.map(|scanning| Box::new(State::Touring(scanning)));
        }
        let Some(State::Touring(scanning)) = planned.state.as_deref() else {
            // Whoever is asked says what is wrong with it.
            self.join(around.lane);
            return Plan::Whole(around.lane);
        };
        let first = owner(scanning.slot());
        if is_single {
            self.join(first);
            return Plan::Whole(first);
        }
        for lane in first..around.all.end {
            let at = self.join(lane);
            let request = Request::default();
            self.commands[index].shares.push(Share { lane: at, request, probe: None });
        }
        Plan::Relay(0)
    }
}

impl Planned {
    /// What the next lane does for a SCAN over several.
    pub(super) fn scan_work(&self) -> Option<Work> {
        let Some(State::Touring(scanning)) = self.state.as_deref() else { return None };
        let request = Args::Owned(&self.request).to_request();
        Some(Work::Scan { command: self.command, request, goal: scanning.goal() })
    }

    /// Which of the lanes that is, if it has parts on several.
    pub(super) fn scan_lane(&self) -> usize {
        let Some(State::Touring(scanning)) = self.state.as_deref() else {
            unreachable!("asked of a SCAN over several lanes")
        };
        self.shares[scanning.lane_count].lane
    }

    /// A lane has answered a SCAN over several: whether the reply is whole. None of anything else.
    pub(super) fn hear_scan(&mut self, out: &mut Content) -> Option<bool> {
        let Some(State::Touring(scanning)) = self.state.as_deref_mut() else { return None };
        let Some((_, Outcome::Scanned(scanned))) = self.outcomes.pop() else {
            unreachable!("a lane that goes on with a SCAN says what it has found")
        };
        Some(scanning.take(scanned, out))
    }
}

//! Combining: the answers of the lanes become one reply, in the order of the commands and of their keys. An element of
//! a step's budget is a command or an element of its reply, a byte of it one that is copied.

use store::Budget;
use wire::command::{Combine, Id};
use wire::reply::{self, OK, Put};
use wire::route::PartitionMap;

use super::relay::Relayed;
use super::{After, Go, LanePart, Phase, Plan, Planned, Surroundings, Transaction};
use crate::Now;
use crate::acl::{Context, Denial};
use crate::admin::Portrait;
use crate::connection::{self, Wish};
use crate::keyspace::{Call, Keyspace};
use crate::part::Outcome;
use crate::replies::Content;
use crate::request::Args;

impl Transaction {
    pub(super) fn combine(
        &mut self,
        space: &mut Keyspace,
        around: &Surroundings<'_>,
        budget: &mut Budget,
    ) -> After {
        if let Some(after) = self.hear_room(space) {
            return after;
        }
        self.begin_reply();
        while self.at.0 < self.stage_end {
            if budget.is_spent() {
                return After::Again;
            }
            budget.spend(1, 0);
            let planned = &mut self.commands[self.at.0];
            match planned.hear_scan(&mut self.reply) {
                None => {}
                Some(true) => {
                    self.count_command(self.at.0, space);
                    self.at = (self.at.0 + 1, 0);
                    continue;
                }
                // One of a MULTI or of a script has all the lanes already that it may come to.
                Some(false) if matches!(planned.plan, Plan::Relay(_)) => return self.begin_stage(),
                Some(false) => {
                    self.plan_again();
                    return After::Again;
                }
            }
            if let Plan::Relay(step) = planned.plan {
                match planned.relay_step(step, space, self.proto, &mut self.reply, budget) {
                    Relayed::Next => return self.begin_stage(),
                    Relayed::Again => return After::Again,
                    Relayed::Done => {}
                }
            }
            let before = matches!(planned.plan, Plan::Here).then(|| self.reply.size());
            let is_whole = self.combine_command(space, around, budget);
            if let Some(size) = before {
                budget.spend(0, self.reply.size() - size);
            }
            if is_whole {
                self.count_command(self.at.0, space);
                self.at = (self.at.0 + 1, 0);
            }
        }
        if self.is_calling() {
            return self.hear_call(space);
        }
        self.position = self.stage_end;
        if self.position < self.commands.len() {
            return self.begin_stage();
        }
        let reply = std::mem::take(&mut self.reply);
        After::Reply(reply, self.release_all())
    }

    /// Writes what stands before all replies of a MULTI. Once: a first command of several stages comes by here again.
    pub(super) fn begin_reply(&mut self) {
        if self.is_multi && self.reply.is_empty() && !self.is_calling() {
            reply::array(&mut self.reply, self.commands.len());
        }
    }

    /// The reply of a command is whole: it counts, if it is not its client's one command, which was counted when it came.
    pub(super) fn count_command(&mut self, index: usize, space: &mut Keyspace) {
        let id = self.commands[index].command.id;
        if self.is_multi || self.is_calling() {
            space.tally.called(id, 1);
        }
        if self.reply.has_erred() {
            space.tally.failed(id, self.reply.take_errors());
        }
    }

    /// Tells the parts that still hold locks to give them back, if they have not been told.
    pub(super) fn release_all(&mut self) -> Vec<(usize, Go)> {
        let is_ending = self.ending_count > 0;
        let gos: Vec<(usize, Go)> = (0..self.lanes.len())
            .filter(|&index| self.lanes[index].is_live && !is_ending)
            .map(|index| (index, self.go(Vec::new(), true, None)))
            .collect();
        self.phase = Phase::Ending { awaited: gos.len() + self.ending_count };
        gos
    }

    /// Writes the reply of one command, or as much of it as `budget` allows; true when it is whole.
    pub(super) fn combine_command(
        &mut self,
        space: &mut Keyspace,
        around: &Surroundings<'_>,
        budget: &mut Budget,
    ) -> bool {
        let planned = &mut self.commands[self.at.0];
        let reply = &mut self.reply;
        match planned.plan {
            Plan::Relay(_) | Plan::Script => {}
            Plan::Denied(denied) => reply::error(reply, &denied.text_in_exec()),
            Plan::Here => {
                let args = Args::Owned(&planned.request);
                let call = Call {
                    command: planned.command,
                    args,
                    db: planned.db,
                    proto: self.proto,
                    route: None,
                    port: self.port,
                };
                let now = space.now.back_at(self.grant.at_ms);
                let us = *self.us.get_or_insert(now.us);
                let around = connection::Around {
                    settings: around.settings,
                    map: around.map,
                    lane: around.lane,
                    now: Now { us, ..now },
                    local: self.local,
                    tracking: around.tracking,
                };
                if let Some(client) = &mut self.stand_in {
                    client.db = planned.db;
                }
                let wish = connection::run_queued(&call, self.stand_in.as_deref_mut(), &around, reply);
                if let (Wish::Stranger(at), Some(client)) = (wish, &self.stand_in) {
                    let from = Portrait::of(client, around.lane, (0, 0));
                    self.denials.push(Denial::of_login(Context::Multi, at, args, from));
                }
            }
            Plan::Whole(_) if planned.command.id == Id::Watch => reply.put(OK),
            Plan::Whole(_) | Plan::Asked => {
                let Some((_, Outcome::Reply(content))) = planned.outcomes.pop() else {
                    unreachable!("whoever is asked answers")
                };
                // What another thread has written comes as bytes alone.
                if content.front().first() == Some(&b'-') && !content.has_erred() {
                    reply.note_error(content.front());
                }
                reply.append(content);
            }
            Plan::Scatter(combine) => {
                let is_in_key_order = combine == Combine::InKeyOrder;
                if self.at.1 == 0
                    && let Some(error) = planned.take_error()
                {
                    reply.append(error);
                    return true;
                }
                if is_in_key_order {
                    return planned.combine_in_key_order(
                        &mut self.at.1,
                        around.map,
                        &self.lanes,
                        reply,
                        budget,
                    );
                }
                planned.combine_at_once(combine, reply, space.draw());
            }
        }
        true
    }
}

impl Planned {
    /// A lane's error, if one answered with one: the whole command's.
    pub(super) fn take_error(&mut self) -> Option<Content> {
        let is_error = |outcome: &Outcome| matches!(outcome, Outcome::Reply(content) if content.front().first() == Some(&b'-'));
        let at = self.outcomes.iter().position(|(_, outcome)| is_error(outcome))?;
        match self.outcomes.swap_remove(at) {
            (_, Outcome::Reply(content)) => Some(content),
            _ => unreachable!("just looked"),
        }
    }

    /// `draw` is a random number.
    pub(super) fn combine_at_once(&mut self, combine: Combine, reply: &mut Content, draw: u64) {
        match combine {
            Combine::AllOk => reply.put(OK),
            Combine::Sum => reply::integer(reply, self.replies().map(|content| header(&content).0).sum()),
            Combine::Concat => {
                let mut count = 0;
                let mut whole = Content::default();
                for mut content in self.replies() {
                    let (number, size) = header(&content);
                    count += number;
                    content.skip(size);
                    whole.append(content);
                }
                reply::array(reply, usize::try_from(count).expect("an array's count"));
                reply.append(whole);
            }
            Combine::Unanimous => reply.append(self.replies().last().expect("a lane takes part")),
            Combine::Any => self.combine_by_lot(reply, draw),
            Combine::InKeyOrder | Combine::Coordinator => unreachable!("these take more than one look"),
        }
    }

    /// Takes one of the lanes' answers, in proportion to how many keys each has. Each has said its number of keys and its
    /// answer, in this order.
    pub(super) fn combine_by_lot(&mut self, reply: &mut Content, draw: u64) {
        let mut lots: Vec<(usize, u64, Option<Content>)> = Vec::new();
        for (lane, outcome) in std::mem::take(&mut self.outcomes) {
            let Outcome::Reply(content) = outcome else { unreachable!("lanes answer with replies") };
            match lots.iter_mut().find(|(other, ..)| *other == lane) {
                None => lots.push((lane, u64::try_from(header(&content).0).unwrap_or(0), None)),
                Some((_, _, answer)) => *answer = Some(content),
            }
        }
        let is_null = |answer: &Option<Content>| answer.as_ref().is_none_or(|content| header(content).0 < 0);
        let total: u64 = lots.iter().filter(|(.., answer)| !is_null(answer)).map(|(_, count, _)| count).sum();
        let mut left = draw.checked_rem(total).unwrap_or(0);
        let mut null = Content::default();
        for (_, count, answer) in lots {
            if is_null(&answer) {
                null = answer.unwrap_or_default();
            } else if left < count {
                return reply.append(answer.unwrap_or_default());
            } else {
                left -= count;
            }
        }
        reply.append(null);
    }

    pub(super) fn replies(&mut self) -> impl Iterator<Item = Content> {
        self.outcomes.drain(..).filter_map(|(_, outcome)| match outcome {
            Outcome::Reply(content) => Some(content),
            Outcome::Fetched(_) | Outcome::Scanned(_) | Outcome::Placed(_) | Outcome::Room(_) => None,
        })
    }

    /// Takes the elements of the lanes' arrays in the order of the keys. `at` counts keys.
    pub(super) fn combine_in_key_order(
        &mut self,
        at: &mut usize,
        map: &PartitionMap,
        lanes: &[LanePart],
        reply: &mut Content,
        budget: &mut Budget,
    ) -> bool {
        let count = self.request.len() - 1;
        if budget.is_spent() {
            return false;
        }
        if *at == 0 {
            reply::array(reply, count);
            for (_, outcome) in &mut self.outcomes {
                let Outcome::Reply(content) = outcome else { unreachable!("lanes answer with arrays") };
                let (_, size) = header(content);
                content.skip(size);
            }
        }
        while *at < count {
            if budget.is_spent() {
                return false;
            }
            *at += 1;
            let owner = map.owner_of(self.request.get(*at).flat().unwrap_or_default()).0;
            let of_owner = |(lane, _): &&mut (usize, Outcome)| lanes[*lane].lane == owner;
            let Some((_, Outcome::Reply(content))) = self.outcomes.iter_mut().find(of_owner) else {
                unreachable!("each key's lane has answered")
            };
            let (size, header_size) = header(content);
            let element = match usize::try_from(size) {
                Ok(size) => header_size + size + 2,
                Err(_) => header_size,
            };
            let copied = content.move_front(element, reply);
            budget.spend(1, copied);
        }
        true
    }
}

/// The number in a reply's first line, and the line's length: `:12\r\n`, `*3\r\n`, `$5\r\n`. RESP3's null, `_\r\n`, reads
/// as -1.
pub(super) fn header(content: &Content) -> (i64, usize) {
    let front = content.front();
    let end = front.iter().position(|&byte| byte == b'\r').expect("a reply begins with a whole line");
    let number = if end == 1 { -1 } else { wire::number::parse_i64(&front[1..end]).expect("a number") };
    (number, end + 2)
}

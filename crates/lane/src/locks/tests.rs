//! Who waits for whom, case by case; then every account counted anew under a seed.

use super::*;

const KEY_A: LockName = LockName { db: 0, key: Some(1) };
const KEY_B: LockName = LockName { db: 0, key: Some(2) };
const DATABASE: LockName = LockName { db: 0, key: None };

fn enter(locks: &mut Locks, holder: u64, kind: Kind, order: u64, names: &[(LockName, Mode)]) {
    locks.enter(holder);
    locks.add(holder, names);
    locks.activate(holder, kind, order);
}

#[test]
fn readers_share_and_writers_wait_in_order() {
    let mut locks = Locks::default();
    enter(&mut locks, 1, Kind::Numbered, 1, &[(KEY_A, Mode::Shared)]);
    enter(&mut locks, 2, Kind::Numbered, 2, &[(KEY_A, Mode::Shared)]);
    enter(&mut locks, 3, Kind::Numbered, 3, &[(KEY_A, Mode::Exclusive)]);
    enter(&mut locks, 4, Kind::Numbered, 4, &[(KEY_A, Mode::Shared)]);
    assert_eq!(locks.take_granted(), [1, 2]);
    assert!(locks.release(1, 9));
    assert_eq!(locks.take_granted(), [], "one reader is left");
    assert!(locks.release(2, 9));
    assert_eq!(locks.take_granted(), [3]);
    assert!(locks.release(3, 9));
    assert_eq!(locks.take_granted(), [4]);
    assert!(locks.release(4, 9));
    assert!(locks.is_empty() && locks.holders.is_empty());
}

#[test]
fn a_lower_number_goes_ahead_of_a_higher_that_waits_and_is_refused_behind_a_granted_one() {
    let mut locks = Locks::default();
    enter(&mut locks, 5, Kind::Numbered, 5, &[(KEY_A, Mode::Exclusive)]);
    enter(&mut locks, 9, Kind::Numbered, 9, &[(KEY_A, Mode::Exclusive), (KEY_B, Mode::Exclusive)]);
    assert_eq!(locks.take_granted(), [5]);
    assert_eq!(locks.refuses(&[(KEY_A, Mode::Shared)], 3), Some(Refusal::Passing), "5 is granted");
    assert_eq!(locks.refuses(&[(KEY_B, Mode::Exclusive)], 7), None, "9 waits");
    enter(&mut locks, 7, Kind::Numbered, 7, &[(KEY_B, Mode::Exclusive)]);
    assert_eq!(locks.take_granted(), [7]);
    locks.release(5, 9);
    assert_eq!(locks.take_granted(), []);
    locks.release(7, 9);
    assert_eq!(locks.take_granted(), [9]);
}

#[test]
fn what_a_holder_wants_of_one_database_counts_together() {
    let mut locks = Locks::default();
    enter(&mut locks, 9, Kind::Numbered, 9, &[(KEY_A, Mode::Shared)]);
    assert_eq!(locks.take_granted(), [9]);
    // To write one key and to list all: each goes with a reader of another key, both together do not.
    let wanted = [(KEY_B, Mode::Exclusive), (DATABASE, Mode::Shared)];
    assert!(wanted.iter().all(|one| locks.refuses(&[*one], 5).is_none()));
    assert_eq!(locks.refuses(&wanted, 5), Some(Refusal::Passing));
}

#[test]
fn numbered_holders_never_wait_for_ordered_ones() {
    let mut locks = Locks::default();
    enter(&mut locks, 1, Kind::Local, 1, &[(KEY_A, Mode::Exclusive)]);
    enter(&mut locks, 2, Kind::Ordered, 1, &[(KEY_A, Mode::Exclusive)]);
    assert_eq!(locks.refuses(&[(KEY_A, Mode::Exclusive)], 8), Some(Refusal::Passing));
    locks.release(1, 9);
    assert_eq!(locks.take_granted(), [1, 2]);
    enter(&mut locks, 3, Kind::Long, 3, &[(KEY_A, Mode::Exclusive), (KEY_B, Mode::Exclusive)]);
    // One that comes ahead of the long one has only the other to pass.
    for (number, refusal) in [(2, Refusal::Passing), (8, Refusal::Lasting)] {
        assert_eq!(locks.refuses(&[(KEY_A, Mode::Exclusive)], number), Some(refusal), "{number}");
    }
}

#[test]
fn numbered_holders_do_not_wait_behind_a_local_one_that_may_wait_for_an_ordered_one() {
    let mut locks = Locks::default();
    enter(&mut locks, 1, Kind::Ordered, 1, &[(KEY_A, Mode::Exclusive)]);
    enter(&mut locks, 2, Kind::Local, 1, &[(KEY_A, Mode::Exclusive), (KEY_B, Mode::Exclusive)]);
    assert_eq!(
        locks.refuses(&[(KEY_B, Mode::Exclusive)], 8),
        Some(Refusal::Passing),
        "2 waits for 1, which may wait for 8 elsewhere"
    );
    locks.release(1, 9);
    assert_eq!(locks.take_granted(), [1, 2]);
    assert_eq!(locks.refuses(&[(KEY_B, Mode::Exclusive)], 8), None, "2 has all it needs");
}

#[test]
fn a_number_is_refused_behind_a_higher_one_that_waits_elsewhere() {
    let mut locks = Locks::default();
    enter(&mut locks, 3, Kind::Numbered, 3, &[(KEY_B, Mode::Exclusive)]);
    enter(&mut locks, 9, Kind::Numbered, 9, &[(KEY_A, Mode::Shared), (KEY_B, Mode::Exclusive)]);
    enter(&mut locks, 10, Kind::Numbered, 10, &[(KEY_A, Mode::Shared)]);
    enter(&mut locks, 7, Kind::Numbered, 7, &[(KEY_A, Mode::Shared)]);
    locks.release(10, 9);
    assert_eq!(locks.take_granted(), [3, 10, 7]);
    // Granted 7 keeps 8 from getting ahead of 9, which is not granted.
    assert_eq!(locks.refuses(&[(KEY_A, Mode::Exclusive)], 8), Some(Refusal::Passing));
    assert_eq!(locks.refuses(&[(KEY_A, Mode::Exclusive)], 11), None);
}

#[test]
fn whoever_goes_with_each_of_those_ahead_goes_with_all() {
    let mut locks = Locks::default();
    enter(&mut locks, 1, Kind::Ordered, 1, &[(DATABASE, Mode::Shared)]);
    enter(&mut locks, 2, Kind::Local, 1, &[(KEY_A, Mode::Exclusive)]);
    enter(&mut locks, 3, Kind::Numbered, 3, &[(KEY_B, Mode::Shared)]);
    assert_eq!(locks.take_granted(), [1, 3], "2 waits for 1, and 3 for neither");
}

#[test]
fn a_database_lock_stands_against_its_keys_and_no_others() {
    let mut locks = Locks::default();
    enter(&mut locks, 1, Kind::Numbered, 1, &[(DATABASE, Mode::Shared)]);
    assert!(locks.conflicts(KEY_A, Mode::Exclusive));
    assert!(!locks.conflicts(KEY_A, Mode::Shared));
    assert!(!locks.conflicts(LockName { db: 1, key: Some(1) }, Mode::Exclusive));
    enter(&mut locks, 2, Kind::Numbered, 2, &[(KEY_A, Mode::Exclusive)]);
    assert_eq!(locks.take_granted(), [1]);
    assert!(locks.conflicts(KEY_A, Mode::Shared), "a reader does not overtake the writer that waits");
    locks.release(1, 9);
    assert_eq!(locks.take_granted(), [2]);
    assert!(!locks.conflicts(KEY_B, Mode::Exclusive), "intents admit each other");
}

#[test]
fn nobody_waits_for_a_holder_that_is_still_entering() {
    let mut locks = Locks::default();
    locks.enter(1);
    locks.add(1, &[(KEY_A, Mode::Exclusive)]);
    assert!(!locks.conflicts(KEY_A, Mode::Exclusive));
    enter(&mut locks, 2, Kind::Local, 4, &[(KEY_A, Mode::Exclusive), (KEY_B, Mode::Exclusive)]);
    assert_eq!(locks.take_granted(), [2]);
    locks.add(1, &[(KEY_B, Mode::Exclusive)]);
    locks.activate(1, Kind::Local, 5);
    assert_eq!(locks.take_granted(), []);
    assert!(!locks.release(2, 1), "names are given back in steps");
    assert!(locks.release(2, 9));
    assert_eq!(locks.take_granted(), [1]);
}

#[test]
fn a_name_twice_is_one_entry_in_the_wider_mode() {
    let mut locks = Locks::default();
    enter(&mut locks, 1, Kind::Local, 1, &[(KEY_A, Mode::Shared), (KEY_A, Mode::Exclusive)]);
    assert_eq!(locks.take_granted(), [1]);
    assert!(locks.conflicts(KEY_A, Mode::Shared));
    assert!(locks.release(1, 2), "the key and its database");
}

/// What every queue and holder keeps account of, counted anew.
fn audit(locks: &Locks) {
    let mut blocked: BTreeMap<u64, usize> = BTreeMap::new();
    for (_, queue) in locks.queues.iter() {
        assert!(!queue.entries.is_empty());
        for mode in Modes::ALL {
            let count = queue.entries.iter().filter(|entry| entry.mode == mode).count();
            assert_eq!(queue.modes.counts[mode as usize] as usize, count, "{mode:?}");
        }
        for (at, entry) in queue.entries.iter().enumerate() {
            let waits = queue.entries[..at].iter().any(|ahead| !ahead.mode.admits(entry.mode));
            assert_eq!(entry.waits, waits, "holder {} stands at {at}", entry.holder);
            *blocked.entry(entry.holder).or_default() += usize::from(waits);
        }
        let waiting_count = queue.entries.iter().filter(|entry| entry.waits).count();
        assert_eq!(queue.waiting_count as usize, waiting_count);
    }
    for (id, holder) in &locks.holders {
        let count = blocked.get(id).copied().unwrap_or(0);
        assert_eq!(holder.blocked_count, count, "holder {id}");
        assert!(holder.order == ENTERING || holder.granted == (count == 0), "holder {id}");
    }
}

#[test]
fn whatever_comes_and_goes_only_who_has_a_conflict_ahead_waits() {
    let mut state = 1_u64;
    let mut below = move |end: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % end
    };
    let mut locks = Locks::default();
    let (mut granted, mut refused_count, mut gone_count, mut newest) = (Vec::new(), 0, 0, 0);
    for number in 1..20_000_u64 {
        let writes_seldom = 1 + number / 1000 % 8;
        let names: Vec<_> = (0..1 + below(4))
            .map(|_| {
                let key = (below(12) > 0).then(|| below(6));
                let mode = if below(writes_seldom) == 0 { Mode::Exclusive } else { Mode::Shared };
                (LockName { db: u16::from(below(5) == 0), key }, mode)
            })
            .collect();
        let kind = [Kind::Local, Kind::Numbered, Kind::Ordered, Kind::Long]
            [usize::try_from(below(20).saturating_sub(16)).expect("up to 3")];
        let kind = if kind == Kind::Local && below(3) > 0 { Kind::Numbered } else { kind };
        // Numbers arrive out of order; who has none of its own gets the newest.
        let order =
            if kind == Kind::Numbered { (number + below(8)).saturating_sub(below(8)) } else { newest };
        newest = newest.max(order);
        if kind == Kind::Numbered && locks.refuses(&names, order).is_some() {
            refused_count += 1;
        } else {
            locks.enter(number);
            for some in names.chunks(usize::try_from(1 + below(4)).expect("a few")) {
                locks.add(number, some);
                audit(&locks);
            }
            locks.activate(number, kind, order);
            audit(&locks);
        }
        granted.extend(locks.take_granted());
        // Now nearly all go, and now nearly none.
        while !granted.is_empty() && below(100) < 30 + 60 * (number / 100 % 2) {
            let at = usize::try_from(below(granted.len() as u64)).expect("an index");
            if locks.release(granted[at], 2) {
                granted.swap_remove(at);
                gone_count += 1;
            }
            audit(&locks);
            granted.extend(locks.take_granted());
        }
    }
    while let Some(holder) = granted.pop() {
        locks.release(holder, 100);
        gone_count += 1;
        granted.extend(locks.take_granted());
    }
    assert!(locks.is_empty() && locks.holders.is_empty(), "nobody waits for ever");
    assert_eq!(refused_count + gone_count, 19_999);
    assert!(refused_count > 1000 && gone_count > 1000, "{refused_count} were refused");
}

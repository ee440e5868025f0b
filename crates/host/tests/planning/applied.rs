//! Kept plans are done and undone on made-up machines, which couple their knobs as drivers do: an order that a driver would refuse is
//! refused there.

use host::apply::{Outcome, apply};
use host::journal::{Journal, Memory, Wish};
use host::kernel::fake::Fake;
use host::revert::revert;
use host::{Kernel, plan};

use super::kept::PLANS;
use super::{facts, wish};

#[test]
fn kept_plans_are_done_and_undone() {
    let mut applied_count = 0;
    for (machine, wish_name) in PLANS {
        let facts = facts(machine);
        let Ok(plan) = plan::plan(&wish(wish_name), &facts) else { continue };
        let name = format!("{machine}.{wish_name}");
        let mut fake = Fake::of(&facts);
        let before = fake.seen();
        let log = Memory::default();
        let mut journal = Journal::begin(Box::new(log), "first", Wish::default()).unwrap();
        let outcome = apply(&plan, &mut fake, &mut journal, &mut |_| {});
        assert!(matches!(outcome, Outcome::InForce { .. }), "{name}: {outcome}");
        for step in &plan.steps {
            assert_eq!(fake.read(&step.knob).unwrap(), step.want, "{name}: {}", step.knob);
        }
        let reverted = revert(&mut fake, &mut journal, false, &mut |_| {});
        assert!(reverted.is_clean(), "{name}: {reverted}");
        let after = fake.seen();
        let differs = |knob: &&host::Knob| before.get(*knob) != after.get(*knob);
        let left: Vec<String> =
            before.keys().chain(after.keys()).filter(differs).map(ToString::to_string).collect();
        assert!(left.is_empty(), "{name} leaves {left:?}");
        applied_count += 1;
    }
    assert!(applied_count > PLANS.len() / 2, "{applied_count} of {}", PLANS.len());
}

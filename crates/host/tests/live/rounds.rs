//! Files at random on cards of a namespace: what is applied is in force, a write that fails leaves nothing, and what is reverted is
//! as it was, all that facts know of compared.

use host::apply::{Outcome, apply};
use host::facts::{Facts, probe};
use host::journal::{Journal, Memory, Wish};
use host::kernel::Cause;
use host::kernel::live::Live;
use host::revert::revert;
use host::spec::Match;
use host::status::{Reading, read};
use host::{Kernel, Knob, Plan, Refusal, Setting, Spec, plan};
use serde_json::Value;

use crate::chance::Chance;
use crate::namespaces::ip;
use crate::{NIC, Sleeper, within};

/// Files that are applied.
const ROUNDS_COUNT: u32 = 24;
/// A card of one queue, without receive queues of its own.
const DUMMY: &str = "vd";

/// The machine, until so many writes are done: the next one is refused, and those after it go on.
struct Failing<'a> {
    live: &'a mut Live,
    left_count: u32,
    failed: Option<Knob>,
}

impl Kernel for Failing<'_> {
    fn read(&mut self, knob: &Knob) -> Result<Option<Setting>, Refusal> {
        self.live.read(knob)
    }

    fn write(&mut self, knob: &Knob, setting: Option<&Setting>) -> Result<(), Refusal> {
        if self.failed.is_none() {
            if self.left_count == 0 {
                self.failed = Some(knob.clone());
                return Err(Refusal::new(Cause::Failed, "a test wants it so"));
            }
            self.left_count -= 1;
        }
        self.live.write(knob, setting)
    }

    fn boot_id(&mut self) -> Result<String, Refusal> {
        self.live.boot_id()
    }
}

/// A file for one card or both.
fn draw(chance: &mut Chance, pid: u32) -> String {
    let mut text = String::new();
    let mut add = |line: &str| text += &format!("{line}\n");
    if chance.one_in(3) {
        add("[host]\nsysctls = { \"net.ipv4.ip_forward\" = 1, \"net.core.somaxconn\" = 8192 }");
    }
    let ways: [&[&str]; 3] = [&[NIC], &[DUMMY], &[NIC, DUMMY]];
    let cards = *chance.pick(&ways);
    for card in cards {
        add(&format!("[[nic]]\nname = \"{card}\"\nbackend = \"{}\"", chance.pick(&["auto", "soft"])));
        // Of the dummy nothing depends on another end, and it has one queue.
        let is_veth = *card == NIC;
        for (line, of, is_offered) in [
            ("arp-filter = true", 3, true),
            ("features = { gro = true }", 2, is_veth),
            ("features = { tso = false }", 2, !is_veth),
            ("source-routing = true\ngateway = \"198.18.0.2\"", 3, is_veth),
        ] {
            if is_offered && chance.one_in(of) {
                add(line);
            }
        }
    }
    let mut port = 6379;
    for card in cards {
        for _ in 0..=chance.below(if cards.len() == 1 { 2 } else { 1 }) {
            let core = port % 2;
            add(&format!(
                "[[lane]]\nname = \"lane-{port}\"\nnic = \"{card}\"\nports = {port}\ncores = \"{core}\""
            ));
            for (line, of, is_offered) in [
                (format!("process = {{ pid = {pid} }}").as_str(), 1, port == 6379),
                ("queues = 1", 2, *card == NIC),
                ("threaded = true", 3, *card == NIC),
                ("rate-max = \"1Gbit\"", 3, true),
                ("resume-latency-us = 20", 3, true),
                ("addresses = [\"198.18.0.1\", \"2001:db8::1\"]", 3, true),
            ] {
                if is_offered && chance.one_in(of) {
                    add(line);
                }
            }
            port += 1;
        }
    }
    if chance.one_in(2) {
        add("[default]\nrate-max = \"2Gbit\"");
    }
    text
}

fn ask(pid: u32) -> probe::Ask {
    let process = Match { pid: Some(pid), ..Match::default() };
    let sysctls = ["net.ipv4.ip_forward", "net.core.somaxconn"].map(str::to_owned).into();
    probe::Ask { processes: vec![process], sysctls }
}

/// All that is known, but for what the kernel hands out anew.
fn seen(facts: &Facts) -> Value {
    let mut seen = serde_json::to_value(facts).unwrap();
    for nic in seen["nics"].as_array_mut().unwrap() {
        for queue in nic["queues"].as_array_mut().unwrap() {
            queue.as_object_mut().unwrap().remove("napi");
        }
    }
    seen
}

fn is_in_force(live: &mut Live, plan: &Plan) -> Result<(), String> {
    let readings = read(live, plan);
    let differs = plan.steps.iter().zip(&readings).find(|(step, reading)| {
        let later = plan.steps.iter().rev().find(|it| it.knob == step.knob);
        **reading != Reading::Has(later.expect("itself").want.clone())
    });
    differs
        .map_or(Ok(()), |(step, reading)| Err(format!("{}: wanted {:?}, {reading:?}", step.knob, step.want)))
}

#[test]
fn files_at_random_come_and_go_and_a_failure_anywhere_leaves_nothing() {
    within("rounds::files_at_random_come_and_go_and_a_failure_anywhere_leaves_nothing", |live| {
        if let Err(problem) = ip(&format!("link add {DUMMY} type dummy")) {
            eprintln!("a cable stands for a dummy: {problem}");
            ip(&format!("link add {DUMMY} type veth peer name vp")).unwrap();
            ip("link set vp up").unwrap();
        }
        ip(&format!("addr add 198.18.1.1/24 dev {DUMMY}")).unwrap();
        ip(&format!("link set {DUMMY} up")).unwrap();
        let sleeper = Sleeper::start();
        let pid = sleeper.0.id();
        let before = probe::read(live, &ask(pid));
        let (mut seed, mut applied_count, mut failed_count, mut written_most) = (0, 0, 0, 0);
        while applied_count < ROUNDS_COUNT {
            seed += 1;
            assert!(seed < 4 * u64::from(ROUNDS_COUNT), "{applied_count} of {seed} could be planned");
            let mut chance = Chance::new(seed);
            let text = draw(&mut chance, pid);
            let spec =
                Spec::parse(&text).unwrap_or_else(|problems| panic!("seed {seed}: {problems:#?}\n{text}"));
            let Ok(plan) = plan::plan(&spec, &before) else { continue };
            let writes = plan.steps.iter().filter(|step| step.has_work()).count();
            let Ok(writes) = u32::try_from(writes) else { panic!("so many steps") };
            if writes == 0 {
                continue;
            }
            applied_count += 1;
            let journal = || {
                let wish = Wish { when_s: 0, tool: String::new(), text: text.clone() };
                Journal::begin(Box::new(Memory::default()), "this", wish).unwrap()
            };
            let after = |live: &mut Live, what: &str| {
                let now = probe::read(live, &ask(pid));
                assert!(
                    seen(&now) == seen(&before),
                    "seed {seed}, {what}:\n{text}\n{:#}\n{:#}",
                    seen(&before),
                    seen(&now)
                );
            };
            let mut failing = Failing { live: &mut *live, left_count: chance.below(writes), failed: None };
            let outcome = apply(&plan, &mut failing, &mut journal(), &mut |_| {});
            let Outcome::Failed { knob, undone, .. } = outcome else {
                panic!("seed {seed}: {outcome}\n{text}")
            };
            assert_eq!(Some(&knob), failing.failed.as_ref(), "seed {seed}");
            assert!(undone.is_clean(), "seed {seed}: {undone}\n{text}");
            failed_count += 1;
            after(live, &format!("undone since {knob}"));

            let mut held = journal();
            let outcome = apply(&plan, live, &mut held, &mut |_| {});
            assert!(matches!(outcome, Outcome::InForce { .. }), "seed {seed}: {outcome}\n{text}");
            is_in_force(live, &plan).unwrap_or_else(|it| panic!("seed {seed}: {it}\n{text}"));
            let reverted = revert(live, &mut held, false, &mut |_| {});
            assert!(reverted.is_clean(), "seed {seed}: {reverted}\n{text}");
            after(live, "reverted");
            written_most = written_most.max(writes);
        }
        assert!(failed_count == ROUNDS_COUNT && written_most > 10, "{failed_count} {written_most}");
    });
}

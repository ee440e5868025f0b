//! Which cores lanes and interrupts get on a machine of two sockets, 24 cores each, whose second threads are 48 higher.

use host::{Facts, Placed, Spec, plan};

use super::facts;

fn seats(facts: &Facts, lanes: &str) -> Vec<Placed> {
    let spec = Spec::parse(&format!("[[nic]]\nname = 'ens1'\n{lanes}")).unwrap();
    plan::plan(&spec, facts).unwrap_or_else(|problems| panic!("{problems:#?}")).lanes
}

fn check(facts: &Facts, lanes: &str, wants: &[(&str, &str)]) {
    let placed = seats(facts, lanes);
    let found: Vec<(String, String)> =
        placed.iter().map(|lane| (lane.cores.to_string(), lane.irq_cores.to_string())).collect();
    let wants: Vec<(String, String)> =
        wants.iter().map(|(cores, irq)| ((*cores).to_owned(), (*irq).to_owned())).collect();
    assert_eq!(found, wants, "{lanes}");
}

fn lane(name: &str, port: u32, more: &str) -> String {
    format!("[[lane]]\nname = '{name}'\nports = {port}\n{more}\n")
}

#[test]
fn lanes_share_no_physical_core_while_there_is_room() {
    let facts = facts("e810-ice");
    let two = lane("a", 1, "") + &lane("b", 2, "queues = 2");
    check(&facts, &two, &[("1", "3"), ("2,50", "3")]);
    check(&facts, &lane("a", 1, "cores = '7'"), &[("7", "1")]);
    check(&facts, &lane("a", 1, "irq = 'on-lane'"), &[("1", "1")]);
    check(&facts, &lane("a", 1, "irq = 'reserved 9-10'"), &[("1", "9-10")]);
    // A core for interrupts for each eight that serve.
    check(&facts, &lane("a", 1, "queues = 16"), &[("1-8,49-56", "9-10")]);
    check(&facts, &format!("[host]\ncores = '0-3'\n{}", lane("a", 1, "")), &[("4", "5")]);
}

#[test]
fn reserved_interrupts_are_near_the_lane() {
    let reserved = |facts: &Facts, cores: &str, irq: &str| {
        let lane = lane("a", 1, &format!("cores = '{cores}'\nirq = 'reserved {irq}'"));
        plan::plan(&Spec::parse(&format!("[[nic]]\nname = 'ens1'\n{lane}")).unwrap(), facts)
    };
    let refused = |facts: &Facts, cores: &str, irq: &str, want: &str| {
        let problems = reserved(facts, cores, irq).expect_err(want);
        let all: Vec<String> = problems.iter().map(ToString::to_string).collect();
        assert!(all.iter().any(|it| it.contains(want)), "{cores}, {irq}: {all:#?}");
    };
    let apart = |facts: &Facts, cores: &str, irq: &str| -> Option<String> {
        let notes = reserved(facts, cores, irq).unwrap().notes;
        notes.into_iter().find(|note| note.contains("shares no last level cache"))
    };
    let mut facts = facts("e810-ice");
    refused(
        &facts,
        "1",
        "24-25",
        "lane `a`, `irq`: core 24-25 is on another socket than the lane's cores 1,",
    );
    refused(&facts, "1", "9,72", "core 72 is on another socket");
    refused(&facts, "1", "24", "reserve some of 0,2-23,48-71");
    assert_eq!(apart(&facts, "1", "9"), None);
    assert_eq!(apart(&facts, "1,25", "9,26"), None);
    // A socket of two caches.
    facts
        .cpus
        .iter_mut()
        .filter(|cpu| cpu.id == 9)
        .for_each(|cpu| cpu.shares_cache_with = "9".parse().unwrap());
    let note = apart(&facts, "1", "9-10").unwrap();
    assert!(note.contains("of a go to core 9, which"), "{note}");
    // Virtual machines may have a socket for each core, so that no other one is to be had.
    facts.cpus.iter_mut().for_each(|cpu| cpu.package = cpu.id);
    assert!(apart(&facts, "1", "9").is_some());
}

#[test]
fn isolated_cores_are_for_those_who_name_them() {
    let mut facts = facts("e810-ice");
    facts.cpus.iter_mut().filter(|cpu| (1..4).contains(&cpu.id)).for_each(|cpu| cpu.isolated = true);
    check(&facts, &lane("a", 1, "irq = 'on-lane'"), &[("4", "4")]);
    check(&facts, &lane("a", 1, "cores = '1-2'\nqueues = 2\nirq = 'on-lane'"), &[("1-2", "1-2")]);
}

#[test]
fn a_thread_that_is_pinned_within_its_lane_stays() {
    let mut facts = facts("virtio");
    let pinned = |facts: &Facts| {
        let spec = Spec::parse("[[lane]]\nname = 'a'\ncores = '1-2'\nprocess = { pid = 700 }").unwrap();
        let steps = plan::plan(&spec, facts).unwrap().steps;
        steps.iter().map(|step| step.want.as_ref().unwrap().to_string()).collect::<Vec<_>>()
    };
    assert_eq!(pinned(&facts), ["1-2", "1-2"]);
    facts.processes[0].threads[1].cpus = "2".parse().unwrap();
    assert_eq!(pinned(&facts), ["1-2", "2"]);
}

#[test]
fn a_process_has_the_core_of_the_port_it_listens_at() {
    let mut facts = facts("e810-ice");
    let process = |pid: u32, listens: &[&str]| host::facts::Process {
        pid,
        name: "redis-server".to_owned(),
        unit: Some(format!("redis@{pid}.service")),
        listens: listens.iter().map(|text| text.parse().unwrap()).collect(),
        threads: vec![host::facts::Thread { tid: pid, cpus: "0-95".parse().unwrap(), ..Default::default() }],
        ..Default::default()
    };
    facts.processes = vec![
        process(10, &["tcp 127.0.0.1:6380"]),
        process(11, &["tcp 0.0.0.0:6379"]),
        process(12, &["udp 0.0.0.0:6379"]),
    ];
    let text = "[[nic]]\nname = 'ens1'\n[[lane]]\nname = 'a'\nports = '6379-6380'\nmode = 'one-queue-per-port'\ncores = '4-5'\n\
                process = { name = 'redis-server' }\n[default]\nprocess = [{ name = 'redis-server' }]";
    let plan = plan::plan(&Spec::parse(text).unwrap(), &facts).unwrap();
    let cores: Vec<String> = plan
        .steps
        .iter()
        .filter(|step| matches!(step.knob, host::Knob::Thread { .. }))
        .map(|step| step.want.as_ref().unwrap().to_string())
        .collect();
    assert_eq!(cores, ["5", "4", "4-5"]);
    assert!(plan.notes.iter().any(|note| note.contains("(12) listens")), "{:#?}", plan.notes);
    let elsewhere = "redis-server (11) matches `process` in another network namespace";
    assert!(!plan.notes.iter().any(|note| note.contains(elsewhere)));
    let mut apart = facts.clone();
    apart.processes[1].elsewhere = true;
    let notes = plan::plan(&Spec::parse(text).unwrap(), &apart).unwrap().notes;
    assert!(notes.iter().any(|note| note.contains(elsewhere)), "{notes:#?}");
    let by_unit = text.replace("{ name = 'redis-server' }\n[default]", "{ unit = 'redis@11' }\n[default]");
    let plan = plan::plan(&Spec::parse(&by_unit).unwrap(), &facts).unwrap();
    let lane_s = plan.steps.iter().filter(|step| step.why.starts_with("lane a: redis-server")).count();
    assert_eq!(lane_s, 1, "the others are kept off");
}

#[test]
fn two_addresses_have_two_rules() {
    let mut facts = facts("virtio");
    facts.nics[0].addresses.push("192.0.2.71/24".to_owned());
    facts.nics[0].gateways.push("192.0.2.254".to_owned());
    let spec = Spec::parse("[[nic]]\nname = 'ens1'\nsource-routing = true\n[[lane]]\nname = 'a'\nports = 1")
        .unwrap();
    let steps = plan::plan(&spec, &facts).unwrap().steps;
    let rules: Vec<String> = steps
        .iter()
        .filter(|step| matches!(step.knob, host::Knob::Rule { .. }))
        .map(|step| format!("{}: {}", step.knob, step.want.as_ref().unwrap()))
        .collect();
    assert_eq!(
        rules,
        ["rule/inet/49001: from 192.0.2.70 lookup 49001", "rule/inet/49002: from 192.0.2.71 lookup 49001"]
    );
}

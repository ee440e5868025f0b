//! What a file may say, what is refused, and in which words.

use super::*;

const CARD: &str = "[[nic]]\nname = 'ens1'\n";
const TWO_CARDS: &str = "[[nic]]\nname = 'ens1'\n[[nic]]\nname = 'ens2'\n";

fn refused(text: &str, want: &str) {
    let problems = Spec::parse(text).expect_err(text);
    let all: Vec<String> = problems.iter().map(ToString::to_string).collect();
    assert!(all.iter().any(|it| it.contains(want)), "{text}\nsays {all:#?}\nnot {want}");
}

#[test]
fn what_is_no_file_is_named_with_its_line() {
    refused(
        "[host]\nirqbalence = 'stop'",
        "line 2: there is no key `irqbalence` here; did you mean `irqbalance`?",
    );
    refused(
        "\n[[lane]]\nname = 'a'\nport = 1\n",
        "line 4: there is no key `port` here; did you mean `ports`?",
    );
    refused("[[lanes]]\nname = 'a'", "line 1: there is no key `lanes` here; did you mean `lane`?");
    refused(
        "[host]\nzzz = 1",
        "line 2: there is no key `zzz` here; there are irqbalance, cores, moderation, sysctls",
    );
    refused("[host]\nirqbalance = 'stopp'", "line 2: `stopp` is none of stop, leave; did you mean `stop`?");
    refused(
        "[[nic]]\nname = 'e'\n[nic.moderation]\nrx-usec = 1",
        "line 4: there is no key `rx-usec` here; did you mean",
    );
    refused("[[lane]]\nports = 1", "line 1: `name` is missing here");
    refused("[[lane]]\nname = 'a'\nports = 0", "line 3: '0' in '0' is neither a port");
    refused("[[lane]]\nname = 'a'\nports = '5-4'", "line 3: '5-4'");
    refused("[[lane]]\nname = 'a'\nports = '5,5'", "line 3: port 5 is twice");
    refused("[[lane]]\nname = 'a'\nports = 1.5", "line 3: a float is no port");
    refused("[[lane]]\nname = 'a'\ncores = 'x'", "line 3: 'x' in 'x' is neither a number");
    refused("[[lane]]\nname = 'a'\nqueues = -1", "line 3: ");
    refused("[[lane]\n", "line 1: ");
    refused("", "the file has no [[lane]]");
}

#[test]
fn values_out_of_range_are_named_with_their_line() {
    let lane = |line: &str, want: &str| {
        refused(&format!("{CARD}[[lane]]\nname = 'a'\nports = 1\n{line}\n"), &format!("line 6: {want}"));
    };
    lane("queues = 0", "lane `a`: `queues` is at least 1");
    lane("addresses = ['10.0.0.1/24']", "lane `a`: `10.0.0.1/24` is no address");
    lane("addresses = ['2001:db8::1', '2001:DB8:0::1']", "lane `a`: address 2001:db8::1 is twice");
    lane("queues = 8192", "lane `a`: `queues` is at least 1, and at most 8191");
    lane("rate-min = 'fast'", "lane `a`: 'fast' is no rate");
    lane("rate-max = '1.5Gbit'", "lane `a`: '1.5Gbit' is no rate");
    lane("rate-min = '2Gbit'\nrate-max = '1Gbit'", "lane `a`: `rate-min` 2Gbit is above `rate-max` 1Gbit");
    lane("busy-poll-us = 0", "lane `a`: `busy-poll-us` is 1 to 1000000");
    lane("resume-latency-us = 100001", "lane `a`: `resume-latency-us` is 0 to 100000 microseconds");
    lane("resume-latency-us = -1", "");
    lane("threaded = true\nbusy-poll-us = 50", "lane `a`: `busy-poll-us` and `threaded`");
    lane("moderation = { rx-usecs = 65536 }", "lane `a`: a moderation is at most 65535");
    lane("irq = 'reserved'", "lane `a`: `irq` is \"on-lane\" or \"reserved\"");
    lane("irq = 'reserved x'", "lane `a`: `irq` is");
    lane("irq = 'somewhere'", "lane `a`: `irq` is");
    lane("nice = -21", "lane `a`: `nice` is -20 to 19");
    lane("nice = -5", "lane `a`: `nice` wants `process`");
    lane("cores = ''", "lane `a`: `cores` names none");
    refused("[[lane]]\nname = 'a b'\n", "line 2: lane `a b`: a name has 1 to 32 letters");
    refused(&format!("[[lane]]\nname = '{}'\n", "x".repeat(33)), "a name has 1 to 32");
    refused("[[lane]]\nname = 'a'\n[default]\nqueues = 0", "line 4: [default]: `queues` is at least 1");
    let alone = "wants a card with lanes whose `backend` is not \"process\"";
    let with = |cards: &str, key: &str| {
        let lane = if cards.contains("'d'") { "nic = 'e'\n" } else { "" };
        let text = format!("[default]\n{key}\n{cards}[[lane]]\nname = 'a'\nports = 1\n{lane}");
        let name = key.split(' ').next().unwrap();
        refused(&text, &format!("line 2: [default]: `{name}` {alone}"));
    };
    for cards in [
        "",
        "[[nic]]\nname = 'e'\nbackend = 'process'\n",
        "[[nic]]\nname = 'e'\nbackend = 'process'\n[[nic]]\nname = 'd'\n",
    ] {
        with(cards, "queues = 2");
        with(cards, "rate-max = '1Gbit'");
    }
    refused(
        "[[nic]]\nname = 'd'\nmoderation = { rx-usecs = 5 }\n[[nic]]\nname = 'e'\n[[lane]]\nname = 'a'\nnic = 'e'\nports = 1\n",
        "line 3: nic `d`: `moderation` is left alone, for no lane is on the card",
    );
    refused("[[lane]]\nname = 'a'\n[default]\nprocess = [{}]", "line 4: [default]: a process is matched by");
    refused(
        "[[lane]]\nname = 'a'\n[host]\nmoderation = { rx-usecs = 5 }",
        "line 4: [host]: `moderation` wants a card with lanes",
    );
    refused(
        "[[lane]]\nname = 'a'\n[host]\nmoderation = { rx-usecs = 65536 }",
        "line 4: [host]: a moderation is at most 65535 microseconds",
    );
    refused("[[lane]]\nname = 'a'\n[host]\nsysctls = { 'net.x' = 1.5 }", "line 4: [host]: sysctl `net.x`");
    refused("[[lane]]\nname = 'a'\n[host]\nsysctls = { '../x' = 1 }", "line 4: [host]: `../x` is no name");
    refused("[[nic]]\nname = 'a b'\n", "line 2: nic `a b`: a card is named by");
    refused("[[nic]]\nname = 'e'\nchannels = 0\n", "line 3: nic `e`: `channels` is at least 1");
    refused("[[nic]]\nname = 'e'\nchannels = 9999\n", "line 3: nic `e`: no card has more than 8191 queues");
    refused(
        "[[nic]]\nname = 'e'\ngateway = '10.0.0.1'\n",
        "line 3: nic `e`: `gateway` is for `source-routing",
    );
    refused(
        "[[nic]]\nname = 'e'\nsource-routing = true\ngateway = 'x'\n",
        "line 4: nic `e`: `x` is no address",
    );
}

#[test]
fn lanes_that_contradict_one_another_are_named() {
    let two = |head: &str, first: &str, second: &str, want: &str| {
        refused(&format!("{head}[[lane]]\nname = 'a'\n{first}\n[[lane]]\nname = 'b'\n{second}\n"), want);
    };
    two(CARD, "ports = '1-5'", "ports = 5", "line 8: lane `b`: port 5 is lane `a`'s too");
    two(
        CARD,
        "ports = 5\naddresses = ['2001:db8::1']",
        "ports = 5\naddresses = ['2001:DB8:0::1']",
        "lane `b`: port 5 is lane `a`'s too",
    );
    two(CARD, "ports = 1\nremote-ports = 7", "remote-ports = 7", "lane `b`: port 7 is lane `a`'s too");
    two("", "cores = '1-2'", "cores = '2-3'", "line 6: lane `b`: core 2 is lane `a`'s too");
    two(
        "[host]\ncores = '0-1'\n",
        "cores = '1-2'",
        "",
        "line 5: lane `a`: core 1 is kept by `cores` of [host]",
    );
    two("[default]\ncores = '0'\n", "", "cores = '0'", "lane `b`: core 0 is kept by `cores` of [default]");
    two(
        CARD,
        "ports = 1\nirq = 'reserved 3'",
        "ports = 2\ncores = '3'",
        "core 3, reserved for interrupts, is in `cores` of lane `b`",
    );
    two(TWO_CARDS, "ports = 1\nnic = 'ens1'", "ports = 1", "lane `b`: the file has several cards");
    two(
        CARD,
        "ports = 1\nnic = 'ens9'",
        "ports = 2",
        "lane `a`: nic `ens9` has no [[nic]] in the file; there is ens1",
    );
    two(CARD, "ports = 1", "queues = 1", "lane `b`: by its `ports`");
    two("", "queues = 2", "", "line 3: lane `a`: `queues` wants a card, and the file has no [[nic]]");
    for key in [
        "queues = 2",
        "rate-min = '1Gbit'",
        "rate-max = '1Gbit'",
        "threaded = true",
        "moderation = { rx-usecs = 5 }",
        "irq = 'on-lane'",
    ] {
        let lane = format!("[[lane]]\nname = 'a'\nports = 1\n{key}\n");
        let name = key.split(' ').next().unwrap();
        let wants = format!("lane `a`: `{name}` wants a card");
        refused(&lane, &format!("line 4: {wants}, and the file has no [[nic]]"));
        let by_process = format!("line 7: {wants}'s queues, and nic `ens1` has `backend = \"process\"`");
        refused(&format!("{CARD}backend = 'process'\n{lane}"), &by_process);
    }
    let per_port = "[[lane]]\nname = 'a'\nports = '1-2'\nmode = 'one-queue-per-port'\n";
    refused(per_port, "line 4: lane `a`: `mode` wants a card, and the file has no [[nic]]");
    assert!(
        Spec::parse(&format!("{CARD}backend = 'process'\n{per_port}")).is_ok(),
        "it says whose core is whose"
    );
    refused(
        "[[nic]]\nname = 'e'\nbackend = 'process'\nmoderation = { rx-usecs = 5 }\n",
        "line 4: nic `e`: `moderation` is left alone by `backend = \"process\"`",
    );
    refused("[[lane]]\nname = 'a'\n[[lane]]\nname = 'a'\n", "line 4: two lanes are called `a`");
    refused("[[nic]]\nname = 'e'\n[[nic]]\nname = 'e'\n", "line 4: nic `e` is in the file twice");
    refused(
        &format!("{CARD}[[lane]]\nname = 'a'\nmode = 'one-queue-per-port'\nports = '1-3'\nqueues = 2\n"),
        "line 7: lane `a`: one queue per port: 3 ports want 3 queues, not 2",
    );
    refused(
        &format!("{CARD}[[lane]]\nname = 'a'\nmode = 'one-queue-per-port'\n"),
        "one queue per port wants `ports`",
    );
}

#[test]
fn lanes_that_don_t_meet_may_look_alike() {
    let check = |text: &str| assert!(Spec::parse(text).is_ok(), "{text}\n{:?}", Spec::parse(text));
    let two = |head: &str, first: &str, second: &str| {
        check(&format!("{head}[[lane]]\nname = 'a'\n{first}\n[[lane]]\nname = 'b'\n{second}\n"));
    };
    two(CARD, "ports = 5", "ports = 5\nprotocol = 'udp'");
    two(CARD, "ports = 5\naddresses = ['10.0.0.1']", "ports = 5\naddresses = ['10.0.0.2', '2001:db8::1']");
    two(TWO_CARDS, "ports = 5\nnic = 'ens1'", "ports = 5\nnic = 'ens2'");
    two(CARD, "ports = 5", "remote-ports = 5");
    two("", "cores = '1'", "cores = '2'");
    two("", "resume-latency-us = 0", "resume-latency-us = 100000");
}

#[test]
fn addresses_are_read_from_any_spelling() {
    let text = "[[nic]]\nname = 'e'\nsource-routing = true\ngateway = 'FE80:0::1'\n[[lane]]\nname = 'a'\nports = 1\naddresses = ['2001:DB8:0:0::0001', '10.0.0.1']";
    let spec = Spec::parse(text).unwrap();
    assert_eq!(spec.lanes[0].addresses, ["2001:db8::1", "10.0.0.1"]);
    assert_eq!(spec.nics[0].gateway.as_deref(), Some("fe80::1"));
}

#[test]
fn several_problems_are_told_together() {
    let text = "[[lane]]\nname = ''\nqueues = 0\nnice = 99\n";
    assert_eq!(Spec::parse(text).unwrap_err().len(), 5, "name, queues twice, nice twice");
}

#[test]
fn a_wish_is_the_same_after_it_was_written_as_json() {
    for name in EXAMPLES {
        let spec = Spec::parse(example(name).unwrap()).unwrap();
        let json = serde_json::to_string(&spec).unwrap();
        assert_eq!(serde_json::from_str::<Spec>(&json).unwrap(), spec, "{name}");
    }
}

#[test]
fn a_key_s_comment_in_an_example_is_a_key() {
    for name in EXAMPLES {
        // Lines that are commented out are settings too: with them uncommented one by one, the file still reads.
        let text = example(name).unwrap();
        let settings = text.lines().enumerate().filter(|(_, line)| {
            let line = line.strip_prefix("# ").unwrap_or_default();
            line.split_once(" = ")
                .is_some_and(|(key, _)| key.chars().all(|c| c.is_ascii_lowercase() || c == '-'))
        });
        for (index, line) in settings {
            let of_routing = line.starts_with("# gateway");
            let one: Vec<String> = text
                .lines()
                .enumerate()
                .map(|(at, other)| {
                    let also = of_routing && other.starts_with("# source-routing");
                    if at == index || also { other[2..].to_owned() } else { other.to_owned() }
                })
                .collect();
            assert!(
                Spec::parse(&one.join("\n")).is_ok(),
                "{name}: {line}: {:?}",
                Spec::parse(&one.join("\n"))
            );
        }
    }
    assert!(example("nginx").is_none());
}

//! The page as its reader finds it: what stands where, what is marked, and that nothing foreign is markup.

use super::*;
use crate::experiments::{Measured, Offer, Planned, Scale};
use crate::report::PAGE_SIZE_MAX;
use crate::result::{Head, Run, RunHead, Surroundings};

/// As it is read: at which spaces no line ends is not these tests' subject.
fn page(repetition: &Repetition) -> String {
    super::page(repetition).replace('\u{a0}', " ")
}

/// All five, each set-up half as slow as the one before it.
fn repetition(is_quick: bool, pairs: u32, peer: &str) -> Repetition {
    let offer = Offer {
        peer: peer.to_owned(),
        price: Some(1_000.0),
        cpus_count: 2,
        server_cpus_count: 1,
        links: Ok(()),
        io_uring: Err("forbidden by <policy>".to_owned()),
        agents_count: 0,
        nodes_count: 1,
        has_irqbalance: true,
    };
    let (mut plans, mut measured) = (Vec::new(), Vec::new());
    for id in Id::ALL {
        let preset = Preset::of(id);
        let planned = Planned::new(preset, Scale::new(preset, is_quick, 1, 1, 64 << 30), &offer);
        let levels: Vec<Option<u32>> = match preset.sweep.levels() {
            [] => vec![None],
            levels => levels.iter().copied().map(Some).collect(),
        };
        for pair in 0..pairs {
            for (at, arm) in (1_u32..).zip(&planned.arms) {
                for level in &levels {
                    let noise = 1.0 + f64::from((pair + at) % 3) * 0.004;
                    let mean_ns = f64::from(level.unwrap_or(50) + 400) * 2_000.0 / f64::from(at) * noise;
                    measured.push(Measured {
                        experiment: id.to_string(),
                        arm: arm.arm.clone(),
                        pair,
                        level: level.map(f64::from),
                        connection_count: preset.connections_at(*level),
                        per_second: 1e10 / mean_ns,
                        mean_ns,
                        get_mean_ns: Some(mean_ns),
                        set_mean_ns: Some(mean_ns),
                        p99_ns: Some(mean_ns),
                        is_whole: true,
                        doubts: if pair == 1 {
                            vec!["the hypervisor took 9 %".to_owned()]
                        } else {
                            Vec::new()
                        },
                        load_limits: if at == 2 { vec!["97 % of its core".to_owned()] } else { Vec::new() },
                        ..Measured::default()
                    });
                }
            }
        }
        plans.push(planned);
    }
    let head = Head {
        plan: serde_json::json!({ "experiments": plans }),
        command: vec!["expresslane".to_owned(), "bench".to_owned(), "reproduce".to_owned()],
        ..Head::default()
    };
    Repetition { saved: Saved { head, is_complete: true, ..Saved::default() }, measured }
}

/// Between the beginning of an experiment's section and its end.
fn section(page: &str, id: Id) -> String {
    let from = page.find(&format!("<section id=\"{id}\">")).unwrap();
    let to = page[from..].find("</section>").unwrap();
    page[from..from + to].to_owned()
}

#[test]
fn five_verdicts_come_first() {
    assert!(super::page(&repetition(false, 10, "redis-server")).contains("40\u{a0}µs"));
    let page = page(&repetition(false, 10, "redis-server"));
    let first = page.find("<section id=").unwrap();
    for id in Id::ALL {
        assert!(page[..first].contains(&format!("href=\"#{id}\"")), "{id}");
    }
    assert_eq!(page[..first].matches("no repetition").count(), 5);
    assert!(page[..first].contains("none can be repeated as published"));
    let body = &page[page.find("<body>").unwrap()..];
    assert!(!body.contains("quick"), "the full form bears no mark");
    assert!(!body.contains("Cut short") && !body.contains("class=\"doubts\""), "all of it ran");
    assert!(page.contains("start: one port, nothing pinned → full: all that is switched here"));
}

#[test]
fn what_was_cut_is_said_above_the_verdicts() {
    let page = page(&repetition(false, 4, "redis-server"));
    let above = &page[..page.find("class=\"verdicts\"").unwrap()];
    for id in Id::ALL {
        let want = format!("<b>{id}</b>: Cut short: of 10 pairs that were planned, 4 ran whole.");
        assert!(above.contains(&want), "{id}");
    }
    let mut one = repetition(false, 10, "redis-server");
    one.saved.is_complete = false;
    one.saved.head.plan["experiments"].as_array_mut().unwrap().truncate(1);
    let page = self::page(&one);
    assert!(page.contains("Cut file") && page.contains("<h1>E1 can't be repeated as published"));
}

#[test]
fn published_figures_are_grey_where_another_protocol_was_measured() {
    let page = page(&repetition(false, 10, "redis-server"));
    for id in Id::ALL {
        let section = section(&page, id);
        // The tail's peer.
        assert!(!section.contains("RESP stand-in"), "{id}");
        assert_eq!(section.contains("class=\"stand-in\">("), id == Id::E2, "{id}");
        assert!(section.contains("Published → here") && section.contains("not to be had here"), "{id}");
        assert!(section.contains("Runs that don't count ("), "{id}");
        let meanings = &section[section.find("What these numbers are").unwrap()..];
        let told: std::collections::BTreeSet<_> =
            Preset::of(id).figures.iter().map(|figure| figure.measure.meaning()).collect();
        for meaning in told {
            assert_eq!(meanings.matches(meaning).count(), 1, "{id}: {meaning}");
        }
    }
    let tail = section(&page, Id::E2);
    // The default machine's table has no published figures, and no headline.
    let apart = &tail[tail.find("as installed → ").unwrap()..];
    let apart = &apart[..apart.find("</table>").unwrap()];
    assert!(!apart.contains("stand-in") && !apart.contains("headline"), "{apart}");
    // Without io_uring the lane in Aerospike's protocol stands beside the peer itself, which is named.
    let first = &tail[tail.find("redis-server in RESP → expresslane, Aerospike").unwrap()..];
    let first = &first[..first.find("</table>").unwrap()];
    assert!(first.contains("was published of another protocol") && first.contains(">(600 µs → 320 µs)<"));
    assert!(tail.contains("Not comparable: redis-server in RESP does not speak Aerospike's protocol."));
    assert!(tail.contains("2,919 in flight"));
    assert!(section(&page, Id::E1).contains("load-limited in the second"));
    assert!(section(&page, Id::E3).contains("<td class=\"number\">203 µs → 122 µs</td>"));
}

#[test]
fn the_quick_form_is_marked_wherever_a_number_stands() {
    let page = page(&repetition(true, 2, "redis-server"));
    for id in Id::ALL {
        let section = section(&page, id);
        for (open, close) in [("<h2>", "</h2>"), ("<h3>", "</h3>"), ("<tbody><tr><td>", "</tbody>")] {
            let mut rest = section.as_str();
            while let Some(at) = rest.find(open) {
                let part = &rest[at..][..rest[at..].find(close).unwrap()];
                // Tables of numbers; those of words have no verdict.
                if open.starts_with("<h") || part.contains("pairs, too few") {
                    assert!(part.contains("quick"), "{id}: {part}");
                }
                rest = &rest[at + open.len()..];
            }
        }
        assert!(section.contains("of the quick form"), "{id}");
    }
}

/// Two captures of each host, between which the governor changes.
fn captured(hosts: &[String], items_count: usize) -> Vec<Surroundings> {
    let items = |governor: &str| {
        let more = (0..items_count).map(|number| (format!("setting {number}"), "0-127"));
        let items = more.chain([("governor".to_owned(), governor)]);
        let items =
            items.map(|(name, value)| serde_json::json!({"name": name, "value": value, "expected": "equal"}));
        serde_json::json!({"groups": [{"name": "processor", "items": items.collect::<Vec<_>>()}]})
    };
    let at = |host: &String, at: &str, governor| Surroundings {
        side: "client".to_owned(),
        host: host.clone(),
        at: at.to_owned(),
        run: None,
        environment: items(governor),
    };
    hosts.iter().flat_map(|host| [at(host, "start", "schedutil"), at(host, "end", "performance")]).collect()
}

#[test]
fn the_machines_of_agents_stand_on_the_page() {
    let mut two = repetition(false, 10, "redis-server");
    two.saved.surroundings = captured(&["10.0.0.7:7411".to_owned(), "<b>:7411".to_owned()], 3);
    let page = self::page(&two);
    let machines = &page[page.find("<h2>The machines</h2>").unwrap()..];
    for host in ["10.0.0.7:7411", "&lt;b&gt;:7411"] {
        let from = machines.find(&format!("the client {host} at the start and at the end")).unwrap();
        let own = &machines[from..][..machines[from..].find("</details>").unwrap()];
        assert!(own.contains("processor / governor") && own.contains("schedutil"), "{own}");
        assert!(own.contains("What is the same (3)"), "{own}");
    }
    // As many as there may be.
    let hosts: Vec<String> = (0..crate::agents::AGENTS_MAX).map(|number| format!("h{number}:7411")).collect();
    two.saved.surroundings = captured(&hosts, 500);
    let page = self::page(&two);
    assert!(page.len() <= PAGE_SIZE_MAX, "{}", page.len());
    assert!(page.contains("the client h63:7411 at the start") && page.contains("more rows"));
}

/// E1 ran both set-ups, E2 was cut before its first one did, and no other began.
#[test]
fn the_machine_of_a_cut_experiment_stands_beside_what_ran() {
    let mut cut = repetition(false, 10, "redis-server");
    let evaluations = cut.evaluations();
    let step = |at: usize| evaluations[at].planned.steps[0].clone();
    let ran = [(Id::E1, step(0).from), (Id::E1, step(0).to), (Id::E2, step(1).to)];
    for (run, (id, arm)) in (0..).zip(ran) {
        let head = RunHead { run, experiment: id.to_string(), arm, ..RunHead::default() };
        cut.saved.runs.push(Run { head, ..Run::default() });
        let seen = captured(&[String::new()], 2).remove(0);
        cut.saved.surroundings.push(Surroundings { run: Some(run), ..seen });
    }
    let page = self::page(&cut);
    let machines = &page[page.find("<h2>The machines</h2>").unwrap()..];
    let from = machines.find("<h3>E2: beside ").unwrap();
    let (both, one) = machines.split_at(from);
    let (_, name) = names(&evaluations[1], &step(1));
    assert!(both.contains("<h3>E1: beside ") && both.contains("What is the same (3)"), "{both}");
    assert!(one.starts_with(&format!("<h3>E2: beside {name} alone: no other was captured</h3>")), "{one}");
    assert!(one.contains("What was seen (3)") && one.contains("<td>schedutil</td></tr>"), "{one}");
    assert!(!one.contains("same?") && !machines.contains("E3: beside"), "{one}");
}

#[test]
fn foreign_words_are_text_and_the_page_is_small() {
    let page = page(&repetition(false, 15, "<script>alert(1)</script>"));
    assert!(!page.contains("<script>alert"), "a peer's name is no markup");
    assert!(page.contains("forbidden by &lt;policy&gt;"));
    assert!(page.len() < PAGE_SIZE_MAX, "{}", page.len());
    assert!(!page.contains("http://") && !page.contains("https://"));
    assert!(self::page(&Repetition::default()).contains("Nothing was measured."));
}

//! Reports of made-up results: what a reader sees, and that no result, however odd, breaks the page.

#[path = "../../examples/report/made_up.rs"]
mod made_up;
mod readings;

use std::collections::BTreeMap;

use load::agents::clock::Offset;
use load::agents::message::Reported;
use load::agents::told::{AgentRun, AgentSecond};
use load::analysis::comparison::Comparison;
use load::record::{Second, TIME_NS_MAX};
use load::report::export::{hgrm, json, runs_csv, seconds_csv};
use load::report::{PAGE_SIZE_MAX, files, page, summary};
use load::result::{Head, Run, RunEnd, RunHead, SCHEMA, Saved, SavedSecond, Surroundings};
use load::statistics::verdict::Answer;
use load::workload::{Operation, Sizes, Workload};
use made_up::{Asked, Chance, Server};

/// A text that breaks a page that forgets to escape.
const HOSTILE: &str = "</script><script>alert(1)</script>\"'&<b>\u{0}";

/// What holds for every page.
fn check(saved: &Saved) -> String {
    let page = page(saved);
    assert!(page.len() <= PAGE_SIZE_MAX, "{} bytes", page.len());
    for banned in ["http:", "https:", "src=", "url(", "@import", "<link", "alert(1)</script>"] {
        assert!(!page.contains(banned), "{banned} in {page}");
    }
    for tag in ["div", "table", "tr", "svg", "figure", "details", "ul", "h1", "h2", "h3", "section", "main"] {
        let (opened, closed) = (format!("<{tag}"), format!("</{tag}>"));
        let opened = page
            .match_indices(&opened)
            .filter(|(at, _)| page[at + opened.len()..].starts_with([' ', '>', '\n']));
        assert_eq!(opened.count(), page.matches(&closed).count(), "{tag}");
    }
    for picture in page.split("<svg").skip(1).filter_map(|rest| rest.split("</svg>").next()) {
        assert!(!picture.contains("NaN") && !picture.contains("inf "), "{picture}");
    }
    assert_eq!(page.matches("<h1>").count(), 1);
    let answer = page.split("<h1>").nth(1).and_then(|rest| rest.split("</h1>").next()).expect("an answer");
    let mut breaks = answer.match_indices(" %").map(|(at, _)| &answer[..at]);
    assert!(!breaks.any(|before| before.ends_with(|c: char| c.is_ascii_digit())), "{answer}");
    assert!(!page.contains('\0'));
    check_texts(saved);
    assert_eq!(page.matches("<figure").count(), page.matches("role=\"img\"").count());
    assert_eq!(page.matches("<figure").count(), page.matches("<summary>The numbers").count());
    check_readouts(&page);
    let files = files(saved);
    // Those that a page has no room for are the last.
    assert!(ids(&page).iter().zip(&files).all(|(id, (name, _))| *name == format!("{id}.svg")));
    assert!(files.len() >= ids(&page).len());
    files.iter().for_each(|(_, file)| check_file(file));
    // No line begins with a unit; tests below are about words.
    page.replace('\u{a0}', " ")
}

/// A picture that stands by itself: well-formed, named, with its own colours, and nothing fetched or run.
fn check_file(file: &str) {
    let xmlns = " xmlns=\"http://www.w3.org/2000/svg\"";
    assert!(file.starts_with(&format!("<svg{xmlns} width=")), "{file}");
    for banned in ["http:", "https:", "src=", "url(", "@import", "<script", "NaN", "inf ", "<a ", "\0"] {
        assert!(!file.replacen(xmlns, "", 1).contains(banned), "{banned} in {file}");
    }
    assert!(
        file.contains("role=\"img\" aria-labelledby=\"title desc\"") && file.contains("<desc id=\"desc\">")
    );
    assert!(file.contains("prefers-color-scheme: dark") && file.contains("class=\"ground\""));
    let mut open = Vec::new();
    for tag in file.split('<').skip(1) {
        let (inside, text) = tag.split_once('>').expect("a tag ends");
        let name = inside.split([' ', '/']).next().expect("a name");
        match inside.strip_prefix('/') {
            Some(name) => assert_eq!(open.pop(), Some(name), "{file}"),
            None if inside.ends_with('/') => {}
            None => open.push(name),
        }
        assert!(open.last() == Some(&"style") || !text.contains('>'), "{text}");
        assert!(text.split('&').skip(1).all(|rest| rest.find(';').is_some_and(|at| at <= 4)), "{text}");
    }
    assert!(open.is_empty(), "{open:?} in {file}");
}

/// What the page's script reads is there and is numbers.
fn check_readouts(page: &str) {
    let attributes = |name: &str| -> Vec<&str> {
        let start = format!(" {name}=\"");
        page.split(&start).skip(1).filter_map(|rest| rest.split('"').next()).collect()
    };
    let (level, upright) = (attributes("data-x"), attributes("data-y"));
    assert_eq!(level.len(), upright.len());
    for axis in level
        .into_iter()
        .chain(upright.into_iter().flat_map(|axes| axes.split('|')))
        .filter(|it| !it.is_empty())
    {
        let words: Vec<&str> = axis.split(' ').collect();
        assert!(["linear", "log", "nines"].contains(&words[0]) && words.len() == 6, "{axis}");
        let numbers: Vec<f64> = words[2..].iter().map(|word| word.parse().expect("a number")).collect();
        assert!(numbers.iter().all(|number| number.is_finite()) && numbers[0] < numbers[1], "{axis}");
        assert!(words[0] != "log" || numbers[0] > 0.0, "{axis}");
    }
    assert!(attributes("data-n").iter().all(|name| !name.is_empty()));
    let data = page
        .split("<script type=\"application/json\">")
        .nth(1)
        .and_then(|rest| rest.split("</script>").next());
    assert_eq!(data.is_some(), page.contains("<figure id=\"fanout\""));
    let Some(data) = data else { return };
    let data: FanOut = serde_json::from_str(data).expect("numbers");
    assert!(data.deadlines.is_sorted() && data.deadlines.get(data.chosen).is_some());
    for arm in data.arms {
        let lengths = [arm.late.len(), arm.claimed.len(), arm.same.len()];
        assert_eq!(lengths, [data.deadlines.len(); 3]);
        assert!(arm.same.iter().all(|chances| chances.len() == data.servers.len()));
        assert!(arm.late.is_sorted_by(|earlier, later| earlier >= later), "{:?}", arm.late);
    }
}

/// The numbers from which the page's script draws the fan-out.
#[derive(serde::Deserialize)]
struct FanOut {
    deadlines: Vec<u64>,
    chosen: usize,
    servers: Vec<u64>,
    arms: Vec<FanOutArm>,
}

#[derive(serde::Deserialize)]
struct FanOutArm {
    late: Vec<f64>,
    claimed: Vec<u64>,
    same: Vec<Vec<u32>>,
}

/// What holds for every text beside the page.
fn check_texts(saved: &Saved) {
    let summary = summary(saved);
    assert!(summary.lines().all(|line| line.chars().count() <= 80), "{summary}");
    let json: serde_json::Value = serde_json::from_str(&json(saved).expect("a form")).expect("JSON");
    assert_eq!(json["runs"].as_array().map(Vec::len), Some(saved.runs.len()));
    assert!(saved.runs.iter().all(|run| hgrm(run).lines().count() > 4));
    let second_count: usize = saved.runs.iter().map(|run| run.seconds.len()).sum();
    for (table, row_count) in [(runs_csv(saved), saved.runs.len()), (seconds_csv(saved), second_count)] {
        // A quoted cell may hold commas and a line's end.
        let plain: String = table.split('"').step_by(2).collect();
        assert_eq!(plain.lines().count(), row_count + 1, "{table}");
        let width = plain.lines().next().map_or(0, |head| head.split(',').count());
        assert!(plain.lines().all(|line| line.split(',').count() == width), "{table}");
    }
}

fn ids(page: &str) -> Vec<&str> {
    page.split("<figure id=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect()
}

fn headline(page: &str) -> &str {
    page.split("<h1>").nth(1).and_then(|rest| rest.split("</h1>").next()).unwrap_or_default()
}

#[test]
fn a_comparison_says_what_changed_before_anything_else() {
    let saved = made_up::compare(2, 10, 0.7);
    let page = check(&saved);
    let headline = headline(&page);
    assert!(headline.starts_with("With “lanes on”, p99 response fell by 3"), "{headline}");
    assert!(headline.contains("10 pairs, 0 left out."), "{headline}");
    assert!(page.contains("<b class=\"better\">better</b>"));
    assert_eq!(ids(&page), ["paired", "percentiles", "strips", "fanout", "heat", "split", "order"]);
    assert!(page.contains("differs as declared") && !page.contains("differs, unexplained"));
    // Bars of two set-ups are told apart by letters, and the legend says whose they are.
    for bar in
        [">A mean</text>", ">B mean</text>", ">A server</text>", ">B server</text>", " A: lanes off</span>"]
    {
        assert!(page.contains(bar), "{bar}");
    }
    assert!(page.contains("pair by pair, from “lanes off” to “lanes on”"));
    // Counters that explain a stripe are drawn first, by what they mean, and none twice.
    let mut counted = saved.clone();
    for second in counted.runs.iter_mut().flat_map(|run| &mut run.seconds) {
        second.counters.extend(
            [("chosen_softirq", 0.5), ("tcp_retransmits", 3.0)].map(|(name, value)| (name.to_owned(), value)),
        );
    }
    let strips = check(&counted);
    assert!(strips.contains("TCP segments sent again") && strips.contains("switches from task to task"));
    assert!(!strips.contains("chosen softirq"));
    let meanings = page.find("What these numbers are").unwrap();
    for name in [
        "throughput",
        "p99.9 response",
        "tail gap, p99.9 − p50",
        "wobble of the p99",
        "send lag",
        "in flight",
    ] {
        assert!(page[meanings..].contains(&format!("<tr><td>{name}</td>")), "{name}");
    }
    assert_eq!(page, check(&saved), "the same result makes the same page");
}

#[test]
fn a_terminal_shows_the_same_in_80_columns() {
    assert_eq!(summary(&made_up::compare(2, 6, 0.7)), include_str!("compare.txt"));
    assert_eq!(summary(&made_up::search(4)), include_str!("search.txt"));
    // Names that would be cut to the same nine characters are told apart.
    let mut servers = made_up::compare(2, 6, 0.7);
    servers.head.plan["declared"]["name_a"] = serde_json::json!("127.0.0.1:6379");
    servers.head.plan["declared"]["name_b"] = serde_json::json!("127.0.0.1:7000");
    let text = summary(&servers);
    assert!(text.contains("\nA: 127.0.0.1:6379; B: 127.0.0.1:7000\n"), "{text}");
    assert!(text.lines().any(|line| line.split_whitespace().take(3).eq(["A", "B", "change"])), "{text}");
}

#[test]
fn nothing_is_claimed_of_machines_that_differ() {
    let mut saved = made_up::compare(2, 6, 0.7);
    saved.head.plan["declared"]["may_differ"] = serde_json::json!([]);
    let page = check(&saved);
    assert!(headline(&page).starts_with("No claim is made"), "{}", headline(&page));
    assert!(page.contains("differs, unexplained") && page.contains("sysctl/net.core.busy_poll"));
    assert!(!page.contains("class=\"better\""));
}

/// The answer that ends the program and the page say the same of what differs between the machines.
#[test]
fn a_page_and_a_claim_judge_machines_alike() {
    let check = |side: &str, name: &str, is_claimed: bool| {
        let mut saved = made_up::compare(2, 10, 0.7);
        let item = |value| serde_json::json!({"name": name, "value": value, "expected": "equal"});
        for (run, value) in [(0, "1"), (1, "2")] {
            let mut one = saved.surroundings[0].clone();
            (one.side, one.run) = (side.to_owned(), Some(run));
            one.environment = serde_json::json!({"groups": [{"name": "programs", "items": [item(value)]}]});
            saved.surroundings.push(one);
        }
        if side == "client" {
            saved.surroundings.drain(..2);
        }
        let page = check(&saved);
        assert_eq!(page.contains("<b>Unexplained difference</b>"), !is_claimed, "{side} {name}");
        assert_eq!(page.contains("differs, unexplained"), !is_claimed, "{side} {name}");
        let answer = Comparison::of(&saved).expect("it is one").answer();
        let want = if is_claimed { Answer::Holds } else { Answer::CantTell };
        assert_eq!(answer, Some(want), "{side} {name}");
    };
    for side in ["client", "server"] {
        check(side, "server sha256", true);
        check(side, "load sha256", false);
    }
}

#[test]
fn a_red_run_takes_its_pair_with_it() {
    let mut saved = made_up::compare(2, 7, 0.7);
    saved.runs[4].end.as_mut().unwrap().failure = Some(HOSTILE.to_owned());
    saved.head.plan["declared"]["name_a"] = serde_json::json!(HOSTILE);
    let page = check(&saved);
    assert!(headline(&page).contains("7 pairs, 1 left out."), "{}", headline(&page));
    assert_eq!(page[page.find("Every run").unwrap()..].matches("<td>left out").count(), 2);
    saved.runs.truncate(10);
    let page = check(&saved);
    assert!(headline(&page).starts_with("No claim: 4 pairs count"), "{}", headline(&page));
    saved.runs.drain(..8);
    saved.runs.iter_mut().for_each(|run| run.end.as_mut().unwrap().failure = None);
    let text = summary(&saved);
    assert!(text.contains("No claim: 1 pair counts, and an interval needs 6. 1 pair, 0"), "{text}");
    saved.runs[0].end.as_mut().unwrap().failure = Some("gone".to_owned());
    let text = summary(&saved);
    assert!(text.contains("0 pairs count") && !text.contains("95 %"), "no table without a row: {text}");
}

/// A machine so noisy that A does not even agree with itself: what its runs did is no answer to what was asked.
#[test]
fn a_comparison_that_ends_before_its_pairs_says_so_first() {
    let mut saved = made_up::compare(2, 7, 0.7);
    for run in &mut saved.runs {
        run.head.arm = "a1".to_owned();
    }
    let said = headline(&check(&saved)).to_owned();
    assert!(said.starts_with("Nothing can be told of A and B") && !said.contains("No measurement"), "{said}");
    for run in &mut saved.runs {
        run.end.as_mut().unwrap().failure = Some("gone".to_owned());
    }
    let page = check(&saved);
    assert!(headline(&page).contains("No measurement of the server"), "{}", headline(&page));
    saved.runs.truncate(1);
    let page = check(&saved);
    assert!(headline(&page).starts_with("Nothing can be told of A and B"), "{}", headline(&page));
}

#[test]
fn each_kind_of_result_has_its_figures() {
    let all = ["percentiles", "strips", "fanout", "heat", "split"];
    for (saved, first) in [
        (made_up::single(1), &[][..]),
        (made_up::sweep(3), &["paired", "connections"]),
        (made_up::search(4), &["load-curve"]),
        (made_up::sizes(5), &["sizes"]),
    ] {
        let page = check(&saved);
        assert_eq!(ids(&page), [first, &all].concat(), "{}", saved.head.kind);
    }
}

#[test]
fn a_search_says_what_holds_and_what_failed_beyond() {
    let page = check(&made_up::search(4));
    let headline = headline(&page);
    assert!(headline.contains("is the highest rate at which p99&lt;2ms surely holds"), "{headline}");
    assert!(headline.contains("; at 8") && headline.contains(" the bound was not kept"), "{headline}");
    assert!(headline.contains("there lies between 4"), "the steps that failed are not in it: {headline}");
    assert!(!page.contains("<li class=\"red\">"), "a rate that was not answered is no doubt here");
    assert!(page.contains("red: achieved") && page.contains("hollow"), "it is marked where it stands");
}

/// A load that was late at every rate says nothing of the server.
#[test]
fn a_search_whose_load_was_late_can_not_tell() {
    let mut saved = made_up::search(4);
    saved.runs.truncate(4);
    for (run, rate) in saved.runs.iter_mut().zip([10_000.0, 5_000.0, 2_500.0, 1_250.0]) {
        run.head.rate = Some(rate);
        run.head.level = Some(("rate".to_owned(), rate));
        for second in &mut run.seconds {
            second.second.send_lag.record_n(50_000_000, 100_000).unwrap();
        }
    }
    let page = check(&saved);
    let headline = headline(&page);
    let want = "Whether p99&lt;2ms holds can't be told: down to 1,250 requests/s the load itself was late";
    assert!(headline.starts_with(want), "{headline}");
}

/// Nothing is explained that only several runs have.
#[test]
fn a_single_run_is_no_band() {
    let several = ["Band: from", "Pale: single runs", "the one with the middle p99", "response time, run "];
    let page = check(&made_up::single(1));
    assert!(several.iter().all(|words| !page.contains(words)));
    let page = check(&made_up::compare(2, 6, 0.7));
    assert!(several.iter().all(|words| page.contains(words)));
}

#[test]
fn a_run_says_what_it_cannot_tell() {
    let mut saved = made_up::single(1);
    saved.runs[0].seconds.truncate(4);
    for second in &mut saved.runs[0].seconds {
        second.second.clear();
        second.second.operations[0].response.record_n(50_000, 100).unwrap();
        second.second.operations[0].service.record_n(40_000, 100).unwrap();
    }
    saved.is_complete = false;
    saved.runs[0].end = None;
    let page = check(&saved);
    let headline = headline(&page);
    assert!(headline.starts_with("No measurement of the server, see below"), "{headline}");
    assert!(headline.ends_with("Too few requests to tell p99, p99.9, p99.99."), "{headline}");
    assert!(
        page.contains("<li class=\"amber\"><b>Cut file</b>") && page.contains("<li class=\"red\"><b>End</b>")
    );
}

/// Without a script the deadlines stand in a table, and single runs beside the whole.
#[test]
fn fan_out_is_told_for_other_deadlines_and_over_runs() {
    let page = check(&made_up::compare(2, 10, 0.7));
    let figure =
        page.split("<figure id=\"fanout\"").nth(1).and_then(|rest| rest.split("</figure>").next()).unwrap();
    let text = figure.split("<table>").nth(2).unwrap();
    let rows: Vec<&str> = text.split("<tr>").skip(2).collect();
    assert!((6..=12).contains(&rows.len()), "{rows:?}");
    assert!(
        rows.iter().any(|row| row.starts_with("<td>100 µs</td>"))
            && rows.iter().any(|row| row.contains("any number"))
    );
    let finding = figure.split("<p>").nth(1).and_then(|rest| rest.split("</p>").next()).unwrap();
    assert_eq!(finding.matches("Single runs: ").count(), 2, "{finding}");
    assert!(finding.contains(" (95 %: "), "{finding}");
    let alone = check(&made_up::single(1));
    assert!(alone.contains("Other deadlines") && !alone.contains("Single runs: "));
}

/// A machine that changed is a doubt, and what changed is shown.
#[test]
fn a_machine_that_changed_is_doubted() {
    let row = |name: &str, a: &str, b: &str, kind| load::environment::Row {
        group: "processor".to_owned(),
        name: name.to_owned(),
        a: Some(a.to_owned()),
        b: Some(b.to_owned()),
        kind,
    };
    let changes = vec![
        row("governor", "performance", HOSTILE, load::environment::Kind::Unexplained),
        row("frequency now (cpu 0)", "1", "2", load::environment::Kind::Volatile),
    ];
    let mut saved = made_up::compare(2, 6, 0.7);
    saved.runs[3].end.as_mut().unwrap().machine_changes = changes.clone();
    let page = check(&saved);
    assert!(
        page.contains(
            "<li class=\"amber\"><b>Machine</b>: processor/governor was performance before the run"
        )
    );
    let table =
        page.split("What changed while a run went on").nth(1).unwrap().split("</table>").next().unwrap();
    assert_eq!(table.matches("<tr>").count(), 2, "the head, and not the value of the moment: {table}");
    // Of a single run start and end stand side by side, values of the moment among them.
    let mut saved = made_up::single(1);
    saved.surroundings = made_up::compare(2, 1, 1.0).surroundings;
    saved.surroundings.truncate(1);
    saved.surroundings[0].run = Some(0);
    saved.runs[0].end.as_mut().unwrap().machine_changes = changes;
    let page = check(&saved);
    assert!(page.contains("the client at the start and at the end"), "{page}");
    assert!(page.contains("differs, of the moment") && page.contains("differs, unexplained"));
    assert!(headline(&page).starts_with("No claim is made") || page.contains("class=\"red\""));
    // The same side captured again, with another value.
    let mut saved = made_up::compare(2, 6, 0.7);
    let mut again = saved.surroundings[0].clone();
    again.run =
        saved.runs.iter().rev().find(|run| run.head.arm == saved.runs[0].head.arm).map(|run| run.head.run);
    again.environment["groups"][1]["items"][1]["value"] = serde_json::json!("128");
    saved.surroundings.push(again);
    assert!(check(&saved).contains("between two runs sysctl/net.core.somaxconn went from 4096 to 128"));
}

/// Of a host that loads, what its kernel counted stands below it; the second before the warm-up's end is not in it.
#[test]
fn what_a_hosts_kernel_counted_is_shown() {
    let mut saved = made_up::single(1);
    saved.runs[0].head.warm_up_s = Some(1);
    let counted = |value: f64| {
        let counters = [("cpu_softirq", value / 8.0), ("context_switches", value), ("cpu_steal", 0.0)];
        let counters = counters.map(|(name, value)| (name.to_owned(), value)).into();
        AgentSecond::of(&Reported { second: Second::new(std::iter::empty()), counters })
    };
    let mut second = Second::new([Operation::Get].into_iter());
    second.operations[0].response.record_n(1, 7).unwrap();
    second.send_lag.record_n(4000, 7).unwrap();
    let mut seconds = vec![counted(9e9), counted(1.0), counted(3.0)];
    seconds[1] = AgentSecond::of(&Reported { second, counters: seconds[1].counters.clone() });
    let clock = Some(Offset { offset_ns: 0, error_ns: 1000 });
    let blind = AgentRun {
        name: "h2:7411".to_owned(),
        clock_before: clock,
        clock_after: clock,
        ..AgentRun::default()
    };
    let agent = AgentRun { name: "h1:7411".to_owned(), seconds, ..blind.clone() };
    saved.runs[0].end.as_mut().unwrap().agents = vec![agent, blind];
    check(&saved);
    let text = summary(&saved);
    let lines: Vec<&str> = text.lines().skip_while(|line| !line.contains("h1:7411")).collect();
    assert_eq!(lines[1].trim(), "softirq 0.250 cpus, switches 2.00/s, steal 0 cpus", "{text}");
    assert!(lines[2].contains("h2:7411") && !lines[3].contains("softirq"), "{text}");
    let json: serde_json::Value = serde_json::from_str(&json(&saved).unwrap()).unwrap();
    assert_eq!(json["runs"][0]["agents"][0]["counters"]["cpu_softirq"], 0.25, "{json}");
    // Second by second, the warm-up among them; of seconds that the host doesn't have nothing is said.
    let table = seconds_csv(&saved);
    let column = |name: &str| -> Vec<&str> {
        let at = table.lines().next().unwrap().split(',').position(|head| head == name);
        table
            .lines()
            .skip(1)
            .map(|line| line.split(',').nth(at.unwrap_or_else(|| panic!("{name}"))).unwrap())
            .collect()
    };
    assert_eq!(column("h1:7411/context_switches")[..4], ["9000000000", "1", "3", ""], "{table}");
    assert_eq!(column("h1:7411/replies")[..4], ["0", "7", "0", ""]);
    assert_eq!(column("h1:7411/send_lag_p99_ns")[..4], ["", "4001", "", ""]);
    assert!(!table.contains("h2:7411"), "it told nothing");
    // What has no room in a line goes on in the next.
    let wide = [
        ("cpu_softirq", 0.0293),
        ("context_switches", 11_475.0),
        ("tcp_retransmits", 6.02),
        ("cpu_steal", 0.0),
    ];
    let wide = wide.map(|(name, value)| (name.to_owned(), value)).into();
    let wide = AgentSecond::of(&Reported { second: Second::new(std::iter::empty()), counters: wide });
    saved.runs[0].end.as_mut().unwrap().agents[0].seconds = vec![wide; 3];
    let text = summary(&saved);
    assert!(text.contains("retransmits 6.02/s, steal\n          0 cpus\n"), "{text}");
}

#[test]
fn servers_that_go_on_through_all_runs_are_a_doubt() {
    let mut saved = made_up::compare(2, 6, 0.7);
    assert!(!check(&saved).contains("is not started anew"));
    saved.head.plan["declared"]["servers_kept"] = serde_json::json!(["lanes off"]);
    assert!(check(&saved).contains("the server of lanes off is not started anew for each run"));
}

#[test]
fn the_cpus_time_for_a_request_is_told_where_it_was_seen() {
    let mut saved = made_up::single(1);
    let page = check(&saved);
    for (name, time) in [("server", "9.00 µs"), ("the load", "8.33 µs")] {
        assert!(page.contains(&format!("<td>{name}</td><td>{time}</td>")), "{name}");
    }
    assert!(page.contains("<td>soft interrupts</td>") && !page.contains("<td>hard interrupts</td>"));
    saved.runs[0].end.as_mut().unwrap().thread_use.clear();
    saved.runs[0].end.as_mut().unwrap().server_cpu_ns = None;
    saved.runs[0].seconds.iter_mut().for_each(|second| second.counters.clear());
    assert!(!check(&saved).contains("cpu time for a request"));
}

#[test]
fn pictures_are_drawn_as_they_were() {
    let mut chance = Chance(9);
    let server = Server { body_ns: 50e3, tail_ns: 200e3, wobble: 0.05 };
    let run = made_up::run(&Asked { seconds: 9, mix: "get", ..Asked::default() }, server, &mut chance);
    let head = Head { schema: SCHEMA, kind: "run".to_owned(), ..Head::default() };
    let saved = Saved { head, surroundings: Vec::new(), runs: vec![run], is_complete: true };
    let page = check(&saved);
    assert_eq!(summary(&saved), include_str!("run.txt"));
    assert_eq!(seconds_csv(&saved), include_str!("seconds.csv"));
    assert_eq!(hgrm(&saved.runs[0]), include_str!("run.hgrm"));
    for (id, want) in [("strips", include_str!("strips.svg")), ("split", include_str!("split.svg"))] {
        let from = page.find(&format!("aria-labelledby=\"{id}-title")).unwrap();
        let from = page[..from].rfind("<svg").unwrap();
        let svg = page[from..].split_inclusive("</svg>").next().unwrap();
        assert_eq!(svg.trim(), want.trim(), "{id}");
    }
}

/// What a text shows of a report says what it is, whom it is of, and what takes its evidence away.
#[test]
fn a_figure_is_a_file_of_its_own() {
    let saved = made_up::compare(2, 10, 0.7);
    check(&saved);
    let files = files(&saved);
    let (_, paired) = files.iter().find(|(name, _)| name == "paired.svg").unwrap();
    assert!(
        paired.contains(
            "<title id=\"title\">What changed, pair by pair, from “lanes off” to “lanes on”</title>"
        )
    );
    assert!(!paired.contains("class=\"doubt\"") && !paired.contains("A: lanes off"));
    assert!(paired.contains(">expresslane bench compare, version "), "{paired}");
    let (_, curve) = files.iter().find(|(name, _)| name == "percentiles.svg").unwrap();
    assert!(curve.contains(">A: lanes off</text>") && curve.contains(">B: lanes on</text>"), "{curve}");
    let mut red = saved.clone();
    red.runs[8].end.as_mut().unwrap().failure = Some("the server closed a connection".to_owned());
    red.head.plan["is_quick"] = true.into();
    let (_, paired) = &load::report::files(&red)[0];
    assert!(paired.contains("<text class=\"doubt\""), "{paired}");
    assert!(paired.contains("This is no evidence (") && paired.contains("(quick form)</title>"), "{paired}");
}

fn once_in(chance: &mut Chance, count: u64) -> bool {
    chance.bits().is_multiple_of(count)
}

/// Any result, most of them impossible.
fn odd(chance: &mut Chance, run_count: u32) -> Saved {
    let kinds = ["run", "search", "compare", "reproduce", HOSTILE];
    let arms = ["", "a", "b", "a1", HOSTILE];
    let pick = |chance: &mut Chance, count: usize| usize::try_from(chance.bits() % count as u64).unwrap_or(0);
    let floats = [0.0, 1.0, -1.0, 0.5, 10.0, 1e9, 1e300, f64::MIN_POSITIVE, f64::NAN, f64::INFINITY];
    let float = |chance: &mut Chance| floats[pick(chance, floats.len())];
    let declared = serde_json::json!({
        "name_a": HOSTILE, "name_b": "B", "metric": "wobble", "margin": 0.05, "claims": ["p50 falls by >= 3 %"],
    });
    let plans = [
        serde_json::Value::Null,
        serde_json::json!({ "declared": declared }),
        serde_json::json!({"declared": 1}),
    ];
    let mut saved = Saved {
        head: Head {
            schema: SCHEMA,
            kind: kinds[pick(chance, kinds.len())].to_owned(),
            command: vec![HOSTILE.to_owned(); pick(chance, 3)],
            version: HOSTILE.to_owned(),
            began_unix_ms: chance.bits() >> pick(chance, 64),
            plan: plans[pick(chance, plans.len())].clone(),
        },
        surroundings: vec![Surroundings {
            side: "server".to_owned(),
            host: String::new(),
            at: "start".to_owned(),
            run: Some(0),
            environment: serde_json::json!({"groups": [{"name": HOSTILE, "items": []}]}),
        }],
        runs: Vec::new(),
        is_complete: once_in(chance, 2),
    };
    for number in 0..run_count {
        let mix: load::workload::Mix =
            ["get", "get:1,set:1", "mget7"][pick(chance, 3)].parse().expect("a mix");
        let names: Vec<_> = mix.0.iter().map(|(operation, _)| *operation).collect();
        let is_swept = once_in(chance, 3);
        let head = RunHead {
            run: number,
            arm: arms[pick(chance, arms.len())].to_owned(),
            pair: (!once_in(chance, 3)).then_some(number / 2),
            level: is_swept.then(|| ("connections".to_owned(), float(chance))),
            rate: (once_in(chance, 2)).then(|| float(chance)),
            connection_count: [0, 1, 50, u32::MAX][pick(chance, 4)],
            pipeline: [0, 1, u32::MAX][pick(chance, 3)],
            warm_up_s: [None, Some(0), Some(2), Some(u32::MAX)][pick(chance, 4)],
            duration_s: float(chance),
            workload: Workload {
                operations: mix,
                value_size: Sizes::Fixed(pick(chance, 3)),
                ..Workload::default()
            },
            began_unix_ms: chance.bits() >> pick(chance, 64),
            ..RunHead::default()
        };
        let second_count = [0, 1, 2, 12][pick(chance, 4)];
        let seconds = (0..second_count).map(|index: u32| {
            let mut second = Second::new(names.iter().copied());
            second.number = if once_in(chance, 50) { u32::MAX } else { index };
            for operation in &mut second.operations {
                for _ in 0..pick(chance, 4) {
                    let ns = chance.bits() >> pick(chance, 64);
                    let count = 1 + (chance.bits() >> (24 + pick(chance, 40)));
                    operation.response.saturating_record_n(ns.min(TIME_NS_MAX), count);
                    operation.service.saturating_record_n(ns / 2, count);
                }
                operation.errors = chance.bits() % 3;
            }
            second.send_lag.saturating_record_n(chance.bits() >> pick(chance, 64), 5);
            second.parts[3] = (chance.bits() % 9, chance.bits() >> 8);
            let counters =
                BTreeMap::from([("steal".to_owned(), float(chance)), (HOSTILE.to_owned(), float(chance))]);
            SavedSecond { run: number, second, counters }
        });
        let seconds: Vec<SavedSecond> = seconds.collect();
        let end = RunEnd {
            run: number,
            failure: (once_in(chance, 9)).then(|| HOSTILE.to_owned()),
            last_share: float(chance),
            answered: chance.bits() % 1000,
            unanswered: chance.bits() % 2,
            thread_use: vec![float(chance); pick(chance, 3)],
            server_cpu_ns: Some(chance.bits()),
            ..RunEnd::default()
        };
        let end = (!once_in(chance, 5)).then_some(end);
        saved.runs.push(Run { head, seconds, end });
    }
    saved
}

#[test]
fn a_machine_of_many_long_words_leaves_room_for_the_answer() {
    let mut saved = made_up::compare(2, 6, 0.7);
    for surroundings in &mut saved.surroundings {
        let items = (0..5_000).map(|number| {
            serde_json::json!({"name": number.to_string(), "value": "<\"".repeat(500), "expected": "volatile"})
        });
        let groups = serde_json::json!([{"name": "long", "items": items.collect::<Vec<_>>()}]);
        surroundings.environment = serde_json::json!({ "groups": groups });
    }
    let page = check(&saved);
    assert!(headline(&page).starts_with("With “lanes on”, p99 response fell"));
    assert!(page.contains(" more rows: they are in the result's file."));
}

#[test]
fn no_result_breaks_the_page() {
    let mut chance = Chance(77);
    for count in (0..24).chain([100]) {
        check(&odd(&mut chance, count % 12 + count / 100 * 96));
    }
}

/// A line of the summary that is longer than the terminal goes on below, and nothing of it is lost.
#[test]
fn the_summary_names_every_second_that_is_left_out() {
    let mut saved = made_up::single(3);
    let run = &mut saved.runs[0];
    (run.head.ramp_s, run.head.warm_up_s) = (3, None);
    run.end.as_mut().expect("it ended").last_share = 0.5;
    let text = summary(&saved);
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    let words = text.split_whitespace().collect::<Vec<&str>>().join(" ");
    assert!(words.contains("left out: ramp 3 s, with it warm-up "), "{text}");
    assert!(words.contains(", and the last, which is not whole drift "), "{text}");
}

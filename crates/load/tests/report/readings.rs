//! Figures read back as the page's script reads them: where a line lies is the number that the result has.

use load::analysis::{Figures, Metric};
use load::report::page;
use load::result::{Run, Saved};
use load::statistics::fanout::{Answers, all_in_time, all_in_time_same_second};

use crate::made_up;

/// Pixels are tenths of a unit, and axes of time have decades.
const TOLERANCE: f64 = 0.02;

struct Axis {
    scale: String,
    low: f64,
    high: f64,
    from: f64,
    to: f64,
}

impl Axis {
    fn parse(text: &str) -> Axis {
        let words: Vec<&str> = text.split(' ').collect();
        let number = |index: usize| words[index].parse().expect("a number");
        Axis { scale: words[0].to_owned(), low: number(2), high: number(3), from: number(4), to: number(5) }
    }

    fn place(&self, value: f64) -> f64 {
        match self.scale.as_str() {
            "log" => value.log10(),
            "nines" => -(1.0 - value).log10(),
            _ => value,
        }
    }

    fn at(&self, value: f64) -> f64 {
        let (low, high) = (self.place(self.low), self.place(self.high));
        self.from + (self.place(value) - low) / (high - low) * (self.to - self.from)
    }

    fn value(&self, at: f64) -> f64 {
        let (low, high) = (self.place(self.low), self.place(self.high));
        let place = low + (at - self.from) / (self.to - self.from) * (high - low);
        if self.scale == "log" { 10_f64.powf(place) } else { place }
    }

    fn holds(&self, at: f64) -> bool {
        (self.to - 0.1..=self.from + 0.1).contains(&at)
    }
}

/// A figure of a page.
struct Picture {
    svg: String,
    level: Axis,
    upright: Vec<Axis>,
}

impl Picture {
    fn of(page: &str, id: &str) -> Picture {
        let from = page.find(&format!("aria-labelledby=\"{id}-title")).expect("the figure is there");
        let svg = page[from..].split("</svg>").next().expect("it ends").to_owned();
        let attribute =
            |name: &str| svg.split(&format!("{name}=\"")).nth(1).and_then(|rest| rest.split('"').next());
        let level = Axis::parse(attribute("data-x").expect("one level axis"));
        let upright = attribute("data-y").expect("upright axes, or none").split('|');
        let upright = upright.filter(|axis| !axis.is_empty()).map(Axis::parse).collect();
        Picture { svg, level, upright }
    }

    fn points(&self, name: &str) -> Vec<(f64, f64)> {
        let path = self.svg.split(&format!("data-n=\"{name}\" d=\"")).nth(1).expect(name);
        let path = path.split('"').next().expect("it ends");
        let pair = |point: &str| -> (f64, f64) {
            let (x, y) = point.split_once(' ').expect("two numbers");
            (x.parse().expect("a number"), y.parse().expect("a number"))
        };
        path.split(['M', 'L']).skip(1).map(pair).collect()
    }

    /// The value of the line of that name above a value of the level axis.
    fn read(&self, name: &str, at: f64) -> f64 {
        let x = self.level.at(at);
        let points = self.points(name);
        let right = points.iter().position(|point| point.0 >= x - 0.05).expect("the line goes so far");
        let (left, right) = (points[right.saturating_sub(1)], points[right]);
        let share = if right.0 > left.0 { (x - left.0) / (right.0 - left.0) } else { 1.0 };
        let y = left.1 + share * (right.1 - left.1);
        self.upright.iter().find(|axis| axis.holds(y)).expect("it lies in a frame").value(y)
    }
}

#[track_caller]
fn near(got: f64, want: f64) {
    assert!((got / want - 1.0).abs() < TOLERANCE, "{got} for {want}");
}

fn value(run: &Run, metric: Metric) -> f64 {
    metric.of(run, &Figures::of(run)).expect("enough requests")
}

fn at_level(saved: &Saved, arm: &str, level: f64) -> Vec<Run> {
    let is_there = |run: &&Run| run.head.arm == arm && run.head.level.as_ref().is_none_or(|it| it.1 == level);
    saved.runs.iter().filter(is_there).cloned().collect()
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let values: Vec<f64> = values.collect();
    values.iter().sum::<f64>() / values.len() as f64
}

#[test]
fn percentiles_lie_where_they_are() {
    let saved = made_up::single(1);
    let picture = Picture::of(&page(&saved), "percentiles");
    for (metric, quantile) in
        [(Metric::P50, 0.5), (Metric::P90, 0.9), (Metric::P99, 0.99), (Metric::P999, 0.999)]
    {
        near(picture.read("response", quantile), value(&saved.runs[0], metric));
    }
    let service = Figures::of(&saved.runs[0]).total.service.value_at_quantile(0.99);
    near(picture.read("service", 0.99), service as f64);
}

#[test]
fn round_trips_lie_over_their_connections() {
    let saved = made_up::sweep(3);
    let picture = Picture::of(&page(&saved), "connections");
    for (arm, name) in [("a", "one thread"), ("b", "lanes")] {
        for level in [10.0, 50.0, 100.0] {
            let runs = at_level(&saved, arm, level);
            near(
                picture.read(&format!("{name}, mean"), level),
                mean(runs.iter().map(|run| value(run, Metric::Mean))),
            );
            let little = mean(runs.iter().map(|run| level / value(run, Metric::Throughput) * 1e9));
            near(picture.read(&format!("{name}, connections ÷ throughput"), level), little);
        }
    }
}

#[test]
fn a_load_curve_has_its_percentiles() {
    let saved = made_up::search(4);
    let picture = Picture::of(&page(&saved), "load-curve");
    for rate in [10_000.0, 40_000.0, 160_000.0] {
        let runs = at_level(&saved, "", rate);
        for (name, metric) in [("p50", Metric::P50), ("p99", Metric::P99), ("p99.9", Metric::P999)] {
            near(picture.read(name, rate), mean(runs.iter().map(|run| value(run, metric))));
        }
    }
}

#[test]
fn sizes_have_the_means_of_each_operation() {
    let saved = made_up::sizes(5);
    let picture = Picture::of(&page(&saved), "sizes");
    for size in [128.0, 1024.0, 16_384.0] {
        let runs = at_level(&saved, "", size);
        for (operation, share) in Figures::of(&runs[0]).operations {
            near(picture.read(&operation.to_string(), size), share.response.mean());
        }
    }
}

#[test]
fn seconds_lie_in_their_order() {
    let saved = made_up::single(1);
    let picture = Picture::of(&page(&saved), "strips");
    let figures = Figures::of(&saved.runs[0]);
    for (second, of) in (2..).zip(&figures.seconds) {
        near(picture.read("mean", f64::from(second)), of.mean_ns.expect("replies"));
    }
}

#[test]
fn the_chance_of_many_servers_is_drawn_and_its_same_second() {
    let saved = made_up::single(1);
    let picture = Picture::of(&page(&saved), "fanout");
    let figures = Figures::of(&saved.runs[0]);
    let deadline_ns = figures.total.response.value_at_quantile(0.999);
    let all = Answers::within(&figures.total.response, deadline_ns);
    let seconds: Vec<Answers> = saved.runs[0]
        .seconds
        .iter()
        .skip(2)
        .map(|saved| Answers::within(&saved.second.response(), deadline_ns))
        .collect();
    for servers in [10, 100, 1_000] {
        near(picture.read("independent", servers as f64), all_in_time(all.late_share(), servers));
        let same = all_in_time_same_second(&seconds, servers).expect("seconds");
        near(picture.read("same second", servers as f64), same);
    }
}

/// Marks of a figure: place, and what pointing at them says.
fn marks(svg: &str) -> Vec<((f64, f64), String)> {
    let circles = svg.split("<circle class=\"mark").skip(1);
    let number = |text: &str, name: &str| -> f64 {
        let text = text.split(&format!("{name}=\"")).nth(1).and_then(|rest| rest.split('"').next());
        text.expect(name).parse().expect("a number")
    };
    let told = |text: &str| text.split("<title>").nth(1)?.split("</title>").next().map(str::to_owned);
    circles.map(|text| ((number(text, "cx"), number(text, "cy")), told(text).expect("a title"))).collect()
}

#[test]
fn dots_of_pairs_lie_at_their_change() {
    let saved = made_up::compare(2, 10, 0.7);
    let picture = Picture::of(&page(&saved), "paired");
    let dots = marks(&picture.svg);
    let of = |arm: &str, pair: u32| -> f64 {
        let run = saved.runs.iter().find(|run| run.head.arm == arm && run.head.pair == Some(pair));
        value(run.expect("both halves"), Metric::P99)
    };
    for (pair, (place, told)) in (0..10).zip(&dots) {
        let change = of("b", pair) / of("a", pair) - 1.0;
        assert!((picture.level.value(place.0) - change).abs() < 0.005, "{change} {told}");
        assert!(told.starts_with(&format!("pair {}: ", pair + 1)) && told.ends_with(" %"), "{told}");
    }
}

#[test]
fn runs_lie_in_their_order_at_their_minute() {
    let saved = made_up::compare(2, 10, 0.7);
    let picture = Picture::of(&page(&saved), "order");
    let dots = marks(&picture.svg);
    let of_a: Vec<&Run> = saved.runs.iter().filter(|run| run.head.arm == "a").collect();
    assert_eq!(dots.len(), of_a.len(), "B's are triangles");
    for (run, (place, told)) in of_a.iter().zip(&dots) {
        // A run every half a minute.
        assert!((picture.level.value(place.0) - f64::from(run.head.run) / 2.0).abs() < 0.02, "{told}");
        near(picture.upright[0].value(place.1), value(run, Metric::P99));
        assert!(told.starts_with(&format!("run {}: ", run.head.run)), "{told}");
    }
}

#[test]
fn ink_is_darkest_where_most_responses_are() {
    let saved = made_up::single(1);
    let picture = Picture::of(&page(&saved), "heat");
    let cells = |shade: usize| -> Vec<(f64, f64, f64, f64)> {
        let path = picture.svg.split(&format!("class=\"ink ink{shade} a\" d=\"")).nth(1).unwrap_or_default();
        let cells = path.split('"').next().unwrap_or_default().split('M').skip(1);
        let numbers = cells.map(|cell| -> Vec<f64> {
            cell.split([' ', 'h', 'v']).take(4).map(|word| word.parse().expect("a number")).collect()
        });
        numbers.map(|it| (it[0], it[1], it[2], it[3])).collect()
    };
    let shade_at = |x: f64, y: f64| {
        let inside = |cell: &(f64, f64, f64, f64)| {
            (cell.0..cell.0 + cell.2).contains(&x) && (cell.1..cell.1 + cell.3).contains(&y)
        };
        (1..=6).find(|shade| cells(*shade).iter().any(inside)).unwrap_or(0)
    };
    for saved in saved.runs[0].seconds.iter().skip(2) {
        let response = saved.second.response();
        let at = |quantile| {
            let ns = response.value_at_quantile(quantile) as f64;
            shade_at(picture.level.at(f64::from(saved.second.number) + 0.5), picture.upright[0].at(ns))
        };
        let (usual, rare) = (at(0.5), at(1.0 - 1e-9));
        assert!(usual >= 5 && (1..=3).contains(&rare), "{usual} {rare} in second {}", saved.second.number);
    }
}

/// Errors and replies that never came are late, whatever their time.
#[test]
fn what_failed_is_late_for_every_deadline() {
    let mut saved = made_up::single(1);
    let late = |saved: &Saved| -> Vec<f64> {
        let page = page(saved);
        let data = page.split("<script type=\"application/json\">").nth(1).expect("numbers");
        let data = data.split("</script>").next().expect("an end");
        let data: serde_json::Value = serde_json::from_str(data).expect("JSON");
        serde_json::from_value(data["arms"][0]["late"].clone()).expect("numbers")
    };
    let before = late(&saved);
    saved.runs[0].seconds[5].second.operations[0].errors = 600;
    saved.runs[0].end.as_mut().expect("it ended").unanswered = 1_000;
    // 28 seconds of 40,000 count.
    let count = 28.0 * 40_000.0;
    let (low, high) = (1_600.0 / (count + 1_000.0), 1_700.0 / count);
    for (before, after) in before.iter().zip(late(&saved)).filter(|(before, _)| **before < 0.5) {
        let grown = after - before;
        assert!((low * 0.7..high).contains(&grown), "{before} {after}");
    }
}

#[test]
fn the_knee_is_the_last_rate_that_was_kept_in_time() {
    let page = page(&made_up::search(4));
    assert!(
        page.contains("Up to 40,000 requests/s the rate is kept and the p99 stays within three times"),
        "{page}"
    );
}

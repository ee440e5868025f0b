//! Pictures as text: axes, lines and marks in SVG, without fonts, scripts or colours of their own.
//!
//! A drawing is [`WIDTH`] units wide and scaled to the page. Colours, strokes and the size of letters come from the page's
//! style by class, so that one picture serves light, dark, paper and a telephone: there letters are drawn about twice as
//! large in these units, and every second value of a crowded axis (`minor`) is left out.
//!
//! A drawing says where its axes lie (`data-x`, `data-y`) and what its lines are called (`data-n`), so that the page's script can
//! say the values below a pointer. Nothing depends on that script.

use std::fmt::Write;

use crate::number;

/// Units from the left edge to the right.
pub(crate) const WIDTH: f64 = 720.0;
/// Where a frame begins and ends, from left to right.
pub(crate) const LEFT: f64 = 88.0;
/// See [`LEFT`].
pub(crate) const RIGHT: f64 = 704.0;
/// Room under a frame for the values of its lower axis.
pub(crate) const FOOT: f64 = 54.0;
/// Values under a frame that fit beside one another on a telephone.
const CROWDED_COUNT: usize = 5;
/// Points of one line.
pub(crate) const POINTS_MAX: usize = 400;
/// The nines at which a quantile is all: 1 − 10⁻⁹ of the requests.
const NINES_MAX: f64 = 9.0;

/// How values lie on an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scale {
    /// Equal distances are equal differences.
    Linear,
    /// Equal distances are equal factors.
    Log,
    /// Values are quantiles: 0.9, 0.99 and 0.999 are equally far apart.
    Nines,
}

/// What values are, and so how ticks are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    /// Nanoseconds.
    Time,
    /// Seconds since the beginning, and plain numbers.
    Plain,
    /// Bytes.
    Size,
    /// Quantiles, written as percentiles.
    Quantile,
    /// Shares.
    Percent,
    /// Shares that have a sign.
    Change,
}

impl Unit {
    fn shown(self, value: f64) -> String {
        match self {
            Unit::Time => number::short_time(value),
            Unit::Plain => number::short(value),
            Unit::Size if value >= 1024.0 => format!("{} KiB", number::short(value / 1024.0)),
            Unit::Size => format!("{} B", number::short(value)),
            Unit::Quantile => number::percentile(value).replace(" %", ""),
            Unit::Percent => number::percent_short(value),
            Unit::Change => number::change(value).replace(".0 %", " %"),
        }
    }
}

/// From values to units of the drawing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Axis {
    scale: Scale,
    unit: Unit,
    low: f64,
    high: f64,
    from: f64,
    to: f64,
}

impl Axis {
    /// Values between `low` and `high` lie between `from` and `to`. Ends that are no numbers, or in no order, are mended:
    /// there is always something to draw on.
    pub(crate) fn new(scale: Scale, unit: Unit, (low, high): (f64, f64), (from, to): (f64, f64)) -> Axis {
        let low = if low.is_finite() { low } else { 0.0 };
        let (low, high) = match scale {
            Scale::Linear => (low, if high > low && high.is_finite() { high } else { low + 1.0 }),
            Scale::Log => {
                let low = low.max(1e-9);
                (low, if high > low * 1.000_001 && high.is_finite() { high } else { low * 10.0 })
            }
            Scale::Nines => (low.clamp(0.0, 0.9), high.clamp(0.99, 1.0 - 1e-9)),
        };
        Axis { scale, unit, low, high, from, to }
    }

    /// Where a value lies; what is outside lies at the end, what is no number at the beginning.
    pub(crate) fn at(&self, value: f64) -> f64 {
        let (low, high) = (self.place(self.low), self.place(self.high));
        let share = (self.place(value) - low) / (high - low);
        let share = if share.is_nan() { 0.0 } else { share.clamp(0.0, 1.0) };
        self.from + share * (self.to - self.from)
    }

    /// Whether it lies inside, and not at an end because it is further out.
    pub(crate) fn holds(&self, value: f64) -> bool {
        (self.low..=self.high).contains(&value)
    }

    fn place(&self, value: f64) -> f64 {
        match self.scale {
            Scale::Linear => value,
            Scale::Log => value.max(self.low / 10.0).log10(),
            Scale::Nines => nines(value),
        }
    }

    /// For the page's script: scale, unit, the values at the ends, and where these lie.
    fn told(&self) -> String {
        let scale = match self.scale {
            Scale::Linear => "linear",
            Scale::Log => "log",
            Scale::Nines => "nines",
        };
        let unit = match self.unit {
            Unit::Time => "time",
            Unit::Plain => "plain",
            Unit::Size => "size",
            Unit::Quantile | Unit::Percent => "percent",
            Unit::Change => "change",
        };
        let (from, to) = (Short(self.from), Short(self.to));
        format!("{scale} {unit} {:e} {:e} {from} {to}", self.low, self.high)
    }

    /// Values worth a line, at most about `count` of them, with what is written there.
    pub(crate) fn ticks(&self, count: usize) -> Vec<(f64, String)> {
        let values = match self.scale {
            Scale::Linear => linear_ticks(self.low, self.high, count),
            Scale::Log if self.unit == Unit::Size => power_ticks(self.low, self.high, count),
            Scale::Log => log_ticks(self.low, self.high, count),
            Scale::Nines => [0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999, 0.999_999, 0.999_999_9]
                .into_iter()
                .filter(|quantile| (self.low..=self.high).contains(quantile))
                .collect(),
        };
        values.into_iter().map(|value| (value, self.unit.shown(value))).collect()
    }
}

/// How many nines a quantile has: 0.99 has two.
pub(crate) fn nines(quantile: f64) -> f64 {
    (-(1.0 - quantile).log10()).clamp(0.0, NINES_MAX)
}

/// The quantile of so many nines.
pub(crate) fn quantile_of_nines(nines: f64) -> f64 {
    1.0 - 10_f64.powf(-nines)
}

/// Multiples of 1, 2 or 5 times a power of ten.
fn linear_ticks(low: f64, high: f64, count: usize) -> Vec<f64> {
    let rough = (high - low) / count.max(1) as f64;
    let power = 10_f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power);
    let step = step.into_iter().find(|step| *step >= rough * 0.999).unwrap_or(power * 10.0);
    let first = (low / step).ceil();
    let within = (0..=count * 2).map(|index| (first + index as f64) * step);
    // Zero is zero: no −0 and no 1e-17.
    let within = within.map(|value| if value.abs() < step / 1e6 { 0.0 } else { value });
    within.take_while(|value| *value <= high + step / 1e6).collect()
}

/// 1, 2 and 5 of each decade, or 1 of each, or 1 of every second decade and so on, whichever fits.
fn log_ticks(low: f64, high: f64, count: usize) -> Vec<f64> {
    let (first, last) = (low.log10().floor(), high.log10().ceil());
    let decades = |step: f64, mantissas: &[f64]| -> Vec<f64> {
        let mut values = Vec::new();
        let mut decade = first;
        while decade <= last {
            values.extend(mantissas.iter().map(|mantissa| mantissa * 10_f64.powf(decade)));
            decade += step;
        }
        values.retain(|value| (low * 0.999..=high * 1.001).contains(value));
        values
    };
    let finer = [decades(1.0, &[1.0, 2.0, 5.0]), decades(1.0, &[1.0, 3.0]), decades(1.0, &[1.0])];
    match finer.into_iter().find(|values| values.len() <= count) {
        Some(values) if values.len() >= 2 => values,
        Some(_) => linear_ticks(low, high, count),
        None => decades(((last - first) / count.max(1) as f64).ceil().max(1.0), &[1.0]),
    }
}

/// Powers of two, every one, second, fourth and so on.
fn power_ticks(low: f64, high: f64, count: usize) -> Vec<f64> {
    let (first, last) = (low.log2().ceil(), high.log2().floor());
    let step = ((last - first + 1.0) / count.max(1) as f64).ceil().max(1.0);
    (0..=count)
        .map(|index| first + step * index as f64)
        .take_while(|power| *power <= last)
        .map(f64::exp2)
        .collect()
}

/// Where a text is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Anchor {
    /// By its beginning.
    Start,
    /// By its middle.
    Middle,
    /// By its end.
    End,
}

/// A picture under way.
#[derive(Debug)]
pub(crate) struct Drawing {
    height: f64,
    body: String,
    level_axes: Vec<Axis>,
    upright_axes: Vec<Axis>,
}

impl Drawing {
    pub(crate) fn new(height: f64) -> Drawing {
        Drawing { height, body: String::new(), level_axes: Vec::new(), upright_axes: Vec::new() }
    }

    fn add(&mut self, text: std::fmt::Arguments<'_>) {
        self.body.write_fmt(text).expect("a string takes all text");
    }

    pub(crate) fn line(&mut self, class: &str, (x1, y1): (f64, f64), (x2, y2): (f64, f64)) {
        let (x1, y1, x2, y2) = (Short(x1), Short(y1), Short(x2), Short(y2));
        self.add(format_args!("<path class=\"{class}\" d=\"M{x1} {y1}L{x2} {y2}\"/>\n"));
    }

    /// A bar; `told` is what pointing at it says.
    pub(crate) fn bar(&mut self, class: &str, (x, y): (f64, f64), (width, height): (f64, f64), told: &str) {
        let (x, y, width, height) = (Short(x), Short(y), Short(width.max(0.0)), Short(height.max(0.0)));
        let told = Escaped(told);
        self.add(format_args!(
            "<rect class=\"bar {class}\" x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\"><title>{told}</title></rect>\n"
        ));
    }

    pub(crate) fn rect(&mut self, class: &str, (x, y): (f64, f64), (width, height): (f64, f64)) {
        let (x, y, width, height) = (Short(x), Short(y), Short(width.max(0.0)), Short(height.max(0.0)));
        self.add(format_args!(
            "<rect class=\"{class}\" x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\"/>\n"
        ));
    }

    /// Outlines and areas in the language of SVG paths.
    pub(crate) fn path(&mut self, class: &str, path: &str) {
        if !path.is_empty() {
            self.add(format_args!("<path class=\"{class}\" d=\"{path}\"/>\n"));
        }
    }

    /// A line through points, thinned.
    pub(crate) fn curve(&mut self, class: &str, points: &[(f64, f64)]) {
        self.path(class, &outline(&thinned(points, POINTS_MAX)));
    }

    /// A line through points, thinned, whose values the page's script can say under this name.
    pub(crate) fn named_curve(&mut self, class: &str, name: &str, points: &[(f64, f64)]) {
        let (path, name) = (outline(&thinned(points, POINTS_MAX)), Escaped(name));
        if !path.is_empty() {
            self.add(format_args!("<path class=\"{class}\" data-n=\"{name}\" d=\"{path}\"/>\n"));
        }
    }

    /// The area between two lines over the same places.
    pub(crate) fn band(&mut self, class: &str, upper: &[(f64, f64)], lower: &[(f64, f64)]) {
        let around: Vec<(f64, f64)> = upper.iter().chain(lower.iter().rev()).copied().collect();
        if !upper.is_empty() {
            self.path(class, &(outline(&around) + "Z"));
        }
    }

    /// One measurement: a circle for A, a triangle for B, so that nobody needs colours. `told` is what pointing at it says.
    pub(crate) fn mark(&mut self, class: &str, is_b: bool, (x, y): (f64, f64), told: &str) {
        let (left, up) = (Short(x), Short(y));
        let told = Escaped(told);
        if is_b {
            self.add(format_args!(
                "<path class=\"mark {class}\" d=\"M{left} {up}m-5 4l5-9l5 9z\"><title>{told}</title></path>\n"
            ));
        } else {
            self.add(format_args!(
                "<circle class=\"mark {class}\" cx=\"{left}\" cy=\"{up}\" r=\"4\"><title>{told}</title></circle>\n"
            ));
        }
    }

    pub(crate) fn text(&mut self, class: &str, (x, y): (f64, f64), anchor: Anchor, text: &str) {
        let (x, y, text) = (Short(x), Short(y), Escaped(text));
        let anchor = match anchor {
            Anchor::Start => "",
            Anchor::Middle => " text-anchor=\"middle\"",
            Anchor::End => " text-anchor=\"end\"",
        };
        self.add(format_args!("<text class=\"{class}\" x=\"{x}\" y=\"{y}\"{anchor}>{text}</text>\n"));
    }

    /// An upright axis whose lines are drawn elsewhere.
    pub(crate) fn upright(&mut self, axis: &Axis) {
        self.upright_axes.push(*axis);
    }

    /// Lines of a frame's upright axis, each with its value before it, and what it shows over the topmost.
    pub(crate) fn rows(&mut self, axis: &Axis, title: &str) {
        self.upright(axis);
        for (value, label) in axis.ticks(5) {
            let y = axis.at(value);
            self.line("grid", (LEFT, y), (RIGHT, y));
            self.text("tick", (LEFT - 8.0, y + 5.0), Anchor::End, &label);
        }
        self.text("axis", (0.0, axis.to - 14.0), Anchor::Start, title);
    }

    /// Lines of a level axis whose values stand under a lower frame.
    pub(crate) fn grid(&mut self, axis: &Axis, top: f64, bottom: f64) {
        for (value, _) in axis.ticks(6) {
            let x = axis.at(value);
            self.line("grid", (x, top), (x, bottom));
        }
        self.line("base", (LEFT, bottom), (RIGHT, bottom));
    }

    /// Lines of a frame's level axis with their values below it, and what it shows under those.
    pub(crate) fn columns(&mut self, axis: &Axis, top: f64, bottom: f64, title: &str) {
        self.level_axes.push(*axis);
        let ticks = axis.ticks(6);
        let is_crowded = ticks.len() > CROWDED_COUNT;
        for (index, (value, label)) in ticks.into_iter().enumerate() {
            let x = axis.at(value);
            self.line("grid", (x, top), (x, bottom));
            let anchor = match x {
                x if x > RIGHT - 30.0 => Anchor::End,
                _ => Anchor::Middle,
            };
            let class = if is_crowded && index % 2 == 1 { "tick minor" } else { "tick" };
            self.text(class, (x, bottom + 22.0), anchor, &label);
        }
        self.line("base", (LEFT, bottom), (RIGHT, bottom));
        self.text("axis", (RIGHT, bottom + 46.0), Anchor::End, title);
    }

    /// The whole. `id` is its own on the page; `title` names it, `finding` says what it shows.
    pub(crate) fn finish(self, id: &str, title: &str, finding: &str) -> Picture {
        // Of several level axes none is everybody's.
        let axes = match &self.level_axes[..] {
            [level] => {
                let upright: Vec<String> = self.upright_axes.iter().map(Axis::told).collect();
                format!(" data-x=\"{}\" data-y=\"{}\"", level.told(), upright.join("|"))
            }
            _ => String::new(),
        };
        let [id, title, finding] = [id, title, finding].map(str::to_owned);
        Picture { id, title, finding, height: self.height, body: self.body, axes }
    }
}

/// A finished drawing.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Picture {
    id: String,
    pub(crate) title: String,
    pub(crate) finding: String,
    pub(crate) height: f64,
    /// Its elements.
    pub(crate) body: String,
    axes: String,
}

impl Picture {
    /// As an element of a page.
    pub(crate) fn element(&self) -> String {
        let Picture { id, height, body, axes, .. } = self;
        let (height, title, finding) = (Short(*height), Escaped(&self.title), Escaped(&self.finding));
        format!(
            "<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-labelledby=\"{id}-title {id}-desc\"{axes}>\n\
             <title id=\"{id}-title\">{title}</title>\n<desc id=\"{id}-desc\">{finding}</desc>\n{body}</svg>\n"
        )
    }
}

fn outline(points: &[(f64, f64)]) -> String {
    let mut path = String::new();
    for (index, &(x, y)) in points.iter().enumerate() {
        let verb = if index == 0 { 'M' } else { 'L' };
        write!(path, "{verb}{} {}", Short(x), Short(y)).expect("a string takes all text");
    }
    path
}

/// At most about `count_max` of the points, such that no peak is lost: of each stretch the lowest and the highest.
pub(crate) fn thinned(points: &[(f64, f64)], count_max: usize) -> Vec<(f64, f64)> {
    if points.len() <= count_max {
        return points.to_vec();
    }
    let stretch = points.len().div_ceil(count_max / 2);
    let mut kept = Vec::with_capacity(count_max);
    for part in points.chunks(stretch) {
        let by_height = |left: &&(f64, f64), right: &&(f64, f64)| left.1.total_cmp(&right.1);
        let (Some(&low), Some(&high)) = (part.iter().min_by(by_height), part.iter().max_by(by_height)) else {
            continue;
        };
        kept.push(if low.0 <= high.0 { low } else { high });
        if low != high {
            kept.push(if low.0 <= high.0 { high } else { low });
        }
    }
    kept
}

/// A place, to a tenth of a unit.
pub(crate) struct Short(pub(crate) f64);

impl std::fmt::Display for Short {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let value = if self.0.is_finite() { (self.0 * 10.0).round() / 10.0 } else { 0.0 };
        // Adding zero makes −0 a plain one.
        write!(f, "{}", value + 0.0)
    }
}

/// Text between tags and inside quotes.
pub(crate) struct Escaped<'a>(pub(crate) &'a str);

impl std::fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for c in self.0.chars() {
            match c {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                // Characters that no XML may hold, however they are written.
                c if c.is_control() => f.write_str("\u{fffd}")?,
                c => f.write_char(c)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(scale: Scale, unit: Unit, ends: (f64, f64), want: &[&str]) {
        let axis = Axis::new(scale, unit, ends, (0.0, 100.0));
        let ticks: Vec<String> = axis.ticks(6).into_iter().map(|(_, label)| label).collect();
        assert_eq!(ticks, want, "{scale:?} {ends:?}");
    }

    #[test]
    fn ticks_are_round() {
        check(Scale::Linear, Unit::Plain, (0.0, 30.0), &["0", "5", "10", "15", "20", "25", "30"]);
        check(Scale::Linear, Unit::Change, (-0.34, 0.1), &["−30 %", "−20 %", "−10 %", "0 %", "+10 %"]);
        check(
            Scale::Linear,
            Unit::Time,
            (0.0, 1.2e6),
            &["0", "200 µs", "400 µs", "600 µs", "800 µs", "1 ms", "1.2 ms"],
        );
        check(Scale::Log, Unit::Time, (4e4, 6e5), &["50 µs", "100 µs", "200 µs", "500 µs"]);
        check(Scale::Log, Unit::Time, (4e4, 6e6), &["100 µs", "300 µs", "1 ms", "3 ms"]);
        check(Scale::Log, Unit::Time, (1.0, 6e11), &["1 ns", "100 ns", "10 µs", "1 ms", "100 ms", "10 s"]);
        check(Scale::Log, Unit::Size, (128.0, 16_384.0), &["128 B", "512 B", "2 KiB", "8 KiB"]);
        check(Scale::Nines, Unit::Quantile, (0.0, 0.9999), &["50", "90", "99", "99.9", "99.99"]);
    }

    #[test]
    fn every_value_has_a_place_inside() {
        let odd = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.0, 0.0, 1e-300, 5.0, 1e300];
        for scale in [Scale::Linear, Scale::Log, Scale::Nines] {
            for low in odd {
                for high in odd {
                    let axis = Axis::new(scale, Unit::Plain, (low, high), (0.0, 100.0));
                    assert!(odd.iter().all(|value| (0.0..=100.0).contains(&axis.at(*value))), "{axis:?}");
                    assert!(axis.ticks(6).len() <= 13, "{axis:?}");
                }
            }
        }
    }

    #[test]
    fn nines_are_equally_far_apart() {
        let axis = Axis::new(Scale::Nines, Unit::Quantile, (0.0, 0.999), (0.0, 300.0));
        for (quantile, want) in [(0.0, 0.0), (0.9, 100.0), (0.99, 200.0), (0.999, 300.0)] {
            assert!((axis.at(quantile) - want).abs() < 1e-6, "{quantile}");
            assert!((quantile_of_nines(nines(quantile)) - quantile).abs() < 1e-9);
        }
    }

    #[test]
    fn thinning_keeps_peaks() {
        let mut points: Vec<(f64, f64)> = (0..10_007).map(|index| (f64::from(index), 5.0)).collect();
        (points[777].1, points[5_000].1, points[10_006].1) = (9.0, 1.0, 8.0);
        let kept = thinned(&points, POINTS_MAX);
        assert!(kept.len() <= POINTS_MAX);
        for index in [777, 5_000, 10_006] {
            assert!(kept.contains(&points[index]), "{index}");
        }
        assert!(kept.windows(2).all(|two| two[0].0 < two[1].0), "in order");
        assert_eq!(thinned(&points[..400], POINTS_MAX), points[..400]);
        let falling: Vec<(f64, f64)> =
            (0..5_000).map(|index| (f64::from(index), f64::from(5_000 - index))).collect();
        assert!(thinned(&falling, POINTS_MAX).windows(2).all(|two| two[0].0 < two[1].0), "falling, in order");
    }

    #[test]
    fn a_picture_says_in_words_what_it_shows() {
        let mut drawing = Drawing::new(100.0);
        let level = Axis::new(Scale::Linear, Unit::Plain, (0.0, 10.0), (LEFT, RIGHT));
        let upright = Axis::new(Scale::Linear, Unit::Time, (0.0, 1e6), (80.0, 20.0));
        drawing.curve("line a", &[(level.at(0.0), upright.at(0.0)), (level.at(10.0), upright.at(1e6))]);
        drawing.mark("b", true, (level.at(5.0), upright.at(5e5)), "5 < 6");
        let want = "<svg viewBox=\"0 0 720 100\" role=\"img\" aria-labelledby=\"x-title x-desc\">\n\
            <title id=\"x-title\">A &amp; B</title>\n<desc id=\"x-desc\">&quot;it rises&quot;</desc>\n\
            <path class=\"line a\" d=\"M88 80L704 20\"/>\n\
            <path class=\"mark b\" d=\"M396 50m-5 4l5-9l5 9z\"><title>5 &lt; 6</title></path>\n</svg>\n";
        assert_eq!(drawing.finish("x", "A & B", "\"it rises\"").element(), want);
    }
}

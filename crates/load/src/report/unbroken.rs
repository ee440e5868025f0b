//! Numbers stay with their units: no line of a page begins with a percent sign.

/// What stands behind a number and a space.
const UNITS: [&str; 11] = ["%", "ns", "µs", "ms", "s", "B", "KiB", "MiB", "GiB", "Gbit/s", "M/s"];
/// A space at which no line ends.
const NO_BREAK: char = '\u{a0}';
/// Elements whose text is taken as it is: it is copied, or it never breaks.
const KEPT: [&str; 4] = ["pre", "script", "style", "svg"];

/// A text in which the space between a number and its unit does not break.
pub(super) fn text(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut last = None;
    for (at, c) in text.char_indices() {
        let is_gap = c == ' ' && last.is_some_and(|last: char| last.is_ascii_digit());
        out.push(if is_gap && begins_with_unit(&text[at + 1..]) { NO_BREAK } else { c });
        last = Some(c);
    }
    out
}

fn begins_with_unit(rest: &str) -> bool {
    UNITS.iter().any(|unit| {
        rest.strip_prefix(unit).is_some_and(|behind| !behind.starts_with(|c: char| c.is_alphanumeric()))
    })
}

/// The same for all texts of a page, but for those that are copied from it.
pub(super) fn page(html: &str) -> String {
    let mut out = String::with_capacity(html.len() + html.len() / 64);
    let mut kept: Option<&str> = None;
    for (index, part) in html.split('<').enumerate() {
        if index == 0 {
            out.push_str(&text(part));
            continue;
        }
        out.push('<');
        let closes = |name: &str| part.strip_prefix('/').is_some_and(|rest| rest.starts_with(name));
        if kept.is_some_and(|name| !closes(name)) {
            out.push_str(part);
            continue;
        }
        let (tag, behind) = part.split_at(part.find('>').map_or(part.len(), |at| at + 1));
        let name = tag.split([' ', '>', '\n']).next().unwrap_or_default();
        kept = KEPT.into_iter().find(|kept| *kept == name);
        out.push_str(tag);
        out.push_str(&if kept.is_some() { behind.to_owned() } else { text(behind) });
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `_` stands for a space that does not break.
    #[test]
    fn a_number_keeps_its_unit() {
        let check = |given: &str, want: &str| assert_eq!(text(given), want.replace('_', "\u{a0}"), "{given}");
        check("roughness 2.2 %.", "roughness 2.2_%.");
        check("−34 % (−47 % to −22 %): 61.3 µs", "−34_% (−47_% to −22_%): 61.3_µs");
        check("30 s, 10 ms, 4 KiB at 1 Gbit/s", "30_s, 10_ms, 4_KiB at 1_Gbit/s");
        check("20 seconds of 3 runs, 5  % and a % of s", "20 seconds of 3 runs, 5  % and a % of s");
        check("9 ", "9 ");
    }

    #[test]
    fn only_what_is_read_is_bound() {
        let check = |given: &str, want: &str| assert_eq!(page(given), want.replace('_', "\u{a0}"), "{given}");
        check("<p title=\"5 %\">5 %</p> 5 s", "<p title=\"5 %\">5_%</p> 5_s");
        check(
            "<pre>--claim 'by 5 %' <b>5 %</b></pre><p>5 %</p>",
            "<pre>--claim 'by 5 %' <b>5 %</b></pre><p>5_%</p>",
        );
        check("<svg a><text>5 %</text></svg>5 %<svg></svg>", "<svg a><text>5 %</text></svg>5_%<svg></svg>");
        check("<script>if (a < 5 % b) x</script><i>5 %</i>", "<script>if (a < 5 % b) x</script><i>5_%</i>");
        check("5 %<presto>5 %", "5_%<presto>5_%");
    }
}

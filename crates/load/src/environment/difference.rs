//! Two captures side by side, and whether they let a claim stand.
//!
//! Used between A and B, between the start and the end of a run, and between runs of one side.

use serde::{Deserialize, Serialize};

use super::{Environment, Expected, Group, Item};

/// One thing on both sides.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Row {
    /// The item's group.
    pub group: String,
    /// The item's name.
    pub name: String,
    /// On the first side. None: not exposed there, or not looked for.
    pub a: Option<String>,
    /// On the second side.
    pub b: Option<String>,
    /// How the two are to be judged.
    pub kind: Kind,
}

/// How two values of one thing are to be judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// No difference was seen. Where neither side exposes the thing, none could be.
    Same,
    /// They differ, and the plan says that they may: this is what is compared.
    Declared,
    /// They differ and nobody said so. One of these withholds the claim.
    Unexplained,
    /// They differ, as values of the moment do.
    Volatile,
}

/// Lays two captures side by side: in A's order, what only B has at the end of its group.
///
/// `declared` are the factors that may differ, each a pattern as [`matches()`] takes it, for the name of an item or for its
/// group and name, as in `link eth0/queues`, `net.core.busy_*` or `sysctl/*`.
pub fn difference(a: &Environment, b: &Environment, declared: &[impl AsRef<str>]) -> Vec<Row> {
    let mut rows = Vec::new();
    for group in &a.groups {
        for item in &group.items {
            rows.push(row(&group.name, Some(item), b.item(&group.name, &item.name), declared));
        }
        rows.extend(only_in_b(a, b, &group.name, declared));
    }
    for group in &b.groups {
        if a.groups.iter().all(|known| known.name != group.name) {
            rows.extend(only_in_b(a, b, &group.name, declared));
        }
    }
    rows
}

/// What differs between the two, values of the moment among it: what is to be kept of an end beside its start.
pub fn changes(start: &Environment, end: &Environment) -> Vec<Row> {
    let mut rows = difference(start, end, &[] as &[&str]);
    rows.retain(|row| row.kind != Kind::Same);
    rows
}

/// The end, from its start and the [`changes`].
pub fn changed(start: &Environment, changes: &[Row]) -> Environment {
    let mut end = start.clone();
    for row in changes {
        let expected = if row.kind == Kind::Volatile { Expected::Volatile } else { Expected::Equal };
        let item = Item { name: row.name.clone(), value: row.b.clone(), expected };
        let index = end.groups.iter().position(|group| group.name == row.group).unwrap_or_else(|| {
            end.groups.push(Group::new(row.group.clone()));
            end.groups.len() - 1
        });
        let items = &mut end.groups[index].items;
        match items.iter_mut().find(|known| known.name == item.name) {
            Some(known) => *known = item,
            None => items.push(item),
        }
    }
    end
}

/// The rows that withhold a claim; none: the sides differ only where they should.
pub fn unexplained(rows: &[Row]) -> impl Iterator<Item = &Row> {
    rows.iter().filter(|row| row.kind == Kind::Unexplained)
}

/// The declared factors that no difference was seen in: misspelt, or the two sides are the same in what is compared.
pub fn without_effect<'a, S: AsRef<str>>(rows: &[Row], declared: &'a [S]) -> Vec<&'a str> {
    let differs = |factor: &str| {
        rows.iter().any(|row| row.kind == Kind::Declared && names(factor, &row.group, &row.name))
    };
    declared.iter().map(AsRef::as_ref).filter(|factor| !differs(factor)).collect()
}

/// Whether a pattern describes a whole text: `*` stands for any characters, `?` for one.
pub fn matches(pattern: &str, text: &str) -> bool {
    let pattern: Vec<char> = pattern.chars().collect();
    let text: Vec<char> = text.chars().collect();
    let (mut at, mut seen) = (0, 0);
    // Where the last star stood, and how much of the text it has swallowed: only that one ever needs to take more.
    let mut star = None;
    while seen < text.len() {
        match pattern.get(at) {
            Some('*') => {
                star = Some((at, seen));
                at += 1;
            }
            Some(&c) if c == '?' || c == text[seen] => {
                at += 1;
                seen += 1;
            }
            _ => {
                let Some((star_at, swallowed)) = star else { return false };
                star = Some((star_at, swallowed + 1));
                at = star_at + 1;
                seen = swallowed + 1;
            }
        }
    }
    pattern[at..].iter().all(|&c| c == '*')
}

fn only_in_b(a: &Environment, b: &Environment, group: &str, declared: &[impl AsRef<str>]) -> Vec<Row> {
    let items = b.groups.iter().filter(|known| known.name == group).flat_map(|known| &known.items);
    items
        .filter(|item| a.item(group, &item.name).is_none())
        .map(|item| row(group, None, Some(item), declared))
        .collect()
}

fn row(group: &str, a: Option<&Item>, b: Option<&Item>, declared: &[impl AsRef<str>]) -> Row {
    let name = a.or(b).map(|item| item.name.clone()).unwrap_or_default();
    let value = |item: Option<&Item>| item.and_then(|item| item.value.clone());
    let is_volatile = [a, b].into_iter().flatten().any(|item| item.expected == Expected::Volatile);
    let (a, b) = (value(a), value(b));
    let kind = if a == b {
        Kind::Same
    } else if is_volatile {
        Kind::Volatile
    } else if declared.iter().any(|factor| names(factor.as_ref(), group, &name)) {
        Kind::Declared
    } else {
        Kind::Unexplained
    };
    Row { group: group.to_owned(), name, a, b, kind }
}

fn names(factor: &str, group: &str, name: &str) -> bool {
    matches(factor, name) || matches(factor, &format!("{group}/{name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(items: &[(&str, Option<&str>)], free: &str) -> Environment {
        let mut group = Group::new("sysctl");
        for (name, value) in items {
            group.equal(*name, *value);
        }
        let mut memory = Group::new("memory");
        memory.volatile("free", Some(free));
        Environment { groups: vec![group, memory] }
    }

    fn check(
        a: &[(&str, Option<&str>)],
        b: &[(&str, Option<&str>)],
        declared: &[&str],
        want: &[(&str, Kind)],
    ) {
        let rows = difference(&environment(a, "1"), &environment(b, "2"), declared);
        let (memory, rows): (Vec<&Row>, Vec<&Row>) = rows.iter().partition(|row| row.group == "memory");
        assert_eq!(memory.iter().map(|row| row.kind).collect::<Vec<_>>(), [Kind::Volatile]);
        let got: Vec<(&str, Kind)> = rows.iter().map(|row| (row.name.as_str(), row.kind)).collect();
        assert_eq!(got, want);
    }

    #[test]
    fn a_difference_is_declared_or_unexplained() {
        use Kind::{Declared, Same, Unexplained};
        let a = [("net.core.busy_poll", Some("0")), ("vm.swappiness", Some("60")), ("x", None)];
        let b = [("net.core.busy_poll", Some("50")), ("vm.swappiness", Some("60")), ("x", None)];
        let kinds =
            |first, second, third| [("net.core.busy_poll", first), ("vm.swappiness", second), ("x", third)];
        check(&a, &a, &[], &kinds(Same, Same, Same));
        check(&a, &b, &[], &kinds(Unexplained, Same, Same));
        check(&a, &b, &["net.core.busy_*"], &kinds(Declared, Same, Same));
        check(&a, &b, &["sysctl/*"], &kinds(Declared, Same, Same));
        check(&a, &b, &["memory/*", "net.core.busy", "et.core.busy_poll"], &kinds(Unexplained, Same, Same));
    }

    #[test]
    fn what_one_side_does_not_show_is_a_difference() {
        use Kind::Unexplained;
        check(&[("x", Some("1"))], &[("x", None)], &[], &[("x", Unexplained)]);
        check(&[("x", Some("1"))], &[("y", Some("1"))], &[], &[("x", Unexplained), ("y", Unexplained)]);
    }

    #[test]
    fn a_group_that_only_b_has_is_shown_and_counts() {
        let a = environment(&[], "1");
        let mut b = a.clone();
        let mut link = Group::new("link eth1");
        link.equal("mtu", Some("9000"));
        b.groups.push(link);
        let rows = difference(&a, &b, &["mtux"]);
        assert_eq!(unexplained(&rows).map(|row| row.group.as_str()).collect::<Vec<_>>(), ["link eth1"]);
        assert_eq!(unexplained(&difference(&a, &b, &["link eth1/*"])).count(), 0);
    }

    #[test]
    fn an_end_is_its_start_and_what_changed() {
        let start = environment(&[("x", Some("1")), ("y", Some("1")), ("z", None)], "1");
        let mut end =
            environment(&[("x", Some("2")), ("y", Some("1")), ("z", Some("3")), ("w", Some("4"))], "2");
        let mut link = Group::new("link eth1");
        link.equal("mtu", Some("9000"));
        end.groups.push(link);
        let changes = changes(&start, &end);
        let names: Vec<&str> = changes.iter().map(|row| row.name.as_str()).collect();
        assert_eq!(names, ["x", "z", "w", "free", "mtu"]);
        assert_eq!(changed(&start, &changes), end);
        assert_eq!(super::changes(&start, &start), []);
        // A link that has gone is not exposed at the end.
        let back = changed(&end, &super::changes(&end, &start));
        assert_eq!(back.item("link eth1", "mtu").map(Item::shown), Some(super::super::NOT_EXPOSED));
    }

    #[test]
    fn a_factor_that_changes_nothing_is_named() {
        let (a, b) = (
            environment(&[("x", Some("1")), ("y", Some("1"))], "1"),
            environment(&[("x", Some("2")), ("y", Some("1"))], "2"),
        );
        let declared = ["x", "y", "sysctl/?", "free"];
        assert_eq!(without_effect(&difference(&a, &b, &declared), &declared), ["y", "free"]);
    }

    #[test]
    fn patterns_describe_whole_texts() {
        for (pattern, text, want) in [
            ("", "", true),
            ("*", "", true),
            ("a*c", "abbc", true),
            ("a*c", "abcb", false),
            ("*b*b", "abxb", true),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("abc", "abcd", false),
            ("*é", "caffé", true),
        ] {
            assert_eq!(matches(pattern, text), want, "{pattern} {text}");
        }
    }
}

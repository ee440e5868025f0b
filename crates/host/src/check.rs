//! What a predictable server wants of a machine, and which of it this one has: the ten ingredients of Russell Sullivan's recipe
//! ("10 ingredient recipe for 1 million TPS on $5K hardware", 2012), and the system settings of Intel's ADQ (solution briefs of
//! 2019, configuration guide 609008).
//!
//! Each is `ok`, `off` (this machine could, and doesn't), or `not here` (it can't, or it can't be told from outside; the
//! finding says which), with what it costs and the command that mends it, or, where no command does, what is to be done. Some ingredients are a server's own: of those the
//! machine shows nothing unless the server is known.

mod cards;
mod recipe;
mod system;

use serde::Serialize;

use crate::facts::{Facts, Nic};
use crate::plan::Plan;
use crate::screen::{wrap, wrap_command};

/// The sysctls that are judged, besides those of cards ([`card_sysctls`]): facts should have them.
pub const SYSCTLS: &[&str] = &["net.core.busy_poll", "vm.swappiness", "kernel.numa_balancing"];

/// The sysctls of a card that are judged.
#[must_use]
pub fn card_sysctls(nic: &str) -> [String; 2] {
    // A dot in an interface's name is a slash in a sysctl's, as sysctl(8) has it.
    ["arp_announce", "arp_ignore"].map(|name| format!("net.ipv4.conf.{}.{name}", nic.replace('.', "/")))
}

/// Whether the machine has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// It can't, or can't be told.
    NotHere,
    /// It has.
    Ok,
    /// It could, and doesn't.
    Off,
}

/// Where an item comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Origin {
    /// The recipe's ingredient of this number.
    Ingredient(u8),
    /// ADQ's system settings and preconditions.
    Adq,
}

/// One thing that is wanted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Item {
    /// Where it comes from.
    pub origin: Origin,
    /// In a few words.
    pub title: &'static str,
    /// Whether it is there.
    pub verdict: Verdict,
    /// What was found.
    pub found: String,
    /// What having it costs.
    pub cost: &'static str,
    /// Commands that mend it, as one would type them; empty where nothing is to mend, and where no command does it.
    pub mend: Vec<String>,
    /// What mends it where it takes more than a command.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advice: Option<String>,
}

/// All of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Report {
    /// The ten ingredients, then the settings.
    pub items: Vec<Item>,
}

/// What a look found: before it has a title and a price.
struct Look {
    verdict: Verdict,
    found: String,
    mend: Vec<String>,
    advice: Option<String>,
}

impl Look {
    fn ok(found: impl Into<String>) -> Look {
        Look { verdict: Verdict::Ok, found: found.into(), mend: vec![], advice: None }
    }

    fn not_here(found: impl Into<String>) -> Look {
        Look { verdict: Verdict::NotHere, ..Look::ok(found) }
    }

    /// Mended by these commands.
    fn off(found: impl Into<String>, mend: impl IntoIterator<Item = impl Into<String>>) -> Look {
        let mend = mend.into_iter().map(Into::into).collect();
        Look { verdict: Verdict::Off, mend, ..Look::ok(found) }
    }

    /// No command mends it, or not without this.
    fn advised(found: impl Into<String>, advice: impl Into<String>) -> Look {
        Look { verdict: Verdict::Off, advice: Some(advice.into()), ..Look::ok(found) }
    }

    fn item(self, origin: Origin, title: &'static str, cost: &'static str) -> Item {
        let Look { verdict, found, mend, advice } = self;
        Item { origin, title, verdict, found, cost, mend, advice }
    }
}

/// What is looked at.
struct Scene<'a> {
    facts: &'a Facts,
    /// The file's lanes on this machine.
    plan: Option<&'a Plan>,
    /// The command that applies the file, or that prints one to begin with.
    apply: String,
    /// The lanes' cards; without lanes those that are up.
    cards: Vec<&'a Nic>,
}

/// What prints a file to begin with.
const EXAMPLE: &str = "expresslane lanes example redis > lanes.toml";

/// Judges a machine, and the lanes that a file wants on it: the plan, with the file's name for the commands. Pure.
#[must_use]
pub fn check(facts: &Facts, wish: Option<(&Plan, &str)>) -> Report {
    let plan = wish.map(|(plan, _)| plan);
    let apply = match wish {
        Some((_, file)) => format!("expresslane lanes apply {}", quoted(file)),
        None => EXAMPLE.to_owned(),
    };
    let of_lanes = |nic: &&Nic| {
        plan.is_some_and(|plan| plan.lanes.iter().any(|lane| lane.nic.as_ref() == Some(&nic.name)))
    };
    let mut cards: Vec<&Nic> = facts.nics.iter().filter(of_lanes).collect();
    if cards.is_empty() {
        cards = facts.nics.iter().filter(|nic| nic.up && nic.name != "lo").collect();
    }
    let scene = Scene { facts, plan, apply, cards };
    let mut items = recipe::items(&scene);
    items.extend(system::items(&scene));
    items.extend(cards::items(&scene));
    Report { items }
}

/// As one word of a shell.
fn quoted(text: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "-_./+:@%".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', "'\\''"))
    }
}

impl Scene<'_> {
    /// The release of the kernel, its first two numbers.
    fn kernel(&self) -> Option<(u32, u32)> {
        let mut numbers = self.facts.kernel.split(|c: char| !c.is_ascii_digit());
        Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
    }

    /// Memory nodes, by their cpus.
    fn node_count(&self) -> usize {
        let nodes: std::collections::BTreeSet<u32> = self.facts.cpus.iter().map(|cpu| cpu.node).collect();
        nodes.len()
    }

    /// Looks at each card: off if it is off at one, ok if it is ok at one, else not here.
    fn each_card(&self, look: impl Fn(&Nic) -> Look) -> Look {
        if self.cards.is_empty() {
            return Look::not_here("no card is up");
        }
        let looks: Vec<(&str, Look)> = self.cards.iter().map(|nic| (nic.name.as_str(), look(nic))).collect();
        let verdict = looks.iter().map(|(_, look)| look.verdict).max().unwrap_or(Verdict::NotHere);
        // Cards of which the same is to be said share a sentence.
        let mut said: Vec<(Vec<&str>, &str)> = Vec::new();
        for (name, look) in &looks {
            match said.iter_mut().find(|(_, found)| *found == look.found) {
                Some((names, _)) => names.push(name),
                None => said.push((vec![name], &look.found)),
            }
        }
        let found: Vec<String> =
            said.iter().map(|(names, found)| format!("{}: {found}", names.join(", "))).collect();
        let found = found.join("; ");
        let once = |lines: Vec<String>| {
            let mut kept: Vec<String> = Vec::new();
            lines.into_iter().for_each(|line| {
                if !kept.contains(&line) {
                    kept.push(line)
                }
            });
            kept
        };
        let advice = once(looks.iter().filter_map(|(_, look)| look.advice.clone()).collect());
        let mend = once(looks.into_iter().flat_map(|(_, look)| look.mend).collect());
        Look { verdict, found, mend, advice: Some(advice.join("; ")).filter(|text| !text.is_empty()) }
    }
}

impl Report {
    /// Whether nothing is off.
    #[must_use]
    pub fn is_ok(&self) -> bool {
        self.items.iter().all(|item| item.verdict != Verdict::Off)
    }

    /// For a terminal of 80 columns; what a thing costs is said where it is off.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::from("The ten ingredients of the recipe\n");
        let mut is_adq = false;
        for item in &self.items {
            if item.origin == Origin::Adq && !is_adq {
                is_adq = true;
                text.push_str("\nWhat ADQ wants of the system\n");
            }
            item.print(&mut text);
        }
        let count = |verdict: Verdict| self.items.iter().filter(|item| item.verdict == verdict).count();
        let (ok, off, not_here) = (count(Verdict::Ok), count(Verdict::Off), count(Verdict::NotHere));
        text.push_str(&format!("\n{ok} ok, {off} off, {not_here} not here\n"));
        text
    }
}

/// Columns before the words of an item.
const INDENT: usize = 13;

impl Item {
    fn print(&self, to: &mut String) {
        let number = match self.origin {
            Origin::Ingredient(number) => number.to_string(),
            Origin::Adq => String::new(),
        };
        let word = match self.verdict {
            Verdict::Ok => "ok",
            Verdict::Off => "off",
            Verdict::NotHere => "not here",
        };
        wrap(
            to,
            &format!("{number:>2} {word:<INDENT$}", INDENT = INDENT - 3),
            INDENT,
            &format!("{}: {}", self.title, self.found),
        );
        if self.verdict == Verdict::Off {
            let blanks = " ".repeat(INDENT);
            wrap(to, &format!("{blanks}costs: "), INDENT + 7, self.cost);
            for line in &self.mend {
                wrap_command(to, &format!("{blanks}$ "), INDENT + 2, line);
            }
            if let Some(advice) = &self.advice {
                wrap(to, &format!("{blanks}-> "), INDENT + 3, advice);
            }
        }
    }
}

#[cfg(test)]
mod tests;

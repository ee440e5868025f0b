//! Sets of cpus (and of queues) in the kernel's two spellings: lists, `0-3,8`, and masks, `ff,00000000`.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Numbers above this are refused: no kernel is built for more cpus, and no card has more queues.
pub const NUMBER_MAX: u32 = 8191;

/// A set of small numbers, kept ascending. Its text is the kernel's list format (`cpuset(7)`): `0-3,8`, empty for none.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Cpus(BTreeSet<u32>);

impl Cpus {
    /// The numbers, ascending.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.0.iter().copied()
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The smallest.
    #[must_use]
    pub fn first(&self) -> Option<u32> {
        self.0.first().copied()
    }

    /// Whether `number` is in it.
    #[must_use]
    pub fn contains(&self, number: u32) -> bool {
        self.0.contains(&number)
    }

    /// Whether the two have a number in common.
    #[must_use]
    pub fn overlaps(&self, other: &Cpus) -> bool {
        !self.0.is_disjoint(&other.0)
    }

    /// Whether all of this is in `other`.
    #[must_use]
    pub fn is_within(&self, other: &Cpus) -> bool {
        self.0.is_subset(&other.0)
    }

    /// What both have.
    #[must_use]
    pub fn common(&self, other: &Cpus) -> Cpus {
        Cpus(&self.0 & &other.0)
    }

    /// What either has.
    #[must_use]
    pub fn with(&self, other: &Cpus) -> Cpus {
        Cpus(&self.0 | &other.0)
    }

    /// What this has and `other` has not.
    #[must_use]
    pub fn without(&self, other: &Cpus) -> Cpus {
        Cpus(&self.0 - &other.0)
    }

    /// Reads a mask as sysfs prints it: groups of 32 bits in hexadecimal, the highest first, with commas between.
    ///
    /// # Errors
    /// A sentence that names what is no hexadecimal group.
    pub fn from_mask(text: &str) -> Result<Cpus, String> {
        let mut numbers = BTreeSet::new();
        for (group, digits) in (0_u32..).zip(text.trim().rsplit(',')) {
            let word = u32::from_str_radix(digits.trim(), 16).map_err(|_| {
                format!("'{digits}' is no group of a cpu mask: up to eight hexadecimal digits")
            })?;
            numbers.extend((0..32).filter(|bit| word >> bit & 1 == 1).map(|bit| group * 32 + bit));
        }
        within_bounds(numbers)
    }

    /// The mask that [`Cpus::from_mask`] reads; `0` for none.
    #[must_use]
    pub fn to_mask(&self) -> String {
        let highest = self.0.last().map_or(0, |last| last / 32);
        let word =
            |group: u32| self.iter().filter(|n| n / 32 == group).fold(0_u32, |word, n| word | 1 << (n % 32));
        let mut text = format!("{:x}", word(highest));
        for group in (0..highest).rev() {
            text.push_str(&format!(",{:08x}", word(group)));
        }
        text
    }
}

fn within_bounds(numbers: BTreeSet<u32>) -> Result<Cpus, String> {
    match numbers.last() {
        Some(last) if *last > NUMBER_MAX => {
            Err(format!("{last} is above {NUMBER_MAX}, the highest number there can be"))
        }
        _ => Ok(Cpus(numbers)),
    }
}

impl FromIterator<u32> for Cpus {
    fn from_iter<I: IntoIterator<Item = u32>>(numbers: I) -> Cpus {
        Cpus(numbers.into_iter().collect())
    }
}

impl FromStr for Cpus {
    type Err = String;

    /// `A`, `A-B` and commas, blanks around them.
    fn from_str(text: &str) -> Result<Cpus, String> {
        let bad = |part: &str| format!("'{part}' in '{text}' is neither a number nor a range like 2-5");
        let mut numbers = BTreeSet::new();
        for part in text.trim().split(',').filter(|_| !text.trim().is_empty()) {
            let part = part.trim();
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let first: u32 = first.parse().map_err(|_| bad(part))?;
            let last: u32 = last.parse().map_err(|_| bad(part))?;
            if last < first {
                return Err(format!("'{part}' in '{text}' ends before it begins"));
            }
            if last > NUMBER_MAX {
                return Err(format!(
                    "'{part}' in '{text}' is above {NUMBER_MAX}, the highest number there can be"
                ));
            }
            numbers.extend(first..=last);
        }
        Ok(Cpus(numbers))
    }
}

impl fmt::Display for Cpus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut numbers = self.iter().peekable();
        let mut separator = "";
        while let Some(first) = numbers.next() {
            let mut last = first;
            while numbers.next_if_eq(&(last + 1)).is_some() {
                last += 1;
            }
            match last - first {
                0 => write!(f, "{separator}{first}")?,
                _ => write!(f, "{separator}{first}-{last}")?,
            }
            separator = ",";
        }
        Ok(())
    }
}

impl TryFrom<String> for Cpus {
    type Error = String;

    fn try_from(text: String) -> Result<Cpus, String> {
        text.parse()
    }
}

impl From<Cpus> for String {
    fn from(cpus: Cpus) -> String {
        cpus.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_read_and_written_as_the_kernel_does() {
        let check =
            |text: &str, want: &str| assert_eq!(text.parse::<Cpus>().unwrap().to_string(), want, "{text}");
        check("", "");
        check("\n", "");
        check("0", "0");
        check("0-3,8", "0-3,8");
        check("8, 3,2,1 ,0", "0-3,8");
        check("5,4", "4-5");
        check("0-8191", "0-8191");
    }

    #[test]
    fn what_is_no_list_is_named() {
        let check = |text: &str, want: &str| {
            let problem = text.parse::<Cpus>().unwrap_err();
            assert!(problem.contains(want), "{text}: {problem}");
        };
        check("a", "'a'");
        check("1,,2", "''");
        check("3-1", "ends before");
        check("-1", "'-1'");
        check("0-8192", "8191");
        check("0-4294967295", "8191");
    }

    #[test]
    fn a_mask_is_read_and_written_as_sysfs_does() {
        let check = |text: &str, list: &str, mask: &str| {
            let cpus = Cpus::from_mask(text).unwrap();
            assert_eq!((cpus.to_string().as_str(), cpus.to_mask().as_str()), (list, mask), "{text}");
        };
        check("0", "", "0");
        check("3\n", "0-1", "3");
        check("00000001,00000000", "32", "1,00000000");
        check("ffffffff,ffffffff,0000000f", "0-3,32-95", "ffffffff,ffffffff,0000000f");
        assert!(Cpus::from_mask("xyz").is_err());
        assert!(Cpus::from_mask(&["ffffffff"; 300].join(",")).is_err(), "more cpus than any kernel has");
    }
}

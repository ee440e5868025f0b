//! Sets of cpus as the kernel writes them, and values of many cpus as one line.

/// Cpus are numbered below this; a list that names others is not one of a kernel that exists.
const CPU_COUNT_MAX: usize = 8_192;

/// Parses a list such as `0-3,8`. Pieces that are none are left out.
pub(super) fn parse_list(text: &str) -> Vec<usize> {
    let mut cpus = Vec::new();
    for piece in text.trim().split(',') {
        let (first, last) = piece.split_once('-').unwrap_or((piece, piece));
        let (Ok(first), Ok(last)) = (first.trim().parse::<usize>(), last.trim().parse::<usize>()) else {
            continue;
        };
        if first <= last && last < CPU_COUNT_MAX {
            cpus.extend(first..=last);
        }
    }
    cpus.sort_unstable();
    cpus.dedup();
    cpus
}

/// Parses a mask such as `ff,0000000f`: words of 32 bits, the highest first. None: it is not one.
pub(super) fn parse_mask(text: &str) -> Option<Vec<usize>> {
    let mut cpus = Vec::new();
    for (index, word) in text.trim().rsplit(',').enumerate() {
        let word = u32::from_str_radix(word, 16).ok()?;
        if CPU_COUNT_MAX <= index * 32 {
            return None;
        }
        cpus.extend((0..32).filter(|bit| word >> bit & 1 == 1).map(|bit| index * 32 + bit));
    }
    Some(cpus)
}

/// Writes ascending numbers as the kernel does, `0-3,8`; `none` for none.
pub(super) fn list(numbers: &[usize]) -> String {
    if numbers.is_empty() {
        return "none".to_owned();
    }
    let mut ranges: Vec<(usize, usize)> = Vec::new();
    for &number in numbers {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => ranges.push((number, number)),
        }
    }
    let ranges: Vec<String> = ranges
        .into_iter()
        .map(|(first, last)| if first == last { first.to_string() } else { format!("{first}-{last}") })
        .collect();
    ranges.join(",")
}

/// One line for what each of many says: the value alone when all agree, else `performance (0-3), powersave (4)`.
pub(super) fn spread(values: impl IntoIterator<Item = (usize, Option<String>)>) -> Option<String> {
    let mut groups: Vec<(String, Vec<usize>)> = Vec::new();
    for (index, value) in values {
        let Some(value) = value else { continue };
        match groups.iter_mut().find(|(known, _)| *known == value) {
            Some((_, indices)) => indices.push(index),
            None => groups.push((value, vec![index])),
        }
    }
    match &mut groups[..] {
        [] => None,
        [(value, _)] => Some(std::mem::take(value)),
        groups => {
            let groups: Vec<String> =
                groups.iter().map(|(value, indices)| format!("{value} ({})", list(indices))).collect();
            Some(groups.join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_and_masks_name_the_same_cpus() {
        for (text, want) in [
            ("0-3,8\n", vec![0, 1, 2, 3, 8]),
            ("", vec![]),
            ("0-", vec![]),
            ("5,1-2,x", vec![1, 2, 5]),
            ("3-1", vec![]),
            ("0-99999999999", vec![]),
        ] {
            assert_eq!(parse_list(text), want, "{text}");
        }
        assert_eq!(parse_mask("ff,0000000f\n").map(|cpus| list(&cpus)).as_deref(), Some("0-3,32-39"));
        assert_eq!(parse_mask("0").map(|cpus| list(&cpus)).as_deref(), Some("none"));
        assert_eq!(parse_mask("0,,1"), None);
        assert_eq!(parse_mask(&"f,".repeat(300)), None);
    }

    #[test]
    fn many_that_agree_are_one_value() {
        let value = |text: &str| Some(text.to_owned());
        assert_eq!(spread([(0, value("a")), (1, None), (2, value("a"))]), value("a"));
        assert_eq!(spread([(0, value("a")), (1, value("b")), (2, value("a"))]), value("a (0,2), b (1)"));
        assert_eq!(spread([(0, None)]), None);
    }
}

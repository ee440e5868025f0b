//! Sentences on a terminal of 80 columns.

/// Columns of the narrowest terminal that people still have.
pub(crate) const COLUMNS: usize = 80;

/// Appends words, with line breaks before the last column; the first line begins with `first`, those that follow with as many
/// blanks as `indent`. A word that is longer than a line has one of its own.
pub(crate) fn wrap(to: &mut String, first: &str, indent: usize, words: &str) {
    fold(to, first, indent, words, "");
}

/// The same for a command: a line that goes on ends as a shell wants it.
pub(crate) fn wrap_command(to: &mut String, first: &str, indent: usize, words: &str) {
    fold(to, first, indent, words, " \\");
}

fn fold(to: &mut String, first: &str, indent: usize, words: &str, goes_on: &str) {
    to.push_str(first);
    let mut column = first.chars().count();
    let mut is_first = true;
    for word in words.split_whitespace() {
        let length = word.chars().count();
        if !is_first && column + 1 + length + goes_on.len() > COLUMNS {
            to.push_str(goes_on);
            to.push('\n');
            to.push_str(&" ".repeat(indent));
            column = indent;
        } else if !is_first {
            to.push(' ');
            column += 1;
        }
        to.push_str(word);
        column += length;
        is_first = false;
    }
    to.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_filled_and_never_longer() {
        let mut text = String::new();
        wrap(&mut text, "  a: ", 4, &"word ".repeat(40));
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines.iter().all(|line| line.chars().count() <= COLUMNS), "{text}");
        assert_eq!(lines[0].chars().count(), 79, "the next word would not fit: {text}");
        assert!(lines[0].starts_with("  a: word"));
        assert!(lines[1..].iter().all(|line| line.starts_with("    word")), "{text}");
        assert_eq!(text.matches("word").count(), 40);
    }

    #[test]
    fn a_word_that_just_fits_stays() {
        let mut text = String::new();
        wrap(&mut text, "", 2, &format!("{} {}", "x".repeat(40), "y".repeat(39)));
        assert_eq!(text.lines().count(), 1, "{text}");
        text.clear();
        wrap(&mut text, "", 2, &format!("{} {}", "x".repeat(40), "y".repeat(40)));
        assert_eq!(text.lines().count(), 2, "{text}");
    }

    #[test]
    fn a_command_goes_on_as_a_shell_wants_it() {
        let mut text = String::new();
        wrap_command(&mut text, "$ ", 4, &"word ".repeat(40));
        let lines: Vec<&str> = text.lines().collect();
        let (last, before) = lines.split_last().unwrap();
        assert!(before.iter().all(|line| line.ends_with(" \\") && line.chars().count() <= COLUMNS), "{text}");
        assert!(!last.ends_with('\\') && text.matches("word").count() == 40, "{text}");
    }
}

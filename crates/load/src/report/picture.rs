//! A figure as a file of its own: SVG with its own ground, colours and words, for a text that shows it far from its report.
//!
//! ```text
//!   title                          the picture's name for those who hear it, too (<title>, <desc>)
//!   what it shows
//!   what speaks against it         red, where anything does
//!   legend
//!   the drawing of the page
//!   which result it is from
//! ```
//! An <img> fetches nothing and runs no script, so neither does the file; where a reader wants the dark, it is dark.

use std::fmt::Write;

use super::answer::capital;
use super::date::date;
use super::doubts::{self, clipped};
use super::figures::{self, Figure, Key};
use super::svg::{Escaped, Picture, Short, WIDTH};
use super::unbroken;
use super::view::View;
use crate::analysis::gates::Colour;
use crate::result::{Head, Saved};

const STYLE: &str = concat!(include_str!("figures.css"), include_str!("picture.css"));
/// Room around everything.
const MARGIN: f64 = 24.0;
/// From one line of letters to the next.
const LINE: f64 = 20.0;
/// Letters of a line that fit, in the title's size and in the words'.
const TITLE_CHARS: usize = 74;
const WORDS_CHARS: usize = 98;

/// All figures of a result, each by the name of its file without folder.
pub fn files(saved: &Saved) -> Vec<(String, String)> {
    let view = View::of(saved);
    let doubt = doubt(&view);
    let file = |figure: &Figure| {
        let is_named = view.is_comparison();
        let finding = if is_named { figure.finding.clone() } else { capital(&figure.finding) };
        let mark = if view.is_quick { " (quick form)" } else { "" };
        let title = format!("{}{mark}", figure.title);
        let keys = figures::keys(&view, figure);
        let text = self::file(&saved.head, [&title, &finding], &keys, &figure.svg, doubt.as_deref());
        (format!("{}.svg", figure.id), text)
    };
    figures::all(&view).iter().map(file).collect()
}

/// What takes the evidence away, in few words; the report has the others.
fn doubt(view: &View<'_>) -> Option<String> {
    let red = doubts::all(view).into_iter().filter(|doubt| doubt.colour == Colour::Red);
    let kinds: Vec<String> = red.map(|doubt| doubt.kind).collect();
    (!kinds.is_empty()).then(|| format!("This is no evidence ({}): see the report.", kinds.join(", ")))
}

/// One picture of a result with that head: what it is called, what it shows, and the drawing.
pub(super) fn file(
    head: &Head,
    [title, finding]: [&str; 2],
    keys: &[Key],
    picture: &Picture,
    doubt: Option<&str>,
) -> String {
    let mut above = Above { y: MARGIN, text: String::new() };
    above.lines("title", title, TITLE_CHARS);
    above.lines("told", finding, WORDS_CHARS);
    doubt.into_iter().for_each(|doubt| above.lines("doubt", doubt, WORDS_CHARS));
    keys.iter().for_each(|key| above.key(key));
    let Above { y, text } = above;
    let (top, width) = (y + LINE, WIDTH + 2.0 * MARGIN);
    let below = top + picture.height + LINE;
    let (height, foot) = (Short(below + MARGIN / 2.0), Short(below));
    let version =
        if head.version.is_empty() { String::new() } else { format!(", version {}", clipped(&head.version)) };
    let source = format!("expresslane bench {}{version}, {}", clipped(&head.kind), date(head.began_unix_ms));
    let (name, finding, source) = (Escaped(title), Escaped(finding), Escaped(&source));
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" \
         role=\"img\" aria-labelledby=\"title desc\">\n\
         <title id=\"title\">{name}</title>\n<desc id=\"desc\">{finding}</desc>\n<style>\n{STYLE}</style>\n\
         <rect class=\"ground\" x=\"0.5\" y=\"0.5\" width=\"{}\" height=\"{}\" rx=\"8\"/>\n\
         {text}<g transform=\"translate({MARGIN} {})\">\n{}</g>\n\
         <text class=\"source\" x=\"{MARGIN}\" y=\"{foot}\">{source}</text>\n</svg>\n",
        width - 1.0,
        Short(below + MARGIN / 2.0 - 1.0),
        Short(top),
        picture.body,
    )
}

/// What stands above the drawing.
struct Above {
    /// Where the next line begins.
    y: f64,
    text: String,
}

impl Above {
    fn lines(&mut self, class: &str, words: &str, chars_max: usize) {
        for line in wrapped(&unbroken::text(words), chars_max) {
            self.y += LINE;
            let (y, line) = (Short(self.y - 4.0), Escaped(&line));
            self.put(format_args!("<text class=\"{class}\" x=\"{MARGIN}\" y=\"{y}\">{line}</text>\n"));
        }
    }

    fn key(&mut self, key: &Key) {
        self.y += LINE;
        let (middle, line) = (Short(self.y - 9.0), &key.line);
        self.put(format_args!("<path class=\"{line}\" d=\"M{MARGIN} {middle}h44\"/>\n"));
        let x = MARGIN + 22.0;
        if key.is_b {
            self.put(format_args!("<path class=\"mark b\" d=\"M{x} {middle}m-5 4l5-9l5 9z\"/>\n"));
        } else {
            self.put(format_args!("<circle class=\"mark a\" cx=\"{x}\" cy=\"{middle}\" r=\"4\"/>\n"));
        }
        let (x, y, name) = (MARGIN + 52.0, Short(self.y - 4.0), Escaped(&key.name));
        self.put(format_args!("<text class=\"told\" x=\"{x}\" y=\"{y}\">{name}</text>\n"));
    }

    fn put(&mut self, text: std::fmt::Arguments<'_>) {
        self.text.write_fmt(text).expect("a string takes all text");
    }
}

/// Words in lines of at most so many letters; a longer word has a line of its own.
fn wrapped(words: &str, chars_max: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    // A no-break space keeps a number and its unit together.
    for word in words.split([' ', '\n']).filter(|word| !word.is_empty()) {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= chars_max => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_as_long_as_fits() {
        let check = |words: &str, want: &[&str]| assert_eq!(wrapped(words, 10), want, "{words}");
        check("", &[]);
        check("one two", &["one two"]);
        check("one two three", &["one two", "three"]);
        check("0123456789 x", &["0123456789", "x"]);
        check("01234567 x y", &["01234567 x", "y"]);
        check("longer-than-it x", &["longer-than-it", "x"]);
        check("it is 12.5\u{a0}%", &["it is", "12.5\u{a0}%"]);
    }
}

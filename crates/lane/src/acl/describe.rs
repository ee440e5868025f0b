//! A user in rules again, as ACL LIST, ACL GETUSER and files have it.
//!
//! What it may call is a set of commands, however it was said. It is written as the categories that come nearest, and then, command
//! by command, what is left (`ACLDescribeSelectorCommandRules` of Redis' acl.c): the rules, applied, make the same set.

use wire::command::{Category, Command, all_commands};

use super::rules::{Commands, KeyPattern, Selector, User};

impl User {
    /// Makes its description; it is whole.
    pub(crate) fn settle(&mut self) {
        let mut text = self.flags().join(" ").into_bytes();
        for digest in self.passwords() {
            text.extend_from_slice(b" #");
            text.extend_from_slice(digest);
        }
        for (index, selector) in self.selectors().iter().enumerate() {
            let rules = selector.line();
            text.push(b' ');
            text.extend(if index == 0 { rules } else { [b"(", &rules[..], b")"].concat() });
        }
        self.description = text;
    }

    /// Its line in a file, and of ACL LIST.
    pub(crate) fn line(&self) -> Vec<u8> {
        [b"user ", self.name(), b" ", &self.description].concat()
    }
}

impl Selector {
    fn line(&self) -> Vec<u8> {
        let channels = self.channels_text();
        let parts = [
            self.keys_text(),
            if self.has_all_channels { Vec::new() } else { b"resetchannels".to_vec() },
            channels,
            self.commands_text(),
        ];
        parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(&b' ')
    }

    /// Its patterns of keys.
    pub(crate) fn keys_text(&self) -> Vec<u8> {
        if self.has_all_keys {
            return b"~*".to_vec();
        }
        let text = |key: &KeyPattern| {
            let front: &[u8] = match (key.reads, key.writes) {
                (true, true) => b"~",
                (true, false) => b"%R~",
                _ => b"%W~",
            };
            [front, &key.pattern].concat()
        };
        self.keys.iter().map(text).collect::<Vec<_>>().join(&b' ')
    }

    /// Its patterns of channels.
    pub(crate) fn channels_text(&self) -> Vec<u8> {
        if self.has_all_channels {
            return b"&*".to_vec();
        }
        self.channels.iter().map(|channel| [b"&", &channel[..]].concat()).collect::<Vec<_>>().join(&b' ')
    }

    /// Its rules about commands.
    pub(crate) fn commands_text(&self) -> Vec<u8> {
        let adds = !self.commands.has_later();
        let sign: &[u8] = if adds { b"+" } else { b"-" };
        let mut rules: Vec<Vec<u8>> = vec![if adds { b"-@all".to_vec() } else { b"+@all".to_vec() }];
        let mut made = Selector::new(false);
        made.apply(&rules[0]).expect("a rule of our own");
        // What is left of it to be said by categories.
        let mut left = self.clone();
        let mut unused: Vec<Category> = Category::ALL.to_vec();
        while let Some(best) = best_of(&unused, &left.commands, adds) {
            rules.push([sign, b"@", best.name().as_bytes()].concat());
            made.set_category(best, adds);
            left.set_category(best, !adds);
            unused.retain(|category| *category != best);
        }
        for command in all_commands() {
            let is_allowed = self.commands.has(command.id);
            if is_allowed != made.commands.has(command.id) {
                let sign: &[u8] = if is_allowed { b"+" } else { b"-" };
                rules.push([sign, command.name.as_bytes()].concat());
                made.set(command, is_allowed);
            }
            if !is_allowed {
                rules.extend(self.first_args_of(command));
            }
        }
        assert!(made.commands == self.commands, "what is written down is what is allowed");
        rules.join(&b' ')
    }

    fn first_args_of(&self, command: &Command) -> impl Iterator<Item = Vec<u8>> {
        let known = self.first_args.get(&command.id).into_iter().flatten();
        known.map(|first| [b"+", command.name.as_bytes(), b"|", first].concat())
    }
}

/// The category that says most of a set: with more commands that it should have than such that it should not, and as few of those as there
/// can be.
fn best_of(unused: &[Category], set: &Commands, adds: bool) -> Option<Category> {
    let mut best = None;
    for &category in unused {
        let all = Commands::in_category(category);
        let on = all.and(set).count();
        let off = all.count() - on;
        let (same, differs) = if adds { (on, off) } else { (off, on) };
        let is_better = |&(_, best_differs, best_same): &(Category, u32, u32)| {
            differs < best_differs || differs == best_differs && same > best_same
        };
        if same > differs && best.as_ref().is_none_or(is_better) {
            best = Some((category, differs, same));
        }
    }
    best.map(|(category, ..)| category)
}

//! Users and what they may do, as Redis' ACL has them. docs/acl.md has what differs.
//!
//! The control thread owns the users. It makes a new table for every change and tells each lane before it answers, so who has heard
//! the answer meets the change on every lane. A table never changes; a client keeps the number of its user and looks it up with every
//! command, so that it is never ahead of the table or behind. A number is never used again: a client whose user is gone finds nobody.
//!
//! ```text
//! ACL SETUSER ─▶ control thread: a copy of the user, rule by rule; a new table ─▶ all lanes ─▶ OK
//! a command   ─▶ its client's lane: may the user? ─▶ here, another lane, a transaction
//! ```
//! Everything is looked at on the client's lane, before it is forwarded. The default user, as long as nothing is denied to it, costs no
//! instruction of its own: a client of another user is apart (`dispatch`), and a lane on which the default user may not do everything is
//! overseen (`oversight`).
//!
//! `rules` reads what a user may do, `describe` writes it, `vetting` looks at a command; `lane` is a lane's part, and
//! `control/acl.rs` the commands.

mod describe;
mod lane;
mod rules;
mod vetting;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

pub(crate) use lane::{Change, Walk};
pub(crate) use rules::{Selector, User, Wrong, has_space, merged};
pub(crate) use vetting::{Context, Denial, Denied, Vetting, is_vetted_later, vet, vet_all};

/// Users that there may be.
const USERS_MAX: usize = 10_000;
/// Bytes that all of them may take, which is also what a file of users may have.
pub(crate) const SIZE_MAX: usize = 64 * 1024 * 1024;
/// What a table takes for a user beside the user itself.
const ENTRY_SIZE: usize = 128;

/// Which user a client has; [`UserId::DEFAULT`] when it comes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct UserId(u32);

impl UserId {
    /// The user that every client has before it says who it is.
    pub(crate) const DEFAULT: UserId = UserId(0);
}

/// All users. See the top of this file.
#[derive(Clone)]
pub struct Users {
    by_name: BTreeMap<Box<[u8]>, UserId>,
    by_id: BTreeMap<UserId, Arc<User>>,
    id_newest: UserId,
    size: usize,
}

/// Names and rules may be secrets of their own.
impl fmt::Debug for Users {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{} users", self.by_name.len())
    }
}

impl Default for Users {
    fn default() -> Users {
        let mut users = Users::none(UserId::DEFAULT);
        users.put(User::default_user());
        users
    }
}

impl Users {
    fn none(id_newest: UserId) -> Users {
        Users { by_name: BTreeMap::new(), by_id: BTreeMap::new(), id_newest, size: 0 }
    }

    /// Those of a file: a line for each, `user name rule …`. Without a line for the default user that one may do everything. All are
    /// others than these, whatever they are called, but for the default one.
    ///
    /// # Errors
    /// In Redis' words what is wrong with which lines of the file called `file`.
    pub fn read(&self, text: &[u8], file: &str, opens_channels: bool) -> Result<Users, String> {
        self.read_beside(text, file, opens_channels, User::default_user())
    }

    /// The same of a list in the settings, `name rule …` each. Without one for the default user that stays as it is here.
    ///
    /// # Errors
    /// As of [`Users::read`].
    pub fn list(&self, users: &[String], opens_channels: bool) -> Result<Users, String> {
        let lines: String = users.iter().map(|user| format!("user {}\n", user.replace('\n', " "))).collect();
        self.read_beside(lines.as_bytes(), "user", opens_channels, self.default_user().clone())
    }

    fn read_beside(
        &self,
        text: &[u8],
        file: &str,
        opens_channels: bool,
        default: User,
    ) -> Result<Users, String> {
        let mut users = Users::none(self.id_newest);
        let mut wrong = String::new();
        for (index, line) in text.split(|&byte| byte == b'\n').enumerate() {
            if let Err(text) = users.read_line(line, &format!("{file}:{}", index + 1), opens_channels) {
                wrong.push_str(&text);
            }
        }
        if wrong.is_empty() {
            if users.of(UserId::DEFAULT).is_none() {
                users.put(default);
            }
            return Ok(users);
        }
        wrong.push_str(
            "WARNING: ACL errors detected, no change to the previously active ACL rules was performed",
        );
        Err(wrong)
    }

    fn read_line(&mut self, line: &[u8], at: &str, opens_channels: bool) -> Result<(), String> {
        let line = line.trim_ascii();
        if line.is_empty() {
            return Ok(());
        }
        let words: Vec<&[u8]> = line.split(|&byte| byte == b' ').collect();
        let (Some(&b"user"), Some(&name)) = (words.first(), words.get(1)) else {
            return Err(format!("{at} should start with user keyword followed by the username. "));
        };
        let shown = String::from_utf8_lossy(name);
        if has_space(name) {
            return Err(format!("'{at}: username '{shown}' contains invalid characters. "));
        }
        if self.named(name).is_some() {
            let number = at.rsplit(':').next().unwrap_or_default();
            return Err(format!("WARNING: Duplicate user '{shown}' found on line {number}. "));
        }
        let Ok(rules) = merged(&words[2..]) else {
            return Err(format!("{at}: Unmatched parenthesis in selector definition."));
        };
        let id = if name == b"default" { UserId::DEFAULT } else { self.next_id()? };
        let mut user = User::new(id, name, opens_channels);
        let (mut wrong, mut has_erred) = (String::new(), false);
        for rule in rules {
            let rule = rule.trim_ascii();
            match user.apply(rule, opens_channels) {
                Ok(()) => {}
                // What no command is called is no secret; of other mistakes the first may be the reason of those behind it.
                Err(Wrong::Unknown) => {
                    let (rule, why) = (String::from_utf8_lossy(rule), Wrong::Unknown.text());
                    wrong.push_str(&format!("{at}: Error in applying operation '{rule}': {why}. "));
                }
                Err(_) if has_erred => {}
                Err(why) => {
                    has_erred = true;
                    wrong.push_str(&format!("{at}: {}. ", why.text()));
                }
            }
        }
        if !wrong.is_empty() {
            return Err(wrong);
        }
        user.settle();
        self.add(user).map_err(|text| format!("{at}: {text}. "))
    }

    /// The same with another password of the default user, or without one: what `requirepass` says.
    pub(crate) fn with_password(&self, password: Option<&[u8]>) -> Users {
        let mut users = self.clone();
        let default = users.of(UserId::DEFAULT).expect("there is a default user");
        let mut default = User::clone(default);
        default.set_password(password);
        default.settle();
        users.put(default);
        users
    }

    /// A user by its number: a client's.
    pub(crate) fn of(&self, id: UserId) -> Option<&Arc<User>> {
        self.by_id.get(&id)
    }

    pub(crate) fn default_user(&self) -> &User {
        self.of(UserId::DEFAULT).expect("there is a default user")
    }

    /// A user by its name.
    pub(crate) fn named(&self, name: &[u8]) -> Option<&Arc<User>> {
        self.by_name.get(name).and_then(|id| self.of(*id))
    }

    /// What a client's user is called; nothing if there is no such user any more.
    pub(crate) fn name_of(&self, id: UserId) -> &[u8] {
        self.of(id).map_or(b"", |user| user.name())
    }

    /// All of them by their names.
    pub(crate) fn all(&self) -> impl ExactSizeIterator<Item = &Arc<User>> {
        self.by_name.values().map(|id| &self.by_id[id])
    }

    /// Whether somebody who has not said who it is may begin.
    pub(crate) fn are_open(&self) -> bool {
        let default = self.default_user();
        default.takes_any_password() && default.is_on()
    }

    /// Who a name and a password are of; none if that is nobody, or one that is switched off.
    pub(crate) fn who(&self, name: &[u8], password: Option<&[u8]>) -> Option<UserId> {
        let user = self.named(name).filter(|user| user.is_on())?;
        let is_right = user.takes_any_password() || password.is_some_and(|password| user.knows(password));
        is_right.then_some(user.id())
    }

    /// A number that nobody has had.
    pub(crate) fn next_id(&mut self) -> Result<UserId, String> {
        let next = self.id_newest.0.checked_add(1).ok_or("no more users can be made until the next start")?;
        self.id_newest = UserId(next);
        Ok(self.id_newest)
    }

    /// Takes a user in, in the place of the one with its number.
    ///
    /// # Errors
    /// There are too many, or they are too large together.
    pub(crate) fn add(&mut self, user: User) -> Result<(), String> {
        let old_size = self.of(user.id()).map_or(0, |old| ENTRY_SIZE + old.size());
        if self.size - old_size + ENTRY_SIZE + user.size() > SIZE_MAX {
            return Err("all users together may take 64 MiB".to_owned());
        }
        if self.of(user.id()).is_none() && self.by_name.len() >= USERS_MAX {
            return Err(format!("there may be {USERS_MAX} users"));
        }
        self.put(user);
        Ok(())
    }

    fn put(&mut self, user: User) {
        let id = user.id();
        self.size += ENTRY_SIZE + user.size();
        self.by_name.insert(user.name().into(), id);
        if let Some(old) = self.by_id.insert(id, Arc::new(user)) {
            self.size -= ENTRY_SIZE + old.size();
        }
    }

    /// Takes a user out; false if there is none of that name.
    pub(crate) fn remove(&mut self, name: &[u8]) -> bool {
        let Some(id) = self.by_name.remove(name) else { return false };
        let user = self.by_id.remove(&id).expect("both ways lead to a user");
        self.size -= ENTRY_SIZE + user.size();
        true
    }

    /// Their lines, as a file has them.
    pub(crate) fn lines(&self) -> Vec<u8> {
        self.all().flat_map(|user| [user.line(), b"\n".to_vec()].concat()).collect()
    }
}

#[cfg(test)]
mod tests;

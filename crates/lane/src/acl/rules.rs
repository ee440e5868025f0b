//! What a user may do, and the rules that say it (`ACLSetUser`, `ACLSetSelector` of Redis' acl.c).
//!
//! A user has passwords and selectors: the first one is the user's own, others come from rules in brackets. A command is allowed if one
//! selector allows all of it: the command, its keys and its channels.

use std::collections::BTreeMap;

use wire::command::{Category, Command, Flag, Id, all_commands, lookup};

use super::UserId;

/// Of a user: selectors, the first included; passwords; patterns and first arguments of all selectors together; bytes of each of
/// those. They bound what a command of the user costs.
const SELECTORS_MAX: usize = 128;
const PASSWORDS_MAX: usize = 128;
const WORDS_MAX: usize = 1024;
const WORD_SIZE_MAX: usize = 1024;
/// What a word takes beside its bytes.
const WORD_SIZE: usize = 40;

/// Why a rule is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wrong {
    Syntax,
    /// No command or category is called so.
    Unknown,
    /// A pattern of keys when all are allowed.
    AllKeys,
    /// The same of channels.
    AllChannels,
    /// The password to be taken away is not there.
    NoPassword,
    /// That is no digest of a password.
    NoDigest,
    /// A first argument of what is a subcommand itself.
    FirstOfSubcommand,
    TooMany,
    TooLong,
}

impl Wrong {
    /// In Redis' words, where Redis has it.
    pub(crate) fn text(self) -> &'static str {
        match self {
            Wrong::Syntax => "Syntax error",
            Wrong::Unknown => "Unknown command or category name in ACL",
            Wrong::AllKeys => {
                "Adding a pattern after the * pattern (or the 'allkeys' flag) is not valid and does not have any \
                 effect. Try 'resetkeys' to start with an empty list of patterns"
            }
            Wrong::AllChannels => {
                "Adding a pattern after the * pattern (or the 'allchannels' flag) is not valid and does not have any \
                 effect. Try 'resetchannels' to start with an empty list of channels"
            }
            Wrong::NoPassword => "The password you are trying to remove from the user does not exist",
            Wrong::NoDigest => {
                "The password hash must be exactly 64 characters and contain only lowercase hexadecimal characters"
            }
            Wrong::FirstOfSubcommand => "Allowing first-arg of a subcommand is not supported",
            Wrong::TooMany => {
                "a user has at most 128 selectors, 128 passwords and 1024 patterns and first arguments"
            }
            Wrong::TooLong => "a pattern or first argument has at most 1024 bytes",
        }
    }
}

/// Whether a name or a pattern has what no line of a file could hold (`ACLStringHasSpaces`).
pub(crate) fn has_space(word: &[u8]) -> bool {
    word.iter().any(|byte| matches!(byte, 0 | b' ' | 0x09..=0x0d))
}

/// Rules with those of a selector put together, whose brackets may be in several words.
///
/// # Errors
/// The word with the bracket that is not closed.
pub(crate) fn merged<'a>(words: &[&'a [u8]]) -> Result<Vec<Vec<u8>>, &'a [u8]> {
    let mut rules: Vec<Vec<u8>> = Vec::with_capacity(words.len());
    let mut open: Option<(&[u8], Vec<u8>)> = None;
    for &word in words {
        let is_end = word.last() == Some(&b')');
        if word.first() == Some(&b'(') && !is_end {
            open = Some((word, word.to_vec()));
        } else if let Some((_, rule)) = &mut open {
            rule.push(b' ');
            rule.extend_from_slice(word);
            if is_end {
                rules.extend(open.take().map(|(_, rule)| rule));
            }
        } else {
            rules.push(word.to_vec());
        }
    }
    match open {
        Some((word, _)) => Err(word),
        None => Ok(rules),
    }
}

/// A user. See the top of this file.
#[derive(Clone)]
pub(crate) struct User {
    id: UserId,
    name: Box<[u8]>,
    is_on: bool,
    takes_any_password: bool,
    /// `sanitize-payload` or `skip-sanitize-payload`, once one of them was said.
    sanitizes: Option<bool>,
    /// Their digests.
    passwords: Vec<Box<[u8]>>,
    selectors: Vec<Selector>,
    /// [`super::describe`], made once.
    pub(super) description: Vec<u8>,
}

impl User {
    /// One who may do nothing.
    pub(crate) fn new(id: UserId, name: &[u8], opens_channels: bool) -> User {
        User {
            id,
            name: name.into(),
            is_on: false,
            takes_any_password: false,
            sanitizes: None,
            passwords: Vec::new(),
            selectors: vec![Selector::new(opens_channels)],
            description: Vec::new(),
        }
    }

    /// The default user as long as nobody says otherwise: it may do everything, without a password.
    pub(crate) fn default_user() -> User {
        let mut user = User::new(UserId::DEFAULT, b"default", true);
        for rule in [&b"+@all"[..], b"~*", b"&*", b"on", b"nopass"] {
            user.apply(rule, true).expect("rules of our own");
        }
        user.settle();
        user
    }

    pub(crate) fn id(&self) -> UserId {
        self.id
    }

    pub(crate) fn name(&self) -> &[u8] {
        &self.name
    }

    pub(crate) fn is_on(&self) -> bool {
        self.is_on
    }

    pub(crate) fn takes_any_password(&self) -> bool {
        self.takes_any_password
    }

    pub(crate) fn passwords(&self) -> &[Box<[u8]>] {
        &self.passwords
    }

    pub(crate) fn selectors(&self) -> &[Selector] {
        &self.selectors
    }

    /// Whether nothing is denied to it.
    #[inline]
    pub(crate) fn is_unrestricted(&self) -> bool {
        let is_open = |it: &Selector| it.has_all_commands && it.has_all_keys && it.has_all_channels;
        self.selectors.iter().any(is_open)
    }

    /// Whether that is one of its passwords, in a time that does not depend on which.
    pub(crate) fn knows(&self, password: &[u8]) -> bool {
        let digest = auth::digest(password);
        self.passwords.iter().fold(false, |knows, known| knows | auth::is_same(known, digest.as_bytes()))
    }

    /// The flags of ACL GETUSER, in the order of a line.
    pub(crate) fn flags(&self) -> Vec<&'static str> {
        let mut flags = vec![if self.is_on { "on" } else { "off" }];
        flags.extend(self.takes_any_password.then_some("nopass"));
        flags.extend(
            self.sanitizes.map(|does| if does { "sanitize-payload" } else { "skip-sanitize-payload" }),
        );
        flags
    }

    /// Bytes that it takes.
    pub(crate) fn size(&self) -> usize {
        let selectors: usize = self.selectors.iter().map(|it| size_of::<Selector>() + it.words_size()).sum();
        let words = self.passwords.len() * (WORD_SIZE + 64);
        size_of::<User>() + self.name.len() + words + selectors + self.description.len()
    }

    /// The patterns of channels that it may hear, if some of those are gone that it might hear when it was as `old`
    /// (`ACLKillPubsubClientsIfNeeded`): what was subscribed to has to be looked at.
    pub(crate) fn hears_less_than(&self, old: &User) -> Option<Vec<Box<[u8]>>> {
        if self.selectors.iter().any(|selector| selector.has_all_channels) {
            return None;
        }
        let patterns: Vec<Box<[u8]>> =
            self.selectors.iter().flat_map(|selector| selector.channels.iter().cloned()).collect();
        let keeps = |selector: &Selector| {
            !selector.has_all_channels && selector.channels.iter().all(|channel| patterns.contains(channel))
        };
        (!old.selectors.iter().all(keeps)).then_some(patterns)
    }

    /// What `requirepass` says of the default user.
    pub(crate) fn set_password(&mut self, password: Option<&[u8]>) {
        self.passwords.clear();
        self.takes_any_password = password.is_none();
        self.passwords.extend(password.map(|password| auth::digest(password).into_bytes().into()));
    }

    /// Changes it by a rule. `opens_channels`: a new selector begins with all channels (`acl-pubsub-default`).
    pub(crate) fn apply(&mut self, rule: &[u8], opens_channels: bool) -> Result<(), Wrong> {
        let (Some(first), Some(last)) = (rule.first(), rule.last()) else { return Ok(()) };
        match (rule.to_ascii_lowercase().as_slice(), first) {
            (b"on", _) => self.is_on = true,
            (b"off", _) => self.is_on = false,
            (b"skip-sanitize-payload", _) => self.sanitizes = Some(false),
            (b"sanitize-payload", _) => self.sanitizes = Some(true),
            (b"nopass", _) => self.set_password(None),
            (b"resetpass", _) => {
                self.passwords.clear();
                self.takes_any_password = false;
            }
            (_, b'>' | b'#') => {
                let digest = digest_of(rule)?;
                if !self.passwords.contains(&digest) {
                    self.passwords.push(digest);
                }
                self.takes_any_password = false;
            }
            (_, b'<' | b'!') => {
                let digest = digest_of(rule)?;
                let at = self.passwords.iter().position(|known| *known == digest);
                self.passwords.remove(at.ok_or(Wrong::NoPassword)?);
            }
            (_, b'(') if *last == b')' => {
                let mut selector = Selector::new(opens_channels);
                let words = rule[1..rule.len() - 1].split(u8::is_ascii_whitespace);
                for word in words.filter(|word| !word.is_empty()) {
                    selector.apply(word)?;
                }
                self.selectors.push(selector);
            }
            (b"clearselectors", _) => self.selectors.truncate(1),
            (b"reset", _) => {
                *self = User { sanitizes: Some(true), ..User::new(self.id, &self.name, opens_channels) };
            }
            _ => self.selectors[0].apply(rule)?,
        }
        let words_count: usize = self.selectors.iter().map(Selector::words_count).sum();
        let has_room = self.selectors.len() <= SELECTORS_MAX
            && self.passwords.len() <= PASSWORDS_MAX
            && words_count <= WORDS_MAX;
        if has_room { Ok(()) } else { Err(Wrong::TooMany) }
    }
}

/// What a rule about a password is about.
fn digest_of(rule: &[u8]) -> Result<Box<[u8]>, Wrong> {
    let word = &rule[1..];
    if matches!(rule[0], b'>' | b'<') {
        return Ok(auth::digest(word).into_bytes().into());
    }
    let is_digest = word.len() == 64 && word.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    if is_digest { Ok(word.into()) } else { Err(Wrong::NoDigest) }
}

/// A pattern of keys, and what may be done with them.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct KeyPattern {
    pub(super) reads: bool,
    pub(super) writes: bool,
    pub(super) pattern: Box<[u8]>,
}

/// A set of commands: a bit for each by its number, one for each category that has no command here, so that it is not forgotten, and
/// one for the commands of later versions, which `+@all` allows.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Commands([u64; Commands::WORD_COUNT]);

/// The set of each category.
static OF_CATEGORY: [Commands; Category::ALL.len()] = {
    let mut sets = [Commands::NONE; Category::ALL.len()];
    let mut at = 0;
    while at < sets.len() {
        sets[at] = Commands::of(Category::ALL[at]);
        at += 1;
    }
    sets
};

impl Commands {
    const WORD_COUNT: usize = 5;
    /// Behind all numbers that commands can have.
    const CATEGORIES_FIRST: usize = 256;
    const LATER: usize = Commands::WORD_COUNT * 64 - 1;
    pub(super) const NONE: Commands = Commands([0; Commands::WORD_COUNT]);
    const ALL: Commands = Commands([u64::MAX; Commands::WORD_COUNT]);

    const fn of(category: Category) -> Commands {
        let mut set = Commands::NONE;
        let mut index = 0;
        while index < Id::COUNT {
            let command = &wire::command::COMMANDS[index];
            if command.categories.has(category) && !command.is_of_a_dialect() {
                set.0[index / 64] |= 1 << (index % 64);
            }
            index += 1;
        }
        if set.count() == 0 {
            let index = Commands::CATEGORIES_FIRST + category as usize;
            set.0[index / 64] |= 1 << (index % 64);
        }
        set
    }

    /// What a category has here.
    pub(super) fn in_category(category: Category) -> &'static Commands {
        &OF_CATEGORY[category as usize]
    }

    pub(super) const fn count(&self) -> u32 {
        let (mut count, mut at) = (0, 0);
        while at < self.0.len() {
            count += self.0[at].count_ones();
            at += 1;
        }
        count
    }

    pub(super) fn and(&self, other: &Commands) -> Commands {
        let mut both = *self;
        both.0.iter_mut().zip(other.0).for_each(|(word, other)| *word &= other);
        both
    }

    pub(super) fn has(&self, id: Id) -> bool {
        self.has_bit(id as usize)
    }

    pub(super) fn has_later(&self) -> bool {
        self.has_bit(Commands::LATER)
    }

    fn has_bit(&self, index: usize) -> bool {
        self.0[index / 64] >> (index % 64) & 1 == 1
    }

    fn set(&mut self, index: usize, is_in: bool) {
        let bit = 1 << (index % 64);
        if is_in {
            self.0[index / 64] |= bit;
        } else {
            self.0[index / 64] &= !bit;
        }
    }
}

/// See the top of this file.
#[derive(Clone)]
pub(crate) struct Selector {
    pub(super) commands: Commands,
    /// `+@all` was said, and nothing was taken away since.
    pub(super) has_all_commands: bool,
    /// Of commands that are not allowed: with which first arguments they are.
    pub(super) first_args: BTreeMap<Id, Vec<Box<[u8]>>>,
    pub(super) has_all_keys: bool,
    pub(super) keys: Vec<KeyPattern>,
    pub(super) has_all_channels: bool,
    pub(super) channels: Vec<Box<[u8]>>,
}

impl Selector {
    pub(super) fn new(opens_channels: bool) -> Selector {
        Selector {
            commands: Commands::NONE,
            has_all_commands: false,
            first_args: BTreeMap::new(),
            has_all_keys: false,
            keys: Vec::new(),
            has_all_channels: opens_channels,
            channels: Vec::new(),
        }
    }

    pub(super) fn words_count(&self) -> usize {
        let first_args: usize = self.first_args.values().map(Vec::len).sum();
        self.keys.len() + self.channels.len() + first_args
    }

    fn words_size(&self) -> usize {
        let keys: usize = self.keys.iter().map(|key| key.pattern.len()).sum();
        let others = self.channels.iter().chain(self.first_args.values().flatten());
        keys + others.map(|word| word.len()).sum::<usize>() + self.words_count() * WORD_SIZE
    }

    pub(super) fn apply(&mut self, rule: &[u8]) -> Result<(), Wrong> {
        let second = rule.get(1);
        match (rule.to_ascii_lowercase().as_slice(), rule[0]) {
            (b"allkeys" | b"~*", _) => (self.has_all_keys, self.keys) = (true, Vec::new()),
            (b"resetkeys", _) => (self.has_all_keys, self.keys) = (false, Vec::new()),
            (b"allchannels" | b"&*", _) => (self.has_all_channels, self.channels) = (true, Vec::new()),
            (b"resetchannels", _) => (self.has_all_channels, self.channels) = (false, Vec::new()),
            (b"allcommands" | b"+@all", _) => {
                (self.commands, self.has_all_commands) = (Commands::ALL, true);
                self.first_args.clear();
            }
            (b"nocommands" | b"-@all", _) => {
                (self.commands, self.has_all_commands) = (Commands::NONE, false);
                self.first_args.clear();
            }
            (_, b'~' | b'%') => self.add_keys(rule)?,
            (_, b'&') => {
                if self.has_all_channels {
                    return Err(Wrong::AllChannels);
                }
                let pattern = word_of(&rule[1..])?;
                if !self.channels.contains(&pattern) {
                    self.channels.push(pattern);
                }
            }
            (_, b'+' | b'-') if second == Some(&b'@') => {
                let name = &rule[2..];
                let mut all = Category::ALL.iter();
                let found = all.find(|category| category.name().as_bytes().eq_ignore_ascii_case(name));
                self.set_category(*found.ok_or(Wrong::Unknown)?, rule[0] == b'+');
            }
            (_, b'+') => self.allow(&rule[1..])?,
            (_, b'-') => self.set(find(&rule[1..]).ok_or(Wrong::Unknown)?, false),
            _ => return Err(Wrong::Syntax),
        }
        Ok(())
    }

    fn add_keys(&mut self, rule: &[u8]) -> Result<(), Wrong> {
        if self.has_all_keys {
            return Err(Wrong::AllKeys);
        }
        let (mut reads, mut writes) = (rule[0] == b'~', rule[0] == b'~');
        let mut at = 1;
        if rule[0] == b'%' {
            // Without a `~` the pattern is empty, as in Redis.
            while let Some(letter) = rule.get(at) {
                at += 1;
                match letter.to_ascii_uppercase() {
                    b'R' if !reads => reads = true,
                    b'W' if !writes => writes = true,
                    b'~' => break,
                    _ => return Err(Wrong::Syntax),
                }
            }
            if !reads && !writes {
                return Err(Wrong::Syntax);
            }
        }
        let pattern = word_of(&rule[at..])?;
        match self.keys.iter_mut().find(|known| known.pattern == pattern) {
            Some(known) => {
                known.reads |= reads;
                known.writes |= writes;
            }
            None => self.keys.push(KeyPattern { reads, writes, pattern }),
        }
        Ok(())
    }

    /// `+command`, `+container|subcommand`, `+command|first-argument`.
    fn allow(&mut self, word: &[u8]) -> Result<(), Wrong> {
        let Some(bar) = word.iter().rposition(|&byte| byte == b'|') else {
            self.set(find(word).ok_or(Wrong::Unknown)?, true);
            return Ok(());
        };
        let (name, first) = (&word[..bar], &word[bar + 1..]);
        let command = find(name).ok_or(Wrong::Unknown)?;
        if command.is_subcommand() {
            return Err(Wrong::FirstOfSubcommand);
        }
        if first.is_empty() {
            return Err(Wrong::Syntax);
        }
        if command.is_container() {
            self.set(command.subcommand(first).ok_or(Wrong::Unknown)?, true);
            return Ok(());
        }
        let first = word_of(first)?;
        let known = self.first_args.entry(command.id).or_default();
        if !known.iter().any(|other| other.eq_ignore_ascii_case(&first)) {
            known.push(first);
        }
        Ok(())
    }

    /// Allows or denies a command, and with a container all that it groups (`ACLChangeSelectorPerm`).
    pub(super) fn set(&mut self, command: &Command, is_allowed: bool) {
        self.first_args.remove(&command.id);
        for command in std::iter::once(command).chain(command.subcommands()) {
            self.commands.set(command.id as usize, is_allowed);
        }
        self.has_all_commands &= is_allowed;
    }

    pub(super) fn set_category(&mut self, category: Category, is_allowed: bool) {
        for command in all_commands().filter(|command| command.categories.has(category)) {
            self.set(command, is_allowed);
        }
        let empty = Commands::CATEGORIES_FIRST + category as usize;
        if Commands::in_category(category).has_bit(empty) {
            self.commands.set(empty, is_allowed);
            self.has_all_commands &= is_allowed;
        }
    }

    /// Whether it allows a command, whose words behind its name begin with `first`, whatever its keys and channels are.
    pub(super) fn allows(&self, command: &Command, first: Option<&[u8]>) -> bool {
        if self.has_all_commands || command.flags.has(Flag::NoAuth) || self.commands.has(command.id) {
            return true;
        }
        let known = self.first_args.get(&command.id);
        let fits =
            |known: &Vec<Box<[u8]>>, first: &[u8]| known.iter().any(|it| it.eq_ignore_ascii_case(first));
        known.zip(first).is_some_and(|(known, first)| fits(known, first))
    }
}

/// A command, or a subcommand behind its container and a bar.
fn find(name: &[u8]) -> Option<&'static Command> {
    match name.iter().position(|&byte| byte == b'|') {
        None => lookup(name),
        Some(bar) => lookup(&name[..bar])?.subcommand(&name[bar + 1..]),
    }
}

fn word_of(word: &[u8]) -> Result<Box<[u8]>, Wrong> {
    match () {
        () if has_space(word) => Err(Wrong::Syntax),
        () if word.len() > WORD_SIZE_MAX => Err(Wrong::TooLong),
        () => Ok(word.into()),
    }
}

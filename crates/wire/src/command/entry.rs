//! What an entry of the table says, and the form in which the group files write it.

use super::keys::{KeyPositions, KeySpec, Range, Unknown, legacy_range};
use crate::resp::Args;

use super::id::Id;

/// One command or subcommand.
#[derive(Clone, Copy, Debug)]
pub struct Command {
    /// Its index in [`super::COMMANDS`].
    pub id: Id,
    /// Lower case; a subcommand's is `container|subcommand`.
    pub name: &'static str,
    /// Exact number of arguments with the name (of a subcommand: with both names), or minus the least number.
    pub arity: i8,
    /// Properties that clients know of.
    pub flags: Set<Flag>,
    /// Categories of access control, those that follow from flags included.
    pub categories: Set<Category>,
    /// Which arguments are keys.
    pub key_specs: &'static [KeySpec],
    /// The same in the old form: first key, last key, step.
    pub keys: Range,
    /// Which lanes take part.
    pub scope: Scope,
    /// How much it can cost.
    pub work: Work,
    /// Hints for proxies and smart clients, in the words of COMMAND INFO.
    pub tips: &'static [&'static str],
    /// Chapter of the documentation.
    pub group: Group,
    /// What people are told of it.
    pub docs: &'static Docs,
}

/// What people are told of a command.
#[derive(Clone, Copy, Debug)]
pub struct Docs {
    /// First version of Redis that has it.
    pub since: &'static str,
    /// None, or the version from which on something is better, and what.
    pub deprecated: &'static [(&'static str, &'static str)],
    /// Growth of its cost, in words.
    pub complexity: &'static str,
    /// What it does, in a sentence.
    pub summary: &'static str,
    /// Its arguments, as [`super::syntax`] reads them.
    pub syntax: &'static str,
    /// Versions and what changed with them, oldest first. An argument between backquotes came with that version.
    pub history: &'static [(&'static str, &'static str)],
}

/// Whose data a command touches, and so which lanes take part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// None: the connection's own state, or what every lane knows.
    Connection,
    /// One key, the argument at `keys.first`: its owner executes, direct or forwarded.
    Key,
    /// Several keys, maybe on several lanes.
    Keys(Combine),
    /// Those of a script: as many as it says, maybe on several lanes, and others that only the script knows.
    Script,
    /// No key: channels, whose messages each lane hands to its own clients.
    Pubsub,
    /// One partition, named by a cursor or a slot.
    Partition,
    /// Every lane.
    AllLanes(Combine),
    /// The control thread: configuration, statistics, logs, other clients.
    Control,
}

/// How the answers of the lanes that took part become one reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Combine {
    /// `OK` when all say so, otherwise the first error.
    AllOk,
    /// Integers are added.
    Sum,
    /// Arrays with one element per key, put back into the order of the request.
    InKeyOrder,
    /// Arrays are appended, in no order.
    Concat,
    /// One answer of those that have one, drawn in proportion to the lanes' numbers of keys.
    Any,
    /// All say the same, whose words become the reply.
    Unanimous,
    /// The client's lane decides from what the others say and tells them what to change.
    Coordinator,
}

/// How much one call can cost, in a turn's work units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Ends in its first step, whatever the data: it names few keys, copies short values and passes long ones by
    /// reference.
    Constant,
    /// Grows with data or arguments: runs in slices, other keys are served in between.
    Sliced,
    /// Grows and cannot be cut, for this reason.
    Unbounded(&'static str),
}

/// A set of an enum's members, for enums of at most 32.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Set<T> {
    bits: u32,
    of: std::marker::PhantomData<T>,
}

macro_rules! members {
    ($(#[$doc:meta])* $Name:ident { $($Member:ident = $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $Name {
            $(#[doc = concat!("`", $text, "`")] $Member,)*
        }

        impl $Name {
            /// All members, in the order in which Redis lists them.
            pub const ALL: &'static [$Name] = &[$($Name::$Member,)*];

            /// The member's name in COMMAND INFO.
            pub const fn name(self) -> &'static str {
                match self {
                    $($Name::$Member => $text,)*
                }
            }
        }

        impl Set<$Name> {
            /// No member.
            pub const NONE: Set<$Name> = Set { bits: 0, of: std::marker::PhantomData };

            /// This set and one more member.
            pub const fn with(self, member: $Name) -> Set<$Name> {
                Set { bits: self.bits | 1 << member as u32, ..self }
            }

            /// Is it a member?
            #[inline]
            pub const fn has(self, member: $Name) -> bool {
                self.bits & 1 << member as u32 != 0
            }

            /// The members in the order in which Redis lists them.
            pub fn iter(self) -> impl Iterator<Item = $Name> {
                $Name::ALL.iter().copied().filter(move |member| self.has(*member))
            }

            /// Number of members.
            pub const fn len(self) -> u32 {
                self.bits.count_ones()
            }

            /// Without members?
            pub const fn is_empty(self) -> bool {
                self.bits == 0
            }
        }
    };
}

members! {
    /// A property of a command that clients know of.
    Flag {
        Write = "write",
        Readonly = "readonly",
        Denyoom = "denyoom",
        Admin = "admin",
        Pubsub = "pubsub",
        Noscript = "noscript",
        Blocking = "blocking",
        Loading = "loading",
        Stale = "stale",
        SkipMonitor = "skip_monitor",
        SkipSlowlog = "skip_slowlog",
        Asking = "asking",
        Fast = "fast",
        NoAuth = "no_auth",
        NoMandatoryKeys = "no_mandatory_keys",
        NoAsyncLoading = "no_async_loading",
        NoMulti = "no_multi",
        AllowBusy = "allow_busy",
        MovableKeys = "movablekeys",
    }
}

members! {
    /// A category of access control. COMMAND INFO writes an `@` before it.
    Category {
        Keyspace = "keyspace",
        Read = "read",
        Write = "write",
        Set = "set",
        SortedSet = "sortedset",
        List = "list",
        Hash = "hash",
        String = "string",
        Bitmap = "bitmap",
        Hyperloglog = "hyperloglog",
        Geo = "geo",
        Stream = "stream",
        Pubsub = "pubsub",
        Admin = "admin",
        Fast = "fast",
        Slow = "slow",
        Blocking = "blocking",
        Dangerous = "dangerous",
        Connection = "connection",
        Transaction = "transaction",
        Scripting = "scripting",
    }
}

members! {
    /// A chapter of the documentation.
    Group {
        Connection = "connection",
        String = "string",
        Bitmap = "bitmap",
        Generic = "generic",
        Transactions = "transactions",
        Server = "server",
        Cluster = "cluster",
        Scripting = "scripting",
        Pubsub = "pubsub",
        Document = "document",
        Page = "page",
        Record = "record",
    }
}

/// Entries are the same when their ids are.
impl PartialEq for Command {
    fn eq(&self, other: &Command) -> bool {
        self.id == other.id
    }
}

impl Eq for Command {}

impl Command {
    /// Is this number of arguments, names included, right?
    #[inline]
    pub const fn takes(&self, args: usize) -> bool {
        let least = self.arity.unsigned_abs() as usize;
        if self.arity >= 0 { args == least } else { args >= least }
    }

    /// Does it only group subcommands?
    #[inline]
    pub fn is_container(&self) -> bool {
        family_size(self.id) > 0
    }

    /// Does it stand behind a container?
    pub const fn is_subcommand(&self) -> bool {
        contains_bar(self.name.as_bytes())
    }

    /// Does it belong to another dialect than Redis'?
    pub const fn is_of_a_dialect(&self) -> bool {
        matches!(self.group, Group::Document | Group::Page | Group::Record)
    }

    /// The container's subcommands; empty for others.
    pub fn subcommands(&self) -> &'static [Command] {
        let first = self.id as usize + 1;
        &super::COMMANDS[first..first + family_size(self.id)]
    }

    /// The container's subcommand of this name, in any case.
    pub fn subcommand(&self, name: &[u8]) -> Option<&'static Command> {
        let prefix = self.name.len() + 1;
        self.subcommands().iter().find(|command| command.name.as_bytes()[prefix..].eq_ignore_ascii_case(name))
    }

    /// The positions of the keys in a call with these arguments. The arity is checked before.
    pub fn key_positions<'a>(&self, args: Args<'a>) -> Result<KeyPositions<'a>, Unknown> {
        match self.id {
            Id::Migrate => KeyPositions::of_migrate(args),
            _ => KeyPositions::new(self.key_specs, args),
        }
    }

    /// Does it change data?
    #[inline]
    pub const fn writes(&self) -> bool {
        self.flags.has(Flag::Write)
    }
}

/// Number of subcommands behind each entry.
static FAMILY_SIZES: [u8; Id::COUNT] = {
    let mut sizes = [0; Id::COUNT];
    let mut container = 0;
    let mut index = 0;
    while index < Id::COUNT {
        if super::COMMANDS[index].is_subcommand() {
            sizes[container] += 1;
        } else {
            container = index;
        }
        index += 1;
    }
    sizes
};

#[inline]
fn family_size(id: Id) -> usize {
    usize::from(FAMILY_SIZES[id as usize])
}

const fn contains_bar(name: &[u8]) -> bool {
    let mut index = 0;
    while index < name.len() {
        if name[index] == b'|' {
            return true;
        }
        index += 1;
    }
    false
}

/// Categories that follow from flags (`setImplicitACLCategories` of Redis).
pub(super) const fn implied(flags: Set<Flag>, mut own: Set<Category>) -> Set<Category> {
    if flags.has(Flag::Write) {
        own = own.with(Category::Write);
    }
    if flags.has(Flag::Readonly) && !own.has(Category::Scripting) {
        own = own.with(Category::Read);
    }
    if flags.has(Flag::Admin) {
        own = own.with(Category::Admin).with(Category::Dangerous);
    }
    if flags.has(Flag::Pubsub) {
        own = own.with(Category::Pubsub);
    }
    if flags.has(Flag::Blocking) {
        own = own.with(Category::Blocking);
    }
    own.with(if flags.has(Flag::Fast) { Category::Fast } else { Category::Slow })
}

/// An entry from its parts; the rest follows from them.
#[expect(clippy::too_many_arguments, reason = "called by the macro below only, which names them")]
pub(super) const fn entry(
    id: Id,
    name: &'static str,
    arity: i8,
    group: Group,
    flags: Set<Flag>,
    categories: Set<Category>,
    key_specs: &'static [KeySpec],
    scope: Scope,
    work: Work,
    tips: &'static [&'static str],
    docs: &'static Docs,
) -> Command {
    Command {
        id,
        name,
        arity,
        flags,
        categories: implied(flags, categories),
        key_specs,
        keys: legacy_range(key_specs),
        scope,
        work,
        tips,
        group,
        docs,
    }
}

/// The entries of one group:
///
/// ```text
/// Id "name" arity since "version" deprecated "version" for "what is better" [flags] [categories] [keys] scope, work, [tips]
///     "complexity" "summary"
///     "syntax"
///     [since "version" "what changed", …]
/// ```
///
/// Categories that follow from flags are left out, as are the syntax of what has no arguments ([`super::syntax`]), the history of what
/// stayed as it was, and what nothing is better than.
macro_rules! entries {
    ($Group:ident: $(
        $Id:ident $name:literal $arity:literal since $since:literal
        $(deprecated $deprecated:literal for $better:literal)?
        [$($Flag:ident)*] [$($Category:ident)*] [$($key:expr),*] $scope:expr, $Work:expr, [$($tip:literal),*]
        $complexity:literal $summary:literal
        $($syntax:literal)?
        $([$(since $version:literal $change:literal),*])?
    )*) => {
        &[$(
            $crate::command::entry::entry(
                $crate::command::Id::$Id,
                $name,
                $arity,
                $crate::command::Group::$Group,
                $crate::command::Set::<$crate::command::Flag>::NONE$(.with($crate::command::Flag::$Flag))*,
                $crate::command::Set::<$crate::command::Category>::NONE
                    $(.with($crate::command::Category::$Category))*,
                &[$($key),*],
                $scope,
                $Work,
                &[$($tip),*],
                &$crate::command::Docs {
                    since: $since,
                    deprecated: &[$(($deprecated, $better))?],
                    complexity: $complexity,
                    summary: $summary,
                    syntax: concat!($($syntax)?),
                    history: &[$($(($version, $change)),*)?],
                },
            ),
        )*]
    };
}
pub(super) use entries;

/// One table of the groups' entries. Fails to compile when an entry is not at the place that its [`Id`] names, or a
/// subcommand not behind its container.
pub(super) const fn concat(groups: &[&[Command]]) -> [Command; Id::COUNT] {
    let mut table = [groups[0][0]; Id::COUNT];
    let (mut group, mut next) = (0, 0);
    while group < groups.len() {
        let mut index = 0;
        while index < groups[group].len() {
            assert!(
                groups[group][index].id as usize == next,
                "the groups list their entries in the order of Id"
            );
            table[next] = groups[group][index];
            next += 1;
            index += 1;
        }
        group += 1;
    }
    assert!(next == Id::COUNT, "every Id has an entry");
    table
}

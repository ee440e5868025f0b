//! ACL: the users, of whom the control thread has the table. Each change makes a new one, of which every lane is told before the client
//! that asked (see `crate::acl`); and the log of what was denied.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use wire::command::{Id, Refusal};
use wire::reply::{self, OK, Proto, Put};

use super::{Begun, Control, Machine, clients};
use crate::Now;
use crate::acl::{
    Change, Denial, SIZE_MAX, Selector, User, UserId, Users, Wrong, has_space, merged, vet_all,
};
use crate::admin::{Order, Question};
use crate::commands::SYNTAX;
use crate::dispatch::resolve_name;
use crate::help;
use crate::request::{Args, Request};

/// Entries that are looked at for one like a new one, and how long one stays the same event, milliseconds.
const LOOKED_AT_MAX: usize = 10;
const SAME_EVENT_MS: i64 = 60_000;
/// Bits that ACL GENPASS gives when nobody says how many, and at most.
const GENPASS_BITS: i64 = 256;
const GENPASS_BITS_MAX: i64 = 4096;

const NO_FILE: &str = "ERR This Redis instance is not configured to use an ACL file. You may want to specify users via the ACL SETUSER \
     command and then issue a CONFIG REWRITE (assuming you have a Redis configuration file set) in order to store users in the Redis \
     configuration.";

/// What the control thread keeps beside the users, which are among the settings.
#[derive(Default)]
pub(super) struct Acl {
    log: Log,
    /// How many users the clients of these numbers have deleted, whom the lanes have not forgotten yet.
    deleted: BTreeMap<u64, usize>,
    /// Clients have changed the users: CONFIG REWRITE writes them, where there is no file for that.
    is_changed: bool,
}

/// What was denied of late, the newest first. `acllog-max-len` bounds it: the oldest are forgotten.
#[derive(Default)]
struct Log {
    entries: VecDeque<Entry>,
}

struct Entry {
    denial: Denial,
    count: i64,
    /// When it happened last, and the line of the client that it happened to.
    unix_ms: i64,
    client: String,
}

impl Log {
    fn note(&mut self, denial: Denial, client: String, unix_ms: i64, count_max: usize) {
        let is_same = |entry: &Entry| {
            entry.denial.reason == denial.reason
                && entry.denial.context == denial.context
                && (unix_ms - entry.unix_ms).abs() <= SAME_EVENT_MS
                && entry.denial.object == denial.object
                && entry.denial.user == denial.user
        };
        let known = self.entries.iter().take(LOOKED_AT_MAX).position(is_same);
        let count = known.and_then(|at| self.entries.remove(at)).map_or(0, |entry| entry.count);
        self.entries.push_front(Entry { denial, count: count + 1, unix_ms, client });
        self.entries.truncate(count_max);
    }

    /// ACL LOG [count | RESET]
    fn answer(&mut self, args: Args<'_>, proto: Proto, unix_ms: i64, out: &mut impl Put) {
        let count = match args.len() {
            2 => 10,
            3 if args.flat(2).eq_ignore_ascii_case(b"reset") => {
                self.entries.clear();
                return out.put(OK);
            }
            3 => match wire::number::parse_i64(args.flat(2)) {
                Some(count) => usize::try_from(count).unwrap_or(0),
                None => return reply::error(out, "ERR value is not an integer or out of range"),
            },
            _ => return reply::error_bytes(out, &help::unknown_shape("ACL", args)),
        };
        let shown = self.entries.len().min(count);
        reply::array(out, shown);
        for Entry { denial, count, unix_ms: at_ms, client } in self.entries.iter().take(shown) {
            reply::map(out, proto, 7);
            reply::bulk(out, b"count");
            reply::integer(out, *count);
            let words: [(&str, &[u8]); 4] = [
                ("reason", denial.reason.as_bytes()),
                ("context", denial.context.name().as_bytes()),
                ("object", &denial.object),
                ("username", &denial.user),
            ];
            for (name, value) in words {
                reply::bulk(out, name.as_bytes());
                reply::bulk(out, value);
            }
            reply::bulk(out, b"age-seconds");
            let age = std::time::Duration::from_millis(unix_ms.saturating_sub(*at_ms).unsigned_abs());
            reply::double(out, proto, age.as_secs_f64());
            reply::bulk(out, b"client-info");
            reply::bulk(out, client.as_bytes());
        }
    }
}

impl Control {
    /// A lane has denied something.
    pub(super) fn note_denial(&mut self, denial: Denial, now: Now) {
        let client = clients::line(&denial.from, &self.settings, now.mono_ns);
        let count_max = self.config.value("acllog-max-len").parse().unwrap_or(0);
        self.acl.log.note(denial, client.trim_end().to_owned(), now.unix_ms, count_max);
    }

    /// `requirepass` has changed the default user: lanes hear of that first, and then of whatever else was set.
    pub(super) fn tell_users(&mut self, old: &Users) {
        let order = self.change(old, None, false, 0);
        self.give(0..self.lane_count, &order, None);
    }

    /// What lanes are told of the users that there are now, and were before.
    fn change(
        &self,
        old: &Users,
        hears: Option<(UserId, Vec<Box<[u8]>>)>,
        removes: bool,
        asker_id: u64,
    ) -> Order {
        let users = Arc::clone(&self.settings.users);
        let opens = users.are_open() && !old.are_open();
        Order::Users(Arc::new(Change { users, removes, hears, opens, asker_id }))
    }

    fn opens_channels(&self) -> bool {
        self.config.value("acl-pubsub-default") == "allchannels"
    }

    /// ACL, but for what every lane knows.
    pub(super) fn begin_acl(
        &mut self,
        question: &Question,
        now: Now,
        machine: &mut impl Machine,
        out: &mut Vec<u8>,
    ) -> Begun {
        let args = Args::Owned(&question.request);
        let proto = question.from.proto;
        let has_file = !self.config.value("aclfile").is_empty();
        match question.command.id {
            Id::AclSetuser => match self.set_user(args, question.from.id) {
                Ok(order) => return Begun::Everywhere(order),
                Err(text) => reply::error_bytes(out, &text),
            },
            Id::AclDeluser => return self.delete_users(args, question.from.id, out),
            Id::AclLoad | Id::AclSave if !has_file => reply::error(out, NO_FILE),
            Id::AclLoad => match self.load_users(machine) {
                Ok(old) => return Begun::Everywhere(self.change(&old, None, true, question.from.id)),
                Err(text) => reply::error(out, &format!("ERR {text}")),
            },
            Id::AclSave => match machine.write_users(&self.settings.users.lines()) {
                Ok(()) => out.put(OK),
                Err(why) => {
                    machine.warn(&format!("the file of users was not written: {why}"));
                    let text = "ERR There was an error trying to save the ACLs. Please check the server logs for more information";
                    reply::error(out, text);
                }
            },
            Id::AclGetuser => match self.settings.users.named(args.flat(2)) {
                Some(user) => put_user(user, proto, out),
                None => reply::null(out, proto),
            },
            Id::AclList => {
                let users = self.settings.users.all();
                reply::array(out, users.len());
                users.for_each(|user| reply::bulk(out, &user.line()));
            }
            Id::AclUsers => {
                let users = self.settings.users.all();
                reply::array(out, users.len());
                users.for_each(|user| reply::bulk(out, user.name()));
            }
            Id::AclGenpass => generate(args, machine, out),
            Id::AclLog => self.acl.log.answer(args, proto, now.unix_ms, out),
            _ => self.try_out(args, out),
        }
        Begun::Answered
    }

    /// ACL SETUSER name rule …: all rules, or none.
    fn set_user(&mut self, args: Args<'_>, asker_id: u64) -> Result<Order, Vec<u8>> {
        let name = args.flat(2);
        if has_space(name) || args.get(2).flat().is_none() {
            return Err(b"ERR Usernames can't contain spaces or null characters".to_vec());
        }
        if (3..args.len()).any(|index| args.get(index).flat().is_none()) {
            return Err(b"ERR a rule has at most 32768 bytes".to_vec());
        }
        let words: Vec<&[u8]> = (3..args.len()).map(|index| args.flat(index)).collect();
        let rules = merged(&words).map_err(|word| {
            let front = b"ERR Unmatched parenthesis in acl selector starting at '";
            [front, reply::quoted(word), b"'."].concat()
        })?;
        let mut users = Users::clone(&self.settings.users);
        let opens_channels = self.opens_channels();
        let old = users.named(name).cloned();
        let mut user = match &old {
            Some(user) => User::clone(user),
            None => User::new(
                users.next_id().map_err(|text| format!("ERR {text}").into_bytes())?,
                name,
                opens_channels,
            ),
        };
        for rule in rules {
            user.apply(&rule, opens_channels).map_err(|wrong: Wrong| {
                let front = b"ERR Error in ACL SETUSER modifier '";
                [front, reply::quoted(&rule), b"': ", wrong.text().as_bytes()].concat()
            })?;
        }
        user.settle();
        let hears = old.and_then(|old| user.hears_less_than(&old)).map(|patterns| (user.id(), patterns));
        users.add(user).map_err(|text| format!("ERR {text}").into_bytes())?;
        let old = std::mem::replace(&mut self.settings.users, Arc::new(users));
        self.acl.is_changed = true;
        Ok(self.change(&old, hears, false, asker_id))
    }

    /// ACL DELUSER name …
    fn delete_users(&mut self, args: Args<'_>, asker_id: u64, out: &mut Vec<u8>) -> Begun {
        if (2..args.len()).any(|index| args.flat(index) == b"default") {
            reply::error(out, "ERR The 'default' user cannot be removed");
            return Begun::Answered;
        }
        let mut users = Users::clone(&self.settings.users);
        let count = (2..args.len()).filter(|&index| users.remove(args.flat(index))).count();
        if count == 0 {
            reply::integer(out, 0);
            return Begun::Answered;
        }
        self.acl.deleted.insert(asker_id, count);
        self.acl.is_changed = true;
        let old = std::mem::replace(&mut self.settings.users, Arc::new(users));
        Begun::Everywhere(self.change(&old, None, true, asker_id))
    }

    /// What CONFIG REWRITE writes of the users: none if they have a file of their own, or are as they were.
    pub(super) fn users_to_write(&self) -> Result<Option<(String, String)>, String> {
        if !self.acl.is_changed || !self.config.value("aclfile").is_empty() {
            return Ok(None);
        }
        let lines = String::from_utf8(self.settings.users.lines())
            .map_err(|_| "a rule of a user is not UTF-8, and no TOML file can hold it".to_owned())?;
        let lines: Vec<&str> = lines.lines().filter_map(|line| line.strip_prefix("user ")).collect();
        Ok(Some(("user".to_owned(), lines.join("\n"))))
    }

    /// Every lane has done its part.
    pub(super) fn conclude_acl(&mut self, question: &Question, out: &mut Vec<u8>) {
        match self.acl.deleted.remove(&question.from.id) {
            Some(count) => reply::integer(out, i64::try_from(count).expect("users are few")),
            None => out.put(OK),
        }
    }

    /// Takes the users from the file; gives those that there were.
    fn load_users(&mut self, machine: &mut impl Machine) -> Result<Arc<Users>, String> {
        let file = self.config.value("aclfile").to_owned();
        let text = machine
            .read_users()
            .and_then(|text| {
                let fits = text.len() <= SIZE_MAX;
                if fits { Ok(text) } else { Err("File too large: users may take 64 MiB".to_owned()) }
            })
            .map_err(|why| format!("Error loading ACLs, opening file '{file}': {why}"))?;
        let users = self.settings.users.read(&text, &file, self.opens_channels())?;
        Ok(std::mem::replace(&mut self.settings.users, Arc::new(users)))
    }

    /// ACL DRYRUN name command …
    fn try_out(&self, args: Args<'_>, out: &mut Vec<u8>) {
        let Some(user) = self.settings.users.named(args.flat(2)) else {
            let text = [b"ERR User '", reply::quoted(args.flat(2)), b"' not found"].concat();
            return reply::error_bytes(out, &text);
        };
        let mut call = Request::default();
        (3..args.len()).for_each(|index| call.push(args.get(index)));
        let call = Args::Owned(&call);
        match resolve_name(call.flat(0), call) {
            Ok(command) => match vet_all(user, command, call) {
                Ok(()) => out.put(OK),
                Err(denied) => reply::bulk(out, &denied.text_of_trial(command, call)),
            },
            Err(Refusal::WrongArity(command)) => {
                let name = command.name;
                reply::error(out, &format!("ERR wrong number of arguments for '{name}' command"));
            }
            Err(Refusal::TooManyOptions(_)) => reply::error(out, SYNTAX),
            Err(_) => {
                let text = [b"ERR Command '", reply::quoted(call.flat(0)), b"' not found"].concat();
                reply::error_bytes(out, &text);
            }
        }
    }
}

/// ACL GETUSER's map.
fn put_user(user: &User, proto: Proto, out: &mut Vec<u8>) {
    reply::map(out, proto, 6);
    reply::bulk(out, b"flags");
    let flags = user.flags();
    reply::set(out, proto, flags.len());
    flags.iter().for_each(|flag| reply::bulk(out, flag.as_bytes()));
    reply::bulk(out, b"passwords");
    reply::array(out, user.passwords().len());
    user.passwords().iter().for_each(|digest| reply::bulk(out, digest));
    let (own, others) = user.selectors().split_first().expect("a user has one of its own");
    put_selector(own, out);
    reply::bulk(out, b"selectors");
    reply::array(out, others.len());
    for selector in others {
        reply::map(out, proto, 3);
        put_selector(selector, out);
    }
}

fn put_selector(selector: &Selector, out: &mut Vec<u8>) {
    let parts = [
        ("commands", selector.commands_text()),
        ("keys", selector.keys_text()),
        ("channels", selector.channels_text()),
    ];
    for (name, text) in parts {
        reply::bulk(out, name.as_bytes());
        reply::bulk(out, &text);
    }
}

/// `ACL GENPASS [bits]`
fn generate(args: Args<'_>, machine: &mut impl Machine, out: &mut Vec<u8>) {
    let bits = match args.len() {
        2 => GENPASS_BITS,
        3 => match wire::number::parse_i64(args.flat(2)) {
            Some(bits) => bits,
            None => return reply::error(out, "ERR value is not an integer or out of range"),
        },
        _ => return reply::error_bytes(out, &help::unknown_shape("ACL", args)),
    };
    if !(1..=GENPASS_BITS_MAX).contains(&bits) {
        return reply::error(
            out,
            &format!(
                "ERR ACL GENPASS argument must be the number of bits for the output password, a positive number up to \
                 {GENPASS_BITS_MAX}"
            ),
        );
    }
    let digit_count = usize::try_from(bits).expect("at most 4096").div_ceil(4);
    let mut bytes = vec![0; digit_count.div_ceil(2)];
    if let Err(why) = machine.draw(&mut bytes) {
        return reply::error(out, &format!("ERR {why}"));
    }
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    reply::bulk(out, &digits.as_bytes()[..digit_count]);
}

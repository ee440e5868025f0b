//! Rules in, rules out; and commands beside what a user may do.

use wire::command::{Category, all_commands, lookup};

use super::*;
use crate::dispatch::resolve_name;
use crate::request::{Args, Request};

const DIGEST: &str = "30c952fab122c3f9759f02a6d95c3758b246b4fee239957b2d4fee46e26170c4";

/// A user with these rules, a word each; brackets may stand apart.
fn user(rules: &str) -> Result<User, Wrong> {
    let words: Vec<&[u8]> = rules.split(' ').filter(|word| !word.is_empty()).map(str::as_bytes).collect();
    let mut user = User::new(UserId(1), b"u", false);
    for rule in merged(&words).expect("brackets are closed") {
        user.apply(&rule, false)?;
    }
    user.settle();
    Ok(user)
}

fn line(rules: &str) -> String {
    String::from_utf8(user(rules).map_err(Wrong::text).expect(rules).line()).expect("text")
}

/// As redis-server 7.0.15 writes them, and again what was written.
#[test]
fn what_a_user_may_do_is_written_as_by_redis() {
    for (rules, want) in [
        ("", "off resetchannels -@all"),
        ("on nopass ~* &* +@all", "on nopass ~* &* +@all"),
        ("on >pw +@all -@string +incr", "on #DIGEST resetchannels +@all -@string +incr"),
        ("reset", "off sanitize-payload resetchannels -@all"),
        ("skip-sanitize-payload", "off skip-sanitize-payload resetchannels -@all"),
        (">pw >pw #DIGEST nopass", "off nopass resetchannels -@all"),
        (">pw <pw", "off resetchannels -@all"),
        ("#DIGEST !DIGEST", "off resetchannels -@all"),
        ("%R~a %w~a %W~b %rW~c ~d %R~", "off ~a %W~b ~c ~d %R~ resetchannels -@all"),
        ("~a allkeys", "off ~* resetchannels -@all"),
        ("allkeys resetkeys ~a", "off ~a resetchannels -@all"),
        ("&a &b &a", "off resetchannels &a &b -@all"),
        ("&a allchannels", "off &* -@all"),
        (
            "(+get ~a %R~b) ( +set %W~c ) &x",
            "off resetchannels &x -@all (~a %R~b resetchannels -@all +get) (%W~c resetchannels -@all +set)",
        ),
        ("(+get) clearselectors ()", "off resetchannels -@all (resetchannels -@all)"),
        ("allcommands nocommands", "off resetchannels -@all"),
        ("+@all -client +client|id", "off resetchannels +@all -client +client|id"),
        ("+config -config|set", "off resetchannels -@all +config -config|set"),
        ("+client|id +client", "off resetchannels -@all +client"),
        ("+@all +client|id", "off resetchannels +@all"),
        ("+select|0 +SELECT|0 +select|1", "off resetchannels -@all +select|0 +select|1"),
        ("+select|0 +select", "off resetchannels -@all +select"),
        ("+select|0 -select", "off resetchannels -@all"),
        ("+@all -debug +debug|object", "off resetchannels +@all -debug +debug|object"),
    ] {
        let rules = rules.replace("DIGEST", DIGEST);
        let want = format!("user u {}", want.replace("DIGEST", DIGEST));
        assert_eq!(line(&rules), want, "{rules}");
        assert_eq!(line(want.trim_start_matches("user u ")), want, "{rules}, again");
    }
}

/// One category is that category, though there may be no command of it here yet.
#[test]
fn a_category_is_written_as_itself() {
    for category in Category::ALL {
        let name = category.name();
        for rules in [format!("+@all -@{name}"), format!("-@all +@{name}")] {
            assert_eq!(line(&rules), format!("user u off resetchannels {rules}"));
        }
    }
}

#[test]
fn any_set_of_commands_is_written_as_what_it_is() {
    let mut chance = crate::chance::Chance::new(11);
    let names: Vec<_> = all_commands().map(|command| command.name).collect();
    for _ in 0..300 {
        let mut rules = String::new();
        for _ in 0..chance.next() % 12 {
            let sign = if chance.next().is_multiple_of(2) { '+' } else { '-' };
            let at = |chance: &mut crate::chance::Chance, count: usize| {
                usize::try_from(chance.next() % count as u64).expect("an index")
            };
            rules += &match chance.next() % 4 {
                0 => format!("{sign}@all "),
                1 => format!("{sign}@{} ", Category::ALL[at(&mut chance, Category::ALL.len())].name()),
                2 => "+select|7 ".to_owned(),
                _ => format!("{sign}{} ", names[at(&mut chance, names.len())]),
            };
        }
        let made = user(&rules).map_err(Wrong::text).expect("rules");
        let written = String::from_utf8(made.selectors()[0].commands_text()).expect("text");
        let again = user(&written).map_err(Wrong::text).expect("what was written");
        assert!(made.selectors()[0].commands == again.selectors()[0].commands, "{rules}: {written}");
        // What is allowed anyway needs no first argument.
        let mut first_args = made.selectors()[0].first_args.clone();
        first_args.retain(|id, _| !made.selectors()[0].commands.has(*id));
        assert!(first_args == again.selectors()[0].first_args, "{rules}: {written}");
    }
}

#[test]
fn rules_that_are_none() {
    for (rule, want) in [
        ("bogus", Wrong::Syntax),
        ("%~a", Wrong::Syntax),
        ("%X~a", Wrong::Syntax),
        ("%RR~a", Wrong::Syntax),
        ("~a\0", Wrong::Syntax),
        ("&a\t", Wrong::Syntax),
        ("(", Wrong::Syntax),
        ("+nosuch", Wrong::Unknown),
        ("-nosuch", Wrong::Unknown),
        ("+@nosuch", Wrong::Unknown),
        ("+client|nosuch", Wrong::Unknown),
        ("-select|0", Wrong::Unknown),
        ("+get|a|b", Wrong::Unknown),
        ("+client|", Wrong::Syntax),
        ("+config|get|x", Wrong::FirstOfSubcommand),
        ("+documentget", Wrong::Unknown),
        ("<none", Wrong::NoPassword),
        ("#12", Wrong::NoDigest),
        ("!12", Wrong::NoDigest),
        ("(+nosuch)", Wrong::Unknown),
    ] {
        let mut user = User::new(UserId(1), b"u", false);
        assert_eq!(user.apply(rule.as_bytes(), false), Err(want), "{rule}");
    }
    assert_eq!(user("~* ~a").err(), Some(Wrong::AllKeys));
    assert_eq!(user("&* &a").err(), Some(Wrong::AllChannels));
    let open = |words: &[&'static [u8]]| merged(words).err();
    assert_eq!(open(&[b"on", b"(+get", b"~a"]), Some(&b"(+get"[..]));
    assert_eq!(open(&[b"(+get", b"~a)"]), None);
}

#[test]
fn what_users_take_is_bounded() {
    let many = |rule: &str, count: usize| {
        user(&(0..count).map(|number| rule.replace('N', &number.to_string())).collect::<String>()).err()
    };
    assert_eq!((many("~N ", 1024), many("~N ", 1025)), (None, Some(Wrong::TooMany)));
    assert_eq!((many(">N ", 128), many(">N ", 129)), (None, Some(Wrong::TooMany)));
    assert_eq!((many("(&N) ", 127), many("(&N) ", 128)), (None, Some(Wrong::TooMany)));
    assert_eq!(user(&format!("~{}", "x".repeat(1024))).err(), None);
    assert_eq!(user(&format!("~{}", "x".repeat(1025))).err(), Some(Wrong::TooLong));
    let mut users = Users::default();
    for number in 1..USERS_MAX {
        let id = users.next_id().expect("a number");
        users.add(User::new(id, format!("u{number}").as_bytes(), false)).expect("room");
    }
    let id = users.next_id().expect("a number");
    assert!(users.add(User::new(id, b"one", false)).is_err());
    assert!(users.remove(b"u7") && !users.remove(b"u7"));
    assert!(users.add(User::new(id, b"one", false)).is_ok());
    let size: usize = users.all().map(|user| ENTRY_SIZE + user.size()).sum();
    assert_eq!(users.size, size, "what they take is known");
}

#[test]
fn a_file_is_taken_whole_or_not_at_all() {
    let read = |text: &str| Users::default().read(text.as_bytes(), "f", false);
    let users = read("\n  user alice on +get ~a:* >pw  \r\n\nuser bob ( +set\t)\n").expect("a file");
    assert_eq!(
        users.all().map(|user| user.name().to_vec()).collect::<Vec<_>>(),
        [b"alice".to_vec(), b"bob".to_vec(), b"default".to_vec()]
    );
    assert!(users.are_open(), "without a line the default user may do everything");
    assert_eq!(users.who(b"alice", Some(b"pw")), Some(users.named(b"alice").expect("alice").id()));
    assert_eq!(
        (users.who(b"alice", Some(b"no")), users.who(b"alice", None), users.who(b"bob", Some(b""))),
        (None, None, None)
    );
    let again = users.read(&users.lines(), "f", false).expect("what was written");
    assert_eq!(again.lines(), users.lines());
    assert_ne!(again.named(b"alice").expect("alice").id(), users.named(b"alice").expect("alice").id());
    let end = "WARNING: ACL errors detected, no change to the previously active ACL rules was performed";
    for (text, want) in [
        ("# words", "f:1 should start with user keyword followed by the username. "),
        ("user", "f:1 should start with user keyword followed by the username. "),
        ("user a\nuser b\nuser a", "WARNING: Duplicate user 'a' found on line 3. "),
        ("user default\nuser default", "WARNING: Duplicate user 'default' found on line 2. "),
        ("user a\x0bb", "'f:1: username 'a\x0bb' contains invalid characters. "),
        (
            "user a +x bogus #1 +y",
            "f:1: Error in applying operation '+x': Unknown command or category name in ACL. f:1: Syntax error. f:1: Error in applying operation '+y': Unknown command or category name in ACL. ",
        ),
        ("user a (+get", "f:1: Unmatched parenthesis in selector definition."),
    ] {
        assert_eq!(read(text).err(), Some(format!("{want}{end}")), "{text}");
    }
    let listed =
        Users::default().with_password(Some(b"pw")).list(&["a on".to_owned()], false).expect("a list");
    assert!(!listed.are_open() && listed.who(b"default", Some(b"pw")) == Some(UserId::DEFAULT));
}

/// What is denied of a command, in so small slices that each key is one.
fn denied(rules: &str, command: &str) -> Option<Denied> {
    let user = user(rules).map_err(Wrong::text).expect(rules);
    let request = Request::of_words(command.split(' ').map(str::as_bytes));
    let args = Args::Owned(&request);
    let command = resolve_name(args.flat(0), args).unwrap_or_else(|_| panic!("{command}"));
    let whole = vet_all(&user, command, args);
    let mut vetting = Vetting::default();
    let sliced = loop {
        let mut budget = store::Budget::new(1, 1);
        if let Some(verdict) = vetting.go_on(&user, command, args, &mut budget) {
            break verdict;
        }
    };
    assert_eq!(whole, sliced, "in one piece or in many");
    whole.err()
}

/// The pairs are from Redis' suite, or were asked of redis-server 7.0.15 by ACL DRYRUN.
#[test]
fn one_selector_has_to_allow_all_of_a_command() {
    use Denied::{Channel, Command, Key};
    let all = "+@all ~* &*";
    let rw = "+@all %R~read* %W~write* %RW~rw*";
    for (rules, command, want) in [
        (all, "FLUSHALL", None),
        ("~* &*", "GET a", Some(Command)),
        ("~* &*", "AUTH a", None),
        ("~* &*", "HELLO 3", None),
        ("+get", "GET a", Some(Key(1))),
        ("+get ~a", "GET a", None),
        ("+client|id", "CLIENT ID", None),
        ("+client|id", "CLIENT LIST", Some(Command)),
        ("+@all -client|kill ~*", "CLIENT KILL ID 1", Some(Command)),
        ("+select|0", "SELECT 0", None),
        ("+select|0", "SELECT 1", Some(Command)),
        ("+debug|OBJECT", "DEBUG object k", None),
        (rw, "GET read", None),
        (rw, "GET write", Some(Key(1))),
        (rw, "SET write v", None),
        (rw, "SET write v GET", Some(Key(1))),
        (rw, "SET rw v get", None),
        (rw, "SET read v", Some(Key(1))),
        (rw, "STRLEN write", None),
        (rw, "STRLEN nothing", Some(Key(1))),
        (rw, "COPY read write", None),
        (rw, "COPY write read", Some(Key(1))),
        (rw, "COPY read read2", Some(Key(2))),
        (rw, "MGET read1 read2 write", Some(Key(3))),
        (rw, "MSET write 1 write2 2 read 3", Some(Key(5))),
        (rw, "BITFIELD read GET u8 0", None),
        (rw, "BITFIELD read SET u8 0 1", Some(Key(1))),
        (rw, "BITOP AND write read read2", None),
        (rw, "BITOP AND read read2", Some(Key(2))),
        (rw, "MEMORY USAGE write", None),
        (rw, "OBJECT ENCODING nothing", Some(Key(2))),
        (rw, "WATCH write", None),
        (rw, "WATCH nothing", Some(Key(1))),
        (rw, "EVAL x 1 rw1", None),
        (rw, "EVAL x 1 read", Some(Key(3))),
        (rw, "EVAL_RO x 1 read", None),
        (rw, "EVAL x 0 read", None),
        (rw, "EVAL x -1 read", None),
        (rw, "EVAL x 3 rw read", None),
        (rw, "KEYS *", None),
        (rw, "SPUBLISH a b", Some(Channel(1))),
        (rw, "SUNSUBSCRIBE a", None),
        (rw, "PUNSUBSCRIBE a", None),
        ("+@all &a &b*", "SUBSCRIBE a b1 b2", None),
        ("+@all &a &b*", "SUBSCRIBE a b1 c", Some(Channel(3))),
        ("+@all &a &b*", "PSUBSCRIBE a b*", None),
        ("+@all &a &b*", "PSUBSCRIBE b1", Some(Channel(1))),
        ("+@all &a &b*", "SSUBSCRIBE b1", None),
        ("+@all &a", "PUBLISH a c", None),
        ("(%R~read* +@all) (%W~write* +@all)", "COPY read write", Some(Key(2))),
        ("(+@write ~write::*) (+@read ~read::*)", "SET write::a 1", None),
        ("(+@write ~write::*) (+@read ~read::*)", "GET write::a", Some(Key(1))),
        ("(+@write ~write::*) (+@read ~read::*)", "PING", Some(Command)),
        ("+get ~a (+get ~b)", "GET b", None),
        ("+mget ~a (+mget ~a ~b)", "MGET a b c", Some(Key(3))),
    ] {
        assert_eq!(denied(rules, command), want, "{command} with {rules}");
    }
}

#[test]
fn a_user_who_may_do_everything_is_not_looked_at() {
    let is_open = |rules| user(rules).map_err(Wrong::text).expect("rules").is_unrestricted();
    assert!(is_open("+@all ~* &*") && is_open("(allcommands allkeys allchannels)"));
    assert!(
        !is_open("+@all ~* &* -ping")
            && !is_open("+@all ~*")
            && !is_open("+@all &*")
            && !is_open("+@all ~* (&*)")
    );
    let get = lookup(b"get").expect("a command");
    assert!(is_vetted_later(lookup(b"mget").expect("a command"), 1000) && !is_vetted_later(get, 1000));
}

#[test]
fn who_may_hear_less_than_before() {
    let less = |old, new| {
        let user = |rules| user(rules).map_err(Wrong::text).expect("rules");
        user(new).hears_less_than(&user(old)).is_some()
    };
    assert!(less("&a &b", "&a") && less("&*", "&a") && less("&a", ""));
    assert!(
        !less("&a", "&b &a")
            && !less("&a", "&*")
            && !less("", "&a")
            && !less("&a", "(&a)")
            && !less("&*", "(&*)")
    );
}

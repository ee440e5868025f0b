//! CONFIG: a setting's form, the values at hand, and what changes when one is set.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use wire::glob::{self, Case};
use wire::reply::{self, Proto, Put};

use super::settings::SETTINGS;
use store::Policy;

use crate::{EventClasses, OutputLimits, Port, Settings};

/// Patterns of one CONFIG GET: each is held against every name, of which there are fewer.
pub(super) const PATTERN_COUNT_MAX: usize = 1024;
const _: () = assert!(2 * SETTINGS.len() <= PATTERN_COUNT_MAX);

/// One line of the table.
pub(super) struct Setting {
    pub(super) name: &'static str,
    /// Its name before Redis 5; empty if it has none.
    pub(super) alias: &'static str,
    pub(super) kind: Kind,
    pub(super) default: &'static str,
    pub(super) is_fixed: bool,
    /// For one that Redis can change while it runs and this server can't: why not. Setting it to what it is passes.
    pub(super) refusal: &'static str,
    /// Redis sets it only with `enable-protected-configs`, which it has not by default.
    pub(super) is_protected: bool,
    /// Whether CONFIG GET shows it only to those who know its name.
    pub(super) is_hidden: bool,
    /// Whether setting it changes what the server does.
    pub(super) is_effective: bool,
}

/// The form of a value. Ranges include both ends.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    YesNo,
    Text,
    /// One of these.
    Word(&'static [&'static str]),
    /// Some of these, separated by spaces.
    Words(&'static [&'static str]),
    Number(i64, i64),
    /// As a number in base 8.
    Octal(i64, i64),
    /// Bytes; `1kb`, `1g` and the like are understood.
    Size(i64, i64),
    /// Bytes, or a share of `maxmemory`.
    SizeOrPercent,
    /// Pairs of seconds and changes.
    Save,
    /// Class, hard limit, soft limit and its seconds, for each class of clients.
    OutputLimits,
    /// Numbers from 0 to 100.
    Percentiles,
    /// Letters that name kinds of keyspace events.
    Events,
}

/// A setting that may be set and has no effect.
pub(super) const fn setting(name: &'static str, kind: Kind, default: &'static str) -> Setting {
    Setting {
        name,
        alias: "",
        kind,
        default,
        is_fixed: false,
        refusal: "",
        is_protected: false,
        is_hidden: false,
        is_effective: false,
    }
}

impl Setting {
    pub(super) const fn alias(mut self, alias: &'static str) -> Setting {
        self.alias = alias;
        self
    }

    pub(super) const fn fixed(mut self) -> Setting {
        self.is_fixed = true;
        self
    }

    pub(super) const fn protected(mut self) -> Setting {
        (self.is_fixed, self.is_protected) = (true, true);
        self
    }

    pub(super) const fn chosen_at_start(mut self, refusal: &'static str) -> Setting {
        self.is_fixed = true;
        self.refusal = refusal;
        self
    }

    pub(super) const fn hidden(mut self) -> Setting {
        self.is_hidden = true;
        self
    }

    pub(super) const fn effective(mut self) -> Setting {
        self.is_effective = true;
        self
    }
}

/// The values of all settings.
#[derive(Clone)]
pub(super) struct Config {
    /// By the setting's index in the table: those that differ from their default.
    values: BTreeMap<usize, String>,
    /// Those that clients have set.
    touched: BTreeSet<usize>,
}

/// Why a CONFIG SET changes nothing, in Redis' words.
type Refusal = Vec<u8>;

/// What a CONFIG SET changes, by the setting's index in the table: values in their form.
#[derive(Debug)]
pub(super) struct Changes(BTreeMap<usize, String>);

impl Changes {
    /// `maxclients`, if it is among them.
    pub(super) fn client_count(&self) -> Option<usize> {
        self.0.get(&find(b"maxclients")?)?.parse().ok()
    }
}

impl Config {
    /// The values with which the server has started; names that no table knows are left out.
    pub(super) fn new(given: &[(String, String)]) -> Config {
        let mut values = BTreeMap::new();
        for (name, value) in given {
            if let Some(index) = find(name.as_bytes()) {
                values.insert(index, value.clone());
            }
        }
        Config { values, touched: BTreeSet::new() }
    }

    /// The value of a setting that is in the table.
    pub(super) fn value(&self, name: &str) -> &str {
        let index = find(name.as_bytes()).expect("asked for by a name that is in the table");
        self.at(index)
    }

    fn at(&self, index: usize) -> &str {
        self.values.get(&index).map_or(SETTINGS[index].default, String::as_str)
    }

    /// As clients of this port see it: a lane's own port is a node of a cluster.
    pub(super) fn seen_at(&self, port: Port) -> Cow<'_, Config> {
        if port != Port::Lane {
            return Cow::Borrowed(self);
        }
        let mut seen = self.clone();
        seen.values.insert(find(b"cluster-enabled").expect("it is in the table"), "yes".to_owned());
        Cow::Owned(seen)
    }

    /// CONFIG GET: names and values of all settings that match one of the patterns. As in Redis a name without wildcards is given back
    /// as it was written.
    pub(super) fn get<'a>(
        &self,
        patterns: impl Iterator<Item = &'a [u8]> + Clone,
        proto: Proto,
        out: &mut impl Put,
    ) {
        let mut found: Vec<(&[u8], usize)> = Vec::new();
        for (index, setting) in SETTINGS.iter().enumerate() {
            for name in [setting.name, setting.alias].into_iter().filter(|name| !name.is_empty()) {
                let mut patterns = patterns.clone();
                let is_meant = |pattern: &[u8]| {
                    if setting.is_hidden {
                        pattern.eq_ignore_ascii_case(name.as_bytes())
                    } else {
                        glob::matches(pattern, name.as_bytes(), Case::Ignored)
                    }
                };
                if let Some(pattern) = patterns.find(|pattern| is_meant(pattern)) {
                    let is_written = pattern.eq_ignore_ascii_case(name.as_bytes());
                    found.push((if is_written { pattern } else { name.as_bytes() }, index));
                }
            }
        }
        reply::map(out, proto, found.len());
        for (name, index) in found {
            reply::bulk(out, name);
            reply::bulk(out, self.at(index).as_bytes());
        }
    }

    /// Names and values of what clients have set, to be written down.
    pub(super) fn changed(&self) -> Vec<(String, String)> {
        let changed = self.touched.iter().map(|&index| (SETTINGS[index].name, self.at(index)));
        changed.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    }

    /// Another command has set it.
    pub(super) fn note(&mut self, name: &str, value: String) {
        let index = find(name.as_bytes()).expect("asked for by a name that is in the table");
        self.touched.insert(index);
        self.values.insert(index, value);
    }

    /// What CONFIG SET would change: all of the names and values, or none. As in Redis names are looked at before values, and one
    /// whose value is wrong is said as Redis writes it.
    pub(super) fn check(&self, pairs: &[(&[u8], &[u8])]) -> Result<Changes, Refusal> {
        let mut indices = Vec::with_capacity(pairs.len());
        for (name, _) in pairs {
            let Some(index) = find(name) else {
                let front = b"ERR Unknown option or number of arguments for CONFIG SET - '";
                return Err([front, reply::quoted(name), b"'"].concat());
            };
            let setting = &SETTINGS[index];
            if setting.is_protected {
                return Err(refusal(name, "can't set protected config"));
            }
            if setting.is_fixed && setting.refusal.is_empty() {
                return Err(refusal(name, "can't set immutable config"));
            }
            // Its other name is not the same: then the last of the two counts.
            let is_alias = setting.alias.as_bytes().eq_ignore_ascii_case(name);
            if indices.contains(&(index, is_alias)) {
                return Err(refusal(name, "duplicate parameter"));
            }
            indices.push((index, is_alias));
        }
        let mut changed = BTreeMap::new();
        for ((index, is_alias), (_, value)) in indices.into_iter().zip(pairs) {
            let setting = &SETTINGS[index];
            let name = if is_alias { setting.alias } else { setting.name };
            let refused = |why: &str| Err(refusal(name.as_bytes(), why));
            match parse(setting.kind, value, self.at(index)) {
                Ok(value) if setting.name == "appendfsync" && value == "always" => {
                    return refused("no reply waits for a disk here: everysec or no");
                }
                Ok(value) if setting.is_fixed && value != self.at(index) => return refused(setting.refusal),
                Ok(value) => changed.insert(index, value),
                Err(why) => return refused(&why),
            };
        }
        Ok(Changes(changed))
    }

    /// Takes what was checked. True when what lanes do has changed.
    pub(super) fn set(&mut self, Changes(changed): Changes) -> bool {
        let mut is_effective = false;
        for (index, value) in changed {
            is_effective |= SETTINGS[index].is_effective;
            // What is chosen at the start has been set to what it is.
            if !SETTINGS[index].is_fixed {
                self.touched.insert(index);
            }
            self.values.insert(index, value);
        }
        is_effective
    }

    /// Writes what has an effect into what lanes are told.
    pub(super) fn apply(&self, settings: &mut Settings) {
        let number = |name: &str| self.value(name).parse::<i64>().unwrap_or(0).unsigned_abs();
        let size = |name: &str| usize::try_from(number(name)).unwrap_or(usize::MAX);
        let password = self.value("requirepass");
        let slowlog_us: Option<u64> = self.value("slowlog-log-slower-than").parse().ok();
        let latency_us = number("latency-monitor-threshold").saturating_mul(1000);
        settings.slow_us = slowlog_us.into_iter().chain(Some(latency_us).filter(|us| *us > 0)).min();
        settings.set_password((!password.is_empty()).then(|| password.as_bytes().to_vec()));
        settings.client_count_max = size("maxclients");
        settings.bulk_size_max = number("proto-max-bulk-len");
        settings.query_size_max = size("client-query-buffer-limit");
        settings.memory_size_max = number("maxmemory");
        let policy = self.value("maxmemory-policy");
        settings.policy =
            Policy::ALL.into_iter().find(|known| known.name() == policy).unwrap_or(Policy::NoEviction);
        settings.timeout_s = number("timeout");
        settings.compresses_dumps = self.value("rdbcompression") == "yes";
        settings.script_memory_max = size("script-memory-limit");
        settings.tracked_count_max = size("tracking-table-max-keys");
        settings.events = EventClasses::parse(self.value("notify-keyspace-events")).unwrap_or_default();
        let limits = self.value("client-output-buffer-limit");
        // Classes come in this order: normal, slave, pubsub. 0 is no limit.
        let limit =
            |nth: usize| limits.split(' ').nth(nth).and_then(|word| word.parse::<u64>().ok()).unwrap_or(0);
        let limit_size = |nth: usize| match limit(nth) {
            0 => usize::MAX,
            size => usize::try_from(size).unwrap_or(usize::MAX),
        };
        settings.output_size_max = limit_size(1);
        settings.output_soft_size = limit_size(2);
        settings.output_soft_s = limit(3);
        settings.replica_output = OutputLimits { size_max: limit(5), soft_size: limit(6), soft_s: limit(7) };
        settings.pubsub_output_size_max = limit_size(9);
        settings.pubsub_output_soft_size = limit_size(10);
        settings.pubsub_output_soft_s = limit(11);
        settings.clients_size_max = match self.value("maxmemory-clients").strip_suffix('%') {
            Some(percent) => {
                let percent = percent.parse().expect("the table takes percentages up to 100");
                Settings::clients_size_of_percent(percent, settings.memory_size_max)
            }
            None => Settings::clients_size_of(number("maxmemory-clients")),
        };
    }
}

/// A setting can't have the value that a client wants.
pub(super) fn refusal(name: &[u8], why: &str) -> Refusal {
    let front = b"ERR CONFIG SET failed (possibly related to argument '";
    [front, reply::quoted(name), b"') - ", why.as_bytes()].concat()
}

fn find(name: &[u8]) -> Option<usize> {
    SETTINGS.iter().position(|setting| {
        let is_alias = !setting.alias.is_empty() && setting.alias.as_bytes().eq_ignore_ascii_case(name);
        is_alias || setting.name.as_bytes().eq_ignore_ascii_case(name)
    })
}

/// A value as it is kept, or why it is none.
fn parse(kind: Kind, value: &[u8], now: &str) -> Result<String, String> {
    let text = String::from_utf8_lossy(value);
    let text = text.as_ref();
    let within = |number: i64, least: i64, most: i64| {
        if least <= number && number <= most {
            Ok(number)
        } else {
            Err(format!("argument must be between {least} and {most} inclusive"))
        }
    };
    match kind {
        Kind::YesNo => match text.to_ascii_lowercase().as_str() {
            word @ ("yes" | "no") => Ok(word.to_owned()),
            _ => Err("argument must be 'yes' or 'no'".to_owned()),
        },
        Kind::Text => String::from_utf8(value.to_vec()).map_err(|_| "argument is not UTF-8".to_owned()),
        Kind::Word(words) => word(words, text).map(str::to_owned),
        Kind::Words(words) => {
            let found: Result<Vec<&str>, String> = text.split(' ').map(|text| word(words, text)).collect();
            Ok(found?.join(" "))
        }
        Kind::Number(least, most) => {
            let number =
                wire::number::parse_i64(value).ok_or("argument couldn't be parsed into an integer")?;
            Ok(within(number, least, most)?.to_string())
        }
        Kind::Octal(least, most) => {
            let number =
                i64::from_str_radix(text, 8).map_err(|_| "argument couldn't be parsed as an octal number")?;
            Ok(format!("{:o}", within(number, least, most)?))
        }
        Kind::Size(least, most) => {
            let size = size(text).ok_or("argument must be a memory value")?;
            Ok(within(size, least, most)?.to_string())
        }
        Kind::SizeOrPercent => match text.strip_suffix('%').map(str::parse::<u64>) {
            Some(Ok(share)) if share <= 100 => Ok(format!("{share}%")),
            Some(Ok(_)) => Err("percentage argument must be less or equal to 100".to_owned()),
            Some(Err(_)) => Err("argument must be a memory or percent value".to_owned()),
            None => size(text)
                .map(|size| size.to_string())
                .ok_or_else(|| "argument must be a memory or percent value".to_owned()),
        },
        Kind::Save => {
            let words: Vec<&str> = text.split(' ').filter(|word| !word.is_empty()).collect();
            let is_point = |point: &[&str]| {
                let [seconds, changes] = point else { return false };
                seconds.parse::<u32>().is_ok_and(|seconds| seconds > 0) && changes.parse::<u32>().is_ok()
            };
            if words.chunks(2).all(is_point) {
                Ok(words.join(" "))
            } else {
                Err("Invalid save parameters".to_owned())
            }
        }
        Kind::OutputLimits => output_limits(text, now),
        Kind::Percentiles => {
            let mut shares = Vec::new();
            // No word is none at all, and a blank too many makes an empty one, which is no number.
            for word in text.split(' ').take_while(|_| !text.is_empty()) {
                let share = word
                    .parse::<f64>()
                    .map_err(|_| "Invalid latency-tracking-info-percentiles parameters".to_owned())?;
                if !(0.0..=100.0).contains(&share) {
                    return Err(
                        "latency-tracking-info-percentiles parameters should sit between [0.0,100.0]"
                            .to_owned(),
                    );
                }
                // As short as it can be said: `50.0` is kept as `50`.
                shares.push(share.to_string());
            }
            Ok(shares.join(" "))
        }
        Kind::Events => Ok(EventClasses::parse(text)?.to_string()),
    }
}

fn word<'w>(words: &[&'w str], text: &str) -> Result<&'w str, String> {
    let found = words.iter().find(|word| word.eq_ignore_ascii_case(text));
    found.copied().ok_or_else(|| format!("argument(s) must be one of the following: {}", words.join(", ")))
}

/// Bytes as Redis writes them: `b`, `k`, `kb`, `m`, `mb`, `g`, `gb`, where the short ones are powers of 1000. None is negative.
fn size(text: &str) -> Option<i64> {
    let split = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let unit = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" => 1000,
        "kb" => 1 << 10,
        "m" => 1_000_000,
        "mb" => 1 << 20,
        "g" => 1_000_000_000,
        "gb" => 1 << 30,
        _ => return None,
    };
    number.parse::<i64>().ok()?.checked_mul(unit)
}

/// Groups of class, hard limit, soft limit, seconds; classes that are not named keep theirs.
fn output_limits(text: &str, now: &str) -> Result<String, String> {
    let words: Vec<&str> = text.split(' ').filter(|word| !word.is_empty()).collect();
    if !words.len().is_multiple_of(4) {
        return Err("Wrong number of arguments in buffer limit configuration.".to_owned());
    }
    let mut kept: Vec<String> = now.split(' ').map(str::to_owned).collect();
    for group in words.chunks_exact(4) {
        let class = match group[0].to_ascii_lowercase().as_str() {
            "normal" => 0,
            "slave" | "replica" => 1,
            "pubsub" => 2,
            _ => return Err("Invalid client class specified in buffer limit configuration.".to_owned()),
        };
        let numbers = (size(group[1]), size(group[2]), group[3].parse::<u32>().ok());
        let (Some(hard @ 0..), Some(soft @ 0..), Some(seconds)) = numbers else {
            return Err(
                "Error in hard, soft or soft_seconds setting in buffer limit configuration.".to_owned()
            );
        };
        kept[4 * class + 1] = hard.to_string();
        kept[4 * class + 2] = soft.to_string();
        kept[4 * class + 3] = seconds.to_string();
    }
    Ok(kept.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, value: &str, want: Result<&str, &str>) {
        let mut config = Config::new(&[]);
        let got = config.check(&[(name.as_bytes(), value.as_bytes())]);
        match want {
            Ok(want) => {
                config.set(got.unwrap());
                assert_eq!(config.value(name), want, "{name} {value}");
            }
            Err(why) => {
                let why = format!("ERR CONFIG SET failed (possibly related to argument '{name}') - {why}");
                assert_eq!(String::from_utf8_lossy(&got.unwrap_err()), why);
            }
        }
    }

    #[test]
    fn values_are_taken_in_their_form_alone() {
        check("appendonly", "YES", Ok("yes"));
        check("appendonly", "maybe", Err("argument must be 'yes' or 'no'"));
        check("timeout", "12", Ok("12"));
        check("timeout", "x", Err("argument couldn't be parsed into an integer"));
        check("hz", "-1", Err("argument must be between 0 and 2147483647 inclusive"));
        check("maxmemory", "100mb", Ok("104857600"));
        check("maxmemory", "1k", Ok("1000"));
        check("maxmemory", "blah", Err("argument must be a memory value"));
        check("maxmemory", "-1", Err("argument must be a memory value"));
        check(
            "latency-tracking-info-percentiles",
            "p50",
            Err("Invalid latency-tracking-info-percentiles parameters"),
        );
        check(
            "latency-tracking-info-percentiles",
            "1  2",
            Err("Invalid latency-tracking-info-percentiles parameters"),
        );
        check("latency-tracking-info-percentiles", "", Ok(""));
        check("tcp-backlog", "511", Err("can't set immutable config"));
        check("dir", "", Err("can't set protected config"));
        // What Redis does not know may be set to what it is, as its test of all settings does.
        check("auto-pin", "none", Ok("none"));
        check("auto-pin", "cpu", Err("where connections belong is chosen at the start"));
        check("max-item-size", "1mb", Ok("1048576"));
        check("port", "6379", Ok("6379"));
        check("port", "1", Err("Unable to listen on this port: it is chosen at the start"));
        check("port", "65536", Err("argument must be between 0 and 65535 inclusive"));
        check("client-output-buffer-limit", "", Ok(Config::new(&[]).value("client-output-buffer-limit")));
        check("maxmemory-clients", "7%", Ok("7%"));
        check("maxmemory-clients", "2mb", Ok("2097152"));
        check("maxmemory-clients", "101%", Err("percentage argument must be less or equal to 100"));
        check("maxmemory-clients", "%", Err("argument must be a memory or percent value"));
        check("save", "3600 1 300 100", Ok("3600 1 300 100"));
        check("save", "1 0", Ok("1 0"));
        check("save", "0 1", Err("Invalid save parameters"));
        check("save", "3600", Err("Invalid save parameters"));
        check("appendfsync", "often", Err("argument(s) must be one of the following: everysec, always, no"));
        check("notify-keyspace-events", "KEA", Ok("AKE"));
        check("notify-keyspace-events", "KEmn", Ok("nKEm"));
        check("notify-keyspace-events", "Kg$lshzxetdn", Ok("AKn"));
        check(
            "client-output-buffer-limit",
            "normal 1mb 0 0",
            Ok("normal 1048576 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60"),
        );
    }

    #[test]
    fn a_set_changes_all_or_nothing() {
        let config = Config::new(&[]);
        let pairs: [(&[u8], &[u8]); 2] = [(b"timeout", b"5"), (b"hz", b"x")];
        assert!(config.check(&pairs).is_err());
        assert_eq!(config.value("timeout"), "0");
        let twice: [(&[u8], &[u8]); 2] = [(b"timeout", b"5"), (b"timeout", b"6")];
        assert!(config.check(&twice).unwrap_err().ends_with(b"duplicate parameter"));
        let both: [(&[u8], &[u8]); 2] = [(b"slave-priority", b"5"), (b"replica-priority", b"6")];
        let mut config = config;
        config.set(config.check(&both).unwrap());
        assert_eq!(config.value("replica-priority"), "6");
    }

    /// In the words and the order of `redis-server` 7.0.15.
    #[test]
    fn the_name_that_is_wrong_is_said() {
        let check = |pairs: &[(&str, &[u8])], want: &str| {
            let pairs: Vec<_> = pairs.iter().map(|(name, value)| (name.as_bytes(), *value)).collect();
            let got = Config::new(&[]).check(&pairs).unwrap_err();
            assert_eq!(String::from_utf8_lossy(&got), want);
        };
        let failed = |name: &str, why: &str| {
            format!("ERR CONFIG SET failed (possibly related to argument '{name}') - {why}")
        };
        let no_number = "argument couldn't be parsed into an integer";
        check(&[("Hz", b"x")], &failed("hz", no_number));
        check(&[("Hz", b"\xff")], &failed("hz", no_number));
        check(&[("SLAVE-priority", b"x")], &failed("slave-priority", no_number));
        check(&[("proc-title-template", b"\xff")], &failed("proc-title-template", "argument is not UTF-8"));
        check(&[("hz", b"x"), ("TCP-backlog", b"1")], &failed("TCP-backlog", "can't set immutable config"));
        check(&[("hz", b"x"), ("HZ", b"1")], &failed("HZ", "duplicate parameter"));
        let unknown = "ERR Unknown option or number of arguments for CONFIG SET - 'nosuch'";
        check(&[("hz", b"x"), ("nosuch\0x", b"1")], unknown);
        check(&[("Dir", b"/"), ("nosuch", b"1")], &failed("Dir", "can't set protected config"));
    }

    #[test]
    fn what_clients_set_is_what_is_written_down() {
        let mut config =
            Config::new(&[("timeout".to_owned(), "7".to_owned()), ("port".to_owned(), "6379".to_owned())]);
        assert_eq!(config.changed(), []);
        let pairs: [(&[u8], &[u8]); 3] = [(b"maxmemory", b"0"), (b"HZ", b"12"), (b"port", b"6379")];
        config.set(config.check(&pairs).unwrap());
        let written = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(
            config.changed(),
            [written("hz", "12"), written("maxmemory", "0")],
            "back to a default, too"
        );
    }

    #[test]
    fn a_hidden_setting_is_shown_by_its_name_alone() {
        let got = |pattern: &'static [u8]| {
            let mut out = Vec::new();
            Config::new(&[]).get([pattern].into_iter(), Proto::Resp2, &mut out);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(got(b"Key-Load-Delay"), "*2\r\n$14\r\nKey-Load-Delay\r\n$1\r\n0\r\n");
        assert_eq!(got(b"key-load-*"), "*0\r\n");
        assert!(!got(b"*").contains("key-load-delay"));
    }

    #[test]
    fn the_manual_names_every_setting_without_effect() {
        let manual = include_str!("../../../../docs/compatibility.md");
        let (_, manual) = manual.split_once("## Settings without effect").unwrap();
        let (manual, _) = manual.split_once("\n## ").unwrap();
        for setting in SETTINGS {
            let is_named = manual.contains(&format!("`{}`", setting.name));
            assert_eq!(is_named, !setting.is_fixed && !setting.is_effective, "{}", setting.name);
        }
    }

    #[test]
    fn every_default_has_its_settings_form() {
        for setting in SETTINGS {
            let kept = parse(setting.kind, setting.default.as_bytes(), setting.default);
            assert_eq!(kept.as_deref(), Ok(setting.default), "{}", setting.name);
        }
    }
}

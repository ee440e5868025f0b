//! Values of settings as people write them. Each type is parsed once, here, and then can't be wrong.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;
use std::time::Duration;

use clap::ValueEnum;
use lane::EventClasses;
use wire::aerospike::Namespace;
use wire::route::Ports;

/// Lanes and the control thread are senders in one another's mailboxes; this is one less than those have places.
pub(crate) const LANES_COUNT_MAX: u16 = 251;
const _: () = assert!(
    LANES_COUNT_MAX as usize + 1 == ring::SENDERS_MAX,
    "every lane and the control thread has a place"
);

/// A number of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Size(pub(crate) u64);

impl FromStr for Size {
    type Err = String;

    /// As Redis' `memtoull`: k, m and g are powers of 1000, kb, mb and gb of 1024, in either case.
    fn from_str(text: &str) -> Result<Size, String> {
        let wrong = || {
            format!(
                "a size is a whole number with b, k, kb, m, mb, g or gb behind it, such as 100mb, not '{text}'"
            )
        };
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let number: u64 = text[..digits].parse().map_err(|_| wrong())?;
        let unit = match text[digits..].to_ascii_lowercase().as_str() {
            "" | "b" => 1,
            "k" => 1_000,
            "kb" => 1 << 10,
            "m" => 1_000_000,
            "mb" => 1 << 20,
            "g" => 1_000_000_000,
            "gb" => 1 << 30,
            _ => return Err(wrong()),
        };
        number.checked_mul(unit).map(Size).ok_or_else(|| format!("{text} is more than any machine has"))
    }
}

/// A size of 1 MiB or more: Redis has the same bound for what may come of a command.
pub(crate) fn mebibyte(text: &str) -> Result<Size, String> {
    let size = text.parse::<Size>()?;
    if size.0 < 1 << 20 { Err(format!("it is at least 1mb, as in Redis, not '{text}'")) } else { Ok(size) }
}

/// A host as cluster clients are told it, between commas and spaces: an address or a name of letters, digits, `.`, `-` and `_`.
pub(crate) fn host(text: &str) -> Result<String, String> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:%".contains(&byte);
    if text.bytes().all(is_plain) {
        Ok(text.to_owned())
    } else {
        Err(format!("a host is an IP address or a name, not '{text}'"))
    }
}

impl fmt::Display for Size {
    /// In the largest unit of 1024 of which it is at least one.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
        let Some((bits, name)) = units.into_iter().find(|(bits, _)| self.0 >> bits > 0) else {
            return write!(f, "{} B", self.0);
        };
        let whole = self.0 >> bits;
        let tenths = ((self.0 - (whole << bits)) * 10) >> bits;
        if tenths == 0 { write!(f, "{whole} {name}") } else { write!(f, "{whole}.{tenths} {name}") }
    }
}

/// A duration, or `None` for off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span(pub(crate) Option<Duration>);

impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Span, String> {
        if matches!(text, "off" | "no" | "0") {
            return Ok(Span(None));
        }
        let duration = humantime::parse_duration(text).map_err(|_| {
            format!("a duration is a number with us, ms or s behind it, such as 50us, or off, not '{text}'")
        })?;
        Ok(Span((duration > Duration::ZERO).then_some(duration)))
    }
}

/// How many lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LanesCount {
    /// As many as the machine has room for.
    Auto,
    /// So many, from 1 to [`LANES_COUNT_MAX`].
    Count(u16),
}

impl FromStr for LanesCount {
    type Err = String;

    fn from_str(text: &str) -> Result<LanesCount, String> {
        if text == "auto" {
            return Ok(LanesCount::Auto);
        }
        match text.parse() {
            Ok(0) => Err("a server has at least one lane".to_owned()),
            Ok(count) if count <= LANES_COUNT_MAX => Ok(LanesCount::Count(count)),
            _ => Err(format!("lanes are a number from 1 to {LANES_COUNT_MAX}, or auto, not '{text}'")),
        }
    }
}

/// Where the lanes' own ports are; `None` for off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LanePorts(pub(crate) Option<Ports>);

impl FromStr for LanePorts {
    type Err = String;

    fn from_str(text: &str) -> Result<LanePorts, String> {
        match text {
            "off" | "no" => Ok(LanePorts(None)),
            _ => match ports(text) {
                Some(ports) => Ok(LanePorts(Some(ports))),
                None => Err(format!(
                    "the first lane port is a number from 1 to 65535, with a step behind it if the next is not the next \
                     lane's (7000+10), or off, not '{text}'"
                )),
            },
        }
    }
}

/// A first port, and from one lane to the next a step: `3000` or `3000+10`.
fn ports(text: &str) -> Option<Ports> {
    let (first, step) = text.split_once('+').unwrap_or((text, "1"));
    let number = |digits: &str| digits.parse().ok().filter(|number| *number > 0);
    Some(Ports { first: number(first)?, step: number(step)? })
}

/// Where another dialect than Redis' is spoken; `None`: it is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DialectPort {
    /// Not at all.
    Off,
    /// At the port that its clients expect.
    Conventional,
    /// There.
    At(Ports),
}

impl DialectPort {
    /// The ports of the lanes, given the first one that clients expect.
    pub(crate) fn ports(self, conventional: u16) -> Option<Ports> {
        match self {
            DialectPort::Off => None,
            DialectPort::Conventional => Some(Ports::from(conventional)),
            DialectPort::At(ports) => Some(ports),
        }
    }
}

impl FromStr for DialectPort {
    type Err = String;

    fn from_str(text: &str) -> Result<DialectPort, String> {
        match text {
            "off" | "no" => Ok(DialectPort::Off),
            "yes" => Ok(DialectPort::Conventional),
            _ => match ports(text) {
                Some(ports) => Ok(DialectPort::At(ports)),
                None => Err(format!(
                    "a dialect's port is a number from 1 to 65535, with a step behind it if the next is not the next lane's \
                     (3000+10), yes or off, not '{text}'"
                )),
            },
        }
    }
}

/// Longest name of a bucket, as in Couchbase.
const BUCKET_SIZE_MAX: usize = 100;

/// A bucket's name, made of the letters that Couchbase allows.
pub(crate) fn bucket_name(text: &str) -> Result<String, String> {
    let is_allowed = |letter: char| letter.is_ascii_alphanumeric() || "_.%-".contains(letter);
    if (1..=BUCKET_SIZE_MAX).contains(&text.len()) && text.chars().all(is_allowed) {
        return Ok(text.to_owned());
    }
    Err(format!(
        "a bucket's name has 1 to {BUCKET_SIZE_MAX} letters, digits and signs of '_.%-', not '{text}'"
    ))
}

/// The name of a namespace of records, made of the letters that mean nothing to Aerospike's clients.
pub(crate) fn record_namespace(text: &str) -> Result<Namespace, String> {
    let rule = "a namespace's name has 1 to 31 letters, digits, _, - or $";
    Namespace::new(text).ok_or_else(|| format!("{rule}, not '{text}'"))
}

/// Cpus in the order in which lanes get them, each once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CpuList(pub(crate) Vec<usize>);

/// More cpus than Linux can be built for; keeps a mistyped range from filling memory.
const CPUS_COUNT_MAX: usize = 8192;

impl FromStr for CpuList {
    type Err = String;

    /// The kernel's list format, `0-3,8` (Documentation/admin-guide/cputopology.rst).
    fn from_str(text: &str) -> Result<CpuList, String> {
        let wrong =
            || format!("cpus are numbers below {CPUS_COUNT_MAX} and ranges such as 2-5,8, not '{text}'");
        let mut cpus = Vec::new();
        for part in text.trim().split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let number = |digits: &str| digits.trim().parse::<usize>().map_err(|_| wrong());
            let (first, last) = (number(first)?, number(last)?);
            if first > last || last >= CPUS_COUNT_MAX {
                return Err(wrong());
            }
            for cpu in first..=last {
                if cpus.contains(&cpu) {
                    return Err(format!("cpu {cpu} is named twice; a lane has a cpu of its own"));
                }
                cpus.push(cpu);
            }
        }
        Ok(CpuList(cpus))
    }
}

impl fmt::Display for CpuList {
    /// Runs as ranges.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, run) in self.0.chunk_by(|a, b| a + 1 == *b).enumerate() {
            let comma = if index > 0 { "," } else { "" };
            match run {
                [first, .., last] => write!(f, "{comma}{first}-{last}")?,
                _ => write!(f, "{comma}{}", run[0])?,
            }
        }
        Ok(())
    }
}

/// An address to listen on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BindAddress {
    /// The address; an unspecified one is all of its family.
    pub(crate) ip: IpAddr,
    /// Whether the machine may lack it (a dash before it, as in Redis).
    pub(crate) is_optional: bool,
}

impl FromStr for BindAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<BindAddress, String> {
        let text = text.trim();
        let (is_optional, host) = text.strip_prefix('-').map_or((false, text), |host| (true, host));
        let ip = match host {
            "*" => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            "::*" => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
            "localhost" => IpAddr::V4(Ipv4Addr::LOCALHOST),
            host => host.parse().map_err(|_| {
                format!("an address to bind is an IP address or *, several with commas between, not '{host}'")
            })?,
        };
        Ok(BindAddress { ip, is_optional })
    }
}

impl fmt::Display for BindAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.ip.fmt(f)
    }
}

/// Permission bits of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mode(pub(crate) u32);

impl FromStr for Mode {
    type Err = String;

    fn from_str(text: &str) -> Result<Mode, String> {
        match u32::from_str_radix(text, 8) {
            Ok(mode) if mode <= 0o777 => Ok(Mode(mode)),
            _ => Err(format!("a file mode is octal, from 0 to 777, such as 770, not '{text}'")),
        }
    }
}

/// How bytes reach the lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Io {
    /// epoll, as long as no measurement speaks for another (docs/io.md)
    Auto,
    /// Linux' epoll
    Epoll,
    /// Linux' `io_uring`
    Uring,
}

/// How new TCP connections find their lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum AutoPin {
    /// The lane that accepts it, or the one with the fewest clients if that has at least two fewer
    None,
    /// The lane on the cpu that takes in the connection's packets
    Cpu,
    /// As none, with cpus and memory of the node of the card that is bound
    Numa,
    /// The lane that serves the card's queue over which they come
    Adq,
}

impl AutoPin {
    /// As lanes know it.
    pub(crate) fn of_lanes(self) -> lane::AutoPin {
        match self {
            AutoPin::None => lane::AutoPin::None,
            AutoPin::Cpu => lane::AutoPin::Cpu,
            AutoPin::Numa => lane::AutoPin::Numa,
            AutoPin::Adq => lane::AutoPin::Adq,
        }
    }
}

/// What gives way when memory is full, by Redis' names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Policy {
    /// Writes are refused
    Noeviction,
    /// The key that was not used for longest
    AllkeysLru,
    /// The key that is used least often
    AllkeysLfu,
    /// Any key
    AllkeysRandom,
    /// The key with a time to live that was not used for longest
    VolatileLru,
    /// The key with a time to live that is used least often
    VolatileLfu,
    /// Any key with a time to live
    VolatileRandom,
    /// The key whose time is up next
    VolatileTtl,
}

impl Policy {
    /// Redis' name.
    pub(crate) fn name(self) -> String {
        self.to_possible_value().expect("every policy has a name").get_name().to_owned()
    }

    /// The same policy as the shard knows it.
    pub(crate) fn of_store(self) -> store::Policy {
        match self {
            Policy::Noeviction => store::Policy::NoEviction,
            Policy::AllkeysLru => store::Policy::AllKeysLru,
            Policy::AllkeysLfu => store::Policy::AllKeysLfu,
            Policy::AllkeysRandom => store::Policy::AllKeysRandom,
            Policy::VolatileLru => store::Policy::VolatileLru,
            Policy::VolatileLfu => store::Policy::VolatileLfu,
            Policy::VolatileRandom => store::Policy::VolatileRandom,
            Policy::VolatileTtl => store::Policy::VolatileTtl,
        }
    }
}

/// The bound on all clients' buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClientsMemory {
    /// Bytes; 0 is none.
    Size(Size),
    /// Percent of maxmemory.
    Percent(u8),
}

impl FromStr for ClientsMemory {
    type Err = String;

    fn from_str(text: &str) -> Result<ClientsMemory, String> {
        match text.strip_suffix('%') {
            None => text.parse().map(ClientsMemory::Size),
            Some(number) => match number.parse() {
                Ok(percent @ 1..=100) => Ok(ClientsMemory::Percent(percent)),
                _ => Err(format!("a part of maxmemory is from 1% to 100%, not '{text}'")),
            },
        }
    }
}

/// Bounds on the unread replies of one client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct OutputLimit {
    /// Bytes at which the client is closed at once; `None` never.
    pub(crate) hard_size: Option<u64>,
    /// Bytes at which it is closed if it stays above for `soft_duration`.
    pub(crate) soft_size: Option<u64>,
    /// See `soft_size`.
    pub(crate) soft_duration: Duration,
}

/// Those bounds by Redis' classes of clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct OutputLimits {
    /// Clients that ask and are answered.
    pub(crate) normal: OutputLimit,
    /// Clients that are sent a copy of the data.
    pub(crate) replica: OutputLimit,
    /// Clients that have subscribed.
    pub(crate) pubsub: OutputLimit,
}

impl OutputLimits {
    /// Redis' own, but for the bound on normal clients.
    pub(crate) const DEFAULT: &str = "normal 1gb 0 0 replica 256mb 64mb 60 pubsub 32mb 8mb 60";
}

impl FromStr for OutputLimits {
    type Err = String;

    /// Groups of `CLASS HARD SOFT SECONDS`; a class that is not named keeps its default, as in Redis' file.
    fn from_str(text: &str) -> Result<OutputLimits, String> {
        let mut limits = OutputLimits::default();
        let words = |text| str::split(text, [' ', ',']).filter(|word| !word.is_empty()).collect();
        let (defaults, named): (Vec<&str>, Vec<&str>) = (words(Self::DEFAULT), words(text));
        let (groups, rest) = named.as_chunks::<4>();
        if !rest.is_empty() {
            return Err(format!(
                "output limits are groups of CLASS HARD SOFT SECONDS, such as normal 1gb 0 0, not '{text}'"
            ));
        }
        for [class, hard, soft, seconds] in defaults.as_chunks::<4>().0.iter().chain(groups) {
            let size = |word: &str| word.parse::<Size>().map(|size| (size.0 > 0).then_some(size.0));
            let limit = OutputLimit {
                hard_size: size(hard)?,
                soft_size: size(soft)?,
                soft_duration: Duration::from_secs(
                    seconds.parse().map_err(|_| format!("'{seconds}' is not a number of seconds"))?,
                ),
            };
            match *class {
                "normal" => limits.normal = limit,
                "replica" | "slave" => limits.replica = limit,
                "pubsub" => limits.pubsub = limit,
                _ => return Err(format!("classes of clients are normal, replica and pubsub, not '{class}'")),
            }
        }
        Ok(limits)
    }
}

/// Reads a whole number in a range; the message names both ends.
pub(crate) fn whole<T>(min: T, max: T) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static
where
    T: FromStr + PartialOrd + fmt::Display + Copy + Send + Sync + 'static,
{
    move |text| match text.parse() {
        Ok(number) if min <= number && number <= max => Ok(number),
        _ => Err(format!("it is a whole number from {min} to {max}")),
    }
}

/// The name of a file, and no path.
pub(super) fn file_name(text: &str) -> Result<String, String> {
    let is_name = !text.is_empty() && text != "." && text != ".." && !text.contains('/');
    let is_plain =
        !text.contains(|letter: char| letter.is_whitespace() || letter.is_control() || letter == '"');
    if is_name && is_plain {
        Ok(text.to_owned())
    } else {
        Err("a file's name, without a path and spaces".to_owned())
    }
}

/// Pairs of seconds and changes, as Redis has them.
pub(super) fn save_points(text: &str) -> Result<String, String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let are_numbers = words.iter().all(|word| word.parse::<u32>().is_ok_and(|number| number > 0));
    if words.len().is_multiple_of(2) && are_numbers {
        Ok(words.join(" "))
    } else {
        Err("pairs of seconds and changes, such as \"3600 1 300 100\", or nothing".to_owned())
    }
}

/// `replicaof`: who is followed, or nobody.
pub(super) fn primary(text: &str) -> Result<String, String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    match words.as_slice() {
        [] => Ok(String::new()),
        [no, one] if no.eq_ignore_ascii_case("no") && one.eq_ignore_ascii_case("one") => Ok(String::new()),
        [host, port] if port.parse::<u16>().is_ok_and(|port| port > 0) => Ok(format!("{host} {port}")),
        _ => Err("a host and a port, such as 10.0.0.1 6379, or nothing".to_owned()),
    }
}

/// `appendfsync`, but for what is not to be had.
pub(super) fn fsync(text: &str) -> Result<String, String> {
    match text {
        "everysec" | "no" => Ok(text.to_owned()),
        "always" => Err("no reply waits for a disk here: everysec or no".to_owned()),
        _ => Err("everysec or no".to_owned()),
    }
}

/// Redis' way of writing a truth.
pub(super) fn yes_no(text: &str) -> Result<bool, String> {
    match text {
        "yes" => Ok(true),
        "no" => Ok(false),
        _ => Err(format!("it is yes or no, not '{text}'")),
    }
}

/// As Redis has them.
pub(super) fn events(text: &str) -> Result<EventClasses, String> {
    EventClasses::parse(text).map_err(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check<T: FromStr<Err = String> + PartialEq + fmt::Debug>(text: &str, want: Option<T>) {
        assert_eq!(text.parse().ok(), want, "{text:?}");
    }

    #[test]
    fn sizes_are_those_of_redis() {
        for (text, want) in
            [("0", 0), ("100", 100), ("1b", 1), ("2k", 2000), ("2kb", 2048), ("3M", 3_000_000)]
        {
            check(text, Some(Size(want)));
        }
        check("100mb", Some(Size(100 << 20)));
        check("1GB", Some(Size(1 << 30)));
        check("17179869184gb", None::<Size>);
        for text in ["", "mb", "-1", "1.5gb", "1 gb", "1tb", "0x10"] {
            check(text, None::<Size>);
        }
        for (size, want) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1536, "1.5 KiB"),
            (100 << 20, "100 MiB"),
            (u64::MAX, "17179869183.9 GiB"),
        ] {
            assert_eq!(Size(size).to_string(), want);
        }
    }

    #[test]
    fn durations_have_units() {
        check("50us", Some(Span(Some(Duration::from_micros(50)))));
        check("1ms", Some(Span(Some(Duration::from_millis(1)))));
        check("off", Some(Span(None)));
        check("0s", Some(Span(None)));
        for text in ["5", "", "ms", "-1ms", "fast"] {
            check(text, None::<Span>);
        }
    }

    #[test]
    fn cpus_are_lists_of_ranges() {
        check("0", Some(CpuList(vec![0])));
        check("4-6,1", Some(CpuList(vec![4, 5, 6, 1])));
        for text in ["", "a", "3-1", "1,1", "0-2,2", "1-", "0-99999999"] {
            check(text, None::<CpuList>);
        }
        for text in ["0", "0-3", "0-1,4,6-7"] {
            assert_eq!(text.parse::<CpuList>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn addresses_may_be_optional() {
        let address = |ip: &str, is_optional| Some(BindAddress { ip: ip.parse().unwrap(), is_optional });
        check("-::1", address("::1", true));
        check(" 10.1.2.3", address("10.1.2.3", false));
        check("*", address("0.0.0.0", false));
        check("-::*", address("::", true));
        check("example", None::<BindAddress>);
    }

    #[test]
    fn the_rest_is_strict() {
        check("auto", Some(LanesCount::Auto));
        check("251", Some(LanesCount::Count(251)));
        check("252", None::<LanesCount>);
        check("off", Some(LanePorts(None)));
        check("7000", Some(LanePorts(Some(Ports { first: 7000, step: 1 }))));
        check("7000+10", Some(LanePorts(Some(Ports { first: 7000, step: 10 }))));
        for wrong in ["7000+", "7000+0", "+10", "7000+10+1", "7000-10", "0+1", "65536"] {
            check(wrong, None::<LanePorts>);
            check(wrong, None::<DialectPort>);
        }
        check("3000+2", Some(DialectPort::At(Ports { first: 3000, step: 2 })));
        check("0", None::<LanePorts>);
        check("770", Some(Mode(0o770)));
        check("1777", None::<Mode>);
        check("8", None::<Mode>);
        check("5%", Some(ClientsMemory::Percent(5)));
        check("0%", None::<ClientsMemory>);
        let limits: OutputLimits = "normal 1kb 1k 3 pubsub 2mb 0 0".parse().unwrap();
        assert_eq!((limits.normal.hard_size, limits.normal.soft_size), (Some(1024), Some(1000)));
        assert_eq!(limits.normal.soft_duration, Duration::from_secs(3));
        assert_eq!((limits.pubsub.hard_size, limits.pubsub.soft_size), (Some(2 << 20), None));
        // What is not named keeps its default.
        assert_eq!((limits.replica.hard_size, limits.replica.soft_size), (Some(256 << 20), Some(64 << 20)));
        let limits: OutputLimits = "pubsub 0 0 0".parse().unwrap();
        assert_eq!((limits.normal.hard_size, limits.pubsub.hard_size), (Some(1 << 30), None));
        check("normal 1 2", None::<OutputLimits>);
        check("other 1 2 3", None::<OutputLimits>);
    }
}

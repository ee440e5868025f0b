//! Routing rules by their preference, and routes of a table. Sources: rtnetlink(7), include/uapi/linux/fib_rules.h.

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::errno::invalid;
use super::filter::{address_of, octets, parse_prefix, prefix_text};
use super::netlink::{Attributes, CREATE, DUMP, EXCLUSIVE, Message, Netlink, Reply};
use crate::kernel::Cause;
use crate::knob::{Family, Knob};
use crate::{Refusal, Setting};

const NEW_ROUTE: u16 = 24;
const DELETE_ROUTE: u16 = 25;
const GET_ROUTE: u16 = 26;
const NEW_RULE: u16 = 32;
const DELETE_RULE: u16 = 33;
const GET_RULE: u16 = 34;

/// `struct fib_rule_hdr` and `struct rtmsg` both: family, destination length, source length, tos, table, two more, type or
/// action (each u8), flags u32.
const HEADER_SIZE: usize = 12;
const DESTINATION_LENGTH: usize = 1;
const SOURCE_LENGTH: usize = 2;
const TABLE: usize = 4;
const PROTOCOL: usize = 5;
const SCOPE: usize = 6;
const KIND: usize = 7;

const RULE_DESTINATION: u16 = 1;
const RULE_SOURCE: u16 = 2;
const RULE_IN: u16 = 3;
const RULE_PREFERENCE: u16 = 6;
const RULE_MARK: u16 = 10;
const RULE_TABLE: u16 = 15;
const RULE_OUT: u16 = 17;
/// Look into the table.
const RULE_LOOKUP: u8 = 1;

const ROUTE_DESTINATION: u16 = 1;
const ROUTE_OUT: u16 = 4;
const ROUTE_GATEWAY: u16 = 5;
const ROUTE_SOURCE: u16 = 7;
const ROUTE_TABLE: u16 = 15;
const UNICAST: u8 = 1;
/// Made by an administrator.
const STATIC: u8 = 4;
const SCOPE_UNIVERSE: u8 = 0;
const SCOPE_LINK: u8 = 253;

fn family_number(family: Family) -> u8 {
    let number = match family {
        Family::Inet => libc::AF_INET,
        Family::Inet6 => libc::AF_INET6,
    };
    number.try_into().expect("families are small")
}

fn bits(family: Family) -> u8 {
    match family {
        Family::Inet => 32,
        Family::Inet6 => 128,
    }
}

fn is_of(address: IpAddr, family: Family) -> bool {
    address.is_ipv4() == (family == Family::Inet)
}

fn table_of(header: &[u8; HEADER_SIZE], attributes: Attributes<'_>, kind: u16) -> u32 {
    attributes.u32(kind).unwrap_or_else(|| header[TABLE].into())
}

fn rule_text(header: &[u8; HEADER_SIZE], attributes: Attributes<'_>) -> String {
    let prefix = |kind: u16, length: u8| {
        attributes.find(kind).and_then(address_of).map(|address| prefix_text(address, length))
    };
    let from = prefix(RULE_SOURCE, header[SOURCE_LENGTH]);
    let mut text = format!("from {}", from.as_deref().unwrap_or("all"));
    if let Some(to) = prefix(RULE_DESTINATION, header[DESTINATION_LENGTH]) {
        text += &format!(" to {to}");
    }
    for (word, kind) in [("iif", RULE_IN), ("oif", RULE_OUT)] {
        if let Some(name) = attributes.text(kind) {
            text += &format!(" {word} {name}");
        }
    }
    match attributes.u32(RULE_MARK) {
        None | Some(0) => {}
        Some(mark) => text += &format!(" fwmark 0x{mark:x}"),
    }
    match header[KIND] {
        RULE_LOOKUP => text + &format!(" lookup {}", table_of(header, attributes, RULE_TABLE)),
        other => text + &format!(" action {other}"),
    }
}

/// Rules of a family: preference and text.
fn rules(netlink: &mut Netlink, family: Family) -> Result<Vec<(u32, String)>, Refusal> {
    let mut header = [0; HEADER_SIZE];
    header[0] = family_number(family);
    let replies = netlink.ask(&Message::new(GET_RULE, DUMP, &header))?;
    let rule = |reply: &Reply| {
        let (header, attributes) = reply.split::<HEADER_SIZE>();
        (attributes.u32(RULE_PREFERENCE).unwrap_or(0), rule_text(&header, attributes))
    };
    Ok(replies.iter().map(rule).collect())
}

pub(super) fn read_rule(
    netlink: &mut Netlink,
    family: Family,
    pref: u32,
) -> Result<Option<Setting>, Refusal> {
    let found = rules(netlink, family)?.into_iter().find(|(this, _)| *this == pref);
    Ok(found.map(|(_, text)| Setting::new(text)))
}

/// Rules and routes whose preference and table is at least `first`, by the paths of their knobs.
pub(crate) fn from(netlink: &mut Netlink, first: u32) -> Result<BTreeMap<String, String>, Refusal> {
    let mut found = BTreeMap::new();
    for family in [Family::Inet, Family::Inet6] {
        let rules = rules(netlink, family)?.into_iter().filter(|(pref, _)| *pref >= first);
        found.extend(rules.map(|(pref, text)| (Knob::Rule { family, pref }.to_string(), text)));
        for (table, destination, text) in routes(netlink, family, 0)? {
            if table >= first {
                let destination =
                    destination.map_or_else(|| "default".to_owned(), |(it, length)| prefix_text(it, length));
                found.insert(Knob::Route { family, table, destination }.to_string(), text);
            }
        }
    }
    Ok(found)
}

/// One that is there is taken away first.
pub(super) fn write_rule(
    netlink: &mut Netlink,
    family: Family,
    pref: u32,
    value: Option<&Setting>,
) -> Result<(), Refusal> {
    let add = value.map(|value| rule_request(family, pref, value)).transpose()?;
    if let Some(now) = read_rule(netlink, family, pref)? {
        // The kernel takes away the first that agrees with all that is said: this one.
        let mut request = rule_request(family, pref, &now)?;
        request.set_kind(DELETE_RULE, 0);
        netlink.ask(&request)?;
    }
    match add {
        Some(request) => netlink.ask(&request).map(|_| ()),
        None => Ok(()),
    }
}

fn rule_request(family: Family, pref: u32, value: &Setting) -> Result<Message, Refusal> {
    let bad = || invalid(format!("'{value}' is not like 'from 10.0.0.1 lookup 49001' of this family"));
    let mut header = [0; HEADER_SIZE];
    header[0] = family_number(family);
    header[KIND] = RULE_LOOKUP;
    let (mut addresses, mut names, mut mark, mut table) = (Vec::new(), Vec::new(), None, None);
    let mut words = value.words();
    while let Some(word) = words.next() {
        let argument = words.next().ok_or_else(bad)?;
        match word {
            "from" | "to" if argument == "all" => {}
            "from" | "to" => {
                let (address, length) =
                    parse_prefix(argument).filter(|(address, _)| is_of(*address, family)).ok_or_else(bad)?;
                let (place, kind) = match word {
                    "from" => (SOURCE_LENGTH, RULE_SOURCE),
                    _ => (DESTINATION_LENGTH, RULE_DESTINATION),
                };
                header[place] = length;
                addresses.push((kind, octets(address)));
            }
            "iif" => names.push((RULE_IN, argument)),
            "oif" => names.push((RULE_OUT, argument)),
            "fwmark" => {
                let digits = argument.strip_prefix("0x").ok_or_else(bad)?;
                mark = Some(u32::from_str_radix(digits, 16).map_err(|_| bad())?);
            }
            "lookup" => table = Some(argument.parse::<u32>().map_err(|_| bad())?),
            _ => return Err(bad()),
        }
    }
    let table = table.ok_or_else(bad)?;
    let mut request = Message::new(NEW_RULE, CREATE | EXCLUSIVE, &header);
    for (kind, octets) in addresses {
        request.put(kind, &octets);
    }
    for (kind, name) in names {
        request.put_text(kind, name);
    }
    if let Some(mark) = mark {
        request.put_u32(RULE_MARK, mark);
    }
    request.put_u32(RULE_PREFERENCE, pref).put_u32(RULE_TABLE, table);
    Ok(request)
}

/// The interface's name for a number.
fn name_of(interface: u32) -> Option<String> {
    let mut name = [0_u8; libc::IF_NAMESIZE];
    // SAFETY: the kernel's library writes at most IF_NAMESIZE bytes, with a zero, into an array of that size.
    let found = unsafe { libc::if_indextoname(interface, name.as_mut_ptr().cast()) };
    let end = name.iter().position(|byte| *byte == 0)?;
    (!found.is_null()).then(|| String::from_utf8_lossy(&name[..end]).into_owned())
}

/// `default` or a prefix of the family.
fn destination(family: Family, text: &str) -> Result<Option<(IpAddr, u8)>, Refusal> {
    if text == "default" {
        return Ok(None);
    }
    let found = parse_prefix(text).filter(|(address, _)| is_of(*address, family));
    found
        .map(Some)
        .ok_or_else(|| invalid(format!("'{text}' is neither 'default' nor a prefix of this family")))
}

/// A route as it is told: table, destination (none: default) and text.
type Told = (u32, Option<(IpAddr, u8)>, String);

/// Routes of a family, of one table or of all (0).
fn routes(netlink: &mut Netlink, family: Family, table: u32) -> Result<Vec<Told>, Refusal> {
    let mut header = [0; HEADER_SIZE];
    header[0] = family_number(family);
    let mut request = Message::new(GET_ROUTE, DUMP, &header);
    if table != 0 {
        request.put_u32(ROUTE_TABLE, table);
    }
    let replies = match netlink.ask(&request) {
        // A table that nobody has filled yet.
        Err(refusal) if refusal.cause == Cause::Gone => return Ok(Vec::new()),
        replies => replies?,
    };
    let route = |reply: &Reply| {
        let (header, attributes) = reply.split::<HEADER_SIZE>();
        let destination = attributes.find(ROUTE_DESTINATION).and_then(address_of);
        let destination = destination.map(|address| (address, header[DESTINATION_LENGTH]));
        let is_of_family = header[0] == family_number(family);
        is_of_family
            .then(|| (table_of(&header, attributes, ROUTE_TABLE), destination, route_text(attributes)))
    };
    Ok(replies.iter().filter_map(route).collect())
}

pub(super) fn read_route(
    netlink: &mut Netlink,
    family: Family,
    table: u32,
    to: &str,
) -> Result<Option<Setting>, Refusal> {
    let wanted = destination(family, to)?;
    let found =
        routes(netlink, family, table)?.into_iter().find(|(this, to, _)| *this == table && *to == wanted);
    Ok(found.map(|(.., text)| Setting::new(text)))
}

fn route_text(attributes: Attributes<'_>) -> String {
    let address = |kind: u16| attributes.find(kind).and_then(address_of);
    let via = address(ROUTE_GATEWAY).map(|gateway| format!("via {gateway} ")).unwrap_or_default();
    let out = attributes.u32(ROUTE_OUT).and_then(name_of);
    let out = out.map(|name| format!("dev {name}")).unwrap_or_default();
    let source = address(ROUTE_SOURCE).map(|source| format!(" src {source}")).unwrap_or_default();
    format!("{via}{out}{source}")
}

pub(super) fn write_route(
    netlink: &mut Netlink,
    family: Family,
    table: u32,
    to: &str,
    value: Option<&Setting>,
) -> Result<(), Refusal> {
    let add = value.map(|value| route_request(family, table, to, value)).transpose()?;
    if let Some(now) = read_route(netlink, family, table, to)? {
        let mut request = route_request(family, table, to, &now)?;
        request.set_kind(DELETE_ROUTE, 0);
        netlink.ask(&request)?;
    }
    match add {
        Some(request) => netlink.ask(&request).map(|_| ()),
        None => Ok(()),
    }
}

fn route_request(family: Family, table: u32, to: &str, value: &Setting) -> Result<Message, Refusal> {
    let bad = || invalid(format!("'{value}' is not like 'via 10.0.0.254 dev ens1' of this family"));
    let address = |text: Option<&str>| -> Result<Option<IpAddr>, Refusal> {
        let Some(text) = text else { return Ok(None) };
        let address = text.parse().ok().filter(|address| is_of(*address, family));
        address.map(Some).ok_or_else(bad)
    };
    let words: Vec<&str> = value.words().collect();
    let is_known = |pair: &[&str]| pair.len() == 2 && matches!(pair[0], "via" | "dev" | "src");
    let nic = value.after("dev").ok_or_else(bad)?;
    if !words.chunks(2).all(is_known) {
        return Err(bad());
    }
    let (via, source) = (address(value.after("via"))?, address(value.after("src"))?);
    let mut header = [0; HEADER_SIZE];
    let destination = destination(family, to)?;
    header[0] = family_number(family);
    header[DESTINATION_LENGTH] = destination.map_or(0, |(_, length)| length.min(bits(family)));
    header[PROTOCOL] = STATIC;
    header[SCOPE] = if via.is_some() || family == Family::Inet6 { SCOPE_UNIVERSE } else { SCOPE_LINK };
    header[KIND] = UNICAST;
    let mut request = Message::new(NEW_ROUTE, CREATE | EXCLUSIVE, &header);
    request.put_u32(ROUTE_TABLE, table).put_u32(ROUTE_OUT, super::interface(nic)?);
    for (kind, address) in [
        (ROUTE_DESTINATION, destination.map(|(address, _)| address)),
        (ROUTE_GATEWAY, via),
        (ROUTE_SOURCE, source),
    ] {
        if let Some(address) = address {
            request.put(kind, &octets(address));
        }
    }
    Ok(request)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_that_is_written_is_read_again() {
        let check = |family: Family, want: &str| {
            let request = rule_request(family, 49001, &Setting::new(want)).unwrap();
            let attributes = request.attributes(HEADER_SIZE);
            assert_eq!(attributes.u32(RULE_PREFERENCE), Some(49001));
            assert_eq!(rule_text(&request.header(), attributes), want);
        };
        check(Family::Inet, "from 10.0.0.1 lookup 49001");
        check(Family::Inet, "from 10.0.0.0/24 to 10.1.0.0/16 iif lo oif eth0 fwmark 0x1f lookup 254");
        check(Family::Inet6, "from 2001:db8::/32 lookup 49001");
        check(Family::Inet, "from all lookup 7");
    }

    #[test]
    fn what_is_no_rule_or_route_is_refused() {
        for text in [
            "",
            "from 10.0.0.1",
            "from 2001:db8::1 lookup 1",
            "from 10.0.0.1 lookup x",
            "from 10.0.0.1 drop 1",
        ] {
            assert!(rule_request(Family::Inet, 1, &Setting::new(text)).is_err(), "{text}");
        }
        for text in ["", "via 10.0.0.1", "via 2001:db8::1 dev lo", "dev lo metric 5", "dev lo via"] {
            assert!(route_request(Family::Inet, 1, "default", &Setting::new(text)).is_err(), "{text}");
        }
        assert!(destination(Family::Inet6, "10.0.0.0/8").is_err());
    }
}

//! What rtnetlink says of interfaces besides queueing: addresses, gateways, XDP. Source: rtnetlink(7), if_link.h.

use std::net::IpAddr;

use super::filter::{address_of, prefix_text};
use super::netlink::{Attributes, DUMP, HEADER_SIZE, Message, Netlink, u16_at, u32_at};
use crate::Refusal;

const NEW_LINK: u16 = 16;
const DELETE_LINK: u16 = 17;
const GET_LINK: u16 = 18;
const GET_ADDRESS: u16 = 22;
const GET_ROUTE: u16 = 26;

/// `struct ifinfomsg`: family u8, nothing u8, type u16, index i32, flags u32, change u32.
const LINK_HEADER_SIZE: usize = 16;
const LINK_INDEX_OFFSET: usize = 4;
const LINK_XDP: u16 = 43;
const XDP_ATTACHED: u16 = 2;
/// What makes the kernel tell of a link, where it says so (`enum` of `IFLA_EVENT_NONE`): a feature was switched.
const LINK_EVENT: u16 = 44;
const EVENT_FEATURES: u32 = 2;

/// `struct ifaddrmsg`: family, prefix length, flags, scope (each u8), index u32.
const ADDRESS_HEADER_SIZE: usize = 8;
const ADDRESS: u16 = 1;
const ADDRESS_LOCAL: u16 = 2;

const ROUTE_HEADER_SIZE: usize = 12;
const ROUTE_DESTINATION_LENGTH: usize = 1;
const ROUTE_TABLE: usize = 4;
const ROUTE_OUT: u16 = 4;
const ROUTE_GATEWAY: u16 = 5;
const TABLE_MAIN: u8 = 254;

/// Whether an XDP program runs on an interface.
pub(crate) fn has_xdp(netlink: &mut Netlink, interface: u32) -> Result<bool, Refusal> {
    let mut header = [0; LINK_HEADER_SIZE];
    header[LINK_INDEX_OFFSET..][..4].copy_from_slice(&interface.to_ne_bytes());
    let replies = netlink.ask(&Message::new(GET_LINK, 0, &header))?;
    let attached = replies
        .first()
        .and_then(|reply| reply.split::<LINK_HEADER_SIZE>().1.within(LINK_XDP).u8(XDP_ATTACHED));
    Ok(attached.is_some_and(|kind| kind != 0))
}

/// Addresses with their prefix and the number of their interface.
pub(crate) fn addresses(netlink: &mut Netlink) -> Result<Vec<(u32, IpAddr, u8)>, Refusal> {
    let replies = netlink.ask(&Message::new(GET_ADDRESS, DUMP, &[0; ADDRESS_HEADER_SIZE]))?;
    let address = |reply: &super::netlink::Reply| {
        let (header, attributes) = reply.split::<ADDRESS_HEADER_SIZE>();
        let bytes = attributes.find(ADDRESS_LOCAL).or_else(|| attributes.find(ADDRESS))?;
        Some((u32_at(&header, 4), address_of(bytes)?, header[1]))
    };
    Ok(replies.iter().filter_map(address).collect())
}

/// With its prefix, always: `10.0.0.1/24`, `10.0.0.1/32`.
pub(crate) fn address_text(address: IpAddr, length: u8) -> String {
    let text = prefix_text(address, length);
    if text.contains('/') { text } else { format!("{text}/{length}") }
}

/// Gateways of the main table's default routes, and the number of the interface that each leads over.
pub(crate) fn gateways(netlink: &mut Netlink) -> Result<Vec<(u32, IpAddr)>, Refusal> {
    let replies = netlink.ask(&Message::new(GET_ROUTE, DUMP, &[0; ROUTE_HEADER_SIZE]))?;
    let gateway = |reply: &super::netlink::Reply| {
        let (header, attributes) = reply.split::<ROUTE_HEADER_SIZE>();
        let is_default = header[ROUTE_DESTINATION_LENGTH] == 0 && header[ROUTE_TABLE] == TABLE_MAIN;
        let gateway = attributes.find(ROUTE_GATEWAY).and_then(address_of)?;
        is_default.then_some((attributes.u32(ROUTE_OUT)?, gateway))
    };
    Ok(replies.iter().filter_map(gateway).collect())
}

/// Numbers of the interfaces that came, went or changed their state, of the messages in a piece. A switched feature is somebody's
/// doing and no change of the link; a message that is cut off before it says so counts.
pub(crate) fn changed(piece: &[u8]) -> Vec<u32> {
    let mut changed = Vec::new();
    let mut rest = piece;
    while rest.len() >= HEADER_SIZE + LINK_HEADER_SIZE {
        let length = (u32_at(rest, 0) as usize).clamp(HEADER_SIZE, rest.len());
        let (message, behind) = rest.split_at(length.next_multiple_of(4).min(rest.len()));
        rest = behind;
        let attributes = Attributes(message.get(HEADER_SIZE + LINK_HEADER_SIZE..).unwrap_or_default());
        let is_link = matches!(u16_at(message, 4), NEW_LINK | DELETE_LINK);
        if is_link && attributes.u32(LINK_EVENT) != Some(EVENT_FEATURES) {
            changed.push(u32_at(message, HEADER_SIZE + LINK_INDEX_OFFSET));
        }
    }
    changed
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A message as the kernel sends it: its length, kind, the interface's number, attributes.
    fn told(kind: u16, interface: u32, attributes: &[(u16, u32)]) -> Vec<u8> {
        let mut header = [0; LINK_HEADER_SIZE];
        header[LINK_INDEX_OFFSET..][..4].copy_from_slice(&interface.to_ne_bytes());
        let mut message = Message::new(kind, 0, &header);
        for (kind, value) in attributes {
            message.put_u32(*kind, *value);
        }
        let mut bytes = message.into_bytes();
        let length = u32::try_from(bytes.len()).unwrap();
        bytes[..4].copy_from_slice(&length.to_ne_bytes());
        bytes
    }

    #[test]
    fn a_link_that_changed_is_told_from_a_feature_that_was_switched() {
        let check = |pieces: &[Vec<u8>], want: &[u32]| assert_eq!(changed(&pieces.concat()), want);
        check(&[told(NEW_LINK, 4, &[])], &[4]);
        check(&[told(DELETE_LINK, 5, &[(4, 1500)])], &[5]);
        check(&[told(NEW_LINK, 4, &[(4, 1500), (LINK_EVENT, EVENT_FEATURES)])], &[]);
        check(&[told(NEW_LINK, 4, &[(LINK_EVENT, 1)])], &[4]);
        // A route is no link.
        check(&[told(24, 4, &[])], &[]);
        let both = [told(NEW_LINK, 4, &[(LINK_EVENT, EVENT_FEATURES)]), told(NEW_LINK, 7, &[])];
        check(&both, &[7]);
        check(&[], &[]);
        // Cut off before it says that it is a feature: who reads it looks once too often.
        let whole = told(NEW_LINK, 4, &[(4, 1500), (LINK_EVENT, EVENT_FEATURES)]);
        for end in 0..whole.len() {
            let want: &[u32] = if end < HEADER_SIZE + LINK_HEADER_SIZE { &[] } else { &[4] };
            check(&[whole[..end].to_vec()], want);
        }
        // A length of nothing ends.
        check(&[vec![0; 64]], &[]);
    }
}

//! What rtnetlink says of interfaces besides queueing: addresses, gateways, XDP. Source: rtnetlink(7), if_link.h.

use std::net::IpAddr;

use super::filter::{address_of, prefix_text};
use super::netlink::{DUMP, Message, Netlink, u32_at};
use crate::Refusal;

const GET_LINK: u16 = 18;
const GET_ADDRESS: u16 = 22;
const GET_ROUTE: u16 = 26;

/// `struct ifinfomsg`: family u8, nothing u8, type u16, index i32, flags u32, change u32.
const LINK_HEADER_SIZE: usize = 16;
const LINK_XDP: u16 = 43;
const XDP_ATTACHED: u16 = 2;

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
    header[4..8].copy_from_slice(&interface.to_ne_bytes());
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

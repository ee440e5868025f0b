//! A card's devlink device: its parameters at run time, and the modes in which a driver refuses what its features promise. Sources:
//! Documentation/networking/devlink/devlink-params.rst, ice.rst beside it, include/uapi/linux/devlink.h.

use std::collections::BTreeMap;

use super::errno::{invalid, unsupported};
use super::files::Files;
use super::netlink::{Attributes, DUMP, Family, GENERIC_HEADER_SIZE, Message, Netlink, Reply};
use crate::kernel::Cause;
use crate::{Refusal, Setting};

const FAMILY: &str = "devlink";
const SWITCH_GET: u8 = 29;
const GET: u8 = 38;
const SET: u8 = 39;
const INFO_GET: u8 = 51;

const BUS: u16 = 1;
const DEVICE: u16 = 2;
const SWITCH_MODE: u16 = 25;
/// The card's own switch forwards by what is set by others, not by addresses alone.
const MODE_LEGACY: u16 = 0;
const PARAMETER: u16 = 80;
const NAME: u16 = 81;
const TYPE: u16 = 83;
const VALUES: u16 = 84;
const VALUE: u16 = 85;
const VALUE_DATA: u16 = 86;
const VALUE_MODE: u16 = 87;
/// It holds at once, and until the driver goes.
const MODE_RUNTIME: u8 = 0;
const VERSION_RUNNING: u16 = 101;
const VERSION_NAME: u16 = 103;
const VERSION_VALUE: u16 = 104;
/// The version that ice tells of its DDP package: absent or empty without one.
const PACKAGE_NAME: &str = "fw.app.name";

/// Types, as netlink numbers them (`NLA_U8` and on).
const TYPE_U8: u8 = 1;
const TYPE_U16: u8 = 2;
const TYPE_U32: u8 = 3;
const TYPE_U64: u8 = 4;
const TYPE_TEXT: u8 = 5;
const TYPE_FLAG: u8 = 6;

/// A request about a card's device, which is found where /sys says that the card hangs.
fn request(
    netlink: &mut Netlink,
    files: &Files,
    nic: &str,
    command: u8,
    flags: u16,
) -> Result<Message, Refusal> {
    let device = format!("sys/class/net/{nic}/device");
    let (Some(place), Some(bus)) = (files.link(&device), files.link(&format!("{device}/subsystem"))) else {
        return Err(unsupported(format!("{nic} has no devlink device: it hangs on no bus")));
    };
    let family = Family::find(netlink, FAMILY)?
        .ok_or_else(|| unsupported("this kernel has no devlink, or no driver that uses it is loaded"))?;
    let mut request = family.request(command, flags);
    request.put_text(BUS, &bus).put_text(DEVICE, &place);
    Ok(request)
}

/// Name, type, and the value at run time of an answer's parameter.
fn parameter(attributes: Attributes<'_>) -> Option<(String, u8, String)> {
    let parameter = attributes.within(PARAMETER);
    let kind = parameter.u8(TYPE)?;
    let values =
        parameter.within(VALUES).filter(|(kind, _)| *kind == VALUE).map(|(_, value)| Attributes(value));
    let value = values.into_iter().find(|value| value.u8(VALUE_MODE) == Some(MODE_RUNTIME))?;
    let text = match kind {
        TYPE_FLAG => value.find(VALUE_DATA).is_some().to_string(),
        TYPE_TEXT => value.text(VALUE_DATA)?,
        _ => value.number(VALUE_DATA)?.to_string(),
    };
    Some((parameter.text(NAME)?, kind, text))
}

/// All that the device has at run time.
pub(crate) fn all(
    netlink: &mut Netlink,
    files: &Files,
    nic: &str,
) -> Result<BTreeMap<String, String>, Refusal> {
    let request = request(netlink, files, nic, GET, DUMP)?;
    let replies = netlink.ask(&request)?;
    let text = |attributes: Attributes<'_>, kind| attributes.text(kind);
    let place = files.link(&format!("sys/class/net/{nic}/device"));
    let found = replies.iter().filter_map(|reply| {
        let attributes = reply.split::<GENERIC_HEADER_SIZE>().1;
        // Kernels that don't filter tell those of all devices.
        (text(attributes, DEVICE) == place).then(|| parameter(attributes)).flatten()
    });
    Ok(found.map(|(name, _, value)| (name, value)).collect())
}

/// Modes that are in the way of lanes, as [`crate::facts::Nic::hindrances`] has them. What a device does not tell is none.
pub(crate) fn hindrances(
    netlink: &mut Netlink,
    files: &Files,
    nic: &str,
    driver: &str,
) -> Result<Vec<&'static str>, Refusal> {
    let mut ask = |command| -> Result<Vec<Reply>, Refusal> {
        let request = request(netlink, files, nic, command, 0)?;
        match netlink.ask(&request) {
            Err(refusal) if matches!(refusal.cause, Cause::Unsupported | Cause::Invalid) => Ok(Vec::new()),
            replies => replies,
        }
    };
    let mut found = Vec::new();
    let switch = ask(SWITCH_GET)?;
    found.extend(
        switch.iter().any(|it| is_switchdev(it.split::<GENERIC_HEADER_SIZE>().1)).then_some("switchdev"),
    );
    if driver == "ice" {
        let info = ask(INFO_GET)?;
        found.extend(
            info.iter().any(|it| is_safe_mode(it.split::<GENERIC_HEADER_SIZE>().1)).then_some("safe-mode"),
        );
    }
    Ok(found)
}

fn is_switchdev(attributes: Attributes<'_>) -> bool {
    attributes.u16(SWITCH_MODE).is_some_and(|mode| mode != MODE_LEGACY)
}

/// ice without its DDP package: it tells versions, and none of a package (`ice_devlink_info_get`).
fn is_safe_mode(attributes: Attributes<'_>) -> bool {
    let running = || attributes.filter(|(kind, _)| *kind == VERSION_RUNNING).map(|(_, it)| Attributes(it));
    let is_package = |version: &Attributes<'_>| {
        version.text(VERSION_NAME).as_deref() == Some(PACKAGE_NAME)
            && version.text(VERSION_VALUE).is_some_and(|name| !name.is_empty())
    };
    running().next().is_some() && !running().any(|version| is_package(&version))
}

fn one(netlink: &mut Netlink, files: &Files, nic: &str, name: &str) -> Result<(u8, String), Refusal> {
    let mut request = request(netlink, files, nic, GET, 0)?;
    request.put_text(NAME, name);
    let replies = netlink.ask(&request)?;
    let found = replies.iter().find_map(|reply| parameter(reply.split::<GENERIC_HEADER_SIZE>().1));
    found
        .map(|(_, kind, text)| (kind, text))
        .ok_or_else(|| unsupported(format!("the device of {nic} has no parameter {name} at run time")))
}

pub(super) fn read(
    netlink: &mut Netlink,
    files: &Files,
    nic: &str,
    name: &str,
) -> Result<Option<Setting>, Refusal> {
    Ok(Some(Setting::new(one(netlink, files, nic, name)?.1)))
}

pub(super) fn write(
    netlink: &mut Netlink,
    files: &Files,
    nic: &str,
    name: &str,
    value: &Setting,
) -> Result<(), Refusal> {
    let (kind, _) = one(netlink, files, nic, name)?;
    let mut request = request(netlink, files, nic, SET, 0)?;
    request.put_text(NAME, name);
    put_value(&mut request, kind, value)?;
    netlink.ask(&request).map(|_| ())
}

fn put_value(request: &mut Message, kind: u8, value: &Setting) -> Result<(), Refusal> {
    let text = value.as_str();
    let bad = |_| invalid(format!("'{text}' is no number of the parameter's width"));
    request.put_u8(TYPE, kind).put_u8(VALUE_MODE, MODE_RUNTIME);
    match kind {
        TYPE_U8 => request.put_u8(VALUE_DATA, text.parse().map_err(bad)?),
        TYPE_U16 => request.put_u16(VALUE_DATA, text.parse().map_err(bad)?),
        TYPE_U32 => request.put_u32(VALUE_DATA, text.parse().map_err(bad)?),
        TYPE_U64 => request.put_u64(VALUE_DATA, text.parse().map_err(bad)?),
        TYPE_TEXT => request.put_text(VALUE_DATA, text),
        TYPE_FLAG => match text {
            "true" => request.put(VALUE_DATA, &[]),
            "false" => request,
            _ => return Err(invalid(format!("'{text}' is neither 'true' nor 'false'"))),
        },
        other => return Err(unsupported(format!("a parameter of type {other} can't be set here"))),
    };
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An answer as a driver gives it, with another value for after a reload beside that of now.
    fn answer(kind: u8, data: Option<&[u8]>) -> Message {
        let mut message = Message::new(0, 0, &[]);
        message.nest(PARAMETER, &[], |parameter| {
            parameter.put_text(NAME, "tc1_inline_fd").put_u8(TYPE, kind);
            parameter.nest(VALUES, &[], |values| {
                values.nest(VALUE, &[], |value| {
                    value.put_u8(VALUE_DATA, 99).put_u8(VALUE_MODE, 2);
                });
                values.nest(VALUE, &[], |value| {
                    if let Some(data) = data {
                        value.put(VALUE_DATA, data);
                    }
                    value.put_u8(VALUE_MODE, MODE_RUNTIME);
                });
            });
        });
        message
    }

    #[test]
    fn a_parameters_value_is_that_of_now() {
        let check = |kind: u8, data: Option<&[u8]>, want: &str| {
            let message = answer(kind, data);
            let (name, _, text) = parameter(message.attributes(0)).unwrap();
            assert_eq!((name.as_str(), text.as_str()), ("tc1_inline_fd", want));
        };
        check(TYPE_FLAG, None, "false");
        check(TYPE_FLAG, Some(&[]), "true");
        check(TYPE_U8, Some(&[7]), "7");
        check(TYPE_U32, Some(&10_000_u32.to_ne_bytes()), "10000");
        check(TYPE_TEXT, Some(b"smfs\0"), "smfs");
    }

    #[test]
    fn a_value_has_its_type_and_says_that_it_holds_at_once() {
        let mut message = Message::new(0, 0, &[]);
        put_value(&mut message, TYPE_U16, &Setting::new("300")).unwrap();
        let attributes = message.attributes(0);
        assert_eq!((attributes.u8(TYPE), attributes.u8(VALUE_MODE)), (Some(TYPE_U16), Some(0)));
        assert_eq!(attributes.find(VALUE_DATA).unwrap(), 300_u16.to_ne_bytes());
        for (kind, odd) in [(TYPE_U8, "256"), (TYPE_FLAG, "on"), (TYPE_U32, "x"), (77, "1")] {
            assert!(put_value(&mut Message::new(0, 0, &[]), kind, &Setting::new(odd)).is_err(), "{odd}");
        }
    }

    #[test]
    fn a_switch_that_others_program_is_in_the_way() {
        let told = |mode: Option<u16>| {
            let mut message = Message::new(0, 0, &[]);
            if let Some(mode) = mode {
                message.put_u16(SWITCH_MODE, mode);
            }
            is_switchdev(message.attributes(0))
        };
        assert_eq!([Some(0), Some(1), Some(2), None].map(told), [false, true, true, false]);
    }

    #[test]
    fn ice_without_its_package_is_in_safe_mode() {
        let told = |versions: &[(&str, &str)]| {
            let mut message = Message::new(0, 0, &[]);
            for (name, value) in versions {
                message.nest(VERSION_RUNNING, &[], |version| {
                    version.put_text(VERSION_NAME, name).put_text(VERSION_VALUE, value);
                });
            }
            is_safe_mode(message.attributes(0))
        };
        let firmware = ("fw.mgmt", "6.2.14");
        assert!(!told(&[firmware, ("fw.app.name", "ICE OS Default Package"), ("fw.app", "1.3.30.0")]));
        assert!(
            told(&[firmware, ("fw.app.name", ""), ("fw.app", "0.0.0.0")]),
            "older kernels tell an empty one"
        );
        assert!(told(&[firmware, ("fw.app", "0.0.0.0")]), "newer ones leave it out");
        assert!(!told(&[]), "who tells nothing tells nothing of this");
    }
}

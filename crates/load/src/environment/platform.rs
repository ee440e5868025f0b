//! The board, its firmware, what it is virtualised by, and the services that move interrupts and frequencies about.

use super::Group;
use super::files::Files;

const DMI: &str = "sys/class/dmi/id";
/// What DMI says about the model. Serial numbers, identifiers and asset tags lie beside these and are left.
const DMI_FILES: [(&str, &str); 11] = [
    ("vendor", "sys_vendor"),
    ("product", "product_name"),
    ("product version", "product_version"),
    ("board vendor", "board_vendor"),
    ("board", "board_name"),
    ("board version", "board_version"),
    ("bios vendor", "bios_vendor"),
    ("bios version", "bios_version"),
    ("bios date", "bios_date"),
    ("bios release", "bios_release"),
    ("controller firmware", "ec_firmware_release"),
];
/// Services that change affinities, frequencies or settings by themselves, by the name that the kernel shows (15 bytes).
const SERVICES: [&str; 7] =
    ["irqbalance", "tuned", "thermald", "power-profiles-", "auto-cpufreq", "numad", "ksmtuned"];

/// Model, firmware, hypervisor, container.
pub(super) fn group(files: &dyn Files) -> Group {
    let mut group = Group::new("platform");
    for (name, file) in DMI_FILES {
        group.equal(name, files.value(&format!("{DMI}/{file}")).filter(|value| !value.is_empty()));
    }
    // Boards without DMI, most of them arm64.
    group.equal("device tree model", files.value("sys/firmware/devicetree/base/model"));
    group.equal("hypervisor", hypervisor(files));
    group.equal("container", container(files));
    group
}

/// Whether the services that interfere run. All are unknown where no process is shown.
pub(super) fn services(files: &dyn Files) -> Group {
    let mut group = Group::new("services");
    let is_pid = |name: &String| name.bytes().all(|byte| byte.is_ascii_digit());
    let names: Vec<String> = files
        .entries("proc")
        .into_iter()
        .filter(is_pid)
        .filter_map(|pid| files.value(&format!("proc/{pid}/comm")))
        .collect();
    for service in SERVICES {
        let state = if names.iter().any(|name| name == service) { "running" } else { "not running" };
        group.equal(service, (!names.is_empty()).then_some(state));
    }
    group.equal("tuned profile", files.value("etc/tuned/active_profile"));
    group
}

/// The cpu's own flag says that there is one; /sys/hypervisor and DMI say which. arm64 has no such flag.
fn hypervisor(files: &dyn Files) -> Option<String> {
    let cpuinfo = files.text("proc/cpuinfo")?;
    let flags = super::processor::field(&cpuinfo, "flags");
    let is_flagged = flags.map(|flags| flags.split_whitespace().any(|flag| flag == "hypervisor"));
    let kind = files.value("sys/hypervisor/type").filter(|kind| !kind.is_empty());
    match (is_flagged, kind) {
        (_, Some(kind)) => Some(kind),
        (Some(true), None) => Some("yes, kind not told".to_owned()),
        (Some(false), None) => Some("none".to_owned()),
        (None, None) => None,
    }
}

/// What the runtimes leave in the file system; a container without any of it is not seen as one.
fn container(files: &dyn Files) -> Option<&'static str> {
    let marks =
        [(".dockerenv", "docker"), ("run/.containerenv", "podman"), ("run/systemd/container", "systemd")];
    let found = marks.iter().find(|(path, _)| files.text(path).is_some());
    match found {
        Some((_, kind)) => Some(kind),
        None => files
            .text("proc/1/cgroup")
            .map(|text| if text.contains("kubepods") { "kubernetes" } else { "no mark of one" }),
    }
}

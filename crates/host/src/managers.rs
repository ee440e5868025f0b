//! Who else sets a card: NetworkManager, systemd-networkd, tuned; how that is seen without asking them, and how each is told not to.
//!
//! | | manages a card where | and sets again |
//! |---|---|---|
//! | NetworkManager | `managed=true` in /run/NetworkManager/devices/INDEX (`nm-config.c`) | at each activation: the features, rings, channels, moderation, queueing and routes of its profile |
//! | systemd-networkd | `ADMIN_STATE=` in /run/systemd/netif/links/INDEX is not `unmanaged` (sd-network), unless networkd.conf(5) leaves foreign routes and rules alone | when it starts and reloads: routes and rules that are not its own go |
//! | tuned | its profile moves processes and interrupts: `cpu-partitioning`, `realtime` and their like | affinities of what begins, sysctls when it starts |

use crate::facts::{Daemon, Facts, Nic};
use crate::kernel::live::files::Files;

/// Where networkd.conf(5) may be, the first that is there counts, and its additions, of which the last word does.
const NETWORKD_FILES: &[&str] =
    &["etc/systemd/networkd.conf", "run/systemd/networkd.conf", "usr/lib/systemd/networkd.conf"];
const NETWORKD_ADDITIONS: &[&str] =
    &["etc/systemd/networkd.conf.d", "run/systemd/networkd.conf.d", "usr/lib/systemd/networkd.conf.d"];

/// The daemons that manage a card, of those that run, by the number of its interface in the first network namespace: they see no
/// other.
pub(crate) fn of_card(files: &Files, daemons: &[Daemon], interface: u32) -> Vec<String> {
    // The kernel shows this one in the first namespace alone (`sysctl_net_core.c`), and numbers are each namespace's own.
    if !files.has("proc/sys/net/core/netdev_max_backlog") {
        return Vec::new();
    }
    let value = |path: String, name: &str| {
        let text = files.read(&path).ok()?;
        text.lines().find_map(|line| line.strip_prefix(name)).map(|value| value.trim().to_owned())
    };
    let manages = |name: &str| match name {
        "NetworkManager" => {
            value(format!("run/NetworkManager/devices/{interface}"), "managed=").as_deref() == Some("true")
        }
        "systemd-networkd" => {
            let state = value(format!("run/systemd/netif/links/{interface}"), "ADMIN_STATE=");
            state.is_some_and(|state| state != "unmanaged") && takes_foreign_routes(files)
        }
        _ => false,
    };
    let running = daemons.iter().filter(|daemon| daemon.running);
    running.map(|daemon| daemon.name.clone()).filter(|name| manages(name)).collect()
}

/// Whether networkd removes routes or rules that it did not set: it does unless it is told not to.
fn takes_foreign_routes(files: &Files) -> bool {
    let mut additions: Vec<(String, &str)> = Vec::new();
    for directory in NETWORKD_ADDITIONS {
        for name in files.names(directory).into_iter().filter(|name| name.ends_with(".conf")) {
            // The same name in a directory before stands for this one.
            if !additions.iter().any(|(other, _)| *other == name) {
                additions.push((name, directory));
            }
        }
    }
    additions.sort();
    let main = NETWORKD_FILES.iter().find(|path| files.has(path)).map(|path| (*path).to_owned());
    let paths =
        main.into_iter().chain(additions.iter().map(|(name, directory)| format!("{directory}/{name}")));
    let texts: Vec<String> = paths.filter_map(|path| files.read(&path).ok()).collect();
    let is_left = |key: &str| {
        let words = texts.iter().flat_map(|text| text.lines()).filter_map(|line| line.split_once('='));
        let last = words.filter(|(name, _)| name.trim() == key).map(|(_, value)| value.trim()).next_back();
        last.is_some_and(|value| ["no", "false", "off", "0"].contains(&value))
    };
    !(is_left("ManageForeignRoutes") && is_left("ManageForeignRoutingPolicyRules"))
}

/// The profile of tuned, where it is one that moves processes and interrupts (its plugins `scheduler` and `irqbalance`).
#[must_use]
pub fn moving_profile(facts: &Facts) -> Option<&str> {
    let tuned = facts.daemons.iter().find(|daemon| daemon.name == "tuned" && daemon.running)?;
    tuned.profile.as_deref().filter(|profile| MOVING.iter().any(|word| profile.contains(word)))
}

const MOVING: &[&str] = &["cpu-partitioning", "realtime"];

/// What such a profile does.
#[must_use]
pub fn moved_by(profile: &str) -> String {
    format!("tuned's profile {profile} moves processes and interrupts between cpus, also a lane's")
}

/// A profile for short delays that moves nothing.
pub const TUNED_REMEDY: &str = "tuned-adm profile network-latency";

/// What a daemon that manages a card does to its lanes.
#[must_use]
pub fn harm(daemon: &str) -> &'static str {
    match daemon {
        "NetworkManager" => {
            "sets features, rings, moderation, queueing and routes of its profile again when the link comes up"
        }
        _ => "removes routes and rules that are not its own when it starts",
    }
}

/// The commands that make it leave the card alone, at once and after the next boot.
#[must_use]
pub fn remedy(daemon: &str, nic: &str) -> Vec<String> {
    match daemon {
        "NetworkManager" => vec![
            format!("nmcli device set {nic} managed no"),
            format!(
                "printf '[device-{nic}]\\nmatch-device=interface-name:{nic}\\nmanaged=0\\n' \
                 > /etc/NetworkManager/conf.d/90-lanes-{nic}.conf"
            ),
        ],
        _ => vec![
            "mkdir -p /etc/systemd/networkd.conf.d".to_owned(),
            "printf '[Network]\\nManageForeignRoutes=no\\nManageForeignRoutingPolicyRules=no\\n' \
             > /etc/systemd/networkd.conf.d/90-lanes.conf"
                .to_owned(),
            "systemctl restart systemd-networkd".to_owned(),
        ],
    }
}

/// What those should know who have lanes, of each of these cards and of the machine, a sentence each.
#[must_use]
pub fn warnings<'a>(facts: &Facts, cards: impl Iterator<Item = &'a Nic>) -> Vec<String> {
    let of_card = |nic: &'a Nic| nic.managers.iter().map(|daemon| sentence(daemon, &nic.name));
    let moving = moving_profile(facts).map(|profile| format!("{}: `{TUNED_REMEDY}`.", moved_by(profile)));
    cards.flat_map(of_card).chain(moving).collect()
}

fn sentence(daemon: &str, nic: &str) -> String {
    let what = format!("{daemon} manages {nic} and {}", harm(daemon));
    match daemon {
        "NetworkManager" => {
            format!("{what}: `{}`; `expresslane lanes check` shows how it stays so.", remedy(daemon, nic)[0])
        }
        _ => format!("{what}: `expresslane lanes check` shows how it is told not to."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::live::files::made_up::Tree;

    fn daemon(name: &str, running: bool) -> Daemon {
        Daemon { name: name.to_owned(), running, manageable: true, profile: None }
    }

    const FIRST: (&str, &str) = ("proc/sys/net/core/netdev_max_backlog", "1000\n");

    #[track_caller]
    fn check(name: &str, files: &[(&str, &str)], want: &[&str]) {
        let tree = Tree::new(name, files);
        let daemons =
            [daemon("irqbalance", true), daemon("NetworkManager", true), daemon("systemd-networkd", true)];
        assert_eq!(of_card(&tree.files(), &daemons, 3), want);
        let stopped = daemons.map(|it| Daemon { running: false, ..it });
        assert!(of_card(&tree.files(), &stopped, 3).is_empty(), "what a daemon left behind when it ended");
    }

    #[test]
    fn network_manager_says_which_cards_it_manages() {
        let device = "run/NetworkManager/devices/3";
        // As NetworkManager 1.42 writes it.
        let managed = "[device]\nmanaged=true\nconnection-uuid=0f3b\nnm-owned=false\n";
        check("nm-yes", &[FIRST, (device, managed)], &["NetworkManager"]);
        check("nm-no", &[FIRST, (device, "[device]\nmanaged=false\n")], &[]);
        check("nm-unknown", &[FIRST, (device, "[device]\nnm-owned=false\n")], &[]);
        check("nm-other", &[FIRST, ("run/NetworkManager/devices/33", managed)], &[]);
        check("nm-namespace", &[(device, managed)], &[]);
    }

    #[test]
    fn networkd_manages_what_it_configures_unless_it_is_told_to_leave_routes() {
        let link = "run/systemd/netif/links/3";
        let state = |state: &str| {
            format!("# This is private data. Do not parse.\nADMIN_STATE={state}\nOPER_STATE=routable\n")
        };
        let (configured, failed, unmanaged) = (state("configured"), state("failed"), state("unmanaged"));
        check("nd-yes", &[FIRST, (link, &configured)], &["systemd-networkd"]);
        check("nd-failed", &[FIRST, (link, &failed)], &["systemd-networkd"]);
        check("nd-no", &[FIRST, (link, &unmanaged)], &[]);
        let with = |name: &str, confs: &[(&str, &str)], want: &[&str]| {
            check(name, &[&[FIRST, (link, configured.as_str())], confs].concat(), want);
        };
        let both = "[Network]\nManageForeignRoutes=no\nManageForeignRoutingPolicyRules = false\n";
        let (conf, additions) = ("etc/systemd/networkd.conf", "etc/systemd/networkd.conf.d");
        with("nd-told", &[(conf, both)], &[]);
        with("nd-half", &[(conf, "ManageForeignRoutes=no\n")], &["systemd-networkd"]);
        with(
            "nd-comment",
            &[(conf, "#ManageForeignRoutes=no\n#ManageForeignRoutingPolicyRules=no\n")],
            &["systemd-networkd"],
        );
        with(
            "nd-added",
            &[(conf, "ManageForeignRoutes=yes\n"), (&format!("{additions}/90-lanes.conf"), both)],
            &[],
        );
        with(
            "nd-last",
            &[
                (&format!("{additions}/10-a.conf"), both),
                ("usr/lib/systemd/networkd.conf.d/90-b.conf", "ManageForeignRoutes=1\n"),
            ],
            &["systemd-networkd"],
        );
        with(
            "nd-instead",
            &[
                (&format!("{additions}/10-a.conf"), both),
                ("usr/lib/systemd/networkd.conf.d/10-a.conf", "ManageForeignRoutes=1\n"),
            ],
            &[],
        );
        with(
            "nd-vendor",
            &[(conf, both), ("usr/lib/systemd/networkd.conf", "ManageForeignRoutes=yes\n")],
            &[],
        );
    }

    /// The commands leave behind what is read as told: each remedy ends what it is a remedy for.
    #[test]
    fn remedies_are_understood() {
        let commands = remedy("systemd-networkd", "ens1");
        let written = commands.iter().find_map(|line| line.strip_prefix("printf '")?.split_once('\''));
        let (text, to) = written.unwrap();
        let text = text.replace("\\n", "\n");
        let path = to.trim_start_matches(" > /");
        let link = ("run/systemd/netif/links/3", "ADMIN_STATE=configured\n");
        check("remedy", &[FIRST, link], &["systemd-networkd"]);
        check("remedy-done", &[FIRST, link, (path, &text)], &[]);
        let commands = remedy("NetworkManager", "ens1");
        assert_eq!(commands[0], "nmcli device set ens1 managed no");
        assert!(
            commands[1].ends_with("\\nmanaged=0\\n' > /etc/NetworkManager/conf.d/90-lanes-ens1.conf"),
            "{commands:?}"
        );
    }

    #[test]
    fn who_sets_a_card_again_is_named_with_what_to_do() {
        let nic = Nic {
            name: "ens1".to_owned(),
            managers: ["NetworkManager", "systemd-networkd"].map(str::to_owned).into(),
            ..Nic::default()
        };
        let tuned = |profile: &str, running| {
            let daemons = vec![Daemon { profile: Some(profile.to_owned()), ..daemon("tuned", running) }];
            warnings(&Facts { daemons, ..Facts::default() }, [&nic].into_iter())
        };
        let said = tuned("cpu-partitioning", true);
        assert!(
            said[0].contains("NetworkManager manages ens1")
                && said[0].contains("`nmcli device set ens1 managed no`")
        );
        assert!(said[1].contains("systemd-networkd manages ens1") && said[1].contains("lanes check"));
        assert!(
            said[2].contains("cpu-partitioning") && said[2].contains("tuned-adm profile network-latency")
        );
        assert_eq!(tuned("realtime-virtual-host", true).len(), 3);
        assert_eq!(tuned("network-latency", true).len(), 2);
        assert_eq!(tuned("cpu-partitioning", false).len(), 2);
    }
}

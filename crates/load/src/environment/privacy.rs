//! What is hidden from a result that may be published: addresses, names of users, passwords.
//!
//! Most of it is simply not read (serial numbers, addresses of links, environment variables, names of hosts). What is left
//! are texts that people write: command lines, and links that are named after their address.

/// Where users' folders are, in two parts: sources name no path of one machine.
const HOMES: &str = concat!("/home", "/");
/// What stands for a text that was hidden.
const HIDDEN: &str = "(hidden)";

/// Parameters of the kernel that are shown with their value. Of all others the name alone is: `root=`, `ip=`, `BOOTIF=`
/// and what programs of the boot put there hold addresses, serial numbers and secrets. An entry that ends in a dot or
/// underscore names all that begin with it.
const KERNEL_PARAMETERS: &[&str] = &[
    "amd_iommu",
    "amd_pstate",
    "audit",
    "clocksource",
    "cpuidle.",
    "cpuidle_haltpoll.",
    "default_hugepagesz",
    "haltpoll.",
    "hugepages",
    "hugepagesz",
    "idle",
    "intel_idle.",
    "intel_iommu",
    "intel_pstate",
    "iommu",
    "iommu.",
    "irqaffinity",
    "isolcpus",
    "kpti",
    "kthread_cpus",
    "l1d_flush",
    "l1tf",
    "maxcpus",
    "mce",
    "mds",
    "mem",
    "mitigations",
    "mmio_stale_data",
    "nmi_watchdog",
    "nohz",
    "nohz_full",
    "nosmt",
    "nospectre_",
    "nr_cpus",
    "numa_balancing",
    "pcie_aspm",
    "preempt",
    "processor.",
    "psi",
    "pti",
    "rcu_nocbs",
    "rcu_nocb_poll",
    "rcupdate.",
    "rcutree.",
    "reg_file_data_sampling",
    "retbleed",
    "skew_tick",
    "spec_rstack_overflow",
    "spec_store_bypass_disable",
    "spectre_",
    "srbds",
    "swiotlb",
    "threadirqs",
    "transparent_hugepage",
    "tsc",
    "tsx",
    "tsx_async_abort",
    "workqueue.",
];

/// Parts of an argument's name after which its value is hidden.
const SECRET_WORDS: &[&str] = &["pass", "secret", "token", "auth", "credential", "apikey", "api-key"];

/// The kernel's command line with the values of strangers hidden, and nothing of what is meant for `init`.
pub(super) fn kernel_command(text: &str) -> String {
    let mut shown = Vec::new();
    for parameter in parameters(text.trim()) {
        if parameter == "--" {
            shown.push(format!("-- {HIDDEN}"));
            break;
        }
        let (name, value) = match parameter.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (parameter, None),
        };
        let is_known = KERNEL_PARAMETERS
            .iter()
            .any(|known| name == *known || (known.ends_with(['.', '_']) && name.starts_with(known)));
        shown.push(match value {
            Some(_) if !is_known => format!("{name}={HIDDEN}"),
            _ => parameter.to_owned(),
        });
    }
    shown.join(" ")
}

/// Splits at blanks outside of double quotes, as the kernel does.
fn parameters(text: &str) -> Vec<&str> {
    let mut is_quoted = false;
    text.split(move |c: char| {
        is_quoted ^= c == '"';
        c.is_whitespace() && !is_quoted
    })
    .filter(|parameter| !parameter.is_empty())
    .collect()
}

/// A command with secrets and homes hidden: the value of arguments named after a [secret](SECRET_WORDS), as `--name=value`
/// or as the argument that follows, what stands before the `@` of an address, and the user's name in a home directory.
/// A secret after a single letter (`-a PASSWORD`) cannot be told from other values: whoever composes the command knows.
pub(super) fn words(arguments: &[String]) -> Vec<String> {
    let mut shown = Vec::new();
    let mut is_value_hidden = false;
    for argument in arguments {
        if std::mem::take(&mut is_value_hidden) && !argument.starts_with("--") {
            shown.push(HIDDEN.to_owned());
            continue;
        }
        let (name, value) = match argument.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (argument.as_str(), None),
        };
        let is_secret = is_secret(name) && !name.contains("://");
        is_value_hidden = is_secret && value.is_none() && name.starts_with('-');
        shown.push(match value {
            Some(_) if is_secret => format!("{name}={HIDDEN}"),
            _ => without_home(&without_user(argument)),
        });
    }
    shown
}

/// The same in one line.
pub(super) fn command(arguments: &[String]) -> String {
    words(arguments).join(" ")
}

fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    SECRET_WORDS.iter().any(|word| name.contains(word))
}

/// `redis://user:password@host/` keeps its scheme and host.
fn without_user(argument: &str) -> String {
    let Some((scheme, rest)) = argument.split_once("://") else { return argument.to_owned() };
    let authority_size = rest.find('/').unwrap_or(rest.len());
    match rest[..authority_size].rfind('@') {
        Some(at) => format!("{scheme}://{HIDDEN}{}", &rest[at..]),
        None => argument.to_owned(),
    }
}

/// A user's folder below `/home` becomes `~`, wherever it stands in the argument.
pub(super) fn without_home(text: &str) -> String {
    let mut shown = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(HOMES) {
        shown.push_str(&rest[..at]);
        shown.push('~');
        let after = &rest[at + HOMES.len()..];
        rest = &after[after.find('/').unwrap_or(after.len())..];
    }
    shown.push_str(rest);
    shown
}

/// A link's name, without the address in names of the form `enx0123456789ab`.
pub(super) fn link_name(name: &str) -> String {
    let is_address = |rest: &str| rest.len() == 12 && rest.bytes().all(|byte| byte.is_ascii_hexdigit());
    for prefix in ["enx", "wlx"] {
        if name.strip_prefix(prefix).is_some_and(is_address) {
            return format!("{prefix}{HIDDEN}");
        }
    }
    name.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_command_keeps_what_matters_and_hides_strangers() {
        let text = "root=UUID=1234 ro quiet mitigations=auto,nosmt spectre_v2=retpoline isolcpus=2-3 \
                    ip=10.0.0.7::10.0.0.1 x.note=\"a b=c\" processor.max_cstate=1 isolcpusx=9 -- --password hunter2\n";
        let want = "root=(hidden) ro quiet mitigations=auto,nosmt spectre_v2=retpoline isolcpus=2-3 \
                    ip=(hidden) x.note=(hidden) processor.max_cstate=1 isolcpusx=(hidden) -- (hidden)";
        assert_eq!(kernel_command(text), want);
    }

    #[test]
    fn commands_hide_secrets_and_homes() {
        for (arguments, want) in [
            (
                "redis-server --port 7000 --requirepass hunter2",
                "redis-server --port 7000 --requirepass (hidden)",
            ),
            ("x --password=hunter2 -k 10", "x --password=(hidden) -k 10"),
            ("x --auth --tls", "x --auth --tls"),
            ("x redis://me:hunter2@host:1/0", "x redis://(hidden)@host:1/0"),
            ("x redis://host/a@b", "x redis://host/a@b"),
            (concat!("/home", "/ann/bin/x --dir=/home", "/ann"), "~/bin/x --dir=~"),
        ] {
            let arguments: Vec<String> = arguments.split(' ').map(str::to_owned).collect();
            assert_eq!(command(&arguments), want);
        }
    }

    #[test]
    fn links_named_after_their_address_are_not() {
        assert_eq!(link_name("enx0011aabbccdd"), "enx(hidden)");
        assert_eq!(link_name("enp1s0"), "enp1s0");
    }
}

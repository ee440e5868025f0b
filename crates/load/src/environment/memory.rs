//! Memory: how much, in which pages, and what is free at the moment.

use super::Group;
use super::files::Files;
use super::processor::field;

const THP: &str = "sys/kernel/mm/transparent_hugepage";
const KIB_IN_MIB: u64 = 1024;

/// Amount, huge pages, transparent huge pages, swap.
pub(super) fn group(files: &dyn Files) -> Group {
    let mut group = Group::new("memory");
    let meminfo = files.text("proc/meminfo").unwrap_or_default();
    let amount = |key| mib(field(&meminfo, key)?);
    group.equal("total", amount("MemTotal"));
    group.equal("swap", amount("SwapTotal"));
    group.equal("huge page size", field(&meminfo, "Hugepagesize"));
    group.equal("huge pages", huge_pages(files));
    for name in ["enabled", "defrag", "shmem_enabled"] {
        group.equal(
            format!("transparent huge pages {name}"),
            files.value(&format!("{THP}/{name}")).map(chosen),
        );
    }
    group.equal("khugepaged pages to scan", files.value(&format!("{THP}/khugepaged/pages_to_scan")));
    group.equal("ksm", files.value("sys/kernel/mm/ksm/run"));
    group.volatile("available", amount("MemAvailable"));
    group.volatile("swap free", amount("SwapFree"));
    group.volatile("transparent huge pages in use", amount("AnonHugePages"));
    group
}

/// `65536000 kB` in MiB: what the firmware keeps for itself varies by a few KiB from boot to boot.
fn mib(value: &str) -> Option<String> {
    let kib: u64 = value.strip_suffix("kB")?.trim().parse().ok()?;
    Some(format!("{} MiB", kib / KIB_IN_MIB))
}

/// Reserved pages of each size.
fn huge_pages(files: &dyn Files) -> Option<String> {
    const FOLDER: &str = "sys/kernel/mm/hugepages";
    let sizes = files.entries(FOLDER);
    let shown: Vec<String> = sizes
        .iter()
        .filter_map(|size| {
            let count = files.value(&format!("{FOLDER}/{size}/nr_hugepages"))?;
            Some(format!("{count} of {}", size.trim_start_matches("hugepages-")))
        })
        .collect();
    (!shown.is_empty()).then(|| shown.join(", "))
}

/// The choice in brackets of `always [madvise] never`; the whole text where there is none.
pub(super) fn chosen(value: String) -> String {
    let in_brackets = value.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    in_brackets.map(|(choice, _)| choice.to_owned()).unwrap_or(value)
}

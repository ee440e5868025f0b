//! INFO's section on the namespaces behind Redis' databases.

use std::fmt::Write as _;

use super::info::View;
use crate::admin::Holding;
use crate::client::Dialect;

/// `# Namespaces`: a line for each, by its function and name, with what the lanes asked hold of it.
pub(super) fn each(view: &View<'_>, text: &mut String) {
    let namespaces = &view.settings.namespaces;
    let buckets = namespaces.buckets().map(|it| (Dialect::Couchbase, it));
    for (dialect, (number, namespace)) in
        buckets.chain(namespaces.of_records().map(|it| (Dialect::Aerospike, it)))
    {
        let db = usize::from(view.settings.database_count + number);
        let sum = |of: fn(&Holding) -> u64| view.sum(|census| of(&census.databases[db]));
        let keys = sum(|holding| holding.keys);
        let expires = sum(|holding| holding.expiring);
        let bytes = sum(|holding| holding.held);
        let share = namespace.memory_share.unwrap_or(100);
        let (function, name, ttl) = (dialect.name(), &namespace.name, namespace.default_ttl_s);
        write!(
            text,
            "namespace_{function}_{name}:keys={keys},expires={expires},bytes={bytes},memory_share={share},\
             default_ttl={ttl}\r\n"
        )
        .expect("a string takes all");
    }
}

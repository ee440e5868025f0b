//! Pages: what is asked of the management port by HTTP. The arguments are those of [`crate::http`].

use super::Command;
use super::Scope::{Connection, Control};
use super::Work::Constant;
use super::entry::entries;

pub(super) const PAGE: &[Command] = entries! { Page:
    PageGet "page.get" 3 since "7.2.0" [Fast NoAuth] [] [] Connection, Constant, []
        "O(P) for P partitions" "A page of the management port"
    PageStatus "page.status" 3 since "7.2.0" [] [] [] Control, Constant, []
        "O(P) for P partitions" "A page that has numbers of all lanes"
};

//! Records: what Aerospike's dialect asks for. Argument 0 is a head ([`crate::aerospike::Head`]) instead of a name, argument 1
//! the digest, or the number of a partition. Clients of Redis neither see nor call these.

use super::Combine::Unanimous;
use super::Command;
use super::Scope::{AllLanes, Connection, Key};
use super::Work::{Constant, Sliced};
use super::entry::entries;
use super::keys::at;

pub(super) const RECORD: &[Command] = entries! { Record:
    RecordDelete "record.delete" -2 since "7.0.0" [Write Fast] [] [at(1, "RW delete")] Key, Constant, []
        "O(1)" "Deletes a record"
    RecordGet "record.get" -2 since "7.0.0" [Readonly Fast] [] [at(1, "RO access")] Key, Constant, []
        "O(B) for at most 1024 bins" "A record, some of its bins, or whether it is there"
    RecordInfo "record.info" -3 since "7.0.0" [Fast] [] [] Connection, Constant, []
        "O(N) for N names, which fit 32 KiB" "What the lane says of itself as a node"
    RecordSay "record.say" -2 since "7.0.0" [Fast NoAuth] [] [] Connection, Constant, []
        "O(1)" "What concerns the connection alone"
    RecordScan "record.scan" -2 since "7.0.0" [Readonly] [] [at(1, "RO access")] Key, Sliced, []
        "O(N) for N records of the partition" "All records of a partition"
    RecordTruncate "record.truncate" -3 since "7.0.0" [Write] [] [] AllLanes(Unanimous), Sliced, []
        "O(N) for N records" "Removes all records of a set, or all"
    RecordWrite "record.write" -5 since "7.0.0" [Write Denyoom] [] [at(1, "RW access update")] Key, Sliced, []
        "O(N) for N bytes of the record" "Changes bins of a record, and reads from it"
};

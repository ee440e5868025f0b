//! Documents: what the dialects of memcached and Couchbase ask for, whichever of its framings it comes in. Argument 0 is a head
//! ([`crate::memcached::Head`]) instead of a name, argument 1 the key. Clients of Redis neither see nor call these.

use super::Combine::Unanimous;
use super::Command;
use super::Scope::{AllLanes, Connection, Control, Key};
use super::Work::{Constant, Sliced};
use super::entry::entries;
use super::keys::at;

pub(super) const DOCUMENT: &[Command] = entries! { Document:
    DocumentCount "document.count" -2 since "1.6.0" [Write Denyoom Fast] [] [at(1, "RW access update")] Key, Constant, []
        "O(1)" "Adds to a decimal number or takes from it"
    DocumentDelete "document.delete" -2 since "1.6.0" [Write Fast] [] [at(1, "RW delete")] Key, Constant, []
        "O(1)" "Deletes a document"
    DocumentEdit "document.edit" -3 since "1.6.0" [Write Denyoom] [] [at(1, "RW insert")] Key, Sliced, []
        "O(N) for N bytes of the document" "Puts bytes before a document or behind it"
    DocumentFlush "document.flush" -1 since "1.6.0" [Write] [] [] AllLanes(Unanimous), Sliced, []
        "O(P) for P partitions that hold documents" "Removes all documents, at once or later"
    DocumentGet "document.get" -2 since "1.6.0" [Readonly Fast] [] [at(1, "RO access")] Key, Constant, []
        "O(1)" "A document"
    DocumentLookup "document.lookup" -3 since "1.6.0" [Readonly] [] [at(1, "RO access")] Key, Sliced, []
        "O(N*P) for N bytes of the document and P paths" "What is inside of a document"
    DocumentMutate "document.mutate" -3 since "1.6.0" [Write Denyoom] [] [at(1, "RW access update")] Key, Sliced, []
        "O(N*P) for N bytes of the document and P paths" "Changes a document inside"
    DocumentNode "document.node" -1 since "1.6.0" [Fast NoAuth] [] [] Connection, Constant, []
        "O(P) for P partitions" "What a client of Couchbase and a node agree on, and where partitions are"
    DocumentSay "document.say" -1 since "1.6.0" [Fast NoAuth] [] [] Connection, Constant, []
        "O(1)" "What concerns the connection alone"
    DocumentSet "document.set" -3 since "1.6.0" [Write Denyoom Fast] [] [at(1, "RW access update")] Key, Constant, []
        "O(1)" "Stores a document"
    DocumentStats "document.stats" -1 since "1.6.0" [] [] [] Control, Constant, []
        "O(1)" "Statistics in memcached's words"
    DocumentTouch "document.touch" -2 since "1.6.0" [Write Fast] [] [at(1, "RW access update")] Key, Constant, []
        "O(1)" "A document, which gets another end"
};

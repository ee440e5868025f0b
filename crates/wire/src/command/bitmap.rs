//! Strings as arrays of bits.

use super::Combine::Coordinator;
use super::Command;
use super::Scope::{Key, Keys};
use super::Work::{Constant, Sliced};
use super::entry::entries;
use super::keys::{at, range};

pub(super) const BITMAP: &[Command] = entries! { Bitmap:
    Bitcount "bitcount" -2 since "2.6.0" [Readonly] [Bitmap] [at(1, "RO access")] Key, Sliced, []
        "O(N) for N bytes looked at" "Counts the bits that are set in a string, or in a part of it"
        "key [range: start end [unit: BYTE | BIT]]"
        [since "7.0.0" "`BYTE` and `BIT`"]
    Bitfield "bitfield" -2 since "3.2.0" [Write Denyoom] [Bitmap]
        [at(1, "RW access update variable_flags").notes("with GET alone it is only read")] Key, Sliced, []
        "O(N) for N operations" "Reads, sets and increments integers of any width within a string"
        "key [operation: GET <get-block: encoding offset> | <write: [OVERFLOW <overflow-block: WRAP | SAT | FAIL>] <write-operation: SET <set-block: encoding offset value:integer> | INCRBY <increment-block: encoding offset increment>>>] ..."
    BitfieldRo "bitfield_ro" -2 since "6.0.0" [Readonly Fast] [Bitmap] [at(1, "RO access")] Key, Sliced, []
        "O(N) for N operations" "Reads integers of any width within a string"
        "key [GET <get-block: encoding offset> GET ...]"
    Bitop "bitop" -4 since "2.6.0" [Write Denyoom] [Bitmap]
        [at(2, "OW update"), range(3, -1, 1, "RO access")] Keys(Coordinator), Sliced, []
        "O(N*M) for N keys and M bytes of the longest string" "Combines strings bit by bit, and stores what comes of it"
        "<operation: AND | OR | XOR | NOT> destkey key ..."
    Bitpos "bitpos" -3 since "2.8.7" [Readonly] [Bitmap] [at(1, "RO access")] Key, Sliced, []
        "O(N) for N bytes looked at" "The first bit that is set, or that is not, in a string or a part of it"
        "key bit [range: start [end-unit-block: end [unit: BYTE | BIT]]]"
        [since "7.0.0" "`BYTE` and `BIT`"]
    Getbit "getbit" 3 since "2.2.0" [Readonly Fast] [Bitmap] [at(1, "RO access")] Key, Constant, []
        "O(1)" "A bit of a string"
        "key offset"
    Setbit "setbit" 4 since "2.2.0" [Write Denyoom] [Bitmap] [at(1, "RW access update")] Key, Constant, []
        "O(1)" "Sets or clears a bit of a string, which is filled with zeros up to there"
        "key offset value:integer"
};

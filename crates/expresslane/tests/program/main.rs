//! The built program as its users meet it, as a process. One test program, for each would be linked with all of the load's library;
//! `server`, `outcome`, `machine` and `namespaces` are what the tests share.

#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test's helpers fail the test, or say why it can't run"
)]

#[path = "../../../host/tests/namespaces/mod.rs"]
mod namespaces;

mod machine;
mod outcome;
mod server;

mod agents;
mod bench;
mod hard_times;
mod lanes;
mod pin;
mod recipes;
mod reproduce;
mod rewrite;
mod rude_clients;
mod run;
mod serve;
mod stats;
mod stopped;

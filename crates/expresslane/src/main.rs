//! The `expresslane` program.

fn main() {}

//! Placeholder until the crate's first piece lands.

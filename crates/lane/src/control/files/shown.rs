//! What is counted of files, and what INFO shows of them.

use super::super::Control;
use super::{Files, Loaded, SECOND_NS};
use crate::Now;

/// What came of snapshots, or of bases.
#[derive(Clone, Copy, Default)]
pub(in crate::control) struct Tried {
    /// Those that were written.
    pub(in crate::control) count: u64,
    /// Those in a row that were not.
    pub(in crate::control) failures: u64,
    /// How long the last one took.
    pub(in crate::control) last_s: Option<u64>,
}

/// What INFO shows of files.
pub(in crate::control) struct FilesShown {
    pub(in crate::control) is_loading: bool,
    /// Since when, Unix time in seconds.
    pub(in crate::control) loading_since_s: i64,
    pub(in crate::control) loaded: Loaded,
    pub(in crate::control) saved_s: i64,
    /// Changes since the start that the last snapshot holds.
    pub(in crate::control) changes_saved: u64,
    pub(in crate::control) save: Tried,
    pub(in crate::control) saves_since_s: Option<u64>,
    pub(in crate::control) rewrite: Tried,
    pub(in crate::control) rewrites_since_s: Option<u64>,
    pub(in crate::control) has_log: bool,
    pub(in crate::control) has_trouble: bool,
    pub(in crate::control) log_size: u64,
    pub(in crate::control) base_size: u64,
}

impl Control {
    pub(in crate::control) fn show_files(&self, now: Now) -> FilesShown {
        let Files { saving, rewriting, log, loading, loaded, trouble, .. } = &self.files;
        let since_s = |began_ns: u64| (now.mono_ns - began_ns) / SECOND_NS;
        FilesShown {
            is_loading: loading.is_some() || self.leaders.loads(),
            loading_since_s: loading.as_ref().map_or(0, |it| it.began.unix_ms / 1000),
            loaded: *loaded,
            saved_s: self.files.saved_s,
            changes_saved: self.files.changes_saved,
            save: self.files.save,
            saves_since_s: saving.as_ref().map(|saving| since_s(saving.began_ns)),
            rewrite: self.files.rewrite,
            rewrites_since_s: rewriting.as_ref().map(|it| since_s(it.began_ns)),
            has_log: log.is_some(),
            has_trouble: trouble.is_some() || self.log_fails(),
            log_size: log.as_ref().map_or(0, |log| log.size + log.before_size),
            base_size: log.as_ref().map_or(0, |log| log.base_size),
        }
    }
}

impl Tried {
    pub(super) fn succeeded(&mut self, seconds: u64) {
        self.count += 1;
        self.failures = 0;
        self.last_s = Some(seconds);
    }

    /// As INFO says it.
    pub(in crate::control) fn status(&self) -> &'static str {
        if self.failures == 0 { "ok" } else { "err" }
    }
}

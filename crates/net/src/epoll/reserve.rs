//! A descriptor kept for turning clients away.
//!
//! A process that has no descriptor left can't accept, so it can't hang up either, and whoever waits in the listener's
//! queue waits for ever. One descriptor is given up for the accept, and opened again once that client is turned away.
//!
//! Descriptors belong to the process, so there is one reserve for all its nets: while one is given up, the next accept
//! of another thread takes it. Who accepts while the reserve is spent fills it first, with its own client's descriptor if
//! there is no other.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::sys;

static RESERVE: Mutex<Option<OwnedFd>> = Mutex::new(None);

/// There may be no descriptor in the reserve. Written under its lock; read without by every accept.
static IS_SPENT: AtomicBool = AtomicBool::new(true);

fn lock() -> MutexGuard<'static, Option<OwnedFd>> {
    RESERVE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn fill_locked(reserve: &mut Option<OwnedFd>) -> io::Result<()> {
    if reserve.is_none() {
        *reserve = Some(sys::null()?);
    }
    IS_SPENT.store(false, Ordering::SeqCst);
    Ok(())
}

/// Opens the descriptor unless it is there.
///
/// # Errors
/// The process or the system has none left.
pub(crate) fn fill() -> io::Result<()> {
    fill_locked(&mut lock())
}

/// Accepts a client without a descriptor for it, and turns it away.
///
/// # Errors
/// What `accept` says; `EMFILE` or `ENFILE` if another thread was faster.
pub(crate) fn turn_away<T>(accept: impl FnOnce() -> Result<T, i32>) -> Result<(), i32> {
    let mut reserve = lock();
    IS_SPENT.store(true, Ordering::SeqCst);
    drop(reserve.take());
    let turned_away = accept().map(drop);
    // What can't be had now is asked for by the next accept, here or elsewhere.
    let _ = fill_locked(&mut reserve);
    turned_away
}

/// A client that was accepted, unless its descriptor is needed for the reserve: then it is turned away.
pub(crate) fn keep(client: OwnedFd) -> Option<OwnedFd> {
    if !IS_SPENT.load(Ordering::SeqCst) {
        return Some(client);
    }
    let mut reserve = lock();
    if fill_locked(&mut reserve).is_ok() {
        return Some(client);
    }
    drop(client);
    let _ = fill_locked(&mut reserve);
    None
}

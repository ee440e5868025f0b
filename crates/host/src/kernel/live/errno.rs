//! What the kernel says when it refuses, as a cause and a sentence that says what to do.

use std::io;

use crate::kernel::{Cause, Refusal};

/// Names of those that knobs meet; others are shown by number.
const NAMES: &[(i32, &str)] = &[
    (libc::EPERM, "EPERM"),
    (libc::ENOENT, "ENOENT"),
    (libc::ESRCH, "ESRCH"),
    (libc::ENXIO, "ENXIO"),
    (libc::EAGAIN, "EAGAIN"),
    (libc::EACCES, "EACCES"),
    (libc::EBUSY, "EBUSY"),
    (libc::EEXIST, "EEXIST"),
    (libc::ENODEV, "ENODEV"),
    (libc::EINVAL, "EINVAL"),
    (libc::ENOSPC, "ENOSPC"),
    (libc::EROFS, "EROFS"),
    (libc::ERANGE, "ERANGE"),
    (libc::ENOTTY, "ENOTTY"),
    (libc::ENOSYS, "ENOSYS"),
    (libc::EOPNOTSUPP, "EOPNOTSUPP"),
    (libc::ENETDOWN, "ENETDOWN"),
    (libc::EIO, "EIO"),
];

/// What kind of reason an error number is.
pub(super) fn cause(code: i32) -> Cause {
    match code {
        libc::EPERM | libc::EACCES | libc::EROFS => Cause::Forbidden,
        libc::ENOENT | libc::ESRCH | libc::ENXIO | libc::ENODEV => Cause::Gone,
        libc::EOPNOTSUPP | libc::ENOSYS | libc::ENOTTY => Cause::Unsupported,
        libc::EBUSY | libc::EAGAIN | libc::EEXIST | libc::ETXTBSY => Cause::Busy,
        libc::EINVAL | libc::ERANGE | libc::E2BIG | libc::EDOM | libc::EOVERFLOW | libc::EBADF => {
            Cause::Invalid
        }
        _ => Cause::Failed,
    }
}

/// What to do about it.
fn advice(cause: Cause) -> &'static str {
    match cause {
        Cause::Gone => "it is not there (any more)",
        Cause::Forbidden => "the capability net_admin is missing: run it as root, or with that capability",
        Cause::Unsupported => "the driver or this kernel can't do that",
        Cause::Busy => "something else uses it: take that away first",
        Cause::Invalid => "it does not take this value",
        Cause::Failed => "nothing is known about this error here",
    }
}

/// What netlink or an ioctl refused, with the kernel's own words where it has some.
pub(super) fn said(code: i32, words: &str) -> Refusal {
    refusal(code, words, advice(cause(code)))
}

/// The same with other advice.
pub(super) fn refusal(code: i32, words: &str, advice: &str) -> Refusal {
    let name = NAMES.iter().find(|(number, _)| *number == code).map(|(_, name)| *name);
    let name = name.map_or_else(|| format!("error {code}"), str::to_owned);
    let reason = match words.trim_end_matches('.') {
        "" => {
            let plain = io::Error::from_raw_os_error(code).to_string();
            let plain = plain.split(" (os error").next().unwrap_or_default().to_lowercase();
            format!("the kernel says: {plain} ({name}); {advice}")
        }
        words => format!("the kernel says: {words} ({name}); {advice}"),
    };
    Refusal::new(cause(code), reason)
}

/// A system call that failed for a reason of its own, with a sentence before it.
pub(super) fn unanswered(what: &str, error: &io::Error) -> Refusal {
    let code = error.raw_os_error().unwrap_or_default();
    Refusal::new(cause(code), format!("{what}: {error}"))
}

/// A file that could not be read or written; `capability` is what writing it takes.
pub(super) fn of_file(path: &std::path::Path, error: &io::Error, capability: &str) -> Refusal {
    let code = error.raw_os_error().unwrap_or_default();
    let shown = path.display();
    match cause(code) {
        Cause::Forbidden => {
            let reason = format!("{shown}: {error}; this takes the capability {capability}: run it as root");
            Refusal::new(Cause::Forbidden, reason)
        }
        Cause::Gone => Refusal::new(Cause::Gone, format!("{shown} is not there")),
        cause => Refusal::new(cause, format!("{shown}: {error}; {}", advice(cause))),
    }
}

/// A value that can't be meant, before the kernel was asked.
pub(super) fn invalid(reason: impl Into<String>) -> Refusal {
    Refusal::new(Cause::Invalid, reason)
}

/// What can't be done here, before the kernel was asked.
pub(super) fn unsupported(reason: impl Into<String>) -> Refusal {
    Refusal::new(Cause::Unsupported, reason)
}

/// What is not there.
pub(super) fn gone(reason: impl Into<String>) -> Refusal {
    Refusal::new(Cause::Gone, reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_says_what_the_kernel_said_and_what_to_do() {
        let check = |code: i32, words: &str, cause: Cause, want: &str| {
            let refusal = said(code, words);
            assert_eq!(refusal.cause, cause, "{code}");
            assert_eq!(refusal.reason, want);
        };
        check(
            libc::EPERM,
            "",
            Cause::Forbidden,
            "the kernel says: operation not permitted (EPERM); the capability net_admin is missing: run it as root, or with that capability",
        );
        check(
            libc::EINVAL,
            "requested ring size exceeds maximum.",
            Cause::Invalid,
            "the kernel says: requested ring size exceeds maximum (EINVAL); it does not take this value",
        );
        check(
            libc::EOPNOTSUPP,
            "",
            Cause::Unsupported,
            "the kernel says: operation not supported (EOPNOTSUPP); the driver or this kernel can't do that",
        );
        for (code, want) in [
            (libc::ENODEV, Cause::Gone),
            (libc::EBUSY, Cause::Busy),
            (libc::ERANGE, Cause::Invalid),
            (libc::EIO, Cause::Failed),
        ] {
            assert_eq!(cause(code), want);
        }
    }
}

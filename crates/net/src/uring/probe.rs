//! Whether the kernel gives an `io_uring` with what is wanted of it, and if not, why.

use std::io;

use super::ring::Ring;

/// Tries it, with a ring that is thrown away.
///
/// # Errors
/// A sentence that says what is in the way and, where something can be done about it, what.
pub fn probe() -> Result<(), String> {
    let setting = std::fs::read_to_string("/proc/sys/kernel/io_uring_disabled").unwrap_or_default();
    Ring::new(16).map(drop).map_err(|error| reason(&error, setting.trim()))
}

/// Why `error` came of making a ring while `kernel.io_uring_disabled` is `setting` (empty: there is none).
fn reason(error: &io::Error, setting: &str) -> String {
    match (error.raw_os_error(), setting) {
        (Some(libc::ENOSYS), _) => "the kernel is built without io_uring, or a seccomp filter hides it \
             (containers: allow io_uring_setup, io_uring_enter and io_uring_register)"
            .to_owned(),
        (Some(libc::EPERM | libc::EACCES), "2") => {
            "io_uring is turned off for everybody: sysctl kernel.io_uring_disabled is 2, 0 allows it".to_owned()
        }
        (Some(libc::EPERM | libc::EACCES), "1") => {
            "io_uring is turned off for this user: sysctl kernel.io_uring_disabled is 1; 0 allows it, or \
             CAP_SYS_ADMIN, or membership in kernel.io_uring_group"
                .to_owned()
        }
        (Some(libc::EPERM | libc::EACCES), _) => "io_uring is forbidden to this process by a seccomp filter or a \
             security module (containers: allow io_uring_setup, io_uring_enter and io_uring_register)"
            .to_owned(),
        (Some(libc::EINVAL), _) => {
            "the kernel is older than Linux 6.1, which has deferred task run and rings of buffers".to_owned()
        }
        (Some(libc::ENOMEM), _) => {
            "the kernel has no memory for a ring, or RLIMIT_MEMLOCK allows none: raise ulimit -l to 1 MiB a lane"
                .to_owned()
        }
        (Some(libc::EMFILE | libc::ENFILE), _) => {
            "no descriptor is left for a ring: raise ulimit -n".to_owned()
        }
        _ => format!("io_uring can't be set up: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(errno: i32, setting: &str, want: &str) {
        let text = reason(&io::Error::from_raw_os_error(errno), setting);
        assert!(text.contains(want), "{text}");
    }

    #[test]
    fn what_is_in_the_way_is_named() {
        check(libc::ENOSYS, "", "built without io_uring");
        check(libc::EPERM, "2", "off for everybody");
        check(libc::EPERM, "1", "kernel.io_uring_group");
        check(libc::EPERM, "0", "seccomp");
        check(libc::EACCES, "", "security module");
        check(libc::EINVAL, "0", "Linux 6.1");
        check(libc::ENOMEM, "0", "ulimit -l");
        check(libc::EMFILE, "0", "ulimit -n");
        check(libc::EIO, "0", "can't be set up");
    }
}

//! Where the secret of agents and coordinators comes from: a file that nobody else can read, or a variable. Never a flag, for all
//! users of a machine see flags.

use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use load::agents::handshake::{SECRET_SIZE_MAX, Secret};

/// The variable.
pub(super) const VARIABLE: &str = "EXPRESSLANE_AGENT_SECRET";
/// Bits of a file's mode that let others read it or change it.
const OTHERS: u32 = 0o077;

/// The secret of that file, or else of the variable. None: there is none.
///
/// # Errors
/// It can't be used, in words that say what to do.
pub(super) fn secret(file: Option<&Path>) -> Result<Option<Secret>, String> {
    if let Some(path) = file {
        return of_file(path)
            .map(Some)
            .map_err(|problem| format!("--secret-file {}: {problem}", path.display()));
    }
    #[expect(clippy::disallowed_methods, reason = "a secret is no flag, so that clap can't read it")]
    match std::env::var(VARIABLE) {
        Ok(text) => Secret::new(&text).map(Some).map_err(|problem| format!("{VARIABLE}: {problem}")),
        Err(std::env::VarError::NotPresent) => Ok(None),
        Err(error) => Err(format!("{VARIABLE}: {error}")),
    }
}

fn of_file(path: &Path) -> Result<Secret, String> {
    let mut file = std::fs::File::open(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => format!("{error}; `bench agent --help` says how one is made"),
        _ => error.to_string(),
    })?;
    let mode = file.metadata().map_err(|error| error.to_string())?.permissions().mode();
    if mode & OTHERS != 0 {
        return Err("other users of this machine can read it: chmod 600".to_owned());
    }
    let mut text = String::new();
    // One more than may be in it, and space around it.
    let most = u64::try_from(SECRET_SIZE_MAX).expect("64 bits") + 64;
    file.by_ref().take(most).read_to_string(&mut text).map_err(|error| error.to_string())?;
    Secret::new(&text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_others_can_read_is_no_secret() {
        let path = std::env::temp_dir().join(format!("expresslane-secret-{}", std::process::id()));
        let with_mode = |mode: u32, text: &str| {
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            secret(Some(&path)).map(|found| found.is_some())
        };
        assert_eq!(with_mode(0o600, "0123456789abcdef\n"), Ok(true));
        for mode in [0o640, 0o604, 0o620, 0o602] {
            assert!(with_mode(mode, "0123456789abcdef").unwrap_err().contains("chmod 600"), "{mode:o}");
        }
        assert!(with_mode(0o600, "short").unwrap_err().contains("a secret has 16"));
        std::fs::remove_file(&path).unwrap();
        assert!(secret(Some(&path)).unwrap_err().contains("No such file"));
    }
}

//! The users with which the server starts: from a file of them, or from the settings.

use std::fs;
use std::io;

use lane::Users;

use crate::control::{self, Level};
use crate::settings::ServeSettings;

/// The users that the settings name; `given` are those without a name, the default user with `requirepass`.
///
/// # Errors
/// A sentence: the server does not start with other users than those that are meant.
pub(crate) fn of(settings: &ServeSettings, given: &Users) -> Result<Users, String> {
    let opens_channels = settings.acl_pubsub_default == "allchannels";
    let Some(path) = &settings.aclfile else {
        if settings.user.is_empty() {
            return Ok(given.clone());
        }
        return given.list(&settings.user, opens_channels).map_err(|why| {
            // No rules were there before.
            let why = why.split("WARNING: ACL errors").next().unwrap_or_default();
            format!("--user: {} A user is a name and rules as ACL SETUSER takes them", why.trim_end())
        });
    };
    let file = path.display();
    if !settings.user.is_empty() {
        return Err(format!(
            "users come from a file or from the settings, not from both: leave out aclfile ({file}), or user"
        ));
    }
    let text = fs::read(path).map_err(|error| {
        format!(
            "Error loading ACLs, opening file '{file}': {}; name a readable file with --aclfile, or an empty one",
            reason(&error)
        )
    })?;
    if settings.requirepass.is_some() {
        let line = format!(
            "requirepass is not what Redis' clients are asked for: {file} says who the default user is. It stays the password of the \
             other protocols"
        );
        control::log(Level::Warn, &line);
    }
    given.read(&text, &file.to_string(), opens_channels)
}

/// What the system says of an error, without its number.
pub(crate) fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_owned()
}

//! CONFIG REWRITE: puts what clients have changed into the configuration file, and leaves everything else in it as its
//! owner wrote it: order, comments, blank lines.
//!
//! The new text goes into a file beside the old one, which it replaces in one step once it is on disk: whoever reads
//! meanwhile, and a machine that fails meanwhile, sees the whole old file or the whole new one.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, fchown};
use std::path::Path;

use toml_edit::{Array, DocumentMut, Item, Table, Value};

use super::file::{self, TABLE};
use crate::files::unfinished;

/// What a rewrite did.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Rewritten {
    /// Names that the file has no key for: settings that are kept for those who ask, without effect here.
    pub(crate) left_out: Vec<String>,
}

/// Writes names and values into the file at `path`. An error is one sentence.
pub(crate) fn rewrite(path: &Path, changed: &[(String, String)]) -> Result<Rewritten, String> {
    let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let program = super::program();
    let serve = super::serve_of(&program);
    let is_key = |name: &str| name != "config" && file::find(serve, name).is_some();
    let (known, left_out): (Vec<_>, Vec<_>) = changed.iter().partition(|(name, _)| is_key(name));
    let text = edit(&text, &known).map_err(|why| format!("{}: {why}", path.display()))?;
    replace(path, text.as_bytes()).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(Rewritten { left_out: left_out.into_iter().map(|(name, _)| name.clone()).collect() })
}

/// The text with each name's value in the table of this verb. An empty value is none: its key goes.
fn edit(text: &str, changed: &[&(String, String)]) -> Result<String, String> {
    let mut document: DocumentMut = text
        .parse()
        .map_err(|error: toml_edit::TomlError| format!("not TOML any more: {}", error.message()))?;
    let serve = document.entry(TABLE).or_insert_with(|| Item::Table(Table::new()));
    let serve = serve.as_table_like_mut().ok_or_else(|| format!("`{TABLE}` is not a table any more"))?;
    for (name, text) in changed {
        if text.is_empty() {
            serve.remove(name);
            continue;
        }
        if name == "user" {
            serve.insert(name, Item::Value(text.lines().collect::<Array>().into()));
            continue;
        }
        let mut value = value_of(text);
        match serve.get_mut(name).and_then(Item::as_value_mut) {
            // With what stood around it: its comment, above all.
            Some(old) => {
                *value.decor_mut() = old.decor().clone();
                *old = value;
            }
            None => {
                serve.insert(name, Item::Value(value));
            }
        }
    }
    Ok(document.to_string())
}

/// In the form in which people write it, if it reads back as the same text.
fn value_of(text: &str) -> Value {
    match (text, text.parse::<i64>()) {
        ("yes", _) => true.into(),
        ("no", _) => false.into(),
        (_, Ok(number)) if number.to_string() == text => number.into(),
        _ => text.into(),
    }
}

/// Puts `text` in the place of the file at `path`, with its owner and its permissions: it may hold a password. Where there is none, only
/// the server's user may read the new one.
pub(crate) fn replace(path: &Path, text: &[u8]) -> io::Result<()> {
    let (folder, front) = draft_of(path).ok_or(io::ErrorKind::InvalidInput)?;
    let draft = folder.join(format!("{front}{}{DRAFT}", std::process::id()));
    let old = match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        old => Some(old?),
    };
    let written = write(&draft, text, old.as_ref()).and_then(|()| fs::rename(&draft, path));
    if written.is_err() {
        let _ = fs::remove_file(&draft);
    }
    written?;
    // The name's change is on disk only when the folder is.
    File::open(folder)?.sync_all()
}

/// Removes what processes that were killed while they replaced a file have left beside it.
pub(crate) fn remove_drafts(path: &Path) {
    if let Some((folder, front)) = draft_of(path) {
        unfinished::remove(folder, &front, DRAFT, "");
    }
}

/// What stands behind a process' number in the name of a file that is to replace another.
const DRAFT: &str = ".new";

/// Where it is, and what stands before the number.
fn draft_of(path: &Path) -> Option<(&Path, String)> {
    let folder = path.parent().filter(|it| !it.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Some((folder, format!(".{}.", path.file_name()?.to_string_lossy())))
}

fn write(draft: &Path, text: &[u8], old: Option<&fs::Metadata>) -> io::Result<()> {
    // One that a crash has left behind is in nobody's way.
    let _ = fs::remove_file(draft);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(draft)?;
    if let Some(old) = old {
        // Only the superuser gives files away; for others the owner is right already, or the server's from now on.
        let _ = fchown(&file, Some(old.uid()), Some(old.gid()));
        file.set_permissions(fs::Permissions::from_mode(old.mode() & 0o7777))?;
    }
    file.write_all(text)?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, changed: &[(&str, &str)], want: &str) {
        let changed: Vec<_> =
            changed.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        assert_eq!(edit(text, &changed.iter().collect::<Vec<_>>()).unwrap(), want);
    }

    #[test]
    fn a_file_keeps_its_comments_and_its_order() {
        check(
            "# ours\n[serve]\nport = 7000 # far up\n\n# enough\nmaxmemory = \"1gb\"  # of 4\nlanes = 2\n",
            &[("maxmemory", "2147483648"), ("timeout", "30"), ("protected-mode", "no")],
            "# ours\n[serve]\nport = 7000 # far up\n\n# enough\nmaxmemory = 2147483648  # of 4\nlanes = 2\ntimeout = 30\n\
             protected-mode = false\n",
        );
    }

    #[test]
    fn every_form_of_the_table_is_understood() {
        check("", &[("timeout", "1")], "[serve]\ntimeout = 1\n");
        check("serve = { port = 1 }\n", &[("timeout", "1")], "serve = { port = 1 , timeout = 1 }\n");
        check("serve.port = 1\n", &[("port", "2")], "serve.port = 2\n");
        check(
            "[serve]\nport = 1\n[bench]\nx = 1\n",
            &[("timeout", "1")],
            "[serve]\nport = 1\ntimeout = 1\n[bench]\nx = 1\n",
        );
        let changed = ("timeout".to_owned(), "1".to_owned());
        assert_eq!(edit("serve = 1\n", &[&changed]).unwrap_err(), "`serve` is not a table any more");
        assert!(edit("[serve\n", &[&changed]).unwrap_err().starts_with("not TOML any more: "));
    }

    #[test]
    fn values_read_back_as_they_were() {
        check("[serve]\nrequirepass = \"x\"\n", &[("requirepass", "")], "[serve]\n");
        for (text, want) in [
            ("007", "\"007\""),
            ("7", "7"),
            ("-1", "-1"),
            ("99999999999999999999", "\"99999999999999999999\""),
            ("5%", "\"5%\""),
            ("a \"b\"\n", "'''\na \"b\"\n'''"),
        ] {
            let edited = edit("", &[&("requirepass".to_owned(), text.to_owned())]).unwrap();
            let table: toml::Table = edited.parse().unwrap();
            let value = &table["serve"]["requirepass"];
            assert_eq!(
                value.as_str().map_or_else(|| value.as_integer().unwrap().to_string(), str::to_owned),
                text,
                "{edited}"
            );
            assert!(text.contains('\n') || edited == format!("[serve]\nrequirepass = {want}\n"), "{edited}");
        }
    }

    #[test]
    fn a_file_is_replaced_with_its_permissions_or_not_at_all() {
        let folder = std::env::temp_dir().join(format!("expresslane-rewrite-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("lanes.toml");
        fs::write(&path, "[serve]\nport = 1\n").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let changed = [("hz".to_owned(), "9".to_owned()), ("timeout".to_owned(), "5".to_owned())];
        let rewritten = rewrite(&path, &changed).unwrap();
        assert_eq!(rewritten.left_out, ["hz"]);
        assert_eq!(fs::read_to_string(&path).unwrap(), "[serve]\nport = 1\ntimeout = 5\n");
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o640);
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1, "nothing is left beside it");
        fs::write(&path, "[serve\n").unwrap();
        assert!(rewrite(&path, &changed).unwrap_err().contains("not TOML any more"));
        assert_eq!(fs::read_to_string(&path).unwrap(), "[serve\n");
        fs::remove_dir_all(&folder).unwrap();
    }
}

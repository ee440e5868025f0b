//! All functions that there are, and their libraries, as every lane knows them. The control thread makes a new whole of them for each
//! change, so that nobody ever sees half of one.

use std::collections::{BTreeMap, BTreeSet};

use script::Library;

/// Bytes of all libraries, compiled; what would be more is refused.
const SIZE_MAX: usize = 64 * 1024 * 1024;
/// What a library and a function take in the tables here beside their own bytes, by and large.
const LIBRARY_PLACE: usize = 256;
const FUNCTION_PLACE: usize = 128;

const TOO_MANY: &str =
    "ERR too many functions are loaded: 64 MiB of them are kept until FUNCTION DELETE or FUNCTION FLUSH";

/// See the top of this file.
#[derive(Clone, Default)]
pub(crate) struct Functions {
    /// Names of libraries are told apart by their case, those of functions are not.
    libraries: BTreeMap<String, Library>,
    /// In lower case: the library, and which of its functions it is.
    by_name: BTreeMap<String, (Library, usize)>,
    /// By which interpreters know the libraries.
    numbers: BTreeSet<u64>,
    size: usize,
}

/// What happens to libraries of the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Policy {
    /// There may be none.
    Append,
    /// The new one takes their place.
    Replace,
    /// All that there were go.
    Flush,
}

impl Functions {
    /// The function of this name, in any case.
    pub(crate) fn find(&self, name: &[u8]) -> Option<(&Library, usize)> {
        let name = std::str::from_utf8(name).ok()?;
        let found = if name.bytes().any(|byte| byte.is_ascii_uppercase()) {
            self.by_name.get(&name.to_ascii_lowercase())
        } else {
            self.by_name.get(name)
        };
        found.map(|(library, index)| (library, *index))
    }

    pub(crate) fn has_number(&self, number: u64) -> bool {
        self.numbers.contains(&number)
    }

    pub(crate) fn library(&self, name: &str) -> Option<&Library> {
        self.libraries.get(name)
    }

    /// By name.
    pub(crate) fn libraries(&self) -> impl Iterator<Item = &Library> {
        self.libraries.values()
    }

    /// How many libraries there are, and how many functions.
    pub(crate) fn counts(&self) -> (usize, usize) {
        (self.libraries.len(), self.libraries.values().map(|library| library.functions().len()).sum())
    }

    /// Bytes of all.
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// What there is when these have been added, whose names differ.
    ///
    /// # Errors
    /// What Redis answers if one of them can't be added; then none is.
    pub(crate) fn with(&self, added: Vec<Library>, policy: Policy) -> Result<Functions, String> {
        let mut all = if policy == Policy::Flush { Functions::default() } else { self.clone() };
        for library in &added {
            if policy == Policy::Append && all.libraries.contains_key(library.name()) {
                return Err(format!("ERR Library {} already exists", library.name()));
            }
            all.remove(library.name());
        }
        for library in added {
            all.add(library)?;
        }
        if all.size > SIZE_MAX { Err(TOO_MANY.to_owned()) } else { Ok(all) }
    }

    /// What there is without this library; none if it is not there.
    pub(crate) fn without(&self, name: &str) -> Option<Functions> {
        let mut all = self.clone();
        all.remove(name).then_some(all)
    }

    fn add(&mut self, library: Library) -> Result<(), String> {
        for (index, function) in library.functions().iter().enumerate() {
            let name = function.name.to_ascii_lowercase();
            match self.by_name.get(&name) {
                // Two of one library whose names are different in case alone: the first is called.
                Some((other, _)) if other.number() == library.number() => {}
                Some(_) => return Err(format!("ERR Function {} already exists", function.name)),
                None => drop(self.by_name.insert(name, (library.clone(), index))),
            }
        }
        self.size += place_of(&library);
        self.numbers.insert(library.number());
        self.libraries.insert(library.name().to_owned(), library);
        Ok(())
    }

    fn remove(&mut self, name: &str) -> bool {
        let Some(library) = self.libraries.remove(name) else { return false };
        self.size -= place_of(&library);
        self.numbers.remove(&library.number());
        for function in library.functions() {
            self.by_name.remove(&function.name.to_ascii_lowercase());
        }
        true
    }
}

fn place_of(library: &Library) -> usize {
    library.size() + LIBRARY_PLACE + library.functions().len() * FUNCTION_PLACE
}

#[cfg(test)]
mod tests {
    use script::{Engine, Header};

    use super::*;

    fn library(number: u64, name: &str, functions: &[&str]) -> Library {
        let mut source = format!("#!lua name={name}\nlocal f = function() end\n");
        for function in functions {
            source += &format!("redis.register_function('{function}', f)\n");
        }
        let header = Header::of(source.as_bytes()).expect("it has one");
        let mut engine = Engine::new(16 << 20);
        Library::load(header, source.as_bytes(), number, &mut engine, &mut Vec::new()).expect("it is right")
    }

    /// The functions that are there, each with its library's number; and what is counted is what is there.
    fn show(functions: &Functions) -> String {
        let size: usize = functions.libraries().map(place_of).sum();
        assert_eq!(functions.size(), size);
        assert!(functions.libraries().all(|library| functions.has_number(library.number())));
        assert_eq!(functions.numbers.len(), functions.counts().0);
        let names =
            functions.by_name.iter().map(|(name, (library, _))| format!("{name}{}", library.number()));
        names.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn all_are_added_or_none() {
        let none = Functions::default();
        let one = none.with(vec![library(1, "a", &["f", "g"])], Policy::Append).expect("there are none");
        assert_eq!((show(&one).as_str(), one.counts()), ("f1 g1", (1, 2)));
        let check = |added: &[Library], policy, want: &str| {
            let got = one.with(added.to_vec(), policy).map_or_else(|text| text, |all| show(&all));
            assert_eq!(got, want, "{policy:?}");
            assert_eq!(show(&one), "f1 g1");
        };
        let (a, b) = (library(2, "a", &["f"]), library(3, "b", &["h"]));
        check(&[b.clone(), a.clone()], Policy::Append, "ERR Library a already exists");
        check(&[b.clone(), a.clone()], Policy::Replace, "f2 h3");
        check(std::slice::from_ref(&b), Policy::Replace, "f1 g1 h3");
        check(&[b], Policy::Flush, "h3");
        check(&[], Policy::Flush, "");
        check(&[library(4, "c", &["x", "F"])], Policy::Replace, "ERR Function F already exists");
        // A function may move from a library to another if both come.
        check(&[library(5, "c", &["g"]), a], Policy::Replace, "f2 g5");
        check(
            &[library(6, "c", &["g"]), library(7, "d", &["G"])],
            Policy::Flush,
            "ERR Function G already exists",
        );
        // Names of libraries are told apart by their case.
        check(&[library(8, "A", &["x"])], Policy::Append, "f1 g1 x8");
    }

    #[test]
    fn functions_are_found_in_any_case() {
        let both = library(1, "a", &["Same", "same", "Other"]);
        let all = Functions::default().with(vec![both], Policy::Append).expect("there are none");
        let index = |name: &str| all.find(name.as_bytes()).map(|(_, index)| index);
        assert_eq!((index("other"), index("OTHER"), index("none")), (Some(0), Some(0), None));
        assert_eq!((index("SAME"), index("same")), (Some(1), Some(1)));
        assert_eq!(all.counts(), (1, 3));
        assert!(all.find(b"\xff").is_none());
        assert_eq!(all.without("a").map(|all| show(&all)), Some(String::new()));
        assert!(all.without("A").is_none());
    }

    #[test]
    fn there_is_an_end_to_what_is_kept() {
        let text = "x".repeat(200_000);
        let mut all = Functions::default();
        for number in 0.. {
            let source = format!(
                "#!lua name=l{number}\nredis.register_function('f{number}', function() return '{text}' end)"
            );
            let header = Header::of(source.as_bytes()).expect("it has one");
            let mut engine = Engine::new(16 << 20);
            let library = Library::load(header, source.as_bytes(), number, &mut engine, &mut Vec::new());
            match all.with(vec![library.expect("it is right")], Policy::Append) {
                Ok(more) => all = more,
                Err(text) => {
                    assert_eq!(text, TOO_MANY);
                    break;
                }
            }
        }
        assert!((SIZE_MAX - 500_000..=SIZE_MAX).contains(&all.size()));
    }
}

//! Functions are data: replicas get them in front of the snapshot's keys, and are told of changes in the stream.
//!
//! A library that a server of Redis can't load is kept from them ([`Library::is_portable`]): finding it in a snapshot, such a server ends.

use script::Library;
use wire::client::command;
use wire::rdb::functions::put_library;

use super::super::Control;
use crate::functions::Functions;

impl Control {
    /// Appends what there is to a snapshot.
    pub(super) fn put_functions(&self, out: &mut Vec<u8>) {
        for library in self.functions.libraries().filter(|library| library.is_portable()) {
            put_library(out, library.source(), None);
        }
    }

    /// There will be these functions instead of those that there are. One change is one command; several are carried out at once, what goes
    /// first, so that functions may move from one library to another.
    pub(in crate::control) fn tell_replicas_of(&mut self, functions: &Functions) {
        if !self.replication.is_fed {
            return;
        }
        let before = &self.functions;
        let is_new = |library: &&Library| !before.has_number(library.number());
        let come: Vec<&Library> =
            functions.libraries().filter(|library| library.is_portable() && is_new(library)).collect();
        let gone = before.libraries().filter(|library| library.is_portable());
        let mut gone: Vec<&Library> =
            gone.filter(|library| !functions.has_number(library.number())).collect();
        if let ([come], [old]) = (&come[..], &gone[..])
            && come.name() == old.name()
        {
            gone.clear();
        }
        let is_empty = functions.libraries().next().is_none();
        let count = come.len() + gone.len();
        self.replication.log.write(|out| {
            if is_empty {
                return command(out, &[b"FUNCTION", b"FLUSH"]);
            }
            if count > 1 {
                command(out, &[b"MULTI"]);
            }
            gone.iter()
                .for_each(|library| command(out, &[b"FUNCTION", b"DELETE", library.name().as_bytes()]));
            come.iter()
                .for_each(|library| command(out, &[b"FUNCTION", b"LOAD", b"REPLACE", library.source()]));
            if count > 1 {
                command(out, &[b"EXEC"]);
            }
        });
    }
}

//! How effects are carried out: where a changed entry finds room, and what becomes of the old one.

use crate::arena::{Arena, NoRoom};
use crate::budget::Budget;
use crate::database::Counts;
use crate::effect::{Expiry, Full, Key, NewValue, Outcome};
use crate::entry::{
    Digits, EXPIRES_AT, Encoding, Head, INLINE_ENTRY_MAX, INLINE_SIZE_MAX, Mark, Plan, canonical_int,
};
use crate::rope::{Rope, RopeBuilder};
use crate::shard::{Ends, KEY_SIZE_MAX, Shard};
use crate::table::{self, Slot};
use crate::width::narrow;

/// Elements of flushed partitions that a commit frees when it finds the region full, before it gives up.
const REAP_ON_FULL: u32 = 64;

impl Shard {
    #[inline]
    pub(crate) fn set(
        &mut self,
        key: &Key<'_>,
        value: NewValue<'_>,
        mark: Option<Mark>,
        expiry: Expiry,
    ) -> Result<Outcome, Full> {
        let number = match value {
            NewValue::Bytes(bytes) => match canonical_int(bytes) {
                Some(number) => number,
                None if fits_inline(key.bytes.len(), bytes.len()) => {
                    return self.put(key, Encoding::Bytes, bytes, None, mark, expiry);
                }
                None => {
                    let mut builder = RopeBuilder::new();
                    builder.push(bytes);
                    return self.set_rope(key, builder.finish(), mark, expiry);
                }
            },
            NewValue::Int(number) => {
                if mark.is_none()
                    && expiry == Expiry::Keep
                    && let Some(done) = self.renumber(key, number)
                {
                    return Ok(done);
                }
                number
            }
            NewValue::Rope(rope) => return self.set_rope(key, rope, mark, expiry),
        };
        self.put(key, Encoding::Int, &number.to_le_bytes(), None, mark, expiry)
    }

    /// Makes a number that is there another one, where it stands; `None`, with nothing changed, if the key holds no number.
    #[inline(always)]
    fn renumber(&mut self, key: &Key<'_>, number: i64) -> Option<Outcome> {
        let (_, old) = self.find(key)?;
        if old.is_document() || old.encoding() != Encoding::Int {
            return None;
        }
        let stamp = self.first_use(Some(old.word)) | self.age;
        old.set_stamp(&mut self.arena, stamp);
        *self.arena.array_mut(old.handle, old.value().start) = number.to_le_bytes();
        Some(Outcome { existed: true, elements: 1, bytes: narrow(old.size()), len: 0 })
    }

    /// As `set`, of a long string or of one that has become short.
    fn set_rope(
        &mut self,
        key: &Key<'_>,
        rope: Rope,
        mark: Option<Mark>,
        expiry: Expiry,
    ) -> Result<Outcome, Full> {
        if fits_inline(key.bytes.len(), rope.len()) {
            let mut bytes = vec![0; rope.len()];
            rope.copy_to(0, &mut bytes);
            self.graveyard.push(rope);
            return self.set(key, NewValue::Bytes(&bytes), mark, expiry);
        }
        let done = self.put(key, Encoding::Rope, &[0; 4], Some(rope.clone()), mark, expiry);
        if done.is_err() {
            // Refused, but not dropped in one go.
            self.graveyard.push(rope);
        }
        done
    }

    /// Makes the key hold `value`, or the rope instead.
    #[inline(never)]
    fn put(
        &mut self,
        key: &Key<'_>,
        encoding: Encoding,
        value: &[u8],
        rope: Option<Rope>,
        mark: Option<Mark>,
        expiry: Expiry,
    ) -> Result<Outcome, Full> {
        let found = self.find_within(key);
        let old = found.map(|(_, old)| old);
        let old_rope = old.filter(|old| old.encoding() == Encoding::Rope).map(|old| old.rope(&self.arena));
        let expires_at = match expiry {
            Expiry::Keep => old.filter(Head::has_ttl).map(|old| old.expires_at(&self.arena)),
            Expiry::None => None,
            Expiry::At(at) => Some(at),
        };
        let plan = Plan {
            encoding,
            altered: false,
            ttl: expires_at.is_some(),
            mark,
            key_size: key.bytes.len(),
            value_size: value.len(),
        };
        let (head, left, moved) = self.place(key, found, plan, expires_at)?;
        let range = head.value();
        match rope {
            None => self.arena.bytes_mut(head.handle, range).copy_from_slice(value),
            Some(rope) => {
                self.database_mut(key.db).hold(plan.label(), rope.room() as u64);
                let number = self.shelf.put(rope);
                self.arena.set_u32(head.handle, range.start, number);
            }
        }
        if let Some(number) = old_rope {
            // One that has stayed where it was has the new label already.
            let label = left.map_or(plan.label(), |left| Head::read(&self.arena, left).label(&self.arena));
            let rope = self.shelf.take(number);
            self.database_mut(key.db).release(label, rope.room() as u64);
            self.graveyard.push(rope);
        }
        if let Some(left) = left {
            self.arena.free(left);
        }
        Ok(Outcome {
            existed: old.is_some(),
            elements: 1 + narrow(moved),
            bytes: narrow(head.size()),
            len: 0,
        })
    }

    pub(crate) fn set_range(&mut self, key: &Key<'_>, offset: usize, bytes: &[u8]) -> Result<Outcome, Full> {
        let found = self.find(key);
        let old = found.map(|(_, old)| old);
        if bytes.is_empty() {
            let len = old.map_or(0, |old| self.entry(old.handle).value().len());
            return Ok(Outcome { existed: old.is_some(), len, elements: 1, bytes: 0 });
        }
        let end = offset + bytes.len();
        if let Some(old) = old.filter(|old| old.encoding() == Encoding::Rope) {
            let zeros = &self.zeros;
            let number = old.rope(&self.arena);
            let (len, grown) = self.shelf.alter(number, |rope| rope.write(offset, bytes, zeros));
            let label = old.label(&self.arena);
            self.database_mut(key.db).hold(label, grown);
            return Ok(Outcome { existed: true, len, elements: 2, bytes: narrow(bytes.len()) });
        }
        // From here on the old value is a short one, if there is one.
        let digits =
            old.filter(|old| old.encoding() == Encoding::Int).map(|old| Digits::of(old.int(&self.arena)));
        let old_size = match (&old, &digits) {
            (None, _) => 0,
            (Some(_), Some(digits)) => digits.as_ref().len(),
            (Some(old), None) => old.value_size,
        };
        let len = old_size.max(end);
        let inline = fits_inline(key.bytes.len(), len);
        let expires_at = old.filter(Head::has_ttl).map(|old| old.expires_at(&self.arena));
        let plan = Plan {
            encoding: if inline { Encoding::Bytes } else { Encoding::Rope },
            altered: true,
            ttl: expires_at.is_some(),
            mark: old.and_then(|old| old.mark(&self.arena)),
            key_size: key.bytes.len(),
            value_size: if inline { len } else { 4 },
        };
        let rope = (!inline).then(|| {
            let mut rope = Rope::default();
            let before = match (&old, &digits) {
                (None, _) => &[],
                (Some(_), Some(digits)) => digits.as_ref(),
                (Some(old), None) => self.arena.bytes(old.handle, old.value()),
            };
            rope.write(0, before, &self.zeros);
            rope.write(offset, bytes, &self.zeros);
            rope
        });
        let (head, left, moved) = self.place(key, found, plan, expires_at)?;
        let range = head.value();
        if let Some(rope) = rope {
            self.database_mut(key.db).hold(plan.label(), rope.room() as u64);
            let number = self.shelf.put(rope);
            self.arena.set_u32(head.handle, range.start, number);
        } else {
            match (&old, &digits) {
                (Some(_), Some(digits)) => {
                    let start = range.start;
                    self.arena
                        .bytes_mut(head.handle, start..start + old_size)
                        .copy_from_slice(digits.as_ref());
                }
                (Some(old), None) if left.is_some() => {
                    self.arena.copy_range(old.handle, old.value(), head.handle, range.start);
                }
                _ => {}
            }
            let value = self.arena.bytes_mut(head.handle, range);
            if offset > old_size {
                value[old_size..offset].fill(0);
            }
            value[offset..end].copy_from_slice(bytes);
        }
        if let Some(left) = left {
            self.arena.free(left);
        }
        let copied = if left.is_some() { old_size } else { 0 };
        let bytes = narrow(copied + bytes.len());
        Ok(Outcome { existed: old.is_some(), len, elements: 1 + narrow(moved), bytes })
    }

    /// Finds room for an entry of that plan, writes all of it but the value, and makes it the one that the key's slot
    /// and the wheel know. The room is the old entry's if nothing but the value's bytes and length change; else the old
    /// entry's handle is given back too, unowned, its bytes still there for copying. Last comes the number of entries
    /// that the table moved.
    #[inline(always)]
    fn place(
        &mut self,
        key: &Key<'_>,
        found: Option<(Slot, Head)>,
        plan: Plan,
        expires_at: Option<i64>,
    ) -> Result<(Head, Option<u32>, usize), Full> {
        assert!(key.bytes.len() <= KEY_SIZE_MAX, "a lane refuses keys above the limit");
        if let Some((_, old)) = found
            && plan.start() == old.start
            && self.arena.fits(old.handle, plan.size())
        {
            let stamp = self.first_use(Some(old.word)) | self.age;
            // It stays what it was, a document with flags, too: its head begins as far from the key.
            if old.has_flags() && old.label(&self.arena) != plan.label() {
                self.relabel(key.db, &old, plan.label());
            }
            let head = plan.rewrite(&mut self.arena, old, stamp);
            if let Some(at) = expires_at {
                let before = old.expires_at(&self.arena);
                if at != before {
                    self.wheel.unlink(&mut self.arena, old.handle);
                    self.ends_mut(key.db).remove(before);
                    self.arm(old.handle, key.db, at);
                }
            }
            return Ok((head, None, 0));
        }
        let (head, moved) = self.place_anew(key, found, plan, expires_at)?;
        Ok((head, found.map(|(_, old)| old.handle), moved))
    }

    #[inline(never)]
    fn place_anew(
        &mut self,
        key: &Key<'_>,
        found: Option<(Slot, Head)>,
        plan: Plan,
        expires_at: Option<i64>,
    ) -> Result<(Head, usize), Full> {
        let home = self.places[usize::from(key.db)];
        let stamp = self.first_use(found.map(|(_, old)| old.word)) | self.age;
        let handle = self.alloc(plan.size())?;
        if self.make_roots(home, key.partition).is_err() {
            self.reap(&mut Budget::new(REAP_ON_FULL, u32::MAX));
            if self.make_roots(home, key.partition).is_err() {
                self.arena.free(handle);
                return Err(self.full());
            }
        }
        let head = plan.write(&mut self.arena, handle, stamp, home);
        self.arena.bytes_mut(handle, head.key()).copy_from_slice(key.bytes);
        let database = &mut self.databases[usize::from(home)];
        let mut moved = 0;
        match found {
            Some((slot, old)) => {
                slot.set_entry(&mut self.arena, handle);
                if old.has_ttl() {
                    self.wheel.unlink(&mut self.arena, old.handle);
                }
            }
            None => {
                let hasher = self.hasher;
                let hash_of =
                    |arena: &Arena, entry| hasher.hash(arena.bytes(entry, Head::read(arena, entry).key()));
                let root = database.root(key.partition);
                match table::insert(&mut self.arena, root, key.hash, handle, hash_of) {
                    Ok(count) => moved = count,
                    Err(NoRoom) => {
                        self.arena.free(handle);
                        self.unmake_roots(home, key.partition);
                        return Err(self.full());
                    }
                }
            }
        }
        database.enter(plan.label(), self.arena.room(handle) as u64);
        if let Some((_, old)) = found {
            database.leave(old.label(&self.arena), self.arena.room(old.handle) as u64);
        }
        let had_ttl = found.is_some_and(|(_, old)| old.has_ttl());
        if found.is_none() || had_ttl != plan.ttl {
            let expiring = i64::from(plan.ttl) - i64::from(had_ttl);
            database.recount(key.partition, i64::from(found.is_none()), expiring);
        }
        if let Some((_, old)) = found.filter(|(_, old)| old.has_ttl()) {
            self.ends[usize::from(home)].remove(old.expires_at(&self.arena));
        }
        if let Some(at) = expires_at {
            self.arm(handle, key.db, at);
        }
        Ok((head, moved))
    }

    /// Sees to it that a partition of the database at this place has its root.
    fn make_roots(&mut self, place: u16, partition: u16) -> Result<(), NoRoom> {
        let database = &mut self.databases[usize::from(place)];
        let before = database.size;
        let made = database.make(&mut self.arena, partition, self.config.partitions);
        self.heads += database.size - before;
        made
    }

    /// Keys of the partition have gone, or one has not come.
    fn unmake_roots(&mut self, place: u16, partition: u16) {
        let database = &mut self.databases[usize::from(place)];
        let before = database.size;
        database.unmake(&mut self.arena, partition);
        self.heads -= before - database.size;
    }

    /// An entry that stays where it is gets another label, with all that it holds.
    fn relabel(&mut self, db: u16, old: &Head, label: u16) {
        let before = old.label(&self.arena);
        let held = self.held_by_entry(old);
        let database = self.database_mut(db);
        database.leave(before, held);
        database.enter(label, held);
    }

    /// Bytes of an entry, and of the long value that it holds.
    fn held_by_entry(&self, head: &Head) -> u64 {
        let rope = (head.encoding() == Encoding::Rope).then(|| self.shelf.get(head.rope(&self.arena)).room());
        (self.arena.room(head.handle) + rope.unwrap_or(0)) as u64
    }

    pub(crate) fn delete(&mut self, key: &Key<'_>, slot: Slot, head: &Head) -> usize {
        let place = self.places[usize::from(key.db)];
        let database = &mut self.databases[usize::from(place)];
        database.recount(key.partition, -1, -i64::from(head.has_ttl()));
        let moved = table::remove(&mut self.arena, database.root(key.partition), key.hash, slot);
        self.unmake_roots(place, key.partition);
        self.discard(head.handle);
        moved
    }

    /// Frees an entry that no slot owns any more.
    pub(crate) fn discard(&mut self, handle: u32) {
        let head = Head::read(&self.arena, handle);
        let home = usize::from(head.home(&self.arena));
        if head.has_ttl() {
            self.wheel.unlink(&mut self.arena, handle);
            self.ends[home].remove(head.expires_at(&self.arena));
        }
        let held = self.held_by_entry(&head);
        if head.encoding() == Encoding::Rope {
            let rope = self.shelf.take(head.rope(&self.arena));
            self.graveyard.push(rope);
        }
        self.databases[home].leave(head.label(&self.arena), held);
        self.arena.free(handle);
    }

    /// Gives the key another end; the number of bytes copied comes back.
    pub(crate) fn expire(&mut self, key: &Key<'_>, slot: Slot, old: Head, at: Expiry) -> Result<u32, Full> {
        let expires_at = match at {
            Expiry::Keep => return Ok(0),
            Expiry::None => None,
            Expiry::At(at) => Some(at),
        };
        if expires_at.is_none() && !old.has_ttl() {
            return Ok(0);
        }
        let plan = Plan {
            encoding: old.encoding(),
            altered: old.is_altered(),
            ttl: expires_at.is_some(),
            mark: old.mark(&self.arena),
            key_size: old.key_size,
            value_size: old.value_size,
        };
        let (head, left, _) = self.place(key, Some((slot, old)), plan, expires_at)?;
        let Some(left) = left else { return Ok(0) };
        self.arena.copy_range(left, old.value(), head.handle, head.value().start);
        self.arena.free(left);
        Ok(narrow(head.size()))
    }

    pub(crate) fn flush(&mut self, db: u16, partition: u16) -> bool {
        let place = self.places[usize::from(db)];
        let database = &mut self.databases[usize::from(place)];
        let Counts { count, expiring } = database.counts(partition);
        if count == 0 {
            return false;
        }
        database.recount(partition, -i64::from(count), -i64::from(expiring));
        let root = database.root(partition);
        self.doomed.push(std::mem::replace(self.arena.array_mut(root, 0), table::EMPTY));
        self.unmake_roots(place, partition);
        true
    }

    /// Writes the end of an entry of database `db` and puts it on the wheel.
    fn arm(&mut self, handle: u32, db: u16, at: i64) {
        self.ends_mut(db).add(at);
        *self.arena.array_mut(handle, EXPIRES_AT) = at.to_le_bytes();
        self.wheel.link(&mut self.arena, handle, 0);
    }

    fn ends_mut(&mut self, db: u16) -> &mut Ends {
        &mut self.ends[usize::from(self.places[usize::from(db)])]
    }

    fn alloc(&mut self, size: usize) -> Result<u32, Full> {
        if let Ok(handle) = self.arena.alloc(size) {
            return Ok(handle);
        }
        self.reap(&mut Budget::new(REAP_ON_FULL, u32::MAX));
        self.arena.alloc(size).map_err(|NoRoom| self.full())
    }
}

/// Whether key and value make one piece, lengths, a time to live and a mark included.
fn fits_inline(key_size: usize, value_size: usize) -> bool {
    let mark = Some(Mark { flags: 1, ..Mark::default() });
    let plan = Plan { encoding: Encoding::Bytes, altered: false, ttl: true, mark, key_size, value_size };
    value_size <= INLINE_SIZE_MAX && plan.size() <= INLINE_ENTRY_MAX
}

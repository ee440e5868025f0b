//! Strings: encodings and versions.

use crate::world::{World, read};
use store::{Effect, Expiry, NewValue, Value};

/// Strings keep the encoding names that Redis gives them.
#[test]
fn encodings_are_named_as_in_redis() {
    let mut world = World::new(6, 1, 8 << 20);
    let mut check = |value: &[u8], want: &str| {
        let key = world.shard.key(0, 63, b"h");
        world.shard.commit(Effect::Set { key, value: NewValue::Bytes(value), expiry: Expiry::None }).unwrap();
        assert_eq!(world.shard.get(&key, 0).unwrap().encoding(), want);
    };
    check(b"12", "int");
    check(b"-9223372036854775808", "int");
    check(b"012", "embstr");
    check(&[b'x'; 44], "embstr");
    check(&[b'x'; 45], "raw");
    check(&[b'x'; 40_000], "raw");
    let key = world.shard.key(0, 63, b"h");
    world.commit(Effect::Set { key, value: NewValue::Bytes(b"12"), expiry: Expiry::At(9) });
    world.commit(Effect::SetRange { key, offset: 2, bytes: b"3" });
    let entry = world.shard.get(&key, 0).unwrap();
    assert_eq!(
        (entry.encoding(), entry.expires_at(), read(entry.value())),
        ("raw", Some(9), b"123".to_vec())
    );
}

/// A rope that somebody still reads keeps its bytes while the key goes on.
#[test]
fn readers_of_a_rope_see_the_version_they_took() {
    let mut world = World::new(7, 1, 8 << 20);
    let key = world.shard.key(0, 63, b"h");
    world.commit(Effect::Set { key, value: NewValue::Bytes(&[1; 200_000]), expiry: Expiry::None });
    let Value::Rope(rope) = world.shard.get(&key, 0).unwrap().value() else {
        panic!("200,000 bytes are a rope")
    };
    let taken = rope.clone();
    world.commit(Effect::SetRange { key, offset: 70_000, bytes: &[2; 3] });
    world.commit(Effect::SetRange { key, offset: 200_000, bytes: &[3; 5] });
    assert!(read(Value::Rope(&taken)) == [1; 200_000]);
    let now = read(world.shard.get(&key, 0).unwrap().value());
    assert_eq!(
        (now.len(), &now[69_999..70_004], &now[199_999..]),
        (200_005, &[1, 2, 2, 2, 1][..], &[1, 3, 3, 3, 3, 3][..])
    );
    let Value::Rope(rope) = world.shard.get(&key, 0).unwrap().value() else { panic!("it stays a rope") };
    assert!(std::sync::Arc::ptr_eq(rope.chunk(2), taken.chunk(2)), "chunks that nobody wrote to are shared");
    let shared: std::sync::Arc<dyn AsRef<[u8]> + Send + Sync> = taken.chunk(0).clone();
    assert_eq!((*shared).as_ref().len(), store::CHUNK_SIZE);
    world.commit(Effect::Set { key, value: NewValue::Bytes(b"short"), expiry: Expiry::None });
    assert_eq!(world.shard.memory().retired, 200_192, "an old value is not freed at once");
    assert_eq!(world.shard.memory().ropes, 0);
    world.drain();
    assert_eq!(world.shard.memory().retired, 0);
    world.shard.retire(taken);
    world.drain();
    assert_eq!(world.shard.memory().retired, 0);
}

// A client program on couchbase, the SDK of Couchbase for Node. ../restartable.py says how it talks with the test that runs it.
import assert from "node:assert/strict";
import couchbase from "couchbase";
import { ask } from "./talk.js";

const {
  CasMismatchError, DeltaInvalidError, DocumentExistsError, DocumentLockedError, DocumentNotFoundError, DocumentNotLockedError,
  DurabilityLevel, DurabilityLevelNotAvailableError, FeatureNotAvailableError, LookupInSpec, MutateInSpec, PathExistsError,
  PathMismatchError, PathNotFoundError, RawBinaryTranscoder, ScopeNotFoundError, ServiceNotAvailableError, StoreSemantics, TimeoutError, UnambiguousTimeoutError,
  UnsupportedOperationError,  ValueTooLargeError,
} = couchbase;

const KEYS_COUNT = 2000;
const HOUR_SECONDS = 3600;
const VALUE_SIZE_MAX = 20 * 1024 * 1024;
const PATIENCE_MS = 60_000;
// For requests that the SDK repeats until its time is over.
const HASTE = { timeout: 500 };

const [port, password, lanes] = process.argv.slice(2);

function connect() {
  return couchbase.connect(`couchbase://127.0.0.1:${port}`, {
    username: "any", password, timeouts: { kvTimeout: PATIENCE_MS, connectTimeout: PATIENCE_MS, bootstrapTimeout: PATIENCE_MS },
  });
}

async function values(docs) {
  const first = await docs.insert("a", { name: "one" });
  await assert.rejects(docs.insert("a", 1), DocumentExistsError);
  const read = await docs.get("a");
  assert.deepEqual([read.content, String(read.cas)], [{ name: "one" }, String(first.cas)]);
  await assert.rejects(docs.get("missing"), DocumentNotFoundError);
  await assert.rejects(docs.replace("missing", 1), DocumentNotFoundError);
  await docs.replace("a", "two", { cas: first.cas });
  await assert.rejects(docs.replace("a", 3, { cas: first.cas }), CasMismatchError);
  await assert.rejects(docs.remove("a", { cas: first.cas }), CasMismatchError);
  const last = await docs.upsert("a", [1, "zwei", null]);
  assert.equal((await docs.exists("a")).exists, true);
  assert.deepEqual((await docs.getAnyReplica("a")).content, [1, "zwei", null]);
  assert.equal((await docs.getAllReplicas("a")).length, 1);
  await docs.remove("a", { cas: last.cas });
  assert.equal((await docs.exists("a")).exists, false);
  await assert.rejects(docs.remove("a"), DocumentNotFoundError);
  const long = "k".repeat(245);
  await docs.upsert(long, "long");
  assert.equal((await docs.get(long)).content, "long");
}

async function numbersAndBytes(docs) {
  const binary = docs.binary();
  assert.equal((await binary.increment("n", 2, { initial: 5 })).value, 5);
  assert.equal((await binary.increment("n", 2, { initial: 5 })).value, 7);
  assert.equal((await binary.decrement("n", 100)).value, 0);
  await assert.rejects(binary.increment("m", 1), DocumentNotFoundError);
  await docs.upsert("t", "text");
  await assert.rejects(binary.increment("t", 1), DeltaInvalidError);
  const transcoder = new RawBinaryTranscoder();
  const first = await docs.upsert("b", Buffer.from("two"), { transcoder });
  await binary.append("b", " three");
  await binary.prepend("b", "one ");
  assert.equal(String((await docs.get("b", { transcoder })).content), "one two three");
  await assert.rejects(binary.append("b", "x", { cas: first.cas }), CasMismatchError);
  await assert.rejects(binary.append("missing", "x"), DocumentNotFoundError);
  for (const size of [0, 1, 100_000, VALUE_SIZE_MAX]) {
    const value = Buffer.alloc(size, "v");
    await docs.upsert("large", value, { transcoder });
    assert.ok((await docs.get("large", { transcoder })).content.equals(value));
  }
  await assert.rejects(docs.upsert("large", Buffer.alloc(VALUE_SIZE_MAX + 1), { transcoder }), ValueTooLargeError);
  await docs.remove("large");
}

async function ends(docs) {
  async function left(seconds) {
    const { expiryTime } = await docs.get("e", { withExpiry: true });
    assert.ok(Math.abs(expiryTime - Date.now() / 1000 - seconds) < 100, `${expiryTime}`);
  }
  await docs.upsert("e", { x: 1 }, { expiry: HOUR_SECONDS });
  await left(HOUR_SECONDS);
  await docs.touch("e", 2 * HOUR_SECONDS);
  await left(2 * HOUR_SECONDS);
  await docs.upsert("e", { x: 2 }, { preserveExpiry: true });
  await left(2 * HOUR_SECONDS);
  assert.deepEqual((await docs.getAndTouch("e", 60 * 24 * HOUR_SECONDS)).content, { x: 2 });
  await left(60 * 24 * HOUR_SECONDS);
  await docs.upsert("e", { x: 3 });
  assert.ok(!(await docs.get("e", { withExpiry: true })).expiryTime);
  await assert.rejects(docs.touch("missing", 10), DocumentNotFoundError);
}

async function locks(docs) {
  await docs.upsert("l", [1]);
  const { cas } = await docs.getAndLock("l", 30);
  const refused = (error) => error instanceof DocumentLockedError || error instanceof TimeoutError;
  await assert.rejects(docs.upsert("l", 2, HASTE), refused);
  await assert.rejects(docs.remove("l", HASTE), refused);
  await assert.rejects(docs.mutateIn("l", [MutateInSpec.arrayAppend("", 2)], HASTE), refused);
  assert.deepEqual((await docs.get("l")).content, [1]);
  await docs.unlock("l", cas);
  await assert.rejects(docs.unlock("l", cas), DocumentNotLockedError);
  await docs.replace("l", 3, { cas: (await docs.getAndLock("l", 30)).cas });
  await docs.upsert("l", 4);
}

async function inside(docs) {
  await docs.upsert("s", { name: "one", list: [1, { deep: true }], n: 40, set: [1] });
  const found = await docs.lookupIn("s", [
    LookupInSpec.get("name"), LookupInSpec.get("list[-1].deep"), LookupInSpec.exists("none"), LookupInSpec.count("list"),
    LookupInSpec.get("name.more"), LookupInSpec.get("none"),
  ]);
  assert.deepEqual(found.content.slice(0, 4).map(({ value }) => value), ["one", true, false, 2]);
  assert.ok(found.content[4].error instanceof PathMismatchError);
  assert.ok(found.content[5].error instanceof PathNotFoundError);
  const changed = await docs.mutateIn("s", [
    MutateInSpec.increment("n", 2), MutateInSpec.arrayAppend("list", [3, 4], { multi: true }), MutateInSpec.arrayPrepend("list", 0),
    MutateInSpec.arrayInsert("list[1]", 0.5), MutateInSpec.arrayAddUnique("set", 9),
    MutateInSpec.insert("a.b", 1, { createPath: true }), MutateInSpec.replace("name", "two"), MutateInSpec.remove("list[-1]"),
    MutateInSpec.upsert("new", null), MutateInSpec.decrement("n", 1),
  ]);
  assert.deepEqual([changed.content[0].value, changed.content[9].value], [42, 41]);
  assert.deepEqual((await docs.get("s")).content, { name: "two", list: [0, 0.5, 1, { deep: true }, 3], n: 41, set: [1, 9], a: { b: 1 }, new: null });
  await assert.rejects(docs.mutateIn("s", [MutateInSpec.upsert("n", 1), MutateInSpec.insert("n", 7)]), PathExistsError);
  assert.equal((await docs.get("s")).content.n, 41);
  const upsert = [MutateInSpec.upsert("x", 1)];
  await assert.rejects(docs.mutateIn("made", upsert), DocumentNotFoundError);
  await docs.mutateIn("made", upsert, { storeSemantics: StoreSemantics.Insert });
  await assert.rejects(docs.mutateIn("made", upsert, { storeSemantics: StoreSemantics.Insert }), DocumentExistsError);
  await assert.rejects(docs.mutateIn("made", upsert, { cas: changed.cas }), CasMismatchError);
  assert.deepEqual((await docs.get("s", { project: ["name", "a.b"] })).content, { name: "two", a: { b: 1 } });
  // The SDK's lists, queues and maps are made of these.
  await docs.list("list").push("a");
  await docs.list("list").push("b");
  assert.deepEqual(await docs.list("list").getAll(), ["a", "b"]);
  await docs.queue("queue").push(1);
  assert.equal(await docs.queue("queue").pop(), 1);
  await docs.map("map").set("key", "value");
  assert.equal(await docs.map("map").get("key"), "value");
  assert.equal(await docs.set("set").add("one"), true);
}

async function limits(cluster, bucket, docs) {
  await docs.upsert("d", 1, { durabilityLevel: DurabilityLevel.Majority });
  for (const durabilityLevel of [DurabilityLevel.MajorityAndPersistOnMaster, DurabilityLevel.PersistToMajority]) {
    await assert.rejects(docs.upsert("d", 2, { durabilityLevel }), DurabilityLevelNotAvailableError);
  }
  assert.equal((await docs.get("d")).content, 1);
  await assert.rejects(bucket.scope("_default").collection("other").get("d", HASTE), UnambiguousTimeoutError);
  await assert.rejects(bucket.scope("shop").collection("other").get("d"), ScopeNotFoundError);
  const attribute = [LookupInSpec.get("attribute", { xattr: true })];
  await assert.rejects(docs.lookupIn("d", attribute), UnsupportedOperationError);
  await assert.rejects(docs.lookupInAnyReplica("d", attribute), FeatureNotAvailableError);
  await assert.rejects(cluster.query("select 1"), ServiceNotAvailableError);
  // Every lane answers at both of its ports.
  const { kv, mgmt } = (await bucket.ping()).services;
  for (const { state } of [...kv, ...mgmt]) assert.equal(state, 0);
}

async function many(docs) {
  const keys = Array.from({ length: KEYS_COUNT }, (_, number) => `many:${number}`);
  await Promise.all(keys.map((key, number) => docs.upsert(key, { number })));
  const got = await Promise.all(keys.map((key) => docs.get(key)));
  assert.deepEqual(got.map(({ content }) => content.number), keys.map((_, number) => number));
  await Promise.all(keys.map((key) => docs.remove(key)));
}

async function together(docs) {
  await docs.upsert("shared", { n: 0 });
  await Promise.all(Array.from({ length: 400 }, () => Promise.all([
    docs.binary().increment("counter", 1, { initial: 1 }), docs.mutateIn("shared", [MutateInSpec.increment("n", 1)]),
  ])));
  assert.equal((await docs.get("counter")).content, 400);
  assert.equal((await docs.get("shared")).content.n, 400);
}

// Under traffic the server comes back with another number of lanes.
async function restart(docs) {
  let stop = false;
  const traffic = (async () => {
    for (let number = 0; !stop; number++) await docs.upsert(`r:${number % 500}`, number, HASTE).catch(() => {});
  })();
  await ask(`restart ${lanes}`);
  const deadline = Date.now() + PATIENCE_MS;
  while (await docs.upsert("after", lanes, HASTE).then(() => false, () => true)) assert.ok(Date.now() < deadline);
  stop = true;
  await traffic;
  assert.equal((await docs.get("after")).content, lanes);
  // The first that fails says that the map is old, and all others know it.
  await many(docs);
  await ask("begin");
  await many(docs);
  await ask("end");
}

const cluster = await connect();
const bucket = cluster.bucket("default");
const docs = bucket.defaultCollection();
for (const [name, part] of Object.entries({ values, "numbers and bytes": numbersAndBytes, ends, locks, inside, together })) {
  await part(docs);
  console.log(name);
}
await limits(cluster, bucket, docs);
console.log("limits");
await ask("begin");
await many(docs);
await ask("end");
console.log("many");
await restart(docs);
console.log("other lanes");
await cluster.close();
process.exit(0);

// A client program on ioredis. ../restartable.py says how it talks with the test that runs it.
import assert from "node:assert/strict";
import { Cluster, Redis } from "ioredis";
import { ask } from "./talk.js";

const KEYS_COUNT = 2000;
const [sharedPort, lanePort] = process.argv.slice(2).map(Number);

async function values(client) {
  await client.flushall();
  assert.equal(await client.set("a", "one two", "EX", 60), "OK");
  assert.equal(await client.get("a"), "one two");
  assert.equal(await client.get("missing"), null);
  const raw = Buffer.from([0, 13, 10, 255]);
  await client.set("raw", raw);
  assert.deepEqual(await client.getBuffer("raw"), raw);
  await assert.rejects(client.incr("a"), /not an integer/);
}

async function pipeline(client) {
  const pipe = client.pipeline();
  for (let n = 0; n < KEYS_COUNT; n++) pipe.incrby(`p:${n}`, n);
  const got = await pipe.exec();
  got.forEach(([error, count], n) => assert.deepEqual([error, count], [null, n]));
}

async function transaction(client) {
  const got = await client.multi().mset("t:1", 1, "t:2", 2, "t:3", 3).rename("t:1", "t:new").get("t:new").exec();
  assert.deepEqual(got.map(([, reply]) => reply), ["OK", "OK", "1"]);
  await client.watch("w");
  const other = client.duplicate();
  await other.set("w", "other");
  other.disconnect();
  assert.equal(await client.multi().set("w", "mine").exec(), null);
}

const add = { numberOfKeys: 1, lua: "return redis.call('incrby', KEYS[1], ARGV[1])" };

async function script(client) {
  client.defineCommand("add", add);
  assert.deepEqual([await client.add("s:1", 5), await client.add("s:2", 1), await client.add("s:1", 5)], [5, 1, 10]);
  await client.script("FLUSH");
  assert.equal(await client.add("s:1", 1), 11);
  const got = await client.multi().add("s:2", 1).get("s:2").exec();
  assert.deepEqual(got, [[null, 2], [null, "2"]]);
}

async function pubsub(client) {
  const listener = client.duplicate();
  const heard = [];
  await listener.subscribe("c:1", "c:2", "c:3");
  await listener.psubscribe("d:*");
  const all = new Promise((done) => {
    const note = (...words) => heard.push(words) === 5 && done();
    listener.on("message", note);
    listener.on("pmessage", note);
  });
  for (const n of [1, 2, 3, 1]) assert.equal(await client.publish(`c:${n}`, n), 1);
  assert.equal(await client.publish("d:x", "last"), 1);
  await all;
  assert.deepEqual(heard, [["c:1", "1"], ["c:2", "2"], ["c:3", "3"], ["c:1", "1"], ["d:*", "d:x", "last"]]);
  listener.disconnect();
}

async function cluster() {
  const client = new Cluster([{ host: "127.0.0.1", port: lanePort }]);
  await client.get("discovery");
  client.defineCommand("add", add);
  await Promise.all(Array.from({ length: 100 }, (_, n) => client.add(`add:${n}`, n).then((sum) => assert.equal(sum, n))));
  await ask("begin");
  const keys = Array.from({ length: KEYS_COUNT }, (_, n) => `c:${n}`);
  await Promise.all(keys.map((key, n) => client.set(key, n)));
  assert.deepEqual(await Promise.all(keys.map((key) => client.get(key))), keys.map((_, n) => String(n)));
  await ask("end");
  client.disconnect();
}

const client = new Redis(sharedPort);
// Connections that a restart ends say so here; what counts is that commands go on.
client.on("error", () => {});
await values(client);
console.log("values");
await pipeline(client);
console.log("pipeline");
await transaction(client);
console.log("transaction");
await script(client);
console.log("script");
await pubsub(client);
console.log("pubsub");
await cluster();
console.log("cluster");
await ask("restart");
assert.equal(await client.exists("a"), 0);
console.log("restart survived");
client.disconnect();
process.exit(0);

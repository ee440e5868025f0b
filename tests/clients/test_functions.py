"""Functions: beside Debian's redis-server 7.0, reply for reply, in both protocols; exchanged with it by FUNCTION DUMP and by replication; and by redis-py as its
users call them.
"""

import contextlib
import threading
import time
import unittest

import redis
from redis.exceptions import ResponseError
from replicas import Client, Replica, wait_until
from run import server
from servers import Server, expresslane_command, redis_command
from test_redis_differential import Side, bulks

F = "redis.register_function('f', function() return 1 end)"
MANY = """
local count = 0
local function twice(n) return 2 * n end
redis.register_function('lists', function(keys, args) return {keys, args, #keys} end)
redis.register_function('count', function() count = count + 1 return twice(count) end)
redis.register_function('add', function(keys, args) return redis.call('incrby', keys[1], args[1]) end)
redis.register_function{function_name='see', callback=function(keys) return redis.call('mget', unpack(keys)) end, flags={'no-writes'}, description='reads'}
redis.register_function{function_name='pretends', callback=function(keys) return redis.call('set', keys[1], 1) end, flags={'no-writes'}}
redis.register_function('own', function()
  error('boom') end)
redis.register_function('table', function() error({err = 'MY err'}) end)
redis.register_function('global', function() return KEYS end)
redis.register_function('sets', function() x = 1 end)
redis.register_function('late', function() return redis.register_function end)
redis.register_function('has', function() return {type(_G), type(redis), type(cjson), type(math), type(loadstring), redis.REDIS_VERSION} end)
redis.register_function('chance', function() return math.random(1, 1) end)
redis.register_function('resp', function(keys, args) redis.setresp(3) return redis.call('get', keys[1]) end)
redis.register_function('sum', function(keys, args) local n = 0 for i, value in ipairs(args) do n = n + value end return n end)
redis.register_function('given', function(...) return select('#', ...) end)
"""
# Libraries, by name and text. All are loaded in this order, and many are refused.
LIBRARIES = [
    "#!lua name=a\n" + F, "#!lua name=a\n" + F, "#!lua name=A\n" + F, "#!lua name=b\nredis.register_function('F', function() end)", "#!lua name=c\n",
    "#!lua name=c\n\nredis.register_function()", "#!lua name=c\nredis.register_function('f')", "#!lua name=c\nredis.register_function(nil, function() end)",
    "#!lua name=c\nredis.register_function('c', 'd')", "#!lua name=c\nredis.register_function('x y', function() end)",
    "#!lua name=c\nredis.register_function('c', function() end) redis.register_function('c', function() end)",
    "#!lua name=c\nredis.register_function{function_name='c', callback=function() end, flags={'x'}}",
    "#!lua name=c\nredis.register_function{function_name='c', callback=function() end, [1]=5}",
    "#!lua name=c\nredis.register_function{function_name='c', callback=function() end, [true]=5}",
    "#!lua name=d\nmath.random()", "#!lua name=d\nredis.call('x')", "#!lua name=d\na = 1", "#!lua name=d\nredis.x = 1", "#!lua name=d\ngetmetatable(_G)",
    "#!lua name=d\nredis.log('x')", "#!lua name=d\nredis.log(99, 'x')", "#!lua name=d\nwhile 1 do end", "no", "#!lua name=x", "#!lua\n", "#!lua name=\n",
    "#!lua name=a-b\nx", "#!lua name=x foo\nx", "#!lua name=x name=y\n", "#!LUA Name=\"e\"\nredis.register_function(1, function() end)", "#! lua name=x\n",
    "#!js name=x\n", "#!lua name=\"x\n", "#!\n", "#!lua name=z\0z\n", "#!lua name=many" + MANY,
    "#!lua name=flags\nredis.register_function{function_name='all', callback=function() return 1 end, "
    "flags={'no-writes', 'no-cluster', 'allow-stale', 'ALLOW-OOM', 'allow-cross-slot-keys'}}",
]
CALLS = [
    *([b"FUNCTION", b"LOAD", text.encode()] for text in LIBRARIES),
    *(["FUNCTION", "LIST", "LIBRARYNAME", name] for name in ("a", "E", "flags", "nosuch", "[fx]lags")), ["FUNCTION", "LIST", "WITHCODE", "libraryname", "a"],
    ["FUNCTION", "STATS"], ["FUNCTION", "LOAD", "REPLACE", "REPLACE", LIBRARIES[0]], ["FUNCTION", "LOAD", "x", LIBRARIES[0]], ["FUNCTION", "LOAD", "REPLACE"],
    ["FUNCTION", "LOAD"], ["FUNCTION", "LOAD", "REPLACE", "#!lua name=A\n" + F], ["FCALL", "f", 0], ["FCALL", "F", 0], ["FCALL", "nosuch", 0], ["FCALL", "nosuch", "x"],
    ["FCALL", "f", "x"], ["FCALL", "f", 1], ["FCALL", "f", -1], ["FCALL", "f"], ["FCALL_RO", "f", 0], ["FCALL", "all", 0], ["FCALL_RO", "all", 0], ["FCALL", "1", 0],
    ["FCALL", "lists", 2, "k", "{k}2", "x", "y"], ["FCALL", "count", 0], ["FCALL", "COUNT", 0], ["FCALL", "add", 1, "k", 5], ["FCALL", "add", 1, "k", "x"],
    ["FCALL", "see", 2, "k", "absent"], ["FCALL_RO", "see", 2, "k", "absent"], ["FCALL", "pretends", 1, "k"], ["FCALL", "own", 0], ["FCALL", "table", 0],
    ["FCALL", "global", 0], ["FCALL", "sets", 0], ["FCALL", "late", 0], ["FCALL", "has", 0], ["FCALL", "chance", 0], ["FCALL", "resp", 1, "absent"],
    ["FCALL", "sum", 0, 1, 2, 3.5], ["FCALL", "given", 0], ["EVAL", "return redis.call('fcall', 'f', 0)", 0], ["EVAL", "return redis.call('function', 'list')", 0],
    ["MULTI"], ["FCALL", "add", 1, "k", 1], ["FCALL", "nosuch", 0], ["FUNCTION", "DELETE", "a"], ["FCALL", "f", 0], ["GET", "k"], ["EXEC"],
    ["FUNCTION", "DELETE", "a"], ["FUNCTION", "DELETE", "MANY"], ["FUNCTION", "DELETE"], ["FUNCTION", "KILL"], ["FUNCTION", "DUMP", "x"], ["FUNCTION", "RESTORE", "x"],
    ["FUNCTION", "RESTORE", "x", "y"], ["FUNCTION", "RESTORE", "x", "flush", "z"], ["FUNCTION", "FLUSH", "x"], ["FUNCTION", "FLUSH", "sync", "y"], ["FUNCTION", "NOSUCH"],
    ["FUNCTION", "LIST", "LIBRARYNAME"], ["FUNCTION", "LIST", "x"], ["FUNCTION"], ["FLUSHALL"], ["FUNCTION", "STATS"], ["FUNCTION", "FLUSH", "ASYNC"], ["FUNCTION", "LIST"],
    ["COMMAND", "GETKEYS", "FCALL", "f", 2, "a", "b", "c"], ["FUNCTION", "STATS"],
]


def as_bytes(call):
    return [word if isinstance(word, bytes) else str(word).encode() for word in call]


class BesideRedis(unittest.TestCase):
    """Reply for reply."""

    def test_replies_are_the_same(self):
        for lanes in (1, 3):
            for proto in (b"2", b"3"):
                with self.subTest(lanes=lanes, proto=proto), contextlib.ExitStack() as stack:
                    ours = stack.enter_context(Server("expresslane", expresslane_command(lanes=lanes)))
                    theirs = stack.enter_context(Server("redis", redis_command))
                    sides = [Side("redis-server", theirs.port), Side("this server", ours.port)]
                    different = []
                    for side in sides:
                        side.connect()
                        stack.callback(side.close)
                        side.ask([bulks([b"HELLO", proto])], 1)
                    for call in map(as_bytes, CALLS):
                        one, other = (side.ask([bulks(call)], 1)[0] for side in sides)
                        if one != other:
                            different.append(f"{b' '.join(call)!r}\n    redis-server: {one!r}\n    this server:  {other!r}")
                    self.assertEqual(different, [], "\n".join(different))


class WithRedis(unittest.TestCase):
    """Libraries go from server to server."""

    def setUp(self):
        stack = contextlib.ExitStack()
        self.addCleanup(stack.close)
        self.ours = stack.enter_context(Server("expresslane", expresslane_command(lanes=2)))
        self.theirs = stack.enter_context(Server("redis", redis_command))
        self.clients = [stack.enter_context(Client(side.port)) for side in (self.ours, self.theirs)]

    def test_payloads_are_exchanged(self):
        ours, theirs = self.clients
        for giver, taker in ((ours, theirs), (theirs, ours)):
            giver("FUNCTION", "FLUSH")
            taker("FUNCTION", "FLUSH")
            for number in range(20):
                giver("FUNCTION", "LOAD", f"#!lua name=l{number}\nredis.register_function('f{number}', function(keys) return {number} end) -- {'x' * 50 * number}")
            payload = giver("FUNCTION", "DUMP")
            self.assertEqual(str(taker("FUNCTION", "RESTORE", payload)), "OK")
            self.assertEqual([taker("FCALL", f"f{number}", 0) for number in range(20)], list(range(20)))
            self.assertIn("already exists", str(taker.reply("FUNCTION", "RESTORE", payload)))
            self.assertEqual(str(taker("FUNCTION", "RESTORE", payload, "REPLACE")), "OK")

    def test_replicas_have_the_functions(self):
        ours, _ = self.clients

        def code(name):
            return f"#!lua name={name}\nredis.register_function{{function_name='{name}', callback=function(keys) return '{name}' end, flags={{'no-writes'}}}}"

        ours("FUNCTION", "LOAD", code("first"))
        # These would end a server that finds them in its snapshot.
        ours("FUNCTION", "LOAD", "#!lua name=luau\nlocal n = 1 n += 1 redis.register_function('luau', function() return n end)")
        ours("FUNCTION", "LOAD", "#!lua name=own\nredis.register_function{function_name='own', callback=function() end, flags={'allow-undeclared-keys'}}")
        with Replica(self.ours.port) as replica, Client(replica.port) as client:
            def names():
                return sorted(library[1].decode() for library in client("FUNCTION", "LIST"))

            replica.wait_until_up()
            self.assertEqual(names(), ["first"])
            ours("FUNCTION", "LOAD", code("second"))
            wait_until(lambda: names() == ["first", "second"], "a change of functions arrives")
            self.assertEqual(client("FCALL", "second", 0), b"second")
            payload = ours("FUNCTION", "DUMP")
            ours("FUNCTION", "DELETE", "first")
            wait_until(lambda: names() == ["second"], "a change of functions arrives")
            ours("FUNCTION", "FLUSH")
            wait_until(lambda: names() == [], "a change of functions arrives")
            ours("FUNCTION", "RESTORE", payload)
            wait_until(lambda: names() == ["first", "second"], "a change of functions arrives")
            # What a function changes arrives as the change.
            ours("FUNCTION", "LOAD", "#!lua name=adds\nredis.register_function('add', function(keys) return redis.call('incr', keys[1]) end)")
            ours("FCALL", "add", 1, "k")
            wait_until(lambda: client("GET", "k") == b"1", "a change arrives")
            self.assertEqual(ours("FCALL", "luau", 0), 2)


class RedisPy(unittest.TestCase):
    """As users of the client call them."""

    def setUp(self):
        self.client = redis.Redis(port=server().port, decode_responses=True)
        self.addCleanup(self.client.close)
        self.addCleanup(self.client.function_flush)

    def test_functions_are_loaded_listed_called_and_deleted(self):
        self.assertEqual(self.client.function_load("#!lua name=lib\n" + MANY), "lib")
        self.assertEqual(self.client.fcall("add", 1, "counter", 4), 4)
        self.assertEqual(self.client.fcall_ro("see", 1, "counter"), ["4"])
        with self.client.pipeline() as pipeline:
            pipeline.fcall("add", 1, "counter", 1)
            pipeline.get("counter")
            self.assertEqual(pipeline.execute(), [5, "5"])
        self.assertEqual(len(self.client.function_list(library="li*", withcode=True)), 1)
        self.assertTrue(self.client.function_delete("lib"))
        with self.assertRaisesRegex(ResponseError, "Function not found"):
            self.client.fcall("add", 1, "counter", 4)

    def test_a_function_without_end_stops_nobody_and_can_be_killed(self):
        self.client.config_set("busy-reply-threshold", 50)
        self.addCleanup(self.client.config_set, "busy-reply-threshold", 5000)
        self.client.function_load("#!lua name=lib\nredis.register_function('loop', function(keys) while true do end end)")
        said = []

        def loop():
            with redis.Redis(port=server().port) as client:
                try:
                    client.fcall("loop", 1, "held")
                except ResponseError as error:
                    said.append(str(error))

        thread = threading.Thread(target=loop)
        thread.start()
        time.sleep(0.3)
        self.assertTrue(all(self.client.set(f"free:{number}", number) for number in range(100)))
        running = self.client.function_stats()["running_script"]
        self.assertEqual((running["name"], running["command"]), ("loop", ["FCALL", "loop", "1", "held"]))
        self.assertTrue(self.client.function_kill())
        thread.join()
        self.assertIn("Script killed by user", said[0])
        self.assertIsNone(self.client.get("held"))


if __name__ == "__main__":
    unittest.main()

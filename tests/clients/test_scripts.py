"""Scripts: by redis-py as its users call them, and beside Debian's redis-server 7.0, reply for reply, in both protocols.

What SAME lists answers the same to the byte, the digest in an error's tail included. ERRORS are answered with an error by both, whose text
is the interpreter's own.
"""

import time
import unittest

import redis
from redis.exceptions import LockError, NoScriptError, ResponseError
from run import server
from servers import Server, expresslane_command, redis_command
from test_redis_differential import Side, bulks

# A script, how many of its arguments are keys, and the arguments.
SAME = [
    # What values of Lua become.
    ("return 1", 0), ("return 3.99", 0), ("return -3.99", 0), ("return 'x'", 0), ("return ''", 0), ("return nil", 0), ("", 0),
    ("return true", 0), ("return false", 0), ("return {}", 0), ("return {1, 'two', 3.5, {4, {5}}}", 0), ("return {1, nil, 3}", 0),
    ("return {ok = 'fine'}", 0), ("return {err = 'ERR broken'}", 0), ("return {err = 'broken'}", 0), ("return {double = 3.25}", 0),
    ("return {double = 1e300}", 0), ("return {map = {a = 1}}", 0), ("return {set = {a = true}}", 0),
    ("return {big_number = '123456789012345678901234567890'}", 0),
    ("return {verbatim_string = {string = 'text', format = 'txt'}}", 0), ("return {{ok = 'a'}, {err = 'b'}}", 0),
    ("return {a = 1, b = 2}", 0), ("return redis.status_reply('fine')", 0), ("return redis.error_reply('broken')", 0),
    ("return redis.error_reply('-broken here')", 0), ("return redis.error_reply('CODE broken')", 0),
    ("return redis.error_reply()", 0), ("return redis.status_reply(1)", 0), ("return function() end", 0),
    ("local t = {} t[1] = t return 1", 0), ("return {1, 2, 3, x = 4}", 0), ("return 2^53", 0), ("return 1e15", 0), ("return '1' + 1", 0),
    # What replies become.
    ("return redis.call('get', KEYS[1])", 1, "absent"), ("return type(redis.call('get', KEYS[1]))", 1, "absent"),
    ("return redis.call('set', KEYS[1], ARGV[1])", 1, "k", "v"), ("return redis.call('set', KEYS[1], ARGV[1])['ok']", 1, "k", "v"),
    ("return redis.call('mget', unpack(KEYS))", 3, "k", "absent", "k"), ("return #redis.call('mget', unpack(KEYS))", 3, "k", "a", "k"),
    ("return redis.call('incrbyfloat', KEYS[1], 0.1)", 1, "f"), ("return {redis.call('ttl', KEYS[1]), redis.call('type', KEYS[1])}", 1, "k"),
    ("return redis.pcall('incr', KEYS[1]).err", 1, "k"), ("return redis.pcall('incr', KEYS[1])", 1, "k"),
    ("redis.setresp(3) return redis.call('get', KEYS[1])", 1, "absent"),
    ("redis.setresp(3) return redis.call('lcs', KEYS[1], KEYS[2], 'IDX')", 2, "k", "k"),
    ("redis.setresp(3) local m = redis.call('lcs', KEYS[1], KEYS[2], 'IDX') return m.map['len']", 2, "k", "k"),
    ("return redis.setresp(4)", 0), ("return redis.setresp()", 0),
    # Numbers as arguments and as text.
    ("redis.call('set', KEYS[1], 3.3) return redis.call('get', KEYS[1])", 1, "n"),
    ("redis.call('set', KEYS[1], 1e20) return redis.call('get', KEYS[1])", 1, "n"),
    ("redis.call('set', KEYS[1], 0.1 + 0.2) return redis.call('get', KEYS[1])", 1, "n"),
    ("return tostring(0.1 + 0.2) .. tostring(1 / 3) .. tostring(1e15) .. tostring(-0)", 0), ("return tostring(2^63)", 0),
    ("return tonumber('0x10') + tonumber('7', 8) + tonumber(' 5 ')", 0), ("return string.format('%5.2f|%d|%s|%q', 3.14159, 42, 'x', 'a\"b')", 0),
    ("return math.floor(3.7) + math.max(1, 9, 3) + 7 % 4 + #'abc'", 0), ("return math.random(5, 5)", 0),
    ("math.randomseed(7) return {tostring(math.random()), math.random(100), math.random(1000)}", 0),
    ("return {1 / 0 > 0, tostring(1 / 0), tostring(-1 / 0)}", 0),
    # Errors.
    ("return redis.call('nosuch')", 0), ("return redis.call('get')", 0), ("return redis.call('get', 'a', 'b')", 0), ("return redis.call()", 0),
    ("return redis.pcall()", 0), ("return redis.call({})", 0), ("return redis.call('get', nil)", 0), ("return redis.call('get', true)", 0),
    ("return redis.call('incr', KEYS[1])", 1, "k"), ("\n\nredis.call('incr', KEYS[1])", 1, "k"), ("error('own')", 0), ("error({err = 'ERR own'})", 0),
    ("error({err = 'own'})", 0), ("error(redis.error_reply('MY own'))", 0), ("error()", 0),
    ("local ok, e = pcall(redis.call, 'nosuch') return {ok, e}", 0), ("local ok, e = pcall(redis.call, 'incr', KEYS[1]) return e", 1, "k"),
    ("local ok, e = pcall(error, 'x') return {ok, e}", 0), ("local ok, e = pcall(function() error('x', 0) end) return e", 0),
    ("return redis.call('multi')", 0), ("return redis.call('config', 'get', 'x')", 0), ("return redis.call('eval', 'return 1', 0)", 0),
    ("return redis.call('watch', 'x')", 0), ("return redis.call('script', 'flush')", 0), ("return redis.call('auth', 'x')", 0),
    ("x = 1", 0), ("return x", 0), ("return redis.x", 0), ("redis.x = 1", 0), ("string.x = 1", 0), ("KEYS = 1", 0), ("rawset(_G, 'x', 1)", 0),
    ("setmetatable(_G, {})", 0), ("getmetatable(_G).__index = 1", 0), ("return print", 0),
    ("return io", 0), ("return require", 0), ("return dofile", 0), ("return package", 0), ("return debug", 0),
    ("return redis.acl_check_cmd('get', 'k')", 0), ("return redis.acl_check_cmd('nosuch')", 0), ("return redis.acl_check_cmd()", 0),
    ("return redis.sha1hex('')", 0), ("return redis.sha1hex()", 0), ("return redis.sha1hex('a', 'b')", 0),
    ("return {redis.REDIS_VERSION, redis.REDIS_VERSION_NUM, redis.LOG_WARNING, redis.REPL_ALL}", 0), ("return redis.replicate_commands()", 0),
    ("return redis.set_repl(redis.REPL_ALL)", 0), ("return redis.set_repl(99)", 0), ("return redis.log(redis.LOG_DEBUG, 'x')", 0),
    ("return redis.log(9, 'x')", 0), ("return redis.log('x')", 0), ("return redis.log()", 0),
    # First lines.
    ("#!lua\nreturn 1", 0), ("#!lua flags=no-writes\nreturn redis.call('get', KEYS[1])", 1, "k"), ("#!lua flags=no-writes\nreturn redis.call('set', KEYS[1], 1)", 1, "k"),
    ("#!lua flags=\nreturn 1", 0), ("#!lua flags=no-writes,allow-oom\nreturn 1", 0), ("#!lua flags=nosuch\nreturn 1", 0), ("#!lua nosuch=1\nreturn 1", 0),
    ("#!ruby\nreturn 1", 0), ("#!lua", 0), ("#!", 0),
    # The language.
    ("local t = {5, 3, 1} table.sort(t) return t", 0), ("local t = {5, 3, 1} table.sort(t, function(a, b) return a > b end) return t", 0),
    ("local s = '' for w in string.gmatch('a b c', '%a') do s = s .. w .. ',' end return s", 0), ("return (string.gsub('hello', 'l', 'L'))", 0),
    ("local t = {} for i = 1, 100000 do t[i] = i end return #t", 0), ("return table.concat({1, 2, 3}, '-')", 0), ("return select('#', unpack({1, 2, 3}))", 0),
    ("local co = coroutine.wrap(function() coroutine.yield(redis.call('get', KEYS[1])) coroutine.yield(2) end) return {co(), co()}", 1, "k"),
    ("return loadstring('return 7')()", 0), ("return string.rep('ab', 3) .. string.reverse('xyz') .. string.upper('q') .. string.byte('A')", 0),
    ("return cjson.encode({1, 2, {a = 'b'}})", 0), ("return cjson.decode('{\"a\": [1, 2.5, null, true]}').a[2] * 2", 0), ("return cjson.encode(cjson.null)", 0),
    ("return cjson.decode('[')", 0), ("return cmsgpack.pack({1, 'x', {y = 2.5}})", 0), ("return cmsgpack.unpack(cmsgpack.pack({1, 2, 3}))", 0),
    ("return struct.pack('>I2i4s', 258, -2, 'hi')", 0), ("return {struct.unpack('>I2', '\\1\\2')}", 0), ("return {bit.band(12, 10), bit.bor(12, 10), bit.lshift(1, 4), bit.tohex(255)}", 0),
    # Databases, scripts inside of scripts' replies, keys that are there.
    ("redis.call('select', 3) redis.call('set', KEYS[1], 'three') return redis.call('get', KEYS[1])", 1, "db"), ("return redis.call('get', KEYS[1])", 1, "db"),
    ("return {#KEYS, #ARGV, KEYS[1], ARGV[2]}", 2, "a", "b", "c", "d"), ("return redis.call('exists', 'undeclared')", 0),
    ("redis.call('set', 'undeclared', 1) redis.call('incr', 'undeclared') return redis.call('get', 'undeclared')", 0), ("return redis.call('dbsize')", 0),
]
ERRORS = [
    ("return (", 0), ("return {1}[1]", 0), ("return os.time()", 0), ("local x = nil return x.y", 0), ("return {} + 1", 0), ("return #5", 0), ("return nosuch()", 0), ("return ('x')()", 0),
    ("local function f() return f() + 1 end return f()", 0), ("return setmetatable(1, {})", 0),
    ("return loadstring('\\27Lua')()", 0), ("return 1 < 'x'", 0), ("return unpack({}, 1, 1e8)", 0),
]
CALLS = [[b"EVAL" if not read_only else b"EVAL_RO", script.encode(), b"%d" % count, *(arg.encode() for arg in args)]
         for read_only in (False, True) for script, count, *args in SAME]
OTHERS = [
    [b"EVAL"], [b"EVAL", b"return 1"], [b"EVAL", b"return 1", b"x"], [b"EVAL", b"return 1", b"-1"], [b"EVAL", b"return 1", b"1"], [b"EVALSHA", b"x", b"0"],
    [b"EVALSHA", b"e0e1f9fabfc9d4800c877a703b823ac0578ff8db", b"0"], [b"SCRIPT", b"LOAD", b"return 1"], [b"SCRIPT", b"LOAD"],
    [b"EVALSHA", b"E0E1F9FABFC9D4800C877A703B823AC0578FF8DB", b"0"], [b"EVALSHA_RO", b"e0e1f9fabfc9d4800c877a703b823ac0578ff8db", b"0"],
    [b"SCRIPT", b"EXISTS", b"e0e1f9fabfc9d4800c877a703b823ac0578ff8db", b"x"], [b"SCRIPT", b"EXISTS"], [b"SCRIPT", b"KILL"], [b"SCRIPT", b"FLUSH", b"x"],
    [b"SCRIPT", b"FLUSH", b"SYNC"], [b"SCRIPT", b"FLUSH", b"ASYNC", b"x"], [b"SCRIPT", b"DEBUG", b"NO"], [b"SCRIPT", b"DEBUG", b"x"], [b"SCRIPT", b"NOSUCH"], [b"SCRIPT"],
    [b"MULTI"], [b"EVAL", b"return redis.call('incr', KEYS[1])", b"1", b"m"], [b"EVALSHA", b"x", b"0"], [b"EVAL", b"return 1", b"x"], [b"GET", b"m"], [b"EXEC"],
    [b"OBJECT", b"ENCODING", b"n"], [b"DBSIZE"], [b"FLUSHALL"],
]


class BesideRedis(unittest.TestCase):
    """Reply for reply."""

    def sides(self, lanes):
        ours = Server("expresslane", expresslane_command(lanes=lanes))
        theirs = Server("redis", redis_command)
        for started in (ours, theirs):
            started.__enter__()
            self.addCleanup(started.__exit__, None, None, None)
        sides = [Side("redis-server", theirs.port), Side("this server", ours.port)]
        for side in sides:
            side.connect()
            self.addCleanup(side.close)
        return sides

    def compare(self, sides, calls, same):
        different = []
        for call in calls:
            theirs, ours = (side.ask([bulks(call)], 1)[0] for side in sides)
            if not same(theirs, ours):
                different.append(f"{b' '.join(call)!r}\n    redis-server: {theirs!r}\n    this server:  {ours!r}")
        self.assertEqual(different, [], "\n".join(different))

    def test_replies_are_the_same(self):
        for lanes in (1, 3):
            for proto in (b"2", b"3"):
                with self.subTest(lanes=lanes, proto=proto):
                    sides = self.sides(lanes)
                    for side in sides:
                        side.ask([bulks([b"HELLO", proto])], 1)
                    self.compare(sides, CALLS + OTHERS, lambda theirs, ours: theirs == ours)

    def test_both_refuse_what_the_interpreter_refuses(self):
        sides = self.sides(2)
        calls = [[b"EVAL", script.encode(), b"%d" % count] for script, count in ERRORS]
        self.compare(sides, calls, lambda theirs, ours: theirs[0] == ours[0] == b"-")
        self.assertEqual(sides[1].ask([bulks([b"PING"])], 1), [(b"+", b"PONG")])


class RedisPy(unittest.TestCase):
    """As users of the client call them."""

    def setUp(self):
        self.client = redis.Redis(port=server().port, decode_responses=True)
        self.addCleanup(self.client.close)
        self.client.flushall()

    def test_a_registered_script_is_loaded_when_it_is_missing(self):
        add = self.client.register_script("return redis.call('incrby', KEYS[1], ARGV[1])")
        self.client.script_flush()
        self.assertEqual([add(keys=["a"], args=[5]), add(keys=["b"], args=[1]), add(keys=["a"], args=[5])], [5, 1, 10])
        with self.client.pipeline() as pipeline:
            add(keys=["a"], args=[1], client=pipeline)
            pipeline.get("a")
            self.assertEqual(pipeline.execute(), [11, "11"])

    def test_errors_have_their_classes(self):
        with self.assertRaises(NoScriptError):
            self.client.evalsha("0" * 40, 0)
        with self.assertRaisesRegex(ResponseError, "Error compiling script"):
            self.client.eval("return (", 0)

    def test_a_lock_is_one_holders(self):
        one, two = (self.client.lock("lock", timeout=10, blocking=False) for _ in range(2))
        self.assertTrue(one.acquire())
        self.assertFalse(two.acquire())
        with self.assertRaises(LockError):
            two.release()
        self.assertTrue(one.extend(5) and one.reacquire())
        one.release()
        self.assertTrue(two.acquire())

    def test_a_script_without_end_stops_nobody_and_can_be_killed(self):
        self.client.config_set("busy-reply-threshold", 50)
        self.addCleanup(self.client.config_set, "busy-reply-threshold", 5000)
        endless = Side("this server", server().port)
        endless.connect()
        self.addCleanup(endless.close)
        endless.client.sendall(bulks([b"EVAL", b"while true do end", b"1", b"held"]))
        time.sleep(0.3)
        for number in range(200):
            self.assertTrue(self.client.set(f"free:{number}", number))
        self.assertTrue(self.client.script_kill())
        self.assertIn(b"Script killed by user with SCRIPT KILL", endless.ask([], 1)[0][1])
        self.assertIsNone(self.client.get("held"))


if __name__ == "__main__":
    unittest.main()

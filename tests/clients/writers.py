"""Clients that write in every way there is, drawn from seeds: what a primary must tell its replicas."""

import random
import threading
import time

from redis_commands import Draw
from replicas import OURS, Client, Refused

KEYS_COUNT = 150
# As in redis_commands; m is a few milliseconds, x an end in the past.
WRITES = """
SET k v
SET k v
SET k n
SET k v [NX|XX|GET|EX_g|PX_m|PX_m|EXAT_u|PXAT_U|PXAT_x|KEEPTTL]
SETNX k v
SETEX k g v
PSETEX k m v
GETSET k v
GETDEL k
GETEX k [EX_g|PX_m|EXAT_u|PXAT_U|EXAT_x|PERSIST]
MSET V
MSETNX V
APPEND k v
SETRANGE k s v
INCR k
DECR k
INCRBY k n
DECRBY k n
INCRBYFLOAT k n
SETBIT k o (0|1)
BITOP (AND|OR|XOR) k K
BITOP NOT k k
BITFIELD k [SET_t_o_w|INCRBY_t_o_w|OVERFLOW_WRAP|OVERFLOW_SAT] SET t o w INCRBY t o w
DEL K
UNLINK K
COPY k k [DB_d|REPLACE]
MOVE k d
RENAME k k
RENAMENX k k
EXPIRE k g [NX|XX|GT|LT]
PEXPIRE k m [NX|XX|GT|LT]
EXPIREAT k u [NX|XX|GT|LT]
PEXPIREAT k U [NX|XX|GT|LT]
PEXPIREAT k x
PERSIST k
GET k
TTL k
SELECT d
PUBLISH k v
""".strip().split("\n")
if OURS:
    # Redis does not tell replicas of a BITFIELD of which each write fails, though it may have made the string longer, or be its first.
    WRITES += ["BITFIELD k OVERFLOW FAIL [SET_t_o_w|INCRBY_t_o_w]", "BITFIELD k OVERFLOW FAIL SET u2 o 9"]
# One of these in so many commands.
RARE = {"SWAPDB d d": 400, "FLUSHDB": 1500, "FLUSHALL": 3000}
SCRIPTS = [
    "for i, key in ipairs(KEYS) do redis.call('set', key, ARGV[1] .. i) end return #KEYS",
    "redis.call('append', KEYS[1], ARGV[1]) redis.call('pexpire', KEYS[1], 50) return redis.call('get', KEYS[2])",
    "redis.call('set', KEYS[1], ARGV[1]) return redis.call('nosuch')",
    "redis.call('del', KEYS[1], KEYS[2]) redis.pcall('incr', KEYS[3]) redis.call('publish', KEYS[1], 'x')",
    "return redis.call('mget', unpack(KEYS))",
]


class Writes(Draw):
    def __init__(self, chance):
        super().__init__(chance, int(time.time()))
        self.takes.update({
            "m": lambda: [b"%d" % chance.randrange(1, 80)], "x": lambda: [b"%d" % chance.randrange(1, 100_000)],
            "d": lambda: [b"%d" % self.pick((0, 0, 1, 2, 15))],
        })

    def key(self):
        return b"key:%d" % self.dice.randrange(KEYS_COUNT) if self.chance(90) else super().key()

    def value(self):
        kind = self.dice.randrange(100)
        if kind < 30:
            return super().value()
        if kind < 60:
            return b"%d" % self.dice.randrange(-1000, 100_000)
        size = self.dice.randrange(100_000) if kind == 99 else self.dice.randrange(100)
        return self.dice.randbytes(size) if self.chance(50) else self.dice.randbytes(5) * (size // 5)

    def script(self):
        return [b"EVAL", self.pick(SCRIPTS).encode(), b"3", self.key(), self.key(), self.key(), self.value()]

    def one(self):
        for template, interval in RARE.items():
            if self.dice.randrange(interval) == 0:
                return self.words(template)
        return self.script() if self.chance(5) else self.words(self.pick(WRITES))


class Writer(threading.Thread):
    """A client that goes on writing until it is told to end. A `with` ends it, and raises what has gone wrong."""

    def __init__(self, port, seed):
        super().__init__(daemon=True)
        self.client, self.draw = Client(port), Writes(random.Random(seed))
        self.problem, self.is_over, self.done_count, self.refused_count = None, False, 0, 0

    def run(self):
        try:
            while not self.is_over:
                self.step()
        except Exception as problem:
            self.problem = problem

    def step(self):
        kind = self.draw.dice.randrange(100)
        if kind < 10:
            # Over lanes, and over databases too where a SELECT is among them.
            self.ask([b"MULTI"], *(self.draw.one() for _ in range(self.draw.dice.randrange(1, 8))), [b"EXEC" if kind < 9 else b"DISCARD"])
        elif kind < 13:
            payload = self.client.reply(b"DUMP", self.draw.key())
            if isinstance(payload, bytes):
                self.ask([b"RESTORE", self.draw.key(), self.draw.pick((b"0", b"40", b"100000")), payload, b"REPLACE"])
        else:
            self.ask(*(self.draw.one() for _ in range(self.draw.dice.randrange(1, 6))))

    def ask(self, *commands):
        self.refused_count += sum(isinstance(reply, Refused) for reply in self.client.replies(commands))
        self.done_count += len(commands)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.is_over = True
        self.join()
        self.client.close()
        if self.problem is not None:
            raise self.problem

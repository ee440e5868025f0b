"""Commands of memcached's clients, drawn from a seed: mostly right ones on few keys, many odd and wrong ones.

A command is a function of a side (one server under comparison), for a CAS that was taken from a reply is another number
on each side: `side.cas(key, pick)` is the one that the side gave for the key. It returns bytes. What ends the connection
is drawn apart, for nothing can be sent behind it.
"""

import base64
import struct

ITEM_SIZE_MAX = 1 << 20
# What memcached counts beside a value: its header with the CAS, the zero behind the key, the line's end of the value.
ITEM_OVERHEAD = 48 + 8 + 1 + 2
KEY_SIZE_MAX = 250
# In a batch: bytes of values that are drawn freely, beyond which they are small.
BATCH_VALUE_SIZE_MAX = 4 << 20

NUMBERS_ODD = [
    b"-1", b"+5", b"007", b"-0", b"1.5", b"0x10", b"abc", b"1x", b"-", b"2147483647", b"2147483648", b"4294967295",
    b"4294967296", b"9223372036854775807", b"9223372036854775808", b"18446744073709551615", b"18446744073709551616",
    b"-9223372036854775808", b"-18446744073709551615", b"99999999999999999999999", b"\t7", b"7\r", b"\xff",
]
# None of 2^63 or more: behind such a number memcached looks for a minus, as far as memory has no zero byte.
NUMBERS_STORED = [
    b"0", b"1", b"9", b"10", b"99", b"100", b"42949", b"12 ", b" 12", b"007", b"-1", b"+3", b"1.5", b"18446744073709551616",
    b"0000000000000000000000012", b"12x", b"",
]
DELTAS = [b"0", b"1", b"2", b"10", b"90", b"4294967296"]
LINES_WRONG = [
    b"", b" ", b"\t", b"x", b"bogus", b"bogus a b c", b"GET a", b"Set a 0 0 1", b"get", b"gets", b"gat", b"gat 10", b"gats x",
    b"gat x a", b"set", b"set a", b"set a 0", b"set a 0 0", b"set a 0 0 1 noreply extra", b"cas a 0 0 1", b"add a 0 0",
    b"incr", b"incr a", b"incr a 1 noreply extra", b"incr a 1 extra", b"decr", b"decr a", b"touch", b"touch a",
    b"touch a 0 extra", b"delete", b"delete a 0", b"delete a 1", b"delete a 0 noreply", b"delete a noreply 0",
    b"delete a b c d", b"verbosity", b"verbosity x", b"verbosity 0", b"verbosity 0 noreply", b"verbosity 0 0",
    b"verbosity 0 0 0", b"flush_all x", b"flush_all noreply", b"flush_all -1", b"flush_all 0 noreply", b"flush_all 0 0 0",
    b"version", b"version extra", b"stats reset", b"stats detail", b"stats detail x", b"mn", b"mn extra", b"mg", b"ms", b"ms a",
    b"md", b"ma", b"me", b"mx a", b"m", b"mg a v v", b"mg a \xff", b"mg a !", b"ma a MX", b"ma a Mincr", b"ma a Dx", b"ma a Jx",
    b"ma a Nx", b"mg a Tx", b"mg a Nx", b"mg a Rx", b"md a Cx", b"mg a \x01", b"quitx", b"shutdown", b"shutdown graceful",
    b"me a", b"me", b"me a b", b"bget a", b"gets a\x00b c", b"set a\x00 0 0 1", b"prepend a 0 0 b", b"cas a 0 0 1 x",
    b"misbehave x", b"stats foo", b"extstore", b"slabs", b"lru", b"lru_crawler", b"watch_", b"flush_al", b"delete a 0 x",
]
FLAGS_READ = ["v", "f", "c", "t", "s", "k", "h", "l", "q", "u"]
OPCODES = {
    "get": 0x00, "set": 0x01, "add": 0x02, "replace": 0x03, "delete": 0x04, "incr": 0x05, "decr": 0x06, "quit": 0x07,
    "flush": 0x08, "getq": 0x09, "noop": 0x0A, "version": 0x0B, "getk": 0x0C, "getkq": 0x0D, "append": 0x0E,
    "prepend": 0x0F, "setq": 0x11, "addq": 0x12, "replaceq": 0x13, "deleteq": 0x14, "incrq": 0x15, "decrq": 0x16,
    "quitq": 0x17, "flushq": 0x18, "appendq": 0x19, "prependq": 0x1A, "touch": 0x1C, "gat": 0x1D, "gatq": 0x1E,
    "sasl": 0x20, "gatk": 0x23, "gatkq": 0x24,
}


class Draw:
    """What both protocols draw: keys, values, expiries."""

    def __init__(self, dice, now_s):
        self.dice = dice
        self.now_s = now_s
        self.keys = [b"key:%d" % n for n in range(8)] + [b"L" * KEY_SIZE_MAX, b"odd\x01\xfe", "schlüssel".encode()]
        self.values_left = BATCH_VALUE_SIZE_MAX

    def chance(self, one_in):
        return self.dice.random() * one_in < 1

    def pick(self, among):
        return among[int(self.dice.random() * len(among))]

    def key(self):
        return self.pick(self.keys)

    def value(self, key, flags):
        """Small as a rule; now and then a number, one of several chunks, one at the limit of an item."""
        roll = self.dice.random()
        if roll < 0.35:
            return self.pick(NUMBERS_STORED)
        if roll < 0.97 or self.values_left <= 0:
            return bytes([97 + int(self.dice.random() * 26)]) * int(self.dice.random() ** 3 * 400)
        if roll < 0.999:
            size = int(2 ** (9 + self.dice.random() * 8.5))
        else:
            size = ITEM_SIZE_MAX - ITEM_OVERHEAD - len(key) - (4 if flags else 0) + self.pick([-1, 0, 1, 2, 1000, 600_000])
        self.values_left -= size
        # No digit in front: to memcached a value is a number if it begins with one and goes on with a blank.
        unit = b"v%d\r\nEND\r\n" % int(self.dice.random() * 1e6)
        return (unit * (size // len(unit) + 1))[:size]

    def exptime(self):
        roll = self.dice.random()
        if roll < 0.5:
            return 0
        return self.pick([1000, 100_000, 2_592_000, self.now_s + 5000, 2_147_483_647, -1, -1000, 2_592_001, self.now_s - 5000])


class Lines(Draw):
    """Text and meta commands."""

    # What is answered behind everything else, and by nothing else.
    END = b"set __end 0 0 3\r\nend\r\nget __end\r\n"
    END_REPLY = b"STORED\r\nVALUE __end 0 3\r\nend\r\nEND\r\n"
    # After these the connection is closed.
    CLOSING = [b"quit\r\n", b"quit now\r\n", b"GET / HTTP/1.1\r\n", b"y" * 3000, b"\x00" * 2500]

    def batch(self, count):
        """Numbers are counted before values are read: memcached writes a shorter number over a longer one and fills up with
        blanks, but not while a reply that waits in its pipeline still holds the old one."""
        opening = [self.get_too_long()] if self.chance(3) else []
        middle = count // 2
        changes = [self.command(0.0, 0.7) for _ in range(middle - len(opening))]
        return opening + changes + [self.command(0.3, 1.0) for _ in range(count - middle)]

    def command(self, low, high):
        roll = low + self.dice.random() * (high - low)
        if roll < 0.1:
            return self.count()
        if roll < 0.3:
            return self.meta([b"ma", b"ma", b"ms", b"md", b"me"])
        if roll < 0.5:
            return self.store()
        if roll < 0.6:
            return self.other()
        if roll < 0.7:
            return self.wrong()
        if roll < 0.85:
            return self.get()
        return self.meta([b"mg", b"mg", b"mg", b"ms", b"md"])

    def number(self, value):
        """A number, now and then none."""
        return self.pick(NUMBERS_ODD) if self.chance(60) else b"%d" % value

    def flags(self):
        return self.pick([0, 0, 0, 1, 5, 65535, 4294967295])

    def noreply(self):
        return b" noreply" if self.chance(6) else b""

    def store(self):
        verb = self.pick([b"set", b"set", b"set", b"add", b"replace", b"append", b"prepend", b"cas", b"cas"])
        key, flags = self.key(), self.flags()
        value = self.value(key, flags)
        line = b"%b %b %b %b" % (verb, key, self.number(flags), self.number(self.exptime()))
        size, end, noreply = b"%d" % len(value), b"\r\n", self.noreply()
        if self.chance(40):
            # Announced is less than what comes; the rest is read as lines, and none of them begins a value.
            size, end = b"%d" % int(self.dice.random() * len(value)), b"\r\n"
        elif self.chance(80):
            size = self.pick([b"-1", b"-5", b"abc", b"2147483647", b"-2147483648", b"4294967295"])
            value, end = b"", b""
        if self.chance(100):
            end = b"\n" if self.chance(2) else b"xx"
            if end == b"\n":
                value += b" "
                size = b"%d" % len(value)
                value += b" "
        if verb != b"cas":
            done = b"%b %b%b\r\n%b%b" % (line, size, noreply, value, end)
            return lambda side: done
        pick = self.dice.random()
        return lambda side: b"%b %b %d%b\r\n%b%b" % (line, size, side.cas(key, pick), noreply, value, end)

    def get(self):
        verb = self.pick([b"get", b"get", b"gets", b"gets", b"gat %d" % self.exptime(), b"gats %d" % self.exptime()])
        # Other lines than those of `get` and `gets` may not be long: beyond 2 KiB it depends on how they are cut.
        count_max = 120 if verb in (b"get", b"gets") else 7
        count = 1 if self.chance(2) else int(self.dice.random() ** 4 * count_max) + 1
        keys = [self.key() for _ in range(count)]
        blank = b"  " if self.chance(20) else b" "
        end = b" \r\n" if self.chance(20) else b"\n" if self.chance(20) else b"\r\n"
        done = verb + blank + blank.join(keys) + end
        return lambda side: done

    def get_too_long(self):
        """First in a batch, for memcached drops replies that wait in its pipeline when a key is too long; and first in its
        line, for memcached has looked at the keys before it then."""
        keys = [b"t" * (KEY_SIZE_MAX + 1)] + [self.key() for _ in range(int(self.dice.random() * 6))]
        done = self.pick([b"get ", b"gets ", b"gat 0 ", b"gats 100 "]) + b" ".join(keys) + b"\r\n"
        return lambda side: done

    def count(self):
        verb = self.pick([b"incr", b"decr"])
        done = b"%b %b %b%b\r\n" % (verb, self.key(), self.number(int(self.pick(DELTAS))), self.noreply())
        return lambda side: done

    def other(self):
        roll = self.dice.random()
        if roll < 0.5:
            done = b"delete %b%b%b\r\n" % (self.key(), b" 0" if self.chance(10) else b"", self.noreply())
        elif roll < 0.97:
            done = b"touch %b %b%b\r\n" % (self.key(), self.number(self.exptime()), self.noreply())
        elif roll < 0.985:
            # A delay, and taken back: in between memcached shows what an earlier flush had removed.
            done = b"flush_all 1000\r\nflush_all\r\n"
        else:
            done = b"flush_all%b\r\n" % self.noreply()
        return lambda side: done

    def wrong(self):
        roll = self.dice.random()
        if roll < 0.7:
            line = self.pick(LINES_WRONG)
        elif roll < 0.8:
            line = self.pick([b"incr ", b"mg ", b"touch ", b"delete ", b"md ", b"ma ", b"me "]) + b"k" * 251 + b" 1"
        elif roll < 0.9:
            words = [b"set", b"mg", b"v", b"a", b"0", b"1", b"noreply", b"", b"-1", b"q", b"k", b"Oo", b"key:1", b"delete", b"x"]
            line = b" ".join(self.pick(words) for _ in range(int(self.dice.random() * 6)))
            if line.lstrip().startswith(b"set"):
                line = b"x" + line.lstrip()
        else:
            line = b"md key:1 " + b" ".join(b"%c" % (97 + n) for n in range(int(self.dice.random() * 26)))
        done = line + b"\r\n"
        return lambda side: done

    def meta(self, names):
        name = self.pick(names)
        key = self.key()
        is_base64 = self.chance(6)
        # In base64 a key may be anything, and the limit counts what is sent.
        if is_base64 and len(key) > 180:
            key = b"with\tblank"
        sent = base64.b64encode(key) if is_base64 else key
        if is_base64 and self.chance(20):
            sent = self.pick([b"====", b"a", b"ab", b"!!!!", sent + b"x", sent[:-1]])
        if name == b"me":
            done = b"me %b%b\r\n" % (sent, b" b" if is_base64 else b"")
            return lambda side: done
        flags = [flag.encode() for flag in FLAGS_READ if self.chance(4)]
        # A CAS is only of use to later commands with the key beside it.
        flags += [b"c", b"k"] if b"c" not in flags and b"k" not in flags and self.chance(2) else []
        flags += [b"b"] if is_base64 else []
        flags += [b"O%d" % int(self.dice.random() * 1e6)] if self.chance(5) else []
        flags += [b"O" + b"o" * (29 + int(self.dice.random() * 3))] if self.chance(100) else []
        if name == b"mg":
            flags += [b"T%b" % self.number(self.exptime())] if self.chance(10) else []
            flags += [b"N%b" % self.number(self.exptime())] if self.chance(8) else []
            flags += [b"R%b" % self.number(self.pick([0, 30, 3000, 200_000, -1]))] if self.chance(8) else []
        elif name == b"md":
            flags += [b"I"] if self.chance(2) else []
            flags += [b"T%b" % self.number(self.exptime())] if self.chance(4) else []
        elif name == b"ma":
            flags += [b"N%b" % self.number(self.exptime())] if self.chance(3) else []
            flags += [b"J%b" % self.number(int(self.pick(DELTAS)))] if self.chance(4) else []
            flags += [b"D%b" % self.number(int(self.pick(DELTAS)))] if self.chance(3) else []
            # memcached loses the end that T gives where a number becomes longer.
            flags = [flag for flag in flags if flag[:1] != b"D"] + [b"D0", b"T%b" % self.number(self.exptime())] \
                if self.chance(10) else flags
            flags += [b"M%b" % self.pick([b"I", b"D", b"+", b"-", b"i", b"incr", b"X", b""])] if self.chance(4) else []
        else:
            client_flags = self.flags()
            flags += [b"F%b" % self.number(client_flags)] if client_flags else []
            flags += [b"T%b" % self.number(self.exptime())] if self.chance(2) else []
            flags += [b"I"] if self.chance(6) else []
            flags += [b"M%b" % self.pick([b"S", b"E", b"A", b"P", b"R", b"s", b"set", b"X", b""])] if self.chance(3) else []
        if self.chance(60):
            flags.append(self.pick([b"v", b"S5", b"E7", b"x", b"P", b"L", b"Pp", b"\x01", b"Z", b"k1", b"q1", b"i"]))
        if self.chance(300):
            flags += [b"P", b"L"] + [b"O"] * 18
        for index in range(len(flags) - 1, 0, -1):
            other = int(self.dice.random() * (index + 1))
            flags[index], flags[other] = flags[other], flags[index]
        wants_cas, pick = self.chance(8 if name == b"mg" else 3), self.dice.random()
        front, behind = b"%b %b" % (name, sent), b"\r\n"
        if name == b"ms":
            value = self.value(key, client_flags)
            size = b"%d" % (len(value) if not self.chance(60) else int(self.dice.random() * len(value)))
            if self.chance(80):
                size, behind = self.pick([b"-1", b"x", b"S5", b"2147483647"]), b"\r\n"
                value = b""
                done = b" ".join([front, size, *flags]) + behind
                return lambda side: done
            front, behind = front + b" " + size, b"\r\n" + value + b"\r\n"
        if not wants_cas:
            done = b" ".join([front, *flags]) + behind
            return lambda side: done
        return lambda side: b" ".join([front, *flags, b"C%d" % side.cas(key, pick)]) + behind


class Frames(Draw):
    """Binary commands. The opaque of each is its number, so that its reply's CAS is of a known key."""

    END_OPAQUE = 0xE0D0E0D0

    def __init__(self, dice, now_s):
        super().__init__(dice, now_s)
        self.key_of = {}
        self.count = 0
        self.END = self.frame(OPCODES["noop"], opaque=self.END_OPAQUE)
        self.END_REPLY = b"\x81\x0a" + bytes(10) + struct.pack(">I", self.END_OPAQUE) + bytes(8)
        self.CLOSING = [
            self.frame(OPCODES["quit"]), self.frame(OPCODES["quitq"]), self.frame(OPCODES["quit"], key=b"a"),
            self.frame(OPCODES["get"]), self.frame(OPCODES["get"], key=b"a", value=b"v"),
            self.frame(OPCODES["set"], key=b"a", value=b"v"), self.frame(OPCODES["set"], extras=bytes(8), value=b"v"),
            self.frame(OPCODES["get"], key=b"k" * 251), self.frame(OPCODES["delete"], extras=bytes(4), key=b"a"),
            self.frame(OPCODES["incr"], extras=bytes(8), key=b"a"), self.frame(OPCODES["noop"], key=b"a"),
            self.frame(OPCODES["version"], extras=bytes(4)), self.frame(OPCODES["flush"], extras=bytes(3)),
            self.frame(OPCODES["append"], extras=bytes(4), key=b"a", value=b"v"), b"\x81" + bytes(23), b"get a\r\n" + bytes(24),
            struct.pack(">BBHBBHIIQ", 0x80, 0x00, 9, 0, 0, 0, 4, 0, 0) + b"abcdefghi",
        ]

    @staticmethod
    def frame(opcode, extras=b"", key=b"", value=b"", opaque=0, cas=0, datatype=0):
        size = len(extras) + len(key) + len(value)
        return struct.pack(">BBHBBHIIQ", 0x80, opcode, len(key), len(extras), datatype, 0, size, opaque, cas) + extras + key + value

    def batch(self, count):
        """Numbers are counted before values are read, as in text."""
        middle = count // 2
        return [self.command(0.0, 0.7) for _ in range(middle)] + [self.command(0.2, 1.0) for _ in range(count - middle)]

    def command(self, low, high):
        self.count += 1
        roll = low + self.dice.random() * (high - low)
        key = b""
        extras = value = b""
        if roll < 0.2:
            name, key = self.pick(["incr", "incrq", "decr", "decrq"]), self.key()
            exptime = 0xFFFFFFFF if self.chance(3) else self.exptime() & 0xFFFFFFFF
            extras = struct.pack(">QQI", int(self.pick(DELTAS)), int(self.pick(DELTAS)), exptime)
        elif roll < 0.45:
            name = self.pick(["set", "set", "set", "setq", "add", "addq", "replace", "replaceq", "set"])
            key, flags = self.key(), self.pick([0, 0, 5, 4294967295])
            value, extras = self.value(key, flags), struct.pack(">II", flags, self.exptime() & 0xFFFFFFFF)
        elif roll < 0.55:
            name, key = self.pick(["append", "appendq", "prepend", "prependq"]), self.key()
            value = self.value(key, 0)
        elif roll < 0.62:
            name, key = self.pick(["delete", "deleteq", "touch"]), self.key()
            extras = struct.pack(">I", self.exptime() & 0xFFFFFFFF) if name == "touch" else b""
        elif roll < 0.64:
            name, extras = self.pick(["flush", "flushq"]), self.pick([b"", bytes(4)])
        elif roll < 0.66:
            # Opcodes that there are not; without a body, of which memcached swallows too much.
            done = self.frame(self.pick([0x1F, 0x25, 0x40, 0x83, 0xB5, 0xFE, 0xFF]), opaque=self.count)
            return lambda side: done
        elif roll < 0.7:
            name = self.pick(["noop", "version"])
        elif roll < 0.9:
            name, key = self.pick(["get", "getq", "getk", "getkq", "get", "getk"]), self.key()
        else:
            name, key = self.pick(["gat", "gatq", "gatk", "gatkq"]), self.key()
            extras = struct.pack(">I", self.exptime() & 0xFFFFFFFF)
        self.key_of[self.count] = key
        opcode, opaque, pick = OPCODES[name], self.count, self.dice.random()
        takes_cas = name[:3] in ("set", "add", "rep", "app", "pre", "del", "inc", "dec") and self.chance(4)
        if not takes_cas:
            done = self.frame(opcode, extras, key, value, opaque)
            return lambda side: done
        return lambda side: self.frame(opcode, extras, key, value, opaque, side.cas(key, pick))

"""Random commands of Redis, drawn from a seed, and how the replies of two servers to one of them may differ."""

NUMBERS = [
    b"0", b"1", b"-1", b"2", b"3", b"7", b"10", b"100", b"-10", b"9223372036854775807", b"-9223372036854775808", b"9223372036854775808",
    b"9223372036854775806", b"9223372036854775", b"9223372036854776", b"-9223372036854775", b"4294967296", b"2147483648", b"536870912", b"1e400",
    b"nan", b"inf", b"-inf", b"infinity", b" 1", b"1 ", b"+1", b"-0", b"-0.0", b"01", b"", b"abc", b"1.5", b"-1.5", b"1e5", b"1e-7", b"5e-324",
    b"1.7976931348623157e308", b".5", b"5.", b"1_000", b"0.1", b"1e17", b"3.00000000000000000001", b"1e", b"--1", b"-",
]
VALUES = [
    b"", b"x", b"hello", b"1", b"-7", b"42", b"0", b"3.25", b"10.0", b"a" * 44, b"b" * 45, b"z" * 1000, b"foo bar\r\n", bytes(range(1, 256)),
    b"\xff\xfe", b"ohmytext", b"mynewtext",
]
BIT_OFFSETS = [b"#0", b"#1", b"#7", b"#", b"#-1", b"# 1", b"-1", b"4294967296", b"9223372036854775807", b"01", b"", b"x", b"9000"]
FIELD_TYPES = [b"i64", b"u64", b"i65", b"u0", b"i", b"", b"8", b"U8", b"u08", b"u-1", b"x8"]
FIELD_VALUES = [b"127", b"128", b"-129", b"65535", b"4294967296", b"-4611686018427387904", b"9223372036854775807", b"9223372036854775808", b"x"]
KEYS = [b"a", b"b", b"c", b"d", b"e", b"f"]
ODD_KEYS = [b"{t}1", b"{t}2", b"{t", b"{}x", b"", b"\1\xff\r\n", b"k e y", b"k" * 300, b"A", b"user:1", b"user:2", b"[a]", b"*", b"\\"]
PATTERNS = [
    b"*", b"a", b"?", b"user:*", b"[a-c]", b"[^a]", b"\\*", b"[", b"[a", b"\\", b"", b"*\\", b"[]", b"[^", b"[c-a]", b"{t}*", b"k*", b"**",
    b"[\\]a]*", b"*x", b"[a-",
]

# k key, v value, n number, s small number, d database, p pattern; g seconds, G milliseconds, u and U the same as unix time; c a command.
# o the place of a bit, t the type of a field, w what is set there.
# K some keys, V some keys with values. `[…|…]` some of these in any order, `(…|…)` one of them, `_` a blank in them. A line that is there
# twice is drawn twice as often.
TEMPLATES = """
GET k
SET k v [NX|XX|GET|EX_g|PX_G|EXAT_u|PXAT_U|KEEPTTL]
SET k n
SETNX k v
SETEX k g v
PSETEX k G v
GETSET k v
GETDEL k
GETEX k [EX_g|PX_G|EXAT_u|PXAT_U|PERSIST]
MGET K
MSET V
MSETNX V
APPEND k v
STRLEN k
GETRANGE k s s
SUBSTR k s s
SETRANGE k s v
INCR k
DECR k
INCRBY k n
DECRBY k n
INCRBYFLOAT k n
SETBIT k o (0|1|0|1|n)
GETBIT k o
BITCOUNT k
BITCOUNT k s s [BYTE|BIT]
BITPOS k (0|1|n)
BITPOS k (0|1) s
BITPOS k (0|1) s s [BYTE|BIT]
BITOP (AND|OR|XOR) k K
BITOP (NOT|NOT|x) k k
BITFIELD k [GET_t_o|SET_t_o_w|INCRBY_t_o_w|OVERFLOW_WRAP|OVERFLOW_SAT|OVERFLOW_FAIL]
BITFIELD k [GET_t_o|SET_t_o_w|INCRBY_t_o_w|OVERFLOW_WRAP|OVERFLOW_SAT|OVERFLOW_FAIL]
BITFIELD_RO k [GET_t_o|GET_t_o|SET_t_o_w]
LCS k k [LEN|IDX|MINMATCHLEN_s|WITHMATCHLEN]
DEL K
UNLINK K
EXISTS K
TOUCH K
TYPE k
COPY k k [DB_d|REPLACE]
MOVE k d
RENAME k k
RENAMENX k k
EXPIRE k g [NX|XX|GT|LT]
PEXPIRE k G [NX|XX|GT|LT]
EXPIREAT k u [NX|XX|GT|LT]
PEXPIREAT k U [NX|XX|GT|LT]
TTL k
PTTL k
EXPIRETIME k
PEXPIRETIME k
PERSIST k
KEYS p
RANDOMKEY
SCAN (0|1|99|n) [MATCH_p|COUNT_s|TYPE_string|TYPE_list|TYPE_nosuch]
SELECT d
SWAPDB d d
FLUSHDB [SYNC|ASYNC]
FLUSHALL (SYNC|ASYNC|x)
OBJECT (ENCODING|FREQ|IDLETIME|REFCOUNT|NOSUCH) k
MULTI
MULTI
EXEC
EXEC
DISCARD
WATCH K
UNWATCH
RESET
PING [v]
ECHO v
HELLO (4|1|x|3_FOO|2_SETNAME_v_FOO|3_AUTH_x_y|3_SETNAME_v_AUTH_x_y)
AUTH [v]
CLIENT (GETNAME|UNPAUSE|NOSUCH|SETNAME_v|NO-EVICT_on|NO-EVICT_x|REPLY_ON|REPLY_x|PAUSE_x|PAUSE_0_x)
CLIENT KILL [TYPE_pubsub|TYPE_v|ID_n|ADDR_v|LADDR_v|USER_v|SKIPME_yes|SKIPME_x]
COMMAND GETKEYS c
COMMAND GETKEYSANDFLAGS c
CONFIG GET (save|dir*nosuch|HZ|appendonly|maxclients|[h]z|slowlog-*|\\x)
CONFIG SET (Hz|LFU-log-factor|slowlog-max-len|Tcp-backlog|DIR|nosuch|appendfsync) (v|n|yes|10|everysec) [hz_n|nosuch_1]
CONFIG (NOSUCH|GET|SET|REWRITE_x)
LATENCY (NOSUCH|HISTORY_x|HISTOGRAM_nosuch|GRAPH_v)
SLOWLOG (GET_0|GET_x|GET_-2|NOSUCH|GET_-1_1)
MEMORY (USAGE_k|USAGE_k_SAMPLES_n|USAGE_k_x|USAGE_k_SAMPLES_n_SAMPLES_n|NOSUCH)
FUNCTION FLUSH [SYNC|x]
SHUTDOWN (x|ABORT|NOSAVE_SAVE|NOW_x)
NOSUCH v k v
GeT k
""".strip().split("\n")

# Integers of these may be so far apart: time passes between the servers.
NEAR = {b"ttl": 3, b"pttl": 3000, b"expiretime": 3, b"pexpiretime": 3000}
# Their replies have one type, and both are a null or neither.
KIND = {b"randomkey", b"scan", b"memory|usage", b"object|idletime", b"object|refcount", b"object|encoding", b"config|get"}
# What is drawn as it stands: with a word more or less it might end the episode, or ask for what differs.
FRAGILE = (b"SHUTDOWN", b"CLIENT", b"FLUSHALL", b"HELLO", b"CONFIG", b"LATENCY", b"SLOWLOG")


def rule_of(args):
    """How the replies to a command are compared: `exact`, `unordered`, `kind`, or a number by which integers may be apart."""
    name = args[0].lower()
    if name in KIND or b"|".join(args[:2]).lower() in KIND:
        return "kind"
    return "unordered" if name == b"keys" else NEAR.get(name, "exact")


class Draw:
    def __init__(self, dice, now_s):
        self.dice = dice
        self.now_s = now_s
        self.pick = dice.choice
        self.takes = {
            "k": lambda: [self.key()],
            "v": lambda: [self.value()],
            "n": lambda: [self.pick(NUMBERS)],
            "s": lambda: [b"%d" % dice.randint(-6, 12)] if self.chance(80) else [self.pick(NUMBERS)],
            "o": lambda: [b"%d" % dice.randint(0, 200)] if self.chance(80) else [self.pick(BIT_OFFSETS)],
            "t": lambda: [b"%c%d" % (self.pick(b"iu"), dice.randint(1, 63))] if self.chance(90) else [self.pick(FIELD_TYPES)],
            "w": lambda: [b"%d" % dice.randint(-300, 300)] if self.chance(70) else [self.pick(FIELD_VALUES)],
            "d": lambda: [b"%d" % dice.randint(0, 3)] if self.chance(90) else [self.pick(NUMBERS)],
            "p": lambda: [self.pick(PATTERNS)],
            "g": lambda: [self.time(0, 1)],
            "G": lambda: [self.time(0, 1000)],
            "u": lambda: [self.time(now_s, 1)],
            "U": lambda: [self.time(now_s, 1000)],
            "c": self.command,
            "K": lambda: [self.key() for _ in range(dice.randint(1, 4))],
            "V": lambda: [word for _ in range(dice.randint(1, 4)) for word in (self.key(), self.value())],
        }

    def chance(self, percent):
        return self.dice.random() * 100 < percent

    def key(self):
        return self.pick(KEYS) if self.chance(70) else self.pick(ODD_KEYS)

    def value(self):
        return self.pick(VALUES) if self.chance(70) else self.pick(NUMBERS)

    def time(self, from_s, unit):
        """An end that is far away, none above zero, or no number. Two are the same or seconds apart. A key that is set with an end
        in the past is in Redis' way until somebody looks at it, so none is drawn that has passed since 1970."""
        if self.chance(75):
            return b"%d" % ((from_s + self.dice.randrange(10, 100_000) * 10) * unit)
        text = self.pick(NUMBERS)
        return b"1000000000000000" if text.isdigit() and 0 < int(text) < 10_000_000_000_000 else text

    def words(self, template):
        words = []
        for word in template.split():
            if word[0] in "[(":
                count = 1 if word[0] == "(" else self.pick([0, 0, 1, 1, 1, 2, 2, 3])
                for _ in range(count):
                    words += self.words(self.pick(word[1:-1].split("|")).replace("_", " "))
            elif word in self.takes:
                words += self.takes[word]()
            else:
                words.append((word.swapcase() if self.chance(10) else word).encode())
        return words

    def command(self):
        args = self.words(self.pick(TEMPLATES))
        if self.chance(7) and args[0].upper() not in FRAGILE:
            at = self.dice.randrange(len(args))
            change = self.dice.randrange(4)
            if change == 0:
                args.insert(at + 1, self.value())
            elif at > 0:
                args[at:at + 1] = [[], [args[at]] * 2, [self.pick(NUMBERS)]][change - 1]
        return args

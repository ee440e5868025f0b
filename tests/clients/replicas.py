"""A primary under test, Debian's redis-servers that follow it, and whether they hold the same; what tests of that begin with.

The primary is this server, or redis-server itself where REPLICATION_PRIMARY=redis is in the environment: what is asked of ours is first
asked of Redis. A Replica is always an unmodified redis-server. The other way round, a Follower is the server under test, or redis-server where
REPLICATION_REPLICA=redis is in the environment. Every wait here polls and has one deadline, for a machine may be slow.
"""

import collections
import contextlib
import os
import pathlib
import random
import re
import socket
import tempfile
import time
import unittest

from servers import Server, expresslane_command, redis_command, request

OURS = os.environ.get("REPLICATION_PRIMARY", "expresslane") != "redis"
FOLLOWER_IS_OURS = os.environ.get("REPLICATION_REPLICA", "expresslane") != "redis"
LANES_COUNT = 3
SECONDS_MAX = 30
DATABASES = 16
# So many keys are asked for at a time: their values are in this process then.
KEYS_AT_ONCE = 50
SHOWN_BYTES_MAX = 60
NOT_AN_INTEGER = "ERR value is not an integer or out of range"
# What no socket takes while nobody reads: two of its buffers, and more.
BALLAST_VALUES, BALLAST_BYTES = 24, 1 << 20


class Refused(Exception):
    """A reply that is an error; its text is what came behind the minus."""


class Client:
    """A connection in RESP2. Calling it asks and answers, and raises what is refused."""

    def __init__(self, port, receive_bytes=None):
        self.socket = socket.socket()
        if receive_bytes is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        self.socket.settimeout(SECONDS_MAX)
        self.socket.connect(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.received = bytearray()

    def __call__(self, *arguments):
        reply = self.reply(*arguments)
        if isinstance(reply, Refused):
            raise reply
        return reply

    def reply(self, *arguments):
        """The reply, be it an error."""
        self.send(request(*arguments))
        return self.read()

    def replies(self, commands):
        self.send(b"".join(request(*command) for command in commands))
        return [self.read() for _ in commands]

    def send(self, data):
        self.socket.settimeout(SECONDS_MAX)
        self.socket.sendall(data)

    def receive(self, until):
        """Some more bytes. `until` is for all that one call here waits for: a replica hears something every few seconds."""
        self.socket.settimeout(max(until - time.monotonic(), 0.001))
        piece = self.socket.recv(1 << 20)
        if not piece:
            raise ConnectionResetError(f"the server has closed the connection; what came before is {bytes(self.received[:SHOWN_BYTES_MAX])!r}")
        self.received += piece

    def take(self, size):
        data = bytes(self.received[:size])
        del self.received[:size]
        return data

    def line(self):
        """The next line without its end. Empty ones are for keeping a connection alive, and are passed over."""
        until = time.monotonic() + SECONDS_MAX
        while True:
            end = self.received.find(b"\n") + 1
            if end == 0:
                self.receive(until)
            elif line := self.take(end).rstrip(b"\r\n"):
                return line

    def bytes(self, size):
        until = time.monotonic() + SECONDS_MAX
        while len(self.received) < size:
            self.receive(until)
        return self.take(size)

    def to_the_end(self):
        """All that comes until the server closes the connection."""
        until = time.monotonic() + SECONDS_MAX
        with contextlib.suppress(ConnectionResetError):
            while True:
                self.receive(until)
        return self.take(len(self.received))

    def read(self):
        line = self.line()
        marker, rest = line[:1], line[1:]
        if marker == b"-":
            return Refused(rest.decode(errors="replace"))
        if marker == b"+":
            return rest.decode()
        if marker == b":":
            return int(rest)
        if marker == b"*":
            return None if rest == b"-1" else [self.read() for _ in range(int(rest))]
        if marker != b"$":
            raise ConnectionError(f"no reply begins with {line[:SHOWN_BYTES_MAX]!r}")
        return None if rest == b"-1" else self.bytes(int(rest) + 2)[:-2]

    def is_silent(self, seconds=0.3):
        """Whether nothing comes for so long."""
        with contextlib.suppress(TimeoutError):
            self.receive(time.monotonic() + seconds)
        return not self.received

    def heard(self):
        """The next command that a replica's connection hears, but for PING."""
        while (command := self.read())[0].upper() == b"PING":
            pass
        return command

    def info(self, section="replication"):
        text = self("INFO", section).decode()
        return dict(line.split(":", 1) for line in text.splitlines() if ":" in line)

    def close(self):
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def primary(extra=()):
    """The server under test, started."""
    if OURS:
        return Server("primary", expresslane_command(lanes=LANES_COUNT, extra=extra))
    return redis_primary(*extra)


def redis_primary(*settings, port=None):
    """A redis-server that begins a snapshot as soon as somebody wants one."""
    return Server("primary", lambda own, at: [*redis_command(own, at), "--repl-diskless-sync-delay", "0", *settings], port=port)


class Replica(Server):
    """A redis-server that follows the server on a port, be that a replica itself."""

    def __init__(self, primary_port, *settings, port=None):
        # Redis gathers replicas for five seconds before it begins, and so does a replica with replicas of its own.
        follow = ["--replicaof", "127.0.0.1", str(primary_port), "--repl-diskless-sync-delay", "0", *settings]
        super().__init__("replica", lambda own, at: [*redis_command(own, at), *follow], port=port)

    def is_up(self):
        with Client(self.port) as client:
            reply = client.reply("INFO", "replication")
            # While it loads it refuses.
            return not isinstance(reply, Refused) and b"master_link_status:up" in reply

    def wait_until_up(self):
        wait_until(self.is_up, lambda: f"a replica is up; it said:\n{self.tail()}")

    def kill(self):
        """Ends it as a crash does."""
        self.process.kill()
        self.process.wait()

    def errors_count(self):
        """Commands of its primary that it could not carry out: each is a difference that nobody is told of."""
        with Client(self.port) as client:
            return int(client.info("stats")["unexpected_error_replies"])


class Follower(Replica):
    """The server under test, which follows the server on a port, or nobody until it is told."""

    def __init__(self, primary_port=None, *settings, port=None):
        # Ours is told in one word, and Redis in two.
        whom = () if primary_port is None else (f"127.0.0.1 {primary_port}",) if FOLLOWER_IS_OURS else ("127.0.0.1", str(primary_port))
        extra = ("--replicaof", *whom, *settings) if whom else settings

        def command(own, at):
            if FOLLOWER_IS_OURS:
                return expresslane_command(lanes=LANES_COUNT, extra=extra)(own, at)
            return [*redis_command(own, at), "--repl-diskless-sync-delay", "0", *extra]

        Server.__init__(self, "follower", command, port=port)


@contextlib.contextmanager
def loaded(rdb):
    """A redis-server that has loaded an RDB file of these bytes."""
    with tempfile.TemporaryDirectory(prefix="rdb-") as directory:
        pathlib.Path(directory, "dump.rdb").write_bytes(rdb)
        with Server("loaded", lambda port, at: [*redis_command(port, at), "--dir", directory]) as server, Client(server.port) as client:
            wait_until(lambda: not isinstance(client.reply("DBSIZE"), Refused), lambda: f"a server loads; it said:\n{server.tail()}")
            yield client


def fill_with_every_shape(client, chance):
    """Strings of every form that Redis keeps or sends them in, in all databases, with ends and without."""
    # Redis compresses what becomes smaller, writes integers as such, and refers back over short and long ways.
    values = [b"", b"0", b"-1", b"127", b"128", b"-129", b"32768", b"2147483648", b"-9223372036854775808", b"9223372036854775807", b"007", b"x",
              b"a" * 20, b"a" * 21, b"ab" * 40, chance.randbytes(100), b"y" * 100, chance.randbytes(16_384), b"z" * 16_385, chance.randbytes(100_000),
              b"abcd" * 25_000, bytes(range(256)), chance.randbytes(5000) * 3, b"".join(chance.choice((b"ha", b"hoho", b"\0\xff")) for _ in range(30_000))]
    for database in range(DATABASES):
        client("SELECT", database)
        names = [b"k:%d" % number for number in range(len(values))]
        names[:8] = [b"", b"12345", b"-1", b"\0\r\n\xff", chance.randbytes(70), b"k" * 20_000, b"{tag}1", chance.randbytes(32_768)]
        for name, value in zip(names, values):
            client("SET", name, value)
            if chance.random() < 0.3:
                client("PEXPIRE", name, chance.randrange(100_000, 10**12))
            client("SET", b"int:" + name[:50], chance.randrange(-2**40, 2**40), "EX", chance.randrange(100, 10**6))
        client("SET", "soon", "gone", "PX", chance.randrange(1, 3000))
    client("SET", "20 MB", chance.randbytes(1 << 20) * 20)
    client("SET", "20 MB of one byte", b"x" * (20 << 20), "EX", 1000)
    client("APPEND", "12345", "678")
    client("SETRANGE", "hole", 70_000, "end")
    client("INCR", "counter")


def wait_until(condition, what):
    """Polls until `condition()`; `what` is said, or called for what is said, if that takes too long."""
    until = time.monotonic() + SECONDS_MAX
    while not condition():
        if time.monotonic() > until:
            raise AssertionError(f"not within {SECONDS_MAX} s: {what() if callable(what) else what}")
        time.sleep(0.02)


Contents = collections.namedtuple("Contents", "sizes keys")


def contents(port):
    """DBSIZE of each database, and of each key its value and the unix time in milliseconds at which it ends, -1 for never."""
    sizes, keys = [], {}
    with Client(port) as client:
        for database in range(DATABASES):
            client("SELECT", database)
            sizes.append(client("DBSIZE"))
            cursor, names = b"0", set()
            while sizes[-1] > 0:
                cursor, some = client("SCAN", cursor, "COUNT", 1000)
                names.update(some)
                if cursor == b"0":
                    break
            names = sorted(names)
            for first in range(0, len(names), KEYS_AT_ONCE):
                some = names[first:first + KEYS_AT_ONCE]
                replies = client.replies([command for name in some for command in (("GET", name), ("PEXPIRETIME", name))])
                # A null is a key whose time has come since.
                keys.update(((database, name), (value, end)) for name, value, end in zip(some, replies[::2], replies[1::2]) if value is not None)
    return Contents(sizes, keys)


def shown(data):
    return "nothing" if data is None else f"{data[0][:SHOWN_BYTES_MAX]!r} ({len(data[0])} bytes) until {data[1]}"


def difference(one, other):
    """What two servers hold differently, as a text with the first few keys, or None."""
    try:
        left, right = contents(one.port), contents(other.port)
    except Refused as problem:
        # A replica that begins anew refuses for a while, after it has said that its link is up.
        if str(problem).startswith("LOADING"):
            return str(problem)
        raise
    if left == right:
        return None
    names = sorted(name for name in left.keys.keys() | right.keys.keys() if left.keys.get(name) != right.keys.get(name))
    lines = [f"database {name[0]}, {name[1][:SHOWN_BYTES_MAX]!r}: {shown(left.keys.get(name))} and {shown(right.keys.get(name))}" for name in names[:5]]
    return "\n".join([f"DBSIZE {left.sizes} and {right.sizes}, {len(names)} keys differ", *lines])


def check_same(primary, *replicas):
    """All replicas hold what the primary holds, once they have carried out what it has sent."""
    for replica in replicas:
        replica.wait_until_up()
        found = []

        def is_same():
            found[:] = [difference(primary, replica)]
            return found == [None]

        wait_until(is_same, lambda: f"a replica holds the same: {found[0]}\nit said:\n{replica.tail()}")
        if replica.errors_count() > 0:
            raise AssertionError(f"a replica could not carry out what it was sent:\n{replica.tail(4000)}")


def replicas_online(client):
    """How many replicas the primary calls online."""
    return sum("state=online" in value for name, value in client.info().items() if re.fullmatch(r"slave\d+", name))


class Stream(Client):
    """A client that says SYNC as replicas did before PSYNC, and hears then what replicas hear."""

    def __init__(self, port):
        super().__init__(port)
        self.send(b"SYNC\r\n")
        line = self.line()
        if line[:1] != b"$":
            raise AssertionError(f"the answer to SYNC is {line!r}")
        self.rdb = self.bytes(int(line[1:]))

    def until(self, sentinel):
        """The commands before one that has this word in it, words as texts; PING and GETACK are left out."""
        commands, until = [], time.monotonic() + SECONDS_MAX
        while time.monotonic() < until:
            command = [word.decode(errors="backslashreplace") for word in self.read()]
            if sentinel in command:
                return commands
            if command[0].upper() not in ("PING", "REPLCONF"):
                commands.append(command)
        raise AssertionError(f"{sentinel} is not heard within {SECONDS_MAX} s, but {commands[-5:]}")


def is_like(command, pattern):
    """Whether the words are those of the pattern; * is for digits alone, letters may be of either case."""
    words = pattern.split(" ")
    return len(command) == len(words) and all(
        re.fullmatch(r"\d+", got) if want == "*" else got.lower() == want.lower()
        for got, want in zip(command, words))


class WithPrimary(unittest.TestCase):
    """Each test has a primary of its own, and a client of it."""

    def setUp(self):
        self.stack = self.enterContext(contextlib.ExitStack())
        self.primary = self.stack.enter_context(primary())
        self.client = self.connect()

    def connect(self, server=None):
        return self.stack.enter_context(Client((server or self.primary).port))

    def replica(self, *settings, of=None, is_up=True):
        replica = self.stack.enter_context(Replica((of or self.primary).port, *settings))
        if is_up:
            replica.wait_until_up()
        return replica

    def wait_for_online(self, count):
        wait_until(lambda: replicas_online(self.client) == count, lambda: f"{count} replicas online; {self.client.info()}")

    def wait_for_another(self, number):
        """The replica with this client number has gone, and one is there again."""
        wait_until(lambda: f"id={number} " not in self.client("CLIENT", "LIST", "TYPE", "replica").decode(), "a replica that was killed is gone")
        self.wait_for_online(1)

    def check_wait(self, count):
        """A write of this client, and so all before it, has reached so many replicas."""
        self.client("SET", "waited-for", time.monotonic_ns())
        self.assertGreaterEqual(self.client("WAIT", count, SECONDS_MAX * 1000), count)

    def ballast(self):
        """Values that keep a snapshot busy, and that do not become smaller."""
        chance = random.Random(1)
        for number in range(BALLAST_VALUES):
            self.client("SET", f"ballast:{number}", chance.randbytes(BALLAST_BYTES))

    def write_until(self, condition, what):
        """Writes values until that is so. They are so many at most that a limit of a few MB is reached."""
        value, number = random.Random(2).randbytes(1 << 16), 0
        while not condition():
            self.assertLess(number, 2000, what)
            for _ in range(16):
                self.client("SET", f"flood:{number % 20}", value)
                number += 1


class WithFollower(WithPrimary):
    """Each test has a redis-server as its primary, a client of that, and followers as it likes."""

    PRIMARY_SETTINGS = ("--enable-debug-command", "yes")

    def setUp(self):
        self.stack = self.enterContext(contextlib.ExitStack())
        self.primary = self.stack.enter_context(redis_primary(*self.PRIMARY_SETTINGS))
        self.client = self.connect()

    def follower(self, *settings, of=None, is_up=True):
        follower = self.stack.enter_context(Follower((of or self.primary).port, *settings))
        if is_up:
            follower.wait_until_up()
        return follower

    def alone(self, *settings):
        """A server under test that follows nobody yet."""
        return self.stack.enter_context(Follower(None, *settings))

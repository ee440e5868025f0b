"""Servers under test: started on a free port of 127.0.0.1, waited for, looked at through /proc, and always ended by pid.

Used by the benchmarks here and by the client tests (tests/clients). It knows how each server is started; what is
done with it is the caller's business.
"""

import collections
import contextlib
import os
import pathlib
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
START_SECONDS_MAX = 20
END_SECONDS_MAX = 5
# Programs that run beside each other are told ports of their own, the first and that behind the last.
PORT_MIN, PORT_END = map(int, os.environ.get("TEST_PORTS", "10000-32768").split("-"))
# Ports that were given away last: a server that is about to begin has not bound them yet.
given = collections.deque(maxlen=(PORT_END - PORT_MIN) // 4)


class Unavailable(Exception):
    """A server cannot be had on this machine; the text says what to do."""


def built(name, profile="release"):
    """The path of one of this project's programs, as cargo lays it out."""
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    path = target / profile / name
    if not path.exists():
        raise Unavailable(f"{path} is missing: run `make build` first")
    return str(path)


def tool(name, package):
    """The path of a program that a Debian package brings."""
    path = shutil.which(name) or shutil.which(name, path="/usr/sbin:/sbin:/usr/local/bin")
    if path is None:
        raise Unavailable(f"{name} is missing: apt-get install {package}")
    return path


def free_port(count=1):
    """The first of `count` ports in a row that nobody has bound on 127.0.0.1, and that were not given away just before.

    It is below those that Linux gives to connections by itself (from 32768 on). One of those could be taken while a server
    restarts, and a client that goes on trying it while nobody listens is in the end connected with itself.
    """
    while True:
        first = random.randrange(PORT_MIN, PORT_END - count)
        ports = range(first, first + count)
        if any(port in ports for port in given):
            continue
        with contextlib.ExitStack() as stack, contextlib.suppress(OSError):
            for port in ports:
                stack.enter_context(socket.socket()).bind(("127.0.0.1", port))
            given.extend(ports)
            return first


def redis_command(port, _directory):
    return [
        tool("redis-server", "redis-server"),
        *["--port", str(port), "--bind", "127.0.0.1", "--daemonize", "no"],
        # No snapshots while measuring: a fork would be charged to Redis. Debian's file is not read.
        *["--save", "", "--appendonly", "no"],
    ]


def memcached_command(port, _directory):
    # As root it wants to be told who to be; elsewhere the flag has no effect.
    return [tool("memcached", "memcached"), "-p", str(port), "-l", "127.0.0.1", "-U", "0", "-u", "nobody"]


def expresslane_command(lanes=1, extra=(), profile="release"):
    def command(port, _directory):
        return [built("expresslane", profile), "serve", "--port", str(port), "--bind", "127.0.0.1",
                "--lanes", str(lanes), "--lane-ports", str(free_port(lanes)), *extra]
    return command


def floor_command(reply_size, threads=1):
    def command(port, _directory):
        return [built("floor"), "--port", str(port), "--reply-size", str(reply_size), "--threads", str(threads)]
    return command


class Server:
    """One running server process."""

    def __init__(self, name, command, cpu=None, port=None):
        """Starts `command(port, directory)`, pinned to `cpu` if given, and waits until it answers PING, be it with an error."""
        self.name = name
        self.port = port or free_port()
        self.directory = tempfile.TemporaryDirectory(prefix=f"bench-{name}-")
        arguments = command(self.port, self.directory.name)
        if cpu is not None:
            arguments = [tool("taskset", "util-linux"), "-c", str(cpu), *arguments]
        self.log = open(pathlib.Path(self.directory.name) / "log", "w+b")
        self.process = subprocess.Popen(
            arguments, cwd=self.directory.name, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
        try:
            self._wait_until_ready()
        except BaseException:
            self.end()
            raise

    @property
    def pid(self):
        return self.process.pid

    def _wait_until_ready(self):
        deadline = time.monotonic() + START_SECONDS_MAX
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise Unavailable(f"{self.name} ended at start-up with {self.process.returncode}:\n{self.tail()}")
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1) as client:
                client.sendall(b"PING\r\n")
                if client.recv(64):
                    return
            time.sleep(0.02)
        raise Unavailable(f"{self.name} did not answer within {START_SECONDS_MAX} s:\n{self.tail()}")

    def tail(self, size=2000):
        """The end of what the server has printed."""
        self.log.flush()
        self.log.seek(0)
        return self.log.read()[-size:].decode(errors="replace").strip()

    def pause(self):
        """Stops a server that is not measured now, so that its timers cost the others nothing."""
        self.process.send_signal(signal.SIGSTOP)

    def resume(self):
        self.process.send_signal(signal.SIGCONT)

    def cpu_ns(self):
        """CPU time of all threads, in nanoseconds, kernel side included."""
        return sum(int(text.split()[0]) for text in self._tasks("schedstat"))

    def wakes(self):
        """Voluntary context switches of all threads: how often the server slept and was woken."""
        return sum(_field(text, "voluntary_ctxt_switches") for text in self._tasks("status"))

    def preemptions(self):
        """Involuntary context switches: how often something else was given the server's core. Not those of this server's paging
        thread, which gives way to lanes."""
        return sum(_field(text, "nonvoluntary_ctxt_switches") for text in self._tasks("status")
                   if not text.startswith("Name:\tpaging\n"))

    def reaped_seconds(self):
        """CPU time of the processes that it has forked and seen end."""
        fields = pathlib.Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[13]) + int(fields[14])) / os.sysconf("SC_CLK_TCK")

    def rss_bytes(self):
        return _field(pathlib.Path(f"/proc/{self.pid}/status").read_text(), "VmRSS") * 1024

    def _tasks(self, name):
        for task in pathlib.Path(f"/proc/{self.pid}/task").iterdir():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                yield (task / name).read_text()

    def end(self):
        """Asks the server to end, and after END_SECONDS_MAX ends it. Returns its exit code."""
        if self.process.poll() is None:
            self.resume()
            self.process.terminate()
            try:
                self.process.wait(END_SECONDS_MAX)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.log.close()
        self.directory.cleanup()
        return self.process.returncode

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()


def _field(text, name):
    for line in text.splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1])
    raise KeyError(name)


def request(*arguments):
    """A command as RESP bytes."""
    parts = [b"*%d\r\n" % len(arguments)]
    for argument in arguments:
        data = argument if isinstance(argument, bytes) else str(argument).encode()
        parts.append(b"$%d\r\n%b\r\n" % (len(data), data))
    return b"".join(parts)


def load(port, requests_batches, reply_size=5):
    """Sends batches of (bytes, request count), each answered in `reply_size` bytes (+OK unless told), and waits for all.

    The next batch is written while the last is answered, so that neither side waits for the other; two batches are
    in flight at most, which bounds what the kernel has to hold.
    """
    with socket.create_connection(("127.0.0.1", port)) as client:
        owed = 0

        def collect(until):
            nonlocal owed
            while owed > until:
                got = client.recv(1 << 20)
                if not got:
                    raise ConnectionError("the server closed the connection while keys were loaded")
                if got[:1] == b"-":
                    raise ConnectionError(f"the server refused to load: {got[:200]!r}")
                owed -= len(got)

        for data, count in requests_batches:
            client.sendall(data)
            owed += count * reply_size
            collect(count * reply_size)
        collect(0)
        if owed != 0:
            raise ConnectionError(f"the server answered {-owed} bytes more than +OK to each SET")


def set_batches(start, stop, value_size, seconds=None, prefix=b"key:", batch_count=10_000):
    """SET of `key:%012d` (16 bytes) for start <= n < stop, as batches for `load`."""
    tail = (b"$%d\r\n" % value_size) + b"x" * value_size + b"\r\n"
    head = b"*3"
    if seconds is not None:
        text = str(seconds).encode()
        tail += b"$2\r\nEX\r\n$%d\r\n%b\r\n" % (len(text), text)
        head = b"*5"
    head += b"\r\n$3\r\nSET\r\n$%d\r\n%b" % (len(prefix) + 12, prefix)
    between = b"\r\n" + tail + head
    for first in range(start, stop, batch_count):
        last = min(first + batch_count, stop)
        keys = between.join(b"%012d" % n for n in range(first, last))
        yield head + keys + b"\r\n" + tail, last - first

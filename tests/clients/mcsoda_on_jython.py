"""A client program on mcsoda, Couchbase's load generator of 2012, whose Python only Jython still runs. restartable.py says how it talks
with the test that runs it. Its arguments are the ports of lane 0: for keys and values, for management, and that of memcached's clients.
"""

import re
import socket
import struct
import StringIO
import sys
import types

# Jython's does not know the size of nothing.
sized = types.ModuleType("struct")
for name in ("Struct", "error", "pack", "pack_into", "unpack", "unpack_from"):
    setattr(sized, name, getattr(struct, name))
sized.calcsize = lambda form: struct.calcsize(form) if form else 0
sys.modules["struct"] = sized
# What mcsoda imports and does not use here.
for module, members in (
        ("multiprocessing", []), ("multiprocessing.process", ["Process"]), ("multiprocessing.queues", ["Queue", "JoinableQueue"]),
        ("TestInput", ["TestInputServer", "TestInputSingleton"])):
    sys.modules[module] = types.ModuleType(module)
    for member in members:
        setattr(sys.modules[module], member, type(member, (object,), {"input": None}))

from cbtestlib.perf_engines import mcsoda  # noqa: E402

key_values, _, management, text = sys.argv[1:]
LOAD = "vbuckets=1024 ratio-sets=0.3 max-ops=2000 max-items=500 max-creates=500"


def say(line):
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def ask(what):
    say(what)
    sys.stdin.readline()


def command(line, end):
    """What a server says to a line of memcached's text."""
    client = socket.create_connection(("127.0.0.1", int(text)))
    client.sendall(line + "\r\n")
    said = ""
    while not said.endswith(end):
        piece = client.recv(4096)
        if not piece:
            raise AssertionError("the server has closed the connection after %r" % said)
        said += piece
    client.close()
    return said


def load(what, address, settings):
    """Loads a server without documents, and says what mcsoda has counted and how many documents there are."""
    command("flush_all", "OK\r\n")
    out, sys.stdout = sys.stdout, StringIO.StringIO()
    try:
        mcsoda.main(["mcsoda", address] + (LOAD + " " + settings).split())
    finally:
        out, sys.stdout = sys.stdout.getvalue(), out
    counted = dict(re.findall(r"cur-(\w+): (\d+)", out))
    documents = re.search(r"STAT curr_items (\d+)", command("stats", "END\r\n")).group(1)
    fields = ["%s %s" % (counted[name], name) for name in ("gets", "sets", "arpas", "deletes", "creates")]
    say("%s, %s: %s; %s documents" % (what, settings, ", ".join(fields), documents))


for settings in ("batch=50", "batch=0"):
    ask("begin")
    load("membase", "membase://127.0.0.1:" + management, settings)
    ask("end")
for settings in ("batch=50", "batch=0"):
    load("binary", "memcached-binary://127.0.0.1:" + key_values, settings)
load("text", "memcached-ascii://127.0.0.1:" + text, "batch=50")
load("binary", "memcached-binary://127.0.0.1:" + key_values, "batch=50 ratio-arpas=0.2 ratio-deletes=0.1")

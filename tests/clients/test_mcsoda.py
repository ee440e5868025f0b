"""mcsoda, Couchbase's load generator of 2012, on Jython: by the map of a cluster, by memcached's binary protocol, by its text."""

import hashlib
import re
import subprocess
import sys
import tarfile
import unittest
import urllib.request

from restartable import HERE, Nodes, converse, jars, made, toolchain

PACKAGE, VERSION = "cbtestlib", "1.0.0"
DIGEST = "43e0386f0af9855a23d3b25a46ed9e2d92c8dd8e4fbe6cc6abe33d34f34230c1"


def source():
    """The directory of the package's source. It is of Python 2, so pip finds it, but can't unpack it."""
    directory = made("mcsoda") / f"{PACKAGE}-{VERSION}"
    if directory.exists():
        return directory
    command = [sys.executable, "-m", "pip", "download", "-vv", "--no-deps", "--no-binary", ":all:", f"{PACKAGE}=={VERSION}"]
    directory.parent.mkdir(exist_ok=True)
    said = subprocess.run(command, cwd=directory.parent, capture_output=True, text=True, timeout=120)
    link = re.search(rf"Found link (\S+/{PACKAGE}-{VERSION}\.tar\.gz)", said.stdout)
    if link is None:
        raise AssertionError(f"pip does not find {PACKAGE} {VERSION}:\n{said.stdout[-2000:]}{said.stderr[-2000:]}")
    archive = directory.parent / "archive"
    with urllib.request.urlopen(link[1], timeout=60) as reply:
        archive.write_bytes(reply.read())
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    if digest != DIGEST:
        raise AssertionError(f"{PACKAGE} {VERSION} has the digest {digest}, it must be {DIGEST}")
    with tarfile.open(archive) as files:
        files.extractall(directory.parent)
    return directory


class Mcsoda(unittest.TestCase):
    def test_all(self):
        java = toolchain("java")
        path = source()
        server = Nodes(4)
        loads = ["membase, batch=50", "membase, batch=0", "binary, batch=50", "binary, batch=0", "text, batch=50"]
        # The same load leaves as many documents however it comes.
        wanted = [f"{load}: 1400 gets, 600 sets, 0 arpas, 0 deletes, 61 creates; 266 documents" for load in loads]
        changes = "binary, batch=50 ratio-arpas=0.2 ratio-deletes=0.1"
        wanted.append(f"{changes}: 1400 gets, 600 sets, 97 arpas, 54 deletes, 61 creates; 220 documents")
        converse(
            [java, f"-Dpython.path={path}:{path / PACKAGE / 'perf_engines'}", "-cp", f"{jars()}/*", "org.python.util.jython",
             HERE / "mcsoda_on_jython.py"],
            wanted, server, [server.management_port, server.memcached_port])

"""Redis' own test suite, as Debian ships it: the source package is fetched with apt, which checks its signatures, into
a directory of ours. The system's apt configuration, lists and cache stay as they are.
"""

import pathlib
import shutil
import subprocess
import tarfile

VERSION = "7.0.15"
RELEASES = (("http://deb.debian.org/debian", "bookworm"), ("http://deb.debian.org/debian-security", "bookworm-security"))
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
FETCH_SECONDS_MAX = 300


class Unavailable(Exception):
    """The suite cannot be had on this machine; the text says what to do."""


def suite(directory):
    """The path of the unpacked suite below `directory`, fetched at the first call."""
    unpacked = pathlib.Path(directory) / f"redis-{VERSION}"
    if not unpacked.exists():
        _unpack(_fetch(pathlib.Path(directory) / "apt"), unpacked)
    return unpacked


def _fetch(directory):
    """Downloads the source package and returns the path of Redis' tarball in it."""
    tarball = directory / f"redis_{VERSION}.orig.tar.gz"
    if tarball.exists():
        return tarball
    if shutil.which("apt-get") is None:
        raise Unavailable("apt-get is missing: the suite comes from Debian's source package, so this needs Debian or Ubuntu")
    if not pathlib.Path(KEYRING).exists():
        raise Unavailable(f"{KEYRING} is missing: apt-get install debian-archive-keyring")
    for part in ("lists/partial", "cache/archives/partial"):
        (directory / part).mkdir(parents=True, exist_ok=True)
    sources = directory / "sources.list"
    sources.write_text("".join(f"deb-src [signed-by={KEYRING}] {url} {name} main\n" for url, name in RELEASES))
    apt = ["apt-get", "-q", *(part for option in (
        f"Dir::Etc::sourcelist={sources}", "Dir::Etc::sourceparts=/nonexistent", f"Dir::State::lists={directory}/lists",
        f"Dir::Cache={directory}/cache", "APT::Sandbox::User=root", "Acquire::Languages=none",
    ) for part in ("-o", option))]
    for step in (["update"], ["source", "--download-only", "redis"]):
        try:
            done = subprocess.run(apt + step, cwd=directory, capture_output=True, text=True, timeout=FETCH_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            raise Unavailable(f"apt-get {step[0]} took longer than {FETCH_SECONDS_MAX} s: is {RELEASES[0][0]} reachable?") from None
        if done.returncode != 0:
            raise Unavailable(f"apt-get {step[0]} failed: is {RELEASES[0][0]} reachable?\n{done.stderr.strip()}")
    if not tarball.exists():
        raise Unavailable(f"Debian's source package redis no longer holds {tarball.name}: set VERSION in {__file__}")
    return tarball


def _unpack(tarball, unpacked):
    """Unpacks what the suite needs, under another name first, so that half an unpacking is never taken for a whole one."""
    partial = unpacked.with_suffix(".partial")
    shutil.rmtree(partial, ignore_errors=True)
    with tarfile.open(tarball) as archive:
        wanted = [member for member in archive if member.name.split("/")[1:2] in (["tests"], ["runtest"])]
        # Python's own filter against names that leave the directory; Pythons before 3.11.4 do not know it.
        safe = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
        archive.extractall(partial, members=wanted, **safe)
    (partial / unpacked.name).rename(unpacked)
    partial.rmdir()

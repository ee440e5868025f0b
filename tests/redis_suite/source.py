"""Redis' own test suite, as Debian ships it: the source package is fetched into a directory of ours."""

import pathlib
import shutil
import sys
import tarfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import debian  # noqa: E402
from debian import Unavailable  # noqa: E402

VERSION = "7.0.15"
SUITES = (("Debian", "bookworm"), ("Debian-Security", "bookworm-security"))


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
    archive = debian.Archive(directory, SUITES, kind="deb-src")
    archive.ask("apt-get", "update")
    archive.ask("apt-get", "source", "--download-only", "redis")
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

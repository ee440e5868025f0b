"""Packages of Debian in a directory of ours: apt fetches and checks them, from the mirror that this machine uses.

Lists, cache and what counts as installed are apart from the system's, which stays as it is.
"""

import pathlib
import shutil
import subprocess

KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
FETCH_SECONDS_MAX = 600


class Unavailable(Exception):
    """Something that a test needs is not to be had on this machine; the text says what to do."""


class Archive:
    """One kind of packages (`deb`, `deb-src`) of some suites, given as (label, suite): ("Debian", "stable-backports")."""

    def __init__(self, directory, suites, kind="deb"):
        self.directory = pathlib.Path(directory)
        if shutil.which("apt-get") is None:
            raise Unavailable("apt-get is missing: this is fetched from Debian's archive, and needs Debian")
        if not pathlib.Path(KEYRING).exists():
            raise Unavailable(f"{KEYRING} is missing: apt-get install debian-archive-keyring")
        for part in ("lists/partial", "cache/archives/partial"):
            (self.directory / part).mkdir(parents=True, exist_ok=True)
        sources = self.directory / "sources.list"
        mirrors = _mirrors()
        for label, _ in suites:
            if label not in mirrors:
                raise Unavailable(f"none of apt's sources here is an archive of {label}: look at `apt-get indextargets`, "
                                  "and run `apt-get update` if it shows none")
        sources.write_text("".join(f"{kind} [signed-by={KEYRING}] {mirrors[label]} {suite} main\n" for label, suite in suites))
        installed = self.directory / "installed"
        installed.touch()
        self.options = [part for option in (
            f"Dir::Etc::sourcelist={sources}", "Dir::Etc::sourceparts=/nonexistent", f"Dir::State::lists={self.directory}/lists",
            f"Dir::State::status={installed}", f"Dir::Cache={self.directory}/cache", "APT::Sandbox::User=root",
            "Acquire::Languages=none",
        ) for part in ("-o", option)]

    def ask(self, program, *words):
        """Runs apt-get or apt-cache in the directory and returns what it prints."""
        command = [program, "-q", *self.options, *words]
        try:
            done = subprocess.run(command, cwd=self.directory, capture_output=True, text=True, timeout=FETCH_SECONDS_MAX, check=False)
        except subprocess.TimeoutExpired:
            raise Unavailable(f"{program} {words[0]} took longer than {FETCH_SECONDS_MAX} s: is the mirror reachable?") from None
        if done.returncode != 0:
            raise Unavailable(f"{program} {' '.join(words)} failed: is the mirror reachable?\n{done.stderr.strip()}")
        return done.stdout


def _mirrors():
    """Addresses of the archives that apt's own sources name, by label: Debian, Debian-Security."""
    form = "$(ORIGIN) $(LABEL) $(REPO_URI)"
    shown = subprocess.run(["apt-get", "indextargets", "--format", form, "Created-By: Packages"],
                           capture_output=True, text=True, check=False).stdout
    rows = (line.split() for line in shown.splitlines())
    return {row[1]: row[2] for row in rows if len(row) == 3 and row[0] == "Debian"}

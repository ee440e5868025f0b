"""ioredis: the program in node/, with what package-lock.json names, installed below the target directory."""

import shutil
import unittest

from restartable import HERE, build, converse, made, toolchain

# What ioredis 6 asks for.
NODE_VERSION_MIN = (20, 0)


class Ioredis(unittest.TestCase):
    def test_all(self):
        node, npm = toolchain("node", NODE_VERSION_MIN), toolchain("npm")
        directory = made("node")
        directory.mkdir(exist_ok=True)
        lock, installed = HERE / "node/package-lock.json", directory / "installed"
        for name in ("package.json", "package-lock.json", "client.js"):
            shutil.copy(HERE / "node" / name, directory)
        if not installed.exists() or installed.read_text() != lock.read_text():
            build([npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund"], directory)
            installed.write_text(lock.read_text())
        converse([node, directory / "client.js"], ["values", "pipeline", "transaction", "cluster", "restart survived"])

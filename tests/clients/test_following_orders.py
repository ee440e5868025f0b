"""A replica among others: what it refuses, what it says of itself, whom it follows and with which password.

What is asserted here is what redis-server 7.0.15 does as a replica, but for where FOLLOWER_IS_OURS is asked. It runs alone, too, and then against Redis:

    PYTHONPATH=bench REPLICATION_REPLICA=redis python3 tests/clients/test_following_orders.py
"""

import time
import unittest

from replicas import (
    FOLLOWER_IS_OURS, LANES_COUNT, SECONDS_MAX, Client, Follower, Refused, WithFollower, check_same, redis_primary, replicas_online, wait_until)
from servers import free_port
from test_following import LIBRARY, RedisWriter

READONLY = "READONLY You can't write against a read only replica."
MASTERDOWN = "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'."
EXECABORT = "EXECABORT Transaction discarded because of previous errors."
# A FLUSHALL is as good as a DEL to who can't write.
WRITES_REFUSED = [
    ("SET", "k", "w"), ("SET", "k", "w", "GET"), ("DEL", "k"), ("UNLINK", "nosuch"), ("MSET", "k", 1, "l", 2), ("MSETNX", "k", 1), ("INCR", "n"),
    ("APPEND", "k", ""), ("SETRANGE", "k", 0, ""), ("GETEX", "k"), ("GETDEL", "k"), ("EXPIRE", "nosuch", 1), ("PERSIST", "k"), ("COPY", "k", "l"),
    ("MOVE", "k", 1), ("RENAME", "k", "l"), ("SWAPDB", 0, 1), ("FLUSHDB",), ("FLUSHALL",), ("BITOP", "NOT", "k", "k"), ("BITFIELD", "k", "GET", "u8", 0),
    ("SETBIT", "k", 0, 1), ("RESTORE", "k", 0, "x"), ("FUNCTION", "LOAD", LIBRARY), ("FUNCTION", "FLUSH"), ("EVAL", "#!lua\nreturn 1", 0),
]


class Refusing(WithFollower):
    def test_clients_read_and_do_not_write(self):
        self.client("SET", "k", "v")
        follower = self.follower()
        client = self.connect(follower)
        for words in WRITES_REFUSED:
            self.assertEqual(str(client.reply(*words)), READONLY, words)
        self.assertEqual(str(client.reply("SET", "k")), "ERR wrong number of arguments for 'set' command")
        self.assertEqual([client("GET", "k"), client("EXISTS", "k"), client("EVAL_RO", "return redis.call('get', KEYS[1])", 1, "k")], [b"v", 1, b"v"])
        replies = client.replies([("MULTI",), ("GET", "k"), ("SET", "k", "w"), ("GET", "k"), ("EXEC",)])
        self.assertEqual([str(reply) for reply in replies], ["OK", "QUEUED", READONLY, "QUEUED", EXECABORT])
        self.assertEqual(client.replies([("MULTI",), ("GET", "k"), ("PUBLISH", "c", "m"), ("EXEC",)])[-1], [b"v", 0])
        self.assertRegex(str(client.reply("EVAL", "return redis.call('set', KEYS[1], 'w')", 1, "k")), rf"^{READONLY} script: [0-9a-f]{{40}}, on @user_script:1\.$")
        self.assertEqual(client("EVAL", "return redis.pcall('set', KEYS[1], 'w').err", 1, "k"), READONLY.encode())
        self.assertEqual(client("EVAL", "return redis.call('get', KEYS[1])", 1, "k"), b"v")
        self.assertRegex(str(client.reply("WAIT", 1, 1)), "^ERR WAIT cannot be used with replica instances.")
        # What is queued before is refused as a whole.
        self.assertEqual(client("REPLICAOF", "NO", "ONE"), "OK")
        client.replies([("MULTI",), ("SET", "k", "w")])
        self.assertEqual(self.connect(follower)("REPLICAOF", "127.0.0.1", self.primary.port), "OK")
        self.assertEqual(str(client.reply("EXEC")), f"EXECABORT Transaction discarded because of: {READONLY}")
        check_same(self.primary, follower)

    @unittest.skipUnless(FOLLOWER_IS_OURS, "Redis has one port")
    def test_lanes_refuse_on_their_own_ports(self):
        self.client.replies([("SET", f"k:{number}", "v") for number in range(50)])
        follower = self.follower()
        ports = {part[2][1] for part in self.connect(follower)("CLUSTER", "SLOTS")}
        self.assertEqual(len(ports), LANES_COUNT)
        for port in ports:
            with Client(port) as lane:
                refused = [str(reply) for reply in lane.replies([("SET", f"k:{number}", "w") for number in range(50)])]
                # What another lane owns may be told first.
                self.assertEqual([text for text in refused if not text.startswith("MOVED ") and text != READONLY], [])
                self.assertIn(READONLY, refused)
                self.assertEqual(str(lane.reply("FLUSHALL")), READONLY)
        check_same(self.primary, follower)

    def test_stale_data_are_served_or_not(self):
        self.client("SET", "k", "v")
        follower = self.follower()
        client = self.connect(follower)
        self.primary.process.kill()
        wait_until(lambda: client.info()["master_link_status"] == "down", "the link is down")
        self.assertEqual(client("GET", "k"), b"v")
        queued = self.connect(follower)
        queued.replies([("MULTI",), ("GET", "k")])
        self.assertEqual(client("CONFIG", "SET", "replica-serve-stale-data", "no"), "OK")
        self.assertEqual(str(queued.reply("EXEC")), f"EXECABORT Transaction discarded because of: {MASTERDOWN}")
        for words in (("GET", "k"), ("EXISTS", "k"), ("DBSIZE",), ("PING",), ("EVAL", "return 1", 0), ("FUNCTION", "LIST"), ("SCAN", 0)):
            self.assertEqual(str(client.reply(*words)), MASTERDOWN, words)
        self.assertEqual(str(client.reply("SET", "k", "w")), READONLY)
        replies = client.replies([("MULTI",), ("GET", "k"), ("EXEC",)])
        self.assertEqual([str(reply) for reply in replies], ["OK", MASTERDOWN, EXECABORT])
        self.assertEqual([client("SELECT", 1), client("SELECT", 0), client("ECHO", "x"), client("PUBLISH", "c", "m"), client("WATCH", "k"), client("UNWATCH")],
                         ["OK", "OK", b"x", 0, "OK", "OK"])
        self.assertEqual(client("CONFIG", "GET", "replica-serve-stale-data")[1], b"no")
        self.assertEqual(client("ROLE")[:2], [b"slave", b"127.0.0.1"])
        self.assertEqual(client.replies([("MULTI",), ("ECHO", "x"), ("EXEC",)])[-1], [b"x"])
        client("CONFIG", "SET", "replica-serve-stale-data", "yes")
        self.assertEqual(client("GET", "k"), b"v")
        client("CONFIG", "SET", "replica-serve-stale-data", "no")
        # Of nobody it is no replica.
        client("REPLICAOF", "NO", "ONE")
        self.assertEqual([client("GET", "k"), client("SET", "k", "w")], [b"v", "OK"])


class Asking(WithFollower):
    def test_what_both_say_of_each_other(self):
        self.client("SET", "k", "v")
        follower = self.follower()
        client = self.connect(follower)
        self.wait_for_online(1)
        self.check_wait(1)
        seen = []

        def is_settled():
            seen[:] = client.info(), self.client.info()
            return seen[0]["slave_repl_offset"] == seen[1]["master_repl_offset"] and f"offset={seen[1]['master_repl_offset']}," in seen[1]["slave0"]

        wait_until(is_settled, lambda: f"both have all; {seen}")
        info, of_primary = seen
        want = {
            "role": "slave", "master_host": "127.0.0.1", "master_port": str(self.primary.port), "master_link_status": "up", "master_sync_in_progress": "0",
            "slave_read_only": "1", "slave_priority": "100", "replica_announced": "1", "connected_slaves": "0", "master_failover_state": "no-failover",
            "slave_read_repl_offset": info["slave_repl_offset"],
        }
        self.assertEqual({name: info.get(name) for name in want}, want)
        self.assertNotIn("master_link_down_since_seconds", info)
        self.assertEqual(list(info)[:6], ["role", "master_host", "master_port", "master_link_status", "master_last_io_seconds_ago", "master_sync_in_progress"])
        self.assertIn(int(info["master_last_io_seconds_ago"]), range(SECONDS_MAX))
        self.assertRegex(of_primary["slave0"], rf"^ip=127\.0\.0\.1,port={follower.port},state=online,offset=\d+,lag=[01]$")
        if not FOLLOWER_IS_OURS:
            self.assertEqual(info["master_replid"], of_primary["master_replid"])
        role = client("ROLE")
        self.assertEqual(role[:4], [b"slave", b"127.0.0.1", self.primary.port, b"connected"])
        self.assertGreaterEqual(role[4], int(info["slave_repl_offset"]))
        self.assertEqual(len(role), 5)
        # The primary is a client of its replica.
        listed = client("CLIENT", "LIST", "TYPE", "master").decode()
        if not FOLLOWER_IS_OURS:
            self.assertIn(" flags=M ", listed)
        self.assertNotIn(" flags=M ", client("CLIENT", "LIST", "TYPE", "normal").decode())
        self.primary.end()
        wait_until(lambda: client.info()["master_link_status"] == "down", "the link is down")
        info = client.info()
        self.assertEqual((info["role"], info["master_sync_in_progress"], info["master_last_io_seconds_ago"]), ("slave", "0", "-1"))
        self.assertIn(int(info["master_link_down_since_seconds"]), range(SECONDS_MAX))
        role = client("ROLE")
        self.assertEqual((role[:3], role[4]), ([b"slave", b"127.0.0.1", self.primary.port], -1))
        self.assertIn(role[3], (b"connect", b"connecting"))

    def test_settings(self):
        client = self.connect(self.alone())
        self.assertEqual([client("CONFIG", "GET", name) for name in ("replicaof", "slaveof")], [[b"replicaof", b""], [b"slaveof", b""]])
        self.assertEqual(client("REPLICAOF", "127.0.0.1", self.primary.port), "OK")
        whom = f"127.0.0.1 {self.primary.port}".encode()
        self.assertEqual([client("CONFIG", "GET", name) for name in ("replicaof", "slaveof")], [[b"replicaof", whom], [b"slaveof", whom]])
        immutable = "ERR CONFIG SET failed (possibly related to argument 'replicaof') - can't set immutable config"
        self.assertEqual(str(client.reply("CONFIG", "SET", "replicaof", "127.0.0.1 1")), immutable)
        client("CONFIG", "SET", "masterauth", "pw", "masteruser", "u")
        self.assertEqual([client("CONFIG", "GET", name)[1] for name in ("masterauth", "masteruser")], [b"pw", b"u"])

    def test_what_is_refused(self):
        client = self.connect(self.follower())
        for name in ("REPLICAOF", "SLAVEOF"):
            for words, want in [
                ("127.0.0.1 x", "ERR Invalid master port"), ("127.0.0.1 65536", "ERR Invalid master port"), ("127.0.0.1 -1", "ERR Invalid master port"),
                ("127.0.0.1", f"ERR wrong number of arguments for '{name.lower()}' command"), ("", f"ERR wrong number of arguments for '{name.lower()}' command"),
                ("127.0.0.1 1 2", f"ERR wrong number of arguments for '{name.lower()}' command"),
                (f"127.0.0.1 {self.primary.port}", "OK Already connected to specified master"),
            ]:
                self.assertEqual(str(client.reply(name, *words.split())), want, words)
        self.assertRegex(str(client.reply("EVAL", "return redis.call('replicaof', 'no', 'one')", 0)), "^ERR This Redis command is not allowed from script")
        self.assertEqual(client.info()["role"], "slave")
        self.check_wait(1)

    @unittest.skipUnless(FOLLOWER_IS_OURS, "Redis' files are not TOML")
    def test_configuration_files(self):
        follower = self.alone()
        with Client(follower.port) as client:
            self.assertIsInstance(client.reply("CONFIG", "REWRITE"), Refused)
        path = f"{follower.directory.name}/expresslane.toml"
        with open(path, "w") as file:
            file.write("[serve]\n# kept as it is\nmaxclients = 500\n")
        with self.stack.enter_context(Follower(None, "--config", path)) as own, Client(own.port) as client:
            client("REPLICAOF", "127.0.0.1", self.primary.port)
            client("CONFIG", "REWRITE")
            with open(path) as file:
                text = file.read()
            self.assertIn(f'replicaof = "127.0.0.1 {self.primary.port}"', text)
            self.assertIn("# kept as it is\nmaxclients = 500\n", text)
        with Follower(None, "--config", path) as again, Client(again.port) as client:
            check_same(self.primary, again)
            client("REPLICAOF", "NO", "ONE")
            client("CONFIG", "REWRITE")
        with Follower(None, "--config", path) as again, Client(again.port) as client:
            self.assertEqual(client.info()["role"], "master")


class Switching(WithFollower):
    def test_one_that_is_cut_off_goes_on_where_it_was(self):
        # Writers write more than a MiB before a replica is there again.
        self.client("CONFIG", "SET", "repl-backlog-size", 64 << 20)
        follower = self.follower()
        self.wait_for_online(1)
        before = self.client.info("stats")
        with RedisWriter(self.primary.port, 40) as writer:
            for _ in range(2):
                number = self.client("CLIENT", "LIST", "TYPE", "replica").split()[0].decode().removeprefix("id=")
                self.assertEqual(self.client("CLIENT", "KILL", "TYPE", "replica"), 1)
                count = writer.done_count
                wait_until(lambda: writer.done_count > count + 100, "a writer writes")
                self.wait_for_another(number)
        self.check_wait(1)
        check_same(self.primary, follower)
        after = self.client.info("stats")
        self.assertEqual([int(after[name]) - int(before[name]) for name in ("sync_full", "sync_partial_ok")], [0, 2])

    def test_one_that_was_away_for_long_begins_anew(self):
        follower = self.follower()
        self.wait_for_online(1)
        full = int(self.client.info("stats")["sync_full"])
        follower.pause()
        self.assertEqual(self.client("CLIENT", "KILL", "TYPE", "replica"), 1)
        # The backlog is 1 MiB.
        self.client.replies([("SET", f"k:{number}", "x" * 100_000) for number in range(30)])
        self.client("INCR", "n")
        follower.resume()
        check_same(self.primary, follower)
        self.assertEqual(int(self.client.info("stats")["sync_full"]), full + 1)

    def test_a_primary_that_begins_anew_is_followed_anew(self):
        follower = self.follower()
        self.client("MSET", "old", 1, "k", "old")
        self.check_wait(1)
        self.primary.process.kill()
        self.primary.process.wait()
        client = self.connect(follower)
        wait_until(lambda: client.info()["master_link_status"] == "down", "the link is down")
        self.assertEqual(client("MGET", "old", "k"), [b"1", b"old"])
        with redis_primary(port=self.primary.port) as again, Client(again.port) as writer:
            writer("SET", "k", "new")
            # It may have come between the start and the write.
            check_same(again, follower)
            wait_until(lambda: replicas_online(writer) == 1, "it is there")
            self.assertEqual((client("MGET", "old", "k"), writer.info("stats")["sync_full"]), ([None, b"new"], "1"))

    def test_no_one_another_and_nobody(self):
        self.client("SET", "k", "one's")
        self.client("SET", "only with one", 1)
        other = self.stack.enter_context(redis_primary())
        with Client(other.port) as client:
            client("SET", "k", "other's")
        for name in ("REPLICAOF", "SLAVEOF"):
            follower = self.follower()
            client = self.connect(follower)
            old = client.info()["master_replid"]
            # To nobody: what is there stays, and may be changed.
            self.assertEqual(client(name, "no", "oNe"), "OK")
            info = client.info()
            self.assertEqual((info["role"], client("ROLE")[0], client("GET", "k")), ("master", b"master", b"one's"))
            self.assertNotIn("master_host", info)
            self.assertNotIn("master_link_status", info)
            if not FOLLOWER_IS_OURS:
                self.assertNotEqual(info["master_replid"], old)
            self.assertEqual([client("SET", "own", 1), client("INCR", "own"), client(name, "NO", "ONE")], ["OK", 2, "OK"])
            wait_until(lambda: self.client.info()["connected_slaves"] == "0", "the primary knows")
            # To another, and back.
            self.assertEqual(client(name, "127.0.0.1", other.port), "OK")
            check_same(other, follower)
            self.assertEqual(client("EXISTS", "own", "only with one"), 0)
            self.assertEqual(client(name, "127.0.0.1", self.primary.port), "OK")
            check_same(self.primary, follower)
            with Client(other.port) as of_other:
                wait_until(lambda: of_other.info()["connected_slaves"] == "0", "the other knows")
            # To where nobody is.
            nobody = free_port()
            self.assertEqual(client(name, "127.0.0.1", nobody), "OK")
            wait_until(lambda: client.info()["master_link_status"] == "down", "the link is down")
            self.assertEqual((client.info()["role"], client.info()["master_port"], client("GET", "k")), ("slave", str(nobody), b"one's"))
            role = client("ROLE")
            self.assertEqual((role[:3], role[4]), ([b"slave", b"127.0.0.1", nobody], -1))
            self.assertIn(role[3], (b"connect", b"connecting"))
            self.assertEqual(str(client.reply("SET", "k", "w")), READONLY)
            self.assertEqual(client(name, "127.0.0.1", nobody), "OK Already connected to specified master")
            # Somebody comes there.
            with redis_primary(port=nobody) as late:
                check_same(late, follower)
                self.assertEqual(client("DBSIZE"), 0)
            follower.end()

    def test_a_replica_of_oneself_harms_nobody(self):
        follower = self.alone()
        client = self.connect(follower)
        client("SET", "k", "v")
        client.reply("REPLICAOF", "127.0.0.1", follower.port)
        self.assertEqual(client("PING"), "PONG")
        client("REPLICAOF", "127.0.0.1", self.primary.port)
        check_same(self.primary, follower)

    def test_as_sentinel_says_it(self):
        follower = self.alone()
        client, other, listener = self.connect(follower), self.connect(follower), self.connect(follower)
        other("PING")
        listener("SUBSCRIBE", "c")
        sentinels = [("MULTI",), ("SLAVEOF", "127.0.0.1", self.primary.port), ("CONFIG", "REWRITE"), ("CLIENT", "KILL", "TYPE", "normal"),
                     ("CLIENT", "KILL", "TYPE", "pubsub"), ("EXEC",)]
        for whom in (("127.0.0.1", self.primary.port), ("NO", "ONE")):
            sentinels[1] = ("SLAVEOF", *whom)
            replies = client.replies(sentinels)
            self.assertEqual(replies[:5], ["OK"] + ["QUEUED"] * 4)
            # There is no file to write.
            self.assertEqual(replies[-1][0], "OK")
            self.assertIsInstance(replies[-1][1], Refused)
            # Another that has gone may not be gone over there.
            self.assertGreaterEqual(replies[-1][2], 1)
            self.assertEqual(replies[-1][3], 1)
            self.assertEqual((other.to_the_end(), listener.to_the_end()), (b"", b""))
            other, listener = self.connect(follower), self.connect(follower)
            # Be it that it loads.
            other.reply("PING")
            listener("SUBSCRIBE", "c")
            if whom[0] != "NO":
                check_same(self.primary, follower)
                self.client("SET", "k", "v")
                self.check_wait(1)
        self.assertEqual((client("GET", "k"), client("SET", "k", "w"), client.info()["role"]), (b"v", "OK", "master"))


class Passwords(WithFollower):
    def test_one_password(self):
        self.client("SET", "k", "v")
        self.client("CONFIG", "SET", "requirepass", "pw")
        right = self.follower("--masterauth", "pw")
        wrong, none = self.follower("--masterauth", "wrong", is_up=False), self.follower(is_up=False)
        clients = [self.connect(server) for server in (wrong, none)]
        time.sleep(0.3)
        for client in clients:
            info = client.info()
            self.assertEqual((info["role"], info["master_link_status"], client("DBSIZE")), ("slave", "down", 0))
        self.assertEqual(self.connect(right)("GET", "k"), b"v")
        self.assertEqual(self.client.info()["connected_slaves"], "1")
        for client, server in zip(clients, (wrong, none)):
            self.assertEqual(client("CONFIG", "SET", "masterauth", "pw"), "OK")
            server.wait_until_up()
            self.assertEqual(client("GET", "k"), b"v")

    def test_a_user_and_a_password(self):
        self.client("SET", "k", "v")
        self.client("ACL", "SETUSER", "follower", "on", ">secret", "+psync", "+replconf", "+ping")
        self.client("ACL", "SETUSER", "default", "resetpass", ">other")
        right = self.follower("--masteruser", "follower", "--masterauth", "secret")
        self.assertEqual(self.connect(right)("GET", "k"), b"v")
        self.assertIn(" user=follower ", self.client("CLIENT", "LIST", "TYPE", "replica").decode())
        wrong = self.follower("--masteruser", "nosuch", "--masterauth", "secret", is_up=False)
        client = self.connect(wrong)
        time.sleep(0.3)
        self.assertEqual(client.info()["master_link_status"], "down")
        client("CONFIG", "SET", "masteruser", "follower")
        wrong.wait_until_up()
        self.check_wait(2)
        values = [self.connect(server)("GET", "waited-for") for server in (right, wrong)]
        self.assertEqual(values, [self.client("GET", "waited-for")] * 2)

    def test_a_replica_has_a_password_of_its_own(self):
        follower = self.follower("--requirepass", "pw", is_up=False)
        self.wait_for_online(1)
        self.client("SET", "k", "v")
        self.check_wait(1)
        client = self.connect(follower)
        self.assertEqual(str(client.reply("GET", "k")), "NOAUTH Authentication required.")
        client("AUTH", "pw")
        self.assertEqual(client("GET", "k"), b"v")


class Alone(WithFollower):
    """What a replica's own settings say is for its own clients."""

    def test_its_primary_may_do_what_its_clients_may_not(self):
        follower = self.alone()
        client = self.connect(follower)
        client("ACL", "SETUSER", "owner", "on", "nopass", "~*", "&*", "+@all")
        client("AUTH", "owner", "x")
        client("ACL", "SETUSER", "default", "-@all", "+ping")
        self.client("MSET", "k", "v", "l", "w")
        client("REPLICAOF", "127.0.0.1", self.primary.port)
        wait_until(lambda: client.info()["master_link_status"] == "up", lambda: f"it follows; it said:\n{follower.tail()}")
        self.client.replies([("MULTI",), ("SET", "k", 1), ("RENAME", "l", "m"), ("EXEC",), ("SWAPDB", 0, 1), ("BITOP", "NOT", "n", "k"),
                             ("SWAPDB", 0, 1), ("FLUSHDB",), ("FUNCTION", "FLUSH"), ("MSET", "a", 1, "b", 2), ("COPY", "a", "c"), ("SET", "last", "x")])
        self.check_wait(1)
        self.assertEqual(int(self.client.info("stats")["sync_full"]), 1)
        client("ACL", "SETUSER", "default", "+@all")
        check_same(self.primary, follower)

    @unittest.skipIf(not FOLLOWER_IS_OURS, "Redis takes long strings from nobody but its primary, too, but its limit is another one")
    def test_strings_are_as_long_as_they_are_over_there(self):
        self.client("SET", "long", "x" * (3 << 20))
        follower = self.alone("--proto-max-bulk-len", "1mb", "--client-query-buffer-limit", "1mb")
        client = self.connect(follower)
        client("REPLICAOF", "127.0.0.1", self.primary.port)
        follower.wait_until_up()
        self.client("SET", "longer", "y" * (5 << 20))
        self.client("APPEND", "longer", "z" * (2 << 20))
        self.client("SETRANGE", "long", 4 << 20, "end")
        # Together they are longer than a command or a MULTI of its own clients may be.
        self.client.replies([("MULTI",), *(("SET", f"of many:{number}", "v" * 300_000) for number in range(8)), ("EXEC",)])
        self.check_wait(1)
        self.assertEqual(int(self.client.info("stats")["sync_full"]), 1)
        check_same(self.primary, follower)
        client("REPLICAOF", "NO", "ONE")
        self.assertIn("exceeds maximum", str(client.reply("APPEND", "long", "x")))


if __name__ == "__main__":
    unittest.main()

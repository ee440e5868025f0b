"""Users and what they may do: as redis-py's users set them, over a restart, and beside Debian's redis-server 7.0, reply for reply."""

import contextlib
import pathlib
import socket
import tempfile
import unittest

import redis

from restartable import Restartable, settings_file
from servers import Server, expresslane_command, redis_command

SECONDS_MAX = 10
# Who says what, in this order: `a` is the default user until it says otherwise, and so is `b`.
TALKS = [
    ["a ACL WHOAMI", "a ACL SETUSER u on >pw ~k* %R~r* &c* +@all -@dangerous -incr", "a ACL LIST", "a ACL USERS", "b AUTH u no", "b AUTH u pw",
     "b ACL WHOAMI", "b SET k 1", "b SET r 1", "b GET r", "b GET z", "b MGET k k1 r", "b MGET k z", "b INCR k", "b FLUSHALL", "b COPY k r",
     "b COPY r k", "b PUBLISH c x", "b PUBLISH d x", "b SUBSCRIBE d", "b PSUBSCRIBE c*", "b PUNSUBSCRIBE", "b PSUBSCRIBE c", "b BITOP AND k r z",
     "b OBJECT ENCODING z", "b MEMORY USAGE z", "b CLIENT LIST", "b CLIENT ID x", "b NOSUCH", "b GET", "b SET k v GET", "b SET r v GET", "b WATCH z",
     "b ACL LIST", "b RESET", "b ACL WHOAMI", "a ACL DELUSER u u nosuch", "b AUTH u pw"],
    ["a ACL SETUSER u on nopass +multi +exec +discard +set +eval +get ~k", "b AUTH u any", "b MULTI", "b SET k 1", "b SET z 1", "b EXEC", "b MULTI",
     "b SET k 2", "b GET k", "a ACL SETUSER u -get", "b EXEC", "b GET k", "b MULTI", "b INCR k", "b DISCARD", "a ACL SETUSER u -exec", "b MULTI",
     "b SET k 3", "b EXEC", "b SET k 4", "b EVAL return(redis.call('set','k',5)) 0", "b EVAL return(redis.pcall('get','k')) 0",
     "b EVAL return(redis.pcall('set','z',5)) 0", "b EVAL return(redis.pcall('set',KEYS[1],5)) 1 z", "a ACL LOG 100", "a ACL LOG RESET", "a ACL LOG",
     "a ACL DELUSER u"],
    ["a ACL SETUSER u reset", "a ACL GETUSER u", "a ACL SETUSER u (+get ~a) ( %W~b +set ) &x", "a ACL GETUSER u", "a ACL LIST",
     "a ACL SETUSER u clearselectors #30c952fab122c3f9759f02a6d95c3758b246b4fee239957b2d4fee46e26170c4", "a ACL LIST", "a ACL SETUSER u <pw",
     "a ACL SETUSER u <pw", "a ACL SETUSER u +select|0 +config -config|set", "a ACL SETUSER u bogus", "a ACL SETUSER u +nosuch",
     "a ACL SETUSER u +config|get|x", "a ACL SETUSER u (+get", "a ACL SETUSER u )", "a ACL SETUSER u allkeys ~x", "a ACL SETUSER u allchannels &x",
     "a ACL SETUSER u %~x", "a ACL SETUSER u !12", "a ACL SETUSER u #12", "a ACL SETUSER u ~*", "a ACL GETUSER u", "a ACL GETUSER nosuch",
     "a ACL DRYRUN u SELECT 0", "a ACL DRYRUN u SELECT 1", "a ACL DRYRUN u CONFIG GET x", "a ACL DRYRUN u GET k", "a ACL DRYRUN u CONFIG",
     "a ACL DRYRUN nosuch GET", "a ACL DRYRUN u NOSUCH", "a ACL DELUSER default", "a ACL DELUSER u"],
    ["a ACL", "a ACL NOSUCH", "a ACL WHOAMI x", "a ACL CAT nosuch", "a ACL CAT a b", "a ACL CAT", "a ACL CAT transaction", "a ACL GENPASS 0",
     "a ACL GENPASS x", "a ACL GENPASS 4097", "a ACL LOG x", "a ACL LOG 1 2", "a ACL LOAD", "a ACL SAVE", "a ACL LOAD x", "a ACL SETUSER", "a ACL GETUSER",
     "a ACL DRYRUN u", "a AUTH x", "a AUTH default x", "a AUTH a b c", "a CLIENT KILL USER nosuch", "a CONFIG SET requirepass pw", "a ACL GETUSER default",
     "a AUTH no", "a AUTH pw", "a CONFIG SET requirepass ", "a ACL LIST"],
    ["a ACL SETUSER default -@all +get +acl resetkeys ~k", "b SET k 1", "b GET k", "b GET z", "a ACL SETUSER default +@all allkeys", "b SET k 1", "b DEL k"],
]
# What names the process or the moment, and the order of a table that is hashed anew each time.
PRIVATE = {"client-info", "age-seconds"}


def read(stream):
    """A reply of RESP2: redis-py's connections don't outlive an error like WRONGPASS."""
    line = stream.readline()[:-2].decode()
    kind, rest = line[:1], line[1:]
    if kind == "*":
        return [read(stream) for _ in range(int(rest))] if rest != "-1" else None
    if kind == "$":
        return stream.read(int(rest) + 2)[:-2].decode() if rest != "-1" else None
    return line


def plain(reply):
    """A reply as it is compared: rules about commands as sets of words, and nothing private."""
    if isinstance(reply, list):
        if "client-info" in reply:
            reply = [value for name, value in zip(reply[::2], reply[1::2]) if name not in PRIVATE]
        return [plain(item) for item in reply]
    if isinstance(reply, str) and "@all" in reply:
        return sorted(reply.split(" "))
    return reply


def talk(port, steps):
    with contextlib.ExitStack() as stack:
        clients = {name: stack.enter_context(socket.create_connection(("127.0.0.1", port), SECONDS_MAX)) for name in "ab"}
        streams = {name: stack.enter_context(client.makefile("rb")) for name, client in clients.items()}
        replies = []
        for step in steps:
            name, *words = step.split(" ")
            clients[name].sendall(b"".join([b"*%d\r\n" % len(words), *(b"$%d\r\n%s\r\n" % (len(word), word.encode()) for word in words)]))
            reply = plain(read(streams[name]))
            # Commands of a category come in the order of that table.
            replies.append((step, sorted(reply) if step.startswith("a ACL CAT ") and isinstance(reply, list) else reply))
        return replies


class BesideRedis(unittest.TestCase):
    maxDiff = None

    def test_the_same_is_answered(self):
        with contextlib.ExitStack() as stack:
            theirs = stack.enter_context(Server("redis", redis_command))
            ours = [stack.enter_context(Server("expresslane", expresslane_command(lanes=lanes))) for lanes in (1, 3)]
            for steps in TALKS:
                want = talk(theirs.port, steps)
                for side in ours:
                    self.assertEqual(want, talk(side.port, steps))


class RedisPy(unittest.TestCase):
    def test_users_outlive_the_server_in_a_file(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "users.acl")
            path.write_text("user default on >root ~* &* +@all\nuser alice on >pw ~a:* +@read +@write\n")
            with Restartable(3, ("--aclfile", str(path))) as own:
                with redis.Redis(port=own.port) as stranger, self.assertRaises(redis.AuthenticationError):
                    stranger.ping()
                self.grow(own.port)
                own.restart()
                with redis.Redis(port=own.port, username="bob", password="new", decode_responses=True) as bob:
                    self.assertEqual(bob.acl_whoami(), "bob")
                    self.assertIsNone(bob.get("b:1"))
                    with self.assertRaises(redis.exceptions.NoPermissionError):
                        bob.set("b:1", "x")
            self.assertEqual([line.split()[1] for line in path.read_text().splitlines()], ["alice", "bob", "default"])
            self.assertNotIn("root", path.read_text())

    def grow(self, port):
        """Makes another user, and writes all into their file."""
        with contextlib.ExitStack() as stack:
            connect = lambda name, password: stack.enter_context(  # noqa: E731
                redis.Redis(port=port, username=name, password=password, decode_responses=True))
            root, alice = connect("default", "root"), connect("alice", "pw")
            self.assertEqual(alice.mset({f"a:{number}": number for number in range(1000)}), True)
            with self.assertRaises(redis.exceptions.NoPermissionError):
                alice.mset({**{f"a:{number}": number for number in range(1000)}, "b:1": 1})
            self.assertEqual(root.dbsize(), 1000)
            pipeline = alice.pipeline(transaction=False)
            for number in range(200):
                pipeline.get(f"a:{number}")
                pipeline.get(f"b:{number}")
            replies = pipeline.execute(raise_on_error=False)
            self.assertEqual(replies[::2], [str(number) for number in range(200)])
            self.assertTrue(all(isinstance(reply, redis.exceptions.NoPermissionError) for reply in replies[1::2]))
            self.assertTrue(root.acl_setuser("bob", enabled=True, passwords=["+new"], keys=["b:*"], categories=["+@read"], commands=["+acl|whoami"]))
            self.assertEqual(root.acl_getuser("bob")["keys"], ["~b:*"])
            self.assertEqual(root.acl_log(count=1)[0]["username"], "alice")
            self.assertTrue(root.acl_save())

    def test_users_stand_among_the_settings(self):
        with settings_file('[serve]\nuser = ["alice on >pw ~a:* +@all", "default on >root ~* &* +@all"]\n') as file:
            with Restartable(2, ("--config", file.name)) as own:
                with redis.Redis(port=own.port, username="alice", password="pw") as alice:
                    self.assertTrue(alice.set("a:1", "x"))
                with redis.Redis(port=own.port, password="root") as root:
                    root.acl_setuser("carol", enabled=True, nopass=True, commands=["+ping"])
                    self.assertTrue(root.config_rewrite())
                own.restart()
                with redis.Redis(port=own.port, username="carol", password="any") as carol:
                    self.assertTrue(carol.ping())

    def test_lanes_are_one_cluster_of_users(self):
        with Restartable(3) as own:
            with redis.Redis(port=own.port) as root:
                root.acl_setuser("alice", enabled=True, passwords=["+pw"], keys=["a:*"], commands=["+get", "+set", "+cluster", "+command", "+ping"])
            cluster = redis.RedisCluster(host="127.0.0.1", port=own.lane_ports()[0], username="alice", password="pw")
            with contextlib.closing(cluster):
                for number in range(100):
                    self.assertTrue(cluster.set(f"a:{number}", number))
                    with self.assertRaises(redis.exceptions.NoPermissionError):
                        cluster.get(f"b:{number}")

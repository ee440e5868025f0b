"""Client tracking: by redis-py's client-side cache as its users call it, and by two connections of RESP2."""

import time
import unittest

import redis
from redis.cache import CacheConfig
from redis.connection import CacheProxyConnection

from run import server

# redis-py keeps nothing of servers that say to be older than 7.4, though they can all that it needs for that.
CacheProxyConnection.MIN_ALLOWED_VERSION = "7.0.0"
SECONDS_MAX = 10
# On two lanes some of these are forwarded, whichever lane a connection has.
KEYS = [f"tracked:{number}" for number in range(20)]


def wait_until(what, holds):
    """Waits until it is so."""
    end = time.monotonic() + SECONDS_MAX
    while not holds():
        if time.monotonic() > end:
            raise AssertionError(f"not within {SECONDS_MAX} s: {what}")
        time.sleep(0.01)


class Tracking(unittest.TestCase):
    def setUp(self):
        self.port = server().port
        self.other = redis.Redis(port=self.port, decode_responses=True)
        self.addCleanup(self.other.close)
        self.other.flushall()

    def cached(self):
        client = redis.Redis(port=self.port, protocol=3, decode_responses=True, cache_config=CacheConfig())
        self.addCleanup(client.close)
        return client

    def calls(self):
        return self.other.info("commandstats").get("cmdstat_get", {"calls": 0})["calls"]

    def test_a_cache_answers_until_the_key_changes(self):
        client = self.cached()
        for key in KEYS:
            self.other.set(key, "one")
        for key in KEYS:
            self.assertEqual(client.get(key), "one")
        before = self.calls()
        for _ in range(5):
            for key in KEYS:
                self.assertEqual(client.get(key), "one")
        self.assertEqual(self.calls(), before, "kept values are not asked for")
        for number, key in enumerate(KEYS):
            # Changed, gone, and given an end that comes.
            (lambda: self.other.set(key, "two"), lambda: self.other.delete(key), lambda: self.other.pexpire(key, 50))[number % 3]()
        for number, key in enumerate(KEYS):
            want = ("two", None, None)[number % 3]
            wait_until(f"{key} is {want}", lambda: client.get(key) == want)

    def test_what_it_changes_itself_and_everything_at_once(self):
        client = self.cached()
        for key in KEYS:
            self.assertIsNone(client.get(key))
            client.set(key, "mine")
            wait_until(f"{key} is its own", lambda: client.get(key) == "mine")
        self.assertEqual(client.mget(KEYS), ["mine"] * len(KEYS))
        self.other.flushall()
        wait_until("nothing is left", lambda: client.mget(KEYS) == [None] * len(KEYS) and client.get(KEYS[0]) is None)

    def test_many_clients_with_caches_agree_in_the_end(self):
        clients = [self.cached() for _ in range(6)]
        for turn in range(30):
            for number, key in enumerate(KEYS[:6]):
                clients[(turn + number) % 6].set(key, f"{turn}")
                for client in clients:
                    client.get(key)
        for client in clients:
            for key in KEYS[:6]:
                wait_until(f"{key} is the last", lambda: client.get(key) == "29")

    def test_a_connection_that_listens_gets_the_invalidations_of_another(self):
        plain = redis.Redis(port=self.port, protocol=2, decode_responses=True)
        self.addCleanup(plain.close)
        listener = plain.pubsub()
        self.addCleanup(listener.close)
        listener.subscribe("__redis__:invalidate")
        self.assertEqual(listener.get_message(timeout=SECONDS_MAX)["type"], "subscribe")
        named = next(client["id"] for client in self.other.client_list() if client["sub"] == "1")
        reader = redis.Redis(port=self.port, protocol=2, single_connection_client=True, decode_responses=True)
        self.addCleanup(reader.close)
        reader.client_tracking_on(clientid=int(named), noloop=True)
        self.assertEqual(reader.client_getredir(), int(named))
        for key in KEYS:
            reader.get(key)
            reader.set(key, "own")
            reader.get(key)
            self.other.incrby(key + ":n", 1)
            self.other.set(key, "other")
            message = listener.get_message(timeout=SECONDS_MAX)
            self.assertEqual((message["channel"], message["data"]), ("__redis__:invalidate", [key]))
        reader.client_tracking_off()
        self.assertEqual(reader.client_getredir(), -1)
        reader.get(KEYS[0])
        self.other.set(KEYS[0], "unheard")
        self.assertIsNone(listener.get_message(timeout=0.2))


if __name__ == "__main__":
    unittest.main()

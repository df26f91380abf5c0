"""What can be asked for. Times are in milliseconds; a lease of 0 means none, and then a lock stays until its release."""

import random
import time

import redis

# How long a lock is kept while it counts.
COUNT_LEASE = 20000


def connect(address):
    host, port = address.rsplit(":", 1)
    return redis.Redis(host=host, port=int(port))


class Locks:
    """What one thread holds."""

    def __init__(self, client):
        self.client = client
        self.held = {}

    def perform(self, verb, *args):
        verbs = {
            "lock": self.lock,
            "unlock": self.unlock,
            "extend": self.extend,
            "value": self.value,
            "count": self.count,
        }
        if verb not in verbs:
            raise ValueError(f"nobody knows {verb} here")
        return verbs[verb](*args)

    def lock(self, name, lease, wait):
        """Whether it was got."""
        lock = self.client.lock(name, timeout=int(lease) / 1000 or None)
        if not lock.acquire(blocking_timeout=int(wait) / 1000):
            return "false"
        self.held[name] = lock
        return "true"

    def unlock(self, name):
        self.held[name].release()

    def extend(self, name, lease):
        self.held[name].extend(int(lease) / 1000, replace_ttl=True)

    def value(self, name):
        return self.held[name].local.token.decode()

    def count(self, name, key, times):
        """Adds 1 to the number under the key by reading it and writing it back: nothing protects it but the lock."""
        lock = self.client.lock(name, timeout=COUNT_LEASE / 1000)
        for _ in range(int(times)):
            with lock:
                before = self.client.get(key)
                # Two at once would hardly miss each other.
                time.sleep(0.002)
                self.client.set(key, int(before or 0) + 1)
            # Others have their turn.
            time.sleep(random.uniform(0, 0.03))
        return times

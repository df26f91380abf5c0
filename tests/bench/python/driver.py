"""python-redis-lock as a peer, steered line by line, as tests/bench/src/client says.

A request is `ID THREAD VERB ARGS…`, its answer `ID ok VALUE` or `ID error CLASS MESSAGE`. Each is done in a thread of its
own. The command line names the server as HOST:PORT. The first line out is the answer to a request 0, which is to connect;
the end of the input ends the process.
"""

import collections
import math
import os
import sys
import threading
import time

import redis
import redis_lock

# A wait's bucket is round(ln µs × 50).
BUCKETS = 50
# As long as the leases of the others.
EXPIRE = 30
OUTPUT = threading.Lock()


def say(line):
    with OUTPUT:
        print(" ".join(line.split()), flush=True)


def answer(request_id, work):
    """Whether it went well."""
    try:
        value = work()
        say(f"{request_id} ok {'' if value is None else value}")
        return True
    except Exception as wrong:
        say(f"{request_id} error {type(wrong).__name__} {wrong}")
        return False


def thread(work):
    threading.Thread(target=work, daemon=True).start()


def sleep(micros):
    if micros > 0:
        time.sleep(micros / 1e6)


class Bench:
    def __init__(self, client):
        self.client = client
        self.held = []
        self.handed = []

    def gate(self, name, renewed=False):
        return redis_lock.Lock(self.client, name, expire=EXPIRE, auto_renewal=renewed)

    def turns(self, _kind, name, scope, tasks, millis, hold, pause):
        """With hold and pause in µs."""
        begin = time.monotonic_ns()
        end = begin + int(millis) * 1_000_000
        waits, failures = [collections.Counter() for _ in range(int(tasks))], []

        def loop(i):
            try:
                gate = self.gate(name + str(i) if scope == "own" else name)
                # At least one: on a busy machine a thread may begin when the time is over.
                while not waits[i] or time.monotonic_ns() < end:
                    asked = time.monotonic_ns()
                    gate.acquire()
                    waits[i][round(math.log(max(1, (time.monotonic_ns() - asked) / 1e3)) * BUCKETS)] += 1
                    sleep(int(hold))
                    gate.release()
                    sleep(int(pause))
            except Exception as wrong:
                failures.append(wrong)

        threads = [threading.Thread(target=loop, args=(i,)) for i in range(int(tasks))]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
        if failures:
            raise failures[0]
        took = time.monotonic_ns() - begin
        counts = [",".join(f"{bucket}:{n}" for bucket, n in task.items()) for task in waits]
        return f"{took} {';'.join(counts)}"

    def hold(self, _kind, name, n):
        for i in range(int(n)):
            gate = self.gate(name + str(i), renewed=True)
            gate.acquire()
            self.held.append(gate)

    def free(self):
        while self.held:
            self.held.pop().release()

    def wait(self, _kind, name, n, hold):
        """So many threads begin to wait; each enters once, stays for so many µs, and leaves."""
        self.handed = []

        def waiter():
            gate = self.gate(name)
            gate.acquire()
            granted = time.monotonic_ns()
            sleep(int(hold))
            self.handed.append(f"{granted}:{time.monotonic_ns()}")
            gate.release()

        for _ in range(int(n)):
            thread(waiter)

    def waited(self):
        return ",".join(self.handed)


def main():
    host, port = sys.argv[1].rsplit(":", 1)
    # A connection for each thread, which may wait for as long as it takes.
    client = redis.StrictRedis(host=host, port=int(port), max_connections=1 << 20, socket_timeout=None)
    if not answer("0", lambda: client.ping() and None):
        os._exit(1)
    bench = Bench(client)
    for line in sys.stdin:
        request_id, _, verb, *words = line.split()
        perform = getattr(bench, verb.removeprefix("bench."))
        thread(lambda i=request_id, perform=perform, words=words: answer(i, lambda: perform(*words)))
    os._exit(0)


main()

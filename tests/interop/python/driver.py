"""A redis-py client steered line by line.

A request is `ID THREAD VERB ARGS…`, its answer `ID ok VALUE` or `ID error CLASS MESSAGE`, in the order in which they are
done. Requests of one THREAD are done one after the other on one thread of that name, and what a thread has locked is
its own. The command line names the server as HOST:PORT. The first line out is the answer to a request 0, which is to
connect; the end of the input ends the process.
"""

import os
import queue
import sys
import threading

from locks import Locks, connect

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


def work(requests, client):
    locks = Locks(client)
    while True:
        request_id, words = requests.get()
        answer(request_id, lambda: locks.perform(*words))


def main():
    client = connect(*sys.argv[1:])
    if not answer("0", lambda: client.ping() and None):
        os._exit(1)
    threads = {}
    for line in sys.stdin:
        request_id, thread, *words = line.split()
        if thread not in threads:
            threads[thread] = queue.SimpleQueue()
            threading.Thread(target=work, args=(threads[thread], client), daemon=True).start()
        threads[thread].put((request_id, words))
    # Whoever steers this has gone: what is held is left to its lease, as after a crash.
    os._exit(0)


main()

"use strict";

const { setTimeout: sleep } = require("timers/promises");

const Redis = require("ioredis");
const { default: Redlock, ExecutionError } = require("redlock");

// The middle of node-redlock's own delay between two tries.
const DELAY = 200;

// How long a lock is kept while it counts.
const COUNT_LEASE = 20000;

async function connect(addresses) {
  const clients = addresses.map((address) => {
    const [host, port] = address.split(":");
    // Refused at once where nobody is: the first command tells.
    return new Redis({ host, port: Number(port), lazyConnect: true, maxRetriesPerRequest: 1 });
  });
  for (const client of clients) {
    // Whatever happens to a connection, its commands tell.
    client.on("error", () => {});
    await client.connect();
  }
  return { redlock: new Redlock(clients), first: clients[0] };
}

/** What one thread holds. */
class Locks {
  constructor({ redlock, first }) {
    this.redlock = redlock;
    this.first = first;
    this.held = new Map();
  }

  async perform([verb, ...args]) {
    switch (verb) {
      case "lock":
        return this.lock(args[0], Number(args[1]), Math.floor(Number(args[2]) / DELAY));
      case "unlock":
        return this.unlock(args[0]);
      case "extend":
        return this.extend(args[0], Number(args[1]));
      case "value":
        return this.of(args[0]).value;
      case "count":
        return this.count(args[0], args[1], Number(args[2]));
      default:
        throw new Error(`nobody knows ${verb} here`);
    }
  }

  of(name) {
    const lock = this.held.get(name);
    if (lock === undefined) {
      throw new Error(`${name} was never locked here`);
    }
    return lock;
  }

  /** Whether it was got, with so many tries after the first. */
  async lock(name, lease, retryCount) {
    try {
      this.held.set(name, await this.redlock.acquire([name], lease, { retryCount }));
      return true;
    } catch (error) {
      if (error instanceof ExecutionError && (await isTaken(error))) {
        return false;
      }
      throw error;
    }
  }

  /** It releases with as many tries as it acquires with, and what is not there does not come back. */
  async unlock(name) {
    await this.redlock.release(this.of(name), { retryCount: 0 });
  }

  async extend(name, lease) {
    this.held.set(name, await this.redlock.extend(this.of(name), lease, { retryCount: 0 }));
  }

  /** Adds 1 to the number under the key, by reading it and writing it back: nothing protects it but the lock. */
  async count(name, key, n) {
    for (let i = 0; i < n; i++) {
      // What it got of a minority stays between its own tries, and votes against it in the next one. Another
      // contender and it could keep each other out so until the leases end: each try is the last one.
      while (!(await this.lock(name, COUNT_LEASE, 0))) {
        await sleep(20 + 60 * Math.random());
      }
      const before = await this.first.get(key);
      // Two at once would hardly miss each other.
      await sleep(2);
      await this.first.set(key, Number(before ?? 0) + 1);
      await this.unlock(name);
      // Others have their turn.
      await sleep(30 * Math.random());
    }
    return n;
  }
}

/** Whether somebody else has it, and not all votes failed for another reason. */
async function isTaken(error) {
  const last = await error.attempts[error.attempts.length - 1];
  return [...last.votesAgainst.values()].some((against) => against.name === "ResourceLockedError");
}

module.exports = { connect, Locks };

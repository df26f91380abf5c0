// A node-redlock client steered line by line.
//
// A request is `ID THREAD VERB ARGS…`, its answer `ID ok VALUE` or `ID error CLASS MESSAGE`, in the order in which they
// are done. Requests of one THREAD are done one after the other, and what a thread has locked is its own. The command
// line names the servers, each as HOST:PORT. The first line out is the answer to a request 0, which is to connect; the
// end of the input ends the process.
"use strict";

const readline = require("readline");
const { connect, Locks } = require("./locks");

function say(id, value) {
  process.stdout.write(`${id} ok ${value ?? ""}`.trimEnd() + "\n");
}

function complain(id, error) {
  process.stdout.write(`${id} error ${error.name} ${error.message}`.replace(/[\r\n]+/g, " ") + "\n");
}

async function main() {
  let servers;
  try {
    servers = await connect(process.argv.slice(2));
  } catch (error) {
    complain("0", error);
    process.exit(1);
  }
  say("0");
  const threads = new Map();
  const lines = readline.createInterface({ input: process.stdin });
  lines.on("line", (line) => {
    const [id, name, ...words] = line.split(" ");
    const thread = threads.get(name) ?? { locks: new Locks(servers), last: Promise.resolve() };
    threads.set(name, thread);
    thread.last = thread.last
      .then(() => thread.locks.perform(words))
      .then((value) => say(id, value), (error) => complain(id, error));
  });
  // Whoever steers this has gone: what is held is left to its lease, as after a crash.
  lines.on("close", () => process.exit(0));
}

main();

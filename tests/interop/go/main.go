// A redsync client steered line by line.
//
// A request is `ID THREAD VERB ARGS…`, its answer `ID ok VALUE` or `ID error CLASS MESSAGE`, in the order in which they
// are done. Requests of one THREAD are done one after the other, and what a thread has locked is its own. The command
// line names the servers, each as HOST:PORT. The first line out is the answer to a request 0, which is to connect; the
// end of the input ends the process.
package main

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"sync"
)

var output sync.Mutex

func main() {
	servers, err := connect(os.Args[1:])
	say("0", "", err)
	if err != nil {
		os.Exit(1)
	}
	threads := map[string]chan<- request{}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		words := strings.Split(lines.Text(), " ")
		thread, known := threads[words[1]]
		if !known {
			thread = work(newLocks(servers))
			threads[words[1]] = thread
		}
		thread <- request{words[0], words[2:]}
	}
	// Whoever steers this has gone: what is held is left to its lease, as after a crash.
}

type request struct {
	id    string
	words []string
}

// A goroutine that does the requests of one thread.
func work(locks *locks) chan<- request {
	requests := make(chan request, 64)
	go func() {
		for next := range requests {
			value, err := locks.perform(next.words)
			say(next.id, value, err)
		}
	}()
	return requests
}

func say(id, value string, err error) {
	line := id + " ok " + value
	if err != nil {
		line = id + " error " + class(err) + " " + err.Error()
	}
	output.Lock()
	defer output.Unlock()
	fmt.Println(strings.TrimSpace(strings.ReplaceAll(line, "\n", " ")))
}

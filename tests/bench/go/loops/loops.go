// Package loops steers a library line by line, as tests/bench/src/client says.
//
// A request is `ID THREAD VERB ARGS…`, its answer `ID ok VALUE` or `ID error CLASS MESSAGE`. Each is done in a goroutine
// of its own. The first line out is the answer to a request 0, which is to connect; the end of the input ends the
// process.
package loops

import (
	"bufio"
	"errors"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// A wait's bucket is round(ln µs × 50).
const buckets = 50

// Gate is a lock of one name, used by one goroutine.
type Gate interface {
	Enter() error
	Leave() error
}

// Library is what is measured.
type Library interface {
	Gate(kind, name string) (Gate, error)
}

var output sync.Mutex

// Serve does what the standard input asks for.
func Serve(connect func(addresses []string) (Library, error)) {
	library, err := connect(os.Args[1:])
	say("0", "", err)
	if err != nil {
		os.Exit(1)
	}
	all := &process{library: library}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		words := strings.Split(lines.Text(), " ")
		go func() {
			value, err := all.perform(words[2], words[3:])
			say(words[0], value, err)
		}()
	}
}

func say(id, value string, err error) {
	line := id + " ok " + value
	if err != nil {
		line = id + " error Error " + err.Error()
	}
	output.Lock()
	defer output.Unlock()
	fmt.Println(strings.TrimSpace(strings.ReplaceAll(line, "\n", " ")))
}

type process struct {
	library Library
	held    []Gate
	mutex   sync.Mutex
	handed  []string
}

func (p *process) perform(verb string, words []string) (string, error) {
	switch {
	case verb == "bench.turns" && len(words) == 7:
		return p.turns(words)
	case verb == "bench.hold" && len(words) == 3:
		return "", p.hold(words)
	case verb == "bench.free":
		for _, gate := range p.held {
			if err := gate.Leave(); err != nil {
				return "", err
			}
		}
		p.held = nil
		return "", nil
	case verb == "bench.wait" && len(words) == 4:
		return "", p.wait(words)
	case verb == "bench.waited":
		p.mutex.Lock()
		defer p.mutex.Unlock()
		return strings.Join(p.handed, ","), nil
	}
	return "", fmt.Errorf("no verb %s of %d words", verb, len(words))
}

// KIND NAME own|shared TASKS MILLIS HOLD PAUSE, with hold and pause in µs.
func (p *process) turns(words []string) (string, error) {
	numbers, err := numbers(words[3:])
	if err != nil {
		return "", err
	}
	tasks, hold, pause := int(numbers[0]), micros(numbers[2]), micros(numbers[3])
	begin := time.Now()
	end := begin.Add(time.Duration(numbers[1]) * time.Millisecond)
	loops := make([]loop, tasks)
	var all sync.WaitGroup
	for i := range loops {
		name := words[1]
		if words[2] == "own" {
			name += strconv.Itoa(i)
		}
		all.Go(func() {
			gate, err := p.library.Gate(words[0], name)
			if err != nil {
				loops[i].err = err
				return
			}
			loops[i].run(gate, end, hold, pause)
		})
	}
	all.Wait()
	took := time.Since(begin).Nanoseconds()
	waits := []string{}
	for _, one := range loops {
		if one.err != nil {
			return "", one.err
		}
		counts := []string{}
		for bucket, n := range one.waits {
			counts = append(counts, fmt.Sprintf("%d:%d", bucket, n))
		}
		waits = append(waits, strings.Join(counts, ","))
	}
	return fmt.Sprintf("%d %s", took, strings.Join(waits, ";")), nil
}

type loop struct {
	waits map[int]int
	err   error
}

func (l *loop) run(gate Gate, end time.Time, hold, pause time.Duration) {
	l.waits = map[int]int{}
	// At least one: on a busy machine a goroutine may begin when the time is over.
	for first := true; first || time.Now().Before(end); first = false {
		asked := time.Now()
		if l.err = gate.Enter(); l.err != nil {
			return
		}
		wait := math.Max(1, float64(time.Since(asked).Nanoseconds())/1e3)
		l.waits[int(math.Round(math.Log(wait)*buckets))]++
		sleep(hold)
		if l.err = gate.Leave(); l.err != nil {
			return
		}
		sleep(pause)
	}
}

// KIND NAME N
func (p *process) hold(words []string) error {
	numbers, err := numbers(words[2:])
	if err != nil {
		return err
	}
	for i := range numbers[0] {
		gate, err := p.library.Gate(words[0], words[1]+strconv.FormatInt(i, 10))
		if err != nil {
			return err
		}
		if err := gate.Enter(); err != nil {
			return err
		}
		p.held = append(p.held, gate)
	}
	return nil
}

// KIND NAME N HOLD: so many goroutines begin to wait; each enters once, stays for so many µs, and leaves.
func (p *process) wait(words []string) error {
	numbers, err := numbers(words[2:])
	if err != nil {
		return err
	}
	p.mutex.Lock()
	p.handed = nil
	p.mutex.Unlock()
	for range numbers[0] {
		gate, err := p.library.Gate(words[0], words[1])
		if err != nil {
			return err
		}
		go func() {
			if gate.Enter() != nil {
				return
			}
			granted := now()
			sleep(micros(numbers[1]))
			p.mutex.Lock()
			p.handed = append(p.handed, fmt.Sprintf("%d:%d", granted, now()))
			p.mutex.Unlock()
			_ = gate.Leave()
		}()
	}
	return nil
}

// Of the clock that all processes share.
func now() int64 {
	var time unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &time) != nil {
		return 0
	}
	return time.Nano()
}

func numbers(words []string) ([]int64, error) {
	all := []int64{}
	for _, word := range words {
		number, err := strconv.ParseInt(word, 10, 64)
		if err != nil {
			return nil, errors.New(word + " is no number")
		}
		all = append(all, number)
	}
	return all, nil
}

func micros(n int64) time.Duration {
	return time.Duration(n) * time.Microsecond
}

func sleep(span time.Duration) {
	if span > 0 {
		time.Sleep(span)
	}
}

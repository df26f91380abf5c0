package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/go-redsync/redsync/v4"
	pool "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

// The middle of redsync's own delay between two tries.
const delay = 150 * time.Millisecond

// How long a lock is kept while it counts.
const countLease = 20 * time.Second

// Forever, for a test.
const patience = 10 * time.Minute

type servers struct {
	redsync *redsync.Redsync
	first   *redis.Client
}

func connect(addresses []string) (*servers, error) {
	if len(addresses) == 0 {
		return nil, errors.New("no servers")
	}
	redis.SetLogger(quiet{})
	all := &servers{}
	pools := []pool.Pool{}
	for _, address := range addresses {
		client := redis.NewClient(&redis.Options{Addr: address})
		if err := client.Ping(context.Background()).Err(); err != nil {
			return nil, err
		}
		if all.first == nil {
			all.first = client
		}
		pools = append(pools, goredis.NewPool(client))
	}
	all.redsync = redsync.New(pools...)
	return all, nil
}

// What the client has to say about servers that are gone, errors say too.
type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

// What one thread holds.
type locks struct {
	servers *servers
	held    map[string]*redsync.Mutex
}

func newLocks(servers *servers) *locks {
	return &locks{servers, map[string]*redsync.Mutex{}}
}

func (l *locks) perform(words []string) (string, error) {
	verb, args := words[0], words[1:]
	switch {
	case verb == "lock" && len(args) == 3:
		lease, wait := millis(args[1]), millis(args[2])
		got, err := l.lock(args[0], lease, wait)
		return strconv.FormatBool(got), err
	case verb == "unlock" && len(args) == 1:
		return "", l.unlock(args[0])
	case verb == "extend" && len(args) == 2:
		return "", l.extend(args[0], millis(args[1]))
	case verb == "value" && len(args) == 1:
		mutex, err := l.of(args[0])
		if err != nil {
			return "", err
		}
		return mutex.Value(), nil
	case verb == "count" && len(args) == 3:
		return args[2], l.count(args[0], args[1], args[2])
	}
	return "", fmt.Errorf("nobody knows %q here", words)
}

func millis(word string) time.Duration {
	n, err := strconv.Atoi(word)
	if err != nil {
		panic(err)
	}
	return time.Duration(n) * time.Millisecond
}

func (l *locks) of(name string) (*redsync.Mutex, error) {
	if mutex, held := l.held[name]; held {
		return mutex, nil
	}
	return nil, fmt.Errorf("%s was never locked here", name)
}

// Whether it was got. Waiting is limited by the number of tries: redsync cleans up after itself only while its context
// lives, and so not after one that ended.
func (l *locks) lock(name string, lease, wait time.Duration) (bool, error) {
	tries := 1 + int(wait/delay)
	mutex := l.servers.redsync.NewMutex(name, redsync.WithExpiry(lease), redsync.WithTries(tries))
	err := mutex.Lock()
	var taken *redsync.ErrTaken
	var takenHere *redsync.ErrNodeTaken
	switch {
	case err == nil:
		l.held[name] = mutex
		return true, nil
	case errors.As(err, &taken), errors.As(err, &takenHere), errors.Is(err, redsync.ErrFailed):
		return false, nil
	}
	return false, err
}

func (l *locks) unlock(name string) error {
	mutex, err := l.of(name)
	if err != nil {
		return err
	}
	_, err = mutex.Unlock()
	return err
}

// A mutex extends by the time that it was made with, so it is another one of the same value.
func (l *locks) extend(name string, lease time.Duration) error {
	mutex, err := l.of(name)
	if err != nil {
		return err
	}
	again := l.servers.redsync.NewMutex(name, redsync.WithExpiry(lease), redsync.WithValue(mutex.Value()))
	if _, err = again.Extend(); err == nil {
		l.held[name] = again
	}
	return err
}

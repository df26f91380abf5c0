package main

import (
	"context"
	"errors"
	"math/rand"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// Adds 1 to the number under the key, n times, by reading it and writing it back: nothing protects it but the lock.
func (l *locks) count(name, key, n string) error {
	times, err := strconv.Atoi(n)
	if err != nil {
		return err
	}
	for range times {
		got, err := l.lock(name, countLease, patience)
		if err != nil {
			return err
		}
		if !got {
			return errors.New("the lock was never free")
		}
		if err := l.addOne(key); err != nil {
			return err
		}
		if err := l.unlock(name); err != nil {
			return err
		}
		// Others have their turn.
		time.Sleep(time.Duration(rand.Intn(30)) * time.Millisecond)
	}
	return nil
}

func (l *locks) addOne(key string) error {
	ctx := context.Background()
	before, err := l.servers.first.Get(ctx, key).Int()
	if err != nil && !errors.Is(err, redis.Nil) {
		return err
	}
	// Two at once would hardly miss each other.
	time.Sleep(2 * time.Millisecond)
	return l.servers.first.Set(ctx, key, before+1, 0).Err()
}

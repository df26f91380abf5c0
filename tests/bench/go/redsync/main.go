// Redsync as a peer. The command line names the servers, each as HOST:PORT.
package main

import (
	"bench/loops"
	"context"
	"math"

	"github.com/go-redsync/redsync/v4"
	pool "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

func main() {
	loops.Serve(connect)
}

type library struct {
	redsync *redsync.Redsync
}

func connect(addresses []string) (loops.Library, error) {
	pools := []pool.Pool{}
	for _, address := range addresses {
		client := redis.NewClient(&redis.Options{Addr: address})
		if err := client.Ping(context.Background()).Err(); err != nil {
			return nil, err
		}
		pools = append(pools, goredis.NewPool(client))
	}
	return &library{redsync.New(pools...)}, nil
}

// All as redsync has it, but for the tries: a waiter waits until it is its turn.
func (l *library) Gate(_, name string) (loops.Gate, error) {
	return &gate{l.redsync.NewMutex(name, redsync.WithTries(math.MaxInt32))}, nil
}

type gate struct {
	mutex *redsync.Mutex
}

func (g *gate) Enter() error {
	return g.mutex.Lock()
}

func (g *gate) Leave() error {
	_, err := g.mutex.Unlock()
	return err
}

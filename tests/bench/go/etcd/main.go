// etcd's own mutex as a peer. The command line names the servers, each as HOST:PORT.
package main

import (
	"bench/loops"
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
)

func main() {
	loops.Serve(connect)
}

type library struct {
	client *clientv3.Client
}

func connect(addresses []string) (loops.Library, error) {
	client, err := clientv3.New(clientv3.Config{Endpoints: addresses})
	if err != nil {
		return nil, err
	}
	_, err = client.Get(context.Background(), "ready")
	return &library{client}, err
}

// A session each: an owner is known by its session.
func (l *library) Gate(_, name string) (loops.Gate, error) {
	session, err := concurrency.NewSession(l.client)
	if err != nil {
		return nil, err
	}
	return &gate{concurrency.NewMutex(session, "/"+name)}, nil
}

type gate struct {
	mutex *concurrency.Mutex
}

func (g *gate) Enter() error {
	return g.mutex.Lock(context.Background())
}

func (g *gate) Leave() error {
	return g.mutex.Unlock(context.Background())
}

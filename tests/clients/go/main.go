// A client program on go-redis. ../restartable.py says how it talks with the test that runs it.
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"time"

	"github.com/redis/go-redis/v9"
)

const keysCount = 2000

var (
	ctx   = context.Background()
	input = bufio.NewReader(os.Stdin)
)

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func same[T comparable](got, want T) {
	if got != want {
		panic(fmt.Sprintf("got %v, want %v", got, want))
	}
}

// Asks the test for something and waits until it is done.
func ask(what string) {
	fmt.Println(what)
	must(input.ReadString('\n'))
}

func connect(port string, protocol int) *redis.Client {
	return redis.NewClient(&redis.Options{Addr: "127.0.0.1:" + port, Protocol: protocol})
}

func values(client *redis.Client, protocol int) {
	must(client.FlushAll(ctx).Result())
	same(must(client.Set(ctx, "a", "one two", time.Minute).Result()), "OK")
	same(must(client.Get(ctx, "a").Result()), "one two")
	same(must(client.TTL(ctx, "a").Result()), time.Minute)
	_, err := client.Get(ctx, "missing").Result()
	same(err, error(redis.Nil))
	hello := must(client.Do(ctx, "HELLO", protocol).Result())
	// RESP3 has maps; RESP2 gives the same as a list.
	_, isMap := hello.(map[interface{}]interface{})
	same(isMap, protocol == 3)
}

func pipeline(client *redis.Client) {
	counts := make([]*redis.IntCmd, keysCount)
	must(client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for n := range counts {
			counts[n] = pipe.IncrBy(ctx, fmt.Sprintf("p:%d", n), int64(n))
		}
		return nil
	}))
	for n, count := range counts {
		same(count.Val(), int64(n))
	}
}

func transaction(client *redis.Client) {
	var moved *redis.StringCmd
	must(client.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
		pipe.MSet(ctx, "t:1", "1", "t:2", "2", "t:3", "3")
		pipe.Rename(ctx, "t:1", "t:renamed")
		moved = pipe.Get(ctx, "t:renamed")
		return nil
	}))
	same(moved.Val(), "1")
	err := client.Watch(ctx, func(tx *redis.Tx) error {
		must(client.Set(ctx, "w", "other", 0).Result())
		_, err := tx.TxPipelined(ctx, func(pipe redis.Pipeliner) error { return pipe.Set(ctx, "w", "mine", 0).Err() })
		return err
	}, "w")
	same(err, error(redis.TxFailedErr))
	same(must(client.Get(ctx, "w").Result()), "other")
}

func cluster(lanePort string) {
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"127.0.0.1:" + lanePort}})
	defer client.Close()
	must(client.Exists(ctx, "discovery").Result())
	ask("begin")
	for n := range keysCount {
		key := fmt.Sprintf("c:%d", n)
		must(client.Set(ctx, key, n, 0).Result())
		same(must(client.Get(ctx, key).Int()), n)
	}
	must(client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for n := range keysCount {
			pipe.Incr(ctx, fmt.Sprintf("c:%d", n))
		}
		return nil
	}))
	ask("end")
}

func main() {
	sharedPort, lanePort := os.Args[1], os.Args[2]
	for _, protocol := range []int{2, 3} {
		client := connect(sharedPort, protocol)
		values(client, protocol)
		fmt.Printf("values RESP%d\n", protocol)
		pipeline(client)
		fmt.Printf("pipeline RESP%d\n", protocol)
		transaction(client)
		fmt.Printf("transaction RESP%d\n", protocol)
		client.Close()
	}
	cluster(lanePort)
	fmt.Println("cluster")
	client := connect(sharedPort, 3)
	must(client.Set(ctx, "before", 1, 0).Result())
	ask("restart")
	same(must(client.Exists(ctx, "before").Result()), 0)
	fmt.Println("restart survived")
}

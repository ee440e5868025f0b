// A client program on go-redis. ../../restartable.py says how it talks with the test that runs it.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	. "clients/talk"
	"github.com/redis/go-redis/v9"
)

const keysCount = 2000

var ctx = context.Background()

func connect(port string, protocol int) *redis.Client {
	return redis.NewClient(&redis.Options{Addr: "127.0.0.1:" + port, Protocol: protocol})
}

func values(client *redis.Client, protocol int) {
	Must(client.FlushAll(ctx).Result())
	Same(Must(client.Set(ctx, "a", "one two", time.Minute).Result()), "OK")
	Same(Must(client.Get(ctx, "a").Result()), "one two")
	Same(Must(client.TTL(ctx, "a").Result()), time.Minute)
	_, err := client.Get(ctx, "missing").Result()
	Same(err, error(redis.Nil))
	hello := Must(client.Do(ctx, "HELLO", protocol).Result())
	// RESP3 has maps; RESP2 gives the same as a list.
	_, isMap := hello.(map[interface{}]interface{})
	Same(isMap, protocol == 3)
}

func pipeline(client *redis.Client) {
	counts := make([]*redis.IntCmd, keysCount)
	Must(client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for n := range counts {
			counts[n] = pipe.IncrBy(ctx, fmt.Sprintf("p:%d", n), int64(n))
		}
		return nil
	}))
	for n, count := range counts {
		Same(count.Val(), int64(n))
	}
}

func transaction(client *redis.Client) {
	var moved *redis.StringCmd
	Must(client.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
		pipe.MSet(ctx, "t:1", "1", "t:2", "2", "t:3", "3")
		pipe.Rename(ctx, "t:1", "t:renamed")
		moved = pipe.Get(ctx, "t:renamed")
		return nil
	}))
	Same(moved.Val(), "1")
	err := client.Watch(ctx, func(tx *redis.Tx) error {
		Must(client.Set(ctx, "w", "other", 0).Result())
		_, err := tx.TxPipelined(ctx, func(pipe redis.Pipeliner) error { return pipe.Set(ctx, "w", "mine", 0).Err() })
		return err
	}, "w")
	Same(err, error(redis.TxFailedErr))
	Same(Must(client.Get(ctx, "w").Result()), "other")
}

func script(client *redis.Client) {
	add := redis.NewScript("return redis.call('incrby', KEYS[1], ARGV[1])")
	Must(client.ScriptFlush(ctx).Result())
	Must(client.Del(ctx, "s").Result())
	for n := 1; n <= 100; n++ {
		Same(Must(add.Run(ctx, client, []string{"s"}, 2).Int()), 2*n)
	}
}

func pubsub(client *redis.Client) {
	listener := client.Subscribe(ctx, "c:0", "c:1", "c:2")
	defer listener.Close()
	Must(listener.Receive(ctx))
	Same(listener.PSubscribe(ctx, "d:*"), error(nil))
	messages := listener.Channel()
	for Must(client.PubSubNumPat(ctx).Result()) == 0 {
		time.Sleep(time.Millisecond)
	}
	for n := range 300 {
		Same(Must(client.Publish(ctx, fmt.Sprintf("c:%d", n%3), n).Result()), 1)
		Same((<-messages).Payload, fmt.Sprint(n))
	}
	Must(client.Publish(ctx, "d:x", "last").Result())
	Same((<-messages).Pattern, "d:*")
}

func cluster(lanePort string) {
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"127.0.0.1:" + lanePort}})
	defer client.Close()
	Must(client.Exists(ctx, "discovery").Result())
	Ask("begin")
	for n := range keysCount {
		key := fmt.Sprintf("c:%d", n)
		Must(client.Set(ctx, key, n, 0).Result())
		Same(Must(client.Get(ctx, key).Int()), n)
	}
	Must(client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for n := range keysCount {
			pipe.Incr(ctx, fmt.Sprintf("c:%d", n))
		}
		return nil
	}))
	Ask("end")
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
		script(client)
		fmt.Printf("script RESP%d\n", protocol)
		pubsub(client)
		fmt.Printf("pubsub RESP%d\n", protocol)
		client.Close()
	}
	cluster(lanePort)
	fmt.Println("cluster")
	client := connect(sharedPort, 3)
	Must(client.Set(ctx, "before", 1, 0).Result())
	Ask("restart")
	Same(Must(client.Exists(ctx, "before").Result()), 0)
	fmt.Println("restart survived")
}

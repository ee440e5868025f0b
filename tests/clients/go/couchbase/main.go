// A client program on gocb, the SDK of Couchbase for Go. ../../restartable.py says how it talks with the test that runs it.
package main

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	. "clients/talk"
	"github.com/couchbase/gocb/v2"
)

const (
	keysCount    = 2000
	valueSizeMax = 20 << 20
	// What a request may take on a busy machine.
	patience = time.Minute
	// For requests that the SDK repeats until its time is over.
	haste = 500 * time.Millisecond
)

type document = map[string]any

// Gives up where the SDK would try again.
type failFast struct{}

func (failFast) RetryAfter(gocb.RetryRequest, gocb.RetryReason) gocb.RetryAction {
	return &gocb.NoRetryRetryAction{}
}

func connect(port, password string) *gocb.Cluster {
	// A node that does not answer is tried again at once, not only after five seconds.
	return Must(gocb.Connect("couchbase://127.0.0.1:"+port+"?server_wait_backoff=100", gocb.ClusterOptions{
		Authenticator:  gocb.PasswordAuthenticator{Username: "any", Password: password},
		TimeoutsConfig: gocb.TimeoutsConfig{ConnectTimeout: patience, KVTimeout: patience},
	}))
}

func ready(cluster *gocb.Cluster) *gocb.Bucket {
	bucket := cluster.Bucket("default")
	Must(0, bucket.WaitUntilReady(patience, &gocb.WaitUntilReadyOptions{ServiceTypes: []gocb.ServiceType{gocb.ServiceTypeKeyValue}}))
	return bucket
}

func failure(_ any, err error) error {
	return err
}

// What a read has found, or the error.
func content[T any](read interface{ Content(any) error }, err error) T {
	var value T
	Must(0, err)
	Must(0, read.Content(&value))
	return value
}

func at[T any](found *gocb.LookupInResult, index uint) T {
	var value T
	Must(0, found.ContentAt(index, &value))
	return value
}

func values(docs *gocb.Collection) {
	first := Must(docs.Insert("a", document{"name": "one"}, nil))
	Fails(failure(docs.Insert("a", 1, nil)), gocb.ErrDocumentExists)
	read := Must(docs.Get("a", nil))
	Same(read.Cas(), first.Cas())
	Same(content[document](read, nil)["name"].(string), "one")
	Fails(failure(docs.Get("missing", nil)), gocb.ErrDocumentNotFound)
	Fails(failure(docs.Replace("missing", 1, nil)), gocb.ErrDocumentNotFound)
	second := Must(docs.Replace("a", "two", &gocb.ReplaceOptions{Cas: first.Cas()}))
	Fails(failure(docs.Replace("a", 3, &gocb.ReplaceOptions{Cas: first.Cas()})), gocb.ErrCasMismatch)
	Fails(failure(docs.Remove("a", &gocb.RemoveOptions{Cas: first.Cas()})), gocb.ErrCasMismatch)
	third := Must(docs.Upsert("a", []int{1, 2}, nil))
	one, two := second.MutationToken(), third.MutationToken()
	Same(one.PartitionID(), two.PartitionID())
	Same(one.PartitionUUID(), two.PartitionUUID())
	Same(one.SequenceNumber() < two.SequenceNumber(), true)
	Same(Must(docs.Exists("a", nil)).Exists(), true)
	Must(docs.Remove("a", &gocb.RemoveOptions{Cas: third.Cas()}))
	Same(Must(docs.Exists("a", nil)).Exists(), false)
	Fails(failure(docs.Remove("a", nil)), gocb.ErrDocumentNotFound)
	Same(content[string](docs.Get(store(docs, strings.Repeat("k", 250), "long"), nil)), "long")
	Same(failure(docs.Upsert(strings.Repeat("k", 251), 1, nil)) != nil, true)
	Same(content[string](docs.GetAnyReplica(store(docs, "copy", "one"), nil)), "one")
	all := Must(docs.GetAllReplicas("copy", nil))
	Same(all.Next().IsReplica(), false)
	Same(all.Next(), nil)
}

func store(docs *gocb.Collection, key string, value any) string {
	Must(docs.Upsert(key, value, nil))
	return key
}

func numbersAndBytes(docs *gocb.Collection) {
	binary := docs.Binary()
	Same(Must(binary.Increment("n", &gocb.IncrementOptions{Initial: 5, Delta: 2})).Content(), 5)
	Same(Must(binary.Increment("n", &gocb.IncrementOptions{Initial: 5, Delta: 2})).Content(), 7)
	Same(Must(binary.Decrement("n", &gocb.DecrementOptions{Initial: -1, Delta: 100})).Content(), 0)
	Same(content[int](docs.Get("n", nil)), 0)
	Fails(failure(binary.Decrement("m", &gocb.DecrementOptions{Initial: -1, Delta: 1})), gocb.ErrDocumentNotFound)
	Fails(failure(binary.Increment(store(docs, "t", "text"), &gocb.IncrementOptions{Delta: 1})), gocb.ErrDeltaInvalid)
	raw := gocb.NewRawBinaryTranscoder()
	first := Must(docs.Upsert("b", []byte("two"), &gocb.UpsertOptions{Transcoder: raw}))
	Must(binary.Append("b", []byte(" three"), nil))
	Must(binary.Prepend("b", []byte("one "), nil))
	Same(string(content[[]byte](docs.Get("b", &gocb.GetOptions{Transcoder: raw}))), "one two three")
	Fails(failure(binary.Append("b", []byte("x"), &gocb.AppendOptions{Cas: first.Cas()})), gocb.ErrCasMismatch)
	Fails(failure(binary.Append("missing", []byte("x"), nil)), gocb.ErrDocumentNotFound)
	for _, size := range []int{0, 1, 100_000, valueSizeMax} {
		value := bytes.Repeat([]byte("v"), size)
		Must(docs.Upsert("large", value, &gocb.UpsertOptions{Transcoder: raw}))
		Same(bytes.Equal(content[[]byte](docs.Get("large", &gocb.GetOptions{Transcoder: raw})), value), true)
	}
	beyond := make([]byte, valueSizeMax+1)
	Fails(failure(docs.Upsert("large", beyond, &gocb.UpsertOptions{Transcoder: raw})), gocb.ErrValueTooLarge)
	Fails(failure(binary.Append("large", []byte("x"), nil)), gocb.ErrValueTooLarge)
	Must(docs.Remove("large", nil))
}

func ends(docs *gocb.Collection) {
	near := func(end time.Time, left time.Duration) {
		Same(time.Until(end) > left-100*time.Second && time.Until(end) < left+100*time.Second, true)
	}
	expiry := func() time.Time {
		return Must(docs.Get("e", &gocb.GetOptions{WithExpiry: true})).ExpiryTime()
	}
	Must(docs.Upsert("e", document{"x": 1}, &gocb.UpsertOptions{Expiry: time.Hour}))
	near(expiry(), time.Hour)
	cas := Must(docs.Get("e", nil)).Cas()
	Same(Must(docs.Touch("e", 2*time.Hour, nil)).Cas() != cas, true)
	near(expiry(), 2*time.Hour)
	Must(docs.Upsert("e", document{"x": 2}, &gocb.UpsertOptions{PreserveExpiry: true}))
	near(expiry(), 2*time.Hour)
	Must(docs.MutateIn("e", []gocb.MutateInSpec{gocb.UpsertSpec("x", 3, nil)}, &gocb.MutateInOptions{PreserveExpiry: true}))
	near(expiry(), 2*time.Hour)
	// More than 30 days are an instant on the wire.
	Same(content[document](docs.GetAndTouch("e", 60*24*time.Hour, nil))["x"].(float64), 3)
	near(expiry(), 60*24*time.Hour)
	Must(docs.Upsert("e", document{"x": 4}, nil))
	Same(expiry().Unix() <= 0, true)
	Fails(failure(docs.Touch("missing", time.Hour, nil)), gocb.ErrDocumentNotFound)
	Must(docs.Upsert("short", 1, &gocb.UpsertOptions{Expiry: time.Second}))
	for deadline := time.Now().Add(patience); Must(docs.Exists("short", nil)).Exists(); time.Sleep(20 * time.Millisecond) {
		Same(time.Now().Before(deadline), true)
	}
}

func locks(docs *gocb.Collection) {
	key := store(docs, "l", 1)
	cas := Must(docs.GetAndLock(key, 30*time.Second, nil)).Cas()
	Fails(failure(docs.GetAndLock(key, time.Second, &gocb.GetAndLockOptions{RetryStrategy: failFast{}})), gocb.ErrDocumentLocked)
	Fails(failure(docs.Upsert(key, 2, &gocb.UpsertOptions{RetryStrategy: failFast{}})), gocb.ErrDocumentLocked)
	Fails(failure(docs.Touch(key, time.Hour, &gocb.TouchOptions{RetryStrategy: failFast{}})), gocb.ErrDocumentLocked)
	Fails(failure(docs.Binary().Append(key, []byte("1"), &gocb.AppendOptions{RetryStrategy: failFast{}})), gocb.ErrDocumentLocked)
	mutation := []gocb.MutateInSpec{gocb.ArrayAppendSpec("", 1, nil)}
	Fails(failure(docs.MutateIn(key, mutation, &gocb.MutateInOptions{RetryStrategy: failFast{}})), gocb.ErrDocumentLocked)
	// Who finds it locked tries again until its own time is over.
	Fails(failure(docs.Remove(key, &gocb.RemoveOptions{Timeout: haste})), gocb.ErrTimeout)
	Same(content[int](docs.Get(key, nil)), 1)
	Fails(docs.Unlock(key, cas+1, nil), gocb.ErrCasMismatch)
	Must(0, docs.Unlock(key, cas, nil))
	Fails(docs.Unlock(key, cas, nil), gocb.ErrDocumentNotLocked)
	Fails(docs.Unlock("missing", cas, nil), gocb.ErrDocumentNotFound)
	cas = Must(docs.GetAndLock(key, 30*time.Second, nil)).Cas()
	Must(docs.Replace(key, 3, &gocb.ReplaceOptions{Cas: cas}))
	Must(docs.Upsert(key, 4, nil))
}

func inside(docs *gocb.Collection) {
	key := store(docs, "s", document{"name": "one", "list": []any{1, document{"deep": true}}, "n": 40, "set": []any{1}})
	found := Must(docs.LookupIn(key, []gocb.LookupInSpec{
		gocb.GetSpec("name", nil), gocb.GetSpec("list[-1].deep", nil), gocb.ExistsSpec("none", nil), gocb.CountSpec("list", nil),
		gocb.GetSpec("", nil),
	}, nil))
	Same(at[string](found, 0), "one")
	Same(at[bool](found, 1), true)
	Same(found.Exists(2), false)
	Same(at[int](found, 3), 2)
	Same(len(at[document](found, 4)), 4)
	var ignored any
	missing := Must(docs.LookupIn(key, []gocb.LookupInSpec{gocb.GetSpec("name.more", nil), gocb.GetSpec("none", nil)}, nil))
	Fails(missing.ContentAt(0, &ignored), gocb.ErrPathMismatch)
	Fails(missing.ContentAt(1, &ignored), gocb.ErrPathNotFound)
	changed := Must(docs.MutateIn(key, []gocb.MutateInSpec{
		gocb.IncrementSpec("n", 2, nil),
		gocb.ArrayAppendSpec("list", []int{3, 4}, &gocb.ArrayAppendSpecOptions{HasMultiple: true}),
		gocb.ArrayPrependSpec("list", 0, nil), gocb.ArrayInsertSpec("list[1]", 0.5, nil), gocb.ArrayAddUniqueSpec("set", 9, nil),
		gocb.InsertSpec("a.b", 1, &gocb.InsertSpecOptions{CreatePath: true}), gocb.ReplaceSpec("name", "two", nil),
		gocb.RemoveSpec("list[-1]", nil), gocb.UpsertSpec("new", nil, nil), gocb.DecrementSpec("n", 1, nil),
	}, nil))
	var number int
	Must(0, changed.ContentAt(0, &number))
	Same(number, 42)
	whole := content[document](docs.Get(key, nil))
	Same(fmt.Sprint(whole), "map[a:map[b:1] list:[0 0.5 1 map[deep:true] 3] n:41 name:two new:<nil> set:[1 9]]")
	Fails(failure(docs.MutateIn(key, []gocb.MutateInSpec{gocb.UpsertSpec("n", 1, nil), gocb.InsertSpec("n", 7, nil)}, nil)), gocb.ErrPathExists)
	Same(content[document](docs.Get(key, nil))["n"].(float64), 41)
	upsert := []gocb.MutateInSpec{gocb.UpsertSpec("x", 1, nil)}
	Fails(failure(docs.MutateIn("made", upsert, nil)), gocb.ErrDocumentNotFound)
	Must(docs.MutateIn("made", upsert, &gocb.MutateInOptions{StoreSemantic: gocb.StoreSemanticsInsert}))
	Fails(failure(docs.MutateIn("made", upsert, &gocb.MutateInOptions{StoreSemantic: gocb.StoreSemanticsInsert})), gocb.ErrDocumentExists)
	Must(docs.MutateIn("made", upsert, &gocb.MutateInOptions{StoreSemantic: gocb.StoreSemanticsUpsert, Cas: 0}))
	// That is what the SDK makes of another CAS here.
	Fails(failure(docs.MutateIn("made", upsert, &gocb.MutateInOptions{Cas: changed.Cas()})), gocb.ErrDocumentExists)
	// Projections and the SDK's lists, maps and queues are made of these.
	projected := content[document](docs.Get(key, &gocb.GetOptions{Project: []string{"name", "a.b"}}))
	Same(fmt.Sprint(projected), "map[a:map[b:1] name:two]")
	list, queue := docs.List("list"), docs.Queue("queue")
	for number := range 3 {
		Must(0, list.Append(number))
		Must(0, queue.Push(number))
	}
	Must(0, list.RemoveAt(1))
	Same(Must(list.Size()), 2)
	Must(0, queue.Pop(&number))
	Same(number, 0)
	Must(0, docs.Map("map").Add("key", "value"))
	Same(Must(docs.Map("map").Exists("key")), true)
}

func limits(cluster *gocb.Cluster, bucket *gocb.Bucket) {
	docs := bucket.DefaultCollection()
	Must(docs.Upsert("d", 1, &gocb.UpsertOptions{DurabilityLevel: gocb.DurabilityLevelMajority}))
	Must(docs.Upsert("d", document{}, nil))
	for _, level := range []gocb.DurabilityLevel{gocb.DurabilityLevelMajorityAndPersistOnMaster, gocb.DurabilityLevelPersistToMajority} {
		err := failure(docs.Upsert("d", 2, &gocb.UpsertOptions{DurabilityLevel: level}))
		Fails(err, gocb.ErrDurabilityLevelNotAvailable)
	}
	other := bucket.Scope("_default").Collection("other")
	Fails(failure(other.Get("d", &gocb.GetOptions{Timeout: haste})), gocb.ErrTimeout)
	Fails(failure(bucket.Scope("shop").Collection("a").Get("d", &gocb.GetOptions{Timeout: haste})), gocb.ErrTimeout)
	Same(content[document](bucket.Scope("_default").Collection("_default").Get("d", nil)) != nil, true)
	Fails(failure(docs.Scan(gocb.RangeScan{}, &gocb.ScanOptions{Timeout: haste})), gocb.ErrFeatureNotAvailable)
	attribute := []gocb.LookupInSpec{gocb.GetSpec("attribute", &gocb.GetSpecOptions{IsXattr: true})}
	Fails(failure(docs.LookupIn("d", attribute, nil)), gocb.ErrUnsupportedOperation)
	Fails(failure(docs.LookupInAnyReplica("d", attribute, nil)), gocb.ErrFeatureNotAvailable)
	Fails(failure(cluster.Query("select 1", nil)), gocb.ErrServiceNotAvailable)
	ping := Must(bucket.Ping(&gocb.PingOptions{ServiceTypes: []gocb.ServiceType{gocb.ServiceTypeKeyValue}}))
	for _, node := range ping.Services[gocb.ServiceTypeKeyValue] {
		Same(node.State, gocb.PingStateOk)
	}
}

// Checks the errors of a row of operations, all of them one after another on their connections without waiting.
func bulk(docs *gocb.Collection, operation func(number int, key string) gocb.BulkOp, result func(gocb.BulkOp) error) []gocb.BulkOp {
	operations := make([]gocb.BulkOp, keysCount)
	for number := range operations {
		operations[number] = operation(number, fmt.Sprintf("many:%d", number))
	}
	for first := 0; first < keysCount; first += 500 {
		Must(0, docs.Do(operations[first:first+500], nil))
	}
	for _, operation := range operations {
		Must(0, result(operation))
	}
	return operations
}

func many(docs *gocb.Collection) {
	bulk(docs, func(number int, key string) gocb.BulkOp { return &gocb.UpsertOp{ID: key, Value: number} },
		func(done gocb.BulkOp) error { return done.(*gocb.UpsertOp).Err })
	got := bulk(docs, func(number int, key string) gocb.BulkOp { return &gocb.GetOp{ID: key} },
		func(done gocb.BulkOp) error { return done.(*gocb.GetOp).Err })
	for number, done := range got {
		Same(content[int](done.(*gocb.GetOp).Result, nil), number)
	}
	bulk(docs, func(number int, key string) gocb.BulkOp { return &gocb.RemoveOp{ID: key} },
		func(done gocb.BulkOp) error { return done.(*gocb.RemoveOp).Err })
}

// Many at once change one document, and no change is lost.
func together(docs *gocb.Collection) {
	store(docs, "shared", document{"n": 0})
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 50 {
				Must(docs.Binary().Increment("counter", &gocb.IncrementOptions{Initial: 1, Delta: 1}))
				Must(docs.MutateIn("shared", []gocb.MutateInSpec{gocb.IncrementSpec("n", 1, nil)}, nil))
			}
		})
	}
	group.Wait()
	Same(content[int](docs.Get("counter", nil)), 400)
	Same(content[document](docs.Get("shared", nil))["n"].(float64), 400)
}

// Under traffic the server comes back with another number of lanes.
func restart(docs *gocb.Collection, lanes string) {
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for number := 0; ; number++ {
			select {
			case <-stop:
				return
			default:
				_, _ = docs.Upsert(fmt.Sprintf("r:%d", number%500), number, &gocb.UpsertOptions{Timeout: haste})
			}
		}
	}()
	Ask("restart " + lanes)
	for deadline := time.Now().Add(patience); failure(docs.Upsert("after", lanes, &gocb.UpsertOptions{Timeout: haste})) != nil; {
		Same(time.Now().Before(deadline), true)
	}
	close(stop)
	<-stopped
	Same(content[string](docs.Get("after", nil)), lanes)
	// The first that fails says that the map is old, and all others know it.
	many(docs)
	Ask("begin")
	many(docs)
	Ask("end")
}

func main() {
	port, password := os.Args[1], os.Args[2]
	stranger := connect(port, "wrong")
	err := stranger.Bucket("default").WaitUntilReady(2*time.Second, &gocb.WaitUntilReadyOptions{RetryStrategy: failFast{}})
	Fails(err, gocb.ErrAuthenticationFailure)
	Must(0, stranger.Close(nil))
	fmt.Println("password")
	cluster := connect(port, password)
	bucket := ready(cluster)
	docs := bucket.DefaultCollection()
	for _, part := range []struct {
		name string
		run  func(*gocb.Collection)
	}{{"values", values}, {"numbers and bytes", numbersAndBytes}, {"ends", ends}, {"locks", locks}, {"inside", inside}, {"together", together}} {
		part.run(docs)
		fmt.Println(part.name)
	}
	limits(cluster, bucket)
	fmt.Println("limits")
	Ask("begin")
	many(docs)
	Ask("end")
	fmt.Println("many")
	restart(docs, os.Args[3])
	fmt.Println("other lanes")
}

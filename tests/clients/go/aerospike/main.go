// A client program on Aerospike's client for Go. ../../restartable.py says how it talks with the test that runs it.
package main

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"time"

	. "clients/talk"
	as "github.com/aerospike/aerospike-client-go/v8"
	"github.com/aerospike/aerospike-client-go/v8/logger"
	"github.com/aerospike/aerospike-client-go/v8/types"
)

const (
	namespace = "test"
	keysCount = 1200
	patience  = time.Minute
)

func connect(port, password string) (*as.Client, as.Error) {
	policy := as.NewClientPolicy()
	if password != "" {
		policy.User, policy.Password = "any", password
	}
	// While requests try a node that has gone, the client looks at no other for as long as this.
	policy.Timeout, policy.TendInterval = 2*time.Second, 100*time.Millisecond
	number := Must(strconv.Atoi(port))
	client, err := as.NewClientWithPolicy(policy, "127.0.0.1", number)
	if err != nil {
		return nil, err
	}
	client.DefaultPolicy.TotalTimeout, client.DefaultPolicy.SocketTimeout = patience, patience
	client.DefaultWritePolicy.TotalTimeout, client.DefaultWritePolicy.SocketTimeout = patience, patience
	// After a restart there are connections in the pool that have ended.
	client.DefaultWritePolicy.MaxRetries = 100
	return client, nil
}

func key(value any) *as.Key {
	return in("demo", value)
}

func in(set string, value any) *as.Key {
	made, err := as.NewKey(namespace, set, value)
	check(err)
	return made
}

// The client's errors are an interface of its own, and one of them that is nothing is an error like any other.
func check(err as.Error) {
	if err != nil {
		panic(err)
	}
}

func got[T any](value T, err as.Error) T {
	check(err)
	return value
}

func code(err as.Error) types.ResultCode {
	if err == nil {
		return types.OK
	}
	var failure *as.AerospikeError
	Same(errors.As(err, &failure), true)
	return failure.ResultCode
}

func refused[T any](_ T, err as.Error) types.ResultCode {
	return code(err)
}

func with(change func(*as.WritePolicy)) *as.WritePolicy {
	policy := as.NewWritePolicy(0, 0)
	policy.TotalTimeout, policy.SocketTimeout = patience, patience
	change(policy)
	return policy
}

func equal(found, wanted any) {
	Same(fmt.Sprint(reflect.DeepEqual(found, wanted), found), fmt.Sprint(true, wanted))
}

func bins(client *as.Client, key *as.Key, names ...string) as.BinMap {
	return got(client.Get(nil, key, names...)).Bins
}

func values(client *as.Client) {
	whole := as.BinMap{"i": -7, "f": 2.5, "s": "text", "b": []byte("\x00bytes"), "t": true, "l": []any{1, "two", []any{3}},
		"m": map[any]any{"a": 1, "b": []any{2}}, "e": "", "i64": int(-1 << 63)}
	for _, name := range []any{"text", 77, []byte("bytes"), ""} {
		check(client.Put(nil, key(name), whole))
		equal(bins(client, key(name)), whole)
	}
	equal(bins(client, key("text"), "s", "none", "t"), as.BinMap{"s": "text", "t": true})
	header := got(client.GetHeader(nil, key("text")))
	Same(header.Generation, 1)
	Same(len(header.Bins), 0)
	Same(got(client.Exists(nil, key("text"))), true)
	Same(got(client.Exists(nil, key("none"))), false)
	Same(refused(client.Get(nil, key("none"))), types.KEY_NOT_FOUND_ERROR)
	// The same key in another set, and in none, is another record.
	Same(got(client.Exists(nil, in("other", "text"))), false)
	check(client.Put(nil, in("", "text"), as.BinMap{"a": 1}))
	check(client.Put(nil, key("text"), as.BinMap{"s": nil}))
	Same(len(bins(client, key("text"))), len(whole)-1)
	Same(got(client.Delete(nil, key("text"))), true)
	Same(got(client.Delete(nil, key("text"))), false)
	equal(bins(client, in("", "text")), as.BinMap{"a": 1})
}

func policies(client *as.Client) {
	exists := func(action as.RecordExistsAction) *as.WritePolicy {
		return with(func(policy *as.WritePolicy) { policy.RecordExistsAction = action })
	}
	k, none := key("policies"), key("no policies")
	check(client.Put(exists(as.CREATE_ONLY), k, as.BinMap{"a": 1}))
	Same(code(client.Put(exists(as.CREATE_ONLY), k, as.BinMap{"a": 2})), types.KEY_EXISTS_ERROR)
	Same(code(client.Put(exists(as.UPDATE_ONLY), none, as.BinMap{"a": 2})), types.KEY_NOT_FOUND_ERROR)
	Same(code(client.Put(exists(as.REPLACE_ONLY), none, as.BinMap{"a": 2})), types.KEY_NOT_FOUND_ERROR)
	check(client.Put(exists(as.UPDATE_ONLY), k, as.BinMap{"b": 2}))
	equal(bins(client, k), as.BinMap{"a": 1, "b": 2})
	check(client.Put(exists(as.REPLACE_ONLY), k, as.BinMap{"c": 3}))
	check(client.Put(exists(as.REPLACE), k, as.BinMap{"d": 4}))
	equal(bins(client, k), as.BinMap{"d": 4})
	generation := func(kind as.GenerationPolicy, number uint32) *as.WritePolicy {
		return with(func(policy *as.WritePolicy) { policy.GenerationPolicy, policy.Generation = kind, number })
	}
	Same(code(client.Put(generation(as.EXPECT_GEN_EQUAL, 3), k, as.BinMap{"e": 5})), types.GENERATION_ERROR)
	check(client.Put(generation(as.EXPECT_GEN_EQUAL, 4), k, as.BinMap{"e": 5}))
	Same(code(client.Put(generation(as.EXPECT_GEN_GT, 5), k, as.BinMap{"f": 6})), types.GENERATION_ERROR)
	check(client.Put(generation(as.EXPECT_GEN_GT, 6), k, as.BinMap{"f": 6}))
	Same(got(client.GetHeader(nil, k)).Generation, 6)
	Same(refused(client.Delete(generation(as.EXPECT_GEN_EQUAL, 1), k)), types.GENERATION_ERROR)
	Same(got(client.Delete(generation(as.EXPECT_GEN_EQUAL, 6), k)), true)
	// The key that was sent once has to be the same when it is sent again.
	send := with(func(policy *as.WritePolicy) { policy.SendKey = true })
	check(client.Put(send, k, as.BinMap{"a": 1}))
	check(client.Put(send, k, as.BinMap{"a": 2}))
	durable := with(func(policy *as.WritePolicy) { policy.DurableDelete = true })
	Same(refused(client.Delete(durable, k)), types.ENTERPRISE_ONLY)
	master := with(func(policy *as.WritePolicy) { policy.CommitLevel = as.COMMIT_MASTER })
	check(client.Put(master, k, as.BinMap{"a": 3}))
	equal(bins(client, k), as.BinMap{"a": 3})
}

// Requests and replies of these sizes are compressed, some of them.
func compression(client *as.Client) {
	write := with(func(policy *as.WritePolicy) { policy.UseCompression = true })
	read, many := as.NewPolicy(), as.NewBatchPolicy()
	read.UseCompression, many.UseCompression = true, true
	sizes := []int{1, 200, 10_000, 60_000, 900_000}
	var all []*as.Key
	for _, size := range sizes {
		k := key(fmt.Sprint("compressed", size))
		bins := as.BinMap{"a": strings.Repeat("x", size), "b": size}
		check(client.Put(write, k, bins))
		equal(got(client.Get(nil, k)).Bins, bins)
		if size == 1 || size > 32_768 {
			equal(got(client.Get(read, k)).Bins, bins)
		} else {
			// Of a single record the client takes the size of what is inside for a header, and of a batch it does not.
			Same(refused(client.Get(read, k)), types.PARSE_ERROR)
		}
		all = append(all, k)
	}
	for number, record := range got(client.BatchGet(many, all)) {
		equal(record.Bins["b"], sizes[number])
	}
	Same(code(client.Put(write, all[0], as.BinMap{"a": strings.Repeat("x", 20_000_000)})), types.RECORD_TOO_BIG)
	Same(refused(client.Get(read, key("no record"))), types.KEY_NOT_FOUND_ERROR)
}

func ends(client *as.Client) {
	ttl := func(seconds uint32) *as.WritePolicy {
		return with(func(policy *as.WritePolicy) { policy.Expiration = seconds })
	}
	k := key("ends")
	left := func(seconds uint32) {
		found := got(client.GetHeader(nil, k)).Expiration
		Same(found <= seconds && found+100 > seconds, true)
	}
	check(client.Put(ttl(1000), k, as.BinMap{"a": 1}))
	left(1000)
	check(client.Touch(ttl(5000), k))
	left(5000)
	check(client.Put(ttl(as.TTLDontUpdate), k, as.BinMap{"a": 2}))
	left(5000)
	check(client.Touch(ttl(as.TTLDontExpire), k))
	Same(got(client.GetHeader(nil, k)).Expiration, as.TTLDontExpire)
	Same(code(client.Touch(nil, key("none"))), types.KEY_NOT_FOUND_ERROR)
	Same(code(client.Put(ttl(10*365*24*3600+1), k, as.BinMap{"a": 3})), types.PARAMETER_ERROR)
	check(client.Put(ttl(1), k, as.BinMap{"a": 3}))
	for deadline := time.Now().Add(patience); got(client.Exists(nil, k)); time.Sleep(20 * time.Millisecond) {
		Same(time.Now().Before(deadline), true)
	}
	check(client.Put(ttl(0), k, as.BinMap{"b": 1}))
	equal(bins(client, k), as.BinMap{"b": 1})
}

func operations(client *as.Client) {
	k := key("operations")
	check(client.Add(nil, k, as.BinMap{"n": 5}))
	check(client.Append(nil, k, as.BinMap{"s": "b"}))
	check(client.Prepend(nil, k, as.BinMap{"s": "a"}))
	done := got(client.Operate(nil, k, as.AddOp(as.NewBin("n", -2)), as.AppendOp(as.NewBin("s", "c")), as.GetOp()))
	equal(done.Bins, as.BinMap{"n": 3, "s": "abc"})
	Same(done.Generation, 4)
	each := with(func(policy *as.WritePolicy) { policy.RespondPerEachOp = true })
	done = got(client.Operate(each, k, as.GetBinOp("n"), as.PutOp(as.NewBin("n", 10)), as.GetBinOp("n"), as.TouchOp()))
	equal(done.Bins, as.BinMap{"n": as.OpResults{3, nil, 10}})
	equal(got(client.Operate(nil, k, as.GetBinOp("n"))).Bins, as.BinMap{"n": 10})
	Same(len(got(client.Operate(nil, k, as.GetHeaderOp())).Bins), 0)
	Same(code(client.Append(nil, k, as.BinMap{"n": "text"})), types.BIN_TYPE_ERROR)
	Same(refused(client.Operate(nil, k, as.AppendOp(as.NewBin("s", "d")), as.AddOp(as.NewBin("s", 1)))), types.BIN_TYPE_ERROR)
	equal(bins(client, k), as.BinMap{"n": 10, "s": "abc"})
	Same(refused(client.Operate(nil, k, as.ListAppendOp("l", 1))), types.UNSUPPORTED_FEATURE)
	Same(refused(client.Operate(nil, key("none"), as.GetOp())), types.KEY_NOT_FOUND_ERROR)
	done = got(client.Operate(nil, k, as.DeleteOp(), as.PutOp(as.NewBin("new", 1)), as.GetOp()))
	equal(bins(client, k), as.BinMap{"new": 1})
	got(client.Operate(nil, k, as.DeleteOp()))
	Same(got(client.Exists(nil, k)), false)
	// Many at once change one record, and no change is lost.
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 50 {
				check(client.Add(nil, k, as.BinMap{"n": 1}))
			}
		})
	}
	group.Wait()
	equal(bins(client, k), as.BinMap{"n": 400})
}

func keys(prefix string, count int) []*as.Key {
	made := make([]*as.Key, count)
	for number := range made {
		made[number] = in(prefix, number)
	}
	return made
}

func batches(client *as.Client) {
	policy := as.NewBatchPolicy()
	policy.TotalTimeout, policy.SocketTimeout = patience, patience
	all := keys("batch", 1000)
	rows := make([]as.BatchRecordIfc, len(all))
	for number, one := range all {
		rows[number] = as.NewBatchWrite(nil, one, as.PutOp(as.NewBin("n", number)), as.PutOp(as.NewBin("text", strings.Repeat("x", number))))
	}
	check(client.BatchOperate(policy, rows))
	for _, row := range rows {
		Same(row.BatchRec().ResultCode, types.OK)
	}
	for number, record := range got(client.BatchGet(policy, all)) {
		Same(record.Bins["n"].(int), number)
		Same(len(record.Bins["text"].(string)), number)
	}
	for number, record := range got(client.BatchGet(policy, all, "n", "none")) {
		equal(record.Bins, as.BinMap{"n": number})
	}
	for number, record := range got(client.BatchGetOperate(policy, all, as.GetBinOp("n"))) {
		equal(record.Bins, as.BinMap{"n": number})
	}
	for _, record := range got(client.BatchGetHeader(policy, all)) {
		Same(record.Generation, 1)
	}
	// All kinds of rows beside one another.
	create := as.NewBatchWritePolicy()
	create.RecordExistsAction = as.CREATE_ONLY
	expected := as.NewBatchDeletePolicy()
	expected.GenerationPolicy, expected.Generation = as.EXPECT_GEN_EQUAL, 9
	mixed := []as.BatchRecordIfc{
		as.NewBatchRead(nil, all[0], []string{"n"}), as.NewBatchWrite(create, all[1], as.PutOp(as.NewBin("n", 0))),
		as.NewBatchWrite(nil, all[2], as.AddOp(as.NewBin("n", 40)), as.GetBinOp("n")), as.NewBatchDelete(nil, all[3]),
		as.NewBatchDelete(expected, all[4]), as.NewBatchRead(nil, key("none"), nil),
		as.NewBatchWrite(nil, all[5], as.AppendOp(as.NewBin("n", "text"))), as.NewBatchReadHeader(nil, all[6]),
		as.NewBatchUDF(nil, all[7], "package", "function"), as.NewBatchRead(nil, all[2], []string{"n"}),
	}
	check(client.BatchOperate(policy, mixed))
	codes := make([]types.ResultCode, len(mixed))
	for number, row := range mixed {
		codes[number] = row.BatchRec().ResultCode
	}
	equal(codes, []types.ResultCode{types.OK, types.KEY_EXISTS_ERROR, types.OK, types.OK, types.GENERATION_ERROR, types.KEY_NOT_FOUND_ERROR,
		types.BIN_TYPE_ERROR, types.OK, types.UNSUPPORTED_FEATURE, types.OK})
	// Large rows, and more than a connection holds.
	large := keys("large", 30)
	for number := range large {
		rows[number] = as.NewBatchWrite(nil, large[number], as.PutOp(as.NewBin("a", make([]byte, 900_000))))
	}
	check(client.BatchOperate(policy, rows[:len(large)]))
	for _, record := range got(client.BatchGet(policy, large)) {
		Same(len(record.Bins["a"].([]byte)), 900_000)
	}
	for _, found := range got(client.BatchDelete(policy, nil, append(all, large...))) {
		Same(found.ResultCode == types.OK || found.ResultCode == types.KEY_NOT_FOUND_ERROR, true)
	}
	for _, found := range got(client.BatchExists(policy, all)) {
		Same(found, false)
	}
}

func count(records *as.Recordset, err as.Error) int {
	check(err)
	count := 0
	for result := range records.Results() {
		check(result.Err)
		count++
	}
	return count
}

func scans(client *as.Client) {
	for number, one := range keys("scanned", 2000) {
		check(client.Put(with(func(policy *as.WritePolicy) { policy.SendKey = true }), one, as.BinMap{"n": number}))
	}
	check(client.Put(nil, in("another", 1), as.BinMap{"n": 1}))
	for _, concurrent := range []int{0, 1, 2} {
		policy := as.NewScanPolicy()
		policy.MaxConcurrentNodes = concurrent
		seen := make(map[int]bool)
		for result := range got(client.ScanAll(policy, namespace, "scanned")).Results() {
			check(result.Err)
			Same(result.Record.Key.Value().GetObject().(int64), int64(result.Record.Bins["n"].(int)))
			Same(seen[result.Record.Bins["n"].(int)], false)
			seen[result.Record.Bins["n"].(int)] = true
		}
		Same(len(seen), 2000)
	}
	policy := as.NewScanPolicy()
	policy.IncludeBinData = false
	for result := range got(client.ScanAll(policy, namespace, "scanned")).Results() {
		check(result.Err)
		Same(len(result.Record.Bins), 0)
	}
	Same(count(client.ScanAll(nil, namespace, "none")), 0)
	// A part of the partitions.
	some := count(client.ScanPartitions(nil, as.NewPartitionFilterByRange(0, 2048), namespace, "scanned"))
	others := count(client.ScanPartitions(nil, as.NewPartitionFilterByRange(2048, 2048), namespace, "scanned"))
	Same(some+others, 2000)
	Same(some > 800 && others > 800, true)
	one := in("scanned", 7)
	Same(count(client.ScanPartitions(nil, as.NewPartitionFilterById(one.PartitionId()), namespace, "scanned")) > 0, true)
	// No more than are wanted.
	for _, limit := range []int64{1, 100, 5000} {
		some := as.NewScanPolicy()
		some.MaxRecords = limit
		Same(count(client.ScanPartitions(some, as.NewPartitionFilterAll(), namespace, "scanned")), min(int(limit), 2000))
	}
	statement := as.NewStatement(namespace, "scanned")
	Same(count(client.Query(nil, statement)), 2000)
	statement.Filter = as.NewEqualFilter("n", 7)
	failed := types.OK
	for result := range got(client.Query(nil, statement)).Results() {
		failed = code(result.Err)
	}
	Same(failed, types.UNSUPPORTED_FEATURE)
	// Two at the same time, and one that is given up.
	var group sync.WaitGroup
	for range 2 {
		group.Go(func() { Same(count(client.ScanAll(nil, namespace, "scanned")), 2000) })
	}
	group.Wait()
	given := got(client.ScanAll(nil, namespace, "scanned"))
	<-given.Results()
	check(given.Close())
	check(client.Truncate(nil, namespace, "scanned", nil))
	Same(count(client.ScanAll(nil, namespace, "scanned")), 0)
	Same(got(client.Exists(nil, in("another", 1))), true)
	now := time.Now()
	Same(code(client.Truncate(nil, namespace, "", &now)), types.PARAMETER_ERROR)
}

func limits(client *as.Client) {
	k := key("limits")
	large := strings.Repeat("x", 900_000)
	check(client.Put(nil, k, as.BinMap{"a": large}))
	check(client.Append(nil, k, as.BinMap{"a": strings.Repeat("y", 100_000)}))
	Same(len(bins(client, k)["a"].(string)), 1_000_000)
	Same(code(client.Put(nil, k, as.BinMap{"b": strings.Repeat("x", 100_000)})), types.RECORD_TOO_BIG)
	check(client.Put(nil, k, as.BinMap{strings.Repeat("b", 15): 1}))
	Same(code(client.Put(nil, k, as.BinMap{strings.Repeat("b", 16): 1})), types.BIN_NAME_TOO_LONG)
	elsewhere := got(as.NewKey("elsewhere", "demo", 1))
	Same(code(client.Put(nil, elsewhere, as.BinMap{"a": 1})), types.INVALID_NAMESPACE)
	transaction := with(func(policy *as.WritePolicy) { policy.Txn = as.NewTxn() })
	Same(code(client.Put(transaction, k, as.BinMap{"a": 1})), types.UNSUPPORTED_FEATURE)
	filtered := as.NewPolicy()
	filtered.FilterExpression = as.ExpEq(as.ExpIntBin("a"), as.ExpIntVal(1))
	Same(refused(client.Get(filtered, k)), types.UNSUPPORTED_FEATURE)
	Same(refused(client.CreateIndex(nil, namespace, "demo", "i", "a", as.NUMERIC)), types.UNSUPPORTED_FEATURE)
	Same(refused(client.QueryExecute(nil, nil, as.NewStatement(namespace, "demo"), as.TouchOp())), types.UNSUPPORTED_FEATURE)
	Same(refused(client.Execute(nil, k, "package", "function")), types.UNSUPPORTED_FEATURE)
	many := as.BinMap{}
	for number := range 1000 {
		many[fmt.Sprint("b", number)] = number
	}
	check(client.Put(nil, key("wide"), many))
	equal(bins(client, key("wide")), many)
	names := make(map[string]bool)
	for _, node := range client.GetNodes() {
		answers := got(node.RequestInfo(as.NewInfoPolicy(), "node", "build", "namespaces"))
		names[answers["node"]] = true
		Same(answers["namespaces"], namespace)
	}
	Same(len(names), len(client.GetNodes()))
}

func many(client *as.Client) {
	for number, one := range keys("many", keysCount) {
		check(client.Put(nil, one, as.BinMap{"n": number}))
		equal(bins(client, one), as.BinMap{"n": number})
	}
	check(client.Truncate(nil, namespace, "many", nil))
}

// Whether the client knows an owner for all of some records.
func reaches(client *as.Client) bool {
	for _, one := range keys("reached", 200) {
		if client.Put(nil, one, as.BinMap{"a": 1}) != nil {
			return false
		}
	}
	return true
}

// Under traffic the server comes back with another number of lanes. No request fails if there are more of them.
func restart(client *as.Client, lanes int) {
	stop, stopped := make(chan struct{}), make(chan struct{})
	hasMore := lanes > len(client.GetNodes())
	patient := with(func(policy *as.WritePolicy) {
		policy.MaxRetries, policy.SleepBetweenRetries = 10_000, 10*time.Millisecond
		if !hasMore {
			// What was for a lane that there is no more is tried there to the end.
			policy.TotalTimeout = time.Second
		}
	})
	go func() {
		defer close(stopped)
		for number := 0; ; number++ {
			select {
			case <-stop:
				return
			default:
				if err := client.Put(patient, in("traffic", number%500), as.BinMap{"n": number}); hasMore {
					check(err)
				}
			}
		}
	}()
	Ask(fmt.Sprintf("restart %d", lanes))
	for deadline := time.Now().Add(patience); len(client.GetNodes()) != lanes || !reaches(client); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			err := client.Put(nil, key("reached"), as.BinMap{"a": 1})
			panic(fmt.Sprintf("the client knows %d nodes of %d, and does not reach all of them: %v", len(client.GetNodes()), lanes, err))
		}
	}
	close(stop)
	<-stopped
	// Sooner or later the client has read the map of every node.
	for deadline := time.Now().Add(patience); ; {
		Ask("begin")
		many(client)
		if Ask("direct?") == "yes" {
			break
		}
		Same(time.Now().Before(deadline), true)
	}
}

func main() {
	logger.Logger.SetLevel(logger.OFF)
	port, password := os.Args[1], os.Args[2]
	if password != "" {
		for _, wrong := range []string{"", "wrong"} {
			_, err := connect(port, wrong)
			Same(err != nil, true)
		}
	}
	client := got(connect(port, password))
	for _, part := range []struct {
		name string
		run  func(*as.Client)
	}{{"values", values}, {"policies", policies}, {"ends", ends}, {"operations", operations}, {"batches", batches}, {"scans", scans}, {"limits", limits}} {
		part.run(client)
		fmt.Println(part.name)
	}
	Ask("begin")
	many(client)
	Ask("end")
	fmt.Println("many")
	restart(client, Must(strconv.Atoi(os.Args[3])))
	fmt.Println("other lanes")
	// Last: a compressing command of at most 128 bytes gives its connection's buffer to whoever connects next, and keeps it
	// (baseCommand.sizeBufferSz, executeAt of 8.5.0). Two scans at once would then read into the same.
	compression(client)
	fmt.Println("compression")
	client.Close()
}

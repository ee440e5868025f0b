// A client program on Aerospike's client for Java. ../restartable.py says how it talks with the test that runs it.

import com.aerospike.client.AerospikeClient;
import com.aerospike.client.AerospikeException;
import com.aerospike.client.BatchDelete;
import com.aerospike.client.BatchRead;
import com.aerospike.client.BatchRecord;
import com.aerospike.client.BatchWrite;
import com.aerospike.client.Bin;
import com.aerospike.client.Host;
import com.aerospike.client.Key;
import com.aerospike.client.Log;
import com.aerospike.client.Operation;
import com.aerospike.client.Record;
import com.aerospike.client.ResultCode;
import com.aerospike.client.Value;
import com.aerospike.client.async.NioEventLoops;
import com.aerospike.client.cdt.ListOperation;
import com.aerospike.client.listener.RecordArrayListener;
import com.aerospike.client.listener.RecordListener;
import com.aerospike.client.listener.RecordSequenceListener;
import com.aerospike.client.listener.WriteListener;
import com.aerospike.client.policy.BatchPolicy;
import com.aerospike.client.policy.BatchWritePolicy;
import com.aerospike.client.policy.ClientPolicy;
import com.aerospike.client.policy.GenerationPolicy;
import com.aerospike.client.policy.Policy;
import com.aerospike.client.policy.QueryPolicy;
import com.aerospike.client.policy.RecordExistsAction;
import com.aerospike.client.policy.ScanPolicy;
import com.aerospike.client.policy.WritePolicy;
import com.aerospike.client.query.Filter;
import com.aerospike.client.query.PartitionFilter;
import com.aerospike.client.query.RecordSet;
import com.aerospike.client.query.Statement;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Calendar;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Consumer;
import java.util.stream.IntStream;

public final class AerospikeProgram {
    private static final int KEYS_COUNT = 1200;
    private static final int PATIENCE_MS = 60_000;
    private static final BufferedReader INPUT = new BufferedReader(new InputStreamReader(System.in));

    private static final NioEventLoops LOOPS = new NioEventLoops(1);

    private final AerospikeClient client;

    private AerospikeProgram(AerospikeClient client) {
        this.client = client;
    }

    /** Asks the test for something, waits until it is done, and gives what the test says. */
    private static String ask(String what) throws IOException {
        System.out.println(what);
        return INPUT.readLine();
    }

    private static void same(Object got, Object want) {
        if (!Objects.deepEquals(got, want)) throw new AssertionError("got " + got + ", want " + want);
    }

    /** The code with which a call is refused; OK if it is not. */
    private static int code(Runnable call) {
        try {
            call.run();
            return ResultCode.OK;
        } catch (AerospikeException refused) {
            return refused.getResultCode();
        }
    }

    private WritePolicy with(Consumer<WritePolicy> change) {
        WritePolicy policy = new WritePolicy(client.writePolicyDefault);
        change.accept(policy);
        return policy;
    }

    private static Key key(Object name) {
        return in("demo", name);
    }

    private static Key in(String set, Object name) {
        return new Key("test", set, Value.get(name));
    }

    private void values() {
        Map<String, Object> whole = Map.of(
            "i", Long.MIN_VALUE, "f", 2.5, "s", "text", "b", new byte[] {0, 1}, "t", true, "l", List.of(1L, "two", List.of(3L)),
            "m", Map.of("a", 1L), "e", "");
        Bin[] bins = whole.entrySet().stream().map(bin -> new Bin(bin.getKey(), Value.get(bin.getValue()))).toArray(Bin[]::new);
        for (Object name : new Object[] {"text", 77, new byte[] {1, 2}}) {
            client.put(null, key(name), bins);
            Map<String, Object> found = client.get(null, key(name)).bins;
            same(found.keySet(), whole.keySet());
            whole.forEach((bin, value) -> same(found.get(bin), value));
        }
        same(client.get(null, key("text"), "s", "none").bins, Map.of("s", "text"));
        same(client.getHeader(null, key("text")).generation, 1);
        same(client.exists(null, key("text")), true);
        same(client.get(null, key("none")), null);
        client.put(null, key("text"), Bin.asNull("s"));
        same(client.get(null, key("text")).bins.size(), whole.size() - 1);
        same(client.delete(null, key("text")), true);
        same(client.delete(null, key("text")), false);
    }

    private void policies() {
        Key one = key("policies");
        Key none = key("no policies");
        Bin bin = new Bin("a", 1);
        WritePolicy create = with(policy -> policy.recordExistsAction = RecordExistsAction.CREATE_ONLY);
        WritePolicy update = with(policy -> policy.recordExistsAction = RecordExistsAction.UPDATE_ONLY);
        WritePolicy replace = with(policy -> policy.recordExistsAction = RecordExistsAction.REPLACE);
        WritePolicy replaceOnly = with(policy -> policy.recordExistsAction = RecordExistsAction.REPLACE_ONLY);
        client.put(create, one, bin);
        same(code(() -> client.put(create, one, bin)), ResultCode.KEY_EXISTS_ERROR);
        same(code(() -> client.put(update, none, bin)), ResultCode.KEY_NOT_FOUND_ERROR);
        same(code(() -> client.put(replaceOnly, none, bin)), ResultCode.KEY_NOT_FOUND_ERROR);
        client.put(update, one, new Bin("b", 2));
        client.put(replace, one, new Bin("c", 3));
        same(client.get(null, one).bins, Map.of("c", 3L));
        WritePolicy equal = with(policy -> policy.generationPolicy = GenerationPolicy.EXPECT_GEN_EQUAL);
        WritePolicy greater = with(policy -> policy.generationPolicy = GenerationPolicy.EXPECT_GEN_GT);
        equal.generation = 2;
        same(code(() -> client.put(equal, one, bin)), ResultCode.GENERATION_ERROR);
        equal.generation = 3;
        client.put(equal, one, bin);
        greater.generation = 4;
        same(code(() -> client.put(greater, one, bin)), ResultCode.GENERATION_ERROR);
        greater.generation = 5;
        client.put(greater, one, bin);
        same(code(() -> client.delete(equal, one)), ResultCode.GENERATION_ERROR);
        same(code(() -> client.delete(with(policy -> policy.durableDelete = true), one)), ResultCode.ENTERPRISE_ONLY);
        same(client.delete(null, one), true);
    }

    /** Requests and replies of these sizes are compressed, some of them. */
    private void compression() {
        WritePolicy write = with(policy -> policy.compress = true);
        Policy read = new Policy();
        BatchPolicy batch = new BatchPolicy();
        read.compress = batch.compress = true;
        int[] sizes = {1, 200, 10_000, 30_000, 900_000};
        Key[] keys = IntStream.of(sizes).mapToObj(size -> key("compressed" + size)).toArray(Key[]::new);
        for (int number = 0; number < sizes.length; number++) {
            String value = "x".repeat(sizes[number]);
            client.put(write, keys[number], new Bin("a", value), new Bin("b", number));
            for (Policy policy : new Policy[] {read, new Policy()}) {
                same(client.get(policy, keys[number]).getString("a"), value);
            }
        }
        Record[] found = client.get(batch, keys);
        for (int number = 0; number < sizes.length; number++) same(found[number].getLong("b"), (long) number);
        Bin large = new Bin("a", "x".repeat(20_000_000));
        same(code(() -> client.put(write, keys[0], large)), ResultCode.RECORD_TOO_BIG);
        same(client.get(read, key("no record")), null);
    }

    private void ends() throws InterruptedException {
        Key one = key("ends");
        Consumer<Integer> left = seconds -> {
            int found = client.getHeader(null, one).getTimeToLive();
            same(found <= seconds && found > seconds - 100, true);
        };
        client.put(with(policy -> policy.expiration = 1000), one, new Bin("a", 1));
        left.accept(1000);
        client.touch(with(policy -> policy.expiration = 5000), one);
        left.accept(5000);
        client.put(with(policy -> policy.expiration = -2), one, new Bin("a", 2));
        left.accept(5000);
        client.touch(with(policy -> policy.expiration = -1), one);
        same(client.getHeader(null, one).getTimeToLive(), -1);
        same(code(() -> client.touch(null, key("none"))), ResultCode.KEY_NOT_FOUND_ERROR);
        client.put(with(policy -> policy.expiration = 1), one, new Bin("a", 3));
        for (long end = System.nanoTime() + PATIENCE_MS * 1_000_000L; client.exists(null, one); Thread.sleep(20)) {
            same(System.nanoTime() < end, true);
        }
    }

    private void operations() {
        Key one = key("operations");
        client.add(null, one, new Bin("n", 5));
        client.append(null, one, new Bin("s", "b"));
        client.prepend(null, one, new Bin("s", "a"));
        Record record = client.operate(null, one, Operation.add(new Bin("n", -2)), Operation.append(new Bin("s", "c")), Operation.get());
        same(record.bins, Map.of("n", 3L, "s", "abc"));
        same(record.generation, 4);
        record = client.operate(with(policy -> policy.respondAllOps = true), one,
            Operation.get("n"), Operation.put(new Bin("n", 10)), Operation.get("n"));
        same(record.getList("n"), Arrays.asList(3L, null, 10L));
        same(code(() -> client.append(null, one, new Bin("n", "text"))), ResultCode.BIN_TYPE_ERROR);
        same(code(() -> client.operate(null, one, ListOperation.size("l"))), ResultCode.UNSUPPORTED_FEATURE);
        client.operate(null, one, Operation.delete(), Operation.put(new Bin("new", 1)));
        same(client.get(null, one).bins, Map.of("new", 1L));
        // Many at once change one record, and no change is lost.
        IntStream.range(0, 400).parallel().forEach(number -> client.add(null, one, new Bin("n", 1)));
        same(client.get(null, one, "n").getLong("n"), 400L);
    }

    private void batches() {
        Key[] keys = IntStream.range(0, 1000).mapToObj(number -> in("batch", number)).toArray(Key[]::new);
        List<BatchRecord> rows = new ArrayList<>();
        for (int number = 0; number < keys.length; number++) {
            rows.add(new BatchWrite(keys[number], Operation.array(
                Operation.put(new Bin("n", number)), Operation.put(new Bin("s", "x".repeat(number))))));
        }
        same(client.operate(null, rows), true);
        Record[] found = client.get(null, keys);
        for (int number = 0; number < keys.length; number++) {
            same(found[number].getLong("n"), (long) number);
            same(found[number].getString("s").length(), number);
        }
        same(client.get(null, keys, "n")[999].bins, Map.of("n", 999L));
        same(client.getHeader(null, keys)[5].generation, 1);
        same(client.get(null, keys, Operation.get("n"))[7].getLong("n"), 7L);
        BatchWritePolicy create = new BatchWritePolicy();
        create.recordExistsAction = RecordExistsAction.CREATE_ONLY;
        List<BatchRecord> mixed = List.of(
            new BatchRead(keys[0], new String[] {"n"}), new BatchWrite(create, keys[1], Operation.array(Operation.put(new Bin("n", 0)))),
            new BatchWrite(keys[2], Operation.array(Operation.add(new Bin("n", 40)), Operation.get("n"))), new BatchDelete(keys[3]),
            new BatchRead(key("none"), true), new BatchWrite(keys[5], Operation.array(Operation.append(new Bin("n", "text")))));
        same(client.operate(null, mixed), false);
        same(mixed.stream().map(row -> row.resultCode).toList(), List.of(ResultCode.OK, ResultCode.KEY_EXISTS_ERROR, ResultCode.OK,
            ResultCode.OK, ResultCode.KEY_NOT_FOUND_ERROR, ResultCode.BIN_TYPE_ERROR));
        same(mixed.get(2).record.getList("n"), Arrays.asList(null, 42L));
        // Rows that are written in one piece, and answered one by one.
        BatchPolicy inline = new BatchPolicy(client.batchPolicyDefault);
        inline.maxConcurrentThreads = 1;
        client.operate(inline, null, keys, Operation.touch());
        client.delete(null, null, keys);
        for (boolean exists : client.exists(null, keys)) same(exists, false);
    }

    private Set<Long> scan(ScanPolicy policy, PartitionFilter partitions) {
        Set<Long> numbers = ConcurrentHashMap.newKeySet();
        client.scanPartitions(policy, partitions, "test", "scanned", (key, record) -> {
            same(key.userKey.toLong(), record.getLong("n"));
            same(numbers.add(record.getLong("n")), true);
        });
        return numbers;
    }

    private void scans() {
        WritePolicy send = with(policy -> policy.sendKey = true);
        IntStream.range(0, 2000).parallel().forEach(number -> client.put(send, in("scanned", number), new Bin("n", number)));
        ScanPolicy one = new ScanPolicy(client.scanPolicyDefault);
        one.concurrentNodes = false;
        for (ScanPolicy policy : new ScanPolicy[] {client.scanPolicyDefault, one}) {
            same(scan(policy, PartitionFilter.all()).size(), 2000);
        }
        same(scan(one, PartitionFilter.range(0, 2048)).size() + scan(one, PartitionFilter.range(2048, 2048)).size(), 2000);
        same(scan(one, PartitionFilter.id(0)).size() < 10, true);
        ScanPolicy page = new ScanPolicy(client.scanPolicyDefault);
        page.maxRecords = 100;
        same(scan(page, PartitionFilter.all()).size(), 100);
        ScanPolicy bare = new ScanPolicy(client.scanPolicyDefault);
        bare.includeBinData = false;
        client.scanAll(bare, "test", "scanned", (key, record) -> same(record.bins, null));
        Statement statement = new Statement();
        statement.setNamespace("test");
        statement.setSetName("scanned");
        try (RecordSet records = client.query(new QueryPolicy(client.queryPolicyDefault), statement)) {
            int count = 0;
            while (records.next()) count++;
            same(count, 2000);
        }
        statement.setFilter(Filter.equal("n", 7));
        same(code(() -> client.query(null, statement).next()), ResultCode.UNSUPPORTED_FEATURE);
        // What the client makes of an answer that is not ok.
        same(code(() -> client.truncate(null, "test", "scanned", Calendar.getInstance())), ResultCode.CLIENT_ERROR);
        client.truncate(null, "test", "scanned", null);
        same(scan(one, PartitionFilter.all()).size(), 0);
    }

    /** What the client calls back with: a value or an error. */
    private static final class Answer<T> implements WriteListener, RecordListener, RecordArrayListener, RecordSequenceListener {
        private final CompletableFuture<T> future = new CompletableFuture<>();
        private final List<Record> sequence = new ArrayList<>();

        @SuppressWarnings("unchecked")
        private void complete(Object value) {
            future.complete((T) value);
        }

        @Override public void onSuccess(Key key) {
            complete(key);
        }

        @Override public void onSuccess(Key key, Record record) {
            complete(record);
        }

        @Override public void onSuccess(Key[] keys, Record[] records) {
            complete(records);
        }

        @Override public void onRecord(Key key, Record record) {
            sequence.add(record);
        }

        @Override public void onSuccess() {
            complete(sequence);
        }

        @Override public void onFailure(AerospikeException error) {
            future.completeExceptionally(error);
        }
    }

    /** Commands on the client's event loop, a hundred at a time. */
    private void asynchronous() throws Exception {
        Key[] keys = IntStream.range(0, 500).mapToObj(number -> in("async", number)).toArray(Key[]::new);
        for (int first = 0; first < keys.length; first += 100) {
            List<Answer<Key>> puts = new ArrayList<>();
            for (int number = first; number < first + 100; number++) {
                Answer<Key> put = new Answer<>();
                client.put(LOOPS.next(), put, null, keys[number], new Bin("n", number), new Bin("s", "x".repeat(100 * number)));
                puts.add(put);
            }
            for (Answer<Key> put : puts) put.future.get();
        }
        Answer<Record> one = new Answer<>();
        client.get(LOOPS.next(), one, null, keys[499]);
        same(one.future.get().getString("s").length(), 49_900);
        Answer<Record[]> some = new Answer<>();
        client.get(LOOPS.next(), (RecordArrayListener) some, null, keys);
        Record[] records = some.future.get();
        for (int number = 0; number < keys.length; number++) same(records[number].getLong("n"), (long) number);
        Answer<List<Record>> all = new Answer<>();
        client.scanAll(LOOPS.next(), all, null, "test", "async", "n");
        same(all.future.get().stream().map(record -> record.getLong("n")).distinct().count(), 500L);
        Answer<Key> refused = new Answer<>();
        client.append(LOOPS.next(), refused, null, keys[0], new Bin("n", "text"));
        try {
            refused.future.get();
            throw new AssertionError("text was appended to a number");
        } catch (ExecutionException failure) {
            same(((AerospikeException) failure.getCause()).getResultCode(), ResultCode.BIN_TYPE_ERROR);
        }
    }

    private void limits() {
        Key one = key("limits");
        client.put(null, one, new Bin("a", "x".repeat(900_000)));
        client.append(null, one, new Bin("a", "y".repeat(100_000)));
        same(client.get(null, one).getString("a").length(), 1_000_000);
        same(code(() -> client.put(null, one, new Bin("b", "x".repeat(100_000)))), ResultCode.RECORD_TOO_BIG);
        same(code(() -> client.put(null, new Key("elsewhere", "demo", 1), new Bin("a", 1))), ResultCode.INVALID_NAMESPACE);
        same(code(() -> client.execute(null, one, "package", "function")), ResultCode.UNSUPPORTED_FEATURE);
    }

    private void many() {
        for (int number = 0; number < KEYS_COUNT; number++) {
            client.put(null, in("many", number), new Bin("n", number));
            same(client.get(null, in("many", number)).getLong("n"), (long) number);
        }
        client.truncate(null, "test", "many", null);
    }

    /** Under traffic the server comes back with another number of lanes. No request fails if there are more of them. */
    private void restart(int lanes) throws IOException, InterruptedException {
        AtomicBoolean stop = new AtomicBoolean();
        AtomicReference<RuntimeException> failure = new AtomicReference<>();
        boolean hasMore = lanes > client.getNodes().length;
        WritePolicy patient = with(policy -> {
            policy.maxRetries = 10_000;
            policy.sleepBetweenRetries = 10;
            // What was for a lane that there is no more may be tried there to the end.
            if (!hasMore) policy.totalTimeout = 1000;
        });
        Thread traffic = new Thread(() -> {
            try {
                for (int number = 0; !stop.get(); number++) client.put(patient, in("traffic", number % 500), new Bin("n", number));
            } catch (RuntimeException failed) {
                failure.set(failed);
            }
        });
        traffic.start();
        ask("restart " + lanes);
        long end = System.nanoTime() + PATIENCE_MS * 1_000_000L;
        while (client.getNodes().length != lanes || !reaches()) {
            if (System.nanoTime() > end) throw new AssertionError("the client knows " + client.getNodes().length + " nodes of " + lanes);
            Thread.sleep(20);
        }
        stop.set(true);
        traffic.join();
        if (hasMore && failure.get() != null) throw failure.get();
        // Sooner or later the client has read the map of every node.
        do {
            same(System.nanoTime() < end, true);
            ask("begin");
            many();
        } while (!ask("direct?").equals("yes"));
    }

    /** Whether the client knows an owner for all of some records. */
    private boolean reaches() {
        return code(() -> IntStream.range(0, 200).forEach(number -> client.put(null, in("reached", number), new Bin("a", 1)))) == ResultCode.OK;
    }

    private interface Part {
        void run() throws Exception;
    }

    private static void check(String name, Part part) throws Exception {
        part.run();
        System.out.println(name);
    }

    private static AerospikeClient connect(int port, String password) {
        ClientPolicy policy = new ClientPolicy();
        if (!password.isEmpty()) {
            policy.user = "any";
            policy.password = password;
        }
        policy.tendInterval = 250;
        policy.eventLoops = LOOPS;
        for (Policy each : new Policy[] {policy.readPolicyDefault, policy.writePolicyDefault, policy.batchPolicyDefault,
            policy.batchParentPolicyWriteDefault, policy.scanPolicyDefault, policy.queryPolicyDefault}) {
            each.socketTimeout = each.totalTimeout = PATIENCE_MS;
        }
        // After a restart there are connections in the pool that have ended.
        policy.writePolicyDefault.maxRetries = 100;
        return new AerospikeClient(policy, new Host("127.0.0.1", port));
    }

    public static void main(String[] arguments) throws Exception {
        Log.setCallback((level, message) -> {});
        int port = Integer.parseInt(arguments[0]);
        String password = arguments[1];
        if (!password.isEmpty()) {
            for (String wrong : new String[] {"", "wrong"}) same(code(() -> connect(port, wrong).close()) != ResultCode.OK, true);
        }
        try (AerospikeClient client = connect(port, password)) {
            AerospikeProgram program = new AerospikeProgram(client);
            check("values", program::values);
            check("policies", program::policies);
            check("ends", program::ends);
            check("operations", program::operations);
            check("compression", program::compression);
            check("batches", program::batches);
            check("scans", program::scans);
            check("asynchronous", program::asynchronous);
            check("limits", program::limits);
            ask("begin");
            check("many", program::many);
            ask("end");
            check("other lanes", () -> program.restart(Integer.parseInt(arguments[2])));
        }
        System.exit(0);
    }
}

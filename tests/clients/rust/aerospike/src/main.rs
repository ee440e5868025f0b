//! A client program on Aerospike's client for Rust. `../../../restartable.py` says how it talks with the test that runs it.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use aerospike::operations::{add, append, get_bin, lists, prepend, put};
use aerospike::policy::{
    AdminPolicy, AuthMode, BatchPolicy, ClientPolicy, QueryPolicy, ReadPolicy, WritePolicy,
};
use aerospike::{
    BatchDeletePolicy, BatchOperation, BatchReadPolicy, BatchWritePolicy, Bins, Client, Error, Expiration,
    GenerationPolicy, Key, PartitionFilter, Record, RecordExistsAction, ResultCode, Statement, Value, as_bin,
    as_blob, as_key, as_list, as_map, as_val,
};

const KEYS_COUNT: i64 = 1200;
const PATIENCE: Duration = Duration::from_secs(60);

/// Asks the test for something, waits until it is done, and gives what the test says.
fn ask(what: &str) -> String {
    println!("{what}");
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).expect("the test answers");
    line.trim().to_owned()
}

fn code<T>(result: Result<T, Error>) -> ResultCode {
    result.map_or_else(
        |error| error.server_result_code().unwrap_or_else(|| panic!("{error}")),
        |_| ResultCode::Ok,
    )
}

fn read() -> ReadPolicy {
    let mut policy = ReadPolicy::default();
    policy.base_policy.total_timeout = 60_000;
    policy.base_policy.socket_timeout = 60_000;
    policy
}

fn write() -> WritePolicy {
    let mut policy = WritePolicy::default();
    policy.base_policy.total_timeout = 60_000;
    policy.base_policy.socket_timeout = 60_000;
    // After a restart there are connections in the pool that have ended.
    policy.base_policy.max_retries = 100;
    policy
}

fn exists(action: RecordExistsAction) -> WritePolicy {
    WritePolicy { record_exists_action: action, ..write() }
}

fn lives(expiration: Expiration) -> WritePolicy {
    WritePolicy { expiration, ..write() }
}

fn key(name: &str) -> Key {
    as_key!("test", "demo", name)
}

fn bins(client: &Client, key: &Key) -> Vec<(String, Value)> {
    let record = client.get(&read(), key, Bins::All).expect("the record is there");
    let mut bins: Vec<_> = record.bins.into_iter().collect();
    bins.sort_by(|one, other| one.0.cmp(&other.0));
    bins
}

fn values(client: &Client) {
    let whole = [
        as_bin!("b", as_blob!(b"\0bytes".to_vec())),
        as_bin!("e", ""),
        as_bin!("f", 2.5),
        as_bin!("i", i64::MIN),
        as_bin!("l", as_list!(1, "two", 3.5)),
        as_bin!("m", as_map!("a" => 1)),
        as_bin!("s", "text"),
        as_bin!("t", true),
    ];
    for key in [
        as_key!("test", "demo", "text"),
        as_key!("test", "demo", 77),
        as_key!("test", "demo", as_blob!(vec![1, 2])),
    ] {
        client.put(&write(), &key, &whole).expect("put");
        let found = bins(client, &key);
        assert_eq!(found.len(), whole.len());
        for ((name, value), bin) in found.iter().zip(&whole) {
            assert_eq!((name, value), (&bin.name.to_string(), &bin.value));
        }
    }
    let some = client.get(&read(), &key("text"), ["s", "none"]).expect("get");
    assert_eq!((some.bins.len(), some.generation), (1, 1));
    assert_eq!(client.get(&read(), &key("text"), Bins::None).expect("header").bins.len(), 0);
    assert!(client.exists(&read(), &key("text")).expect("exists"));
    assert!(!client.exists(&read(), &key("none")).expect("exists"));
    assert_eq!(code(client.get(&read(), &key("none"), Bins::All)), ResultCode::KeyNotFoundError);
    assert!(client.delete(&write(), &key("text")).expect("delete"));
    assert!(!client.delete(&write(), &key("text")).expect("delete"));
}

fn policies(client: &Client) {
    let (one, none, bin) = (key("policies"), key("no policies"), [as_bin!("a", 1)]);
    assert_eq!(code(client.put(&exists(RecordExistsAction::CreateOnly), &one, &bin)), ResultCode::Ok);
    assert_eq!(
        code(client.put(&exists(RecordExistsAction::CreateOnly), &one, &bin)),
        ResultCode::KeyExistsError
    );
    assert_eq!(
        code(client.put(&exists(RecordExistsAction::UpdateOnly), &none, &bin)),
        ResultCode::KeyNotFoundError
    );
    assert_eq!(
        code(client.put(&exists(RecordExistsAction::ReplaceOnly), &none, &bin)),
        ResultCode::KeyNotFoundError
    );
    assert_eq!(
        code(client.put(&exists(RecordExistsAction::UpdateOnly), &one, &[as_bin!("b", 2)])),
        ResultCode::Ok
    );
    assert_eq!(bins(client, &one).len(), 2);
    assert_eq!(
        code(client.put(&exists(RecordExistsAction::Replace), &one, &[as_bin!("c", 3)])),
        ResultCode::Ok
    );
    assert_eq!(bins(client, &one), [("c".to_owned(), Value::from(3))]);
    let expect = |generation_policy, generation| WritePolicy { generation_policy, generation, ..write() };
    let [equal, greater] = [GenerationPolicy::ExpectGenEqual, GenerationPolicy::ExpectGenGreater];
    assert_eq!(code(client.put(&expect(equal, 2), &one, &bin)), ResultCode::GenerationError);
    assert_eq!(code(client.put(&expect(equal, 3), &one, &bin)), ResultCode::Ok);
    assert_eq!(code(client.put(&expect(greater, 4), &one, &bin)), ResultCode::GenerationError);
    assert_eq!(code(client.put(&expect(greater, 5), &one, &bin)), ResultCode::Ok);
    assert_eq!(code(client.delete(&expect(equal, 1), &one)), ResultCode::GenerationError);
    assert_eq!(code(client.delete(&expect(equal, 5), &one)), ResultCode::Ok);
}

fn ends(client: &Client) {
    let one = key("ends");
    let left =
        || client.get(&read(), &one, Bins::None).expect("header").time_to_live().map(|left| left.as_secs());
    client.put(&lives(Expiration::Seconds(1000)), &one, &[as_bin!("a", 1)]).expect("put");
    assert!(left().is_some_and(|left| (900..=1000).contains(&left)));
    client.touch(&lives(Expiration::Seconds(5000)), &one).expect("touch");
    assert!(left().is_some_and(|left| (4900..=5000).contains(&left)));
    client.put(&lives(Expiration::DontUpdate), &one, &[as_bin!("a", 2)]).expect("put");
    assert!(left().is_some_and(|left| (4900..=5000).contains(&left)));
    client.touch(&lives(Expiration::Never), &one).expect("touch");
    assert_eq!(left(), None);
    assert_eq!(code(client.touch(&write(), &key("none"))), ResultCode::KeyNotFoundError);
    client.put(&lives(Expiration::Seconds(1)), &one, &[as_bin!("a", 3)]).expect("put");
    let deadline = Instant::now() + PATIENCE;
    while client.exists(&read(), &one).expect("exists") {
        assert!(Instant::now() < deadline, "the record does not end");
        thread::sleep(Duration::from_millis(20));
    }
}

fn operations(client: &Client) {
    let one = key("operations");
    client.add(&write(), &one, &[as_bin!("n", 5)]).expect("add");
    client.append(&write(), &one, &[as_bin!("s", "b")]).expect("append");
    client.prepend(&write(), &one, &[as_bin!("s", "a")]).expect("prepend");
    let steps = [
        add(&as_bin!("n", -2)),
        append(&as_bin!("s", "c")),
        get_bin("n"),
        put(&as_bin!("n", 10)),
        get_bin("n"),
        get_bin("s"),
    ];
    let record = client.operate(&write(), &one, &steps).expect("operate");
    assert_eq!(record.generation, 4);
    let answers: Vec<Value> =
        record.results.expect("an answer to each").into_iter().filter(|value| *value != Value::Nil).collect();
    assert_eq!(answers, [Value::from(3), Value::from(10), Value::from("abc")]);
    assert_eq!(code(client.append(&write(), &one, &[as_bin!("n", "text")])), ResultCode::BinTypeError);
    // All of them or none.
    let steps = [prepend(&as_bin!("s", "x")), add(&as_bin!("s", 1))];
    assert_eq!(code(client.operate(&write(), &one, &steps)), ResultCode::BinTypeError);
    assert_eq!(bins(client, &one), [("n".to_owned(), Value::from(10)), ("s".to_owned(), Value::from("abc"))]);
    assert_eq!(code(client.operate(&write(), &one, &[lists::get("l", 0)])), ResultCode::UnsupportedFeature);
    assert_eq!(code(client.operate(&write(), &key("none"), &[get_bin("n")])), ResultCode::KeyNotFoundError);
}

fn batch(client: &Client, rows: &mut [BatchOperation]) -> Vec<Option<ResultCode>> {
    let mut policy = BatchPolicy::write_default();
    policy.base_policy.total_timeout = 60_000;
    policy.base_policy.socket_timeout = 60_000;
    client.batch(&policy, rows).expect("a batch is answered");
    rows.iter().map(BatchOperation::result_code).collect()
}

fn batches(client: &Client) {
    let keys: Vec<Key> = (0..1000).map(|number| as_key!("test", "batch", number)).collect();
    let (reads, writes) = (BatchReadPolicy::default(), BatchWritePolicy::default());
    let row = |(key, number): (&Key, i64)| {
        let long = "x".repeat(usize::try_from(number).expect("a small number"));
        BatchOperation::write(
            &writes,
            key.clone(),
            vec![put(&as_bin!("n", number)), put(&as_bin!("s", long))],
        )
    };
    let mut rows: Vec<_> = keys.iter().zip(0..).map(row).collect();
    assert_eq!(batch(client, &mut rows), [Some(ResultCode::Ok); 1000]);
    let mut rows: Vec<_> =
        keys.iter().map(|key| BatchOperation::read(&reads, key.clone(), Bins::All)).collect();
    assert_eq!(batch(client, &mut rows), [Some(ResultCode::Ok); 1000]);
    for (row, number) in rows.iter().zip(0_i64..) {
        let record: &Record = row.record().expect("a record");
        assert_eq!(record.bins["n"], Value::from(number));
        assert!(matches!(&record.bins["s"], Value::String(text) if text.len() as i64 == number));
    }
    // All kinds of rows beside one another.
    let create = BatchWritePolicy {
        record_exists_action: RecordExistsAction::CreateOnly,
        ..BatchWritePolicy::default()
    };
    let mut mixed = [
        BatchOperation::read(&reads, keys[0].clone(), Bins::from(["n"])),
        BatchOperation::write(&create, keys[1].clone(), vec![put(&as_bin!("n", 0))]),
        BatchOperation::write(&writes, keys[2].clone(), vec![add(&as_bin!("n", 40)), get_bin("n")]),
        BatchOperation::delete(&BatchDeletePolicy::default(), keys[3].clone()),
        BatchOperation::read(&reads, key("none"), Bins::All),
        BatchOperation::write(&writes, keys[5].clone(), vec![append(&as_bin!("n", "text"))]),
        BatchOperation::read(&reads, keys[2].clone(), Bins::None),
    ];
    let codes = [
        ResultCode::Ok,
        ResultCode::KeyExistsError,
        ResultCode::Ok,
        ResultCode::Ok,
        ResultCode::KeyNotFoundError,
        ResultCode::BinTypeError,
        ResultCode::Ok,
    ];
    assert_eq!(batch(client, &mut mixed), codes.map(Some));
    let remove = BatchDeletePolicy::default();
    let mut rows: Vec<_> = keys.iter().map(|key| BatchOperation::delete(&remove, key.clone())).collect();
    let gone = batch(client, &mut rows).iter().filter(|code| **code == Some(ResultCode::Ok)).count();
    assert_eq!(gone, 999);
}

fn scan(client: &Client, set: &str, policy: &QueryPolicy) -> Vec<Record> {
    let statement = Statement::new("test", set, Bins::All);
    let found = client.query(policy, PartitionFilter::all(), statement).expect("a scan begins");
    (&*found).map(|record| record.expect("a scan goes on")).collect()
}

fn scans(client: &Client) {
    for number in 0..2000 {
        let policy = WritePolicy { send_key: true, ..write() };
        client.put(&policy, &as_key!("test", "scanned", number), &[as_bin!("n", number)]).expect("put");
    }
    for max_concurrent_nodes in [0, 1] {
        let found = scan(client, "scanned", &QueryPolicy { max_concurrent_nodes, ..QueryPolicy::default() });
        assert_eq!(found.len(), 2000);
        let numbers: BTreeSet<String> =
            found.iter().map(|record| format!("{:?}", record.bins["n"])).collect();
        assert_eq!(numbers.len(), 2000);
        for record in found {
            assert_eq!(record.key.and_then(|key| key.user_key().cloned()), Some(record.bins["n"].clone()));
        }
    }
    let found = scan(client, "scanned", &QueryPolicy { include_bin_data: false, ..QueryPolicy::default() });
    assert!(found.len() == 2000 && found.iter().all(|record| record.bins.is_empty()));
    let found = scan(client, "scanned", &QueryPolicy { max_records: 100, ..QueryPolicy::default() });
    assert_eq!(found.len(), 100);
    client.truncate(&AdminPolicy::default(), "test", "scanned", 0).expect("truncate");
    assert_eq!(scan(client, "scanned", &QueryPolicy::default()).len(), 0);
    assert_eq!(
        code(client.truncate(&AdminPolicy::default(), "test", "scanned", 5)),
        ResultCode::ParameterError
    );
}

/// Requests and replies of these sizes are compressed, some of them.
fn compression(client: &Client) {
    let (mut compressed, mut compressed_read) = (write(), read());
    compressed.base_policy.use_compression = true;
    compressed_read.base_policy.use_compression = true;
    for size in [1, 200, 10_000, 30_000, 900_000] {
        let (one, value) = (as_key!("test", "compressed", size), "x".repeat(size));
        client.put(&compressed, &one, &[as_bin!("a", value.clone())]).expect("put");
        for policy in [&compressed_read, &read()] {
            let record = client.get(policy, &one, Bins::All).expect("get");
            assert_eq!(record.bins["a"], Value::from(value.clone()));
        }
    }
    let large = as_bin!("a", "x".repeat(20_000_000));
    assert_eq!(code(client.put(&compressed, &key("compressed"), &[large])), ResultCode::RecordTooBig);
}

fn limits(client: &Client) {
    let one = key("limits");
    let long = |size| "x".repeat(size);
    client.put(&write(), &one, &[as_bin!("a", long(900_000))]).expect("put");
    client.append(&write(), &one, &[as_bin!("a", long(100_000))]).expect("append");
    assert!(matches!(&bins(client, &one)[0].1, Value::String(text) if text.len() == 1_000_000));
    assert_eq!(code(client.put(&write(), &one, &[as_bin!("b", long(100_000))])), ResultCode::RecordTooBig);
    assert!(client.put(&write(), &as_key!("elsewhere", "demo", 1), &[as_bin!("a", 1)]).is_err());
    let durable = WritePolicy { durable_delete: true, ..write() };
    assert_eq!(code(client.delete(&durable, &one)), ResultCode::EnterpriseOnly);
}

fn many(client: &Client) {
    for number in 0..KEYS_COUNT {
        let one = as_key!("test", "many", number);
        client.put(&write(), &one, &[as_bin!("n", number)]).expect("put");
        assert_eq!(bins(client, &one), [("n".to_owned(), Value::from(number))]);
    }
    client.truncate(&AdminPolicy::default(), "test", "many", 0).expect("truncate");
}

/// Whether the client knows an owner for all of some records.
fn reaches(client: &Client) -> bool {
    (0..200)
        .all(|number| client.put(&write(), &as_key!("test", "reached", number), &[as_bin!("a", 1)]).is_ok())
}

/// Under traffic the server comes back with another number of lanes. No request fails if there are more of them.
fn restart(client: &Client, lanes: &str) {
    let has_more = client.nodes().len() < lanes.parse().expect("a number");
    let mut patient = write();
    patient.base_policy.max_retries = 10_000;
    patient.base_policy.sleep_between_retries = 10;
    if !has_more {
        // What was for a lane that there is no more may be tried there to the end.
        patient.base_policy.total_timeout = 1000;
    }
    let stop = AtomicBool::new(false);
    let deadline = Instant::now() + PATIENCE;
    thread::scope(|threads| {
        threads.spawn(|| {
            let goes_on = |_: &_| !stop.load(Ordering::Relaxed) && Instant::now() < deadline;
            for number in (0..500).cycle().take_while(goes_on) {
                let one = as_key!("test", "traffic", number);
                let put = client.put(&patient, &one, &[as_bin!("n", number)]);
                assert!(!has_more || put.is_ok(), "{put:?}");
            }
        });
        ask(&format!("restart {lanes}"));
        while client.nodes().len().to_string() != lanes || !reaches(client) {
            assert!(Instant::now() < deadline, "the client knows {} nodes of {lanes}", client.nodes().len());
            thread::sleep(Duration::from_millis(20));
        }
        stop.store(true, Ordering::Relaxed);
    });
    // Sooner or later the client has read the map of every node.
    loop {
        ask("begin");
        many(client);
        if ask("direct?") == "yes" {
            break;
        }
        assert!(Instant::now() < deadline, "requests go on being forwarded");
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (address, password) = (format!("127.0.0.1:{}", arguments[0]), &arguments[1]);
    let connect = |password: &str| {
        let mut policy = ClientPolicy { tend_interval: 250, ..ClientPolicy::default() };
        if !password.is_empty() {
            policy.set_auth_mode(AuthMode::Internal("any".to_owned(), password.to_owned()));
        }
        Client::new(&policy, &address)
    };
    if !password.is_empty() {
        assert!(connect("").is_err() && connect("wrong").is_err(), "strangers are sent away");
    }
    let client = connect(password).expect("the server is there");
    let parts: [(&str, fn(&Client)); 8] = [
        ("values", values),
        ("policies", policies),
        ("ends", ends),
        ("operations", operations),
        ("compression", compression),
        ("batches", batches),
        ("scans", scans),
        ("limits", limits),
    ];
    for (name, part) in parts {
        part(&client);
        println!("{name}");
    }
    ask("begin");
    many(&client);
    ask("end");
    println!("many");
    restart(&client, &arguments[2]);
    println!("other lanes");
    client.close().expect("close");
}

//! A client program on redis-rs. `../../../restartable.py` says how it talks with the test that runs it.

use redis::{Commands, Connection, RedisResult};

const KEYS_COUNT: usize = 2000;

/// Asks the test for something and waits until it is done.
fn ask(what: &str) {
    println!("{what}");
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).expect("the test answers");
}

fn values(client: &mut Connection) -> RedisResult<()> {
    let _: () = redis::cmd("FLUSHALL").query(client)?;
    let _: () = client.set_ex("a", "one two", 60)?;
    assert_eq!(client.get::<_, String>("a")?, "one two");
    assert_eq!(client.ttl::<_, i64>("a")?, 60);
    assert_eq!(client.get::<_, Option<String>>("missing")?, None);
    assert!(client.incr::<_, _, i64>("a", 1).is_err());
    Ok(())
}

fn pipeline(client: &mut Connection) -> RedisResult<()> {
    let mut pipe = redis::pipe();
    for number in 0..KEYS_COUNT {
        pipe.incr(format!("p:{number}"), number);
    }
    let got: Vec<usize> = pipe.query(client)?;
    assert!(got.into_iter().eq(0..KEYS_COUNT));
    Ok(())
}

fn transaction(client: &mut Connection) -> RedisResult<()> {
    let mut pipe = redis::pipe();
    pipe.atomic()
        .mset(&[("t:1", 1), ("t:2", 2), ("t:3", 3)])
        .ignore()
        .rename("t:1", "t:new")
        .ignore()
        .get("t:new");
    let got: Vec<i64> = pipe.query(client)?;
    assert_eq!(got, [1]);
    Ok(())
}

fn script(client: &mut Connection) -> RedisResult<()> {
    let add = redis::Script::new("return redis.call('incrby', KEYS[1], ARGV[1])");
    redis::cmd("SCRIPT").arg("FLUSH").exec(client)?;
    client.del::<_, ()>("s")?;
    for sum in 1..=100 {
        assert_eq!(add.key("s").arg(2).invoke::<i64>(client)?, 2 * sum);
    }
    Ok(())
}

fn cluster(lane_port: &str) -> RedisResult<()> {
    let client = redis::cluster::ClusterClient::new(vec![format!("redis://127.0.0.1:{lane_port}/")])?;
    let mut connection = client.get_connection()?;
    ask("begin");
    for number in 0..KEYS_COUNT {
        let _: () = connection.set(format!("c:{number}"), number)?;
    }
    for number in 0..KEYS_COUNT {
        assert_eq!(connection.get::<_, usize>(format!("c:{number}"))?, number);
    }
    ask("end");
    Ok(())
}

fn main() -> RedisResult<()> {
    let ports: Vec<String> = std::env::args().skip(1).collect();
    for protocol in [2, 3] {
        let client = redis::Client::open(format!("redis://127.0.0.1:{}/?protocol=resp{protocol}", ports[0]))?;
        let mut connection = client.get_connection()?;
        values(&mut connection)?;
        println!("values RESP{protocol}");
        pipeline(&mut connection)?;
        println!("pipeline RESP{protocol}");
        transaction(&mut connection)?;
        println!("transaction RESP{protocol}");
        script(&mut connection)?;
        println!("script RESP{protocol}");
    }
    cluster(&ports[1])?;
    println!("cluster");
    let client = redis::Client::open(format!("redis://127.0.0.1:{}/", ports[0]))?;
    let mut connection = client.get_connection()?;
    ask("restart");
    // redis-rs leaves it to the program to connect again.
    assert!(connection.exists::<_, bool>("a").is_err());
    let mut connection = client.get_connection()?;
    assert!(!connection.exists::<_, bool>("a")?);
    println!("restart survived");
    Ok(())
}

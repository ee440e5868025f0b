//! An order as it travels, and what an agent takes as one: within the same limits that flags have.

use std::time::Duration;

use load::agents::message::Task;
use load::connect::Login;
use load::engine::Pace;
use load::workload::KEY_COUNT_MAX;

use crate::bench::crew::Order;
use crate::bench::settings::{CONNECTIONS_MAX, PIPELINE_MAX, RATE_MAX, THREADS_MAX, Waiting};

/// Bytes of a key's prefix.
const PREFIX_SIZE_MAX: usize = 1 << 16;

/// The order with this part of its connections.
pub(super) fn task(order: &Order, connection_count: u32) -> Task {
    Task {
        address: order.endpoint.clone(),
        dialect: order.login.dialect,
        user: order.login.user.clone(),
        has_password: order.login.password.is_some(),
        database: order.login.database,
        namespace: order.login.namespace.clone(),
        is_cluster: order.is_cluster,
        connection_count,
        pipeline: order.pipeline,
        thread_count: order.thread_count,
        cpus: order.cpus.clone(),
        rate: order.pace.rate(),
        is_even: matches!(order.pace, Pace::Even(_)),
        ramp_ns: nanoseconds(order.ramp),
        // Threads have a core if there are any to give.
        is_spinning: order.waiting.spins(!order.cpus.is_empty()),
        workload: order.workload.clone(),
        duration_ns: nanoseconds(order.duration),
        requests_max: order.requests_max,
        seed: order.seed,
    }
}

fn nanoseconds(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

/// The order that it is, on a machine with these cpus and this password.
///
/// # Errors
/// It can't be one here, in words that say what to do.
pub(super) fn order(task: Task, allowed_cpus: &[usize], password: Option<&str>) -> Result<Order, String> {
    let is_within = (1..=CONNECTIONS_MAX).contains(&task.connection_count)
        && (1..=PIPELINE_MAX).contains(&task.pipeline)
        && (1..=THREADS_MAX).contains(&task.thread_count)
        && (1..=KEY_COUNT_MAX).contains(&task.workload.key_count)
        && task.rate.is_none_or(|rate| rate > 0.0 && rate <= RATE_MAX)
        && task.workload.key_prefix.len() <= PREFIX_SIZE_MAX;
    if !is_within {
        return Err("a figure of it is beyond what this program's flags allow".to_owned());
    }
    load::protocol::check(task.dialect, task.is_cluster, task.pipeline, &task.workload)?;
    if let Some(cpu) = task.cpus.iter().find(|cpu| !allowed_cpus.contains(cpu)) {
        return Err(format!("it may not run on cpu {cpu} of --cpus: it may on {allowed_cpus:?}"));
    }
    if task.has_password && password.is_none() {
        return Err(
            "the server wants a password, which does not travel: start it with REDISCLI_AUTH set".to_owned()
        );
    }
    Ok(Order {
        endpoint: task.address,
        login: Login {
            dialect: task.dialect,
            user: task.user,
            password: password.filter(|_| task.has_password).map(str::to_owned),
            database: task.database,
            namespace: task.namespace,
        },
        is_cluster: task.is_cluster,
        connection_count: task.connection_count,
        pipeline: task.pipeline,
        thread_count: task.thread_count,
        cpus: task.cpus,
        pace: match task.rate {
            None => Pace::Closed,
            Some(rate) if task.is_even => Pace::Even(rate),
            Some(rate) => Pace::Poisson(rate),
        },
        ramp: Duration::from_nanos(task.ramp_ns),
        waiting: if task.is_spinning { Waiting::Spin } else { Waiting::Sleep },
        workload: task.workload,
        duration: Duration::from_nanos(task.duration_ns),
        requests_max: task.requests_max,
        seed: task.seed,
        agents: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use load::workload::Workload;

    fn ordered() -> Order {
        Order {
            endpoint: "10.0.0.5:7000".parse().unwrap(),
            login: Login {
                password: Some("hush".to_owned()),
                user: Some("me".to_owned()),
                namespace: Some("beer".to_owned()),
                ..Login::default()
            },
            is_cluster: true,
            connection_count: 50,
            pipeline: 3,
            thread_count: 4,
            cpus: vec![0, 1],
            pace: Pace::Even(1234.5),
            ramp: Duration::from_secs(7),
            waiting: Waiting::Spin,
            workload: Workload { key_count: 77, ..Workload::default() },
            duration: Duration::MAX,
            requests_max: u64::MAX,
            seed: 9,
            agents: None,
        }
    }

    #[test]
    fn an_order_arrives_as_it_left_with_its_part_of_the_connections() {
        let task = task(&ordered(), 13);
        let text = String::from_utf8(load::agents::message::written(&task)).unwrap();
        assert!(!text.contains("hush"), "a password does not travel: {text}");
        let there = order(task, &[0, 1, 2], Some("hush")).unwrap();
        let mut want = ordered();
        want.connection_count = 13;
        want.duration = Duration::from_nanos(u64::MAX);
        assert_eq!(format!("{there:?}"), format!("{want:?}"));
        let waits = |waiting, cpus: &[usize]| {
            let there = Order { waiting, cpus: cpus.to_vec(), ..ordered() };
            order(super::task(&there, 1), &[0, 1], Some("hush")).unwrap().waiting
        };
        assert_eq!((waits(Waiting::Auto, &[0]), waits(Waiting::Auto, &[])), (Waiting::Spin, Waiting::Sleep));
        assert_eq!(waits(Waiting::Sleep, &[0]), Waiting::Sleep);
        let mut open = ordered();
        open.login.password = None;
        let there = order(super::task(&open, 1), &[0, 1], Some("hush")).unwrap();
        assert_eq!(there.login.password, None, "a password that is not asked for is not given away");
    }

    #[test]
    fn what_flags_would_not_allow_no_coordinator_can_order() {
        let spoilt: [fn(&mut Task); 14] = [
            |task| task.connection_count = 0,
            |task| task.connection_count = CONNECTIONS_MAX + 1,
            |task| task.pipeline = 0,
            |task| task.pipeline = PIPELINE_MAX + 1,
            |task| task.thread_count = 0,
            |task| task.thread_count = THREADS_MAX + 1,
            |task| task.workload.key_count = 0,
            |task| task.workload.key_count = KEY_COUNT_MAX + 1,
            |task| task.rate = Some(0.0),
            |task| task.rate = Some(f64::NAN),
            |task| task.rate = Some(f64::INFINITY),
            |task| task.cpus = vec![4000],
            |task| task.workload.operations = "mget10".parse().unwrap(),
            |task| task.dialect = load::connect::Dialect::Aerospike,
        ];
        for (number, spoil) in spoilt.iter().enumerate() {
            let mut task = task(&ordered(), 5);
            spoil(&mut task);
            assert!(order(task, &[0, 1], Some("hush")).is_err(), "{number}");
        }
        let problem = order(task(&ordered(), 5), &[0, 1], None).unwrap_err();
        assert!(problem.contains("REDISCLI_AUTH"), "{problem}");
    }
}

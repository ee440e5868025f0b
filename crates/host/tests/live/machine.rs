//! Knobs that are no card's: rules and routes, threads, cpus, daemons.

use host::kernel::Cause;
use host::kernel::live::Live;
use host::{Kernel, Setting};

use crate::{Sleeper, knob, read, refused, round_trip, within, write};

#[test]
fn rules_and_routes_come_back_as_they_were() {
    within("machine::rules_and_routes_come_back_as_they_were", |live| {
        round_trip(live, "rule/inet/10001", "from 198.18.0.1 lookup 49001");
        round_trip(live, "rule/inet6/10001", "from 2001:db8::/32 lookup 49001");
        round_trip(live, "rule/inet/10002", "from all to 198.18.0.0/24 fwmark 0x7 lookup 49002");
        round_trip(live, "route/inet/49001/default", "via 198.18.0.2 dev va");
        round_trip(live, "route/inet/49001/198.18.0.0/24", "dev va");
        round_trip(live, "route/inet/49001/198.18.0.0/24", "dev va src 198.18.0.1");
        write(live, "route/inet/49001/default", Some("via 198.18.0.2 dev va"));
        assert_eq!(read(live, "route/inet/49002/default"), None, "another table");
        write(live, "route/inet/49001/default", Some("via 198.18.0.9 dev va"));
        assert_eq!(read(live, "route/inet/49001/default").as_deref(), Some("via 198.18.0.9 dev va"));
        write(live, "rule/inet/10001", Some("from 198.18.0.1 lookup 49001"));
        write(live, "rule/inet/10001", Some("from 198.18.0.7 lookup 49001"));
        assert_eq!(read(live, "rule/inet/10001").as_deref(), Some("from 198.18.0.7 lookup 49001"));
        write(live, "rule/inet/10001", None);
        assert_eq!(read(live, "rule/inet/10001"), None);
        let (cause, reason) = refused(live, "route/inet/49001/default", Some("via 198.18.0.2 dev none"));
        assert!(cause == Cause::Gone && reason.contains("none"), "{reason}");
        assert_eq!(refused(live, "route/inet/49001/nowhere", Some("dev va")).0, Cause::Invalid);
    });
}

#[test]
fn a_thread_comes_back_as_it_was_and_a_dead_one_is_gone() {
    within("machine::a_thread_comes_back_as_it_was_and_a_dead_one_is_gone", |live| {
        let mut sleeper = Sleeper::start();
        let affinity = sleeper.path("affinity");
        if read(live, &affinity).as_deref() != Some("0") {
            round_trip(live, &affinity, "0");
        }
        round_trip(live, &sleeper.path("nice"), "-5");
        round_trip(live, &sleeper.path("nice"), "-1");
        round_trip(live, &sleeper.path("scheduler"), "fifo 10");
        round_trip(live, &sleeper.path("scheduler"), "rr 99");
        round_trip(live, &sleeper.path("scheduler"), "batch");
        assert_eq!(refused(live, &affinity, Some("8000")).0, Cause::Invalid);
        assert_eq!(refused(live, &sleeper.path("nice"), Some("20")).0, Cause::Invalid);
        let pid = sleeper.0.id();
        let (cause, reason) = refused(live, &format!("process/{pid}@1/{pid}/nice"), Some("1"));
        assert!(cause == Cause::Gone && reason.contains("another process"), "{reason}");
        let other_thread = affinity.replace(&format!("/{pid}/"), "/1/");
        assert_eq!(refused(live, &other_thread, Some("0")).0, Cause::Gone, "a thread of someone else");
        sleeper.0.kill().unwrap();
        sleeper.0.wait().unwrap();
        let (cause, reason) = refused(live, &affinity, Some("0"));
        assert!(cause == Cause::Gone && reason.contains("has ended"), "{reason}");
    });
}

/// What a knob had, written back when this goes.
struct PutBack(&'static str, Setting);

impl Drop for PutBack {
    fn drop(&mut self) {
        Live::new().write(&knob(self.0), Some(&self.1)).unwrap_or_else(|refusal| eprintln!("{refusal}"));
    }
}

/// Cpus are of no namespace: this one is the machine's.
#[test]
fn a_cpus_latency_comes_back_as_it_was() {
    within("machine::a_cpus_latency_comes_back_as_it_was", |live| {
        const LATENCY: &str = "cpu/0/resume-latency-us";
        let before = match live.read(&knob(LATENCY)) {
            Err(refusal) if refusal.cause == Cause::Unsupported => return eprintln!("not tried: {refusal}"),
            found => found.unwrap().unwrap(),
        };
        let _put_back = PutBack(LATENCY, before);
        for text in ["n/a", "20", "0"] {
            write(live, LATENCY, Some(text));
            assert_eq!(read(live, LATENCY).as_deref(), Some(text));
        }
        for odd in ["-1", "2147483647", "many", ""] {
            assert_eq!(refused(live, LATENCY, Some(odd)).0, Cause::Invalid, "'{odd}'");
        }
        assert_eq!(refused(live, LATENCY, None).0, Cause::Invalid);
        let (cause, reason) = refused(live, "cpu/4095/resume-latency-us", Some("n/a"));
        assert!(cause == Cause::Gone && reason.contains("there is no cpu 4095"), "{reason}");
    });
}

#[test]
fn a_service_that_nobody_manages_says_so() {
    within("machine::a_service_that_nobody_manages_says_so", |live| {
        assert_eq!(read(live, "service/no-such-daemon-here"), None);
        assert_eq!(refused(live, "service/no-such-daemon-here", Some("stopped")).0, Cause::Gone);
        let _sleeper = Sleeper::start();
        assert_eq!(read(live, "service/sleep").as_deref(), Some("running"));
        let (cause, reason) = refused(live, "service/sleep", Some("stopped"));
        assert!(
            cause == Cause::Unsupported && reason.contains("sleep runs, but neither systemd"),
            "{reason}"
        );
        assert_eq!(refused(live, "service/--now", Some("stopped")).0, Cause::Invalid);
    });
}

//! Each knob's command and the command that undoes it.

use super::*;
use crate::facts::{Queue, Thread};

fn facts() -> Facts {
    let queue = |index: u32| Queue {
        index,
        irq: Some(40 + index),
        napi: Some(8193 + index),
        napi_thread: Some(Thread { tid: 900 + index, scheduler: "other".to_owned(), ..Thread::default() }),
        ..Queue::default()
    };
    let nic = Nic {
        name: "ens1".to_owned(),
        bus: Some("0000:17:00.0".to_owned()),
        queues: (0..4).map(queue).collect(),
        ..Nic::default()
    };
    Facts { nics: vec![nic], ..Facts::default() }
}

#[test]
fn every_knob_has_a_command_and_one_that_undoes_it() {
    let facts = facts();
    let check = |path: &str, have: &str, want: &str, command: &str, undo: &str| {
        let setting = |text: &str| (text != "-").then(|| Setting::new(text));
        let (have, want) = (setting(have), setting(want));
        let knob: Knob = path.parse().expect(path);
        assert_eq!(shell(&facts, &knob, want.as_ref(), have.as_ref()), command, "{path}");
        assert_eq!(shell(&facts, &knob, have.as_ref(), want.as_ref()), undo, "{path}, back");
    };
    check(
        "sysctl/net.core.busy_poll",
        "0",
        "50",
        "sysctl -w net.core.busy_poll=50",
        "sysctl -w net.core.busy_poll=0",
    );
    check(
        "sysctl/net.ipv4.tcp_rmem",
        "-",
        "4096 131072 6291456",
        "sysctl -w net.ipv4.tcp_rmem='4096 131072 6291456'",
        "# net.ipv4.tcp_rmem has no value to go back to",
    );
    check(
        "service/irqbalance",
        "running",
        "stopped",
        "systemctl stop irqbalance",
        "systemctl start irqbalance",
    );
    check(
        "cgroup/lane/cpuset.cpus",
        "0-3",
        "2",
        "echo 2 > /sys/fs/cgroup/lane/cpuset.cpus",
        "echo 0-3 > /sys/fs/cgroup/lane/cpuset.cpus",
    );
    let file = "/sys/devices/system/cpu/cpu3/power/pm_qos_resume_latency_us";
    let knob = "cpu/3/resume-latency-us";
    check(knob, "0", "n/a", &format!("echo n/a > {file}"), &format!("echo 0 > {file}"));
    check(knob, "-", "20", &format!("echo 20 > {file}"), "# what cpu 3 had is not known");
    check("process/8@5/9/affinity", "0-3", "2", "taskset -pc 2 9", "taskset -pc 0-3 9");
    check("process/8@5/9/nice", "0", "-5", "renice -n -5 -p 9", "renice -n 0 -p 9");
    check("process/8@5/9/scheduler", "other", "fifo 10", "chrt --fifo --pid 10 9", "chrt --other --pid 0 9");
    check(
        "rule/inet/49001",
        "-",
        "from 10.0.0.1 lookup 49001",
        "ip rule add pref 49001 from 10.0.0.1 lookup 49001",
        "ip rule del pref 49001",
    );
    check(
        "rule/inet6/49001",
        "-",
        "from 2001:db8::1 lookup 49001",
        "ip -6 rule add pref 49001 from 2001:db8::1 lookup 49001",
        "ip -6 rule del pref 49001",
    );
    check(
        "route/inet/49001/default",
        "-",
        "via 10.0.0.254 dev ens1",
        "ip route add default via 10.0.0.254 dev ens1 table 49001",
        "ip route del default table 49001",
    );
    check(
        "route/inet/49001/default",
        "dev x",
        "dev ens1",
        "ip route replace default dev ens1 table 49001",
        "ip route replace default dev x table 49001",
    );
    check(
        "nic/ens1/channels",
        "combined 4",
        "combined 8",
        "ethtool -L ens1 combined 8",
        "ethtool -L ens1 combined 4",
    );
    check(
        "nic/ens1/rings",
        "rx 512 tx 512",
        "rx 1024 tx 512",
        "ethtool -G ens1 rx 1024 tx 512",
        "ethtool -G ens1 rx 512 tx 512",
    );
    check(
        "nic/ens1/feature/hw-tc-offload",
        "off",
        "on",
        "ethtool -K ens1 hw-tc-offload on",
        "ethtool -K ens1 hw-tc-offload off",
    );
    check(
        "nic/ens1/flag/fw-lldp-agent",
        "on",
        "off",
        "ethtool --set-priv-flags ens1 fw-lldp-agent off",
        "ethtool --set-priv-flags ens1 fw-lldp-agent on",
    );
    check(
        "nic/ens1/devlink/tc1_inline_fd",
        "false",
        "true",
        "devlink dev param set pci/0000:17:00.0 name tc1_inline_fd value true cmode runtime",
        "devlink dev param set pci/0000:17:00.0 name tc1_inline_fd value false cmode runtime",
    );
    check(
        "nic/ens1/coalesce",
        "rx-usecs 50",
        "rx-usecs 0",
        "ethtool -C ens1 rx-usecs 0",
        "ethtool -C ens1 rx-usecs 50",
    );
    check(
        "nic/ens1/queue/3/coalesce",
        "rx-usecs 5",
        "rx-usecs 0",
        "ethtool -Q ens1 queue_mask 0x8 --coalesce rx-usecs 0",
        "ethtool -Q ens1 queue_mask 0x8 --coalesce rx-usecs 5",
    );
    check(
        "nic/ens1/queue/33/coalesce",
        "-",
        "rx-usecs 0",
        "ethtool -Q ens1 queue_mask 0x200000000 --coalesce rx-usecs 0",
        "# queue 33 goes when there are fewer, or its value is not known",
    );
    check("nic/ens1/indirection", "equal 4", "equal 2", "ethtool -X ens1 equal 2", "ethtool -X ens1 equal 4");
    check(
        "nic/ens1/indirection",
        "table 0 0 1",
        "start 2 equal 1",
        "ethtool -X ens1 start 2 equal 1",
        "ethtool -X ens1 default  # if the table was the driver's own; ethtool has no words for others",
    );
    check(
        "nic/ens1/rss-context/4-7",
        "-",
        "equal 4",
        "ethtool -X ens1 context new start 4 equal 4",
        "ethtool -X ens1 context N delete  # N: the one over queues 4-7",
    );
    check(
        "nic/ens1/ntuple/1023",
        "-",
        "flow-type tcp4 dst-port 6379 action 4",
        "ethtool -N ens1 flow-type tcp4 dst-port 6379 action 4 loc 1023",
        "ethtool -N ens1 delete 1023",
    );
    check(
        "nic/ens1/ntuple/9",
        "-",
        "flow-type tcp4 dst-port 1 context 4-7",
        "ethtool -N ens1 flow-type tcp4 dst-port 1 context N loc 9  # N: the one over queues 4-7",
        "ethtool -N ens1 delete 9",
    );
    check(
        "nic/ens1/qdisc/root",
        "mq",
        "mqprio num_tc 2 map 0 1 queues 2@0 4@2 hw 1 mode channel",
        "tc qdisc replace dev ens1 root handle e7: mqprio num_tc 2 map 0 1 queues 2@0 4@2 hw 1 mode channel",
        "tc qdisc del dev ens1 root",
    );
    check(
        "nic/ens1/qdisc/clsact",
        "-",
        "clsact",
        "tc qdisc add dev ens1 clsact",
        "tc qdisc del dev ens1 clsact",
    );
    check(
        "nic/ens1/class/e7:10",
        "-",
        "parent e7: htb rate 1Gbit ceil 1Gbit",
        "tc class add dev ens1 parent e7: classid e7:10 htb rate 1Gbit ceil 1Gbit",
        "tc class del dev ens1 classid e7:10",
    );
    check(
        "nic/ens1/qdisc/e7:10",
        "-",
        "fq",
        "tc qdisc replace dev ens1 parent e7:10 fq",
        "tc qdisc del dev ens1 parent e7:10",
    );
    check(
        "nic/ens1/filter/ingress/49001",
        "-",
        "protocol ip flower ip_proto tcp dst_port 6379 skip_sw hw_tc 1",
        "tc filter add dev ens1 ingress pref 49001 protocol ip flower ip_proto tcp dst_port 6379 skip_sw hw_tc 1",
        "tc filter del dev ens1 ingress pref 49001",
    );
    check(
        "nic/ens1/filter/egress/49001",
        "-",
        "protocol all bpf queue 2 priority e7:10 tcp src_ip 10.0.0.1 src_port 6379",
        "tc filter add dev ens1 egress pref 49001 protocol ip flower ip_proto tcp src_ip 10.0.0.1 src_port 6379 action \
         skbedit queue_mapping 2 priority e7:10  # and for ipv6",
        "tc filter del dev ens1 egress pref 49001",
    );
    check(
        "nic/ens1/queue/3/irq",
        "0-3",
        "2",
        "echo 2 > /proc/irq/43/smp_affinity_list",
        "echo 0-3 > /proc/irq/43/smp_affinity_list",
    );
    check(
        "nic/ens1/queue/9/irq",
        "-",
        "2",
        "echo 2 > /proc/irq/N/smp_affinity_list  # N: the interrupt of queue 9",
        "# queue 9 goes when there are fewer, or its value is not known",
    );
    check(
        "nic/ens1/rx/3/rps_cpus",
        "",
        "2-3",
        "echo c > /sys/class/net/ens1/queues/rx-3/rps_cpus",
        "echo 0 > /sys/class/net/ens1/queues/rx-3/rps_cpus",
    );
    check(
        "nic/ens1/rx/3/rps_flow_cnt",
        "0",
        "4096",
        "echo 4096 > /sys/class/net/ens1/queues/rx-3/rps_flow_cnt",
        "echo 0 > /sys/class/net/ens1/queues/rx-3/rps_flow_cnt",
    );
    check(
        "nic/ens1/tx/3/xps_cpus",
        "3",
        "",
        "echo 0 > /sys/class/net/ens1/queues/tx-3/xps_cpus",
        "echo 8 > /sys/class/net/ens1/queues/tx-3/xps_cpus",
    );
    check(
        "nic/ens1/tx/3/xps_rxqs",
        "",
        "3",
        "echo 8 > /sys/class/net/ens1/queues/tx-3/xps_rxqs",
        "echo 0 > /sys/class/net/ens1/queues/tx-3/xps_rxqs",
    );
    check(
        "nic/ens1/napi/defer-hard-irqs",
        "0",
        "2",
        "echo 2 > /sys/class/net/ens1/napi_defer_hard_irqs",
        "echo 0 > /sys/class/net/ens1/napi_defer_hard_irqs",
    );
    check(
        "nic/ens1/napi/gro-flush-timeout",
        "0",
        "50000",
        "echo 50000 > /sys/class/net/ens1/gro_flush_timeout",
        "echo 0 > /sys/class/net/ens1/gro_flush_timeout",
    );
    check(
        "nic/ens1/threaded",
        "0",
        "1",
        "echo 1 > /sys/class/net/ens1/threaded",
        "echo 0 > /sys/class/net/ens1/threaded",
    );
    check(
        "nic/ens1/queue/3/napi/threaded",
        "0",
        "1",
        "ynl --family netdev --do napi-set --json '{\"id\": 8196, \"threaded\": 1}'",
        "ynl --family netdev --do napi-set --json '{\"id\": 8196, \"threaded\": 0}'",
    );
    check(
        "nic/ens1/queue/3/napi-thread",
        "-",
        "cpus 2 other",
        "taskset -pc 2 903",
        "# the thread of queue 3 ends with its polling",
    );
    check(
        "nic/ens1/queue/3/napi-thread",
        "cpus 0-3 other",
        "cpus 2 fifo 50",
        "taskset -pc 2 903; chrt --fifo --pid 50 903",
        "taskset -pc 0-3 903",
    );
}

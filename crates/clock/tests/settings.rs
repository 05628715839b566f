//! Settings of the kernel that programs make are times and rates of their own clock.

use crate::common::{Dilation, Ran, native};

/// Runs a script in a network namespace of its own, with `lo` up.
fn script(dilation: Option<&Dilation>, text: &str) -> Ran {
    let text = format!("ip link set lo up; {text}");
    let argv = ["unshare", "-n", "sh", "-ec", &text];
    dilation.map_or_else(|| native(argv), |d| d.run(argv))
}

/// Natively and dilated a script prints the same: what it sets, it reads.
fn reads_what_it_sets(text: &str) {
    reads_what_it_sets_at(&["10", "1.5", "7"], text);
}

fn reads_what_it_sets_at(tdfs: &[&str], text: &str) {
    let natively = script(None, text);
    assert!(natively.status.success(), "{natively:?}");
    for tdf in tdfs {
        let ran = script(Some(&Dilation::new(tdf)), text);
        assert!(ran.status.success(), "TDF {tdf}: {ran:?}");
        assert_eq!(ran.stdout, natively.stdout, "TDF {tdf}");
    }
}

/// The kernel's own words on what a script set under dilation.
fn truth(tdf: &str, set: &str, tell: &str) -> String {
    let dir = tempfile::tempdir().unwrap();
    let (go, done) = (dir.path().join("go"), dir.path().join("done"));
    rustix::fs::mknodat(rustix::fs::CWD, &go, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    rustix::fs::mknodat(rustix::fs::CWD, &done, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    let text = format!("ip link set lo up; {set}; echo $$ >{}; read x <{}", done.display(), go.display());
    let dilation = Dilation::new(tdf);
    let command = dilation.command(["unshare", "-n", "sh", "-ec", &text]);
    let running = std::thread::spawn(move || crate::common::run(command));
    let pid = std::fs::read_to_string(&done).unwrap();
    let tell = format!("nsenter -t {} -n sh -ec '{tell}'", pid.trim());
    let told = native(["sh", "-ec", &tell]);
    std::fs::write(&go, "\n").unwrap();
    assert!(running.join().unwrap().status.success());
    assert!(told.status.success(), "{told:?}");
    told.stdout
}

#[test]
fn traffic_control_reads_what_it_sets() {
    // Rates that are whole bytes per second of real time, too: there are no others.
    reads_what_it_sets_at(
        &["10", "2.5"],
        "tc qdisc add dev lo root handle 7: tbf rate 1mbit burst 5kb latency 2s
         tc qdisc show dev lo; tc qdisc del dev lo root
         tc qdisc add dev lo root handle 7: tbf rate 3gbit burst 5mb latency 20ms
         tc qdisc show dev lo; tc qdisc del dev lo root
         tc qdisc add dev lo root handle 1: htb default 10
         tc class add dev lo parent 1: classid 1:10 htb rate 1mbit ceil 3mbit burst 5k cburst 6k
         tc class show dev lo",
    );
}

#[test]
fn the_kernel_has_it_in_real_time() {
    let set = "tc qdisc add dev lo root handle 7: tbf rate 1mbit burst 5kb latency 2s";
    let told = truth("10", set, "tc qdisc show dev lo");
    assert!(told.contains("tbf") && told.contains("rate 100Kbit") && told.contains("burst 5Kb"), "{told}");
}

#[test]
fn nftables_read_what_they_set() {
    let text = "nft add table inet t
         nft add chain inet t o '{ type filter hook output priority 0; policy accept; }'
         nft add rule inet t o icmp type echo-request limit rate over 10/second burst 1 packets drop
         nft add rule inet t o limit rate 3 mbytes/minute accept
         nft add set inet t s '{ type ipv4_addr; flags timeout; timeout 90s; gc-interval 7s; }'
         nft add set inet t d '{ type ipv4_addr; flags dynamic, timeout; timeout 1m; }'
         nft add rule inet t o update @d '{ ip daddr timeout 30s limit rate 5/second }'
         nft list table inet t";
    reads_what_it_sets(text);
    let told = truth("10", text, "nft list table inet t");
    assert!(
        told.contains("timeout 15m") && told.contains("gc-interval 1m10s") && told.contains("timeout 5m"),
        "{told}"
    );
}

#[test]
fn files_of_proc_read_what_is_written() {
    let text = "cd /proc/sys/net/ipv4
         echo 4 > tcp_keepalive_time; cat tcp_keepalive_time; printf 3 > tcp_keepalive_intvl; cat tcp_keepalive_intvl
         sysctl -w net.ipv4.tcp_fin_timeout=33 net.ipv4.neigh.lo.retrans_time_ms=1240; cat tcp_fin_timeout
         cat neigh/lo/retrans_time_ms; echo 0 > tcp_keepalive_probes || echo refused; cat tcp_retries2
         python3 -c 'f = open(\"/proc/sys/net/ipv4/ipfrag_time\", \"r+\"); f.write(\"41\"); f.seek(0); print(f.read())'
         echo x > ipfrag_time || echo refused; echo out";
    reads_what_it_sets(text);
    let told =
        truth("10", "echo 4 > /proc/sys/net/ipv4/tcp_keepalive_time", "cat /proc/sys/net/ipv4/tcp_keepalive_time");
    assert_eq!(told, "40\n");
}

#[test]
fn links_and_addresses_read_what_they_set() {
    reads_what_it_sets(
        "ip link add br7 type bridge; ip -d link show br7 | grep -o 'ageing_time [0-9]*'
         ip link set br7 type bridge ageing_time 7000 mcast_query_interval 300
         ip -d link show br7 | grep -o 'ageing_time [0-9]*\\|mcast_query_interval [0-9]*'
         ip link add vx7 type vxlan id 7 dev lo dstport 4789; ip -d link show vx7 | grep -o 'ageing [0-9]*'
         ip addr add 10.9.9.1/24 dev lo valid_lft 100 preferred_lft 50
         ip addr show dev lo | grep -c 'valid_lft [19][09]*sec preferred_lft [45][09]sec'",
    );
    let told = truth("10", "ip link add vx7 type vxlan id 7 dev lo dstport 4789", "ip -d link show vx7");
    assert!(told.contains("ageing 3000"), "{told}");
}

#[test]
fn who_only_looks_up_names_is_spared_the_filter() {
    let filters = |python: &str| {
        let script = format!(
            "import socket\n{python}\nprint([l.split()[1] for l in open('/proc/self/status') if 'p_filters' in l][0])"
        );
        let ran = Dilation::new("10").run(["python3", "-c", &script]);
        assert!(ran.status.success(), "{ran:?}");
        ran.stdout.trim().parse::<u32>().unwrap()
    };
    let (none, names) = (filters(""), filters("socket.getaddrinfo('localhost', 80)"));
    assert_eq!(names, none, "getaddrinfo asks by netlink, but tells no times");
    assert_eq!(filters("socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)"), none + 1);
    assert_eq!(filters("open('/proc/sys/net/ipv4/tcp_fin_timeout').read()"), none);
}

#[test]
fn listings_of_sockets_are_in_virtual_time() {
    // A connection of two sockets on `lo`; one has asked for keepalive after an hour, its own, and is listed with it.
    let python = "
import socket
server = socket.create_server(('127.0.0.1', 0))
near = socket.create_connection(server.getsockname())
near.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
near.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 1000)
far = server.accept()[0]
port = '%04X' % near.getsockname()[1]
for line in open('/proc/net/tcp').read().splitlines()[1:]:
    parts = line.split()
    if parts[1].endswith(':' + port):
        kind, when = parts[5].split(':')
        print(len(when), kind, round(int(when, 16) / 100, -2), len(parts))
";
    for ran in [native(["python3", "-c", python]), Dilation::new("10").run(["python3", "-c", python])] {
        assert!(ran.status.success(), "{ran:?}");
        assert_eq!(ran.stdout, "8 02 1000.0 17\n", "{ran:?}");
    }
}

#[test]
fn rules_of_iptables_read_what_they_set() {
    for iptables in ["iptables-nft", "iptables-legacy", "ip6tables-legacy"] {
        if !script(None, &format!("{iptables} -S")).status.success() {
            continue;
        }
        reads_what_it_sets(&format!(
            "{iptables} -A INPUT -p tcp -m limit --limit 7/minute --limit-burst 3 -j ACCEPT
             {iptables} -A INPUT -p udp --dport 9 -m limit --limit 5/second -j DROP
             {iptables} -S; {iptables} -D INPUT 1; {iptables} -S"
        ));
        let set = format!("{iptables} -A INPUT -m limit --limit 50/second -j ACCEPT");
        let told = truth("10", &set, &format!("{iptables} -S"));
        assert!(told.contains("--limit 5/sec"), "{iptables}: {told}");
    }
}

#[test]
fn routes_neighbours_and_spanning_trees_read_what_they_set() {
    reads_what_it_sets(
        "ip route add 10.7.0.0/24 dev lo rto_min 300ms rtt 40ms; ip route show 10.7.0.0/24
         ip ntable change name arp_cache dev lo base_reachable 21000 gc_stale 70000 delay_probe 6000 retrans 1600
         ip ntable show name arp_cache dev lo | grep -oE '(base_reachable|retrans|gc_stale|delay_probe) [0-9]+'",
    );
    // Longer times of a tree the kernel does not take.
    reads_what_it_sets_at(
        &["1.5", "5"],
        "ip link add br7 type bridge forward_delay 300 hello_time 100 max_age 600
         ip -d link show br7 | grep -oE '(forward_delay|hello_time|max_age) [0-9]+'",
    );
}

#[test]
fn routes_expire_when_they_are_said_to() {
    let set = "ip link add br7 type bridge; ip link set br7 up; ip -6 route add fd00:77::/64 dev br7 expires 1000";
    // Of whichever seconds have gone by meanwhile, few.
    reads_what_it_sets(&format!("{set}; ip -6 route show fd00:77::/64 | grep -c 'expires \\(99[0-9]\\|1000\\)sec'"));
    let told = truth("10", set, "ip -6 route show fd00:77::/64");
    let seconds = told.split_once("expires ").and_then(|(_, rest)| rest.split_once("sec")).map(|(s, _)| s.parse());
    assert!(matches!(seconds, Some(Ok(9900..=10_000))), "{told}");
}

#[test]
fn sockets_are_listed_with_the_times_that_their_programs_see() {
    let python = "
import re, socket, struct, subprocess, time
server = socket.create_server(('127.0.0.1', 0))
longest, began = 0, time.monotonic()
near = socket.create_connection(server.getsockname())
far = server.accept()[0]
for _ in range(20):
    near.sendall(b'x'); far.recv(1); far.sendall(b'y'); near.recv(1)
    longest, began = max(longest, time.monotonic() - began), time.monotonic()
info = near.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)
said = subprocess.run(['ss', '-tinO', 'sport', '=', ':%d' % near.getsockname()[1]], capture_output=True, text=True)
rtt, rto = (float(re.search(r' %s:([0-9.]+)' % name, said.stdout)[1]) for name in ('rtt', 'rto'))
print(struct.unpack_from('I', info, 68)[0] / 1000, rtt, struct.unpack_from('I', info, 8)[0] / 1000, rto, longest * 1000)
";
    for tdf in ["1", "10"] {
        let ran = script(Some(&Dilation::new(tdf)), &format!("exec python3 -c \"{python}\""));
        assert!(ran.status.success(), "{ran:?}");
        let all: Vec<f64> = ran.stdout.split_whitespace().map(|word| word.parse().unwrap()).collect();
        let [rtt, listed_rtt, rto, listed_rto, longest] = all[..] else { panic!("{ran:?}") };
        // Times in the output of ss are rounded.
        assert!((rtt - listed_rtt).abs() < 0.01 && (rto - listed_rto).abs() <= 1.0, "TDF {tdf}: {ran:?}");
        // A mean of round trips is no longer than the longest that the program saw.
        assert!(rtt > 0.0 && rtt < longest + 0.01, "TDF {tdf}: {ran:?}");
    }
}

/// Also of what this machine's kernel does not have and refuses.
#[test]
fn what_is_not_known_to_be_in_virtual_time_is_told() {
    let told = |command: &str| {
        let dilation = Dilation::new("10");
        script(Some(&dilation), &format!("{command} || true"));
        dilation.injector.untrue_settings().into_iter().map(|setting| setting.what).collect::<Vec<_>>()
    };
    for (queue, told_of) in [
        ("pie target 20ms", "tc pie (its gains"),
        ("fq_pie", "tc fq_pie (its gains"),
        ("hhf", "tc hhf ("),
        ("etf clockid CLOCK_TAI delta 300000 skip_sock_check", "tc etf ("),
        ("sfq perturb 10", "the period of tc sfq"),
        ("red limit 60kb avpkt 1000 bandwidth 1mbit", "tc red ("),
        ("foo", "a queue of tc that is not known here"),
    ] {
        let all = told(&format!("tc qdisc add dev lo root {queue}"));
        assert!(all.len() == 1 && all[0].starts_with(told_of), "{queue}: {all:?}");
    }
    for queue in ["sfq", "prio", "pfifo limit 9", "codel", "fq", "fq_codel", "netem delay 5ms", "cake", "clsact"] {
        let place = if queue == "clsact" { "" } else { "root" };
        let all = told(&format!("tc qdisc add dev lo {place} {queue}"));
        assert!(all.is_empty(), "{queue}: {all:?}");
    }
    let txtime = "import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(socket.SOL_SOCKET, 61, bytes([1] + 7 * [0])); print(s.getsockopt(socket.SOL_SOCKET, 61))";
    let all = told(&format!("python3 -c '{txtime}'"));
    assert!(all.len() == 1 && all[0].starts_with("SO_TXTIME ("), "{all:?}");
}

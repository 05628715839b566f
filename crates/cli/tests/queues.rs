//! Queues that programs of a node give their interfaces (tc). Needs root, two cores and crun or runc, as every run
//! does, python3 and tc.

use crate::support::Lab;

/// A queue lets one of two frames pass, and the other after 31 ms: 114 bytes each, 2,500 a second, 150 at once. Over
/// the loopback, of 142 bytes, after 54 ms. The link behind the former delays by 30 ms.
const QUEUES: &str = r#"
name: queues
tdf: 1
machines: { m: { speed: 0.3, memory: 128MiB } }
nodes:
  b: { machine: m, run: python3 /recv.py, files: { /recv.py: recv.py } }
  a: { machine: m, run: python3 /send.py, files: { /send.py: send.py } }
links: [{ from: a, to: b, bandwidth: 100Mbit/s, delay: 30ms }]
ends: { exited: [a], limit: 60s }
"#;

const RECEIVER: &str = r#"
import socket, struct, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(('', 5000))
while True:
    which, sent = struct.unpack('id', s.recv(2000)[:16])
    print(which, '%.3f' % (1e3 * (time.monotonic() - sent)), flush=True)
"#;

/// Computes for a while before it sends, so that it is ahead of the run when it does.
const SENDER: &str = r#"
import socket, struct, subprocess, time
for interface in 'eth0', 'lo':
    queue = 'tc qdisc add dev %s root tbf rate 20kbit burst 150 latency 5s' % interface
    subprocess.run(queue.split(), check=True)
time.sleep(1)
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
own = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
own.bind(('127.0.0.1', 6000))
def compute():
    time.sleep(0.25)
    until = time.monotonic() + 0.02
    while time.monotonic() < until: pass
    return time.monotonic()
for n in range(12):
    compute()
    for which in range(2):
        s.sendto(struct.pack('id', which, time.monotonic()).ljust(72), ('b', 5000))
    began = compute()
    for which in range(2): s.sendto(b'x' * 100, ('127.0.0.1', 6000))
    for which in range(2): own.recv(200)
    print('%.3f' % (1e3 * (time.monotonic() - began)), flush=True)
time.sleep(0.2)
"#;

#[test]
fn what_a_queue_of_a_node_holds_back_counts_by_the_node_s_clock_and_adds_to_the_link() {
    let lab = Lab::new(QUEUES);
    for (file, text) in [("recv.py", RECEIVER), ("send.py", SENDER)] {
        std::fs::write(lab.path().join("lab").join(file), text).unwrap();
    }
    let run = lab.diorama(&["run", "lab", "--out", "runs/queues"]);
    assert_eq!(run.code, 0, "{}{}", run.stdout, run.stderr);
    let log = |node: &str| lab.read(&format!("runs/queues/nodes/{node}/stdout.log"));
    let (received, own) = (log("b"), log("a"));
    let ms = |text: &str| text.parse::<f64>().unwrap_or_else(|_| panic!("{text}"));
    let way = received.lines().filter_map(|line| line.strip_prefix("1 ")).map(ms);
    for (what, least, took) in [("link", 61.0, way.collect::<Vec<_>>()), ("lo", 53.5, own.lines().map(ms).collect())] {
        assert_eq!(took.len(), 12, "{what}: {received}{own}");
        let mut sorted = took.clone();
        sorted.sort_by(f64::total_cmp);
        // None is early, but for a datagram of which its receiver cannot tell when it came (docs/limits-cpu.md). That
        // one is late, the machine may do.
        assert!(sorted[1] >= least && sorted[5] <= least + 2.0, "{what}: {took:?}");
    }
}

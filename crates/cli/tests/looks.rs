//! Programs that spin until they find a message see it when programs do that sleep until one comes. Needs root, two
//! cores and crun or runc, as every run does, and gcc.

use crate::support::Lab;
use record::CheckName;

/// Both ends of a conversation of one byte at a time: it says how the other one waits for the next, by sleeping (b) or
/// by looking again and again: by polls (p, e, s), or reads (r). The client prints how long each answer took, us;
/// `prog server`, or `prog ask` and whom.
const PONG: &str = r#"
#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
static int s, e;
static char receive(char how)
{
	char byte;
	struct pollfd p = { s, POLLIN, 0 };
	struct epoll_event event = { .events = EPOLLIN };
	for (int found = how == 'b'; !found;) {
		fd_set set;
		struct timeval none = { 0, 0 };
		FD_ZERO(&set);
		FD_SET(s, &set);
		found = how == 'p' ? poll(&p, 1, 0) :
			how == 'e' ? epoll_wait(e, &event, 1, 0) :
			how == 's' ? select(s + 1, &set, 0, 0, &none) :
				     recv(s, &byte, 1, MSG_DONTWAIT | MSG_PEEK) == 1;
	}
	return read(s, &byte, 1) == 1 ? byte : 0;
}
int main(int argc, char **argv)
{
	static const char ways[] = "bpesr";
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons(7) };
	int one = 1, listener = socket(AF_INET, SOCK_STREAM, 0);
	if (!strcmp(argv[1], "server")) {
		bind(listener, (void *)&at, sizeof at);
		listen(listener, 1);
		s = accept(listener, 0, 0);
	} else {
		memcpy(&at.sin_addr, gethostbyname(argv[2])->h_addr, 4);
		s = listener;
		if (connect(s, (void *)&at, sizeof at))
			return 1;
	}
	struct epoll_event event = { .events = EPOLLIN };
	setsockopt(s, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
	e = epoll_create1(0);
	epoll_ctl(e, EPOLL_CTL_ADD, s, &event);
	if (!strcmp(argv[1], "server"))
		for (char how = 'b'; (how = receive(how));)
			if (write(s, &how, 1) != 1)
				return 1;
	setvbuf(stdout, 0, _IOFBF, 1 << 16);
	for (int i = 0; s == listener && i < 5 * ROUNDS; i++) {
		long long sent = now();
		char how = ways[i % 5];
		if (write(s, &ways[(i + 1) % 5], 1) != 1 || !receive(how))
			return 1;
		printf("%c %lld\n", how, now() - sent);
	}
	return 0;
}
"#;

const PINGPONG: &str = r#"
name: pingpong
tdf: 10
machines: { m: { speed: 0.2, memory: 64MiB } }
nodes:
  server: { machine: m, run: /prog server, files: { /prog: prog }, ready: { tcp: 7 } }
  client: { machine: m, run: /prog ask server, files: { /prog: prog }, after: [server] }
links: [{ from: server, to: client, delay: 1ms }]
ends: { exited: [client], limit: 30s }
"#;

/// So many of each way to wait.
const ROUNDS: usize = 200;

fn median(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}

#[test]
fn who_spins_sees_messages_when_who_sleeps_does() {
    let lab = Lab::new(PINGPONG);
    lab.compile(PONG, "prog", &["-O1", &format!("-DROUNDS={ROUNDS}")]);
    let run = lab.diorama(&["run", "lab", "--out", "runs/pingpong"]);
    assert_eq!(run.code, 0, "{}{}", run.stdout, run.stderr);
    let log = lab.read("runs/pingpong/nodes/client/stdout.log");
    let took = |way: &str| -> Vec<f64> {
        let of = |line: &str| line.split_once(' ').filter(|(how, _)| *how == way)?.1.parse::<f64>().ok();
        log.lines().filter_map(of).collect()
    };
    let [asleep, poll, epoll, select, read] = ["b", "p", "e", "s", "r"].map(|way| {
        let all = took(way);
        assert_eq!(all.len(), ROUNDS, "{way}: {log}");
        median(all)
    });
    println!("us: asleep {asleep}, by poll {poll}, epoll {epoll}, select {select}, read {read}");
    assert!((2_000.0..4_000.0).contains(&asleep), "{asleep} us");
    for (way, spinning) in [("poll", poll), ("epoll", epoll), ("select", select)] {
        let off = spinning / asleep - 1.0;
        assert!((-SLACK..SLACK).contains(&off), "by {way} a round trip took {spinning} us, asleep {asleep}");
    }
    // Reads are not seen, so what they find late is told.
    let checks = lab.result("pingpong").fidelity.checks;
    let lead = checks.iter().find(|check| check.name == CheckName::ClockLead).unwrap();
    assert!(lead.says.contains(" times at sockets that do not block"), "{}", lead.says);
}

/// How much longer a round trip may take, of its own, for who spins: twice by what a look may be ahead (50 virtual us
/// here, in the mean half of that), and what the looks themselves take.
const SLACK: f64 = 0.1;

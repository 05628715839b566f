//! The programs in this machine's kernel: root, Linux 6.4 with BTF, and `ip`.

use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::fd::AsRawFd;
use std::process::Command;

use diorama_tcp::{Cubic, InitialTimeout};
use host::NetNamespace;
use scale::Tdf;

fn tdf(s: &str) -> Tdf {
    s.parse().unwrap()
}

/// Runs `work` in a network namespace of its own, with an interface that swallows what is sent to 10.0.0.0/8.
fn in_a_namespace<R: Send>(work: impl FnOnce() -> R + Send) -> R {
    let prepared = || {
        for line in [
            "link set lo up",
            "link add sink type veth peer name drain",
            "link set sink up",
            "link set drain up",
            "addr add 10.0.0.1/8 dev sink",
        ] {
            assert!(Command::new("ip").args(line.split(' ')).status().unwrap().success(), "ip {line}");
        }
        work()
    };
    NetNamespace::create().expect("root").enter(prepared).expect("root")
}

const SYSCTL: &str = "/proc/sys/net/ipv4/tcp_congestion_control";

#[test]
fn two_runs_have_a_cubic_each_that_ends_with_them() {
    let ten = Cubic::register(tdf("10")).unwrap();
    let other = Cubic::register(tdf("2.5")).unwrap();
    assert_ne!(ten.name(), other.name());
    in_a_namespace(|| {
        for cubic in [&ten, &other] {
            std::fs::write(SYSCTL, cubic.name()).unwrap();
            assert_eq!(std::fs::read_to_string(SYSCTL).unwrap().trim(), cubic.name());
        }
    });
    let name = ten.name().to_owned();
    drop(ten);
    in_a_namespace(|| {
        std::fs::write(SYSCTL, &name).expect_err("it is gone");
        std::fs::write(SYSCTL, other.name()).expect("the other run's is not");
    });
}

/// Bytes pass a connection under it: every operation is run at least once.
#[test]
fn connections_work_under_it() {
    use std::io::{Read, Write};
    let cubic = Cubic::register(tdf("10")).unwrap();
    in_a_namespace(|| {
        std::fs::write(SYSCTL, cubic.name()).unwrap();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let to = listener.local_addr().unwrap();
        let sender = std::thread::spawn(move || TcpStream::connect(to).unwrap().write_all(&[7; 10_000_000]).unwrap());
        let mut all = Vec::new();
        listener.accept().unwrap().0.read_to_end(&mut all).unwrap();
        sender.join().unwrap();
        assert_eq!(all.len(), 10_000_000);
    });
}

#[test]
fn the_initial_time_out_is_scaled_in_the_runs_namespaces_only() {
    let (cookie, plain) = in_a_namespace(|| {
        let plain = initial_rto();
        let _scaled = InitialTimeout::attach(tdf("10"), &[cookie()]).unwrap();
        // Another run's, with another factor, in other namespaces.
        let _other = InitialTimeout::attach(tdf("20"), &[u64::MAX]).unwrap();
        assert_eq!(initial_rto(), 10.0);
        assert_eq!(in_a_namespace(initial_rto), 1.0, "not this run's namespace");
        (cookie(), plain)
    });
    assert!(cookie != 0 && plain == 1.0);
}

fn cookie() -> u64 {
    let socket = std::net::UdpSocket::bind("0.0.0.0:0").unwrap();
    let mut cookie = 0u64;
    get(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_NETNS_COOKIE, &mut cookie);
    cookie
}

/// The time-out, in s, of a connection whose SYN nobody answers.
fn initial_rto() -> f64 {
    let to = SocketAddr::from((Ipv4Addr::new(10, 0, 0, 2), 80));
    let socket = rustix::net::socket_with(
        rustix::net::AddressFamily::INET,
        rustix::net::SocketType::STREAM,
        rustix::net::SocketFlags::NONBLOCK,
        None,
    );
    let socket = socket.unwrap();
    rustix::net::connect(&socket, &to).expect_err("it is still connecting");
    // SAFETY: all zero is a value of this plain C struct.
    let mut info: libc::tcp_info = unsafe { std::mem::zeroed() };
    get(socket.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_INFO, &mut info);
    f64::from(info.tcpi_rto) / 1e6
}

fn get<T>(socket: i32, level: i32, option: i32, value: &mut T) {
    let mut length = size_of::<T>() as libc::socklen_t;
    // SAFETY: `value` is a plain C type with room for the `length` bytes that the call may write.
    let code = unsafe { libc::getsockopt(socket, level, option, std::ptr::from_mut(value).cast(), &raw mut length) };
    assert_eq!(code, 0, "{}", std::io::Error::last_os_error());
}

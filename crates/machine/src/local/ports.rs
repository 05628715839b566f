//! Ports of this machine's loopback that lead into nodes, for whoever looks at a run from outside: a browser, a
//! debugger, a console of a database.
//!
//! Bytes are carried between two connections: one here, and one in the node's network that ends there as if the node
//! itself had made it. No link is in between, and neither end knows of the other's time.

use std::collections::HashMap;
use std::io;
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use crossbeam_channel::Sender;
use host::NetNamespace;
use host::listening::listener;
use site::{Event, NodeIndex, NodeSetup};

use crate::error::{Error, Result};

/// The most connections by one port at a time; one more is closed at once.
const MOST: usize = 64;
/// How long a node may take to accept one.
const ACCEPT: Duration = Duration::from_secs(1);

/// Ports that this run has taken, before it has made anything.
pub struct TakenPorts(Vec<(TcpListener, Door)>);

/// A port here, and where it leads.
#[derive(Clone, Copy)]
struct Door {
    here: u16,
    node: NodeIndex,
    there: u16,
}

impl TakenPorts {
    /// Takes all that the nodes ask for, or says who has one of them.
    pub fn take(nodes: &[NodeSetup]) -> Result<TakenPorts> {
        let doors = nodes.iter().enumerate().flat_map(|(node, setup)| {
            setup.ports.iter().map(move |&(here, there)| (&setup.name, Door { here, node, there }))
        });
        let take = |(name, door): (&String, Door)| match TcpListener::bind((Ipv4Addr::LOCALHOST, door.here)) {
            Ok(open) => Ok((open, door)),
            Err(e) if e.kind() == io::ErrorKind::AddrInUse => Err(in_use(door.here, name)),
            Err(e) => Err(Error::io(format!("port {} of 127.0.0.1, which is to lead to {name}", door.here))(e)),
        };
        doors.map(take).collect::<Result<_>>().map(TakenPorts)
    }

    /// Lets connections through from now on; the first by each port is told.
    pub fn open(
        self,
        namespaces: &[NetNamespace],
        addresses: &[Option<Ipv4Addr>],
        tell: &Sender<Event>,
    ) -> Result<Ports> {
        let mut ports = Ports { all: Vec::new() };
        for (listening, door) in self.0 {
            let through = Through {
                door,
                namespace: namespaces[door.node].clone(),
                address: addresses[door.node],
                live: Arc::default(),
            };
            let (live, tell, listener) = (through.live.clone(), tell.clone(), listening.try_clone());
            let listener = listener.map_err(Error::io("a port"))?;
            let serve = move || through.serve(&listener, &tell);
            let thread =
                std::thread::Builder::new().name("ports".into()).spawn(serve).map_err(Error::io("a thread"))?;
            ports.all.push(Port { listening, live, thread: Some(thread) });
        }
        Ok(ports)
    }
}

fn in_use(port: u16, node: &str) -> Error {
    let who = listener(port).unwrap_or_else(|| "another program".into());
    Error::machine(
        format!("port {port} of 127.0.0.1, which is to lead to the node `{node}`, is taken by {who}"),
        "end that, or give the node another port in `ports` (`ss -tln` lists those that are taken)",
    )
}

/// The ports of a run, as long as this is there.
pub struct Ports {
    all: Vec<Port>,
}

struct Port {
    listening: TcpListener,
    live: Arc<Mutex<Live>>,
    thread: Option<JoinHandle<()>>,
}

/// The connections by one port, each with its end here and, once there is one, its end in the node.
#[derive(Default)]
struct Live {
    is_closed: bool,
    count: u64,
    ends: HashMap<u64, Vec<TcpStream>>,
    threads: Vec<JoinHandle<()>>,
}

/// All that it takes to carry what comes by a port.
struct Through {
    door: Door,
    namespace: NetNamespace,
    address: Option<Ipv4Addr>,
    live: Arc<Mutex<Live>>,
}

fn lock(live: &Mutex<Live>) -> MutexGuard<'_, Live> {
    live.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Through {
    fn serve(self, listener: &TcpListener, tell: &Sender<Event>) {
        let through = Arc::new(self);
        let mut told = false;
        loop {
            let outside = listener.accept();
            let mut live = lock(&through.live);
            if live.is_closed {
                return;
            }
            live.threads.retain(|thread| !thread.is_finished());
            let Ok((outside, _)) = outside else {
                drop(live);
                // There are no descriptors, or who came has gone.
                std::thread::sleep(Duration::from_millis(50));
                continue;
            };
            if live.ends.len() >= MOST {
                continue;
            }
            let Ok(end) = outside.try_clone() else { continue };
            live.count += 1;
            let number = live.count;
            live.ends.insert(number, vec![end]);
            let carry = {
                let through = through.clone();
                move || through.carry(number, outside)
            };
            match std::thread::Builder::new().name("port".into()).spawn(carry) {
                Ok(thread) => live.threads.push(thread),
                Err(_) => drop(live.ends.remove(&number)),
            }
            drop(live);
            if !told {
                told = true;
                let Door { here, node, there } = through.door;
                let _ = tell.send(Event::FromOutside { node, here, there });
            }
        }
    }

    /// Carries bytes in both directions until both have ended.
    fn carry(&self, number: u64, outside: TcpStream) {
        if let Ok(inside) = self.connect() {
            let known = {
                let mut live = lock(&self.live);
                let end = inside.try_clone().ok().filter(|_| !live.is_closed);
                end.zip(live.ends.get_mut(&number)).map(|(end, ends)| ends.push(end)).is_some()
            };
            if known {
                std::thread::scope(|scope| {
                    scope.spawn(|| one_way(&inside, &outside));
                    one_way(&outside, &inside);
                });
            }
        }
        lock(&self.live).ends.remove(&number);
    }

    /// A connection to the node's own address or, where nobody listens there, its loopback, made in its network.
    fn connect(&self) -> io::Result<TcpStream> {
        let connect = || {
            let all = self.address.into_iter().chain([Ipv4Addr::LOCALHOST]);
            let mut last = Err(io::ErrorKind::ConnectionRefused.into());
            for address in all {
                last = TcpStream::connect_timeout(&SocketAddr::from((address, self.door.there)), ACCEPT);
                if last.is_ok() {
                    break;
                }
            }
            last
        };
        let stream = self.namespace.enter(connect).map_err(io::Error::other)??;
        stream.set_nodelay(true)?;
        Ok(stream)
    }
}

/// Carries what comes from one end to the other, and then the end of it.
fn one_way(mut from: &TcpStream, mut to: &TcpStream) {
    // Whichever end breaks, the other hears of it.
    if io::copy(&mut from, &mut to).is_err() {
        let _ = from.shutdown(Shutdown::Both);
    }
    let _ = to.shutdown(Shutdown::Write);
}

impl Drop for Ports {
    fn drop(&mut self) {
        for port in &mut self.all {
            let threads = {
                let mut live = lock(&port.live);
                live.is_closed = true;
                live.ends.values().flatten().for_each(|end| drop(end.shutdown(Shutdown::Both)));
                std::mem::take(&mut live.threads)
            };
            // Whoever waits in accept is woken by this.
            let _ = rustix::net::shutdown(&port.listening, rustix::net::Shutdown::Both);
            // They hold the node's network.
            for thread in port.thread.take().into_iter().chain(threads) {
                drop(thread.join());
            }
        }
    }
}

//! A site over a byte stream: requests one way, answers and events the other, in CBOR (RFC 8949), one after the other.
//!
//! [`serve`] stands where the machine is, [`RemoteSite`] where the run is. Neither knows what carries the bytes. Both
//! begin with a line that says the program's release and the [version](VERSION) of the interface, and refuse another.

use std::io::{Read, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded, unbounded};
use net::PipeChange;
use scale::RealInstant;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;

use crate::error::{Error, Result};
use crate::hello::greet;
use crate::{
    ClockChange, Closing, Collected, Command, CommandId, Conditions, Event, HardwareChange, NodeIndex, ProgramChange,
    Said, Sample, Setup, Site, SpeedSeen, Start, Stop, Suspended, VisitId, Visits, Written, Zero, visits,
};

/// The version of the interface: raise it with every change of what is asked or answered.
pub const VERSION: u32 = 13;
/// The longest message that is taken from a site, in bytes: more than the 14 MB that ten thousand nodes tell at once.
const LONGEST: u64 = 24 << 20;
/// How often a message is read from at most: up to three times for each of its values, of which a byte may be one that
/// takes many in memory.
const MOST_READS: u64 = 4_000_000;
/// How often a coordinator that has nothing to ask says that it is there.
const BEAT: Duration = Duration::from_secs(1);
/// A coordinator that has said nothing for so long is gone: killed, unplugged, or behind a way that is cut.
const SILENCE: Duration = Duration::from_secs(5);
/// How many requests wait at most while one is carried out.
const WAITING: usize = 64;

/// A call of [`Site`].
#[derive(Clone, Debug, Serialize, Deserialize)]
enum Request {
    Prepare(Box<Setup>),
    CreateNodes,
    ApplyLimits,
    Now,
    StartClock(RealInstant),
    Start(Vec<Start>),
    Stop(NodeIndex, Stop),
    ChangePipes(Vec<(String, PipeChange)>),
    ChangeFlow(usize, net::FlowChange),
    ChangeDisk(NodeIndex, device::Change),
    CutPower(NodeIndex),
    ChangeClock(NodeIndex, ClockChange),
    ChangeHardware(NodeIndex, HardwareChange),
    Pause(NodeIndex, bool),
    Cut(Vec<[NodeIndex; 2]>),
    ChangeProgram(ProgramChange),
    ProgramsRunning(Vec<(NodeIndex, String)>),
    Listening(Vec<(NodeIndex, u16)>),
    /// From here on events are sent, too.
    Events,
    /// From here on what is told to visitors is sent, too.
    Visits,
    /// A visitor's word, which has no answer of its own.
    Visit(VisitId, Said),
    BeginCommand(Command),
    NoteProgramsRun,
    Sample,
    Finish,
    Collect,
    Read(NodeIndex, Written, u64, u64),
    Suspend(Box<Suspended>),
    KeepSpeed(Vec<SpeedSeen>),
    TearDown,
    /// Nothing: the coordinator is there. Without an answer, as a visitor's word.
    Alive,
}

/// A message from a site.
#[derive(Clone, Debug, Serialize, Deserialize)]
enum Message {
    /// The answer to the earliest request that has none yet, in CBOR: what type it has is known to who asked.
    Answer(Result<ByteBuf>),
    Event(Event),
    /// To a visitor.
    Visitor(VisitId, visits::Told),
}

/// Answers requests with what `site` does, until it has been taken down. Where the other side closes the connection, or
/// says nothing for 5 s while nothing is done for it, that is done here.
///
/// # Errors
///
/// If the connection breaks, or the other side is of another release.
pub fn serve(
    site: &mut dyn Site,
    mut from: impl Read + Send + 'static,
    mut to: impl Write + Send + 'static,
    release: &str,
) -> Result<()> {
    greet(&mut from, &mut to, release)?;
    serve_greeted(site, Bounded::new(from), to)
}

/// Likewise to one whose release is known.
pub(crate) fn serve_greeted<R: Read + Send + 'static>(
    site: &mut dyn Site,
    from: Bounded<R>,
    to: impl Write + Send + 'static,
) -> Result<()> {
    let to = Arc::new(Mutex::new(to));
    let requests = requests(from)?;
    let mut said = None;
    loop {
        let request = match requests.recv_timeout(SILENCE) {
            Ok(Ok(request)) => request,
            // The other side has gone: take down what was made for it.
            Ok(Err(ciborium::de::Error::Io(_))) | Err(_) => return site.tear_down(),
            Ok(Err(e)) => return Err(broken(e)),
        };
        let to = &to;
        match request {
            Request::Prepare(setup) => answer(to, site.prepare(*setup)),
            Request::CreateNodes => answer(to, site.create_nodes()),
            Request::ApplyLimits => answer(to, site.apply_limits()),
            Request::Now => answer(to, site.now()),
            Request::StartClock(at) => answer(to, site.start_clock(at)),
            Request::Start(nodes) => answer(to, site.start(&nodes)),
            Request::Stop(node, how) => answer(to, site.stop(node, how)),
            Request::ChangePipes(changes) => answer(to, site.change_pipes(&changes)),
            Request::ChangeFlow(flow, change) => answer(to, site.change_flow(flow, change)),
            Request::ChangeDisk(node, change) => answer(to, site.change_disk(node, change)),
            Request::CutPower(node) => answer(to, site.cut_power(node)),
            Request::ChangeClock(node, change) => answer(to, site.change_clock(node, change)),
            Request::ChangeHardware(node, change) => answer(to, site.change_hardware(node, change)),
            Request::Pause(node, paused) => answer(to, site.pause(node, paused)),
            Request::Cut(pairs) => answer(to, site.cut(&pairs)),
            Request::ChangeProgram(change) => answer(to, site.change_program(&change)),
            Request::ProgramsRunning(programs) => answer(to, site.programs_running(&programs)),
            Request::Listening(waiting) => answer(to, site.listening(&waiting)),
            Request::Events => answer(to, site.events().and_then(|events| pass_on(events, to, Message::Event))),
            Request::Visits => {
                let begun = site.visits().and_then(|visits| {
                    said = Some(visits.said);
                    pass_on(visits.told, to, |(visit, told)| Message::Visitor(visit, told))
                });
                answer(to, begun)
            }
            Request::Visit(visit, word) => {
                // Nobody hears it where the nodes are gone, which their visitors are told.
                if let Some(said) = &said {
                    let _ = Sender::send(said, (visit, word));
                }
                Ok(())
            }
            Request::BeginCommand(command) => answer(to, site.begin_command(&command)),
            Request::NoteProgramsRun => answer(to, site.note_programs()),
            Request::Sample => answer(to, site.sample()),
            Request::Finish => answer(to, site.finish()),
            Request::Collect => answer(to, site.collect()),
            Request::Read(node, what, offset, limit) => {
                let read = site.read(node, &what, offset, limit);
                answer(to, read.map(|piece| piece.map(ByteBuf::from)))
            }
            Request::Suspend(run) => answer(to, site.suspend(&run)),
            Request::KeepSpeed(seen) => answer(to, site.keep_speed(&seen)),
            Request::TearDown => return answer(to, site.tear_down()),
            Request::Alive => Ok(()),
        }?;
    }
}

/// A request, or why there is none.
type Heard = Result<Request, ciborium::de::Error<std::io::Error>>;

/// Requests as they come, until there are no more: heard by a thread of its own, so that who carries them out can wait
/// for no longer than a while.
fn requests<R: Read + Send + 'static>(mut from: Bounded<R>) -> Result<Receiver<Heard>> {
    let (tell, heard) = bounded(WAITING);
    let hear = move || {
        loop {
            let request = from.message();
            let is_last = request.is_err();
            if tell.send(request).is_err() || is_last {
                return;
            }
        }
    };
    thread::Builder::new().name("requests".into()).spawn(hear).map_err(broken)?;
    Ok(heard)
}

/// Says again and again that the coordinator is there, until what is given here is dropped.
fn beat<W: Write + Send + 'static>(to: Arc<Mutex<W>>) -> Result<Sender<()>> {
    let (until, dropped) = bounded(0);
    let beat = move || {
        while dropped.recv_timeout(BEAT) == Err(RecvTimeoutError::Timeout) {
            if write(&to, &Request::Alive).is_err() {
                return;
            }
        }
    };
    thread::Builder::new().name("beat".into()).spawn(beat).map_err(broken)?;
    Ok(until)
}

fn answer<T: Serialize>(to: &Mutex<impl Write>, result: Result<T>) -> Result<()> {
    write(to, &Message::Answer(result.and_then(|answer| encoded(&answer))))
}

fn encoded(answer: &impl Serialize) -> Result<ByteBuf> {
    let mut bytes = Vec::new();
    ciborium::into_writer(answer, &mut bytes).map_err(broken)?;
    Ok(ByteBuf::from(bytes))
}

fn write(to: &Mutex<impl Write>, message: &impl Serialize) -> Result<()> {
    send(&mut *to.lock().unwrap_or_else(PoisonError::into_inner), message)
}

/// Sends a message at once.
pub(crate) fn send(to: &mut impl Write, message: &impl Serialize) -> Result<()> {
    ciborium::into_writer(message, &mut *to).map_err(broken)?;
    to.flush().map_err(broken)
}

/// Sends messages as they come, from a thread of its own, until there are no more or nobody is there.
fn pass_on<T: Send + 'static, M: Serialize>(
    come: Receiver<T>,
    to: &Arc<Mutex<impl Write + Send + 'static>>,
    message: impl Fn(T) -> M + Send + 'static,
) -> Result<()> {
    let to = Arc::clone(to);
    let send = move || {
        for what in come {
            if write(&to, &message(what)).is_err() {
                return;
            }
        }
    };
    thread::Builder::new().name("events".into()).spawn(send).map(drop).map_err(broken)
}

/// A site at the other end of a byte stream.
#[derive(Debug)]
pub struct RemoteSite<W> {
    to: Arc<Mutex<W>>,
    answers: Receiver<Result<ByteBuf>>,
    events: Receiver<Event>,
    visitors: Receiver<(VisitId, visits::Told)>,
    /// The site hears that somebody is there as long as this is.
    _beats: Sender<()>,
}

impl<W: Write + Send + 'static> RemoteSite<W> {
    /// The site that [`serve`]s at the other end.
    ///
    /// # Errors
    ///
    /// If nobody is there, that is no site, or of another release.
    pub fn new(mut from: impl Read + Send + 'static, mut to: W, release: &str) -> Result<RemoteSite<W>> {
        greet(&mut from, &mut to, release)?;
        RemoteSite::greeted(Bounded::new(from), to)
    }

    /// Likewise one whose release is known.
    pub(crate) fn greeted(from: Bounded<impl Read + Send + 'static>, to: W) -> Result<RemoteSite<W>> {
        let to = Arc::new(Mutex::new(to));
        let (tell_answer, answers) = unbounded();
        let (tell_event, events) = unbounded();
        let (tell_visitor, visitors) = unbounded();
        let hear = move || hear(from, &tell_answer, &tell_event, &tell_visitor);
        thread::Builder::new().name("site".into()).spawn(hear).map_err(broken)?;
        let _beats = beat(Arc::clone(&to))?;
        Ok(RemoteSite { to, answers, events, visitors, _beats })
    }

    fn ask<T: DeserializeOwned>(&mut self, request: &Request) -> Result<T> {
        write(&self.to, request)?;
        let answer = self.answers.recv().map_err(|_| broken("it was closed"))??;
        Bounded::new(&answer[..]).message().map_err(broken)
    }
}

/// A stream of which each message has so many bytes and values at most: another machine's word is not taken for how
/// much memory what it tells is worth.
#[derive(Debug)]
pub(crate) struct Bounded<R> {
    from: R,
    most: u64,
    left: u64,
    /// How often the message was read from.
    reads: u64,
}

impl<R: Read> Bounded<R> {
    pub(crate) fn new(from: R) -> Bounded<R> {
        Bounded { from, most: LONGEST, left: 0, reads: 0 }
    }

    /// The next message.
    pub(crate) fn message<T: DeserializeOwned>(&mut self) -> Result<T, ciborium::de::Error<std::io::Error>> {
        (self.left, self.reads) = (self.most, 0);
        ciborium::from_reader(self)
    }
}

impl<R: Read> Read for &mut Bounded<R> {
    fn read(&mut self, bytes: &mut [u8]) -> std::io::Result<usize> {
        if self.left == 0 {
            return Err(std::io::Error::other(format!("a message is longer than {} bytes", self.most)));
        }
        self.reads += 1;
        if self.reads > MOST_READS {
            return Err(std::io::Error::other("a message has too many values"));
        }
        let most = bytes.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        let read = self.from.read(&mut bytes[..most])?;
        self.left -= read as u64;
        Ok(read)
    }
}

/// Sorts what a site tells into answers, events and words to visitors, until the connection ends.
fn hear(
    mut from: Bounded<impl Read>,
    answers: &Sender<Result<ByteBuf>>,
    events: &Sender<Event>,
    visitors: &Sender<(VisitId, visits::Told)>,
) {
    loop {
        let heard = match from.message() {
            Ok(Message::Answer(answer)) => answers.send(answer).is_ok(),
            Ok(Message::Event(event)) => events.send(event).is_ok(),
            Ok(Message::Visitor(visit, told)) => visitors.send((visit, told)).is_ok(),
            Err(e) => {
                let _ = events.send(Event::Lost(broken(e)));
                false
            }
        };
        if !heard {
            return;
        }
    }
}

pub(crate) fn broken(e: impl std::fmt::Display) -> Error {
    Error::lost(format_args!("the connection to a machine of the run broke: {e}"))
}

impl<W: Write + Send + 'static> Site for RemoteSite<W> {
    fn prepare(&mut self, setup: Setup) -> Result<()> {
        self.ask(&Request::Prepare(Box::new(setup)))
    }

    fn create_nodes(&mut self) -> Result<()> {
        self.ask(&Request::CreateNodes)
    }

    fn apply_limits(&mut self) -> Result<Conditions> {
        self.ask(&Request::ApplyLimits)
    }

    fn now(&mut self) -> Result<RealInstant> {
        self.ask(&Request::Now)
    }

    fn start_clock(&mut self, at: RealInstant) -> Result<Zero> {
        self.ask(&Request::StartClock(at))
    }

    fn start(&mut self, nodes: &[Start]) -> Result<()> {
        self.ask(&Request::Start(nodes.to_vec()))
    }

    fn stop(&mut self, node: NodeIndex, how: Stop) -> Result<()> {
        self.ask(&Request::Stop(node, how))
    }

    fn change_pipes(&mut self, changes: &[(String, PipeChange)]) -> Result<()> {
        self.ask(&Request::ChangePipes(changes.to_vec()))
    }

    fn change_flow(&mut self, flow: usize, change: net::FlowChange) -> Result<()> {
        self.ask(&Request::ChangeFlow(flow, change))
    }

    fn change_disk(&mut self, node: NodeIndex, change: device::Change) -> Result<()> {
        self.ask(&Request::ChangeDisk(node, change))
    }

    fn cut_power(&mut self, node: NodeIndex) -> Result<device::Cut> {
        self.ask(&Request::CutPower(node))
    }

    fn change_clock(&mut self, node: NodeIndex, change: ClockChange) -> Result<()> {
        self.ask(&Request::ChangeClock(node, change))
    }

    fn change_hardware(&mut self, node: NodeIndex, change: HardwareChange) -> Result<Option<u64>> {
        self.ask(&Request::ChangeHardware(node, change))
    }

    fn pause(&mut self, node: NodeIndex, paused: bool) -> Result<()> {
        self.ask(&Request::Pause(node, paused))
    }

    fn cut(&mut self, pairs: &[[NodeIndex; 2]]) -> Result<()> {
        self.ask(&Request::Cut(pairs.to_vec()))
    }

    fn change_program(&mut self, change: &ProgramChange) -> Result<bool> {
        self.ask(&Request::ChangeProgram(change.clone()))
    }

    fn programs_running(&mut self, programs: &[(NodeIndex, String)]) -> Result<Vec<bool>> {
        self.ask(&Request::ProgramsRunning(programs.to_vec()))
    }

    fn listening(&mut self, waiting: &[(NodeIndex, u16)]) -> Result<Vec<NodeIndex>> {
        self.ask(&Request::Listening(waiting.to_vec()))
    }

    fn events(&mut self) -> Result<Receiver<Event>> {
        self.ask::<()>(&Request::Events)?;
        Ok(self.events.clone())
    }

    fn visits(&mut self) -> Result<Visits> {
        self.ask::<()>(&Request::Visits)?;
        let (said, words) = unbounded();
        pass_on(words, &self.to, |(visit, word)| Request::Visit(visit, word))?;
        Ok(Visits { said, told: self.visitors.clone() })
    }

    fn begin_command(&mut self, command: &Command) -> Result<CommandId> {
        self.ask(&Request::BeginCommand(command.clone()))
    }

    fn note_programs(&mut self) -> Result<()> {
        self.ask(&Request::NoteProgramsRun)
    }

    fn sample(&mut self) -> Result<Sample> {
        self.ask(&Request::Sample)
    }

    fn finish(&mut self) -> Result<Closing> {
        self.ask(&Request::Finish)
    }

    fn collect(&mut self) -> Result<Collected> {
        self.ask(&Request::Collect)
    }

    fn read(&mut self, node: NodeIndex, what: &Written, offset: u64, limit: u64) -> Result<Option<Vec<u8>>> {
        let read: Option<ByteBuf> = self.ask(&Request::Read(node, what.clone(), offset, limit))?;
        Ok(read.map(ByteBuf::into_vec))
    }

    fn suspend(&mut self, run: &Suspended) -> Result<()> {
        self.ask(&Request::Suspend(Box::new(run.clone())))
    }

    fn keep_speed(&mut self, seen: &[SpeedSeen]) -> Result<Option<counters::Speed>> {
        self.ask(&Request::KeepSpeed(seen.to_vec()))
    }

    fn tear_down(&mut self) -> Result<()> {
        self.ask(&Request::TearDown)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;
    use std::os::unix::net::UnixStream;
    use std::sync::atomic::Ordering;
    use std::time::Instant;

    use super::*;
    use crate::quiet_site::QuietSite;

    /// The first line of a site of this release.
    fn hello() -> Vec<u8> {
        format!("diorama-site {VERSION} test\n").into_bytes()
    }

    #[test]
    fn another_version_is_refused_by_name() {
        let theirs = format!("diorama-site {} test\n", VERSION + 1);
        let refused = RemoteSite::new(Cursor::new(theirs), Vec::new(), "test").unwrap_err();
        assert_eq!(refused.code(), 3);
        assert!(refused.to_string().contains(&format!("version {} of the interface", VERSION + 1)), "{refused}");
    }

    #[test]
    fn a_site_that_has_gone_is_told_as_an_event_and_to_who_asks() {
        let mut site = RemoteSite::new(Cursor::new(hello()), Vec::new(), "test").unwrap();
        assert_eq!(site.now().unwrap_err().code(), 1);
        assert!(matches!(site.events.recv().unwrap(), Event::Lost(_)));
    }

    #[test]
    fn a_message_without_an_end_is_given_up() {
        let of = |kind: u8, then: u8| {
            let begins = [b"\xa1\x66Answer\xa1\x62Ok", &[kind][..]].concat();
            let mut endless = Bounded { most: 1000, ..Bounded::new((&begins[..]).chain(std::io::repeat(then))) };
            endless.message::<Message>().unwrap_err().to_string()
        };
        // A list whose elements are a byte each, bytes of many parts, and very many of them.
        for (kind, then) in [(b'\x9f', 0x01), (b'\x5f', 0x40), (b'\x5a', 0x5a)] {
            let why = of(kind, then);
            assert!(why.contains("longer than 1000 bytes"), "{why}");
        }
        let answer = Message::Answer(Ok(ByteBuf::from(vec![7; 600])));
        let mut two = Vec::new();
        for _ in 0..2 {
            ciborium::into_writer(&answer, &mut two).unwrap();
        }
        let mut bounded = Bounded { most: 1000, ..Bounded::new(&two[..]) };
        for _ in 0..2 {
            assert!(
                matches!(bounded.message().unwrap(), Message::Answer(Ok(bytes)) if bytes.len() == 600),
                "each has its own bound"
            );
        }
    }

    /// Each case is heard by a process of its own, which is this test again.
    #[test]
    fn whatever_another_machine_says_takes_bounded_memory() {
        const CASE: &str = "DIORAMA_CASE";
        const MOST_KIB: u64 = 64 << 10;
        // A site that answers with so many bytes, the first of which are these.
        let answering = |length: u32, first: &[u8], then: u8| {
            let mut begins = hello();
            begins.extend(b"\xa1\x66Answer\xa1\x62Ok\x5a");
            begins.extend(length.to_be_bytes());
            begins.extend(first);
            let rest = std::io::repeat(then).take(u64::from(length) - first.len() as u64);
            RemoteSite::new(Cursor::new(begins).chain(rest), Vec::new(), "test").unwrap()
        };
        let list = |length: u32| [&b"\x9a"[..], &length.to_be_bytes()].concat();
        let refused = |e: Error, part: &str| assert!(e.to_string().contains(part), "{e}");
        let cases: [(&str, &dyn Fn()); 5] = [
            ("numbers", &|| {
                let mut site = answering(20_000_005, &list(20_000_000), 0);
                refused(site.listening(&[]).unwrap_err(), "too many values");
            }),
            ("as many numbers as are taken", &|| {
                let found = answering(3_900_005, &list(3_900_000), 0).listening(&[]).unwrap();
                assert_eq!(found.len(), 3_900_000);
            }),
            ("a long answer", &|| {
                refused(
                    answering(100 << 20, &[], 0).now().unwrap_err(),
                    "the connection to a machine of the run broke",
                );
            }),
            ("bytes", &|| {
                let bytes: u32 = 23 << 20;
                let mut site = answering(bytes + 5, &[&b"\x5a"[..], &bytes.to_be_bytes()].concat(), 7);
                let read = site.read(0, &Written::File("/a".into()), 0, 1).unwrap().unwrap();
                assert_eq!(read.len(), bytes as usize);
            }),
            ("empty parts of text", &|| {
                refused(answering(23 << 20, b"\x7f", 0x60).sample().unwrap_err(), "invalid type: string");
            }),
        ];
        if let Ok(wanted) = std::env::var(CASE) {
            let (_, hear) = cases.iter().find(|(name, _)| *name == wanted).unwrap();
            hear();
            let status = std::fs::read_to_string("/proc/self/status").unwrap();
            let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
            let kib: u64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
            println!("{wanted}: {kib} KiB");
            assert!(kib <= MOST_KIB, "{wanted}: {kib} KiB");
            return;
        }
        for (name, _) in cases {
            let mut again = std::process::Command::new(std::env::current_exe().unwrap());
            let this = "wire::tests::whatever_another_machine_says_takes_bounded_memory";
            let ended = again.args([this, "--exact", "--nocapture"]).env(CASE, name).output().unwrap();
            let said = String::from_utf8_lossy(&ended.stdout);
            assert!(ended.status.success() && said.contains(&format!("{name}: ")), "{name}: {said}");
            println!("{}", said.lines().find(|line| line.starts_with(name)).unwrap_or_default());
        }
    }

    #[test]
    fn events_come_between_answers() {
        let mut theirs = hello();
        let instant = RealInstant::from_nanos(7);
        let answer = encoded(&instant);
        let event = Event::CommandEnded(3, Err(Error::input("no")));
        for told in [Message::Event(event.clone()), Message::Answer(answer), Message::Answer(Err(Error::failed("x")))] {
            ciborium::into_writer(&told, &mut theirs).unwrap();
        }
        let mut site = RemoteSite::new(Cursor::new(theirs), Vec::new(), "test").unwrap();
        assert_eq!(site.now(), Ok(instant));
        assert_eq!(site.now(), Err(Error::failed("x")));
        assert_eq!(site.events.recv(), Ok(event));
    }

    /// A stream of which one end is served, and how that ended, after how long.
    fn served(site: &QuietSite) -> (UnixStream, thread::JoinHandle<(Result<()>, Duration)>) {
        let (near, far) = UnixStream::pair().unwrap();
        let mut site = site.clone();
        let begun = Instant::now();
        let serve = move || (serve(&mut site, far.try_clone().unwrap(), far, "test"), begun.elapsed());
        (near, thread::spawn(serve))
    }

    #[test]
    fn a_coordinator_that_is_there_is_waited_for_and_one_that_has_gone_is_not() {
        let site = QuietSite::default();
        let (near, served) = served(&site);
        let mut remote = RemoteSite::new(near.try_clone().unwrap(), near, "test").unwrap();
        let before = remote.now().unwrap();
        thread::sleep(SILENCE + 2 * BEAT);
        assert!(remote.now().unwrap().since(before) > SILENCE.into());
        assert!(!site.torn_down.load(Ordering::SeqCst));
        remote.tear_down().unwrap();
        assert_eq!(served.join().unwrap().0, Ok(()));
        assert!(remote.now().is_err() && site.torn_down.load(Ordering::SeqCst));
    }

    #[test]
    fn a_coordinator_that_says_nothing_is_gone() {
        let site = QuietSite::default();
        let (mut near, served) = served(&site);
        near.write_all(&hello()).unwrap();
        let (ended, after) = served.join().unwrap();
        assert_eq!((ended, site.torn_down.load(Ordering::SeqCst)), (Ok(()), true));
        assert!(after >= SILENCE && after < SILENCE * 2, "{after:?}");
    }

    #[test]
    fn a_stream_that_ends_takes_the_run_down() {
        let site = QuietSite::default();
        let (near, served) = served(&site);
        let remote = RemoteSite::new(near.try_clone().unwrap(), near.try_clone().unwrap(), "test").unwrap();
        near.shutdown(std::net::Shutdown::Both).unwrap();
        let (ended, after) = served.join().unwrap();
        assert_eq!((ended, site.torn_down.load(Ordering::SeqCst)), (Ok(()), true));
        assert!(after < SILENCE, "{after:?}");
        assert!(matches!(remote.events.recv().unwrap(), Event::Lost(_)));
    }

    #[test]
    fn words_of_visits_come_between_answers_and_go_without_one() {
        let mut theirs = hello();
        let output = visits::Told::Output(record::LogStream::Stderr, vec![0xff, 0]);
        let instant = RealInstant::from_nanos(7);
        let answers = [encoded(&()), encoded(&instant)].map(Message::Answer);
        let [begun, now] = answers;
        for told in [begun, Message::Visitor(5, output.clone()), now] {
            ciborium::into_writer(&told, &mut theirs).unwrap();
        }
        let mut site = RemoteSite::new(Cursor::new(theirs), Vec::new(), "test").unwrap();
        let Visits { said, told } = site.visits().unwrap();
        said.send((5, Said::Gone)).unwrap();
        assert_eq!(site.now(), Ok(instant));
        assert_eq!(told.recv(), Ok((5, output)));
        assert!(told.recv().is_err(), "nobody is there any more");
    }
}

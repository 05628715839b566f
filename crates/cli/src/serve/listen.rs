//! HTTP on the loopback: bounded in all that a client could make grow, and no client waits for another that is slow.

use std::convert::Infallible;
use std::io;
use std::net;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use engine::Interrupts;
use http_body_util::channel::{Channel, Sender};
use http_body_util::{BodyExt, Either, Full, Limited};
use hyper::body::Incoming;
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Builder;
use tokio::sync::{Semaphore, oneshot};
use tokio::task::spawn_blocking;
use tokio::time::{sleep, timeout};
use tokio_io_timeout::TimeoutStream;

use super::answer::{Answer, Answers};
use super::door::{Door, Knock};
use super::news::Told;
use super::route::{Asked, Refusal, Wish};

/// The most connections at a time; one more is closed at once.
const CONNECTIONS: usize = 64;
/// How long a client may take for the head of a request, for its body, and to take the next bytes of an answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long an answer may take.
const LONGEST: Duration = Duration::from_secs(120);
/// The longest head of a request, in bytes, and the most headers in it.
const HEAD: usize = 16 << 10;
const HEADERS: usize = 64;
/// How often live runs are looked at for who watches, and after what time without news he hears that he is still heard.
const LOOK: Duration = Duration::from_millis(500);
const STILL_THERE: Duration = Duration::from_secs(10);
/// Threads for what reads files and asks runs: as many as may be at that, and some for who looks at live runs.
const THREADS: usize = 12;

/// Scripts and styles have to come from here; nobody may put this page into another.
const PAGE_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
                           img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
/// Nothing runs, and it is no part of this page.
const FOREIGN_POLICY: &str = "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; \
                              base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

type Body = Either<Full<Bytes>, Channel<Bytes>>;

/// The part that all connections share.
struct Shared {
    door: Door,
    answers: Answers,
    gates: Gates,
}

/// How many of a kind are answered at a time: whoever reads much, or waits for a run, leaves room for others.
struct Gates {
    comparisons: Arc<Semaphore>,
    checks: Arc<Semaphore>,
    events: Arc<Semaphore>,
    others: Arc<Semaphore>,
    looks: Arc<Semaphore>,
}

impl Gates {
    fn new() -> Gates {
        let of = |places| Arc::new(Semaphore::new(places));
        Gates { comparisons: of(1), checks: of(1), events: of(4), others: of(3), looks: of(1) }
    }

    fn of(&self, wish: &Wish) -> &Arc<Semaphore> {
        match wish {
            Wish::Compare { .. } => &self.comparisons,
            Wish::Check => &self.checks,
            Wish::Event(_) => &self.events,
            _ => &self.others,
        }
    }
}

/// Serves until a signal asks to end; what is still being answered then is not waited for.
pub fn until(interrupts: &Interrupts, listener: net::TcpListener, door: Door, answers: Answers) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let runtime = Builder::new_current_thread().enable_io().enable_time().max_blocking_threads(THREADS).build()?;
    let (tell, told) = oneshot::channel();
    let interrupts = interrupts.clone();
    thread::Builder::new().name("interrupts".into()).spawn(move || {
        let _ = interrupts.recv();
        let _ = tell.send(());
    })?;
    let shared = Arc::new(Shared { door, answers, gates: Gates::new() });
    let served: io::Result<()> = runtime.block_on(async {
        tokio::spawn(accept(TcpListener::from_std(listener)?, shared));
        let _ = told.await;
        Ok(())
    });
    runtime.shutdown_background();
    served
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            // There may be no descriptor for it now.
            sleep(Duration::from_millis(100)).await;
            continue;
        };
        if let Ok(place) = places.clone().try_acquire_owned() {
            let shared = shared.clone();
            tokio::spawn(async move {
                serve(stream, shared).await;
                drop(place);
            });
        }
    }
}

async fn serve(stream: TcpStream, shared: Arc<Shared>) {
    let _ = stream.set_nodelay(true);
    let mut stream = TimeoutStream::new(stream);
    stream.set_write_timeout(Some(PATIENCE));
    let service = service_fn(move |request| {
        let shared = shared.clone();
        async move { Ok::<_, Infallible>(respond(shared, request).await) }
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(PATIENCE).max_buf_size(HEAD).max_headers(HEADERS);
    // A client that breaks off, or is too slow, is nobody's trouble but its own.
    let _ = http.serve_connection(TokioIo::new(Box::pin(stream)), service).await;
}

async fn respond(shared: Arc<Shared>, request: Request<Incoming>) -> Response<Body> {
    let header = |name: HeaderName| request.headers().get(name).map(|value| value.to_str().unwrap_or(""));
    let knock = Knock {
        path: request.uri().path(),
        host: header(header::HOST),
        origin: header(header::ORIGIN),
        fetch_site: header(HeaderName::from_static("sec-fetch-site")),
        authorization: header(header::AUTHORIZATION),
    };
    let (may, path) = match shared.door.lets_in(&knock) {
        Ok(in_there) => in_there,
        Err(why) => return response(Answer::says(403, why)),
    };
    let query = request.uri().query().unwrap_or("");
    let wish = match Asked::of(request.method().as_str(), path, query, may) {
        Ok(Asked::Once(wish)) => wish,
        Ok(Asked::Live(run)) => return streamed(shared, run),
        Err(Refusal::Unknown) => return response(Answer::says(404, "there is nothing at this address")),
        Err(Refusal::OnlyLook) => return response(Answer::says(403, "with this token one may only look")),
        Err(Refusal::Method(method)) => {
            let mut refused = response(Answer::says(405, &format!("this is asked for by {method}")));
            refused.headers_mut().insert(header::ALLOW, HeaderValue::from_static(method));
            return refused;
        }
    };
    let said = match wish.longest_body() {
        0 => String::new(),
        longest => match body(request, longest).await {
            Ok(said) => said,
            Err(refused) => return response(refused),
        },
    };
    let answered = timeout(LONGEST, async {
        let gate = shared.gates.of(&wish).clone();
        behind(gate, move || shared.answers.answer(&wish, may, &said)).await
    });
    response(match answered.await {
        Ok(Some(answer)) => answer,
        Ok(None) => Answer::says(500, "the answer could not be made"),
        Err(_) => Answer::says(503, "the answer took too long; what was begun goes on, and an event may still happen"),
    })
}

/// Does what blocks, in a thread of its own, when there is a place for it; `None` if it panicked.
async fn behind<T: Send + 'static>(gate: Arc<Semaphore>, work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let place = gate.acquire_owned().await.ok()?;
    let work = move || {
        let done = work();
        drop(place);
        done
    };
    spawn_blocking(work).await.ok()
}

/// The text that comes with a request.
async fn body(request: Request<Incoming>, longest: usize) -> Result<String, Answer> {
    match timeout(PATIENCE, Limited::new(request.into_body(), longest).collect()).await {
        Ok(Ok(body)) => String::from_utf8(body.to_bytes().into()).map_err(|_| Answer::says(400, "this is not UTF-8")),
        Ok(Err(_)) => Err(Answer::says(413, &format!("longer than {longest} bytes, or broken off"))),
        Err(_) => Err(Answer::says(408, "it did not come in time")),
    }
}

fn response(answer: Answer) -> Response<Body> {
    let policy = if answer.is_foreign { FOREIGN_POLICY } else { PAGE_POLICY };
    let mut response = headed(answer.media, policy, Either::Left(Full::new(answer.body.into())));
    *response.status_mut() = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response
}

fn headed(media: &'static str, policy: &'static str, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    let set = [
        (header::CONTENT_TYPE, media),
        (header::CONTENT_SECURITY_POLICY, policy),
        (header::CACHE_CONTROL, "no-store"),
        // The address holds the token.
        (header::REFERRER_POLICY, "no-referrer"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ];
    response.headers_mut().extend(set.map(|(name, value)| (name, HeaderValue::from_static(value))));
    response
}

/// An answer that goes on until the client leaves.
fn streamed(shared: Arc<Shared>, run: Option<String>) -> Response<Body> {
    let (sender, body) = Channel::new(1);
    tokio::spawn(tell(shared, run, sender));
    headed("text/event-stream", PAGE_POLICY, Either::Right(body))
}

/// Tells a client what is new. One that is slow waits for nothing but the newest: what it missed is left out.
async fn tell(shared: Arc<Shared>, run: Option<String>, mut client: Sender<Bytes>) {
    let mut told = Told::default();
    let mut heard = Instant::now();
    loop {
        let looks = shared.clone();
        let Some(seen) = behind(shared.gates.looks.clone(), move || looks.answers.look()).await else { return };
        let mut news = told.news(&seen, run.as_deref());
        if news.is_empty() && heard.elapsed() > STILL_THERE {
            news = ":\n\n".into();
        }
        if !news.is_empty() {
            heard = Instant::now();
            if client.send_data(news.into()).await.is_err() {
                return;
            }
        }
        sleep(LOOK).await;
    }
}

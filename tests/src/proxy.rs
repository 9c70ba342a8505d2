//! A TCP proxy that fails on command, for any port: MySQL, or a Doris FE or BE.
//!
//! Every command is in force when its call returns, and a cut after N bytes lets exactly N bytes
//! through. Plain threads, so that it serves tests with and without an async runtime, and keeps
//! serving while a test's runtime is busy.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::server::PortLease;

/// Which way bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the program under test to the server.
    ToServer,
    /// From the server to the program under test.
    ToClient,
}

/// What has gone through so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Connections accepted.
    pub accepted: u64,
    /// Connections open now.
    pub open: u64,
    /// Connections cut by [`Proxy::cut_after`], [`Proxy::cut_each_after`] or [`Proxy::cut_now`].
    pub cut: u64,
    /// Bytes forwarded to the server.
    pub to_server: u64,
    /// Bytes forwarded to the client.
    pub to_client: u64,
}

/// A proxy in front of one port. Dropping it cuts everything and closes the port.
#[derive(Debug)]
pub struct Proxy {
    shared: Arc<Shared>,
    port: PortLease,
    acceptor: Option<std::thread::JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    target: Mutex<SocketAddr>,
    state: Mutex<State>,
    /// Notified at every change that a waiting pump, or a waiting test, may look for.
    changed: Condvar,
    /// Its own lock: accepting must not wait behind pumps.
    listener: Mutex<Option<TcpListener>>,
}

#[derive(Debug, Default)]
struct State {
    stats: Stats,
    frozen: bool,
    delay: Duration,
    closed: bool,
    /// One cut: after this many more bytes in this direction, whichever connection carries them.
    once: Option<(Direction, u64)>,
    /// For each new connection.
    each: Option<(Direction, u64)>,
    next_id: u64,
    links: Vec<Link>,
}

#[derive(Debug)]
struct Link {
    id: u64,
    client: TcpStream,
    server: TcpStream,
    left: Option<(Direction, u64)>,
    pumps: u8,
    cut: bool,
}

impl Proxy {
    /// Starts a proxy on a port of its own that passes everything to `target`.
    pub fn start(target: SocketAddr) -> io::Result<Self> {
        let port = PortLease::take().map_err(io::Error::other)?;
        let shared = Arc::new(Shared {
            target: Mutex::new(target),
            state: Mutex::new(State::default()),
            changed: Condvar::new(),
            listener: Mutex::new(Some(listen(port.port())?)),
        });
        let acceptor = std::thread::spawn({
            let shared = Arc::clone(&shared);
            move || accept_loop(&shared)
        });
        Ok(Self { shared, port, acceptor: Some(acceptor) })
    }

    /// A proxy to a port of the loopback address.
    pub fn to_port(port: u16) -> io::Result<Self> {
        Self::start(SocketAddr::from(([127, 0, 0, 1], port)))
    }

    /// The proxy's port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port.port()
    }

    /// New connections go to `target` from now on.
    pub fn retarget(&self, target: SocketAddr) {
        *lock(&self.shared.target) = target;
    }

    /// Passes everything at full speed again: ends refusing, freezing, delays, and cuts not yet
    /// made.
    pub fn pass(&self) -> io::Result<()> {
        {
            let mut state = self.shared.state();
            state.frozen = false;
            state.delay = Duration::ZERO;
            state.once = None;
            state.each = None;
            for link in &mut state.links {
                link.left = None;
            }
        }
        self.shared.changed.notify_all();
        let mut listener = lock(&self.shared.listener);
        if listener.is_none() {
            *listener = Some(listen(self.port())?);
        }
        Ok(())
    }

    /// Closes the port: new connections are refused by the system. Open ones go on.
    pub fn refuse(&self) {
        *lock(&self.shared.listener) = None;
    }

    /// Stops forwarding, both ways; connections stay open and new ones are accepted.
    pub fn freeze(&self) {
        self.shared.state().frozen = true;
    }

    /// Ends [`Self::freeze`].
    pub fn thaw(&self) {
        self.shared.state().frozen = false;
        self.shared.changed.notify_all();
    }

    /// Waits this long before each block is forwarded.
    pub fn delay(&self, delay: Duration) {
        self.shared.state().delay = delay;
        self.shared.changed.notify_all();
    }

    /// Once: after exactly `bytes` more bytes in `direction`, over all connections, the connection
    /// that carried the last of them is cut.
    pub fn cut_after(&self, direction: Direction, bytes: u64) {
        self.shared.state().once = Some((direction, bytes));
    }

    /// Each connection accepted from now on is cut after exactly `bytes` bytes in `direction`.
    pub fn cut_each_after(&self, direction: Direction, bytes: u64) {
        self.shared.state().each = Some((direction, bytes));
    }

    /// Cuts all open connections; how many there were.
    pub fn cut_now(&self) -> u64 {
        let mut state = self.shared.state();
        let mut count = 0;
        let State { links, stats, .. } = &mut *state;
        for link in links.iter_mut() {
            count += u64::from(link.sever(stats));
        }
        drop(state);
        self.shared.changed.notify_all();
        count
    }

    /// What has gone through so far.
    pub fn stats(&self) -> Stats {
        self.shared.state().stats
    }

    /// Waits until `reached` says so of the counters, at most `limit`; whether it did.
    pub fn wait_for(&self, limit: Duration, reached: impl Fn(&Stats) -> bool) -> bool {
        let deadline = Instant::now() + limit;
        let mut state = self.shared.state();
        while !reached(&state.stats) {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            state = self
                .shared
                .changed
                .wait_timeout(state, left)
                .map_or_else(|poisoned| poisoned.into_inner().0, |(state, _)| state);
        }
        true
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.refuse();
        self.shared.state().closed = true;
        self.cut_now();
        if let Some(acceptor) = self.acceptor.take() {
            acceptor.join().ok();
        }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

impl Link {
    /// Whether this call cut it.
    fn sever(&mut self, stats: &mut Stats) -> bool {
        if self.cut {
            return false;
        }
        self.cut = true;
        stats.cut += 1;
        self.client.shutdown(Shutdown::Both).ok();
        self.server.shutdown(Shutdown::Both).ok();
        true
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn listen(port: u16) -> io::Result<TcpListener> {
    let listener = TcpListener::bind(("127.0.0.1", port))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

fn accept_loop(shared: &Arc<Shared>) {
    while !shared.state().closed {
        let accepted = lock(&shared.listener).as_ref().map(TcpListener::accept);
        match accepted {
            // A server that is away shows to the client as a connection that ends at once.
            Some(Ok((client, _))) => {
                open_link(shared, client).ok();
            }
            _ => std::thread::sleep(Duration::from_millis(2)),
        }
    }
}

fn open_link(shared: &Arc<Shared>, client: TcpStream) -> io::Result<()> {
    client.set_nonblocking(false)?;
    let target = *lock(&shared.target);
    shared.state().stats.accepted += 1;
    let server = TcpStream::connect(target);
    shared.changed.notify_all();
    let server = server?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let pumps = [
        (Direction::ToServer, client.try_clone()?, server.try_clone()?),
        (Direction::ToClient, server.try_clone()?, client.try_clone()?),
    ];
    let id = {
        let mut state = shared.state();
        let id = state.next_id;
        state.next_id += 1;
        state.stats.open += 1;
        let left = state.each;
        state.links.push(Link { id, client, server, left, pumps: 2, cut: false });
        id
    };
    for (direction, from, to) in pumps {
        let shared = Arc::clone(shared);
        std::thread::spawn(move || {
            pump(&shared, id, direction, from, &to).ok();
            to.shutdown(Shutdown::Write).ok();
            close_pump(&shared, id);
        });
    }
    Ok(())
}

fn close_pump(shared: &Shared, id: u64) {
    let mut state = shared.state();
    let State { links, stats, .. } = &mut *state;
    if let Some(at) = links.iter().position(|link| link.id == id) {
        links[at].pumps -= 1;
        if links[at].pumps == 0 {
            links.remove(at);
            stats.open -= 1;
        }
    }
    drop(state);
    shared.changed.notify_all();
}

fn pump(shared: &Shared, id: u64, direction: Direction, mut from: TcpStream, mut to: &TcpStream) -> io::Result<()> {
    let mut buffer = vec![0; 64 << 10];
    loop {
        let read = from.read(&mut buffer)?;
        if read == 0 {
            return Ok(());
        }
        let (allowed, cut) = pass_gate(shared, id, direction, read);
        to.write_all(&buffer[..allowed])?;
        let mut state = shared.state();
        let State { links, stats, .. } = &mut *state;
        let counter = match direction {
            Direction::ToServer => &mut stats.to_server,
            Direction::ToClient => &mut stats.to_client,
        };
        *counter += allowed as u64;
        if cut && let Some(link) = links.iter_mut().find(|link| link.id == id) {
            link.sever(stats);
        }
        drop(state);
        shared.changed.notify_all();
        if cut {
            return Ok(());
        }
    }
}

/// Waits while frozen or delayed; then how many of `len` bytes may pass, and whether the
/// connection is cut after them.
fn pass_gate(shared: &Shared, id: u64, direction: Direction, len: usize) -> (usize, bool) {
    let arrived = Instant::now();
    let mut state = shared.state();
    loop {
        let dead = state.closed || state.links.iter().any(|link| link.id == id && link.cut);
        if dead {
            return (0, true);
        }
        let left = (arrived + state.delay).saturating_duration_since(Instant::now());
        let wait = match (state.frozen, left.is_zero()) {
            (true, _) => Duration::from_secs(3600),
            (false, false) => left,
            (false, true) => break,
        };
        state = shared
            .changed
            .wait_timeout(state, wait)
            .map_or_else(|poisoned| poisoned.into_inner().0, |(state, _)| state);
    }
    let State { once, links, .. } = &mut *state;
    let mut allowed = len as u64;
    let link = links.iter_mut().find(|link| link.id == id);
    let budgets = [once.as_mut(), link.and_then(|link| link.left.as_mut())];
    let mut budgets: Vec<&mut u64> =
        budgets.into_iter().flatten().filter(|(way, _)| *way == direction).map(|(_, n)| n).collect();
    for budget in &budgets {
        allowed = allowed.min(**budget);
    }
    let mut cut = false;
    for budget in &mut budgets {
        **budget -= allowed;
        cut |= **budget == 0;
    }
    if once.is_some_and(|(way, left)| way == direction && left == 0) {
        *once = None;
    }
    (usize::try_from(allowed).unwrap_or(len), cut)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(10);

    /// A server that sends `sent` to each connection, then echoes.
    fn server(sent: &'static [u8]) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                std::thread::spawn(move || {
                    let mut stream = &stream;
                    stream.write_all(sent).ok();
                    io::copy(&mut &*stream, &mut stream).ok();
                });
            }
        });
        addr
    }

    fn connect(proxy: &Proxy) -> TcpStream {
        let stream = TcpStream::connect(("127.0.0.1", proxy.port())).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        stream
    }

    fn read_all(mut stream: &TcpStream) -> Vec<u8> {
        let mut all = Vec::new();
        let mut block = [0; 4096];
        while let Ok(read @ 1..) = stream.read(&mut block) {
            all.extend_from_slice(&block[..read]);
        }
        all
    }

    #[test]
    fn passes_both_ways_and_counts() {
        let proxy = Proxy::start(server(b"hello")).unwrap();
        let mut client = connect(&proxy);
        client.write_all(b"world").unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        assert_eq!(read_all(&client), b"helloworld");
        assert!(proxy.wait_for(LIMIT, |stats| stats.accepted == 1 && stats.to_client == 10));
        assert_eq!(proxy.stats().to_server, 5);
        assert_eq!(proxy.stats().cut, 0);
    }

    #[test]
    fn cuts_after_exactly_n_bytes_to_the_client() {
        static BIG: [u8; 300_000] = [7; 300_000];
        let proxy = Proxy::start(server(&BIG)).unwrap();
        for bytes in [1, 2, 4095, 65_536, 65_537, 299_999, 300_000] {
            proxy.cut_after(Direction::ToClient, bytes);
            assert_eq!(read_all(&connect(&proxy)).len() as u64, bytes);
        }
        assert!(proxy.wait_for(LIMIT, |stats| stats.cut == 7 && stats.open == 0));
        // Once is once.
        let client = connect(&proxy);
        client.shutdown(Shutdown::Write).unwrap();
        assert_eq!(read_all(&client).len(), BIG.len());
    }

    #[test]
    fn cuts_after_exactly_n_bytes_to_the_server() {
        let proxy = Proxy::start(server(b"")).unwrap();
        proxy.cut_each_after(Direction::ToServer, 3);
        for _ in 0..2 {
            let before = proxy.stats();
            let mut client = connect(&proxy);
            client.write_all(b"abcdef").unwrap();
            // The echo of what passed may or may not have come back before the cut.
            assert!(b"abc".starts_with(&read_all(&client)[..]));
            assert!(proxy.wait_for(LIMIT, |stats| stats.cut == before.cut + 1));
            assert_eq!(proxy.stats().to_server, before.to_server + 3);
        }
    }

    #[test]
    fn freezes_delays_and_cuts_now() {
        let proxy = Proxy::start(server(b"x")).unwrap();
        proxy.freeze();
        let mut client = connect(&proxy);
        assert!(proxy.wait_for(LIMIT, |stats| stats.open == 1));
        client.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        assert!(client.read(&mut [0; 1]).is_err(), "nothing passes while frozen");
        proxy.thaw();
        client.set_read_timeout(Some(LIMIT)).unwrap();
        assert_eq!(client.read(&mut [0; 1]).unwrap(), 1);

        proxy.delay(Duration::from_millis(60));
        let sent = Instant::now();
        client.write_all(b"y").unwrap();
        assert_eq!(client.read(&mut [0; 1]).unwrap(), 1);
        assert!(sent.elapsed() >= Duration::from_millis(120), "60 ms each way");

        proxy.freeze();
        assert_eq!(proxy.cut_now(), 1);
        assert_eq!(read_all(&client), b"");
        assert!(proxy.wait_for(LIMIT, |stats| stats.open == 0 && stats.cut == 1));
    }

    #[test]
    fn refuses_and_passes_again_on_the_same_port() {
        let proxy = Proxy::start(server(b"x")).unwrap();
        let mut old = connect(&proxy);
        assert_eq!(old.read(&mut [0; 1]).unwrap(), 1);
        proxy.refuse();
        let refused = TcpStream::connect(("127.0.0.1", proxy.port())).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
        old.write_all(b"still there").unwrap();
        assert_eq!(old.read(&mut [0; 5]).unwrap(), 5);
        proxy.pass().unwrap();
        assert_eq!(connect(&proxy).read(&mut [0; 1]).unwrap(), 1);
    }
}

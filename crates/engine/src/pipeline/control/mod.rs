//! The control socket: a unix socket in the state directory, for `millstream status`, `set` and `resync`.
//!
//! One request and one reply per connection, each a line of JSON ([`protocol`]). The socket is made while the state's lock is
//! held, is readable and writable for its owner alone from its first moment on, and replaces one that a killed engine left.

mod client;
pub mod protocol;
mod stopped;

use std::fs::{self, DirBuilder, File, Permissions};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::task::{JoinHandle, JoinSet};

pub use client::ask;
pub(super) use stopped::left_out;
pub use stopped::{request_when_stopped, stored_status};

use protocol::{REQUEST_LIMIT, Reply, Request};

/// The socket's name in the state directory.
const SOCKET: &str = "control.sock";
/// The directory in which it is made, for its owner alone.
const CRADLE: &str = "control.new";
/// A socket's path has 108 bytes on Linux, a NUL included, and fewer elsewhere.
const PATH_LIMIT: usize = 100;
/// Connections that are answered beside each other.
const CONNECTIONS: usize = 8;
/// How long a request may take to come, and the engine to answer it.
const PATIENCE: Duration = Duration::from_secs(10);

/// A request with the way back.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) request: Request,
    pub(super) reply: oneshot::Sender<Reply>,
}

/// The socket of a running engine. It is gone when this is.
pub(super) struct Control {
    requests: mpsc::Receiver<Asked>,
    /// What the engine does while nobody takes requests.
    phase: Arc<Mutex<String>>,
    socket: Option<(PathBuf, JoinHandle<()>)>,
}

impl Drop for Control {
    fn drop(&mut self) {
        if let Some((path, task)) = &self.socket {
            task.abort();
            // Whoever asks next finds nobody, or a file that nobody listens at: the same.
            fs::remove_file(path).ok();
        }
    }
}

impl Control {
    /// Makes the socket in `dir`, whose lock the caller holds. Without one the engine runs all the same.
    pub(super) fn open(dir: &Path) -> Self {
        let (sender, requests) = mpsc::channel(CONNECTIONS);
        let phase = Arc::new(Mutex::new("is starting".to_owned()));
        let socket = match bind(dir) {
            Ok(listener) => {
                let task = tokio::spawn(serve(listener, sender, Arc::clone(&phase)));
                Some((dir.join(SOCKET), task))
            }
            Err(e) => {
                tracing::warn!(reason = %e, "no control socket: status, set and resync will not reach this engine");
                None
            }
        };
        Self { requests, phase, socket }
    }

    /// Says what the engine does (`is starting`), for those whose request it does not take.
    pub(super) fn set_phase(&self, phase: impl Into<String>) {
        if let Ok(mut now) = self.phase.lock() {
            *now = phase.into();
        }
    }

    /// The next request. Cancel-safe; waits for ever when there is no socket.
    pub(super) async fn next(&mut self) -> Asked {
        match self.requests.recv().await {
            Some(asked) => asked,
            None => core::future::pending().await,
        }
    }
}

/// The name of a socket `name` in `dir` that is short enough; what must stay open while it is used.
fn address(dir: &Path, name: &str) -> io::Result<(PathBuf, Option<File>)> {
    let path = dir.join(name);
    if path.as_os_str().len() <= PATH_LIMIT {
        return Ok((path, None));
    }
    let open = File::open(dir)?;
    Ok((PathBuf::from(format!("/proc/self/fd/{}/{name}", open.as_raw_fd())), Some(open)))
}

fn bind(dir: &Path) -> io::Result<UnixListener> {
    let cradle = dir.join(CRADLE);
    match fs::remove_dir_all(&cradle) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    DirBuilder::new().mode(0o700).create(&cradle)?;
    let made = cradle.join("s");
    let (name, _open) = address(&cradle, "s")?;
    let listener = std::os::unix::net::UnixListener::bind(name)?;
    fs::set_permissions(&made, Permissions::from_mode(0o600))?;
    // In one step, over what a killed engine left.
    fs::rename(&made, dir.join(SOCKET))?;
    fs::remove_dir(&cradle)?;
    listener.set_nonblocking(true)?;
    UnixListener::from_std(listener)
}

async fn serve(listener: UnixListener, requests: mpsc::Sender<Asked>, phase: Arc<Mutex<String>>) {
    let slots = Arc::new(Semaphore::new(CONNECTIONS));
    let mut connections = JoinSet::new();
    while let Ok(slot) = Arc::clone(&slots).acquire_owned().await {
        match listener.accept().await {
            Ok((stream, _)) => {
                let (requests, phase) = (requests.clone(), Arc::clone(&phase));
                connections.spawn(async move {
                    // A client that goes away has lost its own answer.
                    converse(stream, &requests, &phase).await.ok();
                    drop(slot);
                });
            }
            // Out of descriptors, for example.
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
        while connections.try_join_next().is_some() {}
    }
}

async fn converse(mut stream: UnixStream, requests: &mpsc::Sender<Asked>, phase: &Mutex<String>) -> io::Result<()> {
    let (reader, mut writer) = stream.split();
    let limit = u64::try_from(REQUEST_LIMIT).unwrap_or(u64::MAX).saturating_add(1);
    let mut line = Vec::new();
    let mut reader = BufReader::new(reader).take(limit);
    let reply = match tokio::time::timeout(PATIENCE, reader.read_until(b'\n', &mut line)).await {
        Ok(read) => {
            read?;
            match Request::parse(&line) {
                Ok(request) => answer(request, requests, phase).await,
                Err(problem) => Reply::Error(problem),
            }
        }
        Err(_) => Reply::Error("no request came".to_owned()),
    };
    match tokio::time::timeout(PATIENCE, writer.write_all(&reply.line())).await {
        Ok(written) => written,
        Err(_) => Err(io::ErrorKind::TimedOut.into()),
    }
}

async fn answer(request: Request, requests: &mpsc::Sender<Asked>, phase: &Mutex<String>) -> Reply {
    let (reply, answered) = oneshot::channel();
    let asked = async {
        requests.send(Asked { request, reply }).await.ok()?;
        answered.await.ok()
    };
    match tokio::time::timeout(PATIENCE, asked).await {
        Ok(Some(reply)) => reply,
        // A request whose client was told so is not carried out later: its way back is closed.
        Ok(None) | Err(_) => {
            let phase = phase.lock().map_or_else(|e| e.into_inner().clone(), |phase| phase.clone());
            Reply::Error(format!("the engine does not answer: it {phase}; try again later"))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileTypeExt as _;

    use super::protocol::Resync;
    use super::*;

    async fn asked_in(dir: &Path, request: &Request) -> Result<Option<Reply>, String> {
        let (dir, request) = (dir.to_owned(), request.clone());
        tokio::task::spawn_blocking(move || ask(&dir, &request)).await.unwrap()
    }

    async fn answers(dir: &Path, control: &mut Control) {
        let request = Request::Resync(Resync { tables: vec!["a.b".to_owned()], truncate: false });
        let serve = async {
            let asked = control.next().await;
            assert_eq!(asked.request, request);
            asked.reply.send(Reply::Done("well".to_owned())).unwrap();
        };
        let (reply, ()) = tokio::join!(asked_in(dir, &request), serve);
        assert_eq!(reply, Ok(Some(Reply::Done("well".to_owned()))));
    }

    #[tokio::test]
    async fn one_request_one_reply_whatever_the_length_of_the_path() {
        let home = tempfile::tempdir().unwrap();
        for dir in [home.path().join("s"), home.path().join("long/".repeat(40))] {
            fs::create_dir_all(&dir).unwrap();
            assert_eq!(asked_in(&dir, &Request::Status).await, Ok(None), "nobody is there");
            let mut control = Control::open(&dir);
            let socket = fs::metadata(dir.join(SOCKET)).unwrap();
            assert!(socket.file_type().is_socket());
            assert_eq!(socket.permissions().mode() & 0o777, 0o600);
            answers(&dir, &mut control).await;
            drop(control);
            assert!(!dir.join(SOCKET).exists());
        }
    }

    #[tokio::test]
    async fn a_socket_that_a_killed_engine_left_is_replaced() {
        let home = tempfile::tempdir().unwrap();
        let dir = home.path();
        // Bound, and closed without being removed; and a start that was cut off.
        drop(bind(dir).unwrap());
        fs::create_dir(dir.join(CRADLE)).unwrap();
        fs::write(dir.join(CRADLE).join("s"), b"").unwrap();
        assert!(dir.join(SOCKET).exists());
        assert_eq!(asked_in(dir, &Request::Status).await, Ok(None), "nobody listens");
        let mut control = Control::open(dir);
        answers(dir, &mut control).await;
        assert!(!dir.join(CRADLE).exists());
    }

    #[tokio::test]
    async fn what_is_no_request_never_reaches_the_engine() {
        let home = tempfile::tempdir().unwrap();
        let mut control = Control::open(home.path());
        for (text, want) in [
            (b"what?\n".to_vec(), "cannot be read"),
            (vec![b'x'; REQUEST_LIMIT + 100], "longer than"),
            (Vec::new(), "cannot be read"),
        ] {
            let mut stream = UnixStream::connect(home.path().join(SOCKET)).await.unwrap();
            // It may be answered and closed before all of it is written.
            stream.write_all(&text).await.ok();
            stream.shutdown().await.ok();
            let mut reply = String::new();
            BufReader::new(stream).read_line(&mut reply).await.unwrap();
            assert!(reply.contains(want), "{reply}");
        }
        assert!(control.requests.try_recv().is_err());
    }
}

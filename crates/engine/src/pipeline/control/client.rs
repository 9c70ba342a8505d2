//! The side that asks.

use std::io::{BufRead as _, BufReader, ErrorKind, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use super::protocol::{REPLY_LIMIT, Reply, Request};
use super::{SOCKET, address};

/// Longer than an engine needs to say that it does not answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// Asks the engine that has the state directory `dir`; `None` when none listens there.
///
/// # Errors
/// The socket cannot be used, or what comes is no reply.
pub fn ask(dir: &Path, request: &Request) -> Result<Option<Reply>, String> {
    let failed = |e: std::io::Error| format!("the control socket in {} cannot be used: {e}", dir.display());
    let connected = address(dir, SOCKET).and_then(|(name, _open)| UnixStream::connect(name));
    let mut stream = match connected {
        Ok(stream) => stream,
        Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused) => return Ok(None),
        Err(e) => return Err(failed(e)),
    };
    stream.set_read_timeout(Some(PATIENCE)).map_err(failed)?;
    stream.set_write_timeout(Some(PATIENCE)).map_err(failed)?;
    let mut line = serde_json::to_vec(request).map_err(|e| e.to_string())?;
    line.push(b'\n');
    stream.write_all(&line).map_err(failed)?;
    let mut reply = Vec::new();
    let limit = u64::try_from(REPLY_LIMIT).unwrap_or(u64::MAX);
    BufReader::new(stream).take(limit).read_until(b'\n', &mut reply).map_err(failed)?;
    if reply.is_empty() {
        return Err("the engine ended before it answered; `millstream status` shows what it kept".to_owned());
    }
    serde_json::from_slice(&reply).map(Some).map_err(|e| format!("the engine's answer cannot be read: {e}"))
}

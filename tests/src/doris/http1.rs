//! A small HTTP/1.1 server side, written here because the checks of doris.md 2.3 need what a finished HTTP library
//! hides: whether both framing headers were sent, when the body is read, when `100 Continue` goes out, and how many
//! body bytes ever reached the front end.

use std::io;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Bytes a request head may take.
const HEAD_LIMIT: usize = 256 * 1024;
/// Bytes read from the socket at a time.
const READ: usize = 256 * 1024;

/// A request's first line and headers.
#[derive(Clone, Debug)]
pub(crate) struct Head {
    pub(crate) method: String,
    /// Path without the query.
    pub(crate) path: String,
    pub(crate) query: String,
    /// In order, names as sent.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) http10: bool,
}

impl Head {
    /// The first header of that name, in any case.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, v)| v.as_str())
    }

    /// A query parameter, percent-decoded.
    pub(crate) fn param(&self, name: &str) -> Option<String> {
        self.query.split('&').find_map(|pair| {
            let (k, v) = pair.split_once('=').unwrap_or((pair, ""));
            (k == name).then(|| percent_encoding::percent_decode_str(v).decode_utf8_lossy().into_owned())
        })
    }

    /// Path segments, percent-decoded. A slash at the end is none.
    pub(crate) fn segments(&self) -> Vec<String> {
        let path = self.path.strip_suffix('/').unwrap_or(&self.path);
        path.split('/')
            .skip(1)
            .map(|s| percent_encoding::percent_decode_str(s).decode_utf8_lossy().into_owned())
            .collect()
    }

    pub(crate) fn content_length(&self) -> Option<Result<u64, ()>> {
        self.header("content-length").map(|v| v.trim().parse().map_err(|_| ()))
    }

    pub(crate) fn chunked(&self) -> bool {
        self.header("transfer-encoding").is_some_and(|v| v.to_ascii_lowercase().contains("chunked"))
    }

    pub(crate) fn expects_continue(&self) -> bool {
        self.header("expect").is_some()
    }

    fn wants_close(&self) -> bool {
        let v = self.header("connection").unwrap_or("").to_ascii_lowercase();
        if self.http10 { !v.contains("keep-alive") } else { v.contains("close") }
    }
}

/// What is left of the current request's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Body {
    Length(u64),
    /// Inside a chunk with this many bytes left.
    Chunk(u64),
    /// A chunk's size line comes next.
    ChunkSize,
    Done,
}

/// One server-side connection.
pub(crate) struct Conn {
    stream: TcpStream,
    buf: Vec<u8>,
    at: usize,
    body: Body,
    close: bool,
    /// F23: how the reply of the current request is framed: in chunks, and the connection ended after it without a word.
    pub(crate) framing: (bool, bool),
    /// Body bytes of the current request that arrived.
    pub(crate) body_bytes: u64,
}

impl Conn {
    pub(crate) fn new(stream: TcpStream) -> Self {
        stream.set_nodelay(true).ok();
        Self { stream, buf: Vec::new(), at: 0, body: Body::Done, close: false, framing: (false, false), body_bytes: 0 }
    }

    pub(crate) fn peer(&self) -> String {
        self.stream.peer_addr().map(|a| a.ip().to_string()).unwrap_or_default()
    }

    async fn fill(&mut self) -> io::Result<usize> {
        if self.at == self.buf.len() {
            self.buf.clear();
            self.at = 0;
        } else if self.at > 0 && self.at > self.buf.len() / 2 {
            self.buf.drain(..self.at);
            self.at = 0;
        }
        self.buf.reserve(READ);
        self.stream.read_buf(&mut self.buf).await
    }

    /// Reads the next request head; None at a clean end.
    pub(crate) async fn read_head(&mut self) -> io::Result<Option<Head>> {
        if self.close {
            return Ok(None);
        }
        let mut scanned = 0;
        let end = loop {
            let have = &self.buf[self.at..];
            let from = scanned.min(have.len()).saturating_sub(3);
            if let Some(i) = have[from..].windows(4).position(|w| w == b"\r\n\r\n") {
                break from + i;
            }
            scanned = have.len();
            if scanned > HEAD_LIMIT {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "request head too long"));
            }
            let start = self.at;
            if self.fill().await? == 0 {
                return if self.at == self.buf.len() { Ok(None) } else { Err(io::ErrorKind::UnexpectedEof.into()) };
            }
            if self.at != start {
                scanned = 0;
            }
        };
        // Header values are bytes; Latin-1 keeps each one visible to the checks.
        let text = self.buf[self.at..self.at + end].to_vec();
        let text = String::from_utf8(text).unwrap_or_else(|e| e.into_bytes().iter().map(|b| char::from(*b)).collect());
        self.at += end + 4;
        let head = parse_head(&text).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "bad request head"))?;
        self.close = head.wants_close();
        self.body_bytes = 0;
        self.framing = (false, false);
        self.body = if head.chunked() {
            Body::ChunkSize
        } else {
            match head.content_length() {
                Some(Ok(n)) if n > 0 => Body::Length(n),
                _ => Body::Done,
            }
        };
        Ok(Some(head))
    }

    /// Appends some body bytes to `out`; 0 at the body's end. An end of the connection before that is an error.
    pub(crate) async fn read_body(&mut self, out: &mut Vec<u8>) -> io::Result<usize> {
        loop {
            match self.body {
                Body::Done => return Ok(0),
                Body::Length(left) | Body::Chunk(left) => {
                    if self.at == self.buf.len() && self.fill().await? == 0 {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                    let have = self.buf.len() - self.at;
                    let n = usize::try_from(left).map_or(have, |left| have.min(left));
                    out.extend_from_slice(&self.buf[self.at..self.at + n]);
                    self.at += n;
                    self.body_bytes += n as u64;
                    let left = left - n as u64;
                    let chunk = matches!(self.body, Body::Chunk(_));
                    self.body = match (chunk, left) {
                        (false, 0) => Body::Done,
                        (false, n) => Body::Length(n),
                        (true, 0) => {
                            if self.line().await?.is_empty() {
                                Body::ChunkSize
                            } else {
                                return Err(io::Error::new(io::ErrorKind::InvalidData, "no CRLF after a chunk"));
                            }
                        }
                        (true, n) => Body::Chunk(n),
                    };
                    return Ok(n);
                }
                Body::ChunkSize => {
                    let line = self.line().await?;
                    let size = line.split(';').next().unwrap_or("").trim();
                    let n = u64::from_str_radix(size, 16)
                        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "bad chunk size"))?;
                    if n == 0 {
                        while !self.line().await?.is_empty() {}
                        self.body = Body::Done;
                    } else {
                        self.body = Body::Chunk(n);
                    }
                }
            }
        }
    }

    async fn line(&mut self) -> io::Result<String> {
        loop {
            if let Some(i) = self.buf[self.at..].windows(2).position(|w| w == b"\r\n") {
                let line = String::from_utf8_lossy(&self.buf[self.at..self.at + i]).into_owned();
                self.at += i + 2;
                return Ok(line);
            }
            if self.buf.len() - self.at > HEAD_LIMIT {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "line too long"));
            }
            if self.fill().await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }

    /// Tells a waiting client to send its body.
    pub(crate) async fn send_continue(&mut self) -> io::Result<()> {
        self.stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await
    }

    /// Whether the current request's body is still to come.
    pub(crate) fn body_pending(&self) -> bool {
        self.body != Body::Done
    }

    /// Reads and drops the rest of the body, at most `limit` bytes, each read within `idle`. False: not all of it came.
    pub(crate) async fn drain(&mut self, limit: u64, idle: Duration) -> bool {
        let mut sink = Vec::new();
        let mut total = 0;
        while self.body_pending() {
            sink.clear();
            match tokio::time::timeout(idle, self.read_body(&mut sink)).await {
                Ok(Ok(n)) => total += n as u64,
                _ => return false,
            }
            if total > limit {
                return false;
            }
        }
        true
    }

    /// Writes a whole response.
    pub(crate) async fn respond(&mut self, status: &str, headers: &[(&str, &str)], body: &[u8]) -> io::Result<()> {
        let mut out = format!("HTTP/1.1 {status}\r\n");
        for (name, value) in headers {
            out.push_str(&format!("{name}: {value}\r\n"));
        }
        let (chunked, close) = self.framing;
        if chunked {
            out.push_str("Transfer-Encoding: chunked\r\n");
        } else {
            out.push_str(&format!("Content-Length: {}\r\n", body.len()));
        }
        if self.close {
            out.push_str("Connection: close\r\n");
        }
        out.push_str("\r\n");
        let mut out = out.into_bytes();
        if chunked {
            for part in body.chunks(body.len().div_ceil(3).max(1)) {
                out.extend_from_slice(format!("{:x}\r\n", part.len()).as_bytes());
                out.extend_from_slice(part);
                out.extend_from_slice(b"\r\n");
            }
            out.extend_from_slice(b"0\r\n\r\n");
        } else {
            out.extend_from_slice(body);
        }
        self.close |= close;
        self.stream.write_all(&out).await?;
        self.stream.flush().await
    }

    /// The client sees the connection's end; what it still sends is read.
    pub(crate) async fn hang_up(&mut self) {
        self.stream.shutdown().await.ok();
    }

    /// Ends the connection with a reset, as a dying process does.
    pub(crate) fn reset(self) {
        self.stream.set_zero_linger().ok();
    }
}

fn parse_head(text: &str) -> Option<Head> {
    let mut lines = text.split("\r\n");
    let mut first = lines.next()?.split(' ');
    let (method, target, version) = (first.next()?, first.next()?, first.next()?);
    if first.next().is_some() || !version.starts_with("HTTP/1.") || !target.starts_with('/') {
        return None;
    }
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let mut headers = Vec::new();
    for line in lines {
        let (name, value) = line.split_once(':')?;
        if name.is_empty() || name.contains([' ', '\t']) {
            return None;
        }
        headers.push((name.to_owned(), value.trim().to_owned()));
    }
    Some(Head {
        method: method.to_owned(),
        path: path.to_owned(),
        query: query.to_owned(),
        headers,
        http10: version == "HTTP/1.0",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_are_split_and_bad_ones_refused() {
        let head =
            parse_head("PUT /api/d%2e/t/_stream_load?x=1%20&y HTTP/1.1\r\nLabel: a:b\r\nExpect:100-continue").unwrap();
        assert_eq!(head.segments(), ["api", "d.", "t", "_stream_load"]);
        assert_eq!(head.param("x").as_deref(), Some("1 "));
        assert_eq!(parse_head("GET /a/b/ HTTP/1.1").unwrap().segments(), ["a", "b"]);
        assert_eq!(head.header("label"), Some("a:b"));
        assert!(head.expects_continue() && !head.wants_close());
        for bad in
            ["GET /", "GET x HTTP/1.1", "GET / HTTP/2.0", "GET / HTTP/1.1\r\nno colon", "GET / HTTP/1.1\r\na b: c"]
        {
            assert!(parse_head(bad).is_none(), "{bad}");
        }
    }
}

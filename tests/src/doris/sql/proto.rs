//! The server side of the MySQL protocol as the front end speaks it (doris.md 8.1): packets, handshake, replies.

use millstream_wire::codec::{Reader, Writer};
use sha1::{Digest, Sha1};
use std::io;
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

/// Payload bytes of a full packet; a longer message goes on in the next one.
const FULL: usize = 0xff_ffff;
/// Bytes of a message a client may send.
const MESSAGE_LIMIT: usize = 64 << 20;

const LONG_FLAG: u32 = 0x4;
const CONNECT_WITH_DB: u32 = 0x8;
const LOCAL_FILES: u32 = 0x80;
const PROTOCOL_41: u32 = 0x200;
const SECURE_CONNECTION: u32 = 0x8000;
const PLUGIN_AUTH: u32 = 0x8_0000;
const CONNECT_ATTRS: u32 = 0x10_0000;
const PLUGIN_AUTH_LENENC: u32 = 0x20_0000;
const DEPRECATE_EOF: u32 = 0x100_0000;

/// What the newest front ends advertise (8.1), without TLS.
const CAPABILITIES: u32 = LONG_FLAG
    | CONNECT_WITH_DB
    | LOCAL_FILES
    | PROTOCOL_41
    | SECURE_CONNECTION
    | PLUGIN_AUTH
    | CONNECT_ATTRS
    | PLUGIN_AUTH_LENENC
    | DEPRECATE_EOF;

/// The version text of the handshake and of `version()`.
pub(super) const VERSION: &str = "5.7.99";
const NATIVE: &[u8] = b"mysql_native_password";

/// A column of a result set.
#[derive(Clone, Debug)]
pub(super) struct ColumnDef {
    pub(super) name: String,
    /// The protocol's type number.
    pub(super) kind: u8,
}

/// A client's connection.
pub(super) struct Wire {
    stream: BufReader<TcpStream>,
    seq: u8,
    deprecate_eof: bool,
    out: Vec<u8>,
}

/// Who wants in.
pub(super) struct Login {
    pub(super) user: String,
    pub(super) db: Option<String>,
    proof: Vec<u8>,
    salt: [u8; 20],
}

fn bad(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_owned())
}

impl Login {
    /// Whether the proof is of this password.
    pub(super) fn proves(&self, password: &str) -> bool {
        if password.is_empty() {
            return self.proof.is_empty();
        }
        let once = Sha1::digest(password.as_bytes());
        let twice = Sha1::digest(once);
        let mixed = Sha1::new().chain_update(self.salt).chain_update(twice).finalize();
        let want: Vec<u8> = once.iter().zip(mixed.iter()).map(|(a, b)| a ^ b).collect();
        self.proof == want
    }
}

impl Wire {
    pub(super) fn new(stream: TcpStream) -> Self {
        stream.set_nodelay(true).ok();
        Self { stream: BufReader::new(stream), seq: 0, deprecate_eof: false, out: Vec::new() }
    }

    pub(super) fn peer(&self) -> String {
        self.stream.get_ref().peer_addr().map(|a| a.ip().to_string()).unwrap_or_default()
    }

    /// The next message; None at the connection's end.
    async fn message(&mut self) -> io::Result<Option<Vec<u8>>> {
        let mut message = Vec::new();
        loop {
            let mut head = [0; 4];
            match self.stream.read_exact(&mut head).await {
                Ok(_) => {}
                Err(e) if e.kind() == io::ErrorKind::UnexpectedEof && message.is_empty() => return Ok(None),
                Err(e) => return Err(e),
            }
            let len = usize::from(head[0]) | usize::from(head[1]) << 8 | usize::from(head[2]) << 16;
            self.seq = head[3].wrapping_add(1);
            if message.len() + len > MESSAGE_LIMIT {
                return Err(bad("message too long"));
            }
            let start = message.len();
            message.resize(start + len, 0);
            self.stream.read_exact(&mut message[start..]).await?;
            if len < FULL {
                return Ok(Some(message));
            }
        }
    }

    /// The next command.
    pub(super) async fn command(&mut self) -> io::Result<Option<Vec<u8>>> {
        self.message().await
    }

    fn put(&mut self, mut payload: &[u8]) {
        loop {
            let n = payload.len().min(FULL);
            let (now, rest) = payload.split_at(n);
            let [low, middle, high, ..] = n.to_le_bytes();
            self.out.extend_from_slice(&[low, middle, high, self.seq]);
            self.out.extend_from_slice(now);
            self.seq = self.seq.wrapping_add(1);
            payload = rest;
            if n < FULL {
                return;
            }
        }
    }

    pub(super) async fn flush(&mut self) -> io::Result<()> {
        self.stream.get_mut().write_all(&self.out).await?;
        self.out.clear();
        Ok(())
    }

    /// Sends what has gathered once it is worth a write.
    pub(super) async fn flush_if_large(&mut self) -> io::Result<()> {
        if self.out.len() >= 128 * 1024 { self.flush().await } else { Ok(()) }
    }

    /// Greets, and reads who answers, switching to native password where the client begins otherwise.
    pub(super) async fn login(&mut self, thread: u32) -> io::Result<Option<Login>> {
        let mut salt = [0; 20];
        salt.fill_with(|| fastrand::u8(1..=127));
        let mut w = Writer::new();
        w.u8(10).nul_bytes(VERSION.as_bytes()).u32_le(thread).bytes(&salt[..8]).u8(0);
        let capabilities = CAPABILITIES.to_le_bytes();
        let (low, high) = capabilities.split_at(2);
        w.bytes(low).u8(33).u16_le(0).bytes(high).u8(21).zeros(10);
        w.bytes(&salt[8..]).u8(0).nul_bytes(NATIVE);
        self.seq = 0;
        self.put(&w.into_bytes());
        self.flush().await?;
        let Some(message) = self.message().await? else { return Ok(None) };
        let (mut login, flags, plugin) = parse_login(&message, salt).map_err(|e| bad(&e.to_string()))?;
        self.deprecate_eof = flags & DEPRECATE_EOF != 0;
        if plugin.as_deref().is_some_and(|p| p != NATIVE) {
            let mut w = Writer::new();
            w.u8(0xfe).nul_bytes(NATIVE).bytes(&salt).u8(0);
            self.put(&w.into_bytes());
            self.flush().await?;
            let Some(proof) = self.message().await? else { return Ok(None) };
            login.proof = proof;
        }
        Ok(Some(login))
    }

    pub(super) async fn ok(&mut self, affected: u64) -> io::Result<()> {
        let mut w = Writer::new();
        w.u8(0).lenenc(affected).lenenc(0).u16_le(2).u16_le(0);
        self.put(&w.into_bytes());
        self.flush().await
    }

    pub(super) async fn err(&mut self, code: u16, state: &str, text: &str) -> io::Result<()> {
        let mut w = Writer::new();
        w.u8(0xff).u16_le(code).bytes(b"#").bytes(state.as_bytes()).bytes(text.as_bytes());
        self.put(&w.into_bytes());
        self.flush().await
    }

    /// The head of a result set.
    pub(super) fn columns(&mut self, columns: &[ColumnDef]) {
        let mut w = Writer::new();
        w.lenenc(columns.len() as u64);
        self.put(&w.into_bytes());
        self.definitions(columns);
    }

    /// Column definitions, and the EOF of clients that want one.
    pub(super) fn definitions(&mut self, columns: &[ColumnDef]) {
        for c in columns {
            let text = matches!(c.kind, 252..=254);
            let mut w = Writer::new();
            w.lenenc_bytes(b"def").lenenc_bytes(b"").lenenc_bytes(b"").lenenc_bytes(b"");
            w.lenenc_bytes(c.name.as_bytes()).lenenc_bytes(c.name.as_bytes()).u8(0x0c);
            w.u16_le(if text { 33 } else { 63 }).u32_le(if text { 196_599 } else { 20 }).u8(c.kind);
            w.u16_le(0).u8(0).u16_le(0);
            self.put(&w.into_bytes());
        }
        if !self.deprecate_eof {
            self.put(&[0xfe, 0, 0, 2, 0]);
        }
    }

    /// A text row.
    pub(super) fn row<'a>(&mut self, values: impl Iterator<Item = Option<&'a [u8]>>) {
        let mut w = Writer::new();
        for v in values {
            match v {
                None => w.u8(0xfb),
                Some(v) => w.lenenc_bytes(v),
            };
        }
        self.put(&w.into_bytes());
    }

    /// A binary row whose columns are all strings.
    pub(super) fn binary_row<'a>(&mut self, values: impl Iterator<Item = Option<&'a [u8]>> + Clone) {
        let mut bitmap = vec![0u8; (values.clone().count() + 9) / 8];
        let mut w = Writer::new();
        for (i, v) in values.enumerate() {
            match v {
                None => bitmap[(i + 2) / 8] |= 1 << ((i + 2) % 8),
                Some(v) => {
                    w.lenenc_bytes(v);
                }
            }
        }
        let mut row = vec![0];
        row.extend_from_slice(&bitmap);
        row.extend_from_slice(&w.into_bytes());
        self.put(&row);
    }

    /// The end of a result set.
    pub(super) async fn end_rows(&mut self) -> io::Result<()> {
        if self.deprecate_eof {
            self.put(&[0xfe, 0, 0, 2, 0, 0, 0]);
        } else {
            self.put(&[0xfe, 0, 0, 2, 0]);
        }
        self.flush().await
    }

    /// COM_STMT_PREPARE_OK with its parameters.
    pub(super) async fn prepared(&mut self, id: u32, params: u16) -> io::Result<()> {
        let mut w = Writer::new();
        w.u8(0).u32_le(id).u16_le(0).u16_le(params).u8(0).u16_le(0);
        self.put(&w.into_bytes());
        if params > 0 {
            let columns = vec![ColumnDef { name: "?".into(), kind: 253 }; usize::from(params)];
            self.definitions(&columns);
        }
        self.flush().await
    }

    /// The end of a COM_FIELD_LIST answer.
    pub(super) async fn end_fields(&mut self) -> io::Result<()> {
        if self.deprecate_eof {
            self.put(&[0xfe, 0, 0, 2, 0]);
        }
        self.flush().await
    }
}

type Parsed = (Login, u32, Option<Vec<u8>>);

fn parse_login(message: &[u8], salt: [u8; 20]) -> Result<Parsed, millstream_wire::codec::ParseError> {
    let mut r = Reader::new(message);
    let flags = r.u32_le("client_flag")?;
    r.u32_le("max_packet_size")?;
    r.u8("character_set")?;
    r.bytes(23, "filler")?;
    let user = r.nul_bytes("username")?;
    let proof = if flags & PLUGIN_AUTH_LENENC != 0 {
        r.lenenc_bytes("auth_response")?
    } else {
        let n = r.u8("auth_response_length")?;
        r.bytes(usize::from(n), "auth_response")?
    };
    let db = if flags & CONNECT_WITH_DB != 0 { Some(r.nul_bytes("database")?) } else { None };
    let plugin = if flags & PLUGIN_AUTH != 0 { Some(r.nul_bytes("client_plugin_name")?.to_vec()) } else { None };
    let text = |b: &[u8]| String::from_utf8_lossy(b).into_owned();
    let user = text(user).split('#').next().unwrap_or_default().to_owned();
    let db = db.map(text).filter(|d| !d.is_empty());
    Ok((Login { user, db, proof: proof.to_vec(), salt }, flags, plugin))
}

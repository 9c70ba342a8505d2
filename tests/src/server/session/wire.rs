//! A blocking session over this project's own sans-IO protocol core.
//!
//! Many statements in one call are the server's to split (it knows its own comments and strings), so the session turns
//! multi-statements on, which the project's driver never does.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use millstream_wire::connect::{Action, Connect, Login};
use millstream_wire::flags::CapabilityFlags;
use millstream_wire::packet::{MAX_PACKET, PacketCodec};
use millstream_wire::query::{QueryEvent, ResultReader};
use millstream_wire::{ColumnDefinition, Row, RowFormat, command, connect};

use super::SessionError;

/// COM_SET_OPTION, MYSQL_OPTION_MULTI_STATEMENTS_ON (`page_protocol_com_set_option`).
const MULTI_STATEMENTS_ON: [u8; 3] = [0x1b, 0, 0];
/// ER_EMPTY_QUERY: what is behind the last semicolon is a comment or nothing.
const EMPTY_QUERY: u16 = 1065;
/// A statement that hangs fails the test instead of holding it for ever.
const PATIENCE: Duration = Duration::from_secs(300);

#[derive(Debug)]
pub(super) struct Session {
    pipe: Pipe,
    capabilities: CapabilityFlags,
}

/// Packets over the socket.
#[derive(Debug)]
struct Pipe {
    stream: UnixStream,
    codec: PacketCodec,
    input: BytesMut,
}

impl Pipe {
    fn send(&mut self, payload: &[u8]) -> Result<(), SessionError> {
        let mut out = Vec::new();
        self.codec.encode(payload, &mut out);
        Ok(self.stream.write_all(&out)?)
    }

    fn command(&mut self, payload: &[u8]) -> Result<(), SessionError> {
        self.codec.begin_command();
        self.send(payload)
    }

    fn receive(&mut self) -> Result<Bytes, SessionError> {
        let mut buffer = vec![0; 64 * 1024];
        loop {
            if let Some(packet) = self.codec.decode(&mut self.input)? {
                return Ok(packet);
            }
            match self.stream.read(&mut buffer)? {
                0 => return Err(SessionError::new("the server closed the connection".to_owned())),
                n => self.input.extend_from_slice(&buffer[..n]),
            }
        }
    }
}

impl From<millstream_wire::Error> for SessionError {
    fn from(error: millstream_wire::Error) -> Self {
        Self::new(match error.server_error() {
            // As the mysql program puts it.
            Some(server) => format!("ERROR {} ({}): {}", server.code, server.sqlstate(), server.message),
            None => error.to_string(),
        })
    }
}

impl Session {
    /// Logs in as root, without a password.
    pub(super) fn open(socket: &Path) -> Result<Self, SessionError> {
        let stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let login = Login {
            user: "root".to_owned(),
            tls: connect::TlsUse::Never,
            local: true,
            max_packet: u32::try_from(MAX_PACKET).unwrap_or(u32::MAX),
            ..Login::default()
        };
        let mut connect = Connect::new(login)?;
        let mut pipe = Pipe { stream, codec: PacketCodec::new(MAX_PACKET), input: BytesMut::new() };
        let mut action = Action::Wait;
        let session = loop {
            action = match action {
                Action::Wait => connect.handle(&pipe.receive()?)?,
                Action::Send(payload) => {
                    pipe.send(&payload)?;
                    Action::Wait
                }
                Action::Done(session) => break session,
                _ => return Err(SessionError::new("a socket needs no encryption".to_owned())),
            };
        };
        pipe.command(&MULTI_STATEMENTS_ON)?;
        match pipe.receive()?.first() {
            Some(0 | 0xfe) => Ok(Self { pipe, capabilities: session.capabilities }),
            _ => Err(SessionError::new("the server refused multi-statements".to_owned())),
        }
    }

    pub(super) fn sql(&mut self, statements: &str) -> Result<Vec<Vec<String>>, SessionError> {
        self.pipe.command(&command::query(statements.as_bytes()))?;
        let mut reader = ResultReader::new(self.capabilities, RowFormat::Text);
        let mut columns: Arc<[ColumnDefinition]> = Arc::new([]);
        let mut rows = Vec::new();
        loop {
            let packet = self.pipe.receive()?;
            match reader.handle(&packet) {
                Ok(QueryEvent::Columns(known)) => columns = known,
                Ok(QueryEvent::Row) => rows.push(texts(&Row::new(packet, Arc::clone(&columns), RowFormat::Text))?),
                Ok(QueryEvent::Done { more: false, .. }) => return Ok(rows),
                Ok(_) => {}
                Err(error) if error.server_error().is_some_and(|error| error.code == EMPTY_QUERY) => return Ok(rows),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// A row as the mysql program shows it.
fn texts(row: &Row) -> Result<Vec<String>, SessionError> {
    let text = |text| match text {
        Ok(None) => Ok("NULL".to_owned()),
        Ok(Some(bytes)) => Ok(String::from_utf8_lossy(bytes).into_owned()),
        Err(error) => Err(SessionError::new(format!("a row that does not parse: {error}"))),
    };
    row.texts().map(text).collect()
}

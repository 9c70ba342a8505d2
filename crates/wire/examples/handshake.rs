//! Logs in to a MySQL or MariaDB server and asks for its version, over a blocking `std::net::TcpStream`: no tokio, no TLS.
//!
//! ```sh
//! MYSQL_PWD=secret cargo run -p millstream-wire --no-default-features --example handshake -- 127.0.0.1:3306 user
//! ```

#![allow(clippy::print_stdout, reason = "an example prints")]

use std::error::Error;
use std::io::{Read, Write};
use std::net::TcpStream;

use bytes::{Bytes, BytesMut};
use millstream_wire::connect::{Action, Connect, Login, TlsUse};
use millstream_wire::packet::{MAX_PACKET, PacketCodec};
use millstream_wire::query::{QueryEvent, ResultReader};
use millstream_wire::{RowFormat, command};

/// All the I/O there is: frames in, frames out.
struct Client {
    stream: TcpStream,
    codec: PacketCodec,
    buffer: BytesMut,
}

impl Client {
    fn receive(&mut self) -> Result<Bytes, Box<dyn Error>> {
        loop {
            if let Some(packet) = self.codec.decode(&mut self.buffer)? {
                return Ok(packet);
            }
            let mut chunk = [0; 4096];
            let n = self.stream.read(&mut chunk)?;
            if n == 0 {
                return Err("the server closed the connection".into());
            }
            self.buffer.extend_from_slice(chunk.get(..n).unwrap_or_default());
        }
    }

    fn send(&mut self, payload: &[u8]) -> Result<(), Box<dyn Error>> {
        let mut frames = Vec::new();
        self.codec.encode(payload, &mut frames);
        Ok(self.stream.write_all(&frames)?)
    }
}

/// Logs in, runs one statement and returns the text of its first value.
pub(crate) fn run(stream: TcpStream, user: &str, password: &str, sql: &str) -> Result<String, Box<dyn Error>> {
    let mut client = Client { stream, codec: PacketCodec::new(MAX_PACKET), buffer: BytesMut::new() };
    let login = Login {
        user: user.into(),
        password: password.into(),
        tls: TlsUse::Never,
        max_packet: 1 << 24,
        ..Login::default()
    };
    // The state machine takes packets and says what to do; it never touches the socket.
    let mut connect = Connect::new(login)?;
    let mut action = Action::Wait;
    let session = loop {
        action = match action {
            Action::Wait => connect.handle(&client.receive()?)?,
            Action::Send(payload) => {
                client.send(&payload)?;
                Action::Wait
            }
            Action::Done(session) => break session,
            // caching_sha2_password without TLS, when the server does not remember the user yet.
            Action::Encrypt { .. } => return Err("this login needs RSA: feature `client` has it".into()),
            _ => return Err("this login needs more than this example does".into()),
        };
    };

    client.codec.begin_command();
    client.send(&command::query(sql.as_bytes()))?;
    let mut reader = ResultReader::new(session.capabilities, RowFormat::Text);
    let mut first = None;
    let mut columns = None;
    while !reader.is_finished() {
        let packet = client.receive()?;
        match reader.handle(&packet)? {
            QueryEvent::Columns(of_rows) => columns = Some(of_rows),
            QueryEvent::Row if first.is_none() => {
                let row = columns.clone().map(|columns| millstream_wire::Row::new(packet, columns, RowFormat::Text));
                let text = row.as_ref().and_then(|row| row.texts().next()).transpose()?.flatten();
                first = Some(String::from_utf8_lossy(text.unwrap_or(b"NULL")).into_owned());
            }
            _ => {}
        }
    }
    client.codec.begin_command();
    client.send(&command::quit())?;
    first.ok_or_else(|| "no row came".into())
}

#[allow(dead_code, reason = "a test calls what main calls")]
fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let (Some(address), Some(user)) = (args.next(), args.next()) else {
        return Err("usage: MYSQL_PWD=… handshake HOST:PORT USER".into());
    };
    let password = std::env::var("MYSQL_PWD").unwrap_or_default();
    println!("{}", run(TcpStream::connect(address)?, &user, &password, "SELECT VERSION()")?);
    Ok(())
}

//! Follows a server's binlog from its current end and prints what comes: type code, size and end of each event.
//!
//! ```sh
//! MYSQL_PWD=secret cargo run -p millstream-wire --example tail -- 127.0.0.1 3306 repl
//! ```
//!
//! `millstream-binlog` decodes the events: hand each to its `EventDecoder::decode`.

#![allow(clippy::print_stdout, reason = "an example prints")]

use std::error::Error;
use std::io::Write;

use millstream_wire::codec::Reader;
use millstream_wire::statements::{Ask, statement};
use millstream_wire::{BinlogDump, ConnectOptions, Connection, DumpStart};

/// Prints events to `out` until one of type `until` has come.
pub(crate) async fn run(
    options: &ConnectOptions,
    until: Option<u8>,
    out: &mut impl Write,
) -> Result<(), Box<dyn Error>> {
    let mut connection = Connection::connect(options).await?;
    let status = connection.query_all(statement(Ask::BinlogStatus, connection.version())).await?;
    let (file, position) = (status.text(0, "File"), status.text(0, "Position"));
    let (Some(file), Some(position)) = (file, position) else { return Err("the server writes no binlog".into()) };
    writeln!(out, "from {file}:{position} of {}", connection.server_version())?;

    // A replica needs a number and a UUID that no other replica of the server has.
    let start = DumpStart::Position { file: file.to_owned(), position: position.parse()? };
    let mut dump = BinlogDump::new(start, 4_294_000_001, "b9a6d0f2-5e0c-4c8e-9f57-3b7c1f3f9a10");
    dump.register = false;
    let mut stream = connection.dump(dump).await?;
    while let Some(event) = stream.next().await? {
        // The 19 bytes that every event begins with.
        let mut header = Reader::new(&event);
        let timestamp = header.u32_le("timestamp")?;
        let event_type = header.u8("event type")?;
        let server_id = header.u32_le("server id")?;
        let (length, end) = (header.u32_le("length")?, header.u32_le("end")?);
        writeln!(out, "type {event_type}, {length} bytes, ends at {end}, time {timestamp}, server {server_id}")?;
        if until == Some(event_type) {
            break;
        }
    }
    Ok(())
}

#[allow(dead_code, reason = "a test calls what main calls")]
#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let (Some(host), Some(port), Some(user)) = (args.next(), args.next(), args.next()) else {
        return Err("usage: MYSQL_PWD=… tail HOST PORT USER".into());
    };
    let password = std::env::var("MYSQL_PWD").unwrap_or_default();
    let options = ConnectOptions::tcp(host, port.parse()?).user(user).password(password);
    run(&options, None, &mut std::io::stdout()).await
}

use std::io;

use millstream_binlog::EventType;

/// Why a log could not be read to its end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Options that contradict each other or that the source cannot honour.
    #[error("{0}")]
    Usage(String),
    /// A file cannot be opened.
    #[error("{file}: cannot be opened")]
    Open {
        /// The file.
        file: String,
        /// Why.
        source: io::Error,
    },
    /// An event cannot be decoded.
    #[error("{file}: {} at offset {offset}", named(*event, *inner))]
    Event {
        /// The file.
        file: String,
        /// Where the event begins; of a compressed transaction the outer one.
        offset: u64,
        /// Its type, if so much could be read.
        event: Option<EventType>,
        /// Inside a compressed transaction.
        inner: bool,
        /// Why.
        source: millstream_binlog::Error,
    },
    /// A row event whose table the log has not named.
    #[error("{file}: {event} event at offset {offset}: rows of table id {table_id}, which no TABLE_MAP before it names{}",
        if *live { "; begin at the start of a transaction" } else { "" })]
    NoTable {
        /// The file.
        file: String,
        /// Where the event begins.
        offset: u64,
        /// Its type.
        event: EventType,
        /// The id.
        table_id: u64,
        /// Whether the log came from a server, by a position that the user chose.
        live: bool,
    },
    /// The server, or the way to it.
    #[error("{at}: {doing}")]
    Server {
        /// Which server, without the login.
        at: String,
        /// What was being done.
        doing: &'static str,
        /// Why.
        source: millstream_wire::Error,
    },
    /// The output cannot be written.
    #[error("cannot write the output")]
    Output(#[from] io::Error),
}

impl Error {
    /// Whether the reader of the output has gone away: not worth a message.
    #[must_use]
    pub fn is_broken_pipe(&self) -> bool {
        matches!(self, Self::Output(e) if e.kind() == io::ErrorKind::BrokenPipe)
    }

    /// Whether nothing was read because the options cannot be.
    #[must_use]
    pub const fn is_usage(&self) -> bool {
        matches!(self, Self::Usage(_))
    }
}

fn named(event: Option<EventType>, inner: bool) -> String {
    let place = if inner { " inside the compressed transaction" } else { "" };
    match event {
        Some(event) => format!("{event} event{place}"),
        None => format!("event{place}"),
    }
}

//! The answer to COM_QUERY or COM_STMT_EXECUTE as a state machine over packets.
//!
//! ```text
//! OK | ERR | LOCAL INFILE
//! column count, column definitions, [EOF], rows, EOF | OK    -- again while MORE_RESULTS is set
//! column count, column definitions, EOF | OK                 -- a cursor was opened: no rows yet
//! rows, EOF | OK                                             -- fetched from a cursor
//! ```

use std::sync::Arc;

use crate::codec::{ParseError, ParseErrorKind, Reader};
use crate::error::{Error, Kind, escape};
use crate::flags::{CapabilityFlags, StatusFlags};
use crate::response::{ColumnDefinition, EofPacket, OkPacket, Phase, Reply, RowFormat, classify, parse_err};

/// Columns a server allows in a result.
const MAX_COLUMNS: u64 = 4096;
const DURING: &str = "running a statement";

/// What a packet was.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum QueryEvent {
    /// Nothing to tell yet: hand over the next packet.
    Pending,
    /// All columns of a result set are known; rows follow.
    Columns(Arc<[ColumnDefinition]>),
    /// The packet is a row of the current result set.
    Row,
    /// The server asks for a file of this machine: send [`no_file`](crate::command::no_file) as the next packet, then hand
    /// over what comes. The answer ends in an error that [`is_file_request`](Error::is_file_request).
    FileRequested,
    /// A result is done; another follows if `more`.
    Done {
        /// The end of the result.
        ok: OkPacket,
        /// Another result follows.
        more: bool,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Head,
    Columns {
        left: u64,
    },
    ColumnsEof,
    Rows,
    /// A file was asked for; nothing is given.
    Refusing,
    Finished,
}

/// Follows the answer to one statement.
#[derive(Debug)]
pub struct ResultReader {
    capabilities: CapabilityFlags,
    format: RowFormat,
    state: State,
    columns: Vec<ColumnDefinition>,
    /// A cursor was asked for.
    cursor: bool,
    /// The EOF after the columns said that the rows are OUT parameters. MySQL does not say it again after them, nor that the
    /// procedure's OK follows (`Protocol_binary::send_out_parameters`).
    out_params: bool,
    /// The file that the server asked for.
    file: String,
}

impl ResultReader {
    /// A reader for the first packet of an answer.
    #[must_use]
    pub const fn new(capabilities: CapabilityFlags, format: RowFormat) -> Self {
        Self {
            capabilities,
            format,
            state: State::Head,
            columns: Vec::new(),
            cursor: false,
            out_params: false,
            file: String::new(),
        }
    }

    /// A reader for the answer to [`execute_with_cursor`](crate::command::execute_with_cursor). If the answer is over with
    /// its columns, or ends with [`CURSOR_EXISTS`](StatusFlags::CURSOR_EXISTS), a cursor is open; otherwise the rows came
    /// at once.
    #[must_use]
    pub fn with_cursor(capabilities: CapabilityFlags) -> Self {
        Self { cursor: true, ..Self::new(capabilities, RowFormat::Binary) }
    }

    /// A reader for the answer to [`fetch`](crate::command::fetch): rows of columns that are known, and an end whose
    /// [`LAST_ROW_SENT`](StatusFlags::LAST_ROW_SENT) says whether there are more.
    #[must_use]
    pub fn fetched(capabilities: CapabilityFlags) -> Self {
        Self { state: State::Rows, ..Self::new(capabilities, RowFormat::Binary) }
    }

    /// How the rows are written.
    #[must_use]
    pub const fn format(&self) -> RowFormat {
        self.format
    }

    /// The whole answer has been read.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.state == State::Finished
    }

    /// Takes the next packet.
    ///
    /// # Errors
    /// An ERR packet (it may come in place of any row; the answer is then over and the connection is in order), a
    /// malformed packet, or the end of an answer that asked for a local file.
    pub fn handle(&mut self, packet: &[u8]) -> Result<QueryEvent, Error> {
        let result = self.step(packet);
        if result.is_err() {
            self.state = State::Finished;
        }
        result
    }

    fn step(&mut self, packet: &[u8]) -> Result<QueryEvent, Error> {
        let malformed = |e| Error::malformed(DURING, e);
        let phase = match (self.state, self.format) {
            (State::Head, _) => Phase::Query,
            (State::Columns { .. } | State::ColumnsEof, _) => Phase::Column,
            (State::Rows, RowFormat::Text) => Phase::TextRow,
            (State::Rows, RowFormat::Binary) => Phase::BinaryRow,
            (State::Refusing, _) => Phase::Simple,
            (State::Finished, _) => return Err(Error::usage("the answer is over")),
        };
        let reply = classify(packet, self.capabilities, phase).map_err(malformed)?;
        match (self.state, reply) {
            (State::Refusing, Reply::Ok | Reply::Err) => {
                Err(Error::new(Kind::LocalFile { name: core::mem::take(&mut self.file) }))
            }
            (_, Reply::Err) => Err(Error::server(DURING, parse_err(packet).map_err(malformed)?)),
            (State::Rows, Reply::Data) => Ok(QueryEvent::Row),
            (State::Head | State::Rows, Reply::Ok) => {
                let ok = OkPacket::parse(packet, self.capabilities).map_err(malformed)?;
                Ok(self.done(ok))
            }
            (State::Rows, Reply::Eof) => {
                let eof = EofPacket::parse(packet).map_err(malformed)?;
                Ok(self.done(OkPacket { status: eof.status, warnings: eof.warnings, ..OkPacket::default() }))
            }
            (State::Head, Reply::Data) => {
                let left = column_count(packet).map_err(malformed)?;
                self.columns.clear();
                self.state = State::Columns { left };
                Ok(QueryEvent::Pending)
            }
            (State::Columns { left }, Reply::Data) => {
                self.columns.push(ColumnDefinition::parse(packet).map_err(malformed)?);
                match left.saturating_sub(1) {
                    0 if self.capabilities.contains(CapabilityFlags::DEPRECATE_EOF) => Ok(self.columns_known()),
                    0 => {
                        self.state = State::ColumnsEof;
                        Ok(QueryEvent::Pending)
                    }
                    left => {
                        self.state = State::Columns { left };
                        Ok(QueryEvent::Pending)
                    }
                }
            }
            (State::ColumnsEof, Reply::Eof) => {
                let eof = EofPacket::parse(packet).map_err(malformed)?;
                let event = self.columns_known();
                self.out_params = eof.status.contains(StatusFlags::PS_OUT_PARAMS);
                if self.cursor && eof.status.contains(StatusFlags::CURSOR_EXISTS) {
                    self.state = State::Finished;
                }
                Ok(event)
            }
            (State::Head, Reply::LocalInfile) => {
                self.file = escape(packet.get(1..).unwrap_or_default(), 256);
                self.state = State::Refusing;
                Ok(QueryEvent::FileRequested)
            }
            _ => Err(Error::unexpected(DURING, "a packet that has no place there")),
        }
    }

    fn columns_known(&mut self) -> QueryEvent {
        self.state = State::Rows;
        QueryEvent::Columns(core::mem::take(&mut self.columns).into())
    }

    fn done(&mut self, mut ok: OkPacket) -> QueryEvent {
        if core::mem::take(&mut self.out_params) {
            ok.status |= StatusFlags::PS_OUT_PARAMS | StatusFlags::MORE_RESULTS;
        }
        let more = ok.status.contains(StatusFlags::MORE_RESULTS);
        self.state = if more { State::Head } else { State::Finished };
        QueryEvent::Done { ok, more }
    }
}

fn column_count(packet: &[u8]) -> Result<u64, ParseError> {
    let mut r = Reader::new(packet);
    let n = r.lenenc("column count")?;
    r.finish("column count")?;
    if n == 0 || n > MAX_COLUMNS {
        return Err(ParseError::new("column count", ParseErrorKind::Limit, packet.len()));
    }
    Ok(n)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::response::{encode_err, encode_text_row};

    fn feed(r: &mut ResultReader, packets: &[Vec<u8>]) -> Vec<QueryEvent> {
        packets.iter().map(|p| r.handle(p).unwrap()).collect()
    }

    fn done(status: StatusFlags) -> QueryEvent {
        let more = status.contains(StatusFlags::MORE_RESULTS);
        QueryEvent::Done { ok: OkPacket { status, ..OkPacket::default() }, more }
    }

    /// Conformance: W10
    /// Bug: 106
    #[test]
    fn both_ends_of_rows() {
        let row = encode_text_row([Some(&b"1"[..])]);
        let column = ColumnDefinition::text("a").encode();
        let eof = |status| EofPacket { warnings: 0, status }.encode();
        let more = StatusFlags::MORE_RESULTS;
        use QueryEvent::{Pending, Row};
        let columns = || QueryEvent::Columns(Arc::new([ColumnDefinition::text("a")]));

        let mut r = ResultReader::new(CapabilityFlags::empty(), RowFormat::Text);
        let none = StatusFlags::empty();
        let classic =
            [vec![1], column.clone(), eof(none), row.clone(), row.clone(), eof(more), vec![0, 0, 0, 0, 0, 0, 0]];
        assert_eq!(feed(&mut r, &classic), [Pending, Pending, columns(), Row, Row, done(more), done(none)]);
        assert!(r.is_finished());

        // OUT parameters are told by the EOF after their columns, and so is the OK behind them.
        let out = StatusFlags::PS_OUT_PARAMS;
        let mut r = ResultReader::new(CapabilityFlags::empty(), RowFormat::Text);
        let packets = [vec![1], column.clone(), eof(out | more), row.clone(), eof(none), vec![0, 0, 0, 0, 0, 0, 0]];
        assert_eq!(feed(&mut r, &packets)[2..], [columns(), Row, done(more | out), done(none)]);

        let end = OkPacket::default().encode_end_of_rows();
        let mut r = ResultReader::new(CapabilityFlags::DEPRECATE_EOF, RowFormat::Text);
        assert_eq!(feed(&mut r, &[vec![1], column, row, end]), [Pending, columns(), Row, done(none)]);
    }

    /// Conformance: W10
    #[test]
    fn an_error_may_replace_any_row() {
        let mut r = ResultReader::new(CapabilityFlags::DEPRECATE_EOF, RowFormat::Text);
        feed(&mut r, &[vec![1], ColumnDefinition::text("a").encode(), encode_text_row([None])]);
        let e = r.handle(&encode_err(1317, *b"70100", "Query execution was interrupted")).unwrap_err();
        assert_eq!(e.server_error().unwrap().code, 1317);
        assert!(r.is_finished());
    }

    /// Conformance: W13
    #[test]
    fn a_request_for_a_file_is_given_nothing() {
        for (end, good) in [
            (OkPacket::default().encode(), true),
            (encode_err(1148, *b"42000", "The used command is not allowed"), true),
            (vec![0xfb, b'x'], false),
            (EofPacket::default().encode(), false),
        ] {
            let mut r = ResultReader::new(CapabilityFlags::DEPRECATE_EOF, RowFormat::Text);
            assert_eq!(r.handle(b"\xfb/etc/passwd\n").unwrap(), QueryEvent::FileRequested);
            let e = r.handle(&end).unwrap_err();
            assert!(r.is_finished());
            assert_eq!((e.is_file_request(), e.is_connection_usable()), (good, good), "{e}");
            assert!(!good || e.to_string().contains("\"/etc/passwd\\n\""), "{e}");
        }
        assert!(crate::command::no_file().is_empty());
    }

    #[test]
    fn cursors_open_fetch_and_end() {
        let column = ColumnDefinition::text("a").encode();
        let open = StatusFlags::CURSOR_EXISTS;
        let eof = |status| EofPacket { warnings: 0, status }.encode();
        let columns = || QueryEvent::Columns(Arc::new([ColumnDefinition::text("a")]));
        use QueryEvent::{Pending, Row};

        // Without DEPRECATE_EOF the only EOF tells of the cursor.
        let mut r = ResultReader::with_cursor(CapabilityFlags::empty());
        assert_eq!(feed(&mut r, &[vec![1], column.clone(), eof(open)]), [Pending, Pending, columns()]);
        assert!(r.is_finished());
        let mut r = ResultReader::with_cursor(CapabilityFlags::empty());
        feed(&mut r, &[vec![1], column.clone(), eof(StatusFlags::empty())]);
        assert!(!r.is_finished());
        // A server cannot make a cursor of an answer that was asked for without one.
        let mut r = ResultReader::new(CapabilityFlags::empty(), RowFormat::Binary);
        feed(&mut r, &[vec![1], column.clone(), eof(open)]);
        assert!(!r.is_finished());

        let mut r = ResultReader::with_cursor(CapabilityFlags::DEPRECATE_EOF);
        let end = OkPacket { status: open, ..OkPacket::default() }.encode_end_of_rows();
        assert_eq!(feed(&mut r, &[vec![1], column, end]), [Pending, columns(), done(open)]);

        let last = StatusFlags::LAST_ROW_SENT;
        let mut r = ResultReader::fetched(CapabilityFlags::empty());
        assert_eq!(feed(&mut r, &[vec![0; 3], vec![0; 3], eof(last)]), [Row, Row, done(last)]);
        assert!(r.is_finished());
    }

    /// Bug: 105
    #[test]
    fn what_a_rogue_server_may_try() {
        for packet in [&[][..], &[0xfc, 1, 0x10], &[2, 2], &[0xfe, 1, 0, 0, 0, 0, 0, 0, 0]] {
            let mut r = ResultReader::new(CapabilityFlags::DEPRECATE_EOF, RowFormat::Text);
            assert!(r.handle(packet).is_err(), "{packet:?}");
            assert!(r.is_finished());
        }
    }
}

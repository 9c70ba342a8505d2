use std::sync::Arc;

use super::connection::Connection;
use crate::error::Error;
use crate::query::QueryEvent;
use crate::response::{ColumnDefinition, OkPacket, Row, RowFormat};

/// The rows of a statement, read from the connection as they are asked for.
///
/// A CALL may give several results: [`next`](Self::next) ends with the first, [`next_result`](Self::next_result) goes on
/// to the others. Dropping this early leaves the rest to the connection's next command, which reads and throws it away
/// first, errors in it included.
#[derive(Debug)]
pub struct Rows<'c> {
    connection: &'c mut Connection,
    columns: Arc<[ColumnDefinition]>,
    format: RowFormat,
    /// The end of the current result, once it was read.
    end: Option<OkPacket>,
}

impl<'c> Rows<'c> {
    pub(super) fn new(connection: &'c mut Connection, format: RowFormat) -> Self {
        Self { connection, columns: Arc::new([]), format, end: None }
    }

    /// Reads up to the first row of a result, or to the end of one without rows.
    pub(super) async fn begin(&mut self) -> Result<(), Error> {
        self.columns = Arc::new([]);
        self.end = None;
        loop {
            match self.connection.step_with_packet().await?.0 {
                QueryEvent::Columns(columns) => {
                    self.columns = columns;
                    return Ok(());
                }
                QueryEvent::Done { ok, .. } => {
                    self.end = Some(ok);
                    return Ok(());
                }
                _ => {}
            }
        }
    }

    /// The columns, in the order of a row's values; none for a result without rows.
    #[must_use]
    pub fn columns(&self) -> &[ColumnDefinition] {
        &self.columns
    }

    /// The next row of the current result; `None` after the last. Safe to cancel.
    ///
    /// # Errors
    /// The server's error in place of a row (then there are no more rows, and the connection is in order), or a broken
    /// connection. A closed socket is an error, never the end.
    pub async fn next(&mut self) -> Result<Option<Row>, Error> {
        while self.end.is_none() && self.connection.answer.is_some() {
            let (event, packet) = self.connection.step_with_packet().await?;
            match event {
                QueryEvent::Row => return Ok(Some(Row::new(packet, Arc::clone(&self.columns), self.format))),
                QueryEvent::Done { ok, .. } => self.end = Some(ok),
                _ => {}
            }
        }
        Ok(None)
    }

    /// Goes on to the next result, past rows of the current one that were not read; false after the last. The last result
    /// of a CALL has no rows: it is the end of the procedure.
    ///
    /// # Errors
    /// As [`next`](Self::next): an error ends the whole answer.
    pub async fn next_result(&mut self) -> Result<bool, Error> {
        while self.next().await?.is_some() {}
        if self.connection.answer.is_none() {
            return Ok(false);
        }
        self.begin().await?;
        Ok(true)
    }

    /// How the current result ended: affected rows, warnings, the session's changes. `None` before [`next`](Self::next) has
    /// given `None`. The status flag [`PS_OUT_PARAMS`](crate::flags::StatusFlags::PS_OUT_PARAMS) says that the rows were
    /// the OUT parameters of a prepared CALL.
    #[must_use]
    pub const fn end(&self) -> Option<&OkPacket> {
        self.end.as_ref()
    }
}

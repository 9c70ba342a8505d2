use std::sync::Arc;

use super::connection::{Answer, Connection};
use crate::command;
use crate::error::Error;
use crate::flags::StatusFlags;
use crate::query::{QueryEvent, ResultReader};
use crate::response::{ColumnDefinition, Row, RowFormat, Value};

/// The rows of a prepared statement, fetched from the server some at a time ([`Connection::open_cursor`]).
///
/// Dropping this early leaves the cursor open on the server until the statement is reset, closed or executed again.
#[derive(Debug)]
pub struct Cursor<'c> {
    connection: &'c mut Connection,
    statement_id: u32,
    columns: Arc<[ColumnDefinition]>,
    batch: u32,
    place: Place,
    /// Rows came since the last fetch.
    moved: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Rows, or their end, are on their way.
    Among,
    /// The server has a cursor that may give more rows.
    Before,
    /// There are no more rows.
    After,
}

impl<'c> Cursor<'c> {
    pub(super) async fn open(
        connection: &'c mut Connection,
        statement_id: u32,
        params: &[Value<'_>],
        batch: u32,
    ) -> Result<Self, Error> {
        connection.drain().await?;
        connection.channel.send_command(&command::execute_with_cursor(statement_id, params)).await?;
        connection.answer = Some(Answer::Results(ResultReader::with_cursor(connection.session.capabilities)));
        let mut cursor =
            Self { connection, statement_id, columns: Arc::new([]), batch, place: Place::After, moved: true };
        loop {
            match cursor.connection.step_with_packet().await?.0 {
                QueryEvent::Columns(columns) => {
                    cursor.columns = columns;
                    // Without DEPRECATE_EOF the answer is over with the columns if there is a cursor.
                    let over = cursor.connection.answer.is_none();
                    cursor.place = if over { Place::Before } else { Place::Among };
                    return Ok(cursor);
                }
                QueryEvent::Done { .. } => return Ok(cursor),
                _ => {}
            }
        }
    }

    /// The columns, in the order of a row's values; none for a statement without rows.
    #[must_use]
    pub fn columns(&self) -> &[ColumnDefinition] {
        &self.columns
    }

    /// The next row; `None` after the last. Safe to cancel while it waits for rows.
    ///
    /// # Errors
    /// The server's error, or a broken connection.
    pub async fn next(&mut self) -> Result<Option<Row>, Error> {
        loop {
            match self.place {
                Place::After => return Ok(None),
                Place::Before => self.fetch().await?,
                Place::Among => {}
            }
            let stepped = self.connection.step_with_packet().await;
            if stepped.as_ref().is_err_and(|e| e.server_error().is_some()) {
                self.place = Place::After;
            }
            match stepped? {
                (QueryEvent::Row, packet) => {
                    self.moved = true;
                    return Ok(Some(Row::new(packet, Arc::clone(&self.columns), RowFormat::Binary)));
                }
                (QueryEvent::Done { ok, .. }, _) => {
                    let open = ok.status.contains(StatusFlags::CURSOR_EXISTS)
                        && !ok.status.contains(StatusFlags::LAST_ROW_SENT)
                        && self.connection.answer.is_none();
                    self.place = if open { Place::Before } else { Place::After };
                }
                _ => {}
            }
        }
    }

    async fn fetch(&mut self) -> Result<(), Error> {
        if !core::mem::take(&mut self.moved) {
            self.place = Place::After;
            return Err(Error::unexpected("fetching from a cursor", "neither rows nor their end"));
        }
        self.connection.channel.send_command(&command::fetch(self.statement_id, self.batch)).await?;
        self.connection.answer = Some(Answer::Results(ResultReader::fetched(self.connection.session.capabilities)));
        self.place = Place::Among;
        Ok(())
    }

    /// Frees what the server keeps for the rows that were not fetched.
    ///
    /// # Errors
    /// The server's error, or a broken connection.
    pub async fn close(self) -> Result<(), Error> {
        match self.place {
            Place::After => Ok(()),
            Place::Before | Place::Among => self.connection.reset(self.statement_id).await,
        }
    }
}

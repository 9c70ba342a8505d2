use std::sync::Arc;

use super::connection::Connection;
use crate::error::Error;
use crate::query::QueryEvent;
use crate::response::{ColumnDefinition, Row, RowFormat};

/// The rows of one result, read from the connection as they are asked for.
///
/// When the first result set ends, further ones (of a CALL) are read and thrown away. Dropping this early leaves the
/// rest to the connection's next command, which reads and throws it away first.
#[derive(Debug)]
pub struct Rows<'c> {
    connection: &'c mut Connection,
    columns: Arc<[ColumnDefinition]>,
    format: RowFormat,
    ended: bool,
}

impl<'c> Rows<'c> {
    pub(super) fn new(connection: &'c mut Connection, columns: Arc<[ColumnDefinition]>, format: RowFormat) -> Self {
        let ended = connection.answer.is_none();
        Self { connection, columns, format, ended }
    }

    /// The columns, in the order of a row's values; none for a statement without rows.
    #[must_use]
    pub fn columns(&self) -> &[ColumnDefinition] {
        &self.columns
    }

    /// The next row; `None` after the last. Safe to cancel.
    ///
    /// # Errors
    /// The server's error in place of a row (then there are no more rows, and the connection is in order), or a broken
    /// connection. A closed socket is an error, never the end.
    pub async fn next(&mut self) -> Result<Option<Row>, Error> {
        while self.connection.answer.is_some() {
            let (event, packet) = self.connection.step_with_packet().await?;
            match event {
                QueryEvent::Row if !self.ended => {
                    return Ok(Some(Row::new(packet, Arc::clone(&self.columns), self.format)));
                }
                QueryEvent::Done { .. } => self.ended = true,
                _ => {}
            }
        }
        Ok(None)
    }
}

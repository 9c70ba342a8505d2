use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::connection::{Answer, Connection};
use super::cursor::Cursor;
use super::rows::Rows;
use crate::command;
use crate::error::Error;
use crate::prepare::{PrepareReader, Prepared};
use crate::query::QueryEvent;
use crate::response::{ColumnDefinition, RowFormat, Value};

/// A prepared statement of one connection.
#[derive(Clone, Debug)]
pub struct Statement {
    prepared: Prepared,
    connection_id: u32,
    /// It was executed with a cursor.
    cursor: Arc<AtomicBool>,
}

impl Statement {
    /// How many placeholders it has.
    #[must_use]
    pub const fn params(&self) -> u16 {
        self.prepared.params
    }

    /// The columns of its result, as known when it was prepared.
    #[must_use]
    pub fn columns(&self) -> &[ColumnDefinition] {
        &self.prepared.columns
    }
}

impl Connection {
    /// Prepares a statement with `?` for parameters.
    ///
    /// # Errors
    /// The server's error, or a broken connection.
    pub async fn prepare(&mut self, sql: &str) -> Result<Statement, Error> {
        self.drain().await?;
        self.channel.send_command(&command::prepare(sql.as_bytes())).await?;
        self.answer = Some(Answer::Prepare(PrepareReader::new(self.session.capabilities)));
        loop {
            if let Some(prepared) = self.prepare_step().await? {
                let connection_id = self.session.connection_id;
                return Ok(Statement { prepared, connection_id, cursor: Arc::default() });
            }
        }
    }

    /// Runs a prepared statement and gives its rows one by one (binary protocol). A CALL may give several results, one after
    /// the other; its OUT parameters come as the last one with rows.
    ///
    /// # Errors
    /// A wrong number of parameters, a statement of another connection, or one that had a cursor; the server's error, or a
    /// broken connection.
    pub async fn execute_statement(&mut self, statement: &Statement, params: &[Value<'_>]) -> Result<Rows<'_>, Error> {
        self.check(statement, params)?;
        // MySQL 9.7.4 sends no rows then, puts an OK in place of their end, and adds the rows to the next cursor.
        if statement.cursor.load(Ordering::Relaxed) {
            return Err(Error::usage(
                "a statement that had a cursor cannot be executed without one: prepare it once more for that",
            ));
        }
        self.start(&command::execute(statement.prepared.id, params), RowFormat::Binary).await?;
        self.rows(RowFormat::Binary).await
    }

    /// Runs a prepared statement and leaves its rows on the server, which gives `batch` of them at a time (at least 1). The
    /// server keeps the whole result in a temporary table meanwhile; a statement that can have no cursor (SHOW, CALL) gives
    /// its rows at once. The statement is one for cursors from then on.
    ///
    /// # Errors
    /// A wrong number of parameters or a statement of another connection, the server's error, or a broken connection.
    pub async fn open_cursor(
        &mut self,
        statement: &Statement,
        params: &[Value<'_>],
        batch: u32,
    ) -> Result<Cursor<'_>, Error> {
        self.check(statement, params)?;
        statement.cursor.store(true, Ordering::Relaxed);
        Cursor::open(self, statement.prepared.id, params, batch.max(1)).await
    }

    /// Closes the cursor of a prepared statement, if it has one.
    ///
    /// # Errors
    /// A statement of another connection, the server's error, or a broken connection.
    pub async fn reset_statement(&mut self, statement: &Statement) -> Result<(), Error> {
        self.check_owner(statement)?;
        self.reset(statement.prepared.id).await
    }

    pub(super) async fn reset(&mut self, statement_id: u32) -> Result<(), Error> {
        self.start(&command::reset_statement(statement_id), RowFormat::Text).await?;
        while !matches!(self.step_with_packet().await?.0, QueryEvent::Done { more: false, .. }) {}
        Ok(())
    }

    /// Forgets a prepared statement. The server does not answer.
    ///
    /// # Errors
    /// A statement of another connection, or a broken connection.
    pub async fn close_statement(&mut self, statement: Statement) -> Result<(), Error> {
        self.check_owner(&statement)?;
        self.drain().await?;
        self.channel.send_command(&command::close_statement(statement.prepared.id)).await
    }

    fn check(&self, statement: &Statement, params: &[Value<'_>]) -> Result<(), Error> {
        self.check_owner(statement)?;
        if params.len() == usize::from(statement.prepared.params) {
            Ok(())
        } else {
            Err(Error::usage("a statement was given another number of parameters than it has placeholders"))
        }
    }

    fn check_owner(&self, statement: &Statement) -> Result<(), Error> {
        if statement.connection_id == self.session.connection_id {
            Ok(())
        } else {
            Err(Error::usage("a statement was prepared by another connection"))
        }
    }

    pub(super) async fn prepare_step(&mut self) -> Result<Option<Prepared>, Error> {
        let packet = self.channel.receive("preparing a statement").await?;
        let Some(Answer::Prepare(reader)) = &mut self.answer else {
            return Err(Error::usage("no statement is being prepared"));
        };
        let prepared = reader.handle(&packet);
        if !matches!(prepared, Ok(None)) {
            self.answer = None;
        }
        self.checked(prepared)
    }
}

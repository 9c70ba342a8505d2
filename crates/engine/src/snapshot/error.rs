use core::fmt;

use crate::key::KeyError;

/// A chunk, or a fact about the server, that could not be read.
#[derive(Debug)]
pub struct ReadError(Box<Kind>);

#[derive(Debug)]
enum Kind {
    Wire { during: &'static str, source: millstream_wire::Error },
    Key { table: String, source: KeyError },
    Value { table: String, column: String, what: &'static str },
    Order { table: String },
    Answer { statement: &'static str, what: &'static str },
}

impl ReadError {
    #[cold]
    pub(crate) fn wire(during: &'static str, source: millstream_wire::Error) -> Self {
        Self(Box::new(Kind::Wire { during, source }))
    }

    #[cold]
    pub(super) fn key(table: String, source: KeyError) -> Self {
        Self(Box::new(Kind::Key { table, source }))
    }

    #[cold]
    pub(super) fn value(table: String, column: &str, what: &'static str) -> Self {
        Self(Box::new(Kind::Value { table, column: column.to_owned(), what }))
    }

    #[cold]
    pub(super) fn order(table: String) -> Self {
        Self(Box::new(Kind::Order { table }))
    }

    #[cold]
    pub(super) fn answer(statement: &'static str, what: &'static str) -> Self {
        Self(Box::new(Kind::Answer { statement, what }))
    }

    /// The connection's error, when that was the reason.
    #[must_use]
    pub fn connection(&self) -> Option<&millstream_wire::Error> {
        match &*self.0 {
            Kind::Wire { source, .. } => Some(source),
            _ => None,
        }
    }

    /// Whether rows were locked by others for too long, or until a deadlock (ER_LOCK_WAIT_TIMEOUT, ER_LOCK_DEADLOCK).
    #[must_use]
    pub fn is_locked(&self) -> bool {
        let server = self.connection().and_then(millstream_wire::Error::server_error);
        server.is_some_and(|e| matches!(e.code, 1205 | 1213))
    }

    /// Whether the same read may succeed later.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        self.connection().is_some_and(millstream_wire::Error::is_retryable)
    }
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.0 {
            Kind::Wire { during, .. } => write!(f, "while {during}"),
            Kind::Key { table, .. } => write!(f, "the key of a row of {table} cannot be encoded"),
            Kind::Value { table, column, what } => write!(
                f,
                "{table}.{column}: {what}; the table was altered after it was looked up: restart, or take it out of \
                 source.tables"
            ),
            Kind::Order { table } => write!(
                f,
                "rows of {table} did not come in the order of their encoded keys; this is a bug: please report the \
                 table's key and exclude it with \"!{table}\" in source.tables"
            ),
            Kind::Answer { statement, what } => write!(f, "{statement} {what}"),
        }
    }
}

impl core::error::Error for ReadError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match &*self.0 {
            Kind::Wire { source, .. } => Some(source),
            Kind::Key { source, .. } => Some(source),
            Kind::Value { .. } | Kind::Order { .. } | Kind::Answer { .. } => None,
        }
    }
}

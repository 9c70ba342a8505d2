//! What a QUERY event means for a stream of row changes.
//!
//! Until schema evolution is built, a statement that changes a captured table's shape or rows stops the stream by name;
//! what surely does not concern it is skipped by a rule with a name; what cannot be told stops (design section 5).

mod parse;
mod token;

use core::fmt;
use std::borrow::Cow;

use millstream_binlog::Charset;
use millstream_binlog::event::Query;

use crate::config::{NameCase, TablePatterns};

/// A table as a statement names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableName {
    /// The database, if the statement names one.
    pub database: Option<String>,
    /// The table.
    pub table: String,
}

/// The id of an XA transaction.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Xid {
    /// Format; 1 when the statement gives none.
    pub format_id: i32,
    /// Global part.
    pub gtrid: Vec<u8>,
    /// Branch part.
    pub bqual: Vec<u8>,
}

/// Why a statement cannot concern captured rows. The names are those of the counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum SkipRule {
    /// BEGIN, COMMIT, SAVEPOINT and the like.
    TransactionControl,
    /// XA statements: they are the transaction's business.
    Xa,
    /// Users, roles, grants.
    Account,
    /// FLUSH, ANALYZE, OPTIMIZE, INSTALL and the like.
    Administration,
    /// Indexes, foreign keys and checks alone.
    IndexOnly,
    /// Views.
    View,
    /// Procedures, functions, triggers, events.
    Routine,
    /// Tablespaces, servers, resource groups and other things that are no tables.
    OtherObject,
    /// CREATE DATABASE and ALTER DATABASE.
    Database,
    /// A temporary table.
    TemporaryTable,
    /// A DDL that names no captured table.
    OtherTable,
    /// DML logged as a statement in a database that is not captured.
    OtherDml,
    /// A captured table was created: its changes are not captured until a restart adds it.
    NewTable,
}

impl SkipRule {
    /// The counter's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::TransactionControl => "transaction_control",
            Self::Xa => "xa_control",
            Self::Account => "account_statement",
            Self::Administration => "administration_statement",
            Self::IndexOnly => "index_only_ddl",
            Self::View => "view_ddl",
            Self::Routine => "routine_ddl",
            Self::OtherObject => "other_object_ddl",
            Self::Database => "database_ddl",
            Self::TemporaryTable => "temporary_table",
            Self::OtherTable => "other_table_ddl",
            Self::OtherDml => "other_statement_dml",
            Self::NewTable => "new_table",
        }
    }
}

impl fmt::Display for SkipRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What a statement is.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Classified {
    /// BEGIN, START TRANSACTION.
    Begin,
    /// COMMIT.
    Commit,
    /// ROLLBACK of the whole transaction.
    Rollback,
    /// SAVEPOINT, ROLLBACK TO, RELEASE SAVEPOINT. (A rollback to a savepoint is logged only after changes that cannot
    /// be rolled back.)
    Savepoint,
    /// XA START.
    XaStart(Xid),
    /// XA END.
    XaEnd(Xid),
    /// XA COMMIT.
    XaCommit {
        /// Which one.
        xid: Xid,
        /// ONE PHASE: the rows are in this group.
        one_phase: bool,
    },
    /// XA ROLLBACK.
    XaRollback(Xid),
    /// Concerns no rows of any table.
    Skip(SkipRule),
    /// CREATE TABLE without OR REPLACE.
    Create(TableName),
    /// A DDL that changes the shape or the rows of what it names.
    Ddl {
        /// Its first words, upper case (`ALTER TABLE`).
        verb: &'static str,
        /// Every table it names.
        tables: Vec<TableName>,
    },
    /// DROP DATABASE.
    DropDatabase(String),
    /// DML logged as a statement.
    Dml {
        /// Its first word, upper case.
        verb: &'static str,
        /// Every database it names, the default database apart.
        databases: Vec<String>,
    },
    /// Cannot be told.
    Unclassifiable,
}

/// What is captured, by name.
pub trait Captured {
    /// Whether changes of this table are captured.
    fn table(&self, database: &str, table: &str) -> bool;
    /// Whether changes of some table of this database are or may be captured.
    fn database(&self, database: &str) -> bool;
}

impl Captured for (&TablePatterns, NameCase) {
    fn table(&self, database: &str, table: &str) -> bool {
        self.0.captures(database, table, self.1)
    }

    fn database(&self, database: &str) -> bool {
        self.0.may_capture_in(database, self.1)
    }
}

/// What to do with a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums, reason = "the stream must handle both answers")]
pub enum Verdict {
    /// Pass on, counting under the rule.
    Skip(SkipRule),
    /// Stop here: what it would do, and to what.
    Stop(String),
}

/// Classifies a statement. `sql` is in UTF-8 or ASCII as far as names go; `sql_mode` is the session's, 0 if not known.
#[must_use]
pub fn classify(sql: &[u8], sql_mode: u64) -> Classified {
    parse::statement(token::Tokens::new(sql, sql_mode)).unwrap_or(Classified::Unclassifiable)
}

/// Classifies the statement of a QUERY event in its own character set and SQL mode.
#[must_use]
pub fn classify_query(query: &Query<'_>) -> Classified {
    classify(&statement_text(query), query.status.sql_mode().unwrap_or(0))
}

/// The statement of a QUERY event in UTF-8, as far as its character set is known.
#[must_use]
pub fn statement_text<'a>(query: &Query<'a>) -> Cow<'a, [u8]> {
    utf8(query.sql, query.status.client_charset().and_then(Charset::from_collation))
}

/// The server writes some names in UTF-8 whatever the client's character set, so valid UTF-8 is taken for what it is.
fn utf8(sql: &[u8], charset: Option<Charset>) -> Cow<'_, [u8]> {
    if let Some(charset) = charset
        && core::str::from_utf8(sql).is_err()
    {
        let mut out = Vec::new();
        if charset.decode(sql, &mut out).is_ok() {
            return Cow::Owned(out);
        }
    }
    Cow::Borrowed(sql)
}

/// Decides what a classified statement means for what is captured.
#[must_use]
pub fn concerns(classified: &Classified, default_database: &str, captured: &dyn Captured) -> Verdict {
    let full = |name: &TableName| {
        let database = name.database.as_deref().unwrap_or(default_database);
        (database.to_owned(), name.table.clone())
    };
    match classified {
        Classified::Begin | Classified::Commit | Classified::Rollback | Classified::Savepoint => {
            Verdict::Skip(SkipRule::TransactionControl)
        }
        Classified::XaStart(_) | Classified::XaEnd(_) | Classified::XaCommit { .. } | Classified::XaRollback(_) => {
            Verdict::Skip(SkipRule::Xa)
        }
        Classified::Skip(rule) => Verdict::Skip(*rule),
        Classified::Create(name) => {
            let (database, table) = full(name);
            Verdict::Skip(if captured.table(&database, &table) { SkipRule::NewTable } else { SkipRule::OtherTable })
        }
        Classified::Ddl { verb, tables } => {
            let named = tables.iter().map(full).find(|(database, table)| captured.table(database, table));
            match named {
                Some((database, table)) => Verdict::Stop(format!("{verb} of the captured table {database}.{table}")),
                None => Verdict::Skip(SkipRule::OtherTable),
            }
        }
        Classified::DropDatabase(database) if captured.database(database) => {
            Verdict::Stop(format!("DROP DATABASE of the captured database {database}"))
        }
        Classified::DropDatabase(_) => Verdict::Skip(SkipRule::OtherTable),
        Classified::Dml { verb, databases } => {
            let databases = databases.iter().map(String::as_str).chain([default_database]);
            match databases.into_iter().find(|database| captured.database(database)) {
                Some(database) => Verdict::Stop(format!(
                    "{verb} logged as a statement, not as rows, in the captured database {database} (a session with \
                     binlog_format other than ROW)"
                )),
                None => Verdict::Skip(SkipRule::OtherDml),
            }
        }
        Classified::Unclassifiable => {
            Verdict::Stop("a statement that cannot be classified: it may concern a captured table".to_owned())
        }
    }
}

#[cfg(test)]
mod tests;

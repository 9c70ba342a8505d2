//! The FE's SQL port: what HTTP does not tell. A thin layer over `millstream_wire`, and readers of what Doris prints.

use core::time::Duration;
use std::sync::atomic::{AtomicUsize, Ordering};

use millstream_wire::{ConnectOptions, Connection, Error, ResultSet};

use super::endpoint::split_host_port;
use super::{ClientOptions, SQL_PORT};
use crate::error::{Kind, SinkError};
use crate::table::{ExistingColumn, ExistingTable, Model};
use crate::txn::{TxnRow, TxnStatus};

/// The longest a statement may keep silent.
const READ_TIMEOUT: Duration = Duration::from_secs(60);

/// `text` as a SQL string literal. (Doris takes backslashes for escapes, as MySQL does.)
pub(crate) fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "''"))
}

/// A session that comes back after it broke.
#[derive(Debug)]
pub(crate) struct SqlPort {
    /// An FE, with its address for messages.
    first: (String, ConnectOptions),
    /// More of them.
    others: Vec<(String, ConnectOptions)>,
    /// Which of all is asked; 0 is the first.
    current: AtomicUsize,
    session: tokio::sync::Mutex<Option<Connection>>,
}

/// What a statement came to.
pub(crate) type SqlResult<T> = Result<T, SinkError>;

fn is_missing(error: &Error) -> bool {
    error.server_error().is_some_and(|error| {
        let text = error.message.to_lowercase();
        matches!(error.code, 1049 | 1051 | 1109 | 1146)
            || ["unknown table", "unknown database", "doesn't exist", "does not exist", "not exist", "no such"]
                .iter()
                .any(|part| text.contains(part))
    })
}

impl SqlPort {
    pub(crate) fn new(options: &ClientOptions) -> SqlResult<Self> {
        let one = |text: &str| {
            let (host, port) = split_host_port(text.trim())?;
            let port = port.unwrap_or(SQL_PORT);
            let connect = ConnectOptions::tcp(host, port)
                .user(options.user.as_str())
                .password(options.password.as_str())
                .ssl_mode(options.sql_ssl_mode)
                .connect_timeout(options.connect_timeout)
                .read_timeout(Some(READ_TIMEOUT));
            let connect = match &options.ca_file {
                Some(path) => connect.ssl_ca(path.as_path()),
                None => connect,
            };
            let address = if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
            Some((address, connect))
        };
        let bad = || SinkError::config("sink.sql: must be like \"host:9030\"");
        let mut servers = options.sql.split(',').map(one);
        let first = servers.next().flatten().ok_or_else(bad)?;
        let others = servers.collect::<Option<Vec<_>>>().ok_or_else(bad)?;
        Ok(Self { first, others, current: AtomicUsize::new(0), session: tokio::sync::Mutex::new(None) })
    }

    fn server(&self) -> &(String, ConnectOptions) {
        let all = self.others.len().saturating_add(1);
        let at = self.current.load(Ordering::Relaxed).checked_rem(all).unwrap_or(0);
        at.checked_sub(1).and_then(|at| self.others.get(at)).unwrap_or(&self.first)
    }

    /// Connects to the current FE, or to the next one that can be reached.
    async fn connect(&self) -> Result<Connection, Error> {
        let mut left = self.others.len();
        loop {
            match Box::pin(Connection::connect(&self.server().1)).await {
                Err(error) if left > 0 && error.is_retryable() => {
                    self.current.fetch_add(1, Ordering::Relaxed);
                    left = left.saturating_sub(1);
                }
                other => return other,
            }
        }
    }

    fn error(&self, what: &str, source: Error) -> SinkError {
        let master = source.server_error().is_some_and(|error| {
            let text = error.message.to_lowercase();
            ["not master", "not_master", "lock timeout", "not ready", "rpc"].iter().any(|part| text.contains(part))
        });
        let retryable = master || source.is_retryable() || source.is_transport();
        let what = format!("{what} ({})", self.server().0);
        SinkError::new(Kind::Sql { what, retryable, source: Box::new(source) })
    }

    /// Runs a statement. A session that was found broken is replaced once, so every statement sent here may be run twice.
    async fn run(&self, sql: &str) -> Result<ResultSet, Error> {
        let mut guard = self.session.lock().await;
        // Taken out while in use: a dropped call leaves no session in an unknown state behind.
        if let Some(mut session) = guard.take().filter(Connection::is_usable) {
            let result = session.query_all(sql).await;
            if session.is_usable() {
                *guard = Some(session);
                return result;
            }
        }
        let mut session = self.connect().await?;
        let result = session.query_all(sql).await;
        if session.is_usable() {
            *guard = Some(session);
        }
        result
    }

    /// Runs a statement in a session of its own, after a setting that must not outlive it.
    async fn run_with(&self, setting: &str, sql: &str) -> Result<ResultSet, Error> {
        let mut session = self.connect().await?;
        session.execute(setting).await?;
        let result = session.query_all(sql).await;
        session.close().await;
        result
    }

    pub(crate) async fn query(&self, what: &str, sql: &str) -> SqlResult<ResultSet> {
        self.run(sql).await.map_err(|error| self.error(what, error))
    }

    pub(crate) async fn query_with(&self, what: &str, setting: &str, sql: &str) -> SqlResult<ResultSet> {
        self.run_with(setting, sql).await.map_err(|error| self.error(what, error))
    }

    /// `None` when what it names is not there.
    pub(crate) async fn query_if_there(&self, what: &str, sql: &str) -> SqlResult<Option<ResultSet>> {
        match self.run(sql).await {
            Ok(result) => Ok(Some(result)),
            Err(error) if is_missing(&error) => Ok(None),
            Err(error) => Err(self.error(what, error)),
        }
    }
}

/// The rows of `SHOW TRANSACTION`.
pub(crate) fn txn_rows(result: &ResultSet) -> Vec<TxnRow> {
    let one = |row: usize| {
        Some(TxnRow {
            id: result.text(row, "TransactionId")?.parse().ok()?,
            label: result.text(row, "Label")?.to_owned(),
            status: TxnStatus::parse(result.text(row, "TransactionStatus")?),
        })
    };
    (0..result.len()).filter_map(one).collect()
}

fn yes(text: Option<&str>) -> bool {
    text.is_some_and(|text| text.eq_ignore_ascii_case("yes") || text.eq_ignore_ascii_case("true"))
}

/// The columns of `DESC`.
pub(crate) fn described_columns(result: &ResultSet) -> Vec<ExistingColumn> {
    let one = |row: usize| {
        let name = result.text(row, "Field").filter(|name| !name.is_empty())?;
        Some(ExistingColumn {
            name: name.to_owned(),
            type_text: result.text(row, "Type")?.to_owned(),
            nullable: yes(result.text(row, "Null")),
            key: yes(result.text(row, "Key")),
        })
    };
    (0..result.len()).filter_map(one).filter(|column| !column.name.starts_with("__DORIS_")).collect()
}

/// `sql` with the inside of every string literal blanked, byte for byte, so that what is found in it is no comment.
fn without_literals(sql: &str) -> String {
    let mut out = Vec::new();
    let mut quote = None;
    let mut escaped = false;
    for b in sql.bytes() {
        match quote {
            Some(_) if escaped => escaped = false,
            Some(_) if b == b'\\' => escaped = true,
            Some(open) if b == open => quote = None,
            Some(_) => {}
            None => {
                if matches!(b, b'\'' | b'"') {
                    quote = Some(b);
                }
                out.push(b.to_ascii_uppercase());
                continue;
            }
        }
        out.push(if quote.is_none() { b } else { b' ' });
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// What the statement of `SHOW CREATE TABLE` says about the table, beside its columns.
pub(crate) fn read_create_table(sql: &str, columns: Vec<ExistingColumn>) -> ExistingTable {
    let plain = without_literals(sql);
    let found = [
        ("UNIQUE KEY(", Model::Unique),
        ("DUPLICATE KEY(", Model::Duplicate),
        ("AGGREGATE KEY(", Model::Aggregate),
        ("UNIQUE KEY (", Model::Unique),
        ("DUPLICATE KEY (", Model::Duplicate),
        ("AGGREGATE KEY (", Model::Aggregate),
    ]
    .into_iter()
    .find_map(|(words, model)| Some((plain.find(words)?.checked_add(words.len())?, model)));
    let (model, keys) = match found {
        Some((start, model)) => {
            let rest = sql.get(start..).unwrap_or_default();
            let list = rest.split(')').next().unwrap_or_default();
            let names = list.split(',').map(|name| name.trim().trim_matches('`').to_owned());
            (model, names.filter(|name| !name.is_empty()).collect())
        }
        None => (Model::Other, Vec::new()),
    };
    let properties = plain.find("PROPERTIES").and_then(|at| sql.get(at..)).unwrap_or_default();
    let property = |name: &str| {
        let (_, rest) = properties.split_once(&format!("\"{name}\""))?;
        let value = rest.trim_start().strip_prefix('=')?.trim_start().strip_prefix('"')?;
        Some(value.split('"').next()?.to_ascii_lowercase())
    };
    ExistingTable {
        model,
        columns,
        keys,
        sequence_type: property("function_column.sequence_type"),
        sequence_col: property("function_column.sequence_col"),
        merge_on_write: property("enable_unique_key_merge_on_write").as_deref() == Some("true"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_are_quoted() {
        assert_eq!(literal("a'b\\_%"), "'a''b\\\\_%'");
    }

    #[test]
    fn a_create_statement_is_read() {
        let sql = "CREATE TABLE `t` (\n  `id` bigint NOT NULL COMMENT \"DUPLICATE KEY(`x`)\",\n  `b` int NULL COMMENT 'it''s \\' \"'\n\
             ) ENGINE=OLAP\nUNIQUE KEY(`id`, `b`)\nCOMMENT 'OLAP'\nDISTRIBUTED BY HASH(`id`) BUCKETS AUTO\nPROPERTIES (\n\
             \"replication_allocation\" = \"tag.location.default: 1\",\n\"enable_unique_key_merge_on_write\" = \"true\",\n\
             \"function_column.sequence_type\" = \"BIGINT\"\n);";
        let table = read_create_table(sql, Vec::new());
        assert_eq!((table.model, table.keys.join("+").as_str()), (Model::Unique, "id+b"));
        assert_eq!(table.sequence_type.as_deref(), Some("bigint"));
        assert!(table.merge_on_write && table.sequence_col.is_none());

        let sql = "create table t (a int) duplicate key(a) distributed by random properties (\"function_column.sequence_col\"=\"a\")";
        let table = read_create_table(sql, Vec::new());
        assert_eq!((table.model, table.keys.join("+").as_str()), (Model::Duplicate, "a"));
        assert_eq!((table.sequence_col.as_deref(), table.merge_on_write), (Some("a"), false));

        assert_eq!(read_create_table("", Vec::new()).model, Model::Other);
        assert_eq!(read_create_table("UNIQUE KEY(", Vec::new()).keys, Vec::<String>::new());
    }
}

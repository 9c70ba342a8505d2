//! What is there: transactions, tables, servers, settings.

use core::time::Duration;

use http::Method;
use millstream_wire::ResultSet;
use tokio::time::{Instant, sleep};

use super::DorisClient;
use super::endpoint::Endpoint;
use super::sql::{described_columns, literal, read_create_table, txn_rows};
use crate::classify::FatalCause;
use crate::error::{Kind, SinkError};
use crate::request::{BACKENDS_PATH, TxnRef};
use crate::response::{Backend, NoReply, backends, parse_frontend};
use crate::retry::Backoff;
use crate::table::{APPEND_SEQ, ExistingTable, Mode, SEQUENCE_COL, TargetTable, quote_name};
use crate::txn::{TxnFact, TxnRow};

/// What a first look at the cluster found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    /// The BEs the FE takes for alive.
    pub backends: Vec<Backend>,
    /// Version text of the SQL port, when it tells.
    pub version: Option<String>,
    /// What may go wrong later, one sentence each.
    pub warnings: Vec<String>,
}

fn name(database: &str, table: &str) -> String {
    format!("{}.{}", quote_name(database), quote_name(table))
}

impl DorisClient {
    /// The state of a label or transaction.
    ///
    /// # Errors
    /// When the SQL port does not answer.
    pub async fn transaction(&self, database: &str, txn: TxnRef) -> Result<TxnFact, SinkError> {
        let filter = match txn {
            TxnRef::Id(id) => format!("ID = {id}"),
            TxnRef::Label(label) => format!("LABEL = {}", literal(&label.to_string())),
        };
        let sql = format!("SHOW TRANSACTION FROM {} WHERE {filter}", quote_name(database));
        let result = self.sql.query_if_there("looking up a transaction", &sql).await?;
        Ok(result.map_or(TxnFact::Unknown, |result| TxnFact::of(&txn_rows(&result))))
    }

    /// Every transaction of `database` whose label begins with `prefix` (see [`Label::prefix`](crate::Label::prefix)).
    /// A database that is not there has none.
    ///
    /// # Errors
    /// When the SQL port does not answer.
    pub async fn list_ours(&self, database: &str, prefix: &str) -> Result<Vec<TxnRow>, SinkError> {
        // Unescaped on purpose: `_` as a wildcard finds too much, which is sorted out here; an escape that a version reads
        // in its own way would find nothing, and nobody would notice.
        let pattern = literal(&format!("{prefix}%"));
        let sql = format!("SHOW TRANSACTION FROM {} WHERE LABEL LIKE {pattern}", quote_name(database));
        let result = self.sql.query_if_there("listing transactions", &sql).await?;
        let mut rows = result.map(|result| txn_rows(&result)).unwrap_or_default();
        rows.retain(|row| row.label.starts_with(prefix));
        Ok(rows)
    }

    /// Waits until a committed transaction is visible; false when it is not within `timeout`, or is not committed at all.
    ///
    /// # Errors
    /// When the SQL port does not answer.
    pub async fn wait_visible(&self, database: &str, txn_id: u64, timeout: Duration) -> Result<bool, SinkError> {
        let started = Instant::now();
        let mut backoff = Backoff::new(Duration::from_millis(20), Duration::from_secs(1));
        let mut rng = self.rng();
        loop {
            match self.transaction(database, TxnRef::Id(txn_id)).await? {
                TxnFact::Visible(_) => return Ok(true),
                TxnFact::Committed(_) => {}
                _ => return Ok(false),
            }
            if started.elapsed() >= timeout {
                return Ok(false);
            }
            sleep(backoff.next(&mut rng).min(timeout)).await;
        }
    }

    /// Creates a database unless it is there.
    ///
    /// # Errors
    /// When the SQL port refuses.
    pub async fn ensure_database(&self, database: &str) -> Result<(), SinkError> {
        let sql = format!("CREATE DATABASE IF NOT EXISTS {}", quote_name(database));
        self.sql.query("creating a database", &sql).await.map(drop)
    }

    /// A table as it is; `None` when there is none.
    ///
    /// # Errors
    /// When the SQL port does not answer.
    pub async fn describe_table(&self, database: &str, table: &str) -> Result<Option<ExistingTable>, SinkError> {
        let what = "describing a table";
        let name = name(database, table);
        let Some(columns) = self.sql.query_if_there(what, &format!("DESC {name}")).await? else { return Ok(None) };
        let create = self.sql.query_if_there(what, &format!("SHOW CREATE TABLE {name}")).await?;
        let Some(create) = create else { return Ok(None) };
        let statement = create.text(0, "Create Table").unwrap_or_default();
        Ok(Some(read_create_table(statement, described_columns(&columns))))
    }

    /// Creates a target unless it is there.
    ///
    /// # Errors
    /// When the SQL port refuses.
    pub async fn create_table(
        &self,
        target: &TargetTable,
        replication_num: Option<u16>,
        buckets: Option<u32>,
    ) -> Result<(), SinkError> {
        let sql = target.create_table_sql(replication_num, buckets);
        self.sql.query(&format!("creating {}.{}", target.database, target.table), &sql).await.map(drop)
    }

    /// Empties a table.
    ///
    /// # Errors
    /// When the SQL port refuses.
    pub async fn truncate(&self, database: &str, table: &str) -> Result<(), SinkError> {
        let sql = format!("TRUNCATE TABLE {}", name(database, table));
        self.sql.query(&format!("emptying {database}.{table}"), &sql).await.map(drop)
    }

    fn number(what: &str, result: &ResultSet) -> Result<Option<i64>, SinkError> {
        match result.scalar() {
            None => Ok(None),
            Some(text) => text.trim().parse().map(Some).map_err(|_| {
                SinkError::new(Kind::Unexpected { what: what.to_owned(), text: text.chars().take(100).collect() })
            }),
        }
    }

    async fn counted(&self, what: &str, sql: &str) -> Result<u64, SinkError> {
        let count = Self::number(what, &self.sql.query(what, sql).await?)?;
        count
            .and_then(|count| u64::try_from(count).ok())
            .ok_or_else(|| SinkError::new(Kind::Unexpected { what: what.to_owned(), text: "no count".to_owned() }))
    }

    /// Visible rows of a table.
    ///
    /// # Errors
    /// When the SQL port does not answer.
    pub async fn count(&self, database: &str, table: &str) -> Result<u64, SinkError> {
        self.counted("counting rows", &format!("SELECT COUNT(*) FROM {}", name(database, table))).await
    }

    /// The greatest sequence number in a target, deleted rows of an upsert target included; `None` for an empty one.
    ///
    /// # Errors
    /// When the SQL port does not answer.
    pub async fn max_sequence(&self, database: &str, table: &str, mode: Mode) -> Result<Option<i64>, SinkError> {
        let what = "reading the greatest sequence number";
        let max = |column| format!("SELECT MAX({}) FROM {}", quote_name(column), name(database, table));
        let result = match mode {
            // With hidden columns shown, deleted rows are rows too: right here, wrong for every other statement.
            Mode::Upsert => self.sql.query_with(what, "SET show_hidden_columns = true", &max(SEQUENCE_COL)).await?,
            Mode::Append => self.sql.query(what, &max(APPEND_SEQ)).await?,
        };
        Self::number(what, &result)
    }

    /// Whether an append target holds any row with a sequence number from `low` to `high`: whether the load of that range,
    /// which is visible as a whole or not at all, is visible.
    ///
    /// # Errors
    /// When the SQL port does not answer.
    pub async fn any_row_in_seq_range(
        &self,
        database: &str,
        table: &str,
        low: i64,
        high: i64,
    ) -> Result<bool, SinkError> {
        let (name, seq) = (name(database, table), quote_name(APPEND_SEQ));
        let sql = format!("SELECT COUNT(*) FROM {name} WHERE {seq} >= {low} AND {seq} <= {high}");
        Ok(self.counted("looking for a load's rows", &sql).await? > 0)
    }

    /// The state of the newest schema change of a table, such as `WAITING_TXN` or `FINISHED`; `None` if there was none.
    ///
    /// # Errors
    /// When the SQL port does not answer.
    pub async fn schema_change(&self, database: &str, table: &str) -> Result<Option<String>, SinkError> {
        let (database, table) = (quote_name(database), literal(table));
        let sql = format!(
            "SHOW ALTER TABLE COLUMN FROM {database} WHERE TableName = {table} ORDER BY CreateTime DESC LIMIT 1"
        );
        let result = self.sql.query("looking up a schema change", &sql).await?;
        Ok(result.text(0, "State").map(str::to_owned))
    }

    /// Settings of the FE by name; those it does not know, or does not tell this account, are left out.
    ///
    /// # Errors
    /// When the SQL port does not answer.
    pub async fn frontend_config(&self, names: &[&str]) -> Result<Vec<(String, String)>, SinkError> {
        let mut out = Vec::new();
        for name in names {
            let sql = format!("ADMIN SHOW FRONTEND CONFIG LIKE {}", literal(name));
            match self.sql.query("reading the FE's settings", &sql).await {
                Ok(result) => out.extend((0..result.len()).filter_map(|row| {
                    let pair = (result.text(row, "Key")?.to_owned(), result.text(row, "Value")?.to_owned());
                    (pair.0 == *name).then_some(pair)
                })),
                // Needs the ADMIN privilege, which a replication account mostly lacks.
                Err(error) if !error.is_retryable() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(out)
    }

    /// The BEs the FE takes for alive.
    ///
    /// # Errors
    /// When no FE answers, or the account is refused.
    pub async fn backends(&self) -> Result<Vec<Backend>, SinkError> {
        let frontend = self.frontend()?;
        let found = self.backends_of(frontend).await;
        if found.is_err() {
            self.next_frontend();
        }
        found
    }

    async fn backends_of(&self, frontend: &Endpoint) -> Result<Vec<Backend>, SinkError> {
        let headers = self.credentials.headers();
        let asked = self.transport.request(frontend, Method::GET, BACKENDS_PATH, headers, self.options.reply_timeout);
        let what = || format!("asking the FE {frontend} for its BEs");
        let reply = asked.await.map_err(|error| match error.is_other_protocol() {
            true => {
                SinkError::config(format!("{frontend} does not speak HTTP; sink.fe needs the FE's http_port (8030)"))
            }
            false => error.into_sink_error(),
        })?;
        match parse_frontend(reply.status.as_u16(), &reply.body) {
            Ok(data) => Ok(backends(&data)),
            Err(NoReply::Frontend { code: Some(401 | 403), message }) => {
                Err(SinkError::new(Kind::Refused { what: what(), cause: FatalCause::Auth, text: message.to_string() }))
            }
            Err(NoReply::Http { status: status @ (401 | 403), .. }) => {
                let text = format!("HTTP {status}");
                Err(SinkError::new(Kind::Refused { what: what(), cause: FatalCause::Auth, text }))
            }
            Err(other) => Err(SinkError::new(Kind::Unexpected { what: what(), text: format!("{other:?}") })),
        }
    }

    /// A first look: every FE, the BEs that loads will go to, the SQL port, and the limits that recovery relies on.
    ///
    /// # Errors
    /// When no FE, no BE or not the SQL port can be used.
    pub async fn probe(&self) -> Result<Probe, SinkError> {
        let mut warnings = Vec::new();
        let mut listed = None;
        let mut last_error = None;
        for frontend in &self.frontends {
            match self.backends_of(frontend).await {
                Ok(found) => listed = listed.or(Some(found)),
                Err(error) if error.is_retryable() => {
                    warnings.push(format!("{error}"));
                    last_error = Some(error);
                }
                Err(error) => return Err(error),
            }
        }
        let Some(listed) = listed else {
            return Err(last_error.unwrap_or_else(|| SinkError::config("sink.fe: at least one FE is needed")));
        };
        let alive = listed.iter().filter(|backend| backend.alive);
        let named = alive.map(|backend| Endpoint { tls: false, host: backend.host.clone(), port: backend.http_port });
        let targets: Vec<Endpoint> = if self.backends.is_empty() { named.collect() } else { self.backends.clone() };
        let mut reached = false;
        for backend in &targets {
            let headers = http::HeaderMap::new();
            let asked =
                self.transport.request(backend, Method::GET, "/api/health", headers, self.options.reply_timeout);
            match asked.await {
                Ok(reply) if reply.status.as_u16() < 500 => reached = true,
                Ok(reply) => warnings.push(format!("the BE {backend} answers HTTP {}", reply.status.as_u16())),
                Err(error) if error.is_other_protocol() => {
                    return Err(SinkError::config(format!(
                        "{backend} does not speak HTTP; sink.be needs the BE's webserver_port (8040)"
                    )));
                }
                Err(error) => {
                    warnings.push(format!("the BE {error}; is its address reachable from here? sink.be names others"))
                }
            }
        }
        if !reached {
            let text =
                if warnings.is_empty() { "the FE knows none that is alive".to_owned() } else { warnings.join("; ") };
            return Err(SinkError::new(Kind::GaveUp { what: "reaching any BE".to_owned(), text }));
        }
        let version = self.sql.query("saying hello", "SELECT @@version_comment").await;
        let version = match version {
            Ok(result) => result.scalar().map(str::to_owned),
            Err(error) if error.is_retryable() => return Err(error),
            Err(_) => self.sql.query("saying hello", "SELECT 1").await.map(|_| None)?,
        };
        let kept = self.frontend_config(&["label_num_threshold", "streaming_label_keep_max_second"]).await?;
        for (name, value) in kept {
            let least = if name == "label_num_threshold" { 2000 } else { 3600 };
            if value.parse::<i64>().is_ok_and(|value| (0..least).contains(&value)) {
                warnings.push(format!("the FE's {name} is {value}: finished loads are forgotten soon, so recovery will look at the data itself"));
            }
        }
        Ok(Probe { backends: listed, version, warnings })
    }
}

//! A source, a cluster and an engine, joined for an end-to-end test. The cluster is simulated, or the real one that
//! `MILLSTREAM_DORIS_FE` names; tests that need the simulator's inside say that they are skipped there.

use std::collections::BTreeMap;
use std::time::Duration;

use millstream_wire::{ConnectOptions, Connection};

use crate::doris::{DorisSim, DorisTarget};
use crate::engine::{Engine, Home, Output};
use crate::server::{Endpoint, Server};
use crate::source::{SourceTable, TextRow};

/// How long a run with `--until` may take in a test.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// A cluster beside a source, and a home for engines between them.
#[derive(Debug)]
pub struct Rig {
    /// Keeps the cluster's tasks running.
    pub runtime: tokio::runtime::Runtime,
    /// The cluster.
    pub cluster: DorisTarget,
    /// Where the engine runs; its state is in `state`.
    pub home: Home,
    /// `source.url`.
    pub source_url: String,
    /// Patterns of `source.tables`.
    pub tables: Vec<String>,
    /// Lines at the top of the configuration, such as `memory = "16MiB"`.
    pub top: String,
    /// Lines added to `[snapshot]`.
    pub snapshot: String,
    /// `sink.flush`.
    pub flush: String,
    /// Lines added to `[sink]`.
    pub sink: String,
}

impl Rig {
    /// A cluster for `server`; `tables` are patterns of `source.tables`.
    pub fn new(server: &Server, tables: &[&str]) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let cluster = runtime.block_on(DorisTarget::from_env_or_sim()).unwrap();
        let rig = Self {
            runtime,
            cluster,
            home: Home::new().unwrap(),
            source_url: server.url("repl"),
            tables: tables.iter().map(ToString::to_string).collect(),
            top: String::new(),
            snapshot: "chunk_rows = 500".to_owned(),
            flush: "{ interval = \"200ms\" }".to_owned(),
            sink: String::new(),
        };
        if rig.cluster.is_real() {
            // What an earlier run of the suite left there.
            for database in tables.iter().filter_map(|t| t.split('.').next()) {
                for prefix in ["up", "log"] {
                    rig.sql(&format!("DROP DATABASE IF EXISTS `{prefix}_{database}`")).unwrap();
                }
            }
        }
        rig
    }

    /// The same for a test that needs the simulator's inside (faults, transactions, its clock). On a real cluster it says
    /// that the test is skipped.
    pub fn simulated(server: &Server, tables: &[&str]) -> Option<Self> {
        let rig = Self::new(server, tables);
        rig.cluster.sim_or_skip(&tables.join(", ")).is_some().then_some(rig)
    }

    /// The simulator of a rig that [`Rig::simulated`] made.
    #[track_caller]
    pub fn sim(&self) -> &DorisSim {
        self.cluster.sim_or_skip("this").expect("a simulated cluster")
    }

    /// The names of the columns and the rows that a statement gives on the cluster's SQL port.
    fn sql(&self, statement: &str) -> Result<(Vec<String>, Vec<TextRow>), millstream_wire::Error> {
        let at = self.cluster.sql_socket().unwrap();
        let options = ConnectOptions::tcp(at.ip().to_string(), at.port())
            .user(self.cluster.user.as_str())
            .password(self.cluster.password.as_str());
        self.runtime.block_on(async {
            let mut connection = Connection::connect(&options).await?;
            let mut answer = connection.query(statement).await?;
            let columns = answer.columns().iter().map(|c| c.name.clone()).collect();
            let mut rows = Vec::new();
            while let Some(row) = answer.next().await? {
                let texts = row.texts().map(|text| text.map(|t| t.map(|t| String::from_utf8(t.to_vec()).unwrap())));
                rows.push(texts.collect::<Result<_, _>>()?);
            }
            drop(answer);
            connection.close().await;
            Ok((columns, rows))
        })
    }

    /// The columns and the visible rows of a target table; `None` if it is not there.
    pub fn table(&self, database: &str, table: &str) -> Option<(Vec<String>, Vec<TextRow>)> {
        match self.sql(&format!("SELECT * FROM `{database}`.`{table}`")) {
            Ok(answer) => Some(answer),
            Err(e) if e.server_error().is_some() => None,
            Err(e) => panic!("reading {database}.{table}: {e}"),
        }
    }

    /// The visible rows of a target table.
    pub fn rows(&self, database: &str, table: &str) -> Vec<TextRow> {
        self.table(database, table).map_or_else(Vec::new, |(_, rows)| rows)
    }

    /// How many there are; 0 if the table is not there.
    pub fn row_count(&self, database: &str, table: &str) -> u64 {
        match self.sql(&format!("SELECT COUNT(*) FROM `{database}`.`{table}`")) {
            Ok((_, rows)) => rows[0][0].as_deref().unwrap().parse().unwrap(),
            Err(e) if e.server_error().is_some() => 0,
            Err(e) => panic!("counting {database}.{table}: {e}"),
        }
    }

    /// The configuration: every table goes to `up_DB.TABLE` (upsert) and to `log_DB.TABLE` (append).
    pub fn config(&self) -> String {
        let tables: Vec<String> = self.tables.iter().map(|t| format!("{t:?}")).collect();
        format!(
            r#"
name = "rig"
{top}
[source]
url = "{url}"
tables = [{tables}]
[snapshot]
{snapshot}
[sink]
type = "doris"
fe = ["{fe}"]
sql = "{sql}"
user = "{user}"
password = "{password}"
flush = {flush}
{sink}
[[route]]
match = "*.*"
to = "up_{{db}}.{{table}}"
mode = "upsert"
[[route]]
match = "*.*"
to = "log_{{db}}.{{table}}"
mode = "append"
[state]
dir = "state"
"#,
            top = self.top,
            url = self.source_url,
            snapshot = self.snapshot,
            flush = self.flush,
            sink = self.sink,
            tables = tables.join(", "),
            fe = self.cluster.fe_url,
            sql = self.cluster.sql_addr,
            user = self.cluster.user,
            password = self.cluster.password,
        )
    }

    /// Runs until everything the source has now is visible.
    pub fn run(&self) -> Output {
        self.home.finish(Some(&self.config()), &["run", "--until", "current", "--json"], PATIENCE)
    }

    /// Runs and checks that it ended well.
    pub fn run_well(&self) -> Output {
        let output = self.run();
        assert!(output.exit.success(), "{:?}\n{}", output.exit, output.stderr);
        assert_balanced(&output.stdout);
        output
    }

    /// Starts an engine that does not end by itself.
    pub fn spawn(&self) -> Engine {
        self.home.spawn(Some(&self.config()), &["run"]).unwrap()
    }

    /// Where the upsert table differs from the source; empty when they are equal.
    pub fn upsert_differences(&self, endpoint: &Endpoint, database: &str, table: &str) -> Vec<String> {
        let source = SourceTable::describe(endpoint, database, table).unwrap();
        let sink_db = format!("up_{database}");
        let (columns, rows) = self.table(&sink_db, table).unwrap();
        let order: Vec<usize> =
            source.columns.iter().map(|c| columns.iter().position(|name| *name == c.name).unwrap()).collect();
        let pick = |row: &[Option<String>]| -> Vec<Option<String>> {
            order
                .iter()
                .zip(&source.columns)
                .map(|(i, column)| row[*i].clone().map(|text| column.normal(text)))
                .collect()
        };
        let key = |row: &Vec<Option<String>>| source.key.iter().map(|i| row[*i].clone()).collect::<Vec<_>>();
        let there: BTreeMap<_, _> = rows.iter().map(|row| pick(row)).map(|row| (key(&row), row)).collect();
        let here: BTreeMap<_, _> = source.read(endpoint).unwrap().into_iter().map(|row| (key(&row), row)).collect();
        let mut differences = Vec::new();
        for (key, row) in &here {
            match there.get(key) {
                None => differences.push(format!("{key:?} is missing")),
                Some(other) if other != row => differences.push(format!("{key:?}: source {row:?}, sink {other:?}")),
                Some(_) => {}
            }
        }
        for key in there.keys().filter(|key| !here.contains_key(*key)) {
            differences.push(format!("{key:?} is too much"));
        }
        differences
    }

    /// Fails unless every table's upsert target equals the source.
    #[track_caller]
    pub fn assert_upsert_equal(&self, endpoint: &Endpoint, database: &str, tables: &[&str]) {
        for table in tables {
            let differences = self.upsert_differences(endpoint, database, table);
            let first: Vec<&String> = differences.iter().take(5).collect();
            assert!(differences.is_empty(), "{table}: {} differences, such as {first:#?}", differences.len());
        }
    }

    /// What is wrong with the append table: a change that comes twice, a history that cannot be, a replay that does not
    /// end at the source. Empty when all is well.
    pub fn append_faults(&self, endpoint: &Endpoint, database: &str, table: &str) -> Vec<String> {
        let source = SourceTable::describe(endpoint, database, table).unwrap();
        let sink_db = format!("log_{database}");
        let (columns, mut log) = self.table(&sink_db, table).unwrap();
        let at = |name: &str| columns.iter().position(|column| column == name).unwrap();
        let order: Vec<usize> = source.columns.iter().map(|c| at(&c.name)).collect();
        let (seq, op, gtid, row_no) = (at("_ms_seq"), at("_ms_op"), at("_ms_gtid"), at("_ms_row"));
        let (file, pos) = (at("_ms_file"), at("_ms_pos"));
        log.sort_by_key(|row| row[seq].as_deref().unwrap().parse::<i64>().unwrap());
        let mut faults = Vec::new();
        let mut seen = std::collections::BTreeSet::new();
        let mut state: BTreeMap<Vec<Option<String>>, Vec<Option<String>>> = BTreeMap::new();
        for row in &log {
            let values: Vec<Option<String>> = order
                .iter()
                .zip(&source.columns)
                .map(|(i, column)| row[*i].clone().map(|text| column.normal(text)))
                .collect();
            let key: Vec<Option<String>> = source.key.iter().map(|i| values[*i].clone()).collect();
            let what = format!("{key:?} {:?} {:?} {:?}", row[op], row[gtid], row[row_no]);
            // Without a GTID a change is known by its place in the log.
            let id = match &row[gtid] {
                Some(gtid) => [Some(gtid.clone()), None, row[row_no].clone()],
                None => [row[file].clone(), row[pos].clone(), row[row_no].clone()],
            };
            if row[op].as_deref() != Some("r") && !seen.insert(id) {
                faults.push(format!("twice: {what}"));
            }
            let fits = match row[op].as_deref() {
                Some("r" | "c") => state.insert(key, values).is_none(),
                Some("u") => state.insert(key, values).is_some(),
                Some("d") => state.remove(&key).is_some(),
                _ => false,
            };
            if !fits {
                faults.push(format!("cannot be: {what}"));
            }
        }
        let here: BTreeMap<_, _> = source
            .read(endpoint)
            .unwrap()
            .into_iter()
            .map(|row| (source.key.iter().map(|i| row[*i].clone()).collect::<Vec<_>>(), row))
            .collect();
        for (key, row) in &here {
            match state.get(key) {
                Some(other) if other == row => {}
                other => faults.push(format!("replay of {key:?}: source {row:?}, log {other:?}")),
            }
        }
        for key in state.keys().filter(|key| !here.contains_key(*key)) {
            faults.push(format!("replay has {key:?}, the source does not"));
        }
        faults
    }

    /// Fails unless both targets of every table are right.
    #[track_caller]
    pub fn assert_exact(&self, endpoint: &Endpoint, database: &str, tables: &[&str]) {
        self.assert_upsert_equal(endpoint, database, tables);
        for table in tables {
            let faults = self.append_faults(endpoint, database, table);
            let first: Vec<&String> = faults.iter().take(5).collect();
            assert!(faults.is_empty(), "{table}: {} faults in the log, such as {first:#?}", faults.len());
        }
    }
}

/// Fails unless every change that came in was emitted or dropped by a rule that has a name (the last line of
/// `run --json`).
#[track_caller]
fn assert_balanced(stdout: &str) {
    let report: serde_json::Value = serde_json::from_str(stdout.lines().last().unwrap_or_default()).unwrap();
    let count = |value: &serde_json::Value| value.as_u64().unwrap();
    let dropped: u64 = report["changes_dropped"].as_object().unwrap().values().map(count).sum();
    assert_eq!(count(&report["changes_in"]), count(&report["changes_emitted"]) + dropped, "{report}");
}

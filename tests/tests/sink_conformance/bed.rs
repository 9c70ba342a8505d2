//! What the checks share: a cluster (simulated, or the real one that the environment names), a client of it, and tables to
//! fill.

use std::cell::RefCell;
use std::sync::Once;
use std::time::Duration;

use millstream_binlog::{Charset, Column, ColumnType, ColumnValue, TableSchema};
use millstream_doris_sink::{
    Batch, Body, ClientOptions, DorisClient, EncodeOptions, Label, Load, Loaded, Mode, Op, RowEncoder, RowMeta,
    SinkError, TargetTable, TwoPhase,
};
use millstream_tests::doris::{DorisSim, DorisTarget, Knob, SeenRequest, SimOptions};

/// The pipeline of every label here.
pub(crate) const PIPELINE: u64 = 0xfeed;

/// The label of load `part`.
pub(crate) fn label(part: u16) -> Label {
    Label::new(PIPELINE, 1, 1, 1, part).unwrap()
}

/// Options of an impatient client.
pub(crate) fn options(sim: &DorisSim) -> ClientOptions {
    quick(ClientOptions::new(vec![sim.fe_url()], sim.sql_addr().to_string(), sim.user(), sim.password()))
}

fn quick(mut options: ClientOptions) -> ClientOptions {
    options.retry_base = Duration::from_millis(2);
    options.retry_cap = Duration::from_millis(50);
    options.running_wait = Duration::from_millis(20);
    options.give_up = Duration::from_secs(30);
    options.load_timeout = Duration::from_secs(20);
    options.seed = Some(4);
    options
}

pub(crate) fn client(sim: &DorisSim) -> DorisClient {
    DorisClient::new(options(sim)).unwrap()
}

pub(crate) fn column(name: &str, ty: ColumnType, nullable: bool) -> Column {
    let text = matches!(
        ty,
        ColumnType::Char { .. }
            | ColumnType::VarChar { .. }
            | ColumnType::Text { .. }
            | ColumnType::Enum { .. }
            | ColumnType::Set { .. }
    );
    let charset = if text { Charset::Utf8mb4 } else { Charset::Binary };
    Column { name: name.into(), ty, nullable, charset, collation: 0 }
}

pub(crate) fn small_schema() -> TableSchema {
    TableSchema {
        database: "shop".into(),
        table: "orders".into(),
        columns: vec![
            column("note", ColumnType::VarChar { max_bytes: 400 }, true),
            column("id", ColumnType::BigInt { unsigned: false }, false),
        ],
        key: vec![1],
    }
}

/// A table and what is needed to fill it.
pub(crate) struct Target {
    pub(crate) target: TargetTable,
    encoder: RowEncoder,
}

impl Target {
    pub(crate) fn new(schema: &TableSchema, table: &str, mode: Mode) -> Self {
        let target = TargetTable::plan(schema, "ods", table, mode).unwrap();
        let encoder = RowEncoder::new(schema, &target, &EncodeOptions::default());
        Self { target, encoder }
    }

    pub(crate) async fn create(schema: &TableSchema, table: &str, mode: Mode, client: &DorisClient) -> Self {
        let this = Self::new(schema, table, mode);
        client.ensure_database("ods").await.unwrap();
        client.create_table(&this.target, Some(1), Some(1)).await.unwrap();
        this
    }

    pub(crate) fn body(&mut self, rows: &[(Vec<ColumnValue<'_>>, i64, Op)]) -> Body {
        let mut batch = Batch::new(self.target.mode);
        for (values, seq, op) in rows {
            let meta = RowMeta {
                seq: *seq,
                op: *op,
                gtid: Some("g:1"),
                file: "b.1",
                pos: 4,
                row: 0,
                ts_micros: Some(1_000_000),
            };
            batch.push(&mut self.encoder, values.iter().copied().enumerate(), &meta).unwrap();
        }
        batch.seal().unwrap()
    }

    /// Rows `ids` with sequence numbers that are the ids.
    pub(crate) fn numbered(&mut self, ids: std::ops::Range<i64>) -> Body {
        let rows: Vec<_> = ids.map(|id| (vec![text("n"), ColumnValue::Int(id)], id, Op::Create)).collect();
        self.body(&rows)
    }

    pub(crate) async fn load(
        &self,
        client: &DorisClient,
        body: &Body,
        label: Label,
        two: TwoPhase,
    ) -> Result<Loaded, SinkError> {
        let columns = self.target.columns_header();
        let (database, table) = (self.target.database.as_str(), self.target.table.as_str());
        let load = Load {
            database,
            table,
            label,
            columns: &columns,
            partial: false,
            body: body.bytes.clone(),
            rows: body.rows,
            two_phase: two,
        };
        client.load(&load).await
    }
}

pub(crate) fn text(text: &str) -> ColumnValue<'_> {
    ColumnValue::Text { bytes: text.as_bytes(), charset: Charset::Utf8mb4 }
}

pub(crate) async fn sim() -> DorisSim {
    DorisSim::start(SimOptions::default()).await.unwrap()
}

/// A cluster, a client of it, and a database of the check's own.
pub(crate) struct Bed {
    cluster: DorisTarget,
    pub(crate) client: DorisClient,
    pub(crate) database: String,
}

impl Bed {
    /// For a check that a real cluster can be put to as well.
    pub(crate) async fn new(check: &str) -> Self {
        Self::on(DorisTarget::from_env_or_sim().await.unwrap(), check).await
    }

    /// For a check that needs the simulator's faults, clock or log: on a real cluster it says that it is skipped.
    pub(crate) async fn simulated(check: &str) -> Option<Self> {
        Self::simulated_with(check, SimOptions::default()).await
    }

    /// The same with options for the simulator.
    pub(crate) async fn simulated_with(check: &str, options: SimOptions) -> Option<Self> {
        let cluster = DorisTarget::from_env_or_sim_with(options).await.unwrap();
        cluster.sim_or_skip(check)?;
        Some(Self::on(cluster, check).await)
    }

    async fn on(cluster: DorisTarget, check: &str) -> Self {
        let options = ClientOptions::new(
            vec![cluster.fe_url.clone()],
            cluster.sql_addr.clone(),
            cluster.user.as_str(),
            cluster.password.as_str(),
        );
        let client = DorisClient::new(quick(options)).unwrap();
        let this = Self { cluster, client, database: format!("conformance_{check}") };
        if this.cluster.is_real() {
            this.sql(&format!("DROP DATABASE IF EXISTS `{}` FORCE", this.database)).await;
        }
        this.client.ensure_database(&this.database).await.unwrap();
        this
    }

    /// The simulator.
    #[track_caller]
    pub(crate) fn sim(&self) -> &DorisSim {
        self.cluster.sim_or_skip("this").expect("a simulated cluster")
    }

    /// Options of an impatient client of the cluster.
    pub(crate) fn options(&self) -> ClientOptions {
        let (fe, sql) = (self.cluster.fe_url.clone(), self.cluster.sql_addr.clone());
        quick(ClientOptions::new(vec![fe], sql, self.cluster.user.as_str(), self.cluster.password.as_str()))
    }

    /// A session on the SQL port.
    pub(crate) async fn session(&self) -> millstream_wire::Connection {
        let at = self.cluster.sql_socket().unwrap();
        let options = millstream_wire::ConnectOptions::tcp(at.ip().to_string(), at.port())
            .user(self.cluster.user.as_str())
            .password(self.cluster.password.as_str());
        millstream_wire::Connection::connect(&options).await.unwrap()
    }

    /// The rows of a statement as text.
    pub(crate) async fn sql(&self, statement: &str) -> Vec<Vec<Option<String>>> {
        let answer = self.session().await.query_all(statement).await.unwrap_or_else(|e| panic!("{statement}: {e}"));
        let text = |v: &Option<Vec<u8>>| v.as_ref().map(|v| String::from_utf8_lossy(v).into_owned());
        answer.rows().iter().map(|row| row.iter().map(text).collect()).collect()
    }

    /// Creates a table of the database.
    pub(crate) async fn table(&self, schema: &TableSchema, table: &str, mode: Mode) -> Target {
        let target = TargetTable::plan(schema, &self.database, table, mode).unwrap();
        let encoder = RowEncoder::new(schema, &target, &EncodeOptions::default());
        let this = Target { target, encoder };
        self.client.create_table(&this.target, Some(1), Some(1)).await.unwrap();
        this
    }

    /// An append table `log`, and an upsert table `orders`.
    pub(crate) async fn log(&self) -> Target {
        self.table(&small_schema(), "log", Mode::Append).await
    }

    /// Commits a load and waits until it can be read.
    pub(crate) async fn commit(&self, loaded: Loaded) {
        let txn = loaded.txn_id.unwrap();
        let outcome = self.client.commit(&self.database, txn).await.unwrap();
        use millstream_doris_sink::CommitOutcome::{AlreadyDone, Done};
        assert!(matches!(outcome, Done | AlreadyDone), "{outcome:?}");
        assert!(self.client.wait_visible(&self.database, txn, Duration::from_secs(60)).await.unwrap());
    }

    /// The sequence numbers in an append table, in order.
    pub(crate) async fn sequences(&self, table: &str) -> Vec<i64> {
        let rows = self.sql(&format!("SELECT `_ms_seq` FROM `{}`.`{table}`", self.database)).await;
        let mut numbers: Vec<i64> = rows.iter().map(|row| row[0].as_deref().unwrap().parse().unwrap()).collect();
        numbers.sort_unstable();
        numbers
    }

    /// Loads that reached the simulator: those of the front end, and those of the back ends.
    pub(crate) fn loads(&self) -> (Vec<SeenRequest>, Vec<SeenRequest>) {
        let requests = self.sim().requests().into_iter().filter(|r| r.path.ends_with("/_stream_load"));
        requests.partition(|r| r.port == millstream_tests::doris::Port::Fe)
    }

    pub(crate) fn set(&self, knob: Knob) {
        self.sim().set(knob);
    }

    /// Waits until the simulator says so.
    pub(crate) async fn until(&self, what: &str, reached: impl Fn(&DorisSim) -> bool) {
        let end = std::time::Instant::now() + Duration::from_secs(30);
        while !reached(self.sim()) {
            assert!(std::time::Instant::now() < end, "never came: {what}");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
}

thread_local! {
    static LOG: RefCell<Option<Vec<u8>>> = const { RefCell::new(None) };
}

/// Takes down what this thread logs from now on. (One subscriber for all threads: with one for each, what a thread without any
/// logs first would be logged by none.)
pub(crate) fn log_begins() {
    struct ToThread;
    impl std::io::Write for ToThread {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            LOG.with_borrow_mut(|log| log.iter_mut().for_each(|log| log.extend_from_slice(bytes)));
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    static SUBSCRIBER: Once = Once::new();
    SUBSCRIBER.call_once(|| {
        let level = tracing::Level::TRACE;
        let subscriber = tracing_subscriber::fmt().with_max_level(level).with_writer(|| ToThread).finish();
        tracing::subscriber::set_global_default(subscriber).unwrap();
    });
    LOG.set(Some(Vec::new()));
}

/// What was logged.
pub(crate) fn log_ends() -> String {
    String::from_utf8_lossy(&LOG.take().unwrap_or_default()).into_owned()
}

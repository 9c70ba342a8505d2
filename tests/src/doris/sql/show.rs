//! SHOW and DESC.

use super::exec::{VARIABLES, detail, known_db, variable, with_table};
use super::lex::like;
use super::parse::{Statement, Which};
use super::proto::ColumnDef;
use super::{Fail, Outcome, Session, fail};
use crate::doris::clock::format_ms;
use crate::doris::table::{Column, Model, Schema, VERSION_COL};
use crate::doris::types::ColType;
use crate::doris::{Shared, Txn};

/// The text front ends print for a time that has not come.
const NEVER: &str = "\\N";

fn table(names: &[&str], rows: Vec<Vec<Option<String>>>) -> Outcome {
    let columns = names.iter().map(|n| ColumnDef { name: (*n).to_owned(), kind: 253 }).collect();
    let rows = rows.into_iter().map(|r| r.into_iter().map(|v| v.map(String::into_bytes)).collect()).collect();
    Outcome::Rows(columns, rows)
}

fn some(text: &str) -> Option<String> {
    Some(text.to_owned())
}

/// The rest of the statements.
pub(super) fn show(shared: &Shared, session: &Session, statement: Statement) -> Result<Outcome, Fail> {
    let fits = |pattern: &Option<String>, text: &str| pattern.as_ref().is_none_or(|p| like(p, text));
    match statement {
        Statement::ShowDatabases { like } => {
            let world = shared.world();
            let names = world.dbs.keys().map(String::as_str).chain(["information_schema"]);
            Ok(table(&["Database"], names.filter(|n| fits(&like, n)).map(|n| vec![some(n)]).collect()))
        }
        Statement::ShowTables { db, like, full } => {
            let db = known_db(shared, session, db.as_deref())?;
            let world = shared.world();
            let names = world.dbs.get(&db).into_iter().flat_map(|d| d.tables.keys()).filter(|n| fits(&like, n));
            let head = format!("Tables_in_{db}");
            Ok(if full {
                table(&[&head, "Table_type"], names.map(|n| vec![some(n), some("BASE TABLE")]).collect())
            } else {
                table(&[&head], names.map(|n| vec![some(n)]).collect())
            })
        }
        Statement::ShowColumns { table: name, full } => {
            let hidden = session.show_hidden;
            with_table(shared, session, &name, |_, t| columns(&t.schema, hidden, full))
        }
        Statement::ShowCreateTable(name) => with_table(shared, session, &name, |_, t| {
            table(&["Table", "Create Table"], vec![vec![some(&t.schema.name), Some(create_table(&t.schema))]])
        }),
        Statement::ShowTransaction { db, which } => transactions(shared, session, db.as_deref(), &which),
        Statement::ShowAlterTable { db } => {
            known_db(shared, session, db.as_deref())?;
            let names = [
                "JobId",
                "TableName",
                "CreateTime",
                "FinishTime",
                "IndexName",
                "IndexId",
                "OriginIndexId",
                "SchemaVersion",
                "TransactionId",
                "State",
                "Msg",
                "Progress",
                "Timeout",
            ];
            Ok(table(&names, Vec::new()))
        }
        Statement::ShowBackends => {
            let names = [
                "BackendId",
                "Host",
                "HeartbeatPort",
                "BePort",
                "HttpPort",
                "BrpcPort",
                "LastStartTime",
                "LastHeartbeat",
                "Alive",
                "SystemDecommissioned",
                "TabletNum",
                "Version",
                "Status",
            ];
            let now = format_ms(shared.clock.now_ms());
            let rows = shared.be_addrs.iter().enumerate().map(|(i, a)| {
                [
                    (10_001 + i).to_string(),
                    a.ip().to_string(),
                    "9050".into(),
                    "9060".into(),
                    a.port().to_string(),
                    "8060".into(),
                    now.clone(),
                    now.clone(),
                    "true".into(),
                    "false".into(),
                    "0".into(),
                    format!("{}-sim", shared.opts.version),
                    "{}".into(),
                ]
                .map(Some)
                .to_vec()
            });
            Ok(table(&names, rows.collect()))
        }
        Statement::ShowFrontends => {
            let names = [
                "Name",
                "Host",
                "EditLogPort",
                "HttpPort",
                "QueryPort",
                "RpcPort",
                "Role",
                "IsMaster",
                "ClusterId",
                "Join",
                "Alive",
                "Version",
                "CurrentConnected",
            ];
            let row = [
                "fe_sim".into(),
                shared.fe_addr.ip().to_string(),
                "9010".into(),
                shared.fe_addr.port().to_string(),
                shared.sql_addr.port().to_string(),
                "9020".into(),
                "FOLLOWER".into(),
                "true".into(),
                "1".into(),
                "true".into(),
                "true".into(),
                format!("{}-sim", shared.opts.version),
                "Yes".into(),
            ];
            Ok(table(&names, vec![row.map(Some).to_vec()]))
        }
        Statement::ShowFrontendConfig { like } => {
            let names = ["Key", "Value", "Type", "IsMutable", "MasterOnly", "Comment"];
            let rows = frontend_config(shared)
                .into_iter()
                .filter(|(k, _)| fits(&like, k))
                .map(|(k, v)| vec![some(k), Some(v), some("int"), some("true"), some("true"), some("")]);
            Ok(table(&names, rows.collect()))
        }
        Statement::ShowVariables { like } => {
            let rows = VARIABLES
                .iter()
                .filter(|(n, _)| fits(&like, n))
                .map(|(n, _)| vec![some(n), variable(shared, session, n)]);
            Ok(table(&["Variable_name", "Value"], rows.collect()))
        }
        other => Err(detail(format!("the simulator cannot run {other:?}"))),
    }
}

/// The settings a client has reason to ask for (doris.md 4.1).
fn frontend_config(shared: &Shared) -> Vec<(&'static str, String)> {
    let limits = &shared.opts.limits;
    vec![
        ("label_keep_max_second", "259200".into()),
        ("label_num_threshold", limits.keep_count.to_string()),
        ("label_regex_length", "128".into()),
        ("max_running_txn_num_per_db", limits.running.to_string()),
        ("max_stream_load_timeout_second", "259200".into()),
        ("min_load_timeout_second", "1".into()),
        ("stream_load_default_precommit_timeout_second", (limits.precommit_timeout_ms / 1000).to_string()),
        ("stream_load_default_timeout_second", "259200".into()),
        ("streaming_label_keep_max_second", (limits.keep_ms / 1000).to_string()),
        ("table_name_length_limit", "64".into()),
        ("transaction_clean_interval_second", "30".into()),
        ("enable_unicode_name_support", "false".into()),
    ]
}

fn columns(schema: &Schema, hidden: bool, full: bool) -> Outcome {
    let mut rows = Vec::new();
    let version = Column {
        name: VERSION_COL.into(),
        ty: ColType::BigInt,
        nullable: false,
        key: false,
        default: Some(Some("0".into())),
        comment: String::new(),
        hidden: true,
    };
    let version = (hidden && schema.model == Model::Unique).then_some(&version);
    for c in schema.columns.iter().filter(|c| hidden || !c.hidden).chain(version) {
        let default = c.default.clone().flatten();
        let extra = some(if c.key { "" } else { "NONE" });
        rows.push(if full {
            let null = some(if c.nullable { "YES" } else { "NO" });
            let key = some(if c.key { "YES" } else { "NO" });
            vec![some(&c.name), Some(c.ty.name()), some(""), null, key, default, extra, some(""), some(&c.comment)]
        } else {
            let null = some(if c.nullable { "Yes" } else { "No" });
            vec![some(&c.name), Some(c.ty.name()), null, some(if c.key { "true" } else { "false" }), default, extra]
        });
    }
    if full {
        table(&["Field", "Type", "Collation", "Null", "Key", "Default", "Extra", "Privileges", "Comment"], rows)
    } else {
        table(&["Field", "Type", "Null", "Key", "Default", "Extra"], rows)
    }
}

fn create_table(s: &Schema) -> String {
    let quote = |names: &[String]| names.iter().map(|n| format!("`{n}`")).collect::<Vec<_>>().join(", ");
    let text = |t: &str| t.replace('\\', "\\\\").replace('"', "\\\"");
    let mut out = format!("CREATE TABLE `{}` (\n", s.name);
    let lines: Vec<String> = s
        .visible()
        .map(|c| {
            let mut line = format!("  `{}` {} {}", c.name, c.ty.name(), if c.nullable { "NULL" } else { "NOT NULL" });
            match &c.default {
                Some(None) => line.push_str(" DEFAULT NULL"),
                Some(Some(v)) if v == "CURRENT_TIMESTAMP" => line.push_str(" DEFAULT CURRENT_TIMESTAMP"),
                Some(Some(v)) => line.push_str(&format!(" DEFAULT \"{}\"", text(v))),
                None => {}
            }
            if !c.comment.is_empty() {
                line.push_str(&format!(" COMMENT \"{}\"", text(&c.comment)));
            }
            line
        })
        .collect();
    out.push_str(&lines.join(",\n"));
    out.push_str("\n) ENGINE=OLAP\n");
    let keys: Vec<String> = s.columns[..s.keys].iter().map(|c| c.name.clone()).collect();
    if !keys.is_empty() {
        let model = if s.model == Model::Unique { "UNIQUE" } else { "DUPLICATE" };
        out.push_str(&format!("{model} KEY({})\n", quote(&keys)));
    }
    if !s.comment.is_empty() {
        out.push_str(&format!("COMMENT \"{}\"\n", text(&s.comment)));
    }
    let buckets = s.buckets.map_or_else(|| "AUTO".to_owned(), |n| n.to_string());
    if s.distribution.is_empty() {
        out.push_str(&format!("DISTRIBUTED BY RANDOM BUCKETS {buckets}\n"));
    } else {
        out.push_str(&format!("DISTRIBUTED BY HASH({}) BUCKETS {buckets}\n", quote(&s.distribution)));
    }
    // A front end prints the properties in force, not only those given.
    let mut properties: Vec<(String, String)> = Vec::new();
    let replicas = s.property("replication_num").unwrap_or("1");
    properties.push(("replication_allocation".into(), format!("tag.location.default: {replicas}")));
    if s.model == Model::Unique {
        let mow = s.property("enable_unique_key_merge_on_write").unwrap_or("true");
        properties.push(("enable_unique_key_merge_on_write".into(), mow.into()));
    }
    properties.push(("light_schema_change".into(), s.property("light_schema_change").unwrap_or("true").into()));
    for (k, v) in &s.properties {
        if !k.starts_with("replication_") && !properties.iter().any(|(p, _)| p == k) {
            properties.push((k.clone(), v.clone()));
        }
    }
    let lines: Vec<String> = properties.iter().map(|(k, v)| format!("\"{k}\" = \"{v}\"")).collect();
    out.push_str(&format!("PROPERTIES (\n{}\n);", lines.join(",\n")));
    out
}

fn transactions(shared: &Shared, session: &Session, db: Option<&str>, which: &Which) -> Result<Outcome, Fail> {
    let db = known_db(shared, session, db)?;
    let names = [
        "TransactionId",
        "Label",
        "Coordinator",
        "TransactionStatus",
        "LoadJobSourceType",
        "PrepareTime",
        "PreCommitTime",
        "CommitTime",
        "PublishTime",
        "FinishTime",
        "Reason",
        "ErrorReplicasCount",
        "ListenerId",
        "TimeoutMs",
        "ErrMsg",
    ];
    let world = shared.world();
    let txns = world.dbs.get(&db).into_iter().flat_map(|d| d.txns.txns());
    let rows: Vec<_> = txns
        .filter(|t| match which {
            Which::Id(id) => t.id == *id,
            Which::Label(l) => t.label == *l,
            Which::LabelLike(p) => like(p, &t.label),
            Which::Status(s) => t.state.name().eq_ignore_ascii_case(s),
        })
        .map(transaction)
        .collect();
    if let (Which::Id(id), true) = (which, rows.is_empty()) {
        let text = format!("errCode = 2, detailMessage = transaction with id {id} does not exist");
        return Err(fail(1105, "HY000", text));
    }
    Ok(table(&names, rows))
}

fn transaction(t: &Txn) -> Vec<Option<String>> {
    let time = |ms: Option<i64>| Some(ms.map_or_else(|| NEVER.to_owned(), format_ms));
    vec![
        Some(t.id.to_string()),
        some(&t.label),
        Some(format!("BE: {}", t.coordinator.split(':').next().unwrap_or(""))),
        some(t.state.name()),
        some("BACKEND_STREAMING"),
        time(Some(t.prepared_ms)),
        time(t.precommitted_ms),
        time(t.committed_ms),
        time(t.visible_ms),
        time(t.finished_ms),
        some(&t.reason),
        some("0"),
        some("-1"),
        Some(t.timeout_ms.to_string()),
        some(""),
    ]
}

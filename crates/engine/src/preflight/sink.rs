//! The sink, before anything is written to it.

use std::collections::BTreeSet;
use std::path::Path;

use millstream_doris_sink::{DorisClient, Mode, SinkError, TargetTable};

use super::{Findings, Plan, chain};
use crate::config::{Config, Doris, Jsonl, OnExisting, TableMode};
use crate::schema::catalog::Catalog;

pub(super) fn jsonl(jsonl: &Jsonl, found: &mut Findings) {
    let Some(path) = &jsonl.path else {
        found.lines.push("sink     JSON lines to stdout".to_owned());
        return;
    };
    let parent = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."));
    if path.is_dir() {
        found.problems.push(format!("sink.path: {} is a directory, not a file", path.display()));
    } else if !parent.is_dir() {
        found.problems.push(format!("sink.path: the directory {} does not exist; create it", parent.display()));
    }
    found.lines.push(format!("sink     JSON lines to {}", path.display()));
}

pub(super) async fn doris(
    config: &Config,
    doris: &Doris,
    catalog: Option<&Catalog>,
    plans: &[Plan],
    found: &mut Findings,
) {
    let mut targets = Vec::new();
    for Plan { table, target } in plans {
        let Some(catalog) = catalog else { continue };
        let Some(table) = catalog.tables.get(*table) else { continue };
        // Refused already; what another target would do about its key is no help.
        if table.key_codec(&catalog.collations).is_err() {
            continue;
        }
        let mode = match target.mode {
            TableMode::Upsert => Mode::Upsert,
            TableMode::Append => Mode::Append,
        };
        let Ok(excluded) = config.table_rules.excluded(&table.schema, catalog.case) else { continue };
        match TargetTable::plan(
            &crate::pipeline::shown_schema(&table.schema, &excluded),
            &target.database,
            &target.table,
            mode,
        ) {
            Ok(planned) => targets.push((format!("{}.{}", table.schema.database, table.schema.table), planned)),
            Err(refused) => {
                let (database, name) = (&table.schema.database, &table.schema.table);
                found.table_problem(database, name, refused.to_string());
            }
        }
    }
    let databases: BTreeSet<&str> = targets.iter().map(|(_, t)| t.database.as_str()).collect();
    if databases.len() > 1 {
        let databases: Vec<&str> = databases.into_iter().collect();
        found.warnings.push(format!(
            "targets lie in the databases {}: Doris commits each database for itself, so a source transaction that \
             spans them may be seen in one before the other",
            databases.join(", ")
        ));
    }
    let client = match DorisClient::new(doris.client_options()) {
        Ok(client) => client,
        Err(e) => {
            found.problems.push(chain(&e));
            return;
        }
    };
    match client.probe().await {
        Ok(probe) => {
            let alive = probe.backends.iter().filter(|b| b.alive).count();
            if let Some(wanted) = doris.replication_num.filter(|n| usize::from(*n) > alive) {
                found.problems.push(format!(
                    "sink.replication_num: {wanted} replicas need {wanted} live BEs, but there are {alive}; lower it or \
                     set \"auto\""
                ));
            }
            let sql: Vec<String> = doris.sql.iter().map(ToString::to_string).collect();
            let version = probe.version.as_deref().unwrap_or("of an unknown version");
            found.lines.push(format!("sink     Doris {version} at {}, {alive} live BE(s)", sql.join(", ")));
            found.lines.push(format!("delivery {}", doris.delivery.describe()));
            found.warnings.extend(probe.warnings);
        }
        Err(e) => {
            let hint = if e.is_auth() {
                "; check sink.user and sink.password"
            } else {
                "; check sink.fe, sink.be and sink.sql"
            };
            found.problems.push(format!("Doris cannot be used: {}{hint}", chain(&e)));
            return;
        }
    }
    let fresh = !config.state_dir.exists();
    for (source, target) in &targets {
        match existing(&client, target, doris.on_existing, fresh, found).await {
            Ok(fate) => found
                .lines
                .push(format!("         {source} -> {}.{} ({:?}, {fate})", target.database, target.table, target.mode)),
            Err(e) => {
                found.problems.push(format!("{}.{} cannot be looked at: {}", target.database, target.table, chain(&e)));
                return;
            }
        }
    }
}

/// What will become of a target: created, or used as it is. An existing table must be as we would create it.
async fn existing(
    client: &DorisClient,
    target: &TargetTable,
    on_existing: OnExisting,
    fresh: bool,
    found: &mut Findings,
) -> Result<String, SinkError> {
    let (database, table) = (target.database.as_str(), target.table.as_str());
    let Some(there) = client.describe_table(database, table).await? else {
        return Ok("will be created".to_owned());
    };
    if !fresh {
        // The run compares it with the table as the state has it: the source's may be a later one.
        return Ok("is continued".to_owned());
    }
    let differences = target.compare(&there);
    if !differences.is_empty() {
        found.problems.push(format!(
            "the Doris table {database}.{table} exists and differs from what its source needs: {}; drop it, or route \
             to another table",
            differences.join("; ")
        ));
        return Ok("differs".to_owned());
    }
    let rows = client.count(database, table).await?;
    Ok(match (rows, on_existing) {
        (0, _) => "exists and is empty".to_owned(),
        (_, OnExisting::Fail) => {
            found.problems.push(format!(
                "the Doris table {database}.{table} holds {rows} row(s) and there is no state that says how far they \
                 go: empty or drop it, or set sink.on_existing = \"truncate\" | \"keep\", or bring back the state \
                 directory"
            ));
            "is not empty".to_owned()
        }
        (_, OnExisting::Truncate) => format!("its {rows} row(s) will be removed"),
        (_, OnExisting::Keep) => {
            found.warnings.push(format!(
                "{database}.{table} keeps its {rows} row(s): rows that the source no longer has stay there"
            ));
            format!("keeps its {rows} row(s)")
        }
    })
}

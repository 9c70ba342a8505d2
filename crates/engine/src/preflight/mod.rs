//! Looks before anything is changed: the server and its settings, privileges, tables, keys, types, and the sink. All
//! problems are found at once, each with the way out. `millstream check` prints the result, `millstream run` begins
//! with it.

mod cascades;
mod facts;
mod retention;
mod sink;
mod surroundings;
mod xa;

use core::fmt;
use std::collections::BTreeSet;

use millstream_wire::statements::{Ask, statement};
use millstream_wire::{BinlogDump, Connection, DumpStart, Error, Flavor};

use crate::checkpoint::FileBackend;
use crate::config::{Address, Config, NameCase, Sink, TableMode, Target};
use crate::delivery::SourceKind;
use crate::schema::catalog::{self, Catalog};
use crate::snapshot::dialect::Dialect;
use crate::snapshot::fence::dialect_facts;
use crate::snapshot::sql::{condition, quoted};
use facts::Facts;

/// Everything is in order; printed, it says what a run will do.
#[derive(Clone, Debug)]
pub struct Checked {
    lines: Vec<String>,
    warnings: Vec<String>,
}

impl Checked {
    /// What may surprise, one sentence each.
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }
}

impl fmt::Display for Checked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in &self.lines {
            writeln!(f, "{line}")?;
        }
        for warning in &self.warnings {
            writeln!(f, "warning: {warning}")?;
        }
        Ok(())
    }
}

/// A run would not work: every reason, with the way out.
#[derive(Debug)]
pub struct Refused {
    problems: Vec<String>,
}

impl Refused {
    /// The reasons.
    #[must_use]
    pub fn problems(&self) -> &[String] {
        &self.problems
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.problems.join("\n"))
    }
}

impl core::error::Error for Refused {}

/// What is found on the way.
#[derive(Debug, Default)]
struct Findings {
    lines: Vec<String>,
    warnings: Vec<String>,
    problems: Vec<String>,
    /// `binlog_row_image`, if it was asked for.
    row_image: Option<String>,
    /// The tables of a pipeline that has run before. Others are new, and one that cannot be captured must not keep the rest from
    /// running.
    known: Option<BTreeSet<(String, String)>>,
}

impl Findings {
    fn is_known(&self, database: &str, table: &str) -> bool {
        self.known.as_ref().is_none_or(|known| known.iter().any(|(d, t)| d == database && t == table))
    }

    /// A table cannot be captured.
    fn table_problem(&mut self, database: &str, table: &str, problem: String) {
        if self.is_known(database, table) {
            self.problems.push(problem);
        } else {
            self.warnings.push(format!("{problem} (the table is new, and left out until then)"));
        }
    }
}

/// Checks everything that can be checked without changing anything.
///
/// # Errors
/// Every problem that was found.
pub async fn check(config: &Config) -> Result<Checked, Refused> {
    let mut found = Findings { known: FileBackend::tables(&config.state_dir), ..Findings::default() };
    let catalog = source(config, &mut found).await;
    let plans = catalog.as_ref().map(|catalog| targets(config, catalog, &mut found)).unwrap_or_default();
    match &config.sink {
        Sink::Doris(doris) => sink::doris(config, doris, catalog.as_ref(), &plans, &mut found).await,
        Sink::Jsonl(jsonl) => sink::jsonl(jsonl, &mut found),
    }
    if config.skips_backfill() {
        found.warnings.push(format!(
            "snapshot.backfill = \"skip\" delivers {}, not exactly once: while a table is read, and until the stream has passed \
             what its chunks saw, a change may come again and a row go back and forth; upsert tables end right",
            config.guarantee()
        ));
    }
    if let Some(catalog) = &catalog {
        images(config, catalog, &plans, &mut found);
    }
    let Findings { lines, warnings, problems, .. } = found;
    if problems.is_empty() { Ok(Checked { lines, warnings }) } else { Err(Refused { problems }) }
}

/// One captured table (its place in the catalog) and where it goes.
#[derive(Debug)]
struct Plan {
    table: usize,
    target: Target,
}

/// Looks at a server that a running pipeline is about to go on from: what it logs, what the user may do there, its tables.
///
/// # Errors
/// The outer one is the connection's; the inner one is every problem that was found.
pub(crate) async fn another_server(config: &Config, connection: &mut Connection) -> Result<Result<(), Refused>, Error> {
    let mut found = Findings::default();
    let _: Option<Catalog> = examine(config, &config.source.address, connection, &mut found).await?;
    Ok(if found.problems.is_empty() { Ok(()) } else { Err(Refused { problems: found.problems }) })
}

/// Examines the first host that can be reached.
async fn source(config: &Config, found: &mut Findings) -> Option<Catalog> {
    let mut unreached = Vec::new();
    for address in config.source.addresses() {
        let mut connection = match Connection::connect(&config.source.connect_options_to(&address)).await {
            Ok(connection) => connection,
            Err(e) => {
                unreached.push(unreachable(&address, &e));
                continue;
            }
        };
        found.warnings.append(&mut unreached);
        return match examine(config, &address, &mut connection, found).await {
            Ok(catalog) => {
                connection.close().await;
                catalog
            }
            Err(e) => {
                found.problems.push(format!("the source {address} answered with an error: {}", chain(&e)));
                None
            }
        };
    }
    found.problems.append(&mut unreached);
    None
}

async fn examine(
    config: &Config,
    address: &Address,
    connection: &mut Connection,
    found: &mut Findings,
) -> Result<Option<Catalog>, Error> {
    let mut facts = Facts::read(connection).await?;
    if let Some(problem) = facts.wrong_server() {
        found.problems.push(problem);
        return Ok(None);
    }
    found.problems.extend(facts.problems(config.source.server_id));
    found.row_image = Some(facts.setting("binlog_row_image").to_ascii_uppercase());
    let account = account(connection).await?;
    let logs = facts.setting("log_bin").eq_ignore_ascii_case("ON");
    replication_grants(connection, config, &mut facts, &account, logs, found).await?;
    surroundings::upstream(connection, &facts, found).await?;
    let known = |database: &str, table: &str| found.is_known(database, table);
    let catalog = match catalog::read_known(connection, &config.source.tables, &config.table_rules, known).await {
        Ok(catalog) => catalog,
        Err(e) => {
            match e.connection() {
                Some(connection) => {
                    found.problems.push(format!("the source's catalog could not be read: {}", chain(connection)));
                }
                None if e.problems().is_empty() => found.problems.push(e.to_string()),
                None => found
                    .problems
                    .extend(e.problems().iter().map(|p| p.replace("TO the user", &format!("TO {account}")))),
            }
            return Ok(None);
        }
    };
    for (database, table, problems) in &catalog.left_out {
        for problem in problems {
            found.table_problem(database, table, problem.clone());
        }
    }
    found.warnings.extend(catalog.warnings.iter().cloned());
    found.warnings.extend(cascades::warnings(connection, &facts, &catalog).await?);
    found.warnings.extend(surroundings::statements(connection).await?);
    found.warnings.extend(surroundings::schema_changes(connection, &catalog).await?);
    found.warnings.extend(xa::warnings(connection, &account).await);
    found.warnings.extend(retention::warnings(connection, &facts, &catalog, config.snapshot.mode).await?);
    found.lines.push(format!(
        "source   {} at {}, {}, binlog_row_metadata {}, TLS {}",
        facts.server(),
        address,
        facts.identity(),
        match facts.setting("binlog_row_metadata") {
            "" => "unknown to it",
            metadata => metadata,
        },
        if connection.tls() { "on" } else { "off" },
    ));
    found.lines.push(format!(
        "         as {account}, replica server id {}, {} table(s)",
        config.source.server_id,
        catalog.tables.len()
    ));
    let kind = facts.kind();
    let dialect = match dialect_facts(connection, kind).await {
        Ok(facts) => Dialect::choose(&facts),
        Err(e) => {
            found.problems.push(format!("the source does not say how it can be read: {}", chain(&e)));
            return Ok(None);
        }
    };
    found.lines.push(format!(
        "         followed by {}; chunks: {}",
        match kind {
            SourceKind::Gtid => "GTID",
            SourceKind::Position => "position (no gtid_mode = ON): a pipeline cannot move to another server",
        },
        dialect.describe()
    ));
    for table in &catalog.tables {
        let (database, name) = (&table.schema.database, &table.schema.table);
        if let Err(e) = table.key_codec(&catalog.collations) {
            found.table_problem(database, name, e.to_string());
        }
        if !table.engine.eq_ignore_ascii_case("InnoDB") {
            let problem = format!(
                "{database}.{name} has the engine {}, which has no consistent reads: ALTER TABLE {}.{} ENGINE = InnoDB, \
                 or exclude it with \"!{database}.{name}\" in source.tables",
                table.engine,
                quoted(database),
                quoted(name)
            );
            found.table_problem(database, name, problem);
        }
        if facts.leaves_out(database) {
            let problem = format!(
                "the source's binlog_do_db or binlog_ignore_db leaves {database} out of its log, so changes of \
                 {database}.{name} cannot be seen: remove the filter, or exclude the table"
            );
            found.table_problem(database, name, problem);
        }
        if let Err(problems) = config.table_rules.excluded(&table.schema, catalog.case) {
            for problem in problems {
                found.table_problem(database, name, problem);
            }
        }
        if let Some(filter) = config.table_rules.filter(database, name, catalog.case) {
            let tried =
                format!("SELECT 1 FROM {}.{} WHERE {} LIMIT 0", quoted(database), quoted(name), condition(filter));
            match connection.execute(&tried).await {
                Ok(_) => {}
                Err(e) if e.server_error().is_some() && !e.is_access_denied() => {
                    let problem = format!("table: {database}.{name}: where: the source refuses the condition: {e}");
                    found.table_problem(database, name, problem);
                }
                Err(e) if e.is_access_denied() => {}
                Err(e) => return Err(e),
            }
        }
        let suffix = dialect.suffix(connection.version());
        let probe = format!("SELECT * FROM {}.{} LIMIT 0{suffix}", quoted(database), quoted(name));
        match connection.execute(&probe).await {
            Ok(_) => {}
            Err(e) if e.is_access_denied() => {
                let problem = missing("SELECT", &format!("{}.{}", quoted(database), quoted(name)), &account);
                found.table_problem(database, name, problem);
            }
            Err(e) => return Err(e),
        }
    }
    Ok(Some(catalog))
}

/// What images of rows that lack columns lead to.
fn images(config: &Config, catalog: &Catalog, plans: &[Plan], found: &mut Findings) {
    // MariaDB's FULL_NODUP leaves out of an after image what the before image has.
    let image = match found.row_image.as_deref() {
        None | Some("" | "FULL" | "FULL_NODUP") => return,
        Some(image) => image.to_owned(),
    };
    let change = "SET PERSIST binlog_row_image = 'FULL' (SET GLOBAL on servers before 8.0), and reconnect the clients that \
                  write, as their sessions keep the old value";
    let whole = |plan: &&Plan| matches!(config.sink, Sink::Jsonl(_)) || plan.target.mode == TableMode::Append;
    if config.skips_backfill() {
        found.problems.push(format!(
            "binlog_row_image = '{image}' on the source, but with snapshot.backfill = \"skip\", where a change may come again when its \
             row is gone, rows must be logged whole: {change}"
        ));
        return;
    }
    let Some(table) = plans.iter().find(whole).and_then(|plan| catalog.tables.get(plan.table)) else {
        found.warnings.push(format!(
            "binlog_row_image = '{image}' on the source: updates are sent as loads of the columns that they show, one for each \
             set of columns, and an update that changes a key stops the run by name. To log rows whole: {change}"
        ));
        return;
    };
    found.problems.push(format!(
        "binlog_row_image = '{image}' on the source, but where every change is kept ({}.{}: mode = \"append\", JSON lines) rows must \
         be logged whole: {change}",
        table.schema.database, table.schema.table
    ));
}

/// Tries what a run will do: this sees roles, patterns and partial revokes as the server does.
async fn replication_grants(
    connection: &mut Connection,
    config: &Config,
    facts: &mut Facts,
    account: &str,
    logs: bool,
    found: &mut Findings,
) -> Result<(), Error> {
    let version = connection.version();
    let mut end = None;
    match connection.query_all(statement(Ask::BinlogStatus, connection.version())).await {
        Ok(status) => {
            let list = |name| -> Vec<String> {
                let text = status.text(0, name).unwrap_or_default();
                text.split(',').filter(|d| !d.is_empty()).map(str::to_owned).collect()
            };
            facts.logged_only = list("Binlog_Do_DB");
            facts.not_logged = list("Binlog_Ignore_DB");
            let offset = status.text(0, "Position").and_then(|offset| offset.parse().ok());
            end = status.text(0, "File").map(str::to_owned).zip(offset);
        }
        Err(e) if e.is_access_denied() => {
            let renamed = version.is_at_least(Flavor::MariaDb, (10, 5, 2));
            let privilege = if renamed { "BINLOG MONITOR" } else { "REPLICATION CLIENT" };
            found.problems.push(missing(privilege, "*.*", account));
        }
        // Without a log there is nothing to show, and that is a problem already.
        Err(e) if e.server_error().is_some() && !logs => {}
        Err(e) => return Err(e),
    }
    let tried = if version.is_mariadb() {
        // The list of replicas needs more there.
        dump_nothing(config, end).await
    } else {
        // This needs what a dump needs.
        connection.execute(statement(Ask::Replicas, version)).await.map(drop)
    };
    match tried {
        Ok(()) => Ok(()),
        Err(e) if e.is_access_denied() => {
            found.problems.push(missing("REPLICATION SLAVE", "*.*", account));
            Ok(())
        }
        Err(e) => Err(e),
    }
}

/// A dump of what follows the log's end, without waiting for it.
async fn dump_nothing(config: &Config, end: Option<(String, u64)>) -> Result<(), Error> {
    let Some((file, position)) = end else { return Ok(()) };
    let connection = Connection::connect(&config.source.connect_options()).await?;
    let start = DumpStart::Position { file, position };
    let mut dump = BinlogDump::new(start, config.source.server_id, "00000000-0000-4000-8000-000000000001");
    dump.non_blocking = true;
    dump.register = false;
    connection.dump(dump).await?.next().await.map(drop)
}

fn missing(privilege: &str, on: &str, account: &str) -> String {
    format!("{account} lacks {privilege} on {on}: GRANT {privilege} ON {on} TO {account}")
}

/// The account that the server took us for, as GRANT wants it.
async fn account(connection: &mut Connection) -> Result<String, Error> {
    let answer = connection.query_all("SELECT CURRENT_USER()").await?;
    let (user, host) = answer.scalar().and_then(|account| account.rsplit_once('@')).unwrap_or(("", "%"));
    let escaped = |text: &str| text.replace('\\', "\\\\").replace('\'', "''");
    Ok(format!("'{}'@'{}'", escaped(user), escaped(host)))
}

fn unreachable(address: &Address, e: &Error) -> String {
    let hint = if e.is_auth() {
        "; check the user and the password in source.url"
    } else if e.is_tls() {
        "; check source.ssl_mode and source.ssl_ca"
    } else if e.is_connect() {
        "; check the address in source.url, and that the server runs and may be reached from here"
    } else {
        ""
    };
    format!("the source {address} cannot be used: {}{hint}", chain(e))
}

/// An error and what it came from, without saying the same twice.
fn chain(e: &dyn core::error::Error) -> String {
    let mut text = e.to_string();
    let mut source = e.source();
    while let Some(e) = source {
        let more = e.to_string();
        if !text.contains(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        source = e.source();
    }
    text
}

/// Where every table goes; two tables into one target are a problem.
fn targets(config: &Config, catalog: &Catalog, found: &mut Findings) -> Vec<Plan> {
    let names: Vec<(String, String)> =
        catalog.tables.iter().map(|t| (t.schema.database.clone(), t.schema.table.clone())).collect();
    let clashes = config.routes.clashes(names.iter().map(|(d, t)| (d.as_str(), t.as_str())), catalog.case);
    for clash in clashes {
        let is_new =
            |source: &String| !names.iter().any(|(d, t)| found.is_known(d, t) && format!("{d}.{t}") == *source);
        let late = clash.sources.iter().any(is_new);
        let list = if late { &mut found.warnings } else { &mut found.problems };
        list.push(clash.to_string());
    }
    for pattern in config.table_rules.unused(&names, catalog.case) {
        found.warnings.push(format!("table: no captured table matches \"{pattern}\""));
    }
    for route in config.routes.unused(&names, catalog.case) {
        found.warnings.push(format!("route: no captured table matches \"{}\"", route.pattern));
    }
    names.iter().enumerate().flat_map(|(table, name)| plans(config, table, name, catalog.case)).collect()
}

fn plans(config: &Config, table: usize, (database, name): &(String, String), case: NameCase) -> Vec<Plan> {
    config.routes.targets(database, name, case).into_iter().map(|target| Plan { table, target }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Layer(&'static str, Option<Box<Self>>);

    impl fmt::Display for Layer {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.0)
        }
    }

    impl core::error::Error for Layer {
        fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
            self.1.as_deref().map(|e| e as _)
        }
    }

    #[test]
    fn a_cause_is_told_once() {
        let e = Layer("a: b", Some(Box::new(Layer("b", Some(Box::new(Layer("c", None)))))));
        assert_eq!(chain(&e), "a: b: c");
        assert_eq!(
            missing("SELECT", "`d`.`t`", "'u'@'%'"),
            "'u'@'%' lacks SELECT on `d`.`t`: GRANT SELECT ON `d`.`t` TO 'u'@'%'"
        );
    }
}

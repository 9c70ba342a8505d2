//! Runs statements.

use super::parse::{self, Item, Name, Parser, Select, Statement};
use super::proto::{ColumnDef, VERSION};
use super::select::{self, Selected, kind};
use super::{Fail, Outcome, Session, Token, fail, schemata, show};
use crate::doris::table::Table;
use crate::doris::{Shared, lock};

/// Session variables that may be set; a name outside is refused.
pub(super) const VARIABLES: &[(&str, &str)] = &[
    ("autocommit", "1"),
    ("auto_increment_increment", "1"),
    ("batch_size", "4064"),
    ("character_set_client", "utf8mb4"),
    ("character_set_connection", "utf8mb4"),
    ("character_set_results", "utf8mb4"),
    ("character_set_server", "utf8mb4"),
    ("collation_connection", "utf8mb4_0900_bin"),
    ("enable_insert_strict", "true"),
    ("exec_mem_limit", "2147483648"),
    ("insert_timeout", "14400"),
    ("interactive_timeout", "3600"),
    ("lower_case_table_names", "0"),
    ("max_allowed_packet", "16777216"),
    ("net_read_timeout", "60"),
    ("net_write_timeout", "60"),
    ("query_timeout", "900"),
    ("show_hidden_columns", "false"),
    ("sql_mode", "ONLY_FULL_GROUP_BY"),
    ("system_time_zone", "Etc/UTC"),
    ("time_zone", "Etc/UTC"),
    ("tx_isolation", "REPEATABLE-READ"),
    ("transaction_isolation", "REPEATABLE-READ"),
    ("version", VERSION),
    ("version_comment", ""),
    ("wait_timeout", "28800"),
];

/// Those of them nobody may set.
const READ_ONLY: &[&str] = &["lower_case_table_names", "system_time_zone", "version", "version_comment"];

pub(super) fn variable(shared: &Shared, session: &Session, name: &str) -> Option<String> {
    if name == "version_comment" {
        return Some(format!("Doris version {} (simulated)", shared.opts.version));
    }
    let known = VARIABLES.iter().find(|(n, _)| *n == name)?;
    Some(session.variables.get(name).cloned().unwrap_or_else(|| known.1.to_owned()))
}

pub(super) fn detail(text: impl Into<String>) -> Fail {
    fail(1105, "HY000", format!("errCode = 2, detailMessage = {}", text.into()))
}

fn unknown_db(db: &str) -> Fail {
    fail(1049, "42000", format!("errCode = 2, detailMessage = Unknown database '{db}'"))
}

fn unknown_table(db: &str, table: &str) -> Fail {
    let text = format!("errCode = 2, detailMessage = Table [{table}] does not exist in database [{db}].");
    fail(1051, "42S02", text)
}

/// The database a name is of.
pub(super) fn db_of(session: &Session, db: Option<&str>) -> Result<String, Fail> {
    db.map(str::to_owned)
        .or_else(|| session.db.clone())
        .ok_or_else(|| fail(1046, "3D000", "errCode = 2, detailMessage = No database selected"))
}

/// Checks that a database exists.
pub(super) fn known_db(shared: &Shared, session: &Session, db: Option<&str>) -> Result<String, Fail> {
    let db = db_of(session, db)?;
    if db.eq_ignore_ascii_case("information_schema") || lock(&shared.world).dbs.contains_key(&db) {
        Ok(db)
    } else {
        Err(unknown_db(&db))
    }
}

pub(super) fn use_db(shared: &Shared, session: &mut Session, db: &str) -> Result<(), Fail> {
    let bare = db.rsplit_once('.').map_or(db, |(_, d)| d);
    session.db = Some(known_db(shared, session, Some(bare))?);
    Ok(())
}

/// Runs `f` on a table.
pub(super) fn with_table<T>(
    shared: &Shared,
    session: &Session,
    name: &Name,
    f: impl FnOnce(&str, &mut Table) -> T,
) -> Result<T, Fail> {
    let db = db_of(session, name.db.as_deref())?;
    let mut world = shared.world();
    let entry = world.dbs.get_mut(&db).ok_or_else(|| unknown_db(&db))?;
    let table = entry.tables.get_mut(&name.table).ok_or_else(|| unknown_table(&db, &name.table))?;
    Ok(f(&db, table))
}

pub(super) fn field_list(shared: &Shared, session: &Session, table: &str) -> Result<Vec<ColumnDef>, Fail> {
    let name = Name { db: None, table: table.to_owned() };
    with_table(shared, session, &name, |_, t| {
        t.schema.visible().map(|c| ColumnDef { name: c.name.clone(), kind: kind(&c.ty) }).collect()
    })
}

pub(super) fn run(shared: &Shared, session: &mut Session, sql: &str) -> Result<Outcome, Fail> {
    let statement = parse::parse(sql).map_err(|e| fail(1105, "HY000", format!("errCode = 2, detailMessage = {e}")))?;
    execute(shared, session, statement)
}

pub(super) fn run_tokens(
    shared: &Shared,
    session: &mut Session,
    tokens: Vec<Token>,
    shown: &str,
) -> Result<Outcome, Fail> {
    let statement = parse::parse_tokens(Parser { tokens, at: 0 }, shown).map_err(detail)?;
    execute(shared, session, statement)
}

fn execute(shared: &Shared, session: &mut Session, statement: Statement) -> Result<Outcome, Fail> {
    match statement {
        Statement::CreateDatabase { name, if_not_exists } => {
            super::ddl::check_table_name(&name).map_err(|_| detail(format!("Incorrect database name '{name}'")))?;
            if !lock(&shared.world).create_db(&name) && !if_not_exists {
                let text = format!("errCode = 2, detailMessage = Can't create database '{name}'; database exists");
                return Err(fail(1007, "HY000", text));
            }
            Ok(Outcome::Ok(0))
        }
        Statement::DropDatabase { name, if_exists } => {
            if lock(&shared.world).dbs.remove(&name).is_none() && !if_exists {
                return Err(fail(1008, "HY000", format!("Can't drop database '{name}'; database doesn't exist")));
            }
            Ok(Outcome::Ok(0))
        }
        Statement::CreateTable { table, schema, if_not_exists } => {
            let db = known_db(shared, session, table.db.as_deref())?;
            let replicas = schema
                .property("replication_num")
                .or_else(|| schema.property("replication_allocation").and_then(|a| a.rsplit(':').next()))
                .map_or(Some(3), |n| n.trim().parse::<usize>().ok());
            let mut world = shared.world();
            let id = world.next_id();
            let entry = world.dbs.get_mut(&db).ok_or_else(|| unknown_db(&db))?;
            if entry.tables.contains_key(&table.table) {
                if if_not_exists {
                    return Ok(Outcome::Ok(0));
                }
                let text = format!("errCode = 2, detailMessage = Table '{}' already exists", table.table);
                return Err(fail(1050, "42S01", text));
            }
            let backends = shared.be_addrs.len();
            if replicas.is_none_or(|r| r > backends) {
                return Err(detail(format!(
                    "replication num should be less than the number of available backends. replication num is {}, \
                     available backend num is {backends}",
                    replicas.map_or_else(|| "invalid".to_owned(), |r| r.to_string())
                )));
            }
            entry.tables.insert(table.table, Table::new(id, *schema));
            Ok(Outcome::Ok(0))
        }
        Statement::DropTable { table, if_exists } => {
            let db = known_db(shared, session, table.db.as_deref())?;
            let mut world = shared.world();
            let entry = world.dbs.get_mut(&db).ok_or_else(|| unknown_db(&db))?;
            if entry.tables.remove(&table.table).is_none() && !if_exists {
                return Err(unknown_table(&db, &table.table));
            }
            Ok(Outcome::Ok(0))
        }
        Statement::Truncate(name) => {
            with_table(shared, session, &name, |_, t| t.truncate())?;
            Ok(Outcome::Ok(0))
        }
        Statement::Use(db) => use_db(shared, session, &db).map(|()| Outcome::Ok(0)),
        Statement::Set(pairs) => {
            for (name, value) in pairs {
                if !VARIABLES.iter().any(|(n, _)| *n == name) {
                    return Err(fail(
                        1193,
                        "HY000",
                        format!("errCode = 2, detailMessage = Unknown system variable '{name}'"),
                    ));
                }
                if READ_ONLY.contains(&name.as_str()) {
                    return Err(fail(1238, "HY000", format!("Variable '{name}' is a read only variable")));
                }
                if name == "show_hidden_columns" {
                    session.show_hidden = match value.to_ascii_lowercase().as_str() {
                        "true" | "1" | "on" => true,
                        "false" | "0" | "off" => false,
                        _ => return Err(detail(format!("{name} is no boolean: {value}"))),
                    };
                }
                session.variables.insert(name, value);
            }
            Ok(Outcome::Ok(0))
        }
        Statement::Select(select) => self::select(shared, session, &select),
        other => show::show(shared, session, other),
    }
}

fn select(shared: &Shared, session: &Session, s: &Select) -> Result<Outcome, Fail> {
    let Some(from) = &s.from else { return without_table(shared, session, s) };
    let db = known_db(shared, session, from.db.as_deref())?;
    let (snapshot, counting) = if db.eq_ignore_ascii_case("information_schema") {
        let made = schemata::table(shared, &from.table).ok_or_else(|| unknown_table(&db, &from.table))?;
        (made, false)
    } else {
        let found = shared.world().snapshot(&db, &from.table);
        (found.ok_or_else(|| unknown_table(&db, &from.table))?, shared.opts.counting)
    };
    Ok(match select::select(s, snapshot, session, counting)? {
        Selected::Row(columns, row) if s.limit == Some(0) => {
            drop(row);
            Outcome::Rows(columns, Vec::new())
        }
        Selected::Row(columns, row) => Outcome::Rows(columns, vec![row]),
        Selected::Scan(columns, scan) => Outcome::Scan(columns, scan),
    })
}

fn without_table(shared: &Shared, session: &Session, s: &Select) -> Result<Outcome, Fail> {
    if !s.filter.is_empty() || !s.order.is_empty() {
        return Err(detail("a WHERE or ORDER BY without FROM"));
    }
    let mut columns = Vec::new();
    let mut row = Vec::new();
    for (item, name) in &s.items {
        let value = match item {
            Item::Literal(v) => v.clone(),
            Item::Version => Some(VERSION.to_owned()),
            Item::Database => session.db.clone(),
            Item::User => Some(format!("'{}'@'%'", shared.opts.user)),
            Item::Variable(v) => Some(variable(shared, session, v).ok_or_else(|| {
                fail(1193, "HY000", format!("errCode = 2, detailMessage = Unknown system variable '{v}'"))
            })?),
            _ => return Err(fail(1054, "42S22", format!("Unknown column '{name}' in 'field list'"))),
        };
        columns.push(ColumnDef { name: name.clone(), kind: 253 });
        row.push(value.map(String::into_bytes));
    }
    Ok(Outcome::Rows(columns, vec![row]))
}

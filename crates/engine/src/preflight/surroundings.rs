//! What others do at the source that will surprise a pipeline: who may log statements, tools that change schemas, and
//! whether changes come from another server that this one does not log.

use millstream_wire::statements::{Ask, statement};
use millstream_wire::{Connection, Error, Flavor};

use super::Findings;
use super::facts::Facts;
use crate::schema::catalog::Catalog;

/// Accounts named in one message.
const NAMED: usize = 5;

/// Changes that this server gets as a replica must be in its log.
pub(super) async fn upstream(connection: &mut Connection, facts: &Facts, found: &mut Findings) -> Result<(), Error> {
    if !facts.hides_upstream() {
        return Ok(());
    }
    let sources = match connection.query_all(statement(Ask::ReplicaStatus, connection.version())).await {
        Ok(sources) => Some(sources.len()),
        Err(e) if e.is_access_denied() => None,
        Err(e) => return Err(e),
    };
    match sources {
        Some(1..) => found.problems.push(
            "the source is a replica, and log_replica_updates = OFF (log_slave_updates on older servers): nothing that it gets \
             from its own source is in its log. Set it to ON and restart the server, or replicate from that source"
                .to_owned(),
        ),
        _ => found.warnings.push(
            "log_replica_updates = OFF on the source: if it becomes a replica, or is one already, changes from its own source \
             are missing from its log"
                .to_owned(),
        ),
    }
    Ok(())
}

/// Settings of sessions that run now, where the server shows them: SELECT on performance_schema.
const SESSIONS: &str = "SELECT VARIABLE_NAME AS name, VARIABLE_VALUE AS value, COUNT(*) AS n \
                        FROM performance_schema.variables_by_thread WHERE VARIABLE_NAME = 'binlog_format' \
                        AND VARIABLE_VALUE <> 'ROW' GROUP BY 1, 2 ORDER BY 1, 2";

/// Accounts that may change a session's format of the log. The server shows those of others to whom may read `mysql`.
const PRIVILEGED: &str = "SELECT DISTINCT GRANTEE AS account FROM information_schema.USER_PRIVILEGES WHERE PRIVILEGE_TYPE IN \
                          ('SUPER', 'BINLOG ADMIN', 'SYSTEM_VARIABLES_ADMIN', 'SESSION_VARIABLES_ADMIN') ORDER BY 1";

/// Sessions that log statements now, and accounts that may begin to.
pub(super) async fn statements(connection: &mut Connection) -> Result<Vec<String>, Error> {
    let mut told = Vec::new();
    if connection.version().is_at_least(Flavor::MySql, (5, 7, 0)) {
        match connection.query_all(SESSIONS).await {
            Ok(rows) => {
                for row in 0..rows.len() {
                    let text = |column| rows.text(row, column).unwrap_or_default();
                    told.push(format!(
                        "{} session(s) of the source have {} = {}: a change of a captured database that they log as a \
                         statement stops the run by name. Reconnect these clients",
                        text("n"),
                        text("name"),
                        text("value")
                    ));
                }
            }
            Err(e) if e.is_access_denied() => {}
            Err(e) => return Err(e),
        }
    }
    let rows = connection.query_all(PRIVILEGED).await?;
    let accounts: Vec<&str> =
        (0..rows.len()).filter_map(|row| rows.text(row, "account")).filter(|a| !is_the_servers_own(a)).collect();
    if !accounts.is_empty() {
        let others = match accounts.len().saturating_sub(NAMED) {
            0 => String::new(),
            n => format!(" and {n} more"),
        };
        told.push(format!(
            "these accounts may set binlog_format for their sessions, and a change of a captured database that is logged as a \
             statement stops the run by name: {}{others}. Do not let applications have SUPER, BINLOG ADMIN or \
             SESSION_VARIABLES_ADMIN",
            accounts.iter().take(NAMED).copied().collect::<Vec<_>>().join(", ")
        ));
    }
    Ok(told)
}

/// Accounts that every server has.
fn is_the_servers_own(account: &str) -> bool {
    ["'root'@", "'mysql.", "'mariadb.sys'@"].iter().any(|own| account.starts_with(own))
}

const TRIGGERS: &str = "SELECT EVENT_OBJECT_SCHEMA AS db, EVENT_OBJECT_TABLE AS tbl, TRIGGER_NAME AS name \
                        FROM information_schema.TRIGGERS WHERE TRIGGER_NAME LIKE 'pt\\_osc\\_%' ORDER BY 1, 2, 3";
const COPIES: &str = "SELECT TABLE_SCHEMA AS db, TABLE_NAME AS tbl FROM information_schema.TABLES \
                      WHERE TABLE_NAME LIKE '\\_%\\_gho' OR TABLE_NAME LIKE '\\_%\\_ghc' OR TABLE_NAME LIKE '\\_%\\_new' ORDER BY 1, 2";

/// Online schema changes of captured tables by tools: they end with a RENAME.
pub(super) async fn schema_changes(connection: &mut Connection, catalog: &Catalog) -> Result<Vec<String>, Error> {
    let mut marks = Vec::new();
    for (statement, column) in [(TRIGGERS, "name"), (COPIES, "tbl")] {
        let rows = connection.query_all(statement).await?;
        marks.extend((0..rows.len()).map(|row| {
            let text = |column| rows.text(row, column).unwrap_or_default().to_owned();
            Mark { database: text("db"), table: text("tbl"), name: text(column) }
        }));
    }
    let same = |a: &str, b: &str| catalog.case.same(a, b);
    let captured = |database: &str, table: &str| {
        catalog.tables.iter().any(|t| same(&t.schema.database, database) && same(&t.schema.table, table))
    };
    Ok(changes(&marks, captured))
}

/// A trigger, or a table, that looks like a tool's.
#[derive(Clone, Debug)]
struct Mark {
    database: String,
    /// The trigger's table, or the table itself.
    table: String,
    name: String,
}

/// The table that a tool's table stands beside, and the tool.
fn original(table: &str) -> Option<(&str, &'static str)> {
    let inner = table.strip_prefix('_')?;
    let ghost = inner.strip_suffix("_gho").or_else(|| inner.strip_suffix("_ghc")).map(|of| (of, "gh-ost"));
    ghost.or_else(|| inner.strip_suffix("_new").map(|of| (of, "pt-online-schema-change")))
}

fn changes(marks: &[Mark], captured: impl Fn(&str, &str) -> bool) -> Vec<String> {
    let mut told: Vec<(String, String)> = Vec::new();
    for mark in marks {
        let Mark { database, table, name } = mark;
        let (of, tool) = match original(table) {
            Some(found) if name == table => found,
            _ => (table.as_str(), "pt-online-schema-change"),
        };
        if !captured(database, of) || told.iter().any(|(t, _)| *t == format!("{database}.{of}")) {
            continue;
        }
        let exclude = if captured(database, table) && name == table {
            format!(", and exclude its tables with \"!{database}.{table}\"")
        } else {
            String::new()
        };
        told.push((
            format!("{database}.{of}"),
            format!(
                "{tool} seems to be changing {database}.{of} ({name}), or left that behind: it ends with a RENAME, which stops \
                 the run by name. Begin when it is done and the rest is dropped{exclude}"
            ),
        ));
    }
    told.into_iter().map(|(_, text)| text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_of_tools_count_where_their_table_is_captured() {
        let mark = |table: &str, name: &str| Mark { database: "shop".into(), table: table.into(), name: name.into() };
        let marks = [
            mark("orders", "pt_osc_shop_orders_ins"),
            mark("orders", "pt_osc_shop_orders_del"),
            mark("_items_gho", "_items_gho"),
            mark("_items_ghc", "_items_ghc"),
            mark("_notes_new", "_notes_new"),
            mark("_brand_new", "_brand_new"),
            mark("other", "pt_osc_shop_other_ins"),
        ];
        let captured = |_: &str, table: &str| ["orders", "items", "_items_gho", "notes", "_brand_new"].contains(&table);
        let told = changes(&marks, captured);
        assert_eq!(told.len(), 3, "{told:?}");
        assert!(
            told[0].starts_with("pt-online-schema-change seems to be changing shop.orders (pt_osc_shop_orders_ins)")
        );
        assert!(told[1].starts_with("gh-ost seems to be changing shop.items (_items_gho)"), "{told:?}");
        assert!(told[1].ends_with("exclude its tables with \"!shop._items_gho\""), "{told:?}");
        assert!(told[2].contains("shop.notes (_notes_new)"), "{told:?}");
    }

    #[test]
    fn accounts_of_the_server_itself_are_not_told_of() {
        for (account, own) in [
            ("'root'@'localhost'", true),
            ("'mysql.session'@'localhost'", true),
            ("'app'@'%'", false),
            ("'rooty'@'%'", false),
        ] {
            assert_eq!(is_the_servers_own(account), own, "{account}");
        }
    }
}

//! Compares everything with everything: the source, the upsert and the append targets, and what the server's own
//! `mysqlbinlog` lists.

use std::collections::{BTreeMap, HashMap};

use super::cells::{self, Columns};
use super::compare::{Comparison, Side};
use super::faults::Faults;
use super::history::{Entry, Finished, History, check_transaction};
use super::show::Show;
use super::{DATABASE, Stopped, TARGET};
use crate::doris::{DorisSim, Row, Visible};
use crate::oracle::{ListedKind, Listing};
use crate::server::Server;
use crate::source::SourceTable;
use crate::workload::Workload;

/// Columns that an append target has before those of the source.
const META: [&str; 7] = ["_ms_seq", "_ms_op", "_ms_gtid", "_ms_file", "_ms_pos", "_ms_row", "_ms_ts"];

/// The result for one table.
#[derive(Clone, Debug)]
pub struct TableResult {
    /// The table.
    pub table: &'static str,
    /// Rows of the source.
    pub rows: u64,
    /// Rows of the append target.
    pub log_rows: u64,
    /// Of these, rows that came with the snapshot, by the start of the engine (its era).
    pub reads: BTreeMap<u32, u64>,
    /// Changes that `mysqlbinlog` lists after the table was live; a change of key is one.
    pub listed_live: u64,
    /// Where the upsert target differs from the source.
    pub upsert: Faults,
    /// What is wrong with the append target.
    pub append: Faults,
}

/// Compares all tables. `first` is the binlog file from which on changes count; `live` names for each table the number
/// of the last transaction that had surely happened when it was live.
pub(super) fn verify(
    server: &Server,
    sim: &DorisSim,
    first: &str,
    live: &BTreeMap<&'static str, u64>,
    show: &Show,
) -> Result<Vec<TableResult>, Stopped> {
    let endpoint = server.endpoint();
    let mut sources = Vec::new();
    for table in Workload::TABLES {
        sources.push(SourceTable::describe(&endpoint, DATABASE, table)?);
    }
    let mut logs = Vec::new();
    for table in Workload::TABLES {
        let name = log_name(table);
        logs.push(sim.visible(TARGET, &name).ok_or_else(|| Stopped::failed(format!("there is no {TARGET}.{name}")))?);
    }
    let mut results = Vec::new();
    let mut transactions = Vec::new();
    for ((table, source), log) in Workload::TABLES.into_iter().zip(&sources).zip(&logs) {
        show.now(|| format!("comparing {table} row by row"));
        let columns = Columns::of(source);
        let mut done = history(&columns, log)?;
        let mut result = TableResult {
            table,
            rows: 0,
            log_rows: sim.row_count(TARGET, &log_name(table)),
            reads: std::mem::take(&mut done.reads),
            listed_live: 0,
            upsert: Faults::default(),
            append: std::mem::take(&mut done.faults),
        };
        rows(server, sim, source, log, &mut done, &mut result, show)?;
        results.push(result);
        transactions.push(done.transactions);
    }
    show.now(|| "comparing with what mysqlbinlog lists".to_owned());
    let mut expected: [Vec<u8>; Workload::TABLES.len()] = Default::default();
    let mut gtid = String::new();
    let mut close = |gtid: &str, expected: &mut [Vec<u8>], results: &mut [TableResult]| {
        for ((listed, of_table), result) in expected.iter_mut().zip(&mut transactions).zip(results) {
            let delivered = of_table.remove(gtid.as_bytes()).unwrap_or_default();
            let is_live = live.get(result.table).is_some_and(|last| transaction_number(gtid) > *last);
            if is_live {
                // d and c of one change of key are one change.
                let halves = listed.iter().filter(|op| **op == MOVED).count();
                result.listed_live += (listed.len() - halves) as u64;
            }
            for op in listed.iter_mut().filter(|op| **op == MOVED) {
                *op = b'c';
            }
            if let Some(what) = check_transaction(listed, &delivered, is_live) {
                result.append.add(|| format!("{gtid}: {what}"));
            }
            listed.clear();
        }
    };
    for change in Listing::of(server, first, keys(&sources))? {
        let change = change?;
        if change.gtid != gtid {
            close(&gtid, &mut expected, &mut results);
            gtid = change.gtid;
        }
        let Some(index) = Workload::TABLES.iter().position(|table| *table == change.table) else { continue };
        if change.database == DATABASE {
            expected[index].extend_from_slice(operations(change.kind));
        }
    }
    close(&gtid, &mut expected, &mut results);
    for (of_table, result) in transactions.iter().zip(&mut results) {
        for gtid in of_table.keys() {
            result.append.add(|| format!("{}: the binlog does not list it", String::from_utf8_lossy(gtid)));
        }
    }
    Ok(results)
}

/// The c of a change of key, until it is compared.
const MOVED: u8 = b'C';

fn operations(kind: ListedKind) -> &'static [u8] {
    match kind {
        ListedKind::Insert => b"c",
        ListedKind::Update => b"u",
        ListedKind::Delete => b"d",
        ListedKind::KeyChange => &[b'd', MOVED],
    }
}

fn keys(sources: &[SourceTable]) -> HashMap<String, Vec<usize>> {
    sources.iter().map(|source| (format!("{}.{}", source.database, source.name), source.key.clone())).collect()
}

/// The append target of a table.
pub(super) fn log_name(table: &str) -> String {
    format!("{table}_log")
}

/// The last number of `uuid:1-5:7`, 0 if there is none: one server makes all transactions here.
pub(super) fn transaction_number(gtids: &str) -> u64 {
    let Some((_, intervals)) = gtids.split_once(':') else { return 0 };
    intervals.split([':', '-', ',']).filter_map(|number| number.trim().parse().ok()).max().unwrap_or(0)
}

/// Takes the rows of an append target in, by their number.
fn history<'l>(columns: &Columns<'_>, log: &'l Visible) -> Result<Finished<'l, Row<'l>>, Stopped> {
    let schema = log.schema();
    let names: Vec<&str> = schema.visible().map(|column| column.name.as_str()).collect();
    if !names.starts_with(&META) {
        return Err(Stopped::failed(format!("{} does not begin with the columns {}", schema.name, META.join(", "))));
    }
    let order = columns
        .order(names[META.len()..].iter().copied())
        .map_err(|name| Stopped::failed(format!("{} has no column {name}", schema.name)))?;
    let mut rows: Vec<(i64, Row<'l>)> =
        log.rows().map(|row| (number(row.values().next().flatten()).unwrap_or(i64::MIN), row)).collect();
    rows.sort_by_key(|(seq, _)| *seq);
    let mut history = History::default();
    let (mut scratch, mut cells, mut key) = (Vec::new(), Vec::new(), Vec::new());
    for (seq, row) in rows {
        let image = row.skip(META.len());
        columns.target(&order, image.values(), &mut scratch, &mut cells);
        columns.key(&cells, &mut key);
        let mut meta = row.values().skip(1);
        let mut text = || meta.next().flatten().unwrap_or_default();
        let (op, gtid, file, pos, number_in) = (text(), text(), text(), text(), text());
        history.push(&Entry {
            seq,
            op: if let [op] = op { *op } else { b'?' },
            gtid,
            file,
            pos: number(Some(pos)).unwrap_or(0),
            row: number(Some(number_in)).unwrap_or(u32::MAX),
            key: &key,
            image,
        });
    }
    Ok(history.finish())
}

fn number<T: std::str::FromStr>(text: Option<&[u8]>) -> Option<T> {
    str::from_utf8(text?).ok()?.parse().ok()
}

/// Reads the source once, and compares each row with the upsert target and with the replay of the append target.
fn rows(
    server: &Server,
    sim: &DorisSim,
    source: &SourceTable,
    log: &Visible,
    replay: &mut Finished<'_, Row<'_>>,
    result: &mut TableResult,
    show: &Show,
) -> Result<(), Stopped> {
    let columns = Columns::of(source);
    let missing = |name: String| Stopped::failed(format!("a target of {} has no column {name}", source.name));
    let table = sim.visible(TARGET, &source.name);
    let table = table.ok_or_else(|| Stopped::failed(format!("there is no {TARGET}.{}", source.name)))?;
    let of_table = columns.order(table.schema().visible().map(|c| c.name.as_str())).map_err(missing)?;
    let of_log = columns.order(log.schema().visible().skip(META.len()).map(|c| c.name.as_str())).map_err(missing)?;

    let mut comparison = Comparison::default();
    let mut target = table.rows();
    let (mut scratch, mut cells, mut key, mut other) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut feed = |comparison: &mut Comparison| {
        let Some(row) = target.next() else { return false };
        columns.target(&of_table, row.values(), &mut scratch, &mut cells);
        columns.key(&cells, &mut key);
        comparison.row(&columns, Side::Target, &key, &cells);
        true
    };
    let (mut cells, mut key, mut scratch) = (Vec::new(), Vec::new(), Vec::new());
    for row in source.rows(&server.endpoint())? {
        columns.source(&row?, &mut cells);
        columns.key(&cells, &mut key);
        comparison.row(&columns, Side::Source, &key, &cells);
        feed(&mut comparison);
        match replay.rows.remove(&*key) {
            Some(image) => {
                columns.target(&of_log, image.values(), &mut scratch, &mut other);
                if cells != other {
                    let what =
                        || format!("key {}: {} in the replay", cells::show(&key), columns.difference(&cells, &other));
                    result.append.add(what);
                }
            }
            None => result.append.add(|| format!("key {} is missing in the replay", cells::show(&key))),
        }
        result.rows += 1;
        if result.rows.is_multiple_of(10_000) {
            show.now(|| format!("comparing {}: {} rows", source.name, super::show::grouped(result.rows)));
        }
    }
    while feed(&mut comparison) {}
    for key in replay.rows.keys() {
        result.append.add(|| format!("key {} is in the replay and not in the source", cells::show(key)));
    }
    result.upsert = comparison.finish();
    let conflicts = sim.sequence_conflicts(TARGET, &source.name);
    if conflicts > 0 {
        result.upsert.add(|| format!("{conflicts} rows came with the sequence number of another row of their key"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_number_of_a_set() {
        for (set, want) in [
            ("", 0),
            ("3e11fa47-71ca-11e1-9e33-c80aa9429562:23", 23),
            ("3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5", 5),
            ("3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5:7-9:11", 11),
        ] {
            assert_eq!(transaction_number(set), want, "{set}");
        }
    }
}

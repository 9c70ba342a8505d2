//! What was read, and what of it was shown.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::time::Duration;

use millstream_binlog::EventType;
use millstream_binlog::event::RowsKind;
use rustc_hash::FxHashMap;

use super::text::Escaped;
use super::{Format, Place, json};

/// What was read and shown.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Summary {
    /// Everything that was read, shown or not. Its bytes are those of files and streams.
    pub read: Amount,
    /// Transactions of which something was shown.
    pub transactions: u64,
    /// Events that were shown, those inside compressed transactions included. Their bytes are those in the log: what is
    /// inside a compressed transaction counts as part of it.
    pub shown: Amount,
    /// Bytes of the shown events that lay inside compressed transactions.
    pub opened_bytes: u64,
    /// CRC32 sums that were checked; each takes 4 bytes of the log.
    pub checksums: u64,
    /// Row changes.
    pub rows: u64,
    /// Column values; an update has two images.
    pub values: u64,
    /// Shown events per type. Bytes are those of the event, opened.
    pub types: BTreeMap<EventType, Amount>,
    /// Shown row changes per table, in the order in which the tables appeared.
    pub tables: Vec<TableCount>,
    /// Shown events and values that were passed over undecoded, per rule.
    pub skipped: BTreeMap<&'static str, u64>,
    /// What looked wrong without being an error, such as a file of the log that is missing.
    pub notes: Vec<String>,
    /// Time it took.
    pub elapsed: Duration,
    numbers: FxHashMap<(String, String), usize>,
}

/// How many, and how large.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Amount {
    /// Events.
    pub events: u64,
    /// Bytes.
    pub bytes: u64,
}

/// The shown changes of one table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TableCount {
    /// Database.
    pub database: String,
    /// Table.
    pub table: String,
    /// Inserted rows.
    pub inserts: u64,
    /// Updated rows.
    pub updates: u64,
    /// Deleted rows.
    pub deletes: u64,
    /// Bytes of its row events, opened.
    pub bytes: u64,
}

impl Amount {
    pub(super) fn add(&mut self, bytes: u64) {
        self.events = self.events.saturating_add(1);
        self.bytes = self.bytes.saturating_add(bytes);
    }
}

pub(super) fn add(counter: &mut u64, n: u64) {
    *counter = counter.saturating_add(n);
}

impl Summary {
    pub(super) fn show(&mut self, ty: EventType, bytes: u64, inner: bool) {
        if inner {
            add(&mut self.shown.events, 1);
            add(&mut self.opened_bytes, bytes);
        } else {
            self.shown.add(bytes);
        }
        self.types.entry(ty).or_default().add(bytes);
    }

    pub(super) fn skip(&mut self, rule: &'static str) {
        add(self.skipped.entry(rule).or_default(), 1);
    }

    /// The index of a table in [`Summary::tables`].
    pub(super) fn table(&mut self, database: &str, table: &str) -> usize {
        let next = self.tables.len();
        let number = *self.numbers.entry((database.to_owned(), table.to_owned())).or_insert(next);
        if number == next {
            let (database, table) = (database.to_owned(), table.to_owned());
            self.tables.push(TableCount { database, table, ..TableCount::default() });
        }
        number
    }

    pub(super) fn rows(&mut self, table: usize, kind: RowsKind, rows: u64, values: u64, place: Place<'_>) {
        add(&mut self.rows, rows);
        add(&mut self.values, values);
        let Some(count) = self.tables.get_mut(table) else { return };
        add(&mut count.bytes, place.bytes);
        add(
            match kind {
                RowsKind::Write => &mut count.inserts,
                RowsKind::Update => &mut count.updates,
                RowsKind::Delete => &mut count.deletes,
            },
            rows,
        );
    }

    #[allow(clippy::cast_precision_loss, reason = "for people")]
    fn rates(&self) -> (f64, f64) {
        let seconds = self.elapsed.as_secs_f64().max(1e-9);
        (self.read.bytes as f64 / seconds, self.rows as f64 / seconds)
    }

    /// Tables that had rows, the largest first.
    fn busy(&self) -> Vec<&TableCount> {
        let mut busy: Vec<&TableCount> = self.tables.iter().filter(|t| t.bytes > 0).collect();
        busy.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| (&a.database, &a.table).cmp(&(&b.database, &b.table))));
        busy
    }

    pub(super) fn write_to(&self, format: Format, out: &mut impl Write) -> io::Result<()> {
        match format {
            Format::Json => self.json(out),
            Format::Text | Format::None => self.text(out),
        }
    }

    fn text(&self, out: &mut impl Write) -> io::Result<()> {
        let (bytes, rows) = self.rates();
        let crc = self.checksums.saturating_mul(4);
        writeln!(
            out,
            "# read: {} events, {} bytes in {:.3} s: {:.1} MB/s; {} checksums verified, {} of the bytes",
            self.read.events,
            self.read.bytes,
            self.elapsed.as_secs_f64(),
            bytes / 1e6,
            self.checksums,
            Percent(crc, self.read.bytes),
        )?;
        writeln!(
            out,
            "# shown: {} transactions, {} events, {} bytes{}",
            self.transactions,
            self.shown.events,
            self.shown.bytes,
            if self.opened_bytes > 0 { format!(" ({} opened)", self.opened_bytes) } else { String::new() },
        )?;
        writeln!(out, "# {} rows, {} values: {rows:.0} rows/s", self.rows, self.values)?;
        for t in self.busy() {
            let (database, table) = (Escaped(t.database.as_bytes()), Escaped(t.table.as_bytes()));
            writeln!(
                out,
                "# table {database}.{table}: {} inserts, {} updates, {} deletes, {} bytes",
                t.inserts, t.updates, t.deletes, t.bytes,
            )?;
        }
        let all = self.shown.bytes.saturating_add(self.opened_bytes);
        for (ty, amount) in &self.types {
            writeln!(
                out,
                "# type {ty}: {} events, {} bytes, {}",
                amount.events,
                amount.bytes,
                Percent(amount.bytes, all)
            )?;
        }
        for (rule, count) in &self.skipped {
            writeln!(out, "# skipped {rule}: {count}")?;
        }
        Ok(())
    }

    /// One object.
    fn json(&self, out: &mut impl Write) -> io::Result<()> {
        let (bytes, rows) = self.rates();
        let mut line = json::Object::new();
        line.raw("stats", true);
        line.raw("read_events", self.read.events);
        line.raw("read_bytes", self.read.bytes);
        line.raw("seconds", format_args!("{:.3}", self.elapsed.as_secs_f64()));
        line.raw("bytes_per_s", format_args!("{bytes:.0}"));
        line.raw("checksums", self.checksums);
        line.raw("transactions", self.transactions);
        line.raw("events", self.shown.events);
        line.raw("bytes", self.shown.bytes);
        line.raw("opened_bytes", self.opened_bytes);
        line.raw("rows", self.rows);
        line.raw("values", self.values);
        line.raw("rows_per_s", format_args!("{rows:.0}"));
        line.list(
            "tables",
            self.busy().into_iter().map(|t| {
                let mut table = json::Object::new();
                table.text("db", t.database.as_bytes());
                table.text("table", t.table.as_bytes());
                table.raw("inserts", t.inserts);
                table.raw("updates", t.updates);
                table.raw("deletes", t.deletes);
                table.raw("bytes", t.bytes);
                table
            }),
        );
        line.list(
            "types",
            self.types.iter().map(|(ty, amount)| {
                let mut entry = json::Object::new();
                entry.text("event", ty.name().as_bytes());
                entry.raw("type", ty.0);
                entry.raw("events", amount.events);
                entry.raw("bytes", amount.bytes);
                entry
            }),
        );
        let mut skipped = json::Object::new();
        for (rule, count) in &self.skipped {
            skipped.raw(rule, count);
        }
        line.object("skipped", skipped);
        out.write_all(&line.into_line())
    }
}

struct Percent(u64, u64);

impl std::fmt::Display for Percent {
    #[allow(clippy::cast_precision_loss, reason = "for people")]
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:.1} %", self.0 as f64 * 100.0 / (self.1.max(1)) as f64)
    }
}

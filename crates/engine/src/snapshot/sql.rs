//! The statements of a snapshot, as text. Every one is a scan of a key range in key order, which a test checks
//! with EXPLAIN on a real server: row constructors are not, so comparisons of composite keys are expanded, and a range of
//! ENUM or SET is not, so it is sent as the list of its numbers.

use core::fmt::Write as _;

use millstream_binlog::{ColumnType, TableSchema};

use crate::key::{KeyCodec, KeyError, KeyValue};
use crate::merge::Key;
use crate::snapshot::points::{before, between, probes};

/// Builds the statements of one table. Bounds are encoded keys of the same codec.
#[derive(Clone, Debug)]
pub struct TableSql {
    table: String,
    index: String,
    /// What is selected: every column in ordinal order, then weights.
    columns: Vec<String>,
    key: Vec<String>,
    ascending: String,
    descending: String,
    /// The key columns as they are selected.
    selected_key: String,
    codec: KeyCodec,
    /// Rows that do not fulfil it are left out.
    filter: Option<String>,
}

/// A statement that looks for a real key near a point between two keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dive {
    /// Selects the key columns of at most one row: the smallest key at or above the point, within the bounds.
    pub sql: String,
}

impl TableSql {
    /// The statements of `table`, whose key is `codec`'s: its primary key, or the unique index of that name.
    #[must_use]
    pub fn new(table: &TableSchema, codec: &KeyCodec, index: Option<&str>) -> Self {
        let key: Vec<String> = codec.names().map(quoted).collect();
        let descending: Vec<String> = key.iter().map(|k| format!("{k} DESC")).collect();
        let of_key = codec.ordinals().filter_map(|i| table.columns.get(i));
        let weighed = codec.weighed().filter_map(|w| table.columns.get(w.ordinal));
        let weights: Vec<String> = weighed.map(|c| format!("WEIGHT_STRING({})", quoted(&c.name))).collect();
        let with_weights = |mut list: Vec<String>| {
            list.extend(weights.iter().cloned());
            list
        };
        let selected_key = with_weights(of_key.map(|c| selected(&c.name, &c.ty)).collect());
        let columns = with_weights(table.columns.iter().map(|c| selected(&c.name, &c.ty)).collect());
        Self {
            table: format!("{}.{}", quoted(&table.database), quoted(&table.table)),
            index: quoted(index.unwrap_or("PRIMARY")),
            columns,
            ascending: key.join(", "),
            descending: descending.join(", "),
            key,
            selected_key: selected_key.join(", "),
            codec: codec.clone(),
            filter: None,
        }
    }

    /// The same for the rows alone that fulfil `filter`, a condition in SQL.
    #[must_use]
    pub fn filtered(self, filter: Option<&str>) -> Self {
        Self { filter: filter.map(str::to_owned), ..self }
    }

    /// The same without the values of the columns with these ordinals: they are NULL in every row.
    #[must_use]
    pub fn without(mut self, ordinals: &[usize]) -> Self {
        for ordinal in ordinals {
            if let Some(column) = self.columns.get_mut(*ordinal) {
                "NULL".clone_into(column);
            }
        }
        self
    }

    /// The rows of (low, high], in key order, at most `limit`: all columns in ordinal order, ENUM and SET as their
    /// numbers, then the weights of the key's text. A missing bound is no bound.
    ///
    /// # Errors
    /// A bound that is not a key of this table.
    pub fn chunk(&self, low: Option<&Key>, high: Option<&Key>, limit: u64) -> Result<String, KeyError> {
        let Self { table, index, ascending, .. } = self;
        let columns = self.columns.join(", ");
        let range = self.range(low, high)?;
        let range = match (&self.filter, range.strip_prefix(" WHERE ")) {
            (None, _) => range,
            (Some(filter), None) => format!(" WHERE {}", condition(filter)),
            (Some(filter), Some(range)) => format!(" WHERE ({range}) AND {}", condition(filter)),
        };
        Ok(format!("SELECT {columns} FROM {table} FORCE INDEX ({index}){range} ORDER BY {ascending} LIMIT {limit}"))
    }

    /// The key columns of the first row, then the weights of its text.
    #[must_use]
    pub fn first(&self) -> String {
        let Self { table, index, selected_key, ascending, .. } = self;
        format!("SELECT {selected_key} FROM {table} FORCE INDEX ({index}) ORDER BY {ascending} LIMIT 1")
    }

    /// The key columns of the last row, then the weights of its text.
    #[must_use]
    pub fn last(&self) -> String {
        let Self { table, index, selected_key, descending, .. } = self;
        format!("SELECT {selected_key} FROM {table} FORCE INDEX ({index}) ORDER BY {descending} LIMIT 1")
    }

    /// Looks for keys that cut (low, high] into about `parts` equal stretches of values. Interpolates in the first key column in
    /// which the two differ; for text, whose order only the server knows, it tries the letters and digits that may follow
    /// what the two have in common, and there may be more dives than parts. The answers are real keys; equal answers and
    /// answers at `high` or above cut nothing.
    ///
    /// # Errors
    /// A bound that is not a key of this table.
    pub fn dives(&self, low: &Key, high: &Key, parts: usize) -> Result<Vec<Dive>, KeyError> {
        let Self { table, index, selected_key, ascending, key, .. } = self;
        let (low_values, high_values) = (self.codec.decode(low)?, self.codec.decode(high)?);
        let literals = self.codec.literals(low)?;
        let Some(at) = low_values.iter().zip(&high_values).position(|(a, b)| a != b) else { return Ok(Vec::new()) };
        let (Some(from), Some(to), Some(column)) = (low_values.get(at), high_values.get(at), key.get(at)) else {
            return Ok(Vec::new());
        };
        let mut prefix = String::new();
        for (k, literal) in key.iter().zip(&literals).take(at) {
            // Writing to a String cannot fail.
            write!(prefix, "{k} = {literal} AND ").unwrap_or_default();
        }
        let greatest = self.codec.greatest_listed().nth(at).flatten();
        let text = matches!(from, KeyValue::Text { .. });
        let points: Vec<KeyValue> =
            if text { probes(from, to) } else { (1..parts).filter_map(|i| between(from, to, i, parts)).collect() };
        Ok(points
            .into_iter()
            .filter_map(|point| {
                let from = match greatest {
                    // An ENUM or SET from a number on: everything above the one before.
                    Some(_) => comparison(column, &before(&point)?, Side::Above, true, greatest)?,
                    None => format!("{column} >= {}", crate::key::literal(&point)),
                };
                Some(Dive {
                    sql: format!(
                        "SELECT {selected_key} FROM {table} FORCE INDEX ({index}) WHERE {prefix}{from} ORDER BY {ascending} \
                         LIMIT 1"
                    ),
                })
            })
            .collect())
    }

    fn range(&self, low: Option<&Key>, high: Option<&Key>) -> Result<String, KeyError> {
        let above = low.map(|key| self.codec.decode(key)).transpose()?.map(|low| self.compared(&low, Side::Above));
        let below = high.map(|key| self.codec.decode(key)).transpose()?.map(|high| self.compared(&high, Side::UpTo));
        Ok(match (above, below) {
            (None, None) => String::new(),
            (Some(one), None) | (None, Some(one)) => format!(" WHERE {one}"),
            (Some(above), Some(below)) => format!(" WHERE ({above}) AND ({below})"),
        })
    }

    /// `(a, b) > (1, 2)` as `a > 1 OR (a = 1 AND b > 2)`, and `(a, b) <= (1, 2)` likewise.
    fn compared(&self, bound: &[KeyValue], side: Side) -> String {
        let mut terms: Vec<String> = Vec::new();
        let mut equal = String::new();
        let listed = self.codec.greatest_listed();
        for (i, ((column, value), greatest)) in self.key.iter().zip(bound).zip(listed).enumerate() {
            let last = i.saturating_add(1) == self.key.len();
            if let Some(term) = comparison(column, value, side, last, greatest) {
                terms.push(if i == 0 { term } else { format!("({equal}{term})") });
            }
            // Writing to a String cannot fail.
            write!(equal, "{column} = {} AND ", crate::key::literal(value)).unwrap_or_default();
        }
        if terms.is_empty() { "FALSE".to_owned() } else { terms.join(" OR ") }
    }
}

/// A condition that someone wrote, as one term. A comment at its end must not take the bracket with it.
pub(crate) fn condition(text: &str) -> String {
    format!("({text}\n)")
}

/// On which side of a bound keys are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Above,
    UpTo,
}

/// One column beyond its part of a bound, or at it when it is the last part of an upper bound. `None` when no value can be.
fn comparison(column: &str, value: &KeyValue, side: Side, last: bool, greatest: Option<u64>) -> Option<String> {
    let at = match value {
        KeyValue::Enum(v) => Some(u64::from(*v)),
        KeyValue::Set(v) => Some(*v),
        _ => None,
    };
    let (Some(at), Some(greatest)) = (at, greatest) else {
        let op = match (side, last) {
            (Side::Above, _) => ">",
            (Side::UpTo, false) => "<",
            (Side::UpTo, true) => "<=",
        };
        return Some(format!("{column} {op} {}", crate::key::literal(value)));
    };
    let (first, end) = match (side, last) {
        (Side::Above, _) => (at.checked_add(1)?, greatest),
        (Side::UpTo, false) => (0, at.checked_sub(1)?),
        (Side::UpTo, true) => (0, at),
    };
    let mut numbers = (first..=end).map(|n| n.to_string());
    let mut list = numbers.next()?;
    for n in numbers {
        list.push(',');
        list.push_str(&n);
    }
    Some(format!("{column} IN ({list})"))
}

/// A column of the select list. ENUM and SET come as numbers: a label would need the server's own spelling of it.
fn selected(name: &str, ty: &ColumnType) -> String {
    match ty {
        ColumnType::Enum { .. } | ColumnType::Set { .. } => format!("CAST({} AS UNSIGNED)", quoted(name)),
        _ => quoted(name),
    }
}

/// A name in backticks.
#[must_use]
pub fn quoted(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

#[cfg(test)]
mod tests {
    use millstream_binlog::{Charset, Column, ColumnValue};

    use super::*;

    fn column(name: &str, ty: ColumnType) -> Column {
        Column { name: name.to_owned(), ty, nullable: false, charset: Charset::Binary, collation: 63 }
    }

    fn table(key: Vec<usize>) -> (TableSchema, KeyCodec) {
        let schema = TableSchema {
            database: "my`db".to_owned(),
            table: "t".to_owned(),
            columns: vec![
                column("a", ColumnType::Int { unsigned: false }),
                column("b", ColumnType::VarBinary { max_bytes: 16 }),
                column("c", ColumnType::TinyInt { unsigned: true }),
                column("e", ColumnType::Enum { labels: ["x", "y", "z"].map(str::to_owned).into(), bytes: 1 }),
            ],
            key,
        };
        let codec = KeyCodec::new(&schema, &crate::key::Collations::default()).unwrap();
        (schema, codec)
    }

    fn key(codec: &KeyCodec, values: &[ColumnValue<'_>]) -> Key {
        let mut out = Vec::new();
        codec.encode_parts(values.iter().copied(), &mut out).unwrap();
        out.into()
    }

    #[test]
    fn chunks_of_one_column() {
        let (schema, codec) = table(vec![0]);
        let sql = TableSql::new(&schema, &codec, None);
        let low = key(&codec, &[ColumnValue::Int(-5)]);
        let high = key(&codec, &[ColumnValue::Int(7)]);
        let list = "SELECT `a`, `b`, `c`, CAST(`e` AS UNSIGNED) FROM `my``db`.`t` FORCE INDEX (`PRIMARY`)";
        let order = "ORDER BY `a` LIMIT 10";
        for (low, high, condition) in [
            (None, None, ""),
            (Some(&low), None, " WHERE `a` > -5"),
            (None, Some(&high), " WHERE `a` <= 7"),
            (Some(&low), Some(&high), " WHERE (`a` > -5) AND (`a` <= 7)"),
        ] {
            let got = sql.chunk(low, high, 10).unwrap();
            assert_eq!(got, format!("{list}{condition} {order}"));
        }
        assert!(sql.chunk(Some(&b"x"[..].into()), None, 1).is_err());
        let less = sql.clone().without(&[1, 3]).chunk(None, None, 10).unwrap();
        assert!(less.starts_with("SELECT `a`, NULL, `c`, NULL FROM"), "{less}");
        let filtered = sql.filtered(Some("c = 1 OR c = 2 -- two"));
        for (low, where_) in [(None, "("), (Some(&low), "(`a` > -5) AND (")] {
            let got = filtered.chunk(low, None, 10).unwrap();
            assert_eq!(got, format!("{list} WHERE {where_}c = 1 OR c = 2 -- two\n) {order}"));
        }
    }

    #[test]
    fn composite_comparisons_are_expanded() {
        let (schema, codec) = table(vec![2, 1, 0]);
        let sql = TableSql::new(&schema, &codec, None);
        let bound = key(&codec, &[ColumnValue::UInt(1), ColumnValue::Bytes(b"\x02"), ColumnValue::Int(3)]);
        assert!(sql.chunk(Some(&bound), None, 1).unwrap().contains(
            " WHERE `c` > 1 OR (`c` = 1 AND `b` > X'02') OR (`c` = 1 AND `b` = X'02' AND `a` > 3) ORDER BY `c`, `b`, `a`"
        ));
        assert!(
            sql.chunk(None, Some(&bound), 1)
                .unwrap()
                .contains(" WHERE `c` < 1 OR (`c` = 1 AND `b` < X'02') OR (`c` = 1 AND `b` = X'02' AND `a` <= 3) ")
        );
        assert!(sql.last().ends_with("ORDER BY `c` DESC, `b` DESC, `a` DESC LIMIT 1"));
        assert!(sql.first().starts_with("SELECT `c`, `b`, `a` FROM"));
    }

    #[test]
    fn ranges_of_an_enum_are_lists() {
        let (schema, codec) = table(vec![2, 3, 0]);
        let sql = TableSql::new(&schema, &codec, None);
        let bound = |e| key(&codec, &[ColumnValue::UInt(1), ColumnValue::Enum(e), ColumnValue::Int(3)]);
        let of = |low: Option<u16>, high: Option<u16>| {
            let (low, high) = (low.map(bound), high.map(bound));
            let text = sql.chunk(low.as_ref(), high.as_ref(), 1).unwrap();
            text.split(" WHERE ").nth(1).unwrap().split(" ORDER").next().unwrap().to_owned()
        };
        assert_eq!(of(Some(0), None), "`c` > 1 OR (`c` = 1 AND `e` IN (1,2,3)) OR (`c` = 1 AND `e` = 0 AND `a` > 3)");
        assert_eq!(of(Some(3), None), "`c` > 1 OR (`c` = 1 AND `e` = 3 AND `a` > 3)");
        assert_eq!(of(None, Some(2)), "`c` < 1 OR (`c` = 1 AND `e` IN (0,1)) OR (`c` = 1 AND `e` = 2 AND `a` <= 3)");
        assert_eq!(of(None, Some(0)), "`c` < 1 OR (`c` = 1 AND `e` = 0 AND `a` <= 3)");
        let (schema, codec) = table(vec![3]);
        let sql = TableSql::new(&schema, &codec, None);
        let last = key(&codec, &[ColumnValue::Enum(3)]);
        assert!(sql.chunk(Some(&last), None, 1).unwrap().contains(" WHERE FALSE ORDER BY `e`"));
        assert!(sql.chunk(None, Some(&last), 1).unwrap().contains(" WHERE `e` IN (0,1,2,3) ORDER"));
        assert!(sql.first().starts_with("SELECT CAST(`e` AS UNSIGNED) FROM"));
    }

    #[test]
    fn dives_go_between_the_values_that_differ() {
        let (schema, codec) = table(vec![0, 1]);
        let sql = TableSql::new(&schema, &codec, None);
        let at = |a: i64, b: &[u8]| key(&codec, &[ColumnValue::Int(a), ColumnValue::Bytes(b)]);
        let points = |low: &Key, high: &Key, parts| -> Vec<String> {
            let dives = sql.dives(low, high, parts).unwrap();
            let part = |d: &Dive| d.sql.split(" WHERE ").nth(1).unwrap().split(" ORDER").next().unwrap().to_owned();
            dives.iter().map(part).collect()
        };
        assert_eq!(points(&at(-100, b""), &at(100, b"z"), 4), ["`a` >= -50", "`a` >= 0", "`a` >= 50"]);
        assert_eq!(points(&at(i64::from(i32::MIN), b""), &at(i64::from(i32::MAX), b""), 2), ["`a` >= -1"]);
        assert_eq!(points(&at(1, b"\x10\x00"), &at(1, b"\x10\x80"), 2), ["`a` = 1 AND `b` >= X'1040'"]);
        assert_eq!(points(&at(1, b"a"), &at(1, b"a"), 2), Vec::<String>::new());
        let extremes = between(&KeyValue::Int(i64::MIN), &KeyValue::Int(i64::MAX), 1, 2);
        assert_eq!(extremes, Some(KeyValue::Int(-1)));
        let unsigned = between(&KeyValue::UInt(0), &KeyValue::UInt(u64::MAX), 63, 64);
        assert!(matches!(unsigned, Some(KeyValue::UInt(n)) if n > u64::MAX - (u64::MAX >> 5)));
    }
}

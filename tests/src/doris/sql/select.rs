//! SELECT over one table: filters, order, aggregates.

use super::lex::like;
use super::parse::{Condition, Item, Select, Test};
use super::proto::ColumnDef;
use super::{Fail, Session, fail};
use crate::doris::row::Values;
use crate::doris::table::{Data, Model, Schema, VERSION_COL};
use crate::doris::types::ColType;
use std::sync::Arc;

/// The protocol's number for a column type.
pub(super) fn kind(ty: &ColType) -> u8 {
    match ty {
        ColType::Boolean | ColType::TinyInt => 1,
        ColType::SmallInt => 2,
        ColType::Int => 3,
        ColType::BigInt => 8,
        ColType::Float => 4,
        ColType::Double => 5,
        ColType::Decimal { .. } => 246,
        ColType::Date => 10,
        ColType::DateTime(_) => 12,
        ColType::LargeInt | ColType::Char(_) => 254,
        ColType::Varchar(_) | ColType::String | ColType::Json => 253,
    }
}

/// A column of the output.
#[derive(Clone, Debug)]
enum Output {
    Column(usize),
    Version,
    Constant(Option<Vec<u8>>),
}

/// A condition with its literals as key bytes of the column's type.
#[derive(Debug)]
struct Filter {
    column: usize,
    test: Compiled,
}

#[derive(Debug)]
enum Compiled {
    Compare(&'static str, Vec<u8>),
    Between(Vec<u8>, Vec<u8>),
    In(Vec<Vec<u8>>),
    Like(String),
    IsNull(bool),
    Never,
}

/// A table's rows as a reader asked for them, fixed at the moment of the statement.
#[derive(Debug)]
pub(super) struct Scan {
    schema: Arc<Schema>,
    data: Data,
    output: Vec<Output>,
    filters: Vec<Filter>,
    order: Vec<(usize, bool)>,
    limit: Option<u64>,
    deleted_too: bool,
}

/// A SELECT's answer.
pub(super) enum Selected {
    Row(Vec<ColumnDef>, Vec<Option<Vec<u8>>>),
    Scan(Vec<ColumnDef>, Scan),
}

/// Plans a SELECT over a table's snapshot; aggregates are computed at once.
pub(super) fn select(
    s: &Select,
    (schema, data, rows): (Arc<Schema>, Data, u64),
    session: &Session,
    counting: bool,
) -> Result<Selected, Fail> {
    let hidden = session.show_hidden;
    let find = |name: &str| {
        schema
            .column(name)
            .filter(|i| hidden || !schema.columns[*i].hidden)
            .ok_or_else(|| fail(1054, "42S22", format!("Unknown column '{name}' in 'table list'")))
    };
    let mut filters = Vec::new();
    for c in &s.filter {
        let column = find(&c.column)?;
        filters.push(Filter { column, test: compile(c, &schema.columns[column].ty)? });
    }
    let mut order = Vec::new();
    for (name, descending) in &s.order {
        order.push((find(name)?, *descending));
    }
    let mut scan =
        Scan { schema: schema.clone(), data, output: Vec::new(), filters, order, limit: s.limit, deleted_too: hidden };
    let aggregates = s.items.iter().filter(|(i, _)| i.is_aggregate()).count();
    if aggregates > 0 {
        if aggregates < s.items.len() || !s.order.is_empty() {
            return Err(fail(1105, "HY000", "the simulator does not mix aggregates with columns or ORDER BY"));
        }
        return aggregate(s, &scan, find, rows, counting);
    }
    if counting {
        return Err(fail(1105, "HY000", "the simulator is in counting mode: it kept no rows, only COUNT(*) is known"));
    }
    let mut defs = Vec::new();
    let mut push = |name: &str, output: Output, kind: u8| {
        defs.push(ColumnDef { name: name.to_owned(), kind });
        scan.output.push(output);
    };
    for (item, name) in &s.items {
        match item {
            Item::Star => {
                for (i, c) in schema.columns.iter().enumerate().filter(|(_, c)| hidden || !c.hidden) {
                    push(&c.name, Output::Column(i), kind(&c.ty));
                }
                if hidden && schema.model == Model::Unique {
                    push(VERSION_COL, Output::Version, 8);
                }
            }
            Item::Column(c) if hidden && c.eq_ignore_ascii_case(VERSION_COL) => push(name, Output::Version, 8),
            Item::Column(c) => {
                let i = find(c)?;
                push(name, Output::Column(i), kind(&schema.columns[i].ty));
            }
            Item::Literal(v) => push(name, Output::Constant(v.as_ref().map(|v| v.clone().into_bytes())), 253),
            _ => return Err(fail(1105, "HY000", format!("the simulator does not select {name} from a table"))),
        }
    }
    Ok(Selected::Scan(defs, scan))
}

fn aggregate(
    s: &Select,
    scan: &Scan,
    find: impl Fn(&str) -> Result<usize, Fail>,
    rows: u64,
    counting: bool,
) -> Result<Selected, Fail> {
    let mut defs = Vec::new();
    let mut columns = Vec::new();
    for (item, name) in &s.items {
        let (column, ty) = match item {
            Item::Count(c) => (Some(find(c)?), 8),
            Item::Min(c) | Item::Max(c) => {
                let i = find(c)?;
                (Some(i), kind(&scan.schema.columns[i].ty))
            }
            _ => (None, 8),
        };
        columns.push(column);
        defs.push(ColumnDef { name: name.clone(), kind: ty });
    }
    let only_count = s.items.iter().all(|(i, _)| *i == Item::CountStar);
    if only_count && scan.filters.is_empty() && !scan.deleted_too {
        let text = rows.to_string().into_bytes();
        return Ok(Selected::Row(defs, vec![Some(text); columns.len()]));
    }
    if counting {
        return Err(fail(1105, "HY000", "the simulator is in counting mode: it kept no rows, only COUNT(*) is known"));
    }
    let mut counts = vec![0u64; columns.len()];
    let mut best: Vec<Option<(Vec<u8>, Vec<u8>)>> = vec![None; columns.len()];
    let mut values = Vec::new();
    let mut key = Vec::new();
    for (row, _) in scan.data.iter(scan.deleted_too) {
        values.clear();
        values.extend(Values(row));
        if !scan.matches(&values) {
            continue;
        }
        for (n, ((item, _), column)) in s.items.iter().zip(&columns).enumerate() {
            let Some(i) = *column else {
                counts[n] += 1;
                continue;
            };
            let Some(v) = values[i] else { continue };
            counts[n] += 1;
            if matches!(item, Item::Count(_)) {
                continue;
            }
            key.clear();
            scan.schema.columns[i].ty.order_key(v, &mut key);
            let better = match (&best[n], item) {
                (None, _) => true,
                (Some((old, _)), Item::Min(_)) => key < *old,
                (Some((old, _)), _) => key > *old,
            };
            if better {
                best[n] = Some((key.clone(), v.to_vec()));
            }
        }
    }
    let row = s
        .items
        .iter()
        .enumerate()
        .map(|(n, (item, _))| match item {
            Item::Min(_) | Item::Max(_) => best[n].take().map(|(_, v)| v),
            _ => Some(counts[n].to_string().into_bytes()),
        })
        .collect();
    Ok(Selected::Row(defs, row))
}

fn compile(c: &Condition, ty: &ColType) -> Result<Compiled, Fail> {
    let key = |text: &str| {
        let mut canonical = Vec::new();
        // A literal may be longer than the column: it is compared, not stored.
        let ty = match ty {
            ColType::Char(_) | ColType::Varchar(_) => ColType::String,
            ty => *ty,
        };
        ty.cast(text.as_bytes(), &mut canonical).map_err(|_| {
            fail(1105, "HY000", format!("the simulator cannot compare column {} with '{text}'", c.column))
        })?;
        let mut out = Vec::new();
        ty.order_key(&canonical, &mut out);
        Ok::<_, Fail>(out)
    };
    Ok(match &c.test {
        Test::Compare(_, None) => Compiled::Never,
        Test::Compare(op, Some(v)) => Compiled::Compare(op, key(v)?),
        Test::Between(a, b) => Compiled::Between(key(a)?, key(b)?),
        Test::In(list) => Compiled::In(list.iter().map(|v| key(v)).collect::<Result<_, _>>()?),
        Test::Like(p) => Compiled::Like(p.clone()),
        Test::IsNull(n) => Compiled::IsNull(*n),
    })
}

impl Scan {
    fn matches(&self, values: &[Option<&[u8]>]) -> bool {
        let mut key = Vec::new();
        self.filters.iter().all(|f| {
            let value = values[f.column];
            if let Compiled::IsNull(want) = f.test {
                return value.is_none() == want;
            }
            let Some(v) = value else { return false };
            if let Compiled::Like(p) = &f.test {
                return like(p, &String::from_utf8_lossy(v));
            }
            key.clear();
            self.schema.columns[f.column].ty.order_key(v, &mut key);
            match &f.test {
                Compiled::Compare(op, lit) => match *op {
                    "=" => key == *lit,
                    "<>" | "!=" => key != *lit,
                    "<" => key < *lit,
                    "<=" => key <= *lit,
                    ">" => key > *lit,
                    _ => key >= *lit,
                },
                Compiled::Between(a, b) => key >= *a && key <= *b,
                Compiled::In(list) => list.contains(&key),
                _ => false,
            }
        })
    }

    fn order_is_natural(&self) -> bool {
        self.schema.model == Model::Unique
            && self.order.len() <= self.schema.keys
            && self.order.iter().enumerate().all(|(i, (c, descending))| i == *c && !descending)
    }

    /// The rows asked for, in order.
    pub(super) fn rows(&self) -> Box<dyn Iterator<Item = (&[u8], u32)> + Send + '_> {
        let limit = self.limit.map_or(usize::MAX, |n| usize::try_from(n).unwrap_or(usize::MAX));
        let base = self.data.iter(self.deleted_too);
        let matching =
            base.filter(|(row, _)| self.filters.is_empty() || self.matches(&Values(row).collect::<Vec<_>>()));
        if self.order.is_empty() || self.order_is_natural() {
            return Box::new(matching.take(limit));
        }
        let mut sorted: Vec<_> = matching.map(|r| (self.sort_key(r.0), r)).collect();
        sorted.sort_by(|a, b| a.0.cmp(&b.0));
        Box::new(sorted.into_iter().map(|(_, r)| r).take(limit))
    }

    fn sort_key(&self, row: &[u8]) -> Vec<u8> {
        let values: Vec<_> = Values(row).collect();
        let mut out = Vec::new();
        for (column, descending) in &self.order {
            let start = out.len();
            match values[*column] {
                None => out.push(0),
                Some(v) => {
                    out.push(1);
                    self.schema.columns[*column].ty.order_key(v, &mut out);
                }
            }
            if *descending {
                for b in &mut out[start..] {
                    *b = !*b;
                }
            }
        }
        out
    }

    /// The output columns of a row, into `out`.
    pub(super) fn output<'a>(
        &'a self,
        row: &'a [u8],
        version: &'a [u8],
        values: &mut Vec<Option<&'a [u8]>>,
        out: &mut Vec<Option<&'a [u8]>>,
    ) {
        values.clear();
        values.extend(Values(row));
        out.clear();
        out.extend(self.output.iter().map(|o| match o {
            Output::Column(i) => values[*i],
            Output::Version => Some(version),
            Output::Constant(v) => v.as_deref(),
        }));
    }

    /// Whether the version column is asked for.
    pub(super) fn wants_version(&self) -> bool {
        self.output.iter().any(|o| matches!(o, Output::Version))
    }
}

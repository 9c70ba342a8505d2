//! The parts of information_schema the simulator shows: schemata, tables, columns.

use crate::doris::Shared;
use crate::doris::row::{Batch, put_value};
use crate::doris::table::{Column, Data, Model, Schema};
use crate::doris::types::ColType;
use std::sync::Arc;

const TEXT: ColType = ColType::Varchar(1024);
const NUMBER: ColType = ColType::BigInt;

/// A snapshot of a table of information_schema, as of one of a user's table.
pub(super) fn table(shared: &Shared, name: &str) -> Option<(Arc<Schema>, Data, u64)> {
    let name = name.to_ascii_lowercase();
    let columns: &[(&str, ColType)] = match name.as_str() {
        "schemata" => &[("CATALOG_NAME", TEXT), ("SCHEMA_NAME", TEXT)],
        "tables" => &[
            ("TABLE_CATALOG", TEXT),
            ("TABLE_SCHEMA", TEXT),
            ("TABLE_NAME", TEXT),
            ("TABLE_TYPE", TEXT),
            ("ENGINE", TEXT),
            ("TABLE_ROWS", NUMBER),
            ("TABLE_COMMENT", TEXT),
        ],
        "columns" => &[
            ("TABLE_CATALOG", TEXT),
            ("TABLE_SCHEMA", TEXT),
            ("TABLE_NAME", TEXT),
            ("COLUMN_NAME", TEXT),
            ("ORDINAL_POSITION", NUMBER),
            ("COLUMN_DEFAULT", TEXT),
            ("IS_NULLABLE", TEXT),
            ("DATA_TYPE", TEXT),
            ("CHARACTER_MAXIMUM_LENGTH", NUMBER),
            ("NUMERIC_PRECISION", NUMBER),
            ("NUMERIC_SCALE", NUMBER),
            ("DATETIME_PRECISION", NUMBER),
            ("COLUMN_TYPE", TEXT),
            ("COLUMN_KEY", TEXT),
            ("EXTRA", TEXT),
            ("COLUMN_COMMENT", TEXT),
        ],
        _ => return None,
    };
    let mut batch = Batch::default();
    let mut push = |values: &[Option<String>]| {
        for v in values {
            put_value(batch.row_buffer(), v.as_ref().map(|v| v.as_bytes()));
        }
        batch.end_row();
    };
    let some = |s: &str| Some(s.to_owned());
    let world = shared.world();
    for (db_name, db) in &world.dbs {
        if name == "schemata" {
            push(&[some("internal"), some(db_name)]);
            continue;
        }
        for (table_name, t) in &db.tables {
            if name == "tables" {
                push(&[
                    some("internal"),
                    some(db_name),
                    some(table_name),
                    some("BASE TABLE"),
                    some("Doris"),
                    Some(t.rows.to_string()),
                    some(&t.schema.comment),
                ]);
                continue;
            }
            for (i, c) in t.schema.visible().enumerate() {
                let (length, precision, scale, fraction) = facets(&c.ty);
                let number = |n: Option<u32>| n.map(|n| n.to_string());
                push(&[
                    some("internal"),
                    some(db_name),
                    some(table_name),
                    some(&c.name),
                    Some((i + 1).to_string()),
                    c.default.clone().flatten(),
                    some(if c.nullable { "YES" } else { "NO" }),
                    some(&c.ty.base_name()),
                    number(length),
                    number(precision),
                    number(scale),
                    number(fraction),
                    some(&c.ty.name()),
                    some(match (c.key, t.schema.model) {
                        (true, Model::Unique) => "UNI",
                        (true, Model::Duplicate) => "DUP",
                        (false, _) => "",
                    }),
                    some(""),
                    some(&c.comment),
                ]);
            }
        }
    }
    let schema = Schema {
        name,
        model: Model::Duplicate,
        columns: columns
            .iter()
            .map(|(name, ty)| Column {
                name: (*name).to_owned(),
                ty: *ty,
                nullable: true,
                key: false,
                default: None,
                comment: String::new(),
                hidden: false,
            })
            .collect(),
        keys: 0,
        distribution: Vec::new(),
        buckets: None,
        properties: Vec::new(),
        comment: String::new(),
        sequence: None,
    };
    let rows = batch.len() as u64;
    Some((Arc::new(schema), Data::Duplicate(Arc::new(vec![(1, Arc::new(batch))])), rows))
}

type Facets = (Option<u32>, Option<u32>, Option<u32>, Option<u32>);

/// Character length, numeric precision and scale, fraction digits.
fn facets(ty: &ColType) -> Facets {
    match *ty {
        ColType::Char(n) | ColType::Varchar(n) => (Some(n), None, None, None),
        ColType::Decimal { precision, scale } => (None, Some(u32::from(precision)), Some(u32::from(scale)), None),
        ColType::DateTime(f) => (None, None, None, Some(u32::from(f))),
        _ => (None, None, None, None),
    }
}

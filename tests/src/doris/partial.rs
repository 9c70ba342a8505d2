//! Loads of some columns of a UNIQUE merge-on-write table (`partial_columns: true`): the others keep what the key's row has.
//!
//! As in Doris (`VerticalSegmentWriter::_append_block_with_partial_content`, `BaseTablet::calc_segment_delete_bitmap`): a key is
//! looked up among the rows that are visible when the load comes, which decides whether it is new; what another load made
//! visible since then is looked at again at the publish, so a load never loses the columns of one that was committed before it.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::http1::Head;
use super::plan::{Refusal, refuse};
use super::row::{Values, put_value};
use super::table::{DELETE_SIGN, Entry, Model, Schema};

/// What a load of some columns does with the others, and with keys that have no row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Partial {
    /// Per column of the schema: its value is the stored row's.
    pub(crate) stored: Arc<[bool]>,
    new_keys: NewKeys,
}

/// `partial_update_new_key_behavior`; servers that do not know that header let strict mode decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NewKeys {
    Append,
    Error,
    Filter,
}

/// What the headers ask for; `None`: the load has whole rows.
pub(crate) fn partial(
    head: &Head,
    schema: &Schema,
    strict: bool,
    given: impl Fn(&str) -> bool,
) -> Result<Option<Partial>, Refusal> {
    if !head.header("partial_columns").is_some_and(|v| v.eq_ignore_ascii_case("true")) {
        return Ok(None);
    }
    if schema.model != Model::Unique {
        return refuse("ANALYSIS_ERROR", "Only unique key merge on write support partial update");
    }
    let new_keys = match head.header("partial_update_new_key_behavior").map(str::to_ascii_uppercase).as_deref() {
        None if strict => NewKeys::Filter,
        None | Some("APPEND") => NewKeys::Append,
        Some("ERROR") => NewKeys::Error,
        Some(_) => {
            return refuse(
                "INVALID_ARGUMENT",
                "Invalid partial_update_new_key_behavior, must be one of {'APPEND', 'ERROR'}",
            );
        }
    };
    if let Some(key) = schema.columns.iter().take(schema.keys).find(|c| !given(&c.name)) {
        return refuse(
            "ANALYSIS_ERROR",
            format!("Partial update should include all key columns, missing: {}", key.name),
        );
    }
    let stored: Arc<[bool]> = schema.columns.iter().map(|c| c.name != DELETE_SIGN && !given(&c.name)).collect();
    // All columns are there: an ordinary load.
    Ok(stored.contains(&true).then_some(Partial { stored, new_keys }))
}

/// The rows a load of some columns finds when it comes.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) partial: Partial,
    pub(crate) rows: Arc<BTreeMap<Box<[u8]>, Entry>>,
}

impl Found {
    /// Whether a row of this key may be loaded. (Doris ends the whole load where this filters a row: the same to a client
    /// that lets no row be filtered.)
    pub(crate) fn check(&self, schema: &Schema, key: &[u8], deleted: bool) -> Result<(), String> {
        if deleted || self.rows.contains_key(key) {
            return Ok(());
        }
        match self.partial.new_keys {
            NewKeys::Filter => Err("partial update in strict mode: the key is not in the table".into()),
            NewKeys::Error => {
                Err("Can't append new rows in partial update when partial_update_new_key_behavior is ERROR".into())
            }
            NewKeys::Append => {
                let without = |(column, stored): (&super::table::Column, &bool)| {
                    (*stored && !column.nullable && column.default.is_none()).then(|| column.name.clone())
                };
                match schema.columns.iter().zip(self.partial.stored.iter()).find_map(without) {
                    None => Ok(()),
                    Some(name) => Err(format!(
                        "the unmentioned column `{name}` should have default value or be nullable for newly inserted rows \
                         in non-strict mode partial update"
                    )),
                }
            }
        }
    }
}

/// `row` with the stored columns of `old`.
pub(crate) fn completed(stored: &[bool], row: &[u8], old: &[u8]) -> Box<[u8]> {
    let mut out = Vec::with_capacity(row.len().max(old.len()));
    for ((new, old), stored) in Values(row).zip(Values(old)).zip(stored) {
        put_value(&mut out, if *stored { old } else { new });
    }
    out.into_boxed_slice()
}

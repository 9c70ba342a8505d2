//! A table map: its schema agrees with it, and a catalog that differs in anything the map states does not.

use millstream_binlog::event::{EventBody, TableMap};
use millstream_binlog::{DecoderOptions, EventDecoder, TableSchema};

/// `u8: 1 for MariaDB, body of a TABLE_MAP`.
pub(crate) fn run(data: &[u8]) {
    let Some((&flavor, body)) = data.split_first() else { return };
    let mut decoder = EventDecoder::new(DecoderOptions::default());
    if flavor & 1 == 1 {
        super::mariadb::prime(&mut decoder);
    }
    let raw = super::event_of(19, body);
    let Ok(event) = decoder.decode(&raw) else { return };
    let EventBody::TableMap(map) = event.body else { panic!("{:?}", event.body) };
    assert_eq!(map.definition(), &body[6..]);
    let Ok(schema) = map.schema() else { return };
    assert!((1..=4096).contains(&schema.columns.len()) && schema.columns.len() < body.len());
    assert!(schema.key.iter().all(|at| *at < schema.columns.len()));
    assert_eq!((schema.database.as_str(), schema.table.as_str()), (map.database, map.table));
    match map.resolve(&schema) {
        Ok(resolved) => assert_eq!(resolved, schema),
        // A key over prefixes is a key to the server and none to us.
        Err(e) => assert!(schema.key.is_empty() && e.to_string().contains("the primary key"), "{e}"),
    }

    // No catalog shows the hash columns of MariaDB.
    if schema.columns.last().is_none_or(|c| !c.name.starts_with("DB_ROW_HASH_")) {
        differs(&map, &schema, |s| drop(s.columns.pop()));
    }
    for at in [0, schema.columns.len() / 2, schema.columns.len() - 1] {
        differs(&map, &schema, |s| s.columns[at].nullable ^= true);
        if !schema.columns[at].name.starts_with('@') {
            differs(&map, &schema, |s| s.columns[at].name.push('x'));
        }
    }
}

fn differs(map: &TableMap<'_>, schema: &TableSchema, change: impl FnOnce(&mut TableSchema)) {
    let mut other = schema.clone();
    change(&mut other);
    let error = map.resolve(&other).expect_err("a catalog that differs");
    assert!(error.schema_mismatch().is_some(), "{error}");
}

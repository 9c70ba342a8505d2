//! TABLE_MAP with all it can say, and with what is not so.

use millstream_binlog::event::EventBody;
use millstream_binlog::{Charset, ColumnHint, ColumnType, Error, TableSchema};

use super::decode;

/// A lenenc number.
fn lenenc(n: usize) -> Vec<u8> {
    match n {
        0..=250 => vec![u8::try_from(n).unwrap()],
        251..=0xffff => [&[0xfc][..], &u16::try_from(n).unwrap().to_le_bytes()].concat(),
        _ => [&[0xfd][..], &u32::try_from(n).unwrap().to_le_bytes()[..3]].concat(),
    }
}

fn text(text: &[u8]) -> Vec<u8> {
    [lenenc(text.len()), text.to_vec()].concat()
}

fn tlv(ty: u8, value: &[u8]) -> Vec<u8> {
    [vec![ty], text(value)].concat()
}

fn map(types: &[u8], meta: &[u8], optional: &[u8]) -> Vec<u8> {
    let nulls = vec![0xff; types.len().div_ceil(8)];
    let head = [5, 0, 0, 0, 0, 0, 1, 0, 1, b'd', 0, 1, b't', 0];
    [&head[..], &lenenc(types.len()), types, &lenenc(meta.len()), meta, &nulls, optional].concat()
}

fn read<T>(
    body: &[u8],
    look: impl FnOnce(&millstream_binlog::event::TableMap<'_>) -> Result<T, Error>,
) -> Result<T, Error> {
    decode(19, body, |body| match body {
        EventBody::TableMap(map) => look(&map),
        other => panic!("{other:?}"),
    })?
}

fn schema(body: &[u8]) -> Result<TableSchema, Error> {
    read(body, |map| map.schema())
}

/// INT, DECIMAL(10,2), YEAR, VARCHAR, BLOB, ENUM, SET, GEOMETRY, VECTOR, CHAR, FLOAT
const TYPES: &[u8] = &[3, 246, 13, 15, 252, 254, 254, 255, 242, 254, 4];
const META: &[u8] = &[10, 2, 44, 1, 2, 247, 2, 248, 1, 4, 4, 254, 40, 4];

/// The optional fields of the table above; without the character sets, which come in two forms.
fn fields() -> Vec<(u8, Vec<u8>)> {
    let names: Vec<u8> = (0..TYPES.len()).flat_map(|i| [2, b'c', b'a' + u8::try_from(i).unwrap()]).collect();
    // More labels than one byte counts, in a field that is longer than one byte says.
    let labels: Vec<u8> = (0..300).flat_map(|i| text(format!("label {i}").as_bytes())).collect();
    vec![
        // INT UNSIGNED, DECIMAL UNSIGNED, YEAR, FLOAT: most significant first.
        (1, vec![0b1100_0000]),
        (4, names),
        (5, [lenenc(2), text(b"p"), text(b"q")].concat()),
        (6, [lenenc(300), labels].concat()),
        (7, vec![1]),
        (8, vec![0, 3]),
        // ENUM is latin1, SET utf8mb4.
        (11, vec![8, 45]),
        // All but the second and the last.
        (12, vec![0b1011_1111, 0b1100_0000]),
        (13, lenenc(1536)),
    ]
}

fn all(fields: &[(u8, Vec<u8>)]) -> Vec<u8> {
    fields.iter().flat_map(|(ty, value)| tlv(*ty, value)).collect()
}

/// Conformance: E5
/// Bug: 18, 60, 61, 62
#[test]
fn all_thirteen_optional_fields_are_read_and_unknown_ones_are_passed_over() {
    let column_charsets = (3, [lenenc(45), lenenc(63), lenenc(63), lenenc(8)].concat());
    // The default, and the other character columns by their number among the character columns.
    let default_charset = (2, [lenenc(63), vec![0, 45], vec![3, 8]].concat());
    let default_of_enums = (10, [lenenc(8), vec![1, 45]].concat());
    let mut variants = Vec::new();
    for charsets in [column_charsets, default_charset] {
        for enums in [None, Some(&default_of_enums)] {
            let mut fields = fields();
            fields.push(charsets.clone());
            if let Some(enums) = enums {
                fields.retain(|(ty, _)| *ty != 11);
                fields.push(enums.clone());
            }
            variants.push(fields.clone());
            // Any order, with fields of servers to come in between.
            fields.reverse();
            fields.insert(2, (14, vec![7; 300]));
            fields.insert(5, (200, vec![]));
            fields.insert(0, (0, vec![1]));
            variants.push(fields);
        }
    }
    assert_eq!(variants.len(), 8);
    for fields in &variants {
        let body = map(TYPES, META, &all(fields));
        let schema = schema(&body).unwrap();
        let types: Vec<String> = schema.columns.iter().map(|c| c.ty.to_string()).collect();
        assert!(matches!(schema.columns[0].ty, ColumnType::Int { unsigned: true }), "{types:?}");
        let ColumnType::Enum { labels, bytes: 2 } = &schema.columns[5].ty else { panic!("{types:?}") };
        assert_eq!((labels.len(), labels[257].as_str()), (300, "label 257"));
        let ColumnType::Set { labels, bytes: 1 } = &schema.columns[6].ty else { panic!("{types:?}") };
        assert_eq!(labels[..], ["p", "q"]);
        let text: Vec<_> = [3, 4, 5, 6, 9].map(|i| (schema.columns[i].collation, schema.columns[i].charset)).into();
        let (binary, utf8) = (Charset::Binary, Charset::Utf8mb4);
        let latin1 = Charset::from_collation(8).unwrap();
        assert_eq!(text, [(45, utf8), (63, binary), (8, latin1), (45, utf8), (8, latin1)]);
        let names: Vec<_> = schema.columns.iter().map(|c| c.name.as_str()).collect();
        assert_eq!(names, ["ca", "cb", "cc", "cd", "ce", "cf", "cg", "ch", "ci", "cj", "ck"]);
        assert_eq!(schema.key, [0, 3]);

        let hints = read(&body, |map| map.hints()).unwrap();
        let visible: Vec<_> = hints.iter().map(|h| h.visible.unwrap()).collect();
        assert_eq!(visible, [true, false, true, true, true, true, true, true, true, true, false]);
        let spatial: Vec<_> = hints.iter().map(|h| h.geometry_type).collect();
        assert_eq!(spatial.iter().flatten().collect::<Vec<_>>(), [&1]);
        assert_eq!(spatial[7], Some(1));
        assert_eq!(hints[8].dimensions, Some(1536));
        assert_eq!(hints.iter().filter(|h| h.dimensions.is_some()).count(), 1);
    }
    // Without any, nothing is known beyond the types.
    let bare = map(TYPES, META, &[]);
    assert_eq!(read(&bare, |map| map.hints()).unwrap(), [ColumnHint::default(); 11]);
    // A key over a prefix tells no rows apart.
    let mut prefixed = fields();
    prefixed.retain(|(ty, _)| *ty != 8);
    prefixed.push((9, vec![0, 0, 3, 10]));
    assert!(schema(&map(TYPES, META, &all(&prefixed))).unwrap().key.is_empty());
}

/// Conformance: E5
/// Bug: 33
#[test]
fn tables_of_251_columns_and_more_are_whole() {
    for count in [250, 251, 252, 300, 4096] {
        let types = vec![3; count];
        let mut signs = vec![0; count.div_ceil(8)];
        signs[(count - 1) / 8] = 1 << (7 - (count - 1) % 8);
        let schema = schema(&map(&types, &[], &tlv(1, &signs))).unwrap();
        assert_eq!(schema.columns.len(), count);
        assert!(matches!(schema.columns[count - 1].ty, ColumnType::Int { unsigned: true }));
        assert!(matches!(schema.columns[count - 2].ty, ColumnType::Int { unsigned: false }));
    }
    assert!(schema(&map(&vec![3; 4097], &[], &[])).unwrap_err().is_malformed());
}

/// Conformance: P3
/// Bug: 119
#[test]
fn lengths_that_are_not_so_are_errors() {
    let good = map(&[3, 15], &[44, 1], &tlv(4, &[1, b'a', 1, b'b']));
    assert_eq!(schema(&good).unwrap().columns[1].name, "b");
    for (at, name) in [(8, "database"), (11, "table")] {
        for length in [0, 2, 10, 255] {
            let mut body = good.clone();
            body[at] = length;
            let outcome = decode(19, &body, |_| ());
            assert!(outcome.is_err_and(|e| e.is_malformed()), "{name} of {length}");
        }
    }
    for end in 0..good.len() {
        let mut whole = 0;
        let done = decode(19, &good[..end], |body| match body {
            EventBody::TableMap(map) => map.schema().map(|s| whole = s.columns.len()),
            other => panic!("{other:?}"),
        });
        // What ends before the optional fields is whole without them.
        let before_optional = end == good.len() - 6;
        assert_eq!(done.is_ok_and(|d| d.is_ok()), before_optional, "{end}");
        assert_eq!(whole == 2, before_optional, "{end}");
    }
    // Sizes of optional fields that reach beyond the event, and contents that are not the columns'.
    for optional in [
        &[4, 200][..],
        &[4, 0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f],
        &[4, 0xfb],
        &[4, 0xff],
        &[4],
        &tlv(4, &[1, b'a']),
        &tlv(4, &[1, b'a', 9, b'b']),
        &tlv(4, &[1, b'a', 1, b'b', 1, b'c']),
        &tlv(1, &[]),
        &tlv(2, &[]),
        &tlv(2, &[45, 1, 8]),
        &tlv(3, &[]),
        &tlv(3, &[45, 45]),
        &tlv(6, &[0xfd, 0xff, 0xff, 0xff]),
        &tlv(8, &[2]),
        &tlv(8, &[0, 0]),
        &tlv(9, &[0]),
    ] {
        let done = schema(&map(&[3, 15], &[44, 1], optional));
        assert!(done.is_err_and(|e| e.is_malformed()), "{optional:02x?}");
    }
    let wide = [7, 8].map(|n| map(&[255; 8], &[4; 8], &tlv(7, &vec![0; n])));
    assert!(read(&wide[0], |map| map.hints()).is_err_and(|e| e.is_malformed()));
    assert_eq!(read(&wide[1], |map| map.hints()).unwrap().len(), 8);
    for optional in [tlv(7, &[0; 9]), tlv(12, &[]), tlv(13, &[3])] {
        assert!(read(&map(&[255; 8], &[4; 8], &optional), |map| map.hints()).is_err_and(|e| e.is_malformed()));
    }
}

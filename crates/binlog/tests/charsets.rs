//! Every code of every character set decodes as a MySQL 9.7.4 server converts it.

#![allow(
    clippy::arithmetic_side_effects,
    clippy::panic,
    clippy::print_stdout,
    clippy::string_slice,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

use std::path::{Path, PathBuf};

use millstream_binlog::Charset;

fn dir(server: &str) -> Option<PathBuf> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/corpus/generated/charsets").join(server);
    if !dir.is_dir() {
        println!("skipped: {} is not there", dir.display());
        return None;
    }
    Some(dir)
}

fn unhex(text: &str) -> Vec<u8> {
    (0..text.len() / 2).map(|i| u8::from_str_radix(&text[2 * i..2 * i + 2], 16).unwrap()).collect()
}

/// Conformance: V5
/// Bug: 30
#[test]
fn every_measured_code_decodes_as_the_server_does() {
    let Some(dir) = dir("mysql-9.7.4") else { return };
    let (mut sets, mut codes) = (0, 0);
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap();
        let Some(charset) = Charset::from_name(name) else {
            assert_eq!(name, "collations");
            continue;
        };
        sets += 1;
        let table = std::fs::read_to_string(&path).unwrap();
        // Single high bytes of multi-byte sets are listed as invalid, whether they are or not.
        let is_single_byte = table.lines().count() <= 257;
        for line in table.lines().skip(1) {
            let (code, text) = line.split_once('\t').unwrap();
            let mut out = Vec::new();
            let done = charset.decode(&unhex(code), &mut out);
            // The server prints NULL, nothing or question marks for what is no character.
            let is_valid = code == "3F" || !matches!(text, "NULL" | "" | "3F" | "3F3F");
            if is_valid {
                assert_eq!((done, out), (Ok(()), unhex(text)), "{name} {code}");
                codes += 1;
            } else if is_single_byte {
                assert!(done.is_err(), "{name} {code}");
            }
        }
    }
    println!("{sets} sets, {codes} codes");
    assert!(sets >= 34);
}

/// Bug: 31, 115
#[test]
fn every_collation_id_has_its_character_set() {
    for (server, least) in [("mysql-9.7.4", 286), ("mariadb-11.8.9", 1287)] {
        let Some(dir) = dir(server) else { return };
        let table = std::fs::read_to_string(dir.join("collations.tsv")).unwrap();
        let mut ids = 0;
        for line in table.lines().skip(1) {
            let mut fields = line.split('\t');
            let (id, charset) = (fields.next().unwrap().parse().unwrap(), fields.nth(1).unwrap());
            assert_eq!(Charset::from_collation(id).map(Charset::name), Some(charset), "{server}: {line}");
            ids += 1;
        }
        assert!(ids >= least, "{server}: {ids}");
    }
    // Beyond 8 bits, beyond MySQL's, and of nobody.
    for (id, charset) in [
        (255, Some(Charset::Utf8mb4)),
        (305, Some(Charset::Utf8mb4)),
        (2304, Some(Charset::Utf8mb4)),
        (3271, Some(Charset::Utf32)),
        (0, None),
        (4000, None),
        (u16::MAX, None),
    ] {
        assert_eq!(Charset::from_collation(id), charset, "{id}");
    }
}

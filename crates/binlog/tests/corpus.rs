//! Whole logs decode to their end, with every checksum, to what the vendors' own tools list; damaged ones to their damage.

#![allow(
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    clippy::let_underscore_must_use,
    clippy::panic,
    clippy::print_stdout,
    clippy::string_slice,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

mod common;
#[path = "corpus/label.rs"]
mod label;
#[path = "corpus/listing.rs"]
mod listing;
#[path = "corpus/log.rs"]
mod log;
#[path = "corpus/values.rs"]
mod values;

use std::io::Read as _;
use std::path::{Path, PathBuf};

use common::{corpus, fixtures};
use listing::Listing;

/// Logs under a folder, with their names from the corpus's root.
fn logs(root: &Path) -> Vec<(String, PathBuf)> {
    let mut out = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
            if path.is_dir() {
                // Text, programs, recordings of sessions, inputs of other projects' fuzz targets.
                let other = ["text", "generated/sql", "generated/wire", "generated/charsets", "go-mysql"];
                if !other.contains(&name.as_str()) && !name.ends_with("/types-with-final-state") {
                    folders.push(path);
                }
            } else if !["txt", "md", "tsv"].iter().any(|e| path.extension().is_some_and(|x| x == *e)) {
                out.push((name, path));
            }
        }
    }
    out.sort();
    out
}

/// Where the text about a log lies.
fn text(root: &Path, name: &str, log: &Path) -> PathBuf {
    if name.starts_with("generated/") {
        return format!("{}.mysqlbinlog.txt", log.display()).into();
    }
    let plain = root.join("text").join(format!("{}.txt", name.replace('/', "_")));
    if plain.exists() { plain } else { format!("{}.gz", plain.display()).into() }
}

/// Reads a log, packed or not.
fn bytes(path: &Path) -> Vec<u8> {
    let mut bytes = std::fs::read(path).unwrap();
    if bytes.starts_with(&[0x1f, 0x8b]) {
        let packed = std::mem::take(&mut bytes);
        flate2::read::GzDecoder::new(packed.as_slice()).read_to_end(&mut bytes).unwrap();
    }
    bytes
}

/// Type, offset, size, position, checksum, server id, timestamp and what the tools print of an event's fields; statuses of
/// statements; GTIDs; numbers of rows and every value of them, by the rules of `corpus/values.rs`.
///
/// Conformance: E1, E2, E3, E4, E6, E7, E9, E10, E11, E12, E13, E14, E15, D9
/// Bug: 63, 67, 68, 70, 71, 72, 75, 78, 88
#[test]
fn every_log_decodes_to_what_its_text_lists_or_ends_at_its_damage() {
    let Some(root) = corpus("") else { return };
    let logs = logs(&root);
    let (mut events, mut placed, mut values, mut partitioned) = (0, 0, 0, 0);
    for (name, path) in &logs {
        let text = text(&root, name, path);
        let listing = Listing::read(&text).unwrap_or_else(|| panic!("{} is not there", text.display()));
        let out = log::compare(&bytes(path), &listing);
        assert!(out.differences.is_empty(), "{name}: {:#?}", out.differences);
        let broken = BROKEN.iter().find(|(n, ..)| n == name).map(|(_, at, why)| (*at, (*why).to_owned()));
        assert_eq!(out.error, broken, "{name}");
        // MariaDB's tool gives its own old TIME and DATETIME up.
        let gives_up = listing.failed || name.ends_with("/old-temporal-format.bin");
        assert!(out.listed + out.passed_over == out.events || gives_up, "{name}: {out:?}");
        assert!(listing.offsets.len() == out.events || out.error.is_some() || gives_up, "{name}: {out:?}");
        assert!(out.missing == 0 || out.error.is_some(), "{name}: {out:?}");
        for reason in &out.unread {
            assert!(UNREAD.iter().any(|u| reason.contains(u)), "{name}: {reason}");
        }
        events += out.events;
        values += out.values;
        partitioned += out.partitions.len();
        placed += usize::from(out.placed);
    }
    let missing: Vec<_> = BROKEN.iter().filter(|(broken, ..)| !logs.iter().any(|(name, _)| name == broken)).collect();
    assert!(missing.is_empty(), "{missing:?}");
    assert_eq!(logs.len(), 182);
    println!("{events} events, {values} values equal");
    assert!(events > 21_500 && placed > 150, "{events} events, {placed} logs in place");
    assert!(values > 382_000 && partitioned == 35, "{values} values, {partitioned} with partitions");
}

/// The same for the logs that live in the repository: their listings are the lines of the tools' texts that are compared.
///
/// Conformance: E1, E2, E3, E4, E6, E7, E9, E10, E11, E12, E13, D9
#[test]
fn fixtures_decode_to_what_their_listings_say() {
    let mut listed = 0;
    for (name, log) in fixtures() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/listings").join(format!("{name}.txt"));
        let listing = Listing::read(&path);
        listed += usize::from(listing.is_some());
        let out = log::compare(&log, &listing.unwrap_or_default());
        assert!(out.differences.is_empty(), "{name}: {:#?}", out.differences);
        assert_eq!((out.error, out.unread.len(), out.missing, out.placed), (None, 0, 0, true), "{name}");
        assert!(out.events >= 3, "{name}");
    }
    assert!(listed >= 14, "{listed}");
}

/// Why columns of a table cannot be read from the log alone.
const UNREAD: &[&str] =
    &["of MariaDB's old format without the catalog's word on its fraction", "a table map of a 5.1 pre-release"];

/// Where logs end before their end, and why: cut off or edited on purpose, encrypted, of before 5.0 or of pre-releases.
#[rustfmt::skip]
const BROKEN: &[(&str, u64, &str)] = &[
    ("apecloud-binlog-connector-rust/non-binlog", 0, "offset 0: not a binlog file"),
    ("canal/tsdb-mysql-bin.000001", 0, "offset 0: not a binlog file"),
    ("mariadb-server/binlog_before_20574.bin", 296, "offset 296: encrypted from here on (encrypt_binlog=ON); read it from the server"),
    ("mariadb-server/bug11747416_32228_binlog.000001", 316, "offset 316: the file ends inside an event of type WRITE_ROWS_V1 (23): 7876 of its 65567 bytes are there"),
    ("mariadb-server/bug47142_master-bin.000001", 4, "START_V3 (1) event ending at log position 4: a log of MySQL 4 is not supported"),
    ("mariadb-server/corrupt-relay-bin.000624", 91204, "malformed QUERY (2) event ending at log position 199, at its byte 32: status variables: needs 16949 bytes, 139 left"),
    ("mariadb-server/master-bin.000001", 4, "START_V3 (1) event ending at log position 1: a log of MySQL 4 is not supported"),
    ("mariadb-server/mdev-39404-binlog.000001", 256, "MARIADB_GTID (162) event ending at log position 749: its CRC32 is 0x04e0a427, the log says 0x00000000"),
    ("mariadb-server/suite-binlog/binlog_old_version_4_1.000001", 4, "START_V3 (1) event ending at log position 4: a log of MySQL 4 is not supported"),
    ("mariadb-server/suite-binlog/bug32407.001", 242, "PRE_GA_WRITE_ROWS (20) event ending at log position 276: a row event of a 5.1 pre-release is not supported"),
    ("mariadb-server/suite-binlog/ver_5_1-telco.001", 461, "PRE_GA_WRITE_ROWS (20) event ending at log position 508: a row event of a 5.1 pre-release is not supported"),
    ("mariadb-server/suite-binlog/ver_5_1_17.001", 461, "PRE_GA_WRITE_ROWS (20) event ending at log position 508: a row event of a 5.1 pre-release is not supported"),
    ("mariadb-server/trunc_binlog.000001", 4, "START_V3 (1) event ending at log position 4: a log of MySQL 4 is not supported"),
    ("mysql-server/binlog_no_fd_event.000001", 4, "UNKNOWN (48) event ending at log position 120: unknown event type without the IGNORABLE flag"),
    ("mysql-server/binlog_recovery/duplicate_xid.000001", 672, "XID (16) event ending at log position 703: its CRC32 is 0x17b54116, the log says 0x993a46f5"),
    ("mysql-server/binlog_recovery/duplicate_xid_ddl.000001", 507, "QUERY (2) event ending at log position 620: its CRC32 is 0x55881253, the log says 0x129be4a8"),
    ("mysql-server/binlog_recovery/duplicate_xid_xa_prepare.000001", 884, "XA_PREPARE (38) event ending at log position 921: its CRC32 is 0x579cd4a2, the log says 0x209be434"),
    ("mysql-server/binlog_recovery/malformed_xid_xa_commit.000001", 889, "QUERY (2) event ending at log position 980: its CRC32 is 0x6a22714e, the log says 0x5b374397"),
    ("mysql-server/binlog_recovery/malformed_xid_xa_rollback.000001", 889, "QUERY (2) event ending at log position 982: its CRC32 is 0xff4210cc, the log says 0xce572215"),
    ("mysql-server/binlog_truncated_event.000001", 4, "offset 4: the file ends inside an event"),
    ("mysql-server/binlog_truncated_prev_gtid_event.000001", 120, "offset 120: the file ends inside an event"),
    ("mysql-server/corrupt-relay-bin.000624", 91204, "malformed QUERY (2) event ending at log position 199, at its byte 32: status variables: needs 16949 bytes, 139 left"),
    ("mysql-server/rpl_nogtid_encryption_master-bin.000002", 0, "offset 0: an encrypted binlog (binlog_encryption=ON); read it from the server"),
    ("rust_mysql_common/binlog_truncated_event.000001", 4, "offset 4: the file ends inside an event"),
    ("rust_mysql_common/binlog_truncated_prev_gtid_event.000001", 120, "offset 120: the file ends inside an event"),
    ("rust_mysql_common/corrupt-relay-bin.000624", 91204, "malformed QUERY (2) event ending at log position 199, at its byte 32: status variables: needs 16949 bytes, 139 left"),
    ("rust_mysql_common/ver_5_1-wl2325_r.001", 4, "FORMAT_DESCRIPTION (15) event ending at log position 102: a log of a pre-release with other event numbers is not supported: a log of a pre-release with other event numbers: not supported (27 left)"),
    ("rust_mysql_common/ver_5_1-wl2325_s.001", 4, "FORMAT_DESCRIPTION (15) event ending at log position 102: a log of a pre-release with other event numbers is not supported: a log of a pre-release with other event numbers: not supported (27 left)"),
];

//! Whole logs decode to their end, with every checksum, to what the server's own tool lists.

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

use common::{Seen, corpus, fixtures, read};
use std::error::Error as _;

/// (event end positions, GTIDs, row changes) as `mysqlbinlog` printed them.
fn listed(text: &str) -> (Vec<u32>, Vec<String>, std::ops::RangeInclusive<usize>) {
    let mut positions = Vec::new();
    let mut gtids = Vec::new();
    let mut rows = 0;
    let mut given_up = 0;
    // Inside a payload the tool lists the inner events too.
    let mut payload_end = 0;
    for line in text.lines() {
        if let Some((_, rest)) = line.split_once("end_log_pos ")
            && line.starts_with('#')
            && line.contains(" server id ")
        {
            let end: u32 = rest.split([' ', '\t']).next().unwrap().parse().unwrap();
            if rest.contains("Transaction_Payload") {
                payload_end = end;
                positions.push(end);
            } else if payload_end == 0 || end > payload_end {
                positions.push(end);
            }
        } else if let Some(rest) = line.strip_prefix("SET @@SESSION.GTID_NEXT= '") {
            gtids.push(rest.split('\'').next().unwrap().to_owned());
        } else if ["### INSERT INTO", "### UPDATE", "### DELETE FROM"].iter().any(|p| line.starts_with(p)) {
            rows += 1;
        } else if line.contains("!! Don't know how to handle column type=255") {
            // At a GEOMETRY the tool leaves the rest of the event out; no event here has more than one row behind it.
            given_up += 1;
        }
    }
    gtids.retain(|g| g != "AUTOMATIC");
    (positions, gtids, rows..=rows + given_up)
}

#[test]
fn own_logs_decode_to_what_mysqlbinlog_lists() {
    let Some(dir) = corpus("generated/mysql-9.7.4") else { return };
    let mut logs = 0;
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|e| e != "bin") {
            continue;
        }
        let name = path.file_stem().unwrap().to_str().unwrap();
        let mut seen = Seen::default();
        read(&std::fs::read(&path).unwrap(), &mut seen)
            .unwrap_or_else(|e| panic!("{name}: {e}: {:?}", e.source().map(ToString::to_string)));
        let text = std::fs::read(format!("{}.mysqlbinlog.txt", path.display())).unwrap();
        let text = String::from_utf8_lossy(&text);
        let (positions, gtids, rows) = listed(&text);
        let ours: Vec<u32> = seen.events.iter().map(|(_, pos)| *pos).collect();
        if name != "compression-zstd" {
            assert_eq!(ours, positions, "{name}");
        }
        assert_eq!(seen.gtids, gtids, "{name}");
        let partial = seen.events.iter().filter(|(ty, _)| *ty == 39).count();
        if partial == 0 {
            assert!(rows.contains(&seen.rows), "{name}: {} of {rows:?}", seen.rows);
        } else {
            assert!(seen.rows + partial <= *rows.end(), "{name}: {} of {rows:?}", seen.rows);
        }
        logs += 1;
    }
    assert_eq!(logs, 15);
}

#[test]
fn fixtures_decode_to_their_end() {
    for (name, log) in fixtures() {
        let mut seen = Seen::default();
        read(&log, &mut seen).unwrap_or_else(|e| panic!("{name}: {e}: {:?}", e.source().map(ToString::to_string)));
        assert!(seen.events.len() >= 3, "{name}");
        assert_eq!(seen.events.last().unwrap().1 as usize, log.len(), "{name}");
    }
}

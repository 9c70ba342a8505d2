//! Dumps of four servers as they were recorded.

use std::collections::BTreeMap;

use millstream_binlog::event::{Checksum, EventBody, Inflater};
use millstream_binlog::{Position, PositionTracker};

use super::common::corpus;
use super::{decoder, events_of};

const SERVERS: [&str; 4] = ["mysql-9.7.4", "mariadb-10.5.23", "mariadb-10.11.18", "mariadb-11.8.9"];

/// The recordings of dumps with their numbers of events by type, out of the index.
fn index(server: &str) -> Option<Vec<(String, BTreeMap<u8, usize>)>> {
    let text = std::fs::read_to_string(corpus("generated/wire")?.join(server).join("INDEX.txt")).unwrap();
    let mut out = Vec::new();
    for line in text.lines() {
        let Some((name, rest)) = line.strip_prefix("| ").and_then(|l| l.split_once(" | ")) else { continue };
        let Some((counts, _)) = rest.split_once("events {").and_then(|(_, l)| l.split_once('}')) else { continue };
        let pair = |p: &str| p.split_once(": ").map(|(ty, n)| (ty.parse().unwrap(), n.parse().unwrap()));
        out.push((name.to_owned(), counts.split(", ").filter_map(pair).collect()));
    }
    Some(out)
}

fn checksum(recording: &str) -> Checksum {
    let none = ["dump-checksum-none", "dump-no-checksum-var"].contains(&recording);
    if none { Checksum::None } else { Checksum::Crc32 }
}

/// Conformance: D1, D3, D4, D5, D6, E1, E3, E4
/// Bug: 77, 96
#[test]
fn every_dump_has_the_events_that_its_index_counts() {
    let mut dumps = 0;
    for server in SERVERS {
        let Some(recordings) = index(server) else { return };
        for (recording, counts) in recordings {
            let mut decoder = decoder(checksum(&recording));
            let mut inflater = Inflater::new(1 << 20);
            let mut seen = BTreeMap::new();
            for raw in events_of(server, &recording).unwrap() {
                let event = decoder.decode(&raw).and_then(|e| e.inflate(&mut inflater));
                let event = event.unwrap_or_else(|e| panic!("{server} {recording}: {e}"));
                *seen.entry(event.header.event_type.0).or_default() += 1;
            }
            assert_eq!(seen, counts, "{server} {recording}");
            dumps += 1;
        }
    }
    assert!(dumps >= 36, "{dumps}");
}

/// Places behind the ends of event groups, as they are followed, and whether the log states them.
fn commits(server: &str, recording: &str) -> Vec<(u64, bool)> {
    let mut decoder = decoder(checksum(recording));
    let mut tracker = PositionTracker::new(Position::new("", 0));
    let (mut out, mut silent) = (Vec::new(), 0);
    for raw in events_of(server, recording).unwrap() {
        let event = decoder.decode(&raw).unwrap();
        tracker.follow(&event);
        let header = event.header;
        if !header.is_artificial() && !matches!(event.body, EventBody::Rotate(_)) {
            assert_eq!(tracker.position().offset, u64::from(header.log_pos), "{server} {recording}");
            assert!(tracker.is_stated());
        }
        silent += usize::from(header.log_pos == 0 && !header.is_made_for_stream());
        if matches!(event.body, EventBody::Xid(_) | EventBody::Query(_)) {
            out.push((tracker.position().offset, tracker.is_stated()));
        }
    }
    // Events inside transactions say nothing on 11.8, and everything before.
    assert_eq!(silent > 90, server == "mariadb-11.8.9", "{server} {recording}: {silent}");
    out
}

/// Two ends of groups on 11.8 are a COMMIT that says nothing: without the annotations of its group, which are in the log
/// all the same, lengths lead to a place before it. All others are the same however much the server leaves out.
///
/// Conformance: D9, E13
/// Bug: 70
#[test]
fn places_of_commits_are_those_of_the_log_or_known_to_be_reckoned() {
    for server in &SERVERS[1..] {
        if corpus("generated/wire").is_none() {
            return;
        }
        let whole = commits(server, "dump-annotate");
        assert!(whole.len() > 60, "{}", whole.len());
        let reckoned = whole.iter().filter(|(_, stated)| !stated).count();
        assert_eq!(reckoned, if *server == "mariadb-11.8.9" { 2 } else { 0 }, "{server}");
        for recording in ["dump-crc32", "dump-checksum-none"] {
            let places = commits(server, recording);
            assert_eq!(places.len(), whole.len());
            for (ours, real) in places.iter().zip(&whole) {
                assert_eq!(ours.1, real.1, "{server} {recording}: {ours:?}, {real:?}");
                assert!(ours == real || (!ours.1 && ours.0 < real.0), "{server} {recording}: {ours:?}, {real:?}");
            }
        }
    }
}

//! What the index beside the recordings says of each is what the core makes of it.

use std::collections::BTreeMap;

use millstream_wire::{SessionChange, TransactionStart, TransactionState, Value};

use crate::replay::{Recording, Replay, folders, is_spoken};

/// A line of INDEX.txt: `| name | bytes of the server | bytes of the client | what |`.
struct Line {
    name: String,
    bytes: (usize, usize),
    what: String,
}

impl Line {
    /// `events {4: 3, 15: 2}` by type.
    fn events(&self) -> Option<BTreeMap<u8, usize>> {
        let list = self.what.split_once("events {")?.1.split_once('}')?.0;
        let pairs = list.split(", ").filter_map(|pair| pair.split_once(": "));
        Some(pairs.map(|(kind, count)| (kind.parse().unwrap(), count.parse().unwrap())).collect())
    }

    /// The first byte of the last packet.
    fn last(&self) -> Option<u8> {
        let hex = ["last packet 0x", "final 0x"].iter().find_map(|mark| self.what.split_once(mark))?.1;
        Some(u8::from_str_radix(&hex[..2], 16).unwrap())
    }

    fn nonce(&self) -> Option<Vec<u8>> {
        let hex = self.what.split_once("nonce ")?.1.split_once(',')?.0;
        Some((0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect())
    }
}

fn lines(folder: &std::path::Path) -> Vec<Line> {
    let text = std::fs::read_to_string(folder.join("INDEX.txt")).unwrap();
    let cells = text.lines().filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |"));
    let lines = cells.map(|line| {
        let mut cells = line.splitn(4, " | ");
        let mut next = || cells.next().unwrap().to_owned();
        Line { name: next(), bytes: (next().parse().unwrap(), next().parse().unwrap()), what: next() }
    });
    lines.filter(|line| is_spoken(&line.name)).collect()
}

/// Conformance: W1, W9, W10, W13
/// Bug: 97, 106, 107
#[test]
fn every_recording_is_what_the_index_says() {
    for folder in folders() {
        let lines = lines(&folder);
        let mut names: Vec<_> = lines.iter().map(|line| line.name.clone()).collect();
        names.sort();
        let found = Recording::all(&folder);
        assert!(found.iter().all(|r| names.iter().any(|name| r.name.ends_with(&format!("/{name}")))));
        assert_eq!(found.len(), names.len());
        for line in &lines {
            let recording = Recording::load(&folder, &line.name).unwrap();
            assert_eq!((recording.from_server.len(), recording.from_client.len()), line.bytes, "{}", recording.name);
            let replay = Replay::new(&recording).run(std::iter::once(&recording.from_server[..])).unwrap();
            if let Some(last) = line.last() {
                assert_eq!(replay.last[0], last, "{}", recording.name);
            }
            if let Some(events) = line.events() {
                let mut got = BTreeMap::new();
                for event in &replay.events {
                    *got.entry(event[4]).or_insert(0) += 1;
                }
                assert_eq!(got, events, "{}", recording.name);
            }
            if let Some(nonce) = line.nonce() {
                assert!(replay.nonces.contains(&nonce), "{}", recording.name);
            }
            of_its_kind(&line.name, &replay);
        }
    }
}

/// What the index says in words.
fn of_its_kind(name: &str, replay: &Replay) {
    let logged = |text: &str| replay.log.iter().filter(|line| line.contains(text)).count();
    match name {
        "errors-and-empty" => {
            assert_eq!((logged("error 1064 (42000)"), logged("error 1047 (08S01)"), replay.rows.len()), (1, 1, 1));
            // An empty result, two OKs, a result with rows; before them, what made the session.
            assert_eq!((logged(" columns"), replay.oks.len()), (2, 4));
        }
        "local-infile-refused" => {
            assert_eq!(logged("asked for the local file \"/etc/passwd\""), 1);
            // The session goes on after it.
            assert!(replay.log.last().unwrap().starts_with("done"));
        }
        "session-track" => session_track(replay),
        _ if name.starts_with("dump-compressed") => {
            let row: Vec<_> = replay.rows.iter().flat_map(|row| row.values().map(Result::unwrap)).collect();
            assert_eq!(row, [Value::Bytes(&[b'a'; 40_000])]);
            assert!(replay.events.len() > 50 && logged("end of dump") == 1);
        }
        _ if name.contains("resultsets") => {
            assert!(logged(" columns") >= 10 && replay.rows.len() >= 50 && logged("error") == 0, "{:?}", replay.log);
            assert_eq!(logged("prepared") == logged(" columns"), name.starts_with("binary"));
        }
        _ if name.starts_with("auth-") => assert_eq!((replay.log.len(), logged("greeting")), (1, 1)),
        _ => assert!(name.starts_with("dump-"), "{name}: nothing is asserted of it"),
    }
}

fn session_track(replay: &Replay) {
    let all: Vec<SessionChange<'_>> = replay.oks.iter().flat_map(|ok| ok.changes.iter()).collect();
    let set = |name: &str, value: &str| {
        let is = |change: &SessionChange<'_>| matches!(change, SessionChange::SystemVariable { name: n, value: v } if n == name && v.starts_with(value));
        all.iter().filter(|change| is(change)).count()
    };
    assert_eq!((set("autocommit", "OFF"), set("session_track_transaction_info", "CHARACTERISTICS")), (1, 1));
    let has = |change: SessionChange<'static>| all.iter().filter(|c| **c == change).count();
    assert_eq!(has(SessionChange::Schema("ms".into())), 1);
    assert!(has(SessionChange::StateChanged(true)) >= 3);
    let read_only = SessionChange::TransactionCharacteristics("START TRANSACTION READ ONLY;".into());
    assert_eq!(has(read_only), 1);
    let state = |start, sent_rows, wrote| {
        let state = TransactionState { start, sent_rows, wrote, ..TransactionState::default() };
        has(SessionChange::TransactionState(state))
    };
    // After the row was sent: told by the OK in place of an EOF.
    assert_eq!(state(TransactionStart::Explicit, true, false), 1);
    assert_eq!(
        (state(TransactionStart::Explicit, false, false), state(TransactionStart::Implicit, false, true)),
        (1, 1)
    );
    assert!(state(TransactionStart::None, false, false) >= 2);
    // Three transactions with a GTID.
    let gtids = replay.oks.iter().filter_map(|ok| ok.changes.gtids()).filter(|text| text.contains(":77")).count();
    assert_eq!(gtids + set("last_gtid", "0-133"), 3);
}

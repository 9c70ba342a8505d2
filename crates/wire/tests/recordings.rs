//! Replays recorded sessions with real servers through the sans-IO core: whole, in arbitrary cuts, and cut off anywhere.
//!
//! The recordings are not part of the repository; without them the tests say so and check nothing.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::arithmetic_side_effects,
    clippy::cast_possible_truncation,
    clippy::print_stderr,
    reason = "a test fails by panicking, and says when it was skipped"
)]

#[path = "recordings/index.rs"]
mod index;
#[path = "recordings/replay.rs"]
mod replay;

use bytes::Bytes;
use millstream_wire::auth::{caching_sha2, check_native_password};
use millstream_wire::connect::{Action, Connect, Login, TlsUse};
use millstream_wire::dump::DumpReader;
use millstream_wire::flags::{CapabilityFlags, ColumnFlags};
use millstream_wire::handshake::{HandshakeResponse41, HandshakeV10};
use millstream_wire::prepare::PrepareReader;
use millstream_wire::query::ResultReader;
use millstream_wire::{ColumnDefinition, ColumnType, Row, RowFormat, Value};

use crate::replay::{Recording, Replay, folders, payloads, without_frames};

/// Conformance: W1, W9, W10, W11, W12
/// Bug: 97, 103
#[test]
fn every_recording_replays_whole_and_in_any_cut() {
    for folder in folders() {
        let mut count = 0;
        for recording in &Recording::all(&folder) {
            let whole = Replay::new(recording).run(std::iter::once(&recording.from_server[..])).unwrap();
            let sent = (without_frames(&whole.sent), without_frames(&recording.from_client));
            assert_eq!(sent.0, sent.1, "{}: what the client sends", recording.name);
            for row in &whole.rows {
                for value in row.values() {
                    value.unwrap_or_else(|e| panic!("{}: {e}", recording.name));
                }
            }
            for event in &whole.events {
                let declared = u32::from_le_bytes(event[9..13].try_into().unwrap());
                assert_eq!(event.len(), declared as usize, "{}", recording.name);
            }
            let bytes = Replay::new(recording).run(recording.from_server.chunks(1)).unwrap();
            assert_eq!(bytes.digest(), whole.digest(), "{} byte by byte", recording.name);
            // The same in every run, and different in each round.
            let mut rng = fastrand::Rng::with_seed(1);
            for _ in 0..3 {
                let mut rest = &recording.from_server[..];
                let pieces = std::iter::from_fn(|| {
                    let (head, tail) = rest.split_at(rng.usize(1..=700).min(rest.len()));
                    rest = tail;
                    (!head.is_empty()).then_some(head)
                });
                let cut = Replay::new(recording).run(pieces).unwrap();
                assert_eq!(cut.digest(), whole.digest(), "{}", recording.name);
            }
            count += 1;
        }
        assert!(count >= 14, "{}: {count} recordings", folder.display());
    }
}

#[test]
fn a_recording_cut_off_anywhere_is_its_beginning() {
    for folder in folders() {
        for recording in &Recording::all(&folder) {
            let bytes = &recording.from_server;
            let whole = Replay::new(recording).run(std::iter::once(&bytes[..])).unwrap();
            let near = 0..bytes.len().min(1500);
            let far = (1500..bytes.len()).step_by(1 + bytes.len() / 100);
            for cut in near.chain(far) {
                let part = Replay::new(recording).run(std::iter::once(&bytes[..cut])).unwrap();
                assert!(whole.log.starts_with(&part.log), "{} cut at {cut}", recording.name);
                assert!(whole.events.starts_with(&part.events), "{} cut at {cut}", recording.name);
                assert!(part.rows.len() <= whole.rows.len());
            }
        }
    }
}

#[test]
fn every_prefix_of_every_packet_is_an_error_or_a_value_and_never_a_panic() {
    for folder in folders() {
        for recording in &Recording::all(&folder) {
            let whole = Replay::new(recording).run(std::iter::once(&recording.from_server[..])).unwrap();
            for row in &whole.rows {
                let packet = row.packet();
                for cut in (0..packet.len()).step_by(1 + packet.len() / 200) {
                    let cut_row = Row::new(packet.slice(..cut), row_columns(row), row.format());
                    assert!(cut_row.values().any(|v| v.is_err()), "{}", recording.name);
                }
            }
            for payload in payloads(&recording.from_server).iter().take(40) {
                for cut in 0..payload.len().min(600) {
                    let part = &payload[..cut];
                    for caps in [CapabilityFlags::empty(), CapabilityFlags::all()] {
                        let mut readers =
                            [RowFormat::Text, RowFormat::Binary].map(|format| ResultReader::new(caps, format));
                        for reader in &mut readers {
                            drop(reader.handle(&[1]));
                            drop(reader.handle(part));
                        }
                        drop(ResultReader::new(caps, RowFormat::Text).handle(part));
                        drop(PrepareReader::new(caps).handle(part));
                    }
                    drop(HandshakeV10::parse(part));
                    drop(DumpReader::new(true, true).handle(Bytes::copy_from_slice(part)));
                }
            }
        }
    }
}

fn row_columns(row: &Row) -> std::sync::Arc<[ColumnDefinition]> {
    row.columns().to_vec().into()
}

/// The text protocol is the oracle of the binary one: the same tables were read by both, and mean the same.
///
/// Conformance: W11, W12
/// Bug: 2, 4, 16, 17, 19, 22, 25, 108
#[test]
fn text_and_binary_rows_hold_the_same_values() {
    for folder in folders() {
        for variant in ["", "-deprecate-eof"] {
            let rows = |kind: &str| {
                let r = Recording::load(&folder, &format!("{kind}-resultsets{variant}")).unwrap();
                Replay::new(&r).run(std::iter::once(&r.from_server[..])).unwrap().rows
            };
            let (text, binary) = (rows("text"), rows("binary"));
            assert_eq!(text.len(), binary.len());
            let mut compared = 0;
            for (t, b) in text.iter().zip(&binary) {
                let texts = t.texts().map(Result::unwrap);
                for (((text, tv), bv), column) in texts.zip(t.values()).zip(b.values()).zip(b.columns()) {
                    let (tv, value) = (tv.unwrap(), bv.unwrap());
                    match (tv, value) {
                        // The text of a FLOAT keeps six digits, or the column's decimals.
                        (Value::Float(t), Value::Float(b)) => {
                            let unit = if column.decimals < 31 { 0.1f32.powi(column.decimals.into()) } else { 0.0 };
                            assert!((t - b).abs() <= (b.abs() * 1e-5).max(unit), "{} {t} {b}", column.name);
                        }
                        _ => assert_eq!(tv, value, "{column:?}"),
                    }
                    // And the other way round: printed as the server prints it.
                    match value {
                        Value::Float(_) | Value::Double(_) => {}
                        value => assert_eq!(print(value, column).as_deref(), text, "{column:?}"),
                    }
                    compared += 1;
                }
            }
            assert!(compared > 500, "{}: {compared} values", folder.display());
        }
    }
}

fn print(value: Value<'_>, column: &ColumnDefinition) -> Option<Vec<u8>> {
    let fraction = |micros: u32| {
        let digits = usize::from(column.decimals.min(6));
        let all = format!("{micros:06}");
        if digits == 0 { String::new() } else { format!(".{}", &all[..digits]) }
    };
    let zerofill = column.flags.contains(ColumnFlags::ZEROFILL);
    Some(match value {
        Value::Null => return None,
        Value::Bytes(bytes) => bytes.to_vec(),
        Value::UInt(v) if column.column_type == ColumnType::YEAR => format!("{v:04}").into_bytes(),
        Value::UInt(v) if zerofill => format!("{v:0width$}", width = column.length as usize).into_bytes(),
        Value::Int(v) => v.to_string().into_bytes(),
        Value::UInt(v) => v.to_string().into_bytes(),
        Value::Date { year, month, day } => format!("{year:04}-{month:02}-{day:02}").into_bytes(),
        Value::DateTime { year, month, day, hour, minute, second, micros } => {
            format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}{}", fraction(micros)).into_bytes()
        }
        Value::Time { negative, days, hours, minutes, seconds, micros } => {
            let sign = if negative { "-" } else { "" };
            let hours = days * 24 + u32::from(hours);
            format!("{sign}{hours:02}:{minutes:02}:{seconds:02}{}", fraction(micros)).into_bytes()
        }
        other => panic!("{other:?}"),
    })
}

/// Conformance: W3, W4, W5, W6, W7
#[test]
fn logins_are_answered_as_the_recorded_client_did() {
    for folder in folders() {
        for recording in Recording::all(&folder).iter().filter(|r| r.name.contains("/auth-")) {
            // One with a recorded wrong password.
            let password = if recording.name.contains("wrong") { "not the password" } else { "pa55-w0rd" };
            let mut connect = Connect::new(Login {
                user: "fast".into(),
                password: password.into(),
                tls: TlsUse::Never,
                allow_public_key_retrieval: true,
                client_nonce: Some(std::array::from_fn(|i| i as u8)),
                max_packet: 1 << 24,
                ..Login::default()
            })
            .unwrap();
            let said = payloads(&recording.from_client);
            let mut said = said.iter();
            let mut done = false;
            let mut failed = None;
            for packet in payloads(&recording.from_server) {
                match connect.handle(&packet) {
                    Ok(Action::Send(answer)) => {
                        let recorded = said.next().unwrap();
                        if packet[0] == 10 {
                            let (ours, theirs) = (
                                HandshakeResponse41::parse(&answer).unwrap(),
                                HandshakeResponse41::parse(recorded).unwrap(),
                            );
                            if ours.plugin == theirs.plugin
                                && theirs.auth.len() > 1
                                && !recording.name.contains("wrong")
                            {
                                assert_eq!(ours.auth, theirs.auth, "{}", recording.name);
                            }
                        } else if !recording.name.contains("wrong") {
                            assert_eq!(&answer[..], &recorded[..], "{}", recording.name);
                        }
                    }
                    Ok(Action::Encrypt { public_key_pem, .. }) => {
                        assert!(public_key_pem.starts_with(b"-----BEGIN PUBLIC KEY-----"));
                        let recorded = said.next().unwrap();
                        assert!(matches!(connect.encrypted(recorded.clone()).unwrap(), Action::Send(_)));
                    }
                    Ok(Action::Done(session)) => {
                        assert!(!session.tls);
                        done = true;
                    }
                    Ok(_) => {}
                    Err(e) => {
                        failed = Some(e);
                        break;
                    }
                }
            }
            assert!(done && said.next().is_none(), "{}: {failed:?}", recording.name);
        }
    }
}

#[test]
fn scrambles_match_what_servers_accepted() {
    let mut checked = 0;
    for folder in folders() {
        for recording in &Recording::all(&folder) {
            let greeting = HandshakeV10::parse(&payloads(&recording.from_server)[0]).unwrap();
            let said = payloads(&recording.from_client);
            let login = HandshakeResponse41::parse(&said[0]).unwrap();
            if recording.name.ends_with("/auth-native") {
                assert!(check_native_password(b"pa55-w0rd", &greeting.nonce, login.auth));
                checked += 1;
            }
            if recording.name.ends_with("/auth-caching-sha2-fast") {
                assert_eq!(login.auth, caching_sha2(b"pa55-w0rd", &greeting.nonce));
                checked += 1;
            }
        }
    }
    assert!(checked == 4 || folders().is_empty(), "{checked}");
}

#[test]
fn errors_of_dumps_are_told_apart() {
    for folder in folders() {
        let last = |name: &str| {
            let r = Recording::load(&folder, name)?;
            let err = payloads(&r.from_server).pop_back()?;
            DumpReader::new(false, true).handle(Bytes::from(err)).err()
        };
        for (name, lost) in [
            ("dump-missing-file", true),
            ("dump-midpos-bad", true),
            ("dump-no-checksum-var", false),
            ("dump-gtid-malformed", false),
        ] {
            if let Some(e) = last(name) {
                assert_eq!(e.is_position_lost(), lost, "{}/{name}: {e}", folder.display());
                assert!(!e.is_retryable() && !e.is_duplicate_replica(), "{e}");
            } else {
                assert!(name.contains("gtid"), "{}/{name}: no error", folder.display());
            }
        }
    }
}

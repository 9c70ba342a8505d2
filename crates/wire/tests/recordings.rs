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

use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use bytes::{Bytes, BytesMut};
use millstream_wire::auth::{caching_sha2, check_native_password};
use millstream_wire::compress::{CompressedFrames, Compression};
use millstream_wire::connect::{Action, Connect, Login, TlsUse};
use millstream_wire::dump::DumpReader;
use millstream_wire::flags::{CapabilityFlags, ColumnFlags};
use millstream_wire::handshake::{HandshakeResponse41, HandshakeV10};
use millstream_wire::packet::{LOGIN_LIMIT, MAX_PACKET, PacketCodec};
use millstream_wire::prepare::PrepareReader;
use millstream_wire::query::{QueryEvent, ResultReader};
use millstream_wire::response::{Phase, Reply, classify, parse_err};
use millstream_wire::{ColumnType, Error, Row, RowFormat, Value, command};

fn folders() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/corpus/generated/wire");
    let Ok(dir) = std::fs::read_dir(&root) else {
        eprintln!("skipped: no recordings in {}", root.display());
        return Vec::new();
    };
    let mut folders: Vec<_> = dir.map(|e| e.unwrap().path()).filter(|p| p.is_dir()).collect();
    folders.sort();
    folders
}

struct Recording {
    name: String,
    from_server: Vec<u8>,
    from_client: Vec<u8>,
}

impl Recording {
    fn load(folder: &Path, name: &str) -> Option<Self> {
        let read = |ext: &str| std::fs::read(folder.join(format!("{name}.{ext}"))).ok();
        let name = format!("{}/{name}", folder.file_name().unwrap().to_string_lossy());
        Some(Self { name, from_server: read("s2c")?, from_client: read("c2s")? })
    }

    fn all(folder: &Path) -> Vec<Self> {
        let mut names: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .filter_map(|e| e.unwrap().file_name().to_str()?.strip_suffix(".s2c").map(String::from))
            .collect();
        names.sort();
        names.iter().map(|n| Self::load(folder, n).unwrap()).collect()
    }
}

/// What a side is compressed with after its login, by the capabilities that the client sent.
fn compression(caps: CapabilityFlags) -> Compression {
    match caps {
        c if c.contains(CapabilityFlags::COMPRESS) => Compression::Zlib,
        c if c.contains(CapabilityFlags::ZSTD_COMPRESSION) => Compression::Zstd { level: 3 },
        _ => Compression::None,
    }
}

/// The client's side without the frames of compression around it.
fn without_frames(from_client: &[u8]) -> Vec<u8> {
    let login = payloads(from_client).swap_remove_front(0).unwrap();
    let compression = compression(HandshakeResponse41::parse(&login).unwrap().capabilities);
    if compression == Compression::None {
        return from_client.to_vec();
    }
    let (login, rest) = from_client.split_at(login.len() + 4);
    let (mut frames, mut plain) = (BytesMut::from(rest), BytesMut::from(login));
    let mut codec = CompressedFrames::new(compression).unwrap();
    while !frames.is_empty() {
        // Every command of the recordings is one frame.
        codec.begin_command();
        assert!(codec.decode(&mut frames, &mut plain).unwrap());
    }
    plain.to_vec()
}

/// Frames of one direction, without joining: the recordings hold no packet of 16 MiB.
fn payloads(mut bytes: &[u8]) -> VecDeque<Vec<u8>> {
    let mut out = VecDeque::new();
    while let Some((&[a, b, c, _], rest)) = bytes.split_first_chunk::<4>() {
        // In a compressed session only the login has frames of this kind.
        let len = usize::from(a) | usize::from(b) << 8 | usize::from(c) << 16;
        let Some((payload, rest)) = rest.split_at_checked(len) else { break };
        out.push_back(payload.to_vec());
        bytes = rest;
    }
    out
}

enum Reading {
    Greeting,
    Login,
    Idle,
    Results(ResultReader),
    Prepare(PrepareReader),
    Dump(DumpReader),
}

/// The client of a recording: says what the recorded client said and understands the answers with the real core.
struct Replay {
    codec: PacketCodec,
    /// The frames around all packets after the login of a compressed session, and what came out of them.
    compressed: Option<(CompressedFrames, BytesMut)>,
    said: VecDeque<Vec<u8>>,
    /// What `PacketCodec::encode` made of it.
    sent: Vec<u8>,
    caps: CapabilityFlags,
    reading: Reading,
    semi_sync: bool,
    columns: std::sync::Arc<[millstream_wire::ColumnDefinition]>,
    rows: Vec<Row>,
    events: Vec<Bytes>,
    log: Vec<String>,
}

impl Replay {
    fn new(recording: &Recording) -> Self {
        Self {
            codec: PacketCodec::new(LOGIN_LIMIT),
            compressed: None,
            said: payloads(&without_frames(&recording.from_client)),
            sent: Vec::new(),
            caps: CapabilityFlags::empty(),
            reading: Reading::Greeting,
            semi_sync: recording.name.contains("semisync"),
            columns: std::sync::Arc::new([]),
            rows: Vec::new(),
            events: Vec::new(),
            log: Vec::new(),
        }
    }

    /// What the recorded client acknowledged here.
    fn acknowledge(&mut self) {
        let payload = self.said.pop_front().unwrap();
        let (position, file) = payload[1..].split_first_chunk::<8>().unwrap();
        let position = u64::from_le_bytes(*position);
        assert_eq!(command::acknowledge(std::str::from_utf8(file).unwrap(), position), payload);
        self.codec.encode_apart(&payload, &mut self.sent);
    }

    fn say(&mut self) -> Option<Vec<u8>> {
        let payload = self.said.pop_front()?;
        match &mut self.compressed {
            None => self.codec.encode(&payload, &mut self.sent),
            Some((frames, _)) => {
                let mut packet = Vec::new();
                self.codec.encode(&payload, &mut packet);
                frames.encode(&packet, &mut self.sent);
            }
        }
        Some(payload)
    }

    /// The next command, once the last one is answered.
    fn command(&mut self) {
        self.reading = Reading::Idle;
        while matches!(self.reading, Reading::Idle) && !self.said.is_empty() {
            self.codec.begin_command();
            if let Some((frames, _)) = &mut self.compressed {
                frames.begin_command();
            }
            let payload = self.say().unwrap();
            self.reading = match payload[0] {
                0x17 => Reading::Results(ResultReader::new(self.caps, RowFormat::Binary)),
                0x16 => Reading::Prepare(PrepareReader::new(self.caps)),
                0x12 | 0x1e => Reading::Dump(DumpReader::new(self.semi_sync, true)),
                0x19 => Reading::Idle,
                _ => Reading::Results(ResultReader::new(self.caps, RowFormat::Text)),
            };
        }
    }

    fn packet(&mut self, packet: Bytes) -> Result<(), Error> {
        match &mut self.reading {
            Reading::Greeting => {
                let greeting = HandshakeV10::parse(&packet)?;
                assert_eq!(greeting.encode().len(), packet.len());
                self.log.push(format!("greeting {} {}", greeting.server_version, greeting.auth_plugin));
                let login = self.say().unwrap();
                self.caps = HandshakeResponse41::parse(&login)?.capabilities;
                self.reading = Reading::Login;
            }
            Reading::Login => match classify(&packet, self.caps, Phase::Login)? {
                Reply::Ok => {
                    self.codec.set_limit(MAX_PACKET);
                    let compression = compression(self.caps);
                    if compression != Compression::None {
                        self.codec.ignore_order();
                        self.compressed = Some((CompressedFrames::new(compression)?, BytesMut::new()));
                    }
                    self.command();
                }
                Reply::Err => {
                    self.log.push(format!("refused {}", parse_err(&packet)?));
                    self.command();
                }
                Reply::AuthMore if packet[1..] == [3] => {}
                Reply::AuthMore | Reply::AuthSwitch => drop(self.say()),
                other => panic!("{other:?}"),
            },
            Reading::Idle => panic!("nobody asked for {packet:?}"),
            Reading::Results(reader) => {
                let format = reader.format();
                let event = reader.handle(&packet);
                let finished = reader.is_finished();
                match event {
                    Ok(QueryEvent::Columns(columns)) => {
                        self.log.push(format!("{} columns", columns.len()));
                        self.columns = columns;
                    }
                    Ok(QueryEvent::Row) => self.rows.push(Row::new(packet, self.columns.clone(), format)),
                    Ok(QueryEvent::Done { ok, .. }) => self.log.push(format!("done {} {}", ok.affected_rows, ok.info)),
                    Ok(_) => {}
                    Err(e) if e.server_error().is_some() => self.log.push(format!("error {e}")),
                    Err(e) => return Err(e),
                }
                if finished {
                    self.command();
                }
            }
            Reading::Prepare(reader) => {
                if let Some(prepared) = reader.handle(&packet)? {
                    self.log.push(format!("prepared {} {}", prepared.id, prepared.columns.len()));
                    self.command();
                }
            }
            Reading::Dump(reader) => match reader.handle(packet) {
                Ok(Some(event)) => {
                    self.events.push(event.bytes);
                    if event.wants_ack {
                        self.codec.begin_answer();
                        self.acknowledge();
                    }
                }
                Ok(None) => self.log.push("end of dump".into()),
                Err(e) => self.log.push(format!("dump {e}")),
            },
        }
        Ok(())
    }

    fn feed(&mut self, input: &mut BytesMut) -> Result<(), Error> {
        loop {
            let packet = match &mut self.compressed {
                None => self.codec.decode(input)?,
                Some((frames, plain)) => match self.codec.decode(plain)? {
                    None if frames.decode(input, plain)? => continue,
                    packet => packet,
                },
            };
            match packet {
                Some(packet) => self.packet(packet)?,
                None => return Ok(()),
            }
        }
    }

    fn run<'a>(mut self, pieces: impl Iterator<Item = &'a [u8]>) -> Result<Self, Error> {
        let mut input = BytesMut::new();
        for piece in pieces {
            input.extend_from_slice(piece);
            self.feed(&mut input)?;
        }
        Ok(self)
    }

    /// All that was understood, to compare.
    fn digest(&self) -> (Vec<String>, Vec<Vec<u8>>, &[Bytes]) {
        (self.log.clone(), self.rows.iter().map(|r| r.packet().to_vec()).collect(), &self.events)
    }
}

/// A request for a local file is refused.
fn is_spoken(name: &str) -> bool {
    !name.contains("local-infile")
}

/// Conformance: W1, W9, W10, W11, W12
/// Bug: 97, 103
#[test]
fn every_recording_replays_whole_and_in_any_cut() {
    for folder in folders() {
        let mut count = 0;
        for recording in Recording::all(&folder).iter().filter(|r| is_spoken(&r.name)) {
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
            // Cuts from a small generator: reproducible, and different in each round.
            let mut seed = 0x2545_f491_4f6c_dd1du64;
            for _ in 0..4 {
                let mut rest = &recording.from_server[..];
                let pieces = std::iter::from_fn(|| {
                    seed ^= seed << 13;
                    seed ^= seed >> 7;
                    seed ^= seed << 17;
                    let (head, tail) = rest.split_at((1 + seed as usize % 700).min(rest.len()));
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
        for recording in Recording::all(&folder).iter().filter(|r| is_spoken(&r.name)) {
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
        for recording in Recording::all(&folder).iter().filter(|r| is_spoken(&r.name)) {
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

fn row_columns(row: &Row) -> std::sync::Arc<[millstream_wire::ColumnDefinition]> {
    row.columns().to_vec().into()
}

/// The text protocol is the oracle of the binary one: the same tables were read by both.
#[test]
fn binary_values_print_as_the_text_protocol_has_them() {
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
                for ((tv, bv), column) in t.values().zip(b.values()).zip(b.columns()) {
                    let expected = match tv.unwrap() {
                        Value::Null => None,
                        Value::Bytes(bytes) => Some(bytes.to_vec()),
                        other => panic!("{other:?}"),
                    };
                    let value = bv.unwrap();
                    match (value, &expected) {
                        (Value::Float(f), Some(bytes)) => {
                            let printed: f64 = std::str::from_utf8(bytes).unwrap().parse().unwrap();
                            let (f, unit) = (f64::from(f), 10f64.powi(-i32::from(column.decimals.min(30))));
                            // The text protocol keeps six digits, or the column's decimals.
                            let slack = (f.abs() * 1e-5).max(if column.decimals < 31 { unit } else { 0.0 });
                            assert!((printed - f).abs() <= slack, "{} {printed} {f}", column.name);
                        }
                        (Value::Double(f), Some(bytes)) => {
                            let printed: f64 = std::str::from_utf8(bytes).unwrap().parse().unwrap();
                            let unit = 10f64.powi(-i32::from(column.decimals.min(30)));
                            let slack = if column.decimals < 31 { unit } else { f.abs() * 1e-15 };
                            assert!((printed - f).abs() <= slack, "{} {printed} {f}", column.name);
                        }
                        _ => assert_eq!(print(value, column).as_deref(), expected.as_deref(), "{column:?}"),
                    }
                    compared += 1;
                }
            }
            assert!(compared > 500, "{}: {compared} values", folder.display());
        }
    }
}

fn print(value: Value<'_>, column: &millstream_wire::ColumnDefinition) -> Option<Vec<u8>> {
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

#[test]
fn logins_are_answered_as_the_recorded_client_did() {
    for folder in folders() {
        for recording in Recording::all(&folder).iter().filter(|r| r.name.contains("/auth-")) {
            // A recorded wrong password, and plugins this client names and refuses.
            let refused = ["ed25519", "parsec"].iter().find(|p| recording.name.contains(**p));
            let password = if recording.name.contains("wrong") { "not the password" } else { "pa55-w0rd" };
            let mut connect = Connect::new(Login {
                user: "fast".into(),
                password: password.into(),
                tls: TlsUse::Never,
                allow_public_key_retrieval: true,
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
            match refused {
                Some(plugin) => {
                    let e = failed.unwrap();
                    assert!(e.is_auth() && e.to_string().contains(plugin), "{e}");
                }
                None => assert!(done, "{}: {failed:?}", recording.name),
            }
        }
    }
}

#[test]
fn scrambles_match_what_servers_accepted() {
    let mut checked = 0;
    for folder in folders() {
        for recording in Recording::all(&folder).iter().filter(|r| is_spoken(&r.name)) {
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

#[test]
fn a_request_for_a_local_file_is_refused() {
    for folder in folders() {
        let r = Recording::load(&folder, "local-infile-refused").unwrap();
        let request = payloads(&r.from_server).into_iter().find(|p| p.first() == Some(&0xfb)).unwrap();
        let mut reader = ResultReader::new(CapabilityFlags::empty(), RowFormat::Text);
        let e = reader.handle(&request).unwrap_err();
        assert!(e.to_string().contains("local file"), "{e}");
        assert!(reader.is_finished());
    }
}

//! Every prefix and every single-byte edit of recorded sessions: no panic, and memory and steps in proportion.
//!
//! The recordings in the fuzz corpus are tried at every byte with every value.
//! The large ones beside the repository are tried answer by answer at seeded places, 20,000 in each with
//! `MILLSTREAM_LONG=1`.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use allocation_counter::measure;
use bytes::{Bytes, BytesMut};
use fastrand::Rng;
use millstream_wire::compress::{CompressedFrames, Compression};
use millstream_wire::connect::{Action, Connect, Login};
use millstream_wire::dump::DumpReader;
use millstream_wire::flags::CapabilityFlags;
use millstream_wire::handshake::HandshakeV10;
use millstream_wire::packet::{LOGIN_LIMIT, PacketCodec};
use millstream_wire::prepare::PrepareReader;
use millstream_wire::query::{QueryEvent, ResultReader};
use millstream_wire::{ColumnDefinition, Row, RowFormat};

/// Peak memory of a session that is read to its end, its read buffer included: this much, and so much for each byte.
const FIXED: usize = 2 << 10;
const PER_BYTE: usize = 128;
/// Beside them, what a compressed frame is opened into at once, and zlib's own state. zstd's is not seen from Rust: it is
/// the window that the frame asks for, at most 16 MiB.
const OPENING: usize = 512 << 10;

fn is_long() -> bool {
    std::env::var_os("MILLSTREAM_LONG").is_some()
}

/// Packets of a stream, whatever their numbers.
fn packets(stream: &[u8]) -> Vec<Bytes> {
    let mut codec = PacketCodec::new(LOGIN_LIMIT);
    codec.ignore_order();
    let (mut buf, mut out) = (BytesMut::from(stream), Vec::new());
    while let Ok(Some(packet)) = codec.decode(&mut buf) {
        out.push(packet);
    }
    out
}

/// The login that a stream begins with. How many packets it took.
fn login(stream: &[u8]) -> usize {
    let login = Login { user: "user".into(), password: "password".into(), max_packet: 1 << 24, ..Login::default() };
    let mut connect = Connect::new(login).unwrap();
    let mut steps = 0;
    for packet in packets(stream) {
        steps += 1;
        match connect.handle(&packet) {
            Ok(Action::Encrypt { .. }) => drop(connect.encrypted(vec![0; 256])),
            Ok(Action::Done(_)) | Err(_) => break,
            Ok(_) => {}
        }
    }
    steps
}

/// The packets as every kind of answer. How many values there were.
fn answers(stream: &[u8]) -> usize {
    let packets = packets(stream);
    let mut steps = packets.len();
    for caps in [CapabilityFlags::PROTOCOL_41, CapabilityFlags::all()] {
        for format in [RowFormat::Text, RowFormat::Binary] {
            let mut reader = ResultReader::new(caps, format);
            let mut columns: Arc<[ColumnDefinition]> = Arc::new([]);
            for packet in &packets {
                match reader.handle(packet) {
                    Ok(QueryEvent::Columns(known)) => columns = known,
                    Ok(QueryEvent::Row) => {
                        steps += Row::new(packet.clone(), Arc::clone(&columns), format).values().count();
                    }
                    Ok(QueryEvent::Done { ok, .. }) => steps += ok.changes.iter().count(),
                    Ok(_) => {}
                    Err(_) => reader = ResultReader::new(caps, format),
                }
                if reader.is_finished() {
                    reader = ResultReader::new(caps, format);
                }
            }
        }
        let mut reader = PrepareReader::new(caps);
        for packet in &packets {
            if !matches!(reader.handle(packet), Ok(None)) {
                reader = PrepareReader::new(caps);
            }
        }
    }
    for packet in &packets {
        drop(DumpReader::new(true, true).handle(packet.clone()));
    }
    steps
}

fn check(stream: &[u8], read: fn(&[u8]) -> usize, more: usize) -> usize {
    let mut steps = 0;
    let used = measure(|| steps = read(stream));
    let peak = usize::try_from(used.bytes_max).unwrap();
    let bound = FIXED + PER_BYTE * stream.len() + more;
    assert!(peak <= bound, "{peak} bytes for {}", stream.len());
    assert!(usize::try_from(used.bytes_total).unwrap() <= 16 * bound, "{} in all", used.bytes_total);
    // Four readings, and a null bitmap has eight values in a byte.
    assert!(steps <= 64 + 32 * stream.len(), "{steps} steps for {}", stream.len());
    peak.saturating_sub(FIXED) / stream.len().max(1)
}

/// All prefixes and edits of a stream; the most bytes for each of its bytes.
fn every(stream: &[u8], read: fn(&[u8]) -> usize, until: usize) -> usize {
    let mut most = 0;
    let mut edited = stream.to_vec();
    for at in 0..until {
        most = most.max(check(&stream[..at], read, 0));
        for value in 0..=255 {
            edited[at] = value;
            most = most.max(check(&edited, read, 0));
        }
        edited[at] = stream[at];
    }
    most
}

fn sorted(dir: &Path) -> Vec<PathBuf> {
    let mut files: Vec<_> = std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().path()).collect();
    files.sort();
    files
}

/// Conformance: P3
/// Bug: 102, 116
#[test]
fn prefixes_and_edits_of_sessions_take_memory_and_steps_in_proportion() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/packet");
    let paths = sorted(&dir);
    // Memory is counted by thread. Two take the recordings in turns.
    let next = AtomicUsize::new(0);
    let worker = || {
        let (mut logins, mut most) = (0, 0);
        while let Some(path) = paths.get(next.fetch_add(1, Ordering::Relaxed)) {
            let recording = std::fs::read(path).unwrap();
            // Two bytes choose the target's options.
            let stream = &recording[2..];
            most = most.max(every(stream, answers, stream.len()));
            if HandshakeV10::parse(&packets(stream)[0]).is_ok() {
                logins += 1;
                // Beyond the login nothing changes it.
                let end: usize = packets(stream).iter().take(login(stream)).map(|p| p.len() + 4).sum();
                most = most.max(every(&stream[..end], login, end));
            }
        }
        (logins, most)
    };
    let (one, two) = std::thread::scope(|scope| {
        let other = scope.spawn(worker);
        (worker(), other.join().unwrap())
    });
    let (logins, most) = (one.0 + two.0, one.1.max(two.1));
    println!("at most {most} bytes for each byte beyond {FIXED}");
    assert!(logins > 10);
}

#[test]
fn samples_of_large_recordings_take_memory_and_steps_in_proportion() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/corpus/generated/wire");
    if !root.is_dir() {
        return println!("skipped: no recordings in {}", root.display());
    }
    let samples = if is_long() { 20_000 } else { 300 };
    let mut seeded = Rng::with_seed(0x2545_f491_4f6c_dd1d);
    for path in sorted(&root).iter().filter(|p| p.is_dir()).flat_map(|folder| sorted(folder)) {
        if path.extension().is_none_or(|e| e != "s2c") {
            continue;
        }
        let stream = std::fs::read(&path).unwrap();
        // Answers begin with number 1; of a long one the front is enough.
        let (mut parts, mut rest) = (vec![Vec::new()], &stream[..]);
        while let Some((&[a, b, c, sequence], tail)) = rest.split_first_chunk::<4>() {
            let len = usize::from(a) | usize::from(b) << 8 | usize::from(c) << 16;
            let (frame, tail) = rest.split_at(4 + len.min(tail.len()));
            if sequence == 1 {
                parts.push(Vec::new());
            }
            let part = parts.last_mut().unwrap();
            if part.len() < 4 << 10 {
                part.extend_from_slice(frame);
            }
            rest = tail;
        }
        parts.retain(|part| !part.is_empty());
        for n in 0..samples {
            let part = &parts[seeded.usize(..parts.len())];
            let at = seeded.usize(..part.len());
            if n % 2 == 0 {
                check(&part[..at], answers, 0);
            } else {
                let mut edited = part.clone();
                edited[at] = seeded.u8(..);
                check(&edited, answers, 0);
            }
        }
    }
}

/// Frames that declare what they do not hold, and hold what they do not declare.
#[test]
fn prefixes_and_edits_of_compressed_frames_take_memory_in_proportion() {
    if !cfg!(all(feature = "zlib", feature = "zstd")) {
        eprintln!("skipped: this build has not both algorithms");
        return;
    }
    fn open(input: &[u8]) -> usize {
        let (algorithm, stream) = input.split_first().unwrap();
        let algorithm = if *algorithm == 1 { Compression::Zlib } else { Compression::Zstd { level: 1 } };
        let mut frames = CompressedFrames::new(algorithm).unwrap();
        let (mut buf, mut out, mut steps) = (BytesMut::from(stream), BytesMut::new(), 0);
        while let Ok(true) = frames.decode(&mut buf, &mut out) {
            steps += 1;
        }
        steps
    }
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/compressed");
    for path in sorted(&dir) {
        let recording = std::fs::read(&path).unwrap();
        // The first byte is the algorithm, the second the target's.
        let frames = [&recording[..1], &recording[2..]].concat();
        let mut edited = frames.clone();
        let step = if is_long() { 1 } else { 1 + frames.len() / 50 };
        for at in (1..frames.len()).step_by(step) {
            check(&frames[..at], open, OPENING);
            for value in [0, 1, 0x7f, 0xff, frames[at] ^ 1] {
                edited[at] = value;
                check(&edited, open, OPENING);
            }
            edited[at] = frames[at];
        }
    }
}

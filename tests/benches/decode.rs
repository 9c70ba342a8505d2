//! What decoding, filtering and encoding cost, against reading and checking alone in the same run:
//! `cargo bench -p millstream-tests --bench decode`. `LAB_SIZE` is the share of the full logs (0.1), `ROUNDS` how often each
//! way runs (3). One thread (its processor time), the logs from the page cache, CRCs checked,
//! every value visited.

use std::collections::HashMap;
use std::error::Error;
use std::fs::File;
use std::hint::black_box;
use std::io::Read as _;
use std::path::Path;

use allocation_counter::measure;
use millstream_binlog::event::{EventBody, PayloadReader};
use millstream_binlog::{BinlogFile, DecoderOptions, EventDecoder, Position, Row, RowChange, TableSchema};
use millstream_doris_sink::{Batch, EncodeOptions, InvalidDate, Mode, Op, RowEncoder, RowMeta, TargetTable};
use millstream_engine::delivery::Passed;
use millstream_engine::key::{Collations, KeyCodec};
use millstream_engine::merge::{ChangeKind, Key, KeyRange, Merge, Rules, TableId, Verdict};
use millstream_tests::lab::measure::{Done, Rounds};
use millstream_tests::lab::{self, Size, Workload};
use millstream_wire::codec::Reader;

type Failure = Box<dyn Error>;

const MAX_EVENT: usize = 1 << 30;
/// A load is sealed and begun anew at this size.
const LOAD: usize = 16 << 20;
/// Ranges that a key is looked up in.
const RANGES: i64 = 1000;

/// What is done with every row.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Work {
    Visit,
    Filter,
    Append,
    Upsert,
}

struct Table {
    definition: Vec<u8>,
    schema: TableSchema,
    codec: KeyCodec,
    encoder: RowEncoder,
    merge: Merge<()>,
}

impl Table {
    fn new(definition: &[u8], mut schema: TableSchema, work: Work) -> Result<Self, Failure> {
        if schema.key.is_empty() {
            schema.key = vec![0];
        }
        let codec = KeyCodec::new(&schema, &Collations::default())?;
        let mode = if work == Work::Upsert { Mode::Upsert } else { Mode::Append };
        let target = TargetTable::plan(&schema, "bench", "t", mode)?;
        let options = EncodeOptions { invalid_date: InvalidDate::Null, ..EncodeOptions::default() };
        let encoder = RowEncoder::new(&schema, &target, &options);
        let mut merge = Merge::new(Passed::default(), None, Rules::default());
        // Every other range is Done: the key decides.
        let bound = |n: i64| -> Result<Key, Failure> {
            let mut key = Vec::new();
            let unsigned = schema.columns.first().is_some_and(|c| format!("{:?}", c.ty).contains("unsigned: true"));
            let value = n * 2_000;
            let value = if unsigned {
                millstream_binlog::ColumnValue::UInt(value.unsigned_abs())
            } else {
                millstream_binlog::ColumnValue::Int(value)
            };
            codec.encode(|_| Some(value), |_, _| None, &mut key)?;
            Ok(key.into())
        };
        let mut done = Vec::new();
        for n in (0..RANGES).step_by(2) {
            done.push(KeyRange { lo: Some(bound(n)?), hi: Some(bound(n + 1)?) });
        }
        merge.add_table(TableId(1), &done, false, None);
        merge.advance(Position::new("b.000001", 4));
        Ok(Self { definition: definition.to_vec(), schema, codec, encoder, merge })
    }
}

struct Worker {
    work: Work,
    tables: HashMap<u64, Table>,
    batch: Batch,
    key: Vec<u8>,
    seq: i64,
    rows: u64,
    emitted: u64,
}

impl Worker {
    fn new(work: Work) -> Self {
        let mode = if work == Work::Upsert { Mode::Upsert } else { Mode::Append };
        Self { work, tables: HashMap::new(), batch: Batch::new(mode), key: Vec::new(), seq: 0, rows: 0, emitted: 0 }
    }

    fn event(&mut self, body: &EventBody<'_>) -> Result<(), Failure> {
        match body {
            EventBody::TableMap(map) => {
                let known = self.tables.get(&map.table_id);
                if known.is_none_or(|table| table.definition != map.definition()) {
                    let table = Table::new(map.definition(), map.schema()?, self.work)?;
                    self.tables.insert(map.table_id, table);
                }
            }
            EventBody::Rows(event) => {
                let Self { work, tables, batch, key, seq, rows, emitted } = self;
                let table = tables.get_mut(&event.table_id).ok_or("rows without a table map")?;
                let Table { schema, codec, encoder, merge, .. } = table;
                for (change, ordinal) in event.rows(schema).zip(0..) {
                    *rows += 1;
                    let (row, op) = match change? {
                        RowChange::Insert(row) => (row, Op::Create),
                        RowChange::Delete(row) => (row, Op::Delete),
                        RowChange::Update { before, after } => {
                            if *work == Work::Visit {
                                visit(&before);
                            }
                            (after, Op::Update)
                        }
                    };
                    match work {
                        Work::Visit => visit(&row),
                        Work::Filter => {
                            key.clear();
                            codec.encode(|i| row.value(i), |_, _| None, key)?;
                            let verdict = merge.change(TableId(1), key, ordinal, ChangeKind::Put, || ((), 8));
                            *emitted += u64::from(verdict == Verdict::Emit);
                        }
                        Work::Append | Work::Upsert => {
                            *seq += 1;
                            let meta = RowMeta {
                                seq: *seq,
                                op,
                                gtid: Some("3e11fa47-71ca-11e1-9e33-c80aa9429562:12345"),
                                file: "binlog.000001",
                                pos: 4,
                                row: ordinal,
                                ts_micros: None,
                            };
                            batch.push(encoder, row.values(), &meta)?;
                            if batch.bytes() > LOAD {
                                let mode = if *work == Work::Upsert { Mode::Upsert } else { Mode::Append };
                                black_box(std::mem::replace(batch, Batch::new(mode)).seal());
                            }
                        }
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// One pass over a log.
    fn pass(&mut self, path: &Path) -> Result<(), Failure> {
        let mut file = BinlogFile::new(File::open(path)?, MAX_EVENT)?;
        let mut decoder = EventDecoder::new(DecoderOptions::default());
        let mut payloads = PayloadReader::new(MAX_EVENT, u64::MAX);
        while let Some(raw) = file.next()? {
            let event = decoder.decode(raw.bytes)?;
            self.event(&event.body)?;
            if let EventBody::TransactionPayload(payload) = event.body {
                let mut inner = payloads.open(&payload)?;
                while let Some(raw) = inner.next_event()? {
                    self.event(&decoder.decode_inner(&raw)?.body)?;
                }
            }
        }
        Ok(())
    }
}

fn visit(row: &Row<'_, '_>) {
    for (_, value) in row.values() {
        black_box(value);
    }
}

/// Reads the log in steps of a MiB and calls `each` with every event: not this project's reader.
fn events(path: &Path, mut each: impl FnMut(&[u8]) -> Result<(), Failure>) -> Result<(), Failure> {
    let mut file = File::open(path)?;
    let mut buffer = vec![0; 1 << 20];
    let (mut start, mut end) = (0, file.read(&mut buffer)?);
    start += 4;
    loop {
        while end - start >= 19 {
            let length: [u8; 4] = buffer[start + 9..start + 13].try_into()?;
            let length = usize::try_from(u32::from_le_bytes(length))?;
            if end - start < length {
                if buffer.len() < length {
                    buffer.resize(length, 0);
                }
                break;
            }
            each(&buffer[start..start + length])?;
            start += length;
        }
        buffer.copy_within(start..end, 0);
        end -= start;
        start = 0;
        match file.read(&mut buffer[end..])? {
            0 => return Ok(()),
            n => end += n,
        }
    }
}

/// The limit: every event read and its checksum computed.
fn read_and_check(path: &Path) -> Result<(), Failure> {
    events(path, |event| {
        black_box(crc32fast::hash(&event[..event.len() - 4]));
        Ok(())
    })
}

/// The limit of a compressed log: its payloads through one zstd context, and nothing else.
fn bare_zstd(path: &Path) -> Result<u64, Failure> {
    let mut context = zstd::bulk::Decompressor::new()?;
    let mut out = Vec::new();
    let mut total = 0;
    events(path, |event| {
        if event[4] != 40 {
            return Ok(());
        }
        let mut r = Reader::new(&event[19..event.len() - 4]);
        let mut size = 0;
        loop {
            let tag = r.lenenc("tag").map_err(|e| format!("{e:?}"))?;
            if tag == 0 {
                break;
            }
            r.lenenc("length").map_err(|e| format!("{e:?}"))?;
            let value = r.lenenc("value").map_err(|e| format!("{e:?}"))?;
            if tag == 3 {
                size = usize::try_from(value)?;
            }
        }
        if out.len() < size {
            out.resize(size, 0);
        }
        total += context.decompress_to_buffer(r.rest(), &mut out[..])? as u64;
        Ok(())
    })?;
    Ok(total)
}

fn main() -> Result<(), Failure> {
    let args: Vec<String> = std::env::args().skip(1).filter(|a| a != "--bench").collect();
    if let [mode, path] = args.as_slice()
        && mode == "--peak"
    {
        Worker::new(Work::Visit).pass(Path::new(path))?;
        let status = std::fs::read_to_string("/proc/self/status")?;
        let peak = status.lines().find_map(|l| l.strip_prefix("VmHWM:")).unwrap_or_default().trim().to_owned();
        print!("{peak}");
        return Ok(());
    }
    let size = Size::from_env();
    let rounds: usize = std::env::var("ROUNDS").map_or(Ok(3), |n| n.parse())?;
    for workload in Workload::ALL {
        let path = lab::log(workload, size)?;
        let bytes = std::fs::metadata(&path)?.len();
        let compressed = matches!(workload, Workload::C | Workload::D);
        let mut ways = Rounds::default();
        let limit = if compressed { "zstd alone" } else { "read + CRC alone" };
        for _ in 0..rounds {
            ways.time("read + CRC alone", || read_and_check(&path).map(|()| Done { bytes, ..Done::default() }))?;
            if compressed {
                ways.time("zstd alone", || bare_zstd(&path).map(|_| Done { bytes, ..Done::default() }))?;
            }
            for (name, work) in [
                ("visit every value", Work::Visit),
                ("key, and look-up in 1,000 ranges", Work::Filter),
                ("rows of JSON, append", Work::Append),
                ("rows of JSON, upsert and collapsed", Work::Upsert),
            ] {
                // Warm: tables are known and buffers have their size, as in a long stream.
                let mut worker = Worker::new(work);
                worker.pass(&path)?;
                worker.rows = 0;
                let mut failed = None;
                ways.time(name, || {
                    let used = measure(|| failed = worker.pass(&path).err());
                    let done = Done { bytes, rows: worker.rows, allocations: Some(used.count_total) };
                    failed.take().map_or(Ok(done), Err::<_, Failure>)
                })?;
            }
        }
        let child = std::process::Command::new(std::env::current_exe()?).arg("--peak").arg(&path).output()?;
        let peak = String::from_utf8_lossy(&child.stdout).into_owned();
        let title = format!("{} ({:.1} MB), peak memory of a visit {peak}", workload.name(), bytes as f64 / 1e6);
        ways.print(&title, limit);
    }
    Ok(())
}

//! A recorded session, and a client that says what the recorded one said and understands the answers with the real core.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use millstream_wire::codec::Reader;
use millstream_wire::command;
use millstream_wire::compress::{CompressedFrames, Compression};
use millstream_wire::dump::DumpReader;
use millstream_wire::flags::CapabilityFlags;
use millstream_wire::handshake::{HandshakeResponse41, HandshakeV10};
use millstream_wire::packet::{LOGIN_LIMIT, MAX_PACKET, PacketCodec};
use millstream_wire::prepare::PrepareReader;
use millstream_wire::query::{QueryEvent, ResultReader};
use millstream_wire::response::{Phase, Reply, classify, parse_err};
use millstream_wire::{ColumnDefinition, Error, OkPacket, Row, RowFormat};

pub(crate) fn folders() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/corpus/generated/wire");
    let Ok(dir) = std::fs::read_dir(&root) else {
        eprintln!("skipped: no recordings in {}", root.display());
        return Vec::new();
    };
    let mut folders: Vec<_> = dir.map(|e| e.unwrap().path()).filter(|p| p.is_dir()).collect();
    folders.sort();
    folders
}

pub(crate) struct Recording {
    pub(crate) name: String,
    pub(crate) from_server: Vec<u8>,
    pub(crate) from_client: Vec<u8>,
}

impl Recording {
    pub(crate) fn load(folder: &Path, name: &str) -> Option<Self> {
        let read = |ext: &str| std::fs::read(folder.join(format!("{name}.{ext}"))).ok();
        let name = format!("{}/{name}", folder.file_name().unwrap().to_string_lossy());
        Some(Self { name, from_server: read("s2c")?, from_client: read("c2s")? })
    }

    pub(crate) fn all(folder: &Path) -> Vec<Self> {
        let mut names: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .filter_map(|e| e.unwrap().file_name().to_str()?.strip_suffix(".s2c").map(String::from))
            .filter(|name| is_spoken(name))
            .collect();
        names.sort();
        names.iter().map(|n| Self::load(folder, n).unwrap()).collect()
    }
}

/// A build without both algorithms does not speak the sessions that are compressed.
pub(crate) fn is_spoken(name: &str) -> bool {
    !name.contains("compressed") || cfg!(all(feature = "zlib", feature = "zstd"))
}

/// What a side is compressed with after its login, by the capabilities that the client sent.
pub(crate) fn compression(caps: CapabilityFlags) -> Compression {
    match caps {
        c if c.contains(CapabilityFlags::COMPRESS) => Compression::Zlib,
        c if c.contains(CapabilityFlags::ZSTD_COMPRESSION) => Compression::Zstd { level: 3 },
        _ => Compression::None,
    }
}

/// The client's side without the frames of compression around it.
pub(crate) fn without_frames(from_client: &[u8]) -> Vec<u8> {
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
pub(crate) fn payloads(mut bytes: &[u8]) -> VecDeque<Vec<u8>> {
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

pub(crate) enum Reading {
    Greeting,
    Login,
    Idle,
    Results(ResultReader),
    Prepare(PrepareReader),
    Dump(DumpReader),
}

/// The client of a recording: says what the recorded client said and understands the answers with the real core.
pub(crate) struct Replay {
    codec: PacketCodec,
    /// The frames around all packets after the login of a compressed session, and what came out of them.
    compressed: Option<(CompressedFrames, BytesMut)>,
    said: VecDeque<Vec<u8>>,
    /// What `PacketCodec::encode` made of it.
    pub(crate) sent: Vec<u8>,
    caps: CapabilityFlags,
    reading: Reading,
    semi_sync: bool,
    columns: Arc<[ColumnDefinition]>,
    pub(crate) rows: Vec<Row>,
    pub(crate) events: Vec<Bytes>,
    /// Ends of results.
    pub(crate) oks: Vec<OkPacket>,
    /// The last packet.
    pub(crate) last: Bytes,
    /// The nonce of the greeting and those of AuthSwitchRequests.
    pub(crate) nonces: Vec<Vec<u8>>,
    pub(crate) log: Vec<String>,
}

impl Replay {
    pub(crate) fn new(recording: &Recording) -> Self {
        Self {
            codec: PacketCodec::new(LOGIN_LIMIT),
            compressed: None,
            said: payloads(&without_frames(&recording.from_client)),
            sent: Vec::new(),
            caps: CapabilityFlags::empty(),
            reading: Reading::Greeting,
            semi_sync: recording.name.contains("semisync"),
            columns: Arc::new([]),
            rows: Vec::new(),
            events: Vec::new(),
            oks: Vec::new(),
            last: Bytes::new(),
            nonces: Vec::new(),
            log: Vec::new(),
        }
    }

    /// What the recorded client acknowledged here.
    pub(crate) fn acknowledge(&mut self) {
        let payload = self.said.pop_front().unwrap();
        let (position, file) = payload[1..].split_first_chunk::<8>().unwrap();
        let position = u64::from_le_bytes(*position);
        assert_eq!(command::acknowledge(std::str::from_utf8(file).unwrap(), position), payload);
        self.codec.encode_apart(&payload, &mut self.sent);
    }

    pub(crate) fn say(&mut self) -> Option<Vec<u8>> {
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
    pub(crate) fn command(&mut self) {
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

    pub(crate) fn packet(&mut self, packet: Bytes) -> Result<(), Error> {
        self.last = packet.clone();
        match &mut self.reading {
            Reading::Greeting => {
                let greeting = HandshakeV10::parse(&packet)?;
                assert_eq!(greeting.encode().len(), packet.len());
                self.nonces.push(greeting.nonce.to_vec());
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
                Reply::AuthMore => drop(self.say()),
                Reply::AuthSwitch => {
                    let mut r = Reader::new(&packet);
                    r.nul_bytes("plugin")?;
                    self.nonces.push(r.peek()[..20].to_vec());
                    drop(self.say());
                }
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
                    Ok(QueryEvent::Done { ok, .. }) => {
                        self.log.push(format!("done {} {}", ok.affected_rows, ok.info));
                        self.oks.push(ok);
                    }
                    Ok(QueryEvent::FileRequested) => assert!(self.say().unwrap().is_empty()),
                    Ok(_) => {}
                    Err(e) if e.server_error().is_some() || e.is_file_request() => self.log.push(format!("error {e}")),
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

    pub(crate) fn feed(&mut self, input: &mut BytesMut) -> Result<(), Error> {
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

    pub(crate) fn run<'a>(mut self, pieces: impl Iterator<Item = &'a [u8]>) -> Result<Self, Error> {
        let mut input = BytesMut::new();
        for piece in pieces {
            input.extend_from_slice(piece);
            self.feed(&mut input)?;
        }
        Ok(self)
    }

    /// All that was understood, to compare.
    pub(crate) fn digest(&self) -> (Vec<String>, Vec<Vec<u8>>, &[Bytes]) {
        (self.log.clone(), self.rows.iter().map(|r| r.packet().to_vec()).collect(), &self.events)
    }
}

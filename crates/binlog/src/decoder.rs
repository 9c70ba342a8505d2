use millstream_wire::codec::{ParseError, ParseErrorKind, Reader};

use crate::error::{Error, Place};
use crate::event::{
    Checksum, CompressedQuery, CompressedRows, Event, EventBody, FormatDescription, GtidEvent, GtidList, Heartbeat,
    IntVar, MariaGtidEvent, PostHeaders, PreviousGtids, Query, Rand, Rotate, RowsEvent, StartEncryption, TableMap,
    TransactionPayload, UserVar, XaPrepare, file_name,
};
use crate::header::{EventHeader, EventType};

/// How to read a log or a stream.
#[derive(Clone, Copy, Debug)]
pub struct DecoderOptions {
    /// Greatest event, bytes. The server's own limit is 1 GiB.
    pub max_event: usize,
    /// What was negotiated for a stream (`@source_binlog_checksum`): it holds for the first artificial ROTATE, which
    /// comes before any FORMAT_DESCRIPTION. Files have no need of it.
    pub stream_checksum: Option<Checksum>,
}

impl Default for DecoderOptions {
    fn default() -> Self {
        Self { max_event: 1 << 30, stream_checksum: None }
    }
}

/// Turns raw events into [`Event`]s. It keeps what a log says about itself (the checksum and old layouts) and nothing of
/// the events: table maps are the caller's to keep.
///
/// The CRC32 of every event is checked whenever the log has them.
#[derive(Clone, Debug)]
pub struct EventDecoder {
    max_event: usize,
    checksum: Checksum,
    post_headers: PostHeaders,
    extra_header: u8,
    mariadb: bool,
}

const CRC_LEN: usize = 4;

impl EventDecoder {
    /// A decoder at the start of a file or a stream.
    #[must_use]
    pub fn new(options: DecoderOptions) -> Self {
        Self {
            max_event: options.max_event,
            checksum: options.stream_checksum.unwrap_or(Checksum::None),
            post_headers: PostHeaders::default(),
            extra_header: 0,
            mariadb: false,
        }
    }

    /// Decodes one event: all of `raw`, header, body and checksum.
    pub fn decode<'a>(&mut self, raw: &'a [u8]) -> Result<Event<'a>, Error> {
        let (header, place) = self.header(raw)?;
        if header.event_type == EventType::FORMAT_DESCRIPTION {
            return self.format_description(header, place, raw);
        }
        let body = match self.checksum {
            Checksum::None => raw.get(EventHeader::LEN..),
            Checksum::Crc32 => Some(checked_body(raw, raw, &[], place)?),
        };
        self.event(header, body.unwrap_or_default(), place)
    }

    /// Decodes an event that [`decode`](Self::decode) has taken before, without computing its checksum again: for a large
    /// [`TransactionPayload`] that is read a part at a time.
    pub fn decode_again<'a>(&self, raw: &'a [u8]) -> Result<Event<'a>, Error> {
        let (header, place) = self.header(raw)?;
        let crc = if self.checksum == Checksum::Crc32 { CRC_LEN } else { 0 };
        let body = raw.get(EventHeader::LEN..raw.len().saturating_sub(crc)).unwrap_or_default();
        self.event(header, body, place)
    }

    /// Decodes one event out of a [`TransactionPayload`]: it has no checksum.
    pub fn decode_inner<'a>(&self, raw: &'a [u8]) -> Result<Event<'a>, Error> {
        let (header, place) = self.header(raw)?;
        match header.event_type {
            EventType::FORMAT_DESCRIPTION | EventType::ROTATE | EventType::TRANSACTION_PAYLOAD => {
                let e = Reader::new(&[])
                    .error("type of an event inside a payload", ParseErrorKind::BadTag(header.event_type.0));
                Err(place.malformed(e))
            }
            _ => self.event(header, raw.get(EventHeader::LEN..).unwrap_or_default(), place),
        }
    }

    #[inline]
    fn header(&self, raw: &[u8]) -> Result<(EventHeader, Place), Error> {
        if raw.len() > self.max_event {
            return Err(Error::limit("an event", self.max_event as u64));
        }
        let end = u32::try_from(raw.len()).unwrap_or(u32::MAX);
        let none = Place { event: EventType(0), log_pos: 0, end };
        let header = EventHeader::parse(&mut Reader::new(raw)).map_err(|e| none.malformed(e))?;
        let place = Place { event: header.event_type, log_pos: header.log_pos, end };
        if header.length != end {
            let left = raw.len().saturating_sub(9);
            return Err(place.malformed(ParseError::new("event length", ParseErrorKind::BadLength, left)));
        }
        Ok((header, place))
    }

    fn format_description<'a>(&mut self, header: EventHeader, place: Place, raw: &'a [u8]) -> Result<Event<'a>, Error> {
        let body = raw.get(EventHeader::LEN..).unwrap_or_default();
        let fde = FormatDescription::parse(Reader::new(body)).map_err(|e| place.malformed(e))?;
        if fde.checksum == Checksum::Crc32 {
            // The CRC was computed before the log was opened for writing: without the IN_USE flag.
            let flags = header.flags & !EventHeader::IN_USE;
            checked_body(raw, raw.get(EventHeader::LEN..).unwrap_or_default(), &fde_header(raw, flags), place)?;
        }
        self.checksum = fde.checksum;
        self.post_headers = fde.post_headers;
        self.extra_header = fde.extra_header;
        self.mariadb = fde.is_mariadb();
        Ok(Event { header, body: EventBody::FormatDescription(fde) })
    }

    #[inline]
    fn event<'a>(&self, header: EventHeader, body: &'a [u8], place: Place) -> Result<Event<'a>, Error> {
        let crc = usize::try_from(place.end)
            .unwrap_or(usize::MAX)
            .saturating_sub(body.len())
            .saturating_sub(EventHeader::LEN);
        let place = Place { end: place.end.saturating_sub(u32::try_from(crc).unwrap_or(0)), ..place };
        let mut r = Reader::new(body);
        let ty = header.event_type;
        // Two types have the 19 bytes everywhere: this one and FORMAT_DESCRIPTION.
        if self.extra_header > 0 && ty != EventType::ROTATE {
            r.skip(usize::from(self.extra_header), "event header").map_err(|e| place.malformed(e))?;
        }
        let body = r.peek();
        let parsed = match ty {
            EventType::TABLE_MAP => {
                TableMap::parse(self.post_headers.table_map, self.mariadb, r, place).map(EventBody::TableMap)
            }
            EventType::WRITE_ROWS
            | EventType::UPDATE_ROWS
            | EventType::DELETE_ROWS
            | EventType::PARTIAL_UPDATE_ROWS => RowsEvent::parse(ty, 6, r, place).map(EventBody::Rows),
            EventType::WRITE_ROWS_V1 | EventType::UPDATE_ROWS_V1 | EventType::DELETE_ROWS_V1 => {
                let id_len = if self.post_headers.rows_v1 == 6 { 4 } else { 6 };
                RowsEvent::parse(ty, id_len, r, place).map(EventBody::Rows)
            }
            EventType::GTID | EventType::ANONYMOUS_GTID => GtidEvent::parse(ty, r).map(EventBody::Gtid),
            EventType::GTID_TAGGED => GtidEvent::parse_tagged(r).map(EventBody::Gtid),
            EventType::QUERY => Query::parse(self.post_headers.query, 0, r).map(EventBody::Query),
            EventType::XID => xid(r).map(EventBody::Xid),
            EventType::ROTATE => Rotate::parse(r).map(EventBody::Rotate),
            EventType::HEARTBEAT => Heartbeat::parse_v1(&header, self.mariadb, r).map(EventBody::Heartbeat),
            EventType::HEARTBEAT_V2 => Heartbeat::parse_v2(r).map(EventBody::Heartbeat),
            EventType::TRANSACTION_PAYLOAD => TransactionPayload::parse(r, place).map(EventBody::TransactionPayload),
            EventType::XA_PREPARE => XaPrepare::parse(r).map(EventBody::XaPrepare),
            EventType::PREVIOUS_GTIDS => Ok(EventBody::PreviousGtids(PreviousGtids::new(body))),
            EventType::STOP => Ok(EventBody::Stop),
            EventType::ROWS_QUERY => rows_query(r).map(EventBody::RowsQuery),
            EventType::INCIDENT => incident(r),
            EventType::EXECUTE_LOAD_QUERY => {
                Query::parse(self.post_headers.query, 13, r).map(EventBody::ExecuteLoadQuery)
            }
            EventType::MARIADB_GTID => MariaGtidEvent::parse(&header, r).map(EventBody::MariaGtid),
            EventType::ANNOTATE_ROWS => Ok(EventBody::RowsQuery(body)),
            EventType::GTID_LIST => GtidList::parse(r).map(EventBody::GtidList),
            EventType::BINLOG_CHECKPOINT => checkpoint(r).map(EventBody::BinlogCheckpoint),
            EventType::START_ENCRYPTION => StartEncryption::parse(r).map(EventBody::StartEncryption),
            EventType::QUERY_COMPRESSED => Query::parse(self.post_headers.query, 0, r)
                .map(|packed| EventBody::CompressedQuery(CompressedQuery::new(packed, place))),
            EventType::WRITE_ROWS_COMPRESSED_V1
            | EventType::UPDATE_ROWS_COMPRESSED_V1
            | EventType::DELETE_ROWS_COMPRESSED_V1
            | EventType::WRITE_ROWS_COMPRESSED
            | EventType::UPDATE_ROWS_COMPRESSED
            | EventType::DELETE_ROWS_COMPRESSED => RowsEvent::parse(ty, 6, r, place)
                .map(|packed| EventBody::CompressedRows(CompressedRows::new(packed, place))),
            EventType::INTVAR => IntVar::parse(r).map(EventBody::IntVar),
            EventType::RAND => Rand::parse(r).map(EventBody::Rand),
            EventType::USER_VAR => UserVar::parse(r).map(EventBody::UserVar),
            _ => return Self::other(header, place),
        };
        parsed.map(|body| Event { header, body }).map_err(|e| place.malformed(e))
    }

    /// Types whose bodies are not read.
    #[cold]
    fn other(header: EventHeader, place: Place) -> Result<Event<'static>, Error> {
        let rule = match header.event_type {
            // They carry data of a statement that follows as EXECUTE_LOAD_QUERY, which decides.
            EventType::BEGIN_LOAD_QUERY | EventType::APPEND_BLOCK | EventType::DELETE_FILE => "load-data-block",
            EventType::IGNORABLE => "ignorable",
            EventType::TRANSACTION_CONTEXT | EventType::VIEW_CHANGE => "group-replication",
            EventType::AURORA_99 | EventType::AURORA_PADDING => "aurora",
            EventType::PARTIAL_ROW_DATA => {
                return Err(place.unsupported("a row event in fragments (binlog_row_event_fragment_threshold)"));
            }
            EventType::START_V3
            | EventType::SLAVE
            | EventType::LOAD
            | EventType::CREATE_FILE
            | EventType::EXEC_LOAD
            | EventType::NEW_LOAD => return Err(place.unsupported("a log of MySQL 4")),
            EventType::PRE_GA_WRITE_ROWS | EventType::PRE_GA_UPDATE_ROWS | EventType::PRE_GA_DELETE_ROWS => {
                return Err(place.unsupported("a row event of a 5.1 pre-release"));
            }
            _ if header.flags & EventHeader::IGNORABLE != 0 => "unknown-ignorable",
            _ => return Err(place.unknown()),
        };
        Ok(Event { header, body: EventBody::Ignored { rule } })
    }
}

/// `body` of `raw` without its last four bytes, after they have been found to be the CRC32 of all before them. Without a
/// `prefix` it is `raw` that is summed; with one it is the prefix and `tail`.
#[inline]
fn checked_body<'a>(raw: &'a [u8], tail: &'a [u8], prefix: &[u8], place: Place) -> Result<&'a [u8], Error> {
    let (Some((summed, crc)), true) = (tail.split_last_chunk::<CRC_LEN>(), raw.len() >= EventHeader::LEN + CRC_LEN)
    else {
        return Err(place.malformed(ParseError::new("checksum", ParseErrorKind::BadLength, 0)));
    };
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(prefix);
    hasher.update(summed);
    let (stated, computed) = (u32::from_le_bytes(*crc), hasher.finalize());
    if stated != computed {
        return Err(place.checksum(stated, computed));
    }
    let body = if prefix.is_empty() { summed.get(EventHeader::LEN..) } else { Some(summed) };
    Ok(body.unwrap_or_default())
}

fn fde_header(raw: &[u8], flags: u16) -> [u8; EventHeader::LEN] {
    let mut header = raw.first_chunk().copied().unwrap_or([0; EventHeader::LEN]);
    let [low, high] = flags.to_le_bytes();
    header[17] = low;
    header[18] = high;
    header
}

fn xid(mut r: Reader<'_>) -> Result<u64, ParseError> {
    let xid = r.u64_le("xid")?;
    r.finish("xid")?;
    Ok(xid)
}

/// One length byte, which is wrong for texts over 255 bytes, then the text.
fn rows_query(mut r: Reader<'_>) -> Result<&[u8], ParseError> {
    r.skip(1, "rows query length")?;
    Ok(r.rest())
}

fn checkpoint(mut r: Reader<'_>) -> Result<&str, ParseError> {
    let n = r.u32_le("checkpoint file length")?;
    let mut name = r.sub(usize::try_from(n).unwrap_or(usize::MAX), "checkpoint file")?;
    r.finish("binlog_checkpoint")?;
    file_name(&mut name, "checkpoint file")
}

fn incident(mut r: Reader<'_>) -> Result<EventBody<'_>, ParseError> {
    let number = r.u16_le("incident number")?;
    let n = r.u8("incident message length")?;
    Ok(EventBody::Incident { number, message: r.bytes(usize::from(n), "incident message")? })
}

use millstream_wire::codec::{ParseError, ParseErrorKind, Reader};

use crate::header::EventType;

/// FORMAT_DESCRIPTION (`Format_description_event`): what wrote the log and how its events end.
///
/// ```text
/// u16 binlog version 4 | 50 bytes server version | u32 created | u8 header length | u8 post-header length per type …
/// then, from MySQL 5.6.1 and MariaDB 5.3 on: u8 checksum algorithm | u32 CRC, whatever the algorithm
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FormatDescription<'a> {
    /// As the server prints it, e.g. `9.7.4-2`.
    pub server_version: &'a str,
    /// When the log was created at server start, seconds UTC; 0 otherwise and in the middle of a dump.
    pub created: u32,
    /// How the events that follow end.
    pub checksum: Checksum,
    pub(crate) post_headers: PostHeaders,
    /// Bytes of the headers of the events that follow, beyond the 19 that this crate knows: patched servers had some.
    pub(crate) extra_header: u8,
    pub(crate) has_checksum_field: bool,
}

/// How events of a log end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums, reason = "the server knows these two")]
pub enum Checksum {
    /// Nothing after the body.
    None,
    /// Four bytes, CRC32 of everything before them.
    Crc32,
}

/// The post-header lengths that decide a layout; the log's own table is not trusted for anything else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PostHeaders {
    /// QUERY: 13, or 11 before 5.0.
    pub(crate) query: u8,
    /// TABLE_MAP: 8, or 6 when the table id has 4 bytes.
    pub(crate) table_map: u8,
    /// Rows v1: 8, or 6 when the table id has 4 bytes.
    pub(crate) rows_v1: u8,
}

impl Default for PostHeaders {
    fn default() -> Self {
        Self { query: 13, table_map: 8, rows_v1: 8 }
    }
}

impl FormatDescription<'_> {
    /// Whether a MariaDB server wrote the log.
    #[must_use]
    pub fn is_mariadb(&self) -> bool {
        self.server_version.contains("MariaDB")
    }
}

impl<'a> FormatDescription<'a> {
    /// `r` covers everything after the event header, the CRC included.
    pub(crate) fn parse(mut r: Reader<'a>) -> Result<Self, ParseError> {
        let version = r.u16_le("binlog version")?;
        if version != 4 {
            return Err(r.error("binlog version", ParseErrorKind::Unsupported));
        }
        let name = r.bytes(50, "server version")?;
        let name = name.split(|b| *b == 0).next().unwrap_or_default();
        let server_version =
            core::str::from_utf8(name).map_err(|_| r.error("server version", ParseErrorKind::BadUtf8))?;
        if server_version.contains("-a_drop") {
            return Err(r.error("a log of a pre-release with other event numbers", ParseErrorKind::Unsupported));
        }
        let created = r.u32_le("created")?;
        let header_length = r.u8("header length")?;
        let Some(extra_header) = header_length.checked_sub(19) else {
            return Err(r.error("header length", ParseErrorKind::BadTag(header_length)));
        };
        let has_checksum_field = knows_checksums(server_version);
        let mut checksum = Checksum::None;
        let mut lengths = r.peek();
        if has_checksum_field {
            let (table, mut tail) = match r.left().checked_sub(5) {
                Some(n) => (r.bytes(n, "post-header lengths")?, r),
                None => return Err(r.error("checksum algorithm", ParseErrorKind::Short { need: 5 })),
            };
            lengths = table;
            checksum = match tail.u8("checksum algorithm")? {
                // 255 (undefined) comes from servers that log no checksums but forget to say so (PXC-4526).
                0 | 255 => Checksum::None,
                1 => Checksum::Crc32,
                b => return Err(tail.error("checksum algorithm", ParseErrorKind::BadTag(b))),
            };
        }
        let length = |ty: EventType, default: u8| {
            let stated = usize::from(ty.0).checked_sub(1).and_then(|i| lengths.get(i)).copied();
            stated.filter(|n| *n != 0).unwrap_or(default)
        };
        let post_headers = PostHeaders {
            query: length(EventType::QUERY, 13),
            table_map: length(EventType::TABLE_MAP, 8),
            rows_v1: length(EventType::WRITE_ROWS_V1, 8),
        };
        Ok(Self { server_version, created, checksum, post_headers, extra_header, has_checksum_field })
    }
}

/// MySQL from 5.6.1, MariaDB from 5.3.
fn knows_checksums(version: &str) -> bool {
    let mut parts = version.split(|c: char| !c.is_ascii_digit()).map(|n| n.parse::<u32>().unwrap_or(0));
    let mut next = || parts.next().unwrap_or(0);
    let number = (next(), next(), next());
    number >= if version.contains("MariaDB") { (5, 3, 0) } else { (5, 6, 1) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An event's body without a checksum field.
    fn body(version: &str, header_length: u8) -> Vec<u8> {
        let mut body = vec![4, 0];
        body.extend_from_slice(version.as_bytes());
        body.resize(52, 0);
        body.extend_from_slice(&[0, 0, 0, 0, header_length, 56, 13, 0, 8]);
        body
    }

    #[test]
    fn pre_releases_with_other_event_numbers_are_refused_and_longer_headers_are_known() {
        let parse =
            |version, length| FormatDescription::parse(Reader::new(&body(version, length))).map(|f| f.extra_header);
        assert_eq!(parse("5.1.63-google-debug-log", 27), Ok(8));
        assert_eq!(parse("5.1.63", 19), Ok(0));
        assert_eq!(parse("5.1.63", 18).unwrap_err().kind, ParseErrorKind::BadTag(18));
        assert_eq!(parse("5.2.2-a_drop6p13-debug-log", 19).unwrap_err().kind, ParseErrorKind::Unsupported);
    }

    /// Bug: 76
    #[test]
    fn an_undefined_algorithm_is_none_and_unknown_ones_are_errors() {
        let checksum = |algorithm| {
            let mut body = body("8.4.0", 19);
            body.extend_from_slice(&[algorithm, 1, 2, 3, 4]);
            FormatDescription::parse(Reader::new(&body)).map(|f| f.checksum)
        };
        assert_eq!(checksum(0), Ok(Checksum::None));
        assert_eq!(checksum(1), Ok(Checksum::Crc32));
        assert_eq!(checksum(255), Ok(Checksum::None));
        assert_eq!(checksum(2).unwrap_err().kind, ParseErrorKind::BadTag(2));
    }

    /// Bug: 78
    #[test]
    fn checksums_begin_with_5_6_1_and_mariadb_5_3() {
        for (version, known) in [
            ("5.1.73-log", false),
            ("5.5.62", false),
            ("5.6.0", false),
            ("5.6.1-m5", true),
            ("9.7.4-2", true),
            ("5.5.5-10.5.23-MariaDB", true),
            ("5.3.12-MariaDB", true),
            ("5.2.14-MariaDB", false),
            ("", false),
        ] {
            assert_eq!(knows_checksums(version), known, "{version}");
        }
    }
}

/// A value of a row or a parameter, borrowed from its packet.
///
/// Rows yield integers, floats, dates and times by the column's type, and `Bytes` for everything else: strings, ENUM and
/// SET in the results' character set, DECIMAL, JSON, UUID and INET6 as text, BIT (big-endian), blobs, GEOMETRY (SRID and
/// WKB), VECTOR. Text rows and binary rows yield the same, but for FLOAT: its text has six digits only.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Value<'a> {
    /// NULL.
    Null,
    /// A signed integer of any width.
    Int(i64),
    /// An unsigned integer of any width, YEAR included.
    UInt(u64),
    /// FLOAT, exactly as stored.
    Float(f32),
    /// DOUBLE.
    Double(f64),
    /// Bytes as the server sent them. As a parameter: a binary string.
    Bytes(&'a [u8]),
    /// A parameter only: a string in the connection's character set, utf8mb4. Rows never yield it.
    Text(&'a str),
    /// DATE; all zero for the zero date, parts may be zero.
    Date {
        /// 0 to 9999.
        year: u16,
        /// 0 to 12.
        month: u8,
        /// 0 to 31.
        day: u8,
    },
    /// DATETIME, or TIMESTAMP in the session's time zone.
    DateTime {
        /// 0 to 9999.
        year: u16,
        /// 0 to 12.
        month: u8,
        /// 0 to 31.
        day: u8,
        /// 0 to 23.
        hour: u8,
        /// 0 to 59.
        minute: u8,
        /// 0 to 59.
        second: u8,
        /// Microseconds, 0 to 999999.
        micros: u32,
    },
    /// TIME, a signed span of up to 838 hours.
    Time {
        /// Below zero.
        negative: bool,
        /// Whole days.
        days: u32,
        /// 0 to 23.
        hours: u8,
        /// 0 to 59.
        minutes: u8,
        /// 0 to 59.
        seconds: u8,
        /// Microseconds, 0 to 999999.
        micros: u32,
    },
}

const _: () = assert!(size_of::<Value<'_>>() <= 24);

/// DATE. Any part may be 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Date {
    /// 0 to 9999.
    pub year: u16,
    /// 0 to 12.
    pub month: u8,
    /// 0 to 31.
    pub day: u8,
}

/// DATETIME. Any part of the date may be 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DateTime {
    /// Date part.
    pub date: Date,
    /// 0 to 23.
    pub hour: u8,
    /// 0 to 59.
    pub minute: u8,
    /// 0 to 59.
    pub second: u8,
    /// Microseconds, 0 to 999999.
    pub micros: u32,
}

/// TIME, -838:59:59.999999 to 838:59:59.999999.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Time {
    /// Whether the whole value is below zero.
    pub negative: bool,
    /// 0 to 838.
    pub hours: u16,
    /// 0 to 59.
    pub minutes: u8,
    /// 0 to 59.
    pub seconds: u8,
    /// Microseconds, 0 to 999999.
    pub micros: u32,
}

/// TIMESTAMP in UTC. Seconds 0 with micros 0 is the zero value '0000-00-00 00:00:00', not 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timestamp {
    /// Seconds since 1970-01-01 00:00:00 UTC.
    pub seconds: u64,
    /// Microseconds, 0 to 999999.
    pub micros: u32,
}

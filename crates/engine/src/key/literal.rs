//! Key values as SQL text that needs no escaping: digits, or hexadecimal.

use millstream_binlog::{Charset, Date, DateTime};

use super::KeyValue;

const SECONDS_PER_DAY: u64 = 86_400;

pub(crate) fn literal(value: &KeyValue) -> String {
    match value {
        KeyValue::Int(v) => v.to_string(),
        KeyValue::UInt(v) => v.to_string(),
        KeyValue::Decimal(digits) => digits.clone(),
        KeyValue::Date(v) => format!("'{}'", date(*v)),
        KeyValue::DateTime(v) => format!("'{}'", datetime(*v)),
        // The session runs at +00:00. Seconds 0 is the zero value (a stored TIMESTAMP begins a second later).
        KeyValue::Timestamp(v) if v.seconds == 0 => "'0000-00-00 00:00:00.000000'".to_owned(),
        KeyValue::Timestamp(v) => format!("'{}'", datetime(utc(v.seconds, v.micros))),
        KeyValue::Bytes(bytes) => hex("", bytes),
        KeyValue::Text { bytes, charset } => hex(introducer(*charset), bytes),
    }
}

/// With an introducer a literal takes the column's collation in a comparison instead of the session's.
fn introducer(charset: Charset) -> &'static str {
    match charset {
        Charset::Ascii => "_ascii ",
        Charset::Latin1 => "_latin1 ",
        Charset::Utf8mb3 => "_utf8mb3 ",
        Charset::Utf8mb4 => "_utf8mb4 ",
        _ => "",
    }
}

fn hex(introducer: &str, bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().saturating_mul(2).saturating_add(16));
    text.push_str(introducer);
    text.push_str("X'");
    for b in bytes {
        text.extend(char::from_digit(u32::from(b >> 4), 16));
        text.extend(char::from_digit(u32::from(b & 15), 16));
    }
    text.push('\'');
    text
}

fn date(Date { year, month, day }: Date) -> String {
    format!("{year:04}-{month:02}-{day:02}")
}

fn datetime(v: DateTime) -> String {
    format!("{} {:02}:{:02}:{:02}.{:06}", date(v.date), v.hour, v.minute, v.second, v.micros)
}

/// Civil time of a moment: days are counted in 400-year eras that begin on 1 March.
fn utc(seconds: u64, micros: u32) -> DateTime {
    let part = |n: u64, by: u64| u8::try_from(n.checked_rem(by).unwrap_or(0)).unwrap_or(0);
    let days = seconds.wrapping_div(SECONDS_PER_DAY);
    let of_day = seconds.wrapping_rem(SECONDS_PER_DAY);
    // 719,468 days lie between 0000-03-01 and 1970-01-01; 146,097 days make an era.
    let z = days.saturating_add(719_468);
    let era = z.wrapping_div(146_097);
    let doe = z.wrapping_rem(146_097);
    let yoe = doe
        .wrapping_sub(doe.wrapping_div(1_460))
        .wrapping_add(doe.wrapping_div(36_524))
        .wrapping_sub(doe.wrapping_div(146_096))
        .wrapping_div(365);
    let doy =
        doe.wrapping_sub(yoe.wrapping_mul(365).wrapping_add(yoe.wrapping_div(4)).wrapping_sub(yoe.wrapping_div(100)));
    let mp = doy.wrapping_mul(5).wrapping_add(2).wrapping_div(153);
    let day = doy.wrapping_sub(mp.wrapping_mul(153).wrapping_add(2).wrapping_div(5)).wrapping_add(1);
    let month = if mp < 10 { mp.wrapping_add(3) } else { mp.wrapping_sub(9) };
    let year = era.wrapping_mul(400).wrapping_add(yoe).wrapping_add(u64::from(month <= 2));
    DateTime {
        date: Date { year: u16::try_from(year).unwrap_or(u16::MAX), month: part(month, 13), day: part(day, 32) },
        hour: part(of_day.wrapping_div(3600), 24),
        minute: part(of_day.wrapping_div(60), 60),
        second: part(of_day, 60),
        micros,
    }
}

#[cfg(test)]
#[allow(clippy::arithmetic_side_effects, reason = "an overflow in a test is a failure")]
mod tests {
    use millstream_binlog::Timestamp;

    use super::*;

    #[test]
    fn literals_need_no_escaping() {
        for (value, want) in [
            (KeyValue::Int(-5), "-5"),
            (KeyValue::UInt(u64::MAX), "18446744073709551615"),
            (KeyValue::Decimal("-1.50".into()), "-1.50"),
            (KeyValue::Date(Date { year: 2010, month: 0, day: 0 }), "'2010-00-00'"),
            (KeyValue::Timestamp(Timestamp { seconds: 0, micros: 0 }), "'0000-00-00 00:00:00.000000'"),
            (KeyValue::Timestamp(Timestamp { seconds: 951_782_399, micros: 7 }), "'2000-02-28 23:59:59.000007'"),
            (KeyValue::Timestamp(Timestamp { seconds: 951_868_800, micros: 0 }), "'2000-03-01 00:00:00.000000'"),
            (KeyValue::Timestamp(Timestamp { seconds: 4_102_444_799, micros: 0 }), "'2099-12-31 23:59:59.000000'"),
            (KeyValue::Bytes(vec![0, 0xab]), "X'00ab'"),
            (KeyValue::Bytes(vec![]), "X''"),
            (KeyValue::Text { bytes: b"a'\\".to_vec(), charset: Charset::Latin1 }, "_latin1 X'61275c'"),
            (KeyValue::Text { bytes: "é".into(), charset: Charset::Utf8mb4 }, "_utf8mb4 X'c3a9'"),
        ] {
            assert_eq!(literal(&value), want);
        }
    }

    #[test]
    fn civil_time_agrees_with_counting() {
        // Every day of eight centuries, counted one by one.
        let (mut year, mut month, mut day) = (1970_u16, 1_u8, 1_u8);
        for n in 0..292_194_u64 {
            let got = utc(n * SECONDS_PER_DAY + 86_399, 0);
            assert_eq!((got.date, got.hour, got.minute, got.second), (Date { year, month, day }, 23, 59, 59));
            let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
            let days = [31, if leap { 29 } else { 28 }, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31][usize::from(month) - 1];
            day += 1;
            if day > days {
                (day, month) = (1, month + 1);
            }
            if month > 12 {
                (month, year) = (1, year + 1);
            }
        }
    }
}

//! Column types of doris.md section 8, and the checks a value must pass (6.6, 7.1, 7.3).
//!
//! A value is kept as the text a reader gets: the cast turns what the client sent into that canonical text.

use super::clock::{civil_from_days, days_from_civil};

/// Bytes a STRING may hold (`string_type_length_soft_limit_bytes`, doris.md 8).
pub(crate) const STRING_LIMIT: usize = 1 << 20;
/// The longest VARCHAR, in bytes.
pub(crate) const VARCHAR_MAX: u32 = 65533;

/// A column's type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum ColType {
    Boolean,
    TinyInt,
    SmallInt,
    Int,
    BigInt,
    LargeInt,
    Float,
    Double,
    Decimal { precision: u8, scale: u8 },
    Date,
    DateTime(u8),
    Char(u32),
    Varchar(u32),
    String,
    Json,
}

/// Why a value does not fit its column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reject {
    /// The text is not a value of the type.
    Cast,
    /// The text is longer than the type's bytes.
    TooLong { max: usize },
}

impl ColType {
    /// The name as `DESC` and `SHOW CREATE TABLE` print it.
    pub fn name(&self) -> String {
        match *self {
            Self::Boolean => "boolean".into(),
            Self::TinyInt => "tinyint".into(),
            Self::SmallInt => "smallint".into(),
            Self::Int => "int".into(),
            Self::BigInt => "bigint".into(),
            Self::LargeInt => "largeint".into(),
            Self::Float => "float".into(),
            Self::Double => "double".into(),
            Self::Decimal { precision, scale } => format!("decimal({precision},{scale})"),
            Self::Date => "date".into(),
            Self::DateTime(0) => "datetime".into(),
            Self::DateTime(f) => format!("datetime({f})"),
            Self::Char(n) => format!("char({n})"),
            Self::Varchar(n) => format!("varchar({n})"),
            Self::String => "text".into(),
            Self::Json => "json".into(),
        }
    }

    /// The name without its parameters.
    pub(crate) fn base_name(&self) -> String {
        let name = self.name();
        name.split('(').next().unwrap_or(&name).to_owned()
    }

    /// Whether the type may be part of a key.
    pub(crate) fn may_be_key(&self) -> bool {
        !matches!(self, Self::String | Self::Json | Self::Float | Self::Double)
    }

    /// Whether a sequence column may have the type: integers that fit 64 bits, and dates.
    pub(crate) fn may_be_sequence(&self) -> bool {
        matches!(self, Self::TinyInt | Self::SmallInt | Self::Int | Self::BigInt | Self::Date | Self::DateTime(_))
    }

    fn int_range(&self) -> Option<(i128, i128)> {
        Some(match self {
            Self::TinyInt => (-128, 127),
            Self::SmallInt => (-32768, 32767),
            Self::Int => (i128::from(i32::MIN), i128::from(i32::MAX)),
            Self::BigInt => (i128::from(i64::MIN), i128::from(i64::MAX)),
            // doris.md 8: ±(2^127−1).
            Self::LargeInt => (-i128::MAX, i128::MAX),
            _ => return None,
        })
    }

    /// Casts `text`, appending the canonical text to `out`. On a rejection `out` may hold rubbish after its old end.
    pub(crate) fn cast(&self, text: &[u8], out: &mut Vec<u8>) -> Result<(), Reject> {
        match self {
            Self::TinyInt | Self::SmallInt | Self::Int | Self::BigInt | Self::LargeInt => {
                let (min, max) = self.int_range().ok_or(Reject::Cast)?;
                // The common case, digits that are canonical already, is copied.
                let digits = text.strip_prefix(b"-").unwrap_or(text);
                if !digits.is_empty() && digits.len() < 19 && digits.iter().all(u8::is_ascii_digit) {
                    let v = digits.iter().fold(0i64, |a, b| a * 10 + i64::from(b - b'0'));
                    let v = if digits.len() == text.len() { v } else { -v };
                    if i128::from(v) < min || i128::from(v) > max {
                        return Err(Reject::Cast);
                    }
                    if digits[0] != b'0' || text == b"0" {
                        out.extend_from_slice(text);
                    } else {
                        out.extend_from_slice(v.to_string().as_bytes());
                    }
                    return Ok(());
                }
                let v: i128 = std::str::from_utf8(text).ok().and_then(|t| t.parse().ok()).ok_or(Reject::Cast)?;
                if v < min || v > max {
                    return Err(Reject::Cast);
                }
                out.extend_from_slice(v.to_string().as_bytes());
                Ok(())
            }
            Self::Boolean => {
                let v = match text {
                    b"1" => b'1',
                    b"0" => b'0',
                    t if t.eq_ignore_ascii_case(b"true") => b'1',
                    t if t.eq_ignore_ascii_case(b"false") => b'0',
                    _ => return Err(Reject::Cast),
                };
                out.push(v);
                Ok(())
            }
            Self::Float => {
                let v: f32 = float_text(text)?.parse().map_err(|_| Reject::Cast)?;
                if v.is_infinite() {
                    return Err(Reject::Cast);
                }
                out.extend_from_slice(print_float(format!("{v:e}"), format!("{v}")).as_bytes());
                Ok(())
            }
            Self::Double => {
                let v: f64 = float_text(text)?.parse().map_err(|_| Reject::Cast)?;
                if v.is_infinite() {
                    return Err(Reject::Cast);
                }
                out.extend_from_slice(print_float(format!("{v:e}"), format!("{v}")).as_bytes());
                Ok(())
            }
            Self::Decimal { precision, scale } => {
                let v = parse_decimal(text, *precision, *scale).ok_or(Reject::Cast)?;
                print_decimal(v, *scale, out);
                Ok(())
            }
            Self::Date => {
                let (y, m, d) = parse_date(text).ok_or(Reject::Cast)?;
                out.extend_from_slice(format!("{y:04}-{m:02}-{d:02}").as_bytes());
                Ok(())
            }
            Self::DateTime(f) => cast_datetime(text, *f, out).ok_or(Reject::Cast),
            Self::Char(n) | Self::Varchar(n) => limited(text, *n as usize, out),
            Self::String => limited(text, STRING_LIMIT, out),
            Self::Json => {
                serde_json::from_slice::<serde::de::IgnoredAny>(text).map_err(|_| Reject::Cast)?;
                limited(text, STRING_LIMIT, out)
            }
        }
    }

    /// Appends bytes of a canonical text whose memcmp order is the type's order, self-delimiting.
    pub(crate) fn order_key(&self, text: &[u8], out: &mut Vec<u8>) {
        match self {
            Self::TinyInt | Self::SmallInt | Self::Int | Self::BigInt => {
                let v: i64 = std::str::from_utf8(text).ok().and_then(|t| t.parse().ok()).unwrap_or(0);
                out.extend_from_slice(&(v.cast_unsigned() ^ (1 << 63)).to_be_bytes());
            }
            Self::LargeInt => {
                let v: i128 = std::str::from_utf8(text).ok().and_then(|t| t.parse().ok()).unwrap_or(0);
                out.extend_from_slice(&(v.cast_unsigned() ^ (1 << 127)).to_be_bytes());
            }
            Self::Decimal { precision, scale } => {
                let v = parse_decimal(text, *precision, *scale).unwrap_or(0);
                out.extend_from_slice(&(v.cast_unsigned() ^ (1 << 127)).to_be_bytes());
            }
            Self::Float | Self::Double => {
                let v: f64 = std::str::from_utf8(text).ok().and_then(|t| t.parse().ok()).unwrap_or(0.0);
                let bits = v.to_bits();
                let ordered = if bits >> 63 == 1 { !bits } else { bits | (1 << 63) };
                out.extend_from_slice(&ordered.to_be_bytes());
            }
            _ => {
                for &b in text {
                    out.push(b);
                    if b == 0 {
                        out.push(0xff);
                    }
                }
                out.extend_from_slice(&[0, 0]);
            }
        }
    }

    /// The 64-bit value that orders a sequence column's canonical text.
    pub(crate) fn sequence_value(&self, text: &[u8]) -> i64 {
        let digits: Vec<u8> = match self {
            Self::Date | Self::DateTime(_) => text.iter().copied().filter(u8::is_ascii_digit).collect(),
            _ => text.to_vec(),
        };
        std::str::from_utf8(&digits).ok().and_then(|t| t.parse().ok()).unwrap_or(0)
    }
}

fn limited(text: &[u8], max: usize, out: &mut Vec<u8>) -> Result<(), Reject> {
    if text.len() > max {
        return Err(Reject::TooLong { max });
    }
    out.extend_from_slice(text);
    Ok(())
}

fn float_text(text: &[u8]) -> Result<&str, Reject> {
    let ok = !text.is_empty() && text.iter().all(|b| matches!(b, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E'));
    if ok { std::str::from_utf8(text).map_err(|_| Reject::Cast) } else { Err(Reject::Cast) }
}

/// The shortest text that reads back as the value, with an exponent when plain digits would be long.
fn print_float(exp: String, plain: String) -> String {
    let Some((mantissa, e)) = exp.split_once('e') else { return plain };
    match e.parse::<i32>() {
        Ok(e) if (-5..16).contains(&e) => plain,
        Ok(e) => format!("{mantissa}e{}{:02}", if e < 0 { '-' } else { '+' }, e.abs()),
        Err(_) => plain,
    }
}

/// The unscaled value, rounded half away from zero at the scale; None if it is no number or too large.
fn parse_decimal(text: &[u8], precision: u8, scale: u8) -> Option<i128> {
    let (neg, digits) = match text.split_first()? {
        (b'-', rest) => (true, rest),
        (b'+', rest) => (false, rest),
        _ => (false, text),
    };
    let (mantissa, exp) = match digits.iter().position(|b| matches!(b, b'e' | b'E')) {
        Some(i) => (&digits[..i], std::str::from_utf8(&digits[i + 1..]).ok()?.parse::<i32>().ok()?),
        None => (digits, 0),
    };
    if exp.abs() > 100 {
        return None;
    }
    let (int, frac) = match mantissa.iter().position(|b| *b == b'.') {
        Some(i) => (&mantissa[..i], &mantissa[i + 1..]),
        None => (mantissa, &b""[..]),
    };
    if int.is_empty() && frac.is_empty() {
        return None;
    }
    let all = int.iter().chain(frac);
    // Digits kept: those of the integer part, moved by the exponent, and `scale` more.
    let keep = i64::try_from(int.len()).ok()? + i64::from(exp) + i64::from(scale);
    let mut v: i128 = 0;
    let mut round = false;
    let mut n = 0i64;
    for b in all {
        if !b.is_ascii_digit() {
            return None;
        }
        if n < keep {
            v = v.checked_mul(10)?.checked_add(i128::from(b - b'0'))?;
        } else if n == keep {
            round = *b >= b'5';
        }
        n += 1;
    }
    for _ in n..keep {
        v = v.checked_mul(10)?;
    }
    v += i128::from(round);
    let limit = 10i128.checked_pow(u32::from(precision))?;
    if v >= limit {
        return None;
    }
    Some(if neg { -v } else { v })
}

fn print_decimal(v: i128, scale: u8, out: &mut Vec<u8>) {
    if v < 0 {
        out.push(b'-');
    }
    let digits = format!("{:0width$}", v.unsigned_abs(), width = usize::from(scale) + 1);
    let (int, frac) = digits.split_at(digits.len() - usize::from(scale));
    out.extend_from_slice(int.as_bytes());
    if scale > 0 {
        out.push(b'.');
        out.extend_from_slice(frac.as_bytes());
    }
}

fn digits2(text: &[u8]) -> Option<i64> {
    match text {
        [a @ b'0'..=b'9', b @ b'0'..=b'9'] => Some(i64::from(a - b'0') * 10 + i64::from(b - b'0')),
        _ => None,
    }
}

/// `yyyy-MM-dd`, 0000-01-01 to 9999-12-31 (doris.md 7.3).
fn parse_date(text: &[u8]) -> Option<(i64, i64, i64)> {
    let [a, b, c, d, b'-', m1, m2, b'-', d1, d2] = *text else { return None };
    let y = digits2(&[a, b])? * 100 + digits2(&[c, d])?;
    let (m, d) = (digits2(&[m1, m2])?, digits2(&[d1, d2])?);
    let leap = y % 4 == 0 && (y % 100 != 0 || y % 400 == 0);
    let last = match m {
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        4 | 6 | 9 | 11 => 30,
        2 => 28 + i64::from(leap),
        _ => return None,
    };
    (1..=last).contains(&d).then_some((y, m, d))
}

/// `yyyy-MM-dd HH:mm:ss[.ffffff]` or a date alone; the fraction is rounded to the column's scale.
fn cast_datetime(text: &[u8], f: u8, out: &mut Vec<u8>) -> Option<()> {
    let (date, time) = if text.len() > 10 { text.split_at(10) } else { (text, &b" 00:00:00"[..]) };
    let (y, m, d) = parse_date(date)?;
    let (clock, frac) = if time.len() > 9 { time.split_at(9) } else { (time, &b""[..]) };
    let [b' ', h1, h2, b':', m1, m2, b':', s1, s2] = *clock else { return None };
    let (h, mi, s) = (digits2(&[h1, h2])?, digits2(&[m1, m2])?, digits2(&[s1, s2])?);
    if h > 23 || mi > 59 || s > 59 {
        return None;
    }
    let mut micros = 0i64;
    if let Some((dot, frac)) = frac.split_first() {
        if *dot != b'.' || frac.is_empty() || frac.len() > 6 || !frac.iter().all(u8::is_ascii_digit) {
            return None;
        }
        micros =
            frac.iter().fold(0, |a, b| a * 10 + i64::from(b - b'0')) * 10i64.pow(6 - u32::try_from(frac.len()).ok()?);
    }
    let unit = 10i64.pow(6 - u32::from(f));
    let rounded = (micros + unit / 2) / unit * unit;
    if rounded < 1_000_000 {
        if time.len() >= 9 && text.len() >= 19 {
            out.extend_from_slice(&text[..19]);
        } else {
            out.extend_from_slice(format!("{y:04}-{m:02}-{d:02} {h:02}:{mi:02}:{s:02}").as_bytes());
        }
    } else {
        let total = days_from_civil(y, m, d) * 86_400 + h * 3600 + mi * 60 + s + 1;
        let (y, m, d) = civil_from_days(total.div_euclid(86_400));
        if y > 9999 {
            return None;
        }
        let t = total.rem_euclid(86_400);
        out.extend_from_slice(
            format!("{y:04}-{m:02}-{d:02} {:02}:{:02}:{:02}", t / 3600, t / 60 % 60, t % 60).as_bytes(),
        );
    }
    if f > 0 {
        let frac = format!("{:06}", rounded % 1_000_000);
        out.push(b'.');
        out.extend_from_slice(&frac.as_bytes()[..usize::from(f)]);
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cast(ty: ColType, text: &str) -> Option<String> {
        let mut out = Vec::new();
        ty.cast(text.as_bytes(), &mut out).ok().map(|()| String::from_utf8(out).unwrap())
    }

    #[test]
    fn values_at_the_edges_of_every_type() {
        use ColType::*;
        let d102 = Decimal { precision: 10, scale: 2 };
        let d38 = Decimal { precision: 38, scale: 30 };
        for (ty, text, want) in [
            (TinyInt, "127", Some("127")),
            (TinyInt, "128", None),
            (TinyInt, "-128", Some("-128")),
            (TinyInt, "-129", None),
            (SmallInt, "32767", Some("32767")),
            (SmallInt, "32768", None),
            (Int, "2147483647", Some("2147483647")),
            (Int, "2147483648", None),
            (Int, "007", Some("7")),
            (Int, "-0", Some("0")),
            (Int, "", None),
            (Int, "1.5", None),
            (Int, "abc", None),
            (BigInt, "-9223372036854775808", Some("-9223372036854775808")),
            (BigInt, "9223372036854775808", None),
            (LargeInt, "18446744073709551615", Some("18446744073709551615")),
            (LargeInt, "170141183460469231731687303715884105727", Some("170141183460469231731687303715884105727")),
            (LargeInt, "170141183460469231731687303715884105728", None),
            (LargeInt, "-170141183460469231731687303715884105728", None),
            (Boolean, "true", Some("1")),
            (Boolean, "0", Some("0")),
            (Boolean, "2", None),
            (Float, "0.1", Some("0.1")),
            (Double, "1e300", Some("1e+300")),
            (Double, "1e400", None),
            (Double, "nan", None),
            (Double, "16107050", Some("16107050")),
            (d102, "12345678.9", Some("12345678.90")),
            (d102, "123456789", None),
            (d102, "-0.005", Some("-0.01")),
            (d102, "99999999.995", None),
            (d102, "1e2", Some("100.00")),
            (d102, "1.2.3", None),
            (d102, ".", None),
            (d38, "-12345678.123456789012345678901234567890", Some("-12345678.123456789012345678901234567890")),
            (d38, "123456789", None),
            (Date, "2024-02-29", Some("2024-02-29")),
            (Date, "2023-02-29", None),
            (Date, "0000-01-01", Some("0000-01-01")),
            (Date, "0000-00-00", None),
            (Date, "2024-01-00", None),
            (Date, "20240101", None),
            (DateTime(0), "2024-01-01 23:59:59.5", Some("2024-01-02 00:00:00")),
            (DateTime(6), "2024-01-01 23:59:59.5", Some("2024-01-01 23:59:59.500000")),
            (DateTime(3), "9999-12-31 23:59:59.9996", None),
            (DateTime(3), "2024-01-01", Some("2024-01-01 00:00:00.000")),
            (DateTime(0), "2024-01-01 24:00:00", None),
            (DateTime(0), "0000-00-00 00:00:00", None),
            (DateTime(0), "2024-01-01T00:00:00", None),
            (Varchar(4), "😀", Some("😀")),
            (Varchar(3), "😀", None),
            (Char(2), "ab", Some("ab")),
            (Char(2), "abc", None),
            (String, "", Some("")),
            (Json, "{\"a\":1}", Some("{\"a\":1}")),
            (Json, "{a}", None),
        ] {
            assert_eq!(cast(ty, text).as_deref(), want, "{ty:?} {text:?}");
        }
        assert_eq!(cast(String, &"x".repeat(STRING_LIMIT + 1)), None);
    }

    #[test]
    fn key_bytes_sort_as_the_values_do() {
        use ColType::*;
        let d = Decimal { precision: 9, scale: 2 };
        for (ty, sorted) in [
            (BigInt, vec!["-9223372036854775808", "-5", "0", "7", "10", "9223372036854775807"]),
            (LargeInt, vec!["-100000000000000000000", "-1", "0", "18446744073709551615"]),
            (d, vec!["-10.00", "-1.50", "0.00", "1.49", "12.00"]),
            (Varchar(9), vec!["", "\0", "\0a", "a", "a\0", "a\0b", "ab"]),
            (Double, vec!["-1e+300", "-1", "0", "0.5", "2"]),
        ] {
            let keys: Vec<Vec<u8>> = sorted
                .iter()
                .map(|t| {
                    let mut out = Vec::new();
                    ty.order_key(t.as_bytes(), &mut out);
                    out
                })
                .collect();
            assert!(keys.is_sorted_by(|a, b| a < b), "{ty:?}");
        }
    }
}

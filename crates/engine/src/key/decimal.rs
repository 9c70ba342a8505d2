//! DECIMAL between its digits and the server's packed form (`strings/decimal.cc`): 9 digits per 4 bytes, big endian,
//! first bit flipped, negatives inverted, so that bytes order as values do.

/// Bytes that `n` leftover digits take.
const LEFTOVER: [usize; 10] = [0, 1, 1, 2, 2, 3, 3, 4, 4, 4];

/// Digits of each packed group, in order: leftover digits of the integer part, groups of nine, leftover of the fraction.
fn groups(precision: u8, scale: u8) -> impl Iterator<Item = usize> {
    let (int, frac) = (usize::from(precision.saturating_sub(scale)), usize::from(scale));
    let nines = |n: usize| core::iter::repeat_n(9, n.checked_div(9).unwrap_or(0));
    let rest = |n: usize| core::iter::once(n.checked_rem(9).unwrap_or(0));
    rest(int).chain(nines(int)).chain(nines(frac)).chain(rest(frac)).filter(|n| *n > 0)
}

fn group_bytes(digits: usize) -> usize {
    LEFTOVER.get(digits).copied().unwrap_or(4)
}

/// Width of a packed DECIMAL(precision, scale).
pub(super) fn width(precision: u8, scale: u8) -> usize {
    groups(precision, scale).map(group_bytes).sum()
}

/// Packs plain digits (`-12.50`); None if they are not a number of this precision and scale. A negative zero is zero.
pub(super) fn pack(text: &[u8], precision: u8, scale: u8, out: &mut Vec<u8>) -> Option<()> {
    let (negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, text),
    };
    let point = memchr_point(digits);
    let (int, frac) = match point {
        Some(at) => (digits.get(..at)?, digits.get(at.checked_add(1)?..)?),
        None => (digits, &[][..]),
    };
    if int.is_empty() && frac.is_empty() || !int.iter().chain(frac).all(u8::is_ascii_digit) {
        return None;
    }
    let int_start = int.iter().position(|b| *b != b'0').unwrap_or(int.len());
    let int = int.get(int_start..)?;
    let (want_int, want_frac) = (usize::from(precision.checked_sub(scale)?), usize::from(scale));
    let frac_end = frac.iter().rposition(|b| *b != b'0').map_or(0, |at| at.saturating_add(1));
    if int.len() > want_int || frac_end > want_frac {
        return None;
    }
    let negative = negative && (!int.is_empty() || frac_end > 0);
    let zeros = |n: usize| core::iter::repeat_n(0_u8, n);
    let value = |b: &u8| b.wrapping_sub(b'0');
    let mut all = zeros(want_int.saturating_sub(int.len()))
        .chain(int.iter().map(value))
        .chain(frac.iter().take(want_frac).map(value))
        .chain(zeros(want_frac.saturating_sub(frac.len())));
    let start = out.len();
    let mask = if negative { 0xff } else { 0 };
    for digits in groups(precision, scale) {
        let group = all.by_ref().take(digits).fold(0_u32, |acc, d| acc.wrapping_mul(10).wrapping_add(u32::from(d)));
        let bytes = group.to_be_bytes();
        let skip = bytes.len().saturating_sub(group_bytes(digits));
        out.extend(bytes.iter().skip(skip).map(|b| b ^ mask));
    }
    *out.get_mut(start)? ^= 0x80;
    Some(())
}

/// Takes a packed value over; None if its width is wrong. A negative zero becomes zero.
pub(super) fn copy(packed: &[u8], precision: u8, scale: u8, out: &mut Vec<u8>) -> Option<()> {
    if packed.len() != width(precision, scale) {
        return None;
    }
    let start = out.len();
    out.extend_from_slice(packed);
    let written = out.get_mut(start..)?;
    if let [0x7f, rest @ ..] = written
        && rest.iter().all(|b| *b == 0xff)
    {
        written.fill(0);
        *written.first_mut()? = 0x80;
    }
    Some(())
}

/// The digits of a packed value, with exactly `scale` digits after the point.
pub(super) fn unpack(packed: &[u8], precision: u8, scale: u8) -> Option<String> {
    if packed.len() != width(precision, scale) {
        return None;
    }
    let negative = packed.first().is_some_and(|b| b & 0x80 == 0);
    let mask = if negative { 0xff } else { 0 };
    let mut digits = String::new();
    let mut at = 0_usize;
    for (i, n) in groups(precision, scale).enumerate() {
        let end = at.checked_add(group_bytes(n))?;
        let bytes = packed.get(at..end)?.iter().enumerate();
        let group = bytes.fold(0_u32, |acc, (j, b)| {
            let b = if i == 0 && j == 0 { b ^ 0x80 } else { *b };
            (acc << 8) | u32::from(b ^ mask)
        });
        let text = format!("{group:0n$}");
        if text.len() > n {
            return None;
        }
        digits.push_str(&text);
        at = end;
    }
    let point = usize::from(precision.checked_sub(scale)?);
    let (int, frac) = digits.split_at_checked(point)?;
    let int = int.trim_start_matches('0');
    let int = if int.is_empty() { "0" } else { int };
    let sign = if negative { "-" } else { "" };
    Some(if frac.is_empty() { format!("{sign}{int}") } else { format!("{sign}{int}.{frac}") })
}

fn memchr_point(digits: &[u8]) -> Option<usize> {
    digits.iter().position(|b| *b == b'.')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packs_as_the_server_does() {
        // 1234567890.1234 as DECIMAL(14,4) is the example of strings/decimal.cc.
        for (text, precision, scale, want) in [
            ("1234567890.1234", 14, 4, &[0x81, 0x0d, 0xfb, 0x38, 0xd2, 0x04, 0xd2][..]),
            ("-1234567890.1234", 14, 4, &[0x7e, 0xf2, 0x04, 0xc7, 0x2d, 0xfb, 0x2d]),
            ("0", 1, 0, &[0x80]),
            ("-0.00", 4, 2, &[0x80, 0x00]),
            ("5", 3, 2, &[0x85, 0x00]),
            ("-.5", 3, 2, &[0x7f, 0xcd]),
        ] {
            let mut out = Vec::new();
            pack(text.as_bytes(), precision, scale, &mut out).unwrap();
            assert_eq!(out, want, "{text}");
        }
        for (text, precision, scale) in
            [("10", 1, 0), ("1.25", 3, 1), ("", 3, 1), ("-", 3, 1), ("1e2", 5, 0), ("x", 5, 0)]
        {
            assert_eq!(pack(text.as_bytes(), precision, scale, &mut Vec::new()), None, "{text}");
        }
    }

    #[test]
    fn digits_come_back() {
        for (text, precision, scale) in [
            ("99999999999999999999999999999999999.999999999999999999999999999999", 65, 30),
            ("-99999999999999999999999999999999999.999999999999999999999999999999", 65, 30),
            ("0.000000000000000000000000000001", 30, 30),
            ("-123456789", 9, 0),
            ("1000000000", 10, 0),
            ("0.10", 2, 2),
        ] {
            let mut out = Vec::new();
            pack(text.as_bytes(), precision, scale, &mut out).unwrap();
            assert_eq!(out.len(), width(precision, scale));
            assert_eq!(unpack(&out, precision, scale).as_deref(), Some(text));
            let mut again = Vec::new();
            copy(&out, precision, scale, &mut again).unwrap();
            assert_eq!(again, out);
        }
        let mut zero = Vec::new();
        copy(&[0x7f, 0xff], 4, 2, &mut zero).unwrap();
        assert_eq!(zero, [0x80, 0]);
    }
}

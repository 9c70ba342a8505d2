use core::fmt;

/// A DECIMAL in MySQL's packed form: 9 digits per 4 bytes, big endian, first bit flipped, negatives inverted.
/// Values of one column order as their bytes do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decimal<'a> {
    /// The packed bytes.
    pub bytes: &'a [u8],
    /// Digits in all.
    pub precision: u8,
    /// Digits after the point.
    pub scale: u8,
}

/// Text that does not fit the column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecimalTextError;

impl fmt::Display for DecimalTextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a decimal number within the column's precision and scale")
    }
}

impl core::error::Error for DecimalTextError {}

/// Bytes of a group of 0 to 9 digits (`dig2bytes` of `strings/decimal.cc`).
const GROUP_BYTES: [u8; 10] = [0, 1, 1, 2, 2, 3, 3, 4, 4, 4];

const POWERS: [u32; 10] = [1, 10, 100, 1000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000, 1_000_000_000];

/// Greatest number of digits a group may have for its place, and its bytes.
#[inline(always)]
fn group(digits: u8) -> (u32, usize) {
    let i = usize::from(digits);
    (POWERS.get(i).copied().unwrap_or(1), usize::from(GROUP_BYTES.get(i).copied().unwrap_or(0)))
}

/// Bytes of a packed DECIMAL(precision, scale).
#[inline(always)]
pub(crate) fn packed_len(precision: u8, scale: u8) -> usize {
    let part = |digits: u8| usize::from(digits / 9).wrapping_mul(4).wrapping_add(group(digits % 9).1);
    part(precision.saturating_sub(scale)).wrapping_add(part(scale))
}

/// The sizes of the digit groups in order: the odd one is first before the point and last after it.
#[inline(always)]
fn groups(precision: u8, scale: u8) -> impl Iterator<Item = u8> {
    let whole = precision.saturating_sub(scale);
    let nines = |n: u8| core::iter::repeat_n(9u8, usize::from(n / 9));
    let odd = |n: u8| Some(n % 9).filter(|n| *n != 0);
    odd(whole).into_iter().chain(nines(whole)).chain(nines(scale)).chain(odd(scale))
}

/// Passes every group's value and digits to `f` until it returns false.
#[inline(always)]
fn for_groups(bytes: &[u8], precision: u8, scale: u8, mut f: impl FnMut(u32, u8) -> bool) -> bool {
    let invert = if bytes.first().is_some_and(|b| b & 0x80 != 0) { 0 } else { 0xff };
    let mut sign = 0x80;
    let mut rest = bytes;
    for digits in groups(precision, scale) {
        let Some((head, tail)) = rest.split_at_checked(group(digits).1) else { return false };
        rest = tail;
        let mut value = 0;
        for b in head {
            value = (value << 8) | u32::from(b ^ invert ^ sign);
            sign = 0;
        }
        if !f(value, digits) {
            return false;
        }
    }
    true
}

/// Whether no digit group is over its greatest value.
#[inline(always)]
pub(crate) fn is_valid(bytes: &[u8], precision: u8, scale: u8) -> bool {
    for_groups(bytes, precision, scale, |value, digits| value < group(digits).0)
}

impl<'a> Decimal<'a> {
    /// A view over packed bytes; `None` unless they are exactly one valid DECIMAL(precision, scale).
    #[must_use]
    pub fn new(bytes: &'a [u8], precision: u8, scale: u8) -> Option<Self> {
        let fits = (1..=65).contains(&precision) && scale <= 30 && scale <= precision;
        let ok = fits && bytes.len() == packed_len(precision, scale) && is_valid(bytes, precision, scale);
        ok.then_some(Self { bytes, precision, scale })
    }

    /// Appends the server's text: no leading zeros but one before the point, the column's scale after it, and no sign
    /// before a zero.
    pub fn write_to(&self, out: &mut Vec<u8>) {
        let whole = self.precision.saturating_sub(self.scale);
        let mut before = 0u8;
        let start = out.len();
        if self.bytes.first().is_some_and(|b| b & 0x80 == 0) {
            out.push(b'-');
        }
        let first_digit = out.len();
        let mut nonzero = false;
        for_groups(self.bytes, self.precision, self.scale, |value, digits| {
            nonzero |= value != 0;
            if before == whole {
                if out.len() == first_digit {
                    out.push(b'0');
                }
                if whole == before {
                    out.push(b'.');
                    before = before.saturating_add(1);
                }
            }
            let fraction = before > whole;
            let mut text = itoa::Buffer::new();
            let text = text.format(value).as_bytes();
            if fraction || out.len() != first_digit {
                let zeros = usize::from(digits).saturating_sub(text.len());
                out.extend(core::iter::repeat_n(b'0', zeros));
                out.extend_from_slice(text);
            } else if value != 0 {
                out.extend_from_slice(text);
            }
            if !fraction {
                before = before.saturating_add(digits);
            }
            true
        });
        if out.len() == first_digit {
            out.push(b'0');
        }
        if !nonzero && first_digit != start {
            out.remove(start);
        }
    }

    /// Packs plain text (`-12.50`, `.5`, `+3`) as DECIMAL(precision, scale) at the end of `out`. Digits beyond the scale
    /// must be zeros: nothing is rounded. On an error nothing is appended.
    pub fn pack(text: &[u8], precision: u8, scale: u8, out: &mut Vec<u8>) -> Result<(), DecimalTextError> {
        let (negative, digits) = match text {
            [b'-', rest @ ..] => (true, rest),
            [b'+', rest @ ..] => (false, rest),
            rest => (false, rest),
        };
        let mut parts = digits.splitn(2, |b| *b == b'.');
        let (whole, fraction) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        let zeros = whole.iter().take_while(|b| **b == b'0').count();
        let whole_digits = whole.get(zeros..).unwrap_or_default();
        let room = usize::from(precision.saturating_sub(scale));
        let kept = fraction.len().min(usize::from(scale));
        let (fraction, cut) = fraction.split_at_checked(kept).unwrap_or_default();
        let is_number = whole.iter().chain(fraction).all(u8::is_ascii_digit) && cut.iter().all(|b| *b == b'0');
        if !is_number || (whole.is_empty() && fraction.is_empty()) || whole_digits.len() > room || precision == 0 {
            return Err(DecimalTextError);
        }
        let pad = |n: usize| core::iter::repeat_n(b'0', n);
        let mut all = pad(room.saturating_sub(whole_digits.len()))
            .chain(whole_digits.iter().copied())
            .chain(fraction.iter().copied())
            .chain(pad(usize::from(scale).saturating_sub(fraction.len())));
        let is_zero = whole_digits.is_empty() && fraction.iter().all(|b| *b == b'0');
        let invert = if negative && !is_zero { 0xff } else { 0 };
        let start = out.len();
        for digits in groups(precision, scale) {
            let value = all
                .by_ref()
                .take(usize::from(digits))
                .fold(0u32, |v, d| v.wrapping_mul(10).wrapping_add(u32::from(d & 0xf)));
            let bytes = value.to_be_bytes();
            let skip = bytes.len().saturating_sub(group(digits).1);
            out.extend(bytes.iter().skip(skip).map(|b| b ^ invert));
        }
        if let Some(first) = out.get_mut(start) {
            *first ^= 0x80;
        }
        Ok(())
    }
}

impl fmt::Display for Decimal<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = Vec::new();
        self.write_to(&mut text);
        f.write_str(core::str::from_utf8(&text).unwrap_or_default())
    }
}

#[cfg(test)]
#[allow(clippy::arithmetic_side_effects, reason = "small numbers")]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text(bytes: &[u8], precision: u8, scale: u8) -> String {
        Decimal::new(bytes, precision, scale).unwrap().to_string()
    }

    #[test]
    fn known_packings() {
        // The example of strings/decimal.cc: 1234567890.1234 and its negative.
        let positive = [0x81, 0x0d, 0xfb, 0x38, 0xd2, 0x04, 0xd2];
        let negative = [0x7e, 0xf2, 0x04, 0xc7, 0x2d, 0xfb, 0x2d];
        assert_eq!(text(&positive, 14, 4), "1234567890.1234");
        assert_eq!(text(&negative, 14, 4), "-1234567890.1234");
        assert_eq!(text(&[0x80], 1, 0), "0");
        assert_eq!(text(&[0x76], 1, 0), "-9");
        assert_eq!(text(&[0x89], 1, 1), "0.9");
        assert_eq!(text(&[0x80, 0, 0, 0], 9, 0), "0");
        // A negative zero prints without its sign.
        assert_eq!(text(&[0x7f, 0xff], 3, 0), "0");
        assert!(Decimal::new(&[0x8a], 1, 0).is_none(), "a digit over 9");
        assert!(Decimal::new(&[0x80, 0], 1, 0).is_none(), "a byte too many");
    }

    #[test]
    fn pack_refuses_what_does_not_fit() {
        let pack = |t: &str, p, s| {
            let mut out = vec![7];
            let r = Decimal::pack(t.as_bytes(), p, s, &mut out);
            assert!(r.is_ok() || out == [7]);
            r
        };
        for (t, p, s) in
            [("100", 2, 0), ("1.23", 3, 1), ("", 3, 1), (".", 3, 1), ("1e2", 5, 0), ("--1", 5, 0), ("1.2.3", 9, 4)]
        {
            assert_eq!(pack(t, p, s), Err(DecimalTextError), "{t}");
        }
        for (t, p, s) in [("0010", 2, 0), ("1.230", 3, 2), (".5", 1, 1), ("5.", 1, 0), ("+7", 1, 0), ("-0", 1, 0)] {
            assert_eq!(pack(t, p, s), Ok(()), "{t}");
        }
    }

    proptest! {
        #[test]
        fn text_round_trips_and_bytes_order_as_numbers(
            a in -999_999_999_999_999_999i128..999_999_999_999_999_999,
            b in -999_999_999_999_999_999i128..999_999_999_999_999_999,
            scale in 0u8..18,
        ) {
            let pack = |n: i128| {
                let digits = format!("{:0>1$}", n.unsigned_abs(), usize::from(scale) + 1);
                let (whole, fraction) = digits.split_at(digits.len() - usize::from(scale));
                let mut t = String::from(if n < 0 { "-" } else { "" }) + whole;
                if scale > 0 {
                    t = t + "." + fraction;
                }
                let mut out = Vec::new();
                Decimal::pack(t.as_bytes(), 18 + scale.min(12), scale, &mut out).unwrap();
                prop_assert_eq!(&text(&out, 18 + scale.min(12), scale), &t);
                Ok(out)
            };
            prop_assert_eq!(pack(a)?.cmp(&pack(b)?), a.cmp(&b));
        }
    }
}

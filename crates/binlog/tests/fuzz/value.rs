//! Single values and their texts: what was printed is read again.

use millstream_binlog::value::{write_double, write_float};
use millstream_binlog::{Charset, Decimal};

/// `u8 kind, u8, u8, bytes`: what the two numbers mean depends on the kind.
pub(crate) fn run(data: &[u8]) {
    let Some((&[kind, a, b], bytes)) = data.split_first_chunk::<3>() else { return };
    match kind % 5 {
        0 => decimal(bytes, a, b),
        1 => decimal_text(bytes, a, b),
        2 => charset(bytes, u16::from_le_bytes([a, b])),
        3 => numbers(bytes),
        // A row of one column, whose values the target `rows` looks at.
        _ => super::rows::run(&[&[1, data[1], a, b, 0, 0xff][..], bytes].concat()),
    }
}

fn decimal(bytes: &[u8], precision: u8, scale: u8) {
    let Some(decimal) = Decimal::new(bytes, precision, scale) else { return };
    let mut text = Vec::new();
    decimal.write_to(&mut text);
    let digits = text.iter().filter(|b| b.is_ascii_digit()).count();
    assert!(digits <= usize::from(precision) + 1);
    let fraction = text.iter().position(|b| *b == b'.').map_or(0, |at| text.len() - at - 1);
    assert_eq!(fraction, usize::from(scale));
    let mut packed = Vec::new();
    Decimal::pack(&text, precision, scale, &mut packed).unwrap();
    // Zero has two forms; nothing else has.
    let zero = text.iter().all(|b| matches!(b, b'0' | b'.'));
    assert!(packed == bytes || zero, "{text:?}");
}

fn decimal_text(text: &[u8], precision: u8, scale: u8) {
    let mut packed = b"kept".to_vec();
    let done = Decimal::pack(text, precision, scale, &mut packed);
    let packed = packed.strip_prefix(b"kept").unwrap();
    if done.is_err() || Decimal::new(packed, precision, scale).is_none() {
        // Sizes that no column has are the only reason for what cannot be read again.
        let size = (1..=65).contains(&precision) && scale <= 30 && scale <= precision;
        assert!(done.is_ok() || packed.is_empty());
        assert!(done.is_err() || !size);
        return;
    }
    let mut again = Vec::new();
    Decimal::new(packed, precision, scale).unwrap().write_to(&mut again);
    assert_eq!(plain(text), plain(&again));
}

/// Sign, digits before the point and digits after it, without zeros that say nothing.
fn plain(text: &[u8]) -> (bool, Vec<u8>, Vec<u8>) {
    let negative = text.first() == Some(&b'-');
    let digits = text.strip_prefix(b"-").or_else(|| text.strip_prefix(b"+")).unwrap_or(text);
    let (whole, fraction) = match digits.iter().position(|b| *b == b'.') {
        Some(at) => (&digits[..at], &digits[at + 1..]),
        None => (digits, &[][..]),
    };
    let whole: Vec<u8> = whole.iter().copied().skip_while(|b| *b == b'0').collect();
    let end = fraction.iter().rposition(|b| *b != b'0').map_or(0, |at| at + 1);
    let fraction = fraction[..end].to_vec();
    (negative && !(whole.is_empty() && fraction.is_empty()), whole, fraction)
}

fn charset(bytes: &[u8], collation: u16) {
    let Some(charset) = Charset::from_collation(collation) else { return };
    let mut text = b"kept".to_vec();
    let done = charset.decode(bytes, &mut text);
    if charset != Charset::Binary {
        assert!(done.is_err() || std::str::from_utf8(&text).is_ok());
    }
    // No byte becomes more than one character of at most three bytes, or two bytes one of four.
    assert!(text.len() <= 4 + 4 * bytes.len());
    if let Err(error) = &done {
        assert!(error.at.is_none_or(|at| at < bytes.len()), "{error}");
    }
    // Text that was read may be followed by more.
    if done.is_ok() && charset.is_supported() {
        let mut twice = Vec::new();
        charset.decode(&[bytes, bytes].concat(), &mut twice).unwrap();
        assert_eq!(twice, text[4..].repeat(2));
    }
}

fn numbers(bytes: &[u8]) {
    let mut text = Vec::new();
    if let Some(bits) = bytes.first_chunk() {
        let value = f64::from_le_bytes(*bits);
        write_double(value, &mut text);
        let again: f64 = std::str::from_utf8(&text).unwrap().parse().unwrap();
        assert_eq!(again.to_bits(), if value.is_finite() { value.to_bits() } else { 0 });
    }
    if let Some(bits) = bytes.first_chunk() {
        let value = f32::from_le_bytes(*bits);
        text.clear();
        write_float(value, &mut text);
        let again: f32 = std::str::from_utf8(&text).unwrap().parse().unwrap();
        assert_eq!(again.to_bits(), if value.is_finite() { value.to_bits() } else { 0 });
    }
}

//! JSON strings. Clean runs are copied whole; only `"`, `\` and control characters are looked at one by one.

const fn nibble(n: u8) -> u8 {
    let low = n & 0xf;
    if low < 10 { b'0'.wrapping_add(low) } else { b'a'.wrapping_sub(10).wrapping_add(low) }
}

const fn must_escape(b: u8) -> bool {
    b < 0x20 || b == b'"' || b == b'\\'
}

/// Whether any of eight bytes must be escaped: the classic zero-byte tests, run over a whole word. Bytes of 0x80 and
/// more never must.
const fn any_must_escape(chunk: [u8; 8]) -> bool {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;
    let word = u64::from_le_bytes(chunk);
    let quote = word ^ (ONES.wrapping_mul(b'"' as u64));
    let slash = word ^ (ONES.wrapping_mul(b'\\' as u64));
    // A borrow can flag a byte above a flagged one too much, never too little: the slow look then decides.
    let control = word.wrapping_sub(ONES.wrapping_mul(0x20)) & !word;
    let quote = quote.wrapping_sub(ONES) & !quote;
    let slash = slash.wrapping_sub(ONES) & !slash;
    (control | quote | slash) & HIGH != 0
}

/// Appends `text` to `out`, escaped for the inside of a JSON string.
pub(crate) fn push_escaped(out: &mut Vec<u8>, text: &str) {
    let bytes = text.as_bytes();
    let (chunks, tail) = bytes.as_chunks::<8>();
    let mut clean = 0_usize;
    let mut at = 0_usize;
    for chunk in chunks {
        if any_must_escape(*chunk) {
            out.extend_from_slice(bytes.get(clean..at).unwrap_or_default());
            push_slow(out, chunk);
            clean = at.saturating_add(8);
        }
        at = at.saturating_add(8);
    }
    out.extend_from_slice(bytes.get(clean..at).unwrap_or_default());
    push_slow(out, tail);
}

fn push_slow(out: &mut Vec<u8>, bytes: &[u8]) {
    for &b in bytes {
        if !must_escape(b) {
            out.push(b);
            continue;
        }
        match b {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            _ => out.extend_from_slice(&[b'\\', b'u', b'0', b'0', nibble(b >> 4), nibble(b)]),
        }
    }
}

/// Appends `text` to `out` as a JSON string, quotes included.
pub(crate) fn push_json_string(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    push_escaped(out, text);
    out.push(b'"');
}

/// Appends `bytes` as lower-case hex.
pub(crate) fn push_hex(out: &mut Vec<u8>, bytes: &[u8]) {
    out.reserve(bytes.len().saturating_mul(2));
    for &b in bytes {
        out.extend_from_slice(&[nibble(b >> 4), nibble(b)]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HEX: &[u8; 16] = b"0123456789abcdef";

    fn escaped(text: &str) -> String {
        let mut out = Vec::new();
        push_json_string(&mut out, text);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn nibbles_are_hex_digits() {
        for n in 0..=255_u8 {
            assert_eq!(nibble(n), HEX[usize::from(n & 0xf)]);
        }
    }

    #[test]
    fn every_position_in_a_word_is_looked_at() {
        for bad in ['"', '\\', '\n', '\r', '\t', '\0', '\x1f', '\x01'] {
            for lead in 0..20 {
                for tail in 0..20 {
                    let text = format!("{}{bad}{}", "é".repeat(lead), "x".repeat(tail));
                    assert_eq!(serde_json::from_str::<String>(&escaped(&text)).unwrap(), text);
                }
            }
        }
        assert_eq!(escaped("a\"b\\c\nd\u{1}\u{7f}é🎈"), "\"a\\\"b\\\\c\\nd\\u0001\u{7f}é🎈\"");
        let mut out = Vec::new();
        push_hex(&mut out, &[0, 0x0f, 0xa9, 0xff]);
        assert_eq!(out, b"000fa9ff");
    }

    proptest! {
        #[test]
        fn strings_come_back(text in any::<String>()) {
            prop_assert_eq!(serde_json::from_str::<String>(&escaped(&text)).unwrap(), text.as_str());
            prop_assert!(!escaped(&text).bytes().any(|b| b < 0x20), "one line");
        }
    }
}

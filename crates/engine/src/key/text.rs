//! Byte strings in an order-preserving, self-delimiting form.

/// NO PAD strings: a zero byte becomes `00 FF` and the end is `00 00`, which sorts below every continuation.
pub(super) fn encode_raw(bytes: &[u8], out: &mut Vec<u8>) {
    out.reserve(bytes.len().saturating_add(2));
    for b in bytes {
        out.push(*b);
        if *b == 0 {
            out.push(0xff);
        }
    }
    out.extend_from_slice(&[0, 0]);
}

/// Reads what [`encode_raw`] wrote; gives the value and what follows it.
pub(super) fn decode_raw(mut bytes: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let mut value = Vec::new();
    loop {
        match bytes {
            [0, 0, rest @ ..] => return Some((value, rest)),
            [0, 0xff, rest @ ..] => {
                value.push(0);
                bytes = rest;
            }
            [0, ..] | [] => return None,
            [b, rest @ ..] => {
                value.push(*b);
                bytes = rest;
            }
        }
    }
}

const SEGMENT: usize = 8;
/// What follows this segment sorts below an endless run of spaces, is one, or sorts above it.
const BELOW: u8 = 1;
const END: u8 = 2;
const ABOVE: u8 = 3;

/// PAD SPACE strings: as if padded with endless spaces. Segments of 8 bytes, the last one filled with spaces, each
/// followed by a byte that says how the rest compares to spaces alone. Trailing spaces do not count.
pub(super) fn encode_padded(bytes: &[u8], out: &mut Vec<u8>) {
    let end = bytes.iter().rposition(|b| *b != b' ').map_or(0, |at| at.saturating_add(1));
    let mut rest = bytes.get(..end).unwrap_or_default();
    loop {
        let (segment, tail) = rest.split_at(rest.len().min(SEGMENT));
        out.extend_from_slice(segment);
        out.extend(core::iter::repeat_n(b' ', SEGMENT.saturating_sub(segment.len())));
        // The tail has no trailing spaces: unless it is empty, some byte differs from a space.
        match tail.iter().find(|b| **b != b' ') {
            None => {
                out.push(END);
                return;
            }
            Some(b) => out.push(if *b < b' ' { BELOW } else { ABOVE }),
        }
        rest = tail;
    }
}

/// Reads what [`encode_padded`] wrote, without trailing spaces.
pub(super) fn decode_padded(mut bytes: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let mut value = Vec::new();
    loop {
        let (segment, rest) = bytes.split_first_chunk::<SEGMENT>()?;
        let (marker, rest) = rest.split_first()?;
        value.extend_from_slice(segment);
        bytes = rest;
        match *marker {
            BELOW | ABOVE => {}
            END => {
                let end = value.iter().rposition(|b| *b != b' ').map_or(0, |at| at.saturating_add(1));
                value.truncate(end);
                return Some((value, bytes));
            }
            _ => return None,
        }
    }
}

#[cfg(test)]
#[allow(clippy::arithmetic_side_effects, reason = "an overflow in a test is a failure")]
mod tests {
    use core::cmp::Ordering;

    use proptest::prelude::*;

    use super::*;

    fn padded(bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        encode_padded(bytes, &mut out);
        out
    }

    fn raw(bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        encode_raw(bytes, &mut out);
        out
    }

    /// What the server does: fill the shorter one with spaces and compare bytes.
    fn pad_space(a: &[u8], b: &[u8]) -> Ordering {
        let n = a.len().max(b.len());
        let fill = |s: &[u8]| s.iter().copied().chain(core::iter::repeat(b' ')).take(n).collect::<Vec<u8>>();
        fill(a).cmp(&fill(b))
    }

    /// Few different bytes around the space, so that runs and ties are common.
    fn strings() -> impl Strategy<Value = Vec<u8>> {
        prop::collection::vec(prop::sample::select(vec![0, 1, 9, 31, 32, 32, 32, 33, 97, 255]), 0..28)
    }

    proptest! {
        #[test]
        fn padded_orders_as_the_server(a in strings(), b in strings()) {
            prop_assert_eq!(padded(&a).cmp(&padded(&b)), pad_space(&a, &b));
        }

        #[test]
        fn padded_comes_back_without_trailing_spaces(a in strings(), tail in strings()) {
            let mut bytes = padded(&a);
            bytes.extend_from_slice(&tail);
            let (value, rest) = decode_padded(&bytes).unwrap();
            let end = a.iter().rposition(|b| *b != b' ').map_or(0, |at| at + 1);
            prop_assert_eq!((value.as_slice(), rest), (&a[..end], tail.as_slice()));
        }

        #[test]
        fn raw_orders_and_comes_back(a in strings(), b in strings(), tail in strings()) {
            prop_assert_eq!(raw(&a).cmp(&raw(&b)), a.cmp(&b));
            let mut bytes = raw(&a);
            bytes.extend_from_slice(&tail);
            let (value, rest) = decode_raw(&bytes).unwrap();
            prop_assert_eq!((value, rest), (a, tail.as_slice()));
        }

        #[test]
        fn odd_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            let _ = decode_raw(&bytes);
            let _ = decode_padded(&bytes);
        }
    }

    #[test]
    fn a_tab_sorts_before_the_end() {
        assert!(padded(b"a\t") < padded(b"a"));
        assert!(padded(b"12345678\t") < padded(b"12345678"));
        assert!(padded(b"12345678x") > padded(b"12345678"));
        assert_eq!(padded(b"a   "), padded(b"a"));
    }
}

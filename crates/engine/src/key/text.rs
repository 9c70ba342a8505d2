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

/// What follows this segment sorts below an endless run of spaces, is one, or sorts above it.
const BELOW: u8 = 1;
const END: u8 = 2;
const ABOVE: u8 = 3;

/// Bytes of a segment: whole spaces, about 8.
fn segment(space: &[u8]) -> usize {
    let whole = 8_usize.div_ceil(space.len().max(1));
    space.len().max(1).saturating_mul(whole)
}

/// How `bytes` compare to endless spaces; `None` if they are the beginning of such a run.
fn against_spaces(bytes: &[u8], space: &[u8]) -> Option<core::cmp::Ordering> {
    bytes.iter().zip(space.iter().cycle()).map(|(b, s)| b.cmp(s)).find(|order| order.is_ne())
}

/// `bytes` without the whole spaces at their end.
fn trimmed<'b>(mut bytes: &'b [u8], space: &[u8]) -> &'b [u8] {
    while let Some(head) = bytes.strip_suffix(space).filter(|_| !space.is_empty()) {
        bytes = head;
    }
    bytes
}

/// PAD SPACE strings, or their weights: as if padded with endless spaces (or the weight of a space). Segments of about 8
/// bytes, the last one filled with spaces, each followed by a byte that says how the rest compares to spaces alone. Spaces at
/// the end do not count. `bytes` must be whole characters (or weights) of the space's width, or the space be one byte.
pub(super) fn encode_padded(bytes: &[u8], space: &[u8], out: &mut Vec<u8>) {
    let width = segment(space);
    let mut rest = trimmed(bytes, space);
    loop {
        let (head, tail) = rest.split_at(rest.len().min(width));
        out.extend_from_slice(head);
        out.extend(space.iter().cycle().take(width.saturating_sub(head.len())));
        // The tail does not end with a space: unless it is empty, some byte differs from the run.
        match against_spaces(tail, space) {
            None => {
                out.push(END);
                return;
            }
            Some(order) => out.push(if order.is_lt() { BELOW } else { ABOVE }),
        }
        rest = tail;
    }
}

/// Reads what [`encode_padded`] wrote, without spaces at the end.
pub(super) fn decode_padded<'b>(mut bytes: &'b [u8], space: &[u8]) -> Option<(Vec<u8>, &'b [u8])> {
    let width = segment(space);
    let mut value = Vec::new();
    loop {
        let (segment, rest) = bytes.split_at_checked(width)?;
        let (marker, rest) = rest.split_first()?;
        value.extend_from_slice(segment);
        bytes = rest;
        match *marker {
            BELOW | ABOVE => {}
            END => {
                let end = trimmed(&value, space).len();
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
        encode_padded(bytes, b" ", &mut out);
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
            let (value, rest) = decode_padded(&bytes, b" ").unwrap();
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
        fn weights_of_any_width_order_as_if_padded(
            a in prop::collection::vec(0..4_u8, 0..12), b in prop::collection::vec(0..4_u8, 0..12), width in 1..5_usize,
        ) {
            // Weights of `width` bytes, the second least of them a space's.
            let weights = |s: &[u8]| s.iter().flat_map(|n| (1..width).map(|_| 9).chain([*n])).collect::<Vec<u8>>();
            let space = weights(&[1]);
            let (wa, wb) = (weights(&a), weights(&b));
            let n = wa.len().max(wb.len());
            let fill = |s: &[u8]| s.iter().chain(space.iter().cycle()).take(n.max(s.len())).copied().collect::<Vec<u8>>();
            let encoded = |s: &[u8]| {
                let mut out = Vec::new();
                encode_padded(s, &space, &mut out);
                out
            };
            let (mut ea, eb) = (encoded(&wa), encoded(&wb));
            prop_assert_eq!(ea.cmp(&eb), fill(&wa).cmp(&fill(&wb)));
            ea.push(7);
            let (value, rest) = decode_padded(&ea, &space).unwrap();
            prop_assert_eq!((value.as_slice(), rest), (trimmed(&wa, &space), &[7][..]));
        }

        #[test]
        fn odd_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            let _ = decode_raw(&bytes);
            let _ = decode_padded(&bytes, b" ");
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

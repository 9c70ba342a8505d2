//! Fields of CSV, made of the JSON values that every value has.
//!
//! Doris splits before it reads anything else, so what holds a separator cannot be carried. Three of its habits are kept
//! away by the order of fields: the first one is a letter or digit of ours (a byte order mark at the start of a load is
//! removed), the last one a number (a carriage return at the end of a row is removed), and no row is empty (which would be
//! skipped).

use super::Fault;

/// Between fields.
pub(crate) const COLUMN: u8 = 1;
/// Behind rows.
pub(crate) const LINE: u8 = 2;

/// Turns the JSON value at `out[start..]` into a field of CSV.
pub(crate) fn from_json(out: &mut Vec<u8>, start: usize) -> Result<(), Fault> {
    let Some(value) = out.get_mut(start..) else { return Ok(()) };
    let length = match value {
        [b'"', text @ .., b'"'] => {
            let length = unescape(text);
            value.copy_within(1..length.saturating_add(1), 0);
            let text = value.get(..length).unwrap_or_default();
            if text == b"\\N" || text.iter().any(|b| matches!(*b, COLUMN | LINE)) {
                return Err(Fault::NotCsv);
            }
            length
        }
        [b'n', b'u', b'l', b'l'] => {
            out.truncate(start);
            out.extend_from_slice(b"\\N");
            return Ok(());
        }
        number => number.len(),
    };
    out.truncate(start.saturating_add(length));
    Ok(())
}

/// Takes the escapes out of the inside of a JSON string, in place; what is left is so long.
fn unescape(text: &mut [u8]) -> usize {
    // Most texts have none.
    let Some(first) = text.iter().position(|b| *b == b'\\') else { return text.len() };
    let (mut from, mut to) = (first, first);
    while let Some(&b) = text.get(from) {
        let (plain, taken) = match (b, text.get(from.saturating_add(1))) {
            (b'\\', Some(b'n')) => (b'\n', 2),
            (b'\\', Some(b'r')) => (b'\r', 2),
            (b'\\', Some(b't')) => (b'\t', 2),
            // Of control characters alone: two digits count.
            (b'\\', Some(b'u')) => {
                let digit = |at: usize| {
                    text.get(from.saturating_add(at)).map_or(0, |d| char::from(*d).to_digit(16).unwrap_or(0))
                };
                let code = digit(4).saturating_mul(16).saturating_add(digit(5));
                (u8::try_from(code).unwrap_or(b'?'), 6)
            }
            (b'\\', Some(other)) => (*other, 2),
            (b, _) => (b, 1),
        };
        if let Some(slot) = text.get_mut(to) {
            *slot = plain;
        }
        (from, to) = (from.saturating_add(taken), to.saturating_add(1));
    }
    to
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encode::push_json_string;
    use proptest::prelude::*;

    fn field(json: &str) -> Result<String, Fault> {
        let mut out = b"before".to_vec();
        out.extend_from_slice(json.as_bytes());
        from_json(&mut out, 6)?;
        Ok(String::from_utf8(out).unwrap().split_off(6))
    }

    #[test]
    fn fields() {
        for (json, csv) in [
            ("null", "\\N"),
            ("-12.5e3", "-12.5e3"),
            ("\"\"", ""),
            ("\"null\"", "null"),
            (r#""a\"b\\c\n\r\t\u0000\u001f""#, "a\"b\\c\n\r\t\0\u{1f}"),
            (r#""\\Nx""#, "\\Nx"),
            ("\"\u{1f388}\"", "\u{1f388}"),
        ] {
            assert_eq!(field(json), Ok(csv.to_owned()), "{json}");
        }
        for json in [r#""\\N""#, r#""a\u0001""#, r#""\u0002""#] {
            assert_eq!(field(json), Err(Fault::NotCsv), "{json}");
        }
    }

    proptest! {
        #[test]
        fn every_other_text_is_itself(text in any::<String>()) {
            let mut json = Vec::new();
            push_json_string(&mut json, &text);
            match field(&String::from_utf8(json).unwrap()) {
                Ok(found) => prop_assert_eq!(found, text),
                Err(_) => {
                    let cannot = text == "\\N" || text.contains(['\u{1}', '\u{2}']);
                    prop_assert!(cannot);
                }
            }
        }
    }
}

//! A plain reading of JSON text.

/// Whether the text is exactly one JSON value of at most so many levels.
pub(super) fn is_json(text: &str, levels: usize) -> bool {
    let mut rest = text.as_bytes();
    value(&mut rest, levels).is_some() && rest.is_empty()
}

fn value(s: &mut &[u8], levels: usize) -> Option<()> {
    match *s.first()? {
        open @ (b'{' | b'[') => {
            *s = &s[1..];
            let close = if open == b'{' { b'}' } else { b']' };
            if s.first() == Some(&close) {
                *s = &s[1..];
                return Some(());
            }
            loop {
                if open == b'{' {
                    string(s)?;
                    literal(s, b": ")?;
                }
                value(s, levels.checked_sub(1)?)?;
                if s.first() == Some(&close) {
                    *s = &s[1..];
                    return Some(());
                }
                literal(s, b", ")?;
            }
        }
        b'"' => string(s),
        b't' => literal(s, b"true"),
        b'f' => literal(s, b"false"),
        b'n' => literal(s, b"null"),
        _ => number(s),
    }
}

fn literal(s: &mut &[u8], word: &[u8]) -> Option<()> {
    *s = s.strip_prefix(word)?;
    Some(())
}

fn string(s: &mut &[u8]) -> Option<()> {
    literal(s, b"\"")?;
    loop {
        let (&first, rest) = s.split_first()?;
        *s = rest;
        match first {
            b'"' => return Some(()),
            0..0x20 => return None,
            b'\\' => {
                let (&escaped, rest) = s.split_first()?;
                *s = rest;
                match escaped {
                    b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => {}
                    b'u' => {
                        let (digits, rest) = s.split_at_checked(4)?;
                        *s = rest;
                        digits.iter().all(u8::is_ascii_hexdigit).then_some(())?;
                    }
                    _ => return None,
                }
            }
            _ => {}
        }
    }
}

fn number(s: &mut &[u8]) -> Option<()> {
    let end = s.iter().position(|b| !matches!(b, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e')).unwrap_or(s.len());
    let (text, rest) = s.split_at(end);
    *s = rest;
    std::str::from_utf8(text).ok()?.parse::<f64>().ok().map(|_| ())
}

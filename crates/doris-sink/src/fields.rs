//! The fields of our own lines of JSON, taken apart and put together again.

/// Writes `old` with the fields of `new` in place of its own, then what else `new` has. Both are lines of one encoder: an object
/// whose last two fields are the hidden columns, for which `new` decides. Where the field that lies at `key_at` in `old` lies now.
pub(crate) fn merged(old: &[u8], key_at: usize, new: &[u8], out: &mut Vec<u8>) -> usize {
    let start = out.len();
    let mut key_now = key_at;
    let (old, new) = (Fields::of(old), Fields::of(new));
    let hidden = 2;
    let (old_hidden, new_hidden) =
        (old.clone().count().saturating_sub(hidden), new.clone().count().saturating_sub(hidden));
    out.push(b'{');
    let mut first = true;
    let mut push = |field: &Field<'_>, out: &mut Vec<u8>| {
        if !core::mem::take(&mut first) {
            out.push(b',');
        }
        out.extend_from_slice(field.whole);
    };
    for field in old.clone().take(old_hidden) {
        let later = new.clone().take(new_hidden).find(|n| n.name == field.name);
        push(later.as_ref().unwrap_or(&field), out);
        if field.at == key_at {
            key_now = out.len().saturating_sub(start).saturating_sub(field.whole.len());
        }
    }
    for field in new.clone().take(new_hidden) {
        if !old.clone().take(old_hidden).any(|o| o.name == field.name) {
            push(&field, out);
        }
    }
    for field in new.skip(new_hidden) {
        push(&field, out);
    }
    out.extend_from_slice(b"}\n");
    key_now
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Field<'a> {
    /// Where it begins in its line.
    at: usize,
    /// The name with its quotes.
    name: &'a [u8],
    /// Name, colon and value.
    whole: &'a [u8],
}

/// The fields of an object in order.
#[derive(Clone, Debug)]
struct Fields<'a> {
    at: usize,
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    fn of(line: &'a [u8]) -> Self {
        let inner = line.strip_suffix(b"\n").unwrap_or(line);
        Self { at: 1, rest: inner.strip_prefix(b"{").and_then(|l| l.strip_suffix(b"}")).unwrap_or_default() }
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Field<'a>;

    fn next(&mut self) -> Option<Field<'a>> {
        if self.rest.is_empty() {
            return None;
        }
        let (mut quoted, mut escaped, mut depth) = (false, false, 0_u32);
        let (mut colon, mut end) = (None, self.rest.len());
        for (at, byte) in self.rest.iter().enumerate() {
            match byte {
                _ if escaped => escaped = false,
                b'\\' if quoted => escaped = true,
                b'"' => quoted = !quoted,
                _ if quoted => {}
                b'[' | b'{' => depth = depth.saturating_add(1),
                b']' | b'}' => depth = depth.saturating_sub(1),
                b':' if depth == 0 => colon = colon.or(Some(at)),
                b',' if depth == 0 => {
                    end = at;
                    break;
                }
                _ => {}
            }
        }
        let (at, next) = (self.at, end.saturating_add(1));
        let whole = self.rest.get(..end)?;
        self.rest = self.rest.get(next..).unwrap_or_default();
        self.at = at.saturating_add(next);
        Some(Field { at, name: whole.get(..colon?)?, whole })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_replaced_by_name() {
        for (old, new, want) in [
            (
                r#"{"k":1,"a":"x,\"}:","b":[1,2],"D":0,"S":1}"#,
                r#"{"k":1,"b":null,"D":0,"S":2}"#,
                r#"{"k":1,"a":"x,\"}:","b":null,"D":0,"S":2}"#,
            ),
            (
                r#"{"k":1,"a":2,"D":0,"S":1}"#,
                r#"{"k":1,"c":"\\","D":0,"S":2}"#,
                r#"{"k":1,"a":2,"c":"\\","D":0,"S":2}"#,
            ),
            (r#"{"a,":2,"k":1,"D":0,"S":1}"#, r#"{"k":1,"a,":"","D":0,"S":2}"#, r#"{"a,":"","k":1,"D":0,"S":2}"#),
        ] {
            let mut out = Vec::new();
            let at = old.find("\"k\"").unwrap();
            let now = merged(format!("{old}\n").as_bytes(), at, format!("{new}\n").as_bytes(), &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), format!("{want}\n"), "{old} {new}");
            assert_eq!(now, want.find("\"k\"").unwrap(), "{want}");
        }
    }
}

//! JSON objects of a load body by the rules of doris.md 7.1: names match in their exact case, unknown names are
//! ignored, of a repeated name the first counts, numbers keep their text, invalid UTF-8 and unescaped control
//! characters are errors.

use std::collections::HashMap;
use std::ops::Range;

/// What a row holds for one column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Slot {
    /// The object does not name the column.
    Missing,
    /// JSON null.
    Null,
    /// Text inside the line: a string without escapes, a number, or a nested value.
    Line(Range<usize>),
    /// Text in the scratch buffer: a string with escapes.
    Scratch(Range<usize>),
    /// true or false, which arrive as "1" and "0".
    Bool(bool),
}

/// Reads objects for a list of column names. Its buffers are reused from row to row.
#[derive(Debug)]
pub(crate) struct ObjectReader {
    names: Vec<Vec<u8>>,
    by_name: HashMap<Vec<u8>, usize>,
    pub(crate) slots: Vec<Slot>,
    scratch: Vec<u8>,
    known: usize,
}

type Pos<'a> = (&'a [u8], usize);

impl ObjectReader {
    pub(crate) fn new(names: impl IntoIterator<Item = String>) -> Self {
        let names: Vec<Vec<u8>> = names.into_iter().map(String::into_bytes).collect();
        let by_name = names.iter().enumerate().map(|(i, n)| (n.clone(), i)).collect();
        Self { slots: vec![Slot::Missing; names.len()], names, by_name, scratch: Vec::new(), known: 0 }
    }

    /// The text of a slot.
    pub(crate) fn text<'a>(&'a self, line: &'a [u8], i: usize) -> Option<&'a [u8]> {
        match &self.slots[i] {
            Slot::Missing | Slot::Null => None,
            Slot::Line(r) => Some(&line[r.clone()]),
            Slot::Scratch(r) => Some(&self.scratch[r.clone()]),
            Slot::Bool(true) => Some(b"1"),
            Slot::Bool(false) => Some(b"0"),
        }
    }

    /// Reads a line that holds exactly one object into the slots.
    pub(crate) fn read_line(&mut self, line: &[u8]) -> Result<(), String> {
        if std::str::from_utf8(line).is_err() {
            return Err("Parse json data failed. code: 10, error info: UTF8_ERROR: The input is not valid UTF-8".into());
        }
        let end = self.read_object(line, skip_ws((line, 0)))?;
        match line.get(skip_ws((line, end))) {
            None => Ok(()),
            Some(b'{') => Err("Multiple JSON objects in a single line".into()),
            Some(_) => Err(parse_error("TRAILING_CONTENT: Unexpected trailing content in the JSON input")),
        }
    }

    /// Reads the object that starts at `at`; the offset after it. The text must be valid UTF-8.
    pub(crate) fn read_object(&mut self, line: &[u8], at: usize) -> Result<usize, String> {
        self.slots.fill(Slot::Missing);
        self.scratch.clear();
        self.known = 0;
        match line.get(at) {
            Some(b'{') => {}
            Some(b'[') => return Err("JSON data is array-object, `strip_outer_array` must be TRUE.".into()),
            _ => return Err(parse_error("INCORRECT_TYPE: The JSON element is not an object")),
        }
        let mut at = skip_ws((line, at + 1));
        if line.get(at) == Some(&b'}') {
            return self.done(at + 1);
        }
        // Rows of one writer name their columns in one order: try the next name before the map.
        let mut guess = 0;
        loop {
            let mark = self.scratch.len();
            let (key, after) = self.string(line, at)?;
            let name = match &key {
                Slot::Scratch(r) => &self.scratch[r.clone()],
                Slot::Line(r) => &line[r.clone()],
                _ => &[],
            };
            let column = match self.names.get(guess) {
                Some(n) if n == name => Some(guess),
                _ => self.by_name.get(name).copied(),
            };
            self.scratch.truncate(mark);
            at = skip_ws((line, after));
            if line.get(at) != Some(&b':') {
                return Err(parse_error("TAPE_ERROR: missing colon after a key"));
            }
            let (value, after) = self.value(line, skip_ws((line, at + 1)))?;
            if let Some(i) = column {
                guess = i + 1;
                if self.slots[i] == Slot::Missing {
                    self.slots[i] = value;
                    self.known += 1;
                }
            }
            at = skip_ws((line, after));
            match line.get(at) {
                Some(b',') => at = skip_ws((line, at + 1)),
                Some(b'}') => return self.done(at + 1),
                _ => return Err(parse_error("TAPE_ERROR: the object is not closed")),
            }
        }
    }

    fn done(&self, at: usize) -> Result<usize, String> {
        if self.known == 0 {
            return Err("There is no column matching jsonpaths in the json file, columns:".to_owned()
                + &self.names.iter().map(|n| String::from_utf8_lossy(n)).collect::<Vec<_>>().join(", "));
        }
        Ok(at)
    }

    fn value(&mut self, line: &[u8], at: usize) -> Result<(Slot, usize), String> {
        match line.get(at) {
            Some(b'"') => self.string(line, at),
            Some(b'-' | b'0'..=b'9') => {
                let end = number(line, at).ok_or_else(|| parse_error("NUMBER_ERROR: bad number"))?;
                Ok((Slot::Line(at..end), end))
            }
            Some(b't') if line[at..].starts_with(b"true") => Ok((Slot::Bool(true), at + 4)),
            Some(b'f') if line[at..].starts_with(b"false") => Ok((Slot::Bool(false), at + 5)),
            Some(b'n') if line[at..].starts_with(b"null") => Ok((Slot::Null, at + 4)),
            Some(b'{' | b'[') => {
                let mark = self.scratch.len();
                let end = self.nested(line, at, 0)?;
                self.scratch.truncate(mark);
                Ok((Slot::Line(at..end), end))
            }
            _ => Err(parse_error("TAPE_ERROR: The JSON document has an improper structure")),
        }
    }

    /// Checks a nested value; the offset after it.
    fn nested(&mut self, line: &[u8], at: usize, depth: usize) -> Result<usize, String> {
        if depth > 200 {
            return Err(parse_error("DEPTH_ERROR: The JSON document was too deep"));
        }
        let Some(open @ (b'{' | b'[')) = line.get(at) else { return self.value(line, at).map(|(_, end)| end) };
        let close = if *open == b'{' { b'}' } else { b']' };
        let mut at = skip_ws((line, at + 1));
        if line.get(at) == Some(&close) {
            return Ok(at + 1);
        }
        loop {
            if close == b'}' {
                let (_, after) = self.string(line, at)?;
                at = skip_ws((line, after));
                if line.get(at) != Some(&b':') {
                    return Err(parse_error("TAPE_ERROR: missing colon after a key"));
                }
                at = skip_ws((line, at + 1));
            }
            at = self.nested(line, at, depth + 1)?;
            at = skip_ws((line, at));
            match line.get(at) {
                Some(b',') => at = skip_ws((line, at + 1)),
                Some(c) if *c == close => return Ok(at + 1),
                _ => return Err(parse_error("TAPE_ERROR: a nested value is not closed")),
            }
        }
    }

    fn string(&mut self, line: &[u8], at: usize) -> Result<(Slot, usize), String> {
        if line.get(at) != Some(&b'"') {
            return Err(parse_error("TAPE_ERROR: a string was expected"));
        }
        let start = at + 1;
        let rest = &line[start..];
        let Some(n) = rest.iter().position(|b| matches!(b, b'"' | b'\\' | 0..=0x1f)) else {
            return Err(parse_error("UNCLOSED_STRING: A string is opened, but never closed"));
        };
        if rest[n] == b'"' {
            return Ok((Slot::Line(start..start + n), start + n + 1));
        }
        let from = self.scratch.len();
        let mut i = start;
        loop {
            let rest = line.get(i..).unwrap_or_default();
            let Some(n) = rest.iter().position(|b| matches!(b, b'"' | b'\\' | 0..=0x1f)) else {
                return Err(parse_error("UNCLOSED_STRING: A string is opened, but never closed"));
            };
            self.scratch.extend_from_slice(&rest[..n]);
            i += n;
            match line[i] {
                b'"' => return Ok((Slot::Scratch(from..self.scratch.len()), i + 1)),
                b'\\' => i = self.escape(line, i + 1)?,
                _ => return Err(parse_error("UNESCAPED_CHARS: Within strings, some characters must be escaped")),
            }
        }
    }

    fn escape(&mut self, line: &[u8], at: usize) -> Result<usize, String> {
        let bad = || parse_error("STRING_ERROR: Problem while parsing a string");
        let c = match line.get(at).ok_or_else(bad)? {
            c @ (b'"' | b'\\' | b'/') => *c,
            b'b' => 8,
            b'f' => 12,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'u' => {
                let hi = hex4(line, at + 1).ok_or_else(bad)?;
                let (code, end) = match hi {
                    0xd800..=0xdbff => {
                        if line.get(at + 5..at + 7) != Some(b"\\u") {
                            return Err(bad());
                        }
                        let lo = hex4(line, at + 7).filter(|lo| (0xdc00..=0xdfff).contains(lo)).ok_or_else(bad)?;
                        (0x10000 + ((hi - 0xd800) << 10) + (lo - 0xdc00), at + 11)
                    }
                    _ => (hi, at + 5),
                };
                let c = char::from_u32(code).ok_or_else(bad)?;
                self.scratch.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
                return Ok(end);
            }
            _ => return Err(bad()),
        };
        self.scratch.push(c);
        Ok(at + 1)
    }
}

pub(crate) fn parse_error(info: &str) -> String {
    let code = match info.split(':').next() {
        Some("UTF8_ERROR") => 10,
        Some("NUMBER_ERROR") => 9,
        Some("STRING_ERROR") => 5,
        Some("DEPTH_ERROR") => 4,
        Some("UNESCAPED_CHARS") => 14,
        Some("UNCLOSED_STRING") => 15,
        Some("INCORRECT_TYPE") => 17,
        _ => 3,
    };
    format!("Parse json data failed. code: {code}, error info: {info}")
}

pub(crate) fn skip_ws((line, mut at): Pos<'_>) -> usize {
    while matches!(line.get(at), Some(b' ' | b'\t' | b'\n' | b'\r')) {
        at += 1;
    }
    at
}

fn hex4(line: &[u8], at: usize) -> Option<u32> {
    let digits = line.get(at..at + 4)?;
    digits.iter().try_fold(0u32, |a, b| Some(a << 4 | char::from(*b).to_digit(16)?))
}

/// The end of the JSON number at `at`.
fn number(line: &[u8], mut at: usize) -> Option<usize> {
    let digits = |mut at: usize| {
        while line.get(at).is_some_and(u8::is_ascii_digit) {
            at += 1;
        }
        at
    };
    if line.get(at) == Some(&b'-') {
        at += 1;
    }
    let int = digits(at);
    if int == at || (line[at] == b'0' && int > at + 1) {
        return None;
    }
    at = int;
    if line.get(at) == Some(&b'.') {
        let frac = digits(at + 1);
        if frac == at + 1 {
            return None;
        }
        at = frac;
    }
    if matches!(line.get(at), Some(b'e' | b'E')) {
        let sign = at + 1 + usize::from(matches!(line.get(at + 1), Some(b'+' | b'-')));
        let exp = digits(sign);
        if exp == sign {
            return None;
        }
        at = exp;
    }
    Some(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &[u8]) -> Result<Vec<Option<String>>, String> {
        let mut r = ObjectReader::new(["a".to_owned(), "B".to_owned()]);
        r.read_line(line)?;
        Ok((0..2)
            .map(|i| match r.slots[i] {
                Slot::Missing => Some("<missing>".into()),
                _ => r.text(line, i).map(|t| String::from_utf8(t.to_vec()).unwrap()),
            })
            .collect())
    }

    #[test]
    fn rows_by_the_rules_of_7_1() {
        let some = |s: &str| Some(s.to_owned());
        for (line, a, b) in [
            (r#"{"a":1,"B":"x"}"#, some("1"), some("x")),
            (r#" { "B" : null , "a" : "" } "#, some(""), None),
            (r#"{"a":1,"a":2,"B":3}"#, some("1"), some("3")),
            (r#"{"a":null,"a":2}"#, None, some("<missing>")),
            (r#"{"A":1,"b":2,"a":3}"#, some("3"), some("<missing>")),
            (r#"{"zz":{"a":[1,{"q":"}"}]},"a":true,"B":false}"#, some("1"), some("0")),
            (
                r#"{"a":18446744073709551616.000000000000000001,"B":-1e5}"#,
                some("18446744073709551616.000000000000000001"),
                some("-1e5"),
            ),
            (r#"{"a":"\\N","B":"\u00e9\ud83d\ude00\n"}"#, some("\\N"), some("é😀\n")),
            (r#"{"\u0061":1,"B":[1, 2]}"#, some("1"), some("[1, 2]")),
        ] {
            assert_eq!(read(line.as_bytes()).unwrap(), [a, b], "{line}");
        }
    }

    #[test]
    fn lines_that_are_not_one_object_are_errors() {
        for (line, want) in [
            (&b"{\"a\":1}{\"a\":2}"[..], "Multiple JSON objects in a single line"),
            (b"{\"a\":\"\xff\"}", "UTF8_ERROR"),
            (b"{\"a\":\"\x01\"}", "UNESCAPED_CHARS"),
            (b"{\"a\":\"tab\t\"}", "UNESCAPED_CHARS"),
            (b"{\"a\":\"x}", "UNCLOSED_STRING"),
            (b"{\"a\":\"\\q\"}", "STRING_ERROR"),
            (b"{\"a\":\"\\ud800x\"}", "STRING_ERROR"),
            (b"{\"a\":01}", "NUMBER_ERROR"),
            (b"{\"a\":1.}", "NUMBER_ERROR"),
            (b"{\"a\":+1}", "TAPE_ERROR"),
            (b"{\"a\":tru}", "TAPE_ERROR"),
            (b"{\"a\":1", "TAPE_ERROR"),
            (b"{\"a\" 1}", "TAPE_ERROR"),
            (b"{\"a\":1} x", "TRAILING_CONTENT"),
            (b"[{\"a\":1}]", "strip_outer_array"),
            (b"{\"x\":1}", "There is no column matching jsonpaths"),
            (b"{}", "There is no column matching jsonpaths"),
            (b"7", "not an object"),
        ] {
            let e = read(line).unwrap_err();
            assert!(e.contains(want), "{}: {e}", String::from_utf8_lossy(line));
        }
        let deep = [&b"{\"a\":"[..], &vec![b'['; 100_000]].concat();
        assert!(read(&deep).unwrap_err().contains("DEPTH_ERROR"));
    }
}

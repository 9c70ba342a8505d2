use std::borrow::Cow;

use millstream_wire::codec::{ParseError, ParseErrorKind, Reader};

/// One step of a path into a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Leg<'a> {
    /// A member of an object.
    Member(Cow<'a, [u8]>),
    /// A cell of an array, counted from its start.
    Cell(usize),
    /// A cell of an array: 0 is the last one.
    FromEnd(usize),
}

/// As deep as a document may be.
const MAX_LEGS: usize = 100;

const FIELD: &str = "json path";

/// The path of a difference (`parse_path` of `sql/json_path.cc`): `$`, then `.name`, `."quoted name"`, `[n]`, `[last]` and
/// `[last-n]` with white space around its parts. A difference changes one place: wildcards and ranges do not occur.
pub(super) fn parse(path: &str) -> Result<Vec<Leg<'_>>, ParseError> {
    let mut p = Parser { rest: path.trim_start_matches(SPACE) };
    p.expect('$')?;
    let mut legs = Vec::new();
    loop {
        p.skip_space();
        let leg = match p.next() {
            None => return Ok(legs),
            Some('.') => p.member()?,
            Some('[') => p.cell()?,
            Some('*') => return Err(p.error(ParseErrorKind::Unsupported)),
            Some(_) => return Err(p.error(ParseErrorKind::BadLength)),
        };
        if legs.len() == MAX_LEGS {
            return Err(p.error(ParseErrorKind::Limit));
        }
        legs.push(leg);
    }
}

const SPACE: [char; 4] = [' ', '\t', '\n', '\r'];

struct Parser<'a> {
    rest: &'a str,
}

impl<'a> Parser<'a> {
    #[cold]
    fn error(&self, kind: ParseErrorKind) -> ParseError {
        Reader::new(self.rest.as_bytes()).error(FIELD, kind)
    }

    fn next(&mut self) -> Option<char> {
        let mut chars = self.rest.chars();
        let c = chars.next();
        self.rest = chars.as_str();
        c
    }

    fn skip_space(&mut self) {
        self.rest = self.rest.trim_start_matches(SPACE);
    }

    fn expect(&mut self, wanted: char) -> Result<(), ParseError> {
        self.rest = self.rest.strip_prefix(wanted).ok_or_else(|| self.error(ParseErrorKind::BadLength))?;
        Ok(())
    }

    fn member(&mut self) -> Result<Leg<'a>, ParseError> {
        self.skip_space();
        if self.rest.starts_with('*') {
            return Err(self.error(ParseErrorKind::Unsupported));
        }
        if let Some(quoted) = self.rest.strip_prefix('"') {
            self.rest = quoted;
            return self.quoted();
        }
        let end = self.rest.find(|c| SPACE.contains(&c) || matches!(c, '.' | '[' | '*')).unwrap_or(self.rest.len());
        let (name, rest) = self.rest.split_at_checked(end).unwrap_or_default();
        self.rest = rest;
        if name.is_empty() {
            return Err(self.error(ParseErrorKind::BadLength));
        }
        Ok(Leg::Member(Cow::Borrowed(name.as_bytes())))
    }

    /// Behind the first quote of a JSON string.
    fn quoted(&mut self) -> Result<Leg<'a>, ParseError> {
        let plain = self.rest.find(['"', '\\']).unwrap_or(self.rest.len());
        let (name, rest) = self.rest.split_at_checked(plain).unwrap_or_default();
        if let Some(rest) = rest.strip_prefix('"') {
            self.rest = rest;
            return Ok(Leg::Member(Cow::Borrowed(name.as_bytes())));
        }
        let mut name = String::new();
        loop {
            match self.next() {
                Some('"') => return Ok(Leg::Member(Cow::Owned(name.into_bytes()))),
                Some('\\') => name.push(self.escaped()?),
                Some(c) => name.push(c),
                None => return Err(self.error(ParseErrorKind::BadLength)),
            }
        }
    }

    fn escaped(&mut self) -> Result<char, ParseError> {
        let c = match self.next() {
            Some(c @ ('"' | '\\' | '/')) => Some(c),
            Some('b') => Some('\u{8}'),
            Some('f') => Some('\u{c}'),
            Some('n') => Some('\n'),
            Some('r') => Some('\r'),
            Some('t') => Some('\t'),
            Some('u') => match self.unit()? {
                high @ 0xd800..=0xdbff => {
                    self.expect('\\')?;
                    self.expect('u')?;
                    let low = self.unit()?;
                    char::decode_utf16([high, low]).next().and_then(Result::ok)
                }
                unit => char::from_u32(u32::from(unit)),
            },
            _ => None,
        };
        c.ok_or_else(|| self.error(ParseErrorKind::BadLength))
    }

    fn unit(&mut self) -> Result<u16, ParseError> {
        let (digits, rest) = self.rest.split_at_checked(4).unwrap_or_default();
        let is_hex = digits.len() == 4 && digits.bytes().all(|b| b.is_ascii_hexdigit());
        let unit = u16::from_str_radix(digits, 16).ok().filter(|_| is_hex);
        let unit = unit.ok_or_else(|| self.error(ParseErrorKind::BadLength))?;
        self.rest = rest;
        Ok(unit)
    }

    /// Behind `[`.
    fn cell(&mut self) -> Result<Leg<'a>, ParseError> {
        self.skip_space();
        let leg = if self.rest.starts_with('*') {
            return Err(self.error(ParseErrorKind::Unsupported));
        } else if let Some(rest) = self.rest.strip_prefix("last") {
            self.rest = rest;
            self.skip_space();
            let mut back = 0;
            if let Some(rest) = self.rest.strip_prefix('-') {
                self.rest = rest;
                self.skip_space();
                back = self.index()?;
            }
            Leg::FromEnd(back)
        } else {
            Leg::Cell(self.index()?)
        };
        self.skip_space();
        if self.rest.starts_with("to") {
            return Err(self.error(ParseErrorKind::Unsupported));
        }
        self.expect(']')?;
        Ok(leg)
    }

    fn index(&mut self) -> Result<usize, ParseError> {
        let end = self.rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(self.rest.len());
        let (digits, rest) = self.rest.split_at_checked(end).unwrap_or_default();
        let index: u32 = digits.parse().map_err(|_| self.error(ParseErrorKind::BadLength))?;
        self.rest = rest;
        usize::try_from(index).map_err(|_| self.error(ParseErrorKind::Limit))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths() {
        let member = |name: &'static str| Leg::Member(Cow::Borrowed(name.as_bytes()));
        for (path, legs) in [
            ("$", vec![]),
            ("$.a.b[3]", vec![member("a"), member("b"), Leg::Cell(3)]),
            (" $ . a [ 0 ] [last] [ last - 2 ] ", vec![member("a"), Leg::Cell(0), Leg::FromEnd(0), Leg::FromEnd(2)]),
            (r#"$."a b"."""#, vec![member("a b"), member("")]),
            (r#"$."q\"\\\n\u00e9\ud834\udd1e""#, vec![member("q\"\\\n\u{e9}\u{1d11e}")]),
            ("$.é日", vec![member("é日")]),
        ] {
            assert_eq!(parse(path).unwrap(), legs, "{path}");
        }
    }

    #[test]
    fn what_is_no_single_place_is_refused() {
        for (path, kind) in [
            ("", ParseErrorKind::BadLength),
            ("a", ParseErrorKind::BadLength),
            ("$a", ParseErrorKind::BadLength),
            ("$.", ParseErrorKind::BadLength),
            ("$..a", ParseErrorKind::BadLength),
            ("$[", ParseErrorKind::BadLength),
            ("$[]", ParseErrorKind::BadLength),
            ("$[-1]", ParseErrorKind::BadLength),
            ("$[4294967296]", ParseErrorKind::BadLength),
            ("$.\"a", ParseErrorKind::BadLength),
            (r#"$."\x""#, ParseErrorKind::BadLength),
            (r#"$."\u12""#, ParseErrorKind::BadLength),
            (r#"$."\ud834a""#, ParseErrorKind::BadLength),
            ("$.*", ParseErrorKind::Unsupported),
            ("$**.a", ParseErrorKind::Unsupported),
            ("$[*]", ParseErrorKind::Unsupported),
            ("$[1 to 2]", ParseErrorKind::Unsupported),
        ] {
            assert_eq!(parse(path).unwrap_err().kind, kind, "{path}");
        }
        assert_eq!(parse(&format!("${}", "[0]".repeat(101))).unwrap_err().kind, ParseErrorKind::Limit);
    }
}

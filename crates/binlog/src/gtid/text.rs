use core::fmt;
use core::str::FromStr;

use millstream_wire::codec::{ParseError, ParseErrorKind, Reader};
use nom::bytes::complete::{tag, take_while, take_while_m_n, take_while1};
use nom::character::complete::u64 as digits;
use nom::combinator::{map_opt, opt, verify};
use nom::sequence::{preceded, terminated};
use nom::{IResult, Parser};

use super::{GNO_END, Gtid, GtidSet, Tag, Tsid, Uuid};

/// Text that is not a GTID, a set of them, or a part of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GtidTextError {
    what: &'static str,
    at: usize,
}

impl fmt::Display for GtidTextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not a GTID text at byte {}: expected {}", self.at, self.what)
    }
}

impl core::error::Error for GtidTextError {}

type Bytes<'a> = IResult<&'a [u8], &'a [u8], ParseError>;

fn space(input: &[u8]) -> Bytes<'_> {
    take_while(|b: u8| b.is_ascii_whitespace()).parse(input)
}

/// A parser as the function that [`Reader::parse`] takes.
pub(super) fn run<'a, O>(
    mut parser: impl Parser<&'a [u8], Output = O, Error = ParseError>,
) -> impl FnOnce(&'a [u8]) -> IResult<&'a [u8], O, ParseError> {
    move |input| parser.parse(input)
}

/// A symbol with white space around it.
pub(super) fn symbol<'a>(c: &'static str) -> impl Parser<&'a [u8], Output = (), Error = ParseError> {
    (space, tag(c), space).map(|_| ())
}

fn hex_byte(input: &[u8]) -> IResult<&[u8], u8, ParseError> {
    let pair = take_while_m_n(2, 2, |b: u8| b.is_ascii_hexdigit());
    map_opt(pair, |p: &[u8]| u8::from_str_radix(core::str::from_utf8(p).ok()?, 16).ok()).parse(input)
}

/// 32 hexadecimal digits, with dashes in the usual four places or without any.
fn uuid(input: &[u8]) -> IResult<&[u8], Uuid, ParseError> {
    let mut out = [0; 16];
    let mut rest = input;
    let dashed = input.get(8) == Some(&b'-');
    for (i, byte) in out.iter_mut().enumerate() {
        if matches!(i, 4 | 6 | 8 | 10) {
            let (after, dash) = opt(tag("-")).parse(rest)?;
            if dash.is_some() != dashed {
                return Err(nom::Err::Error(ParseError::new("grammar", ParseErrorKind::BadLength, rest.len())));
            }
            rest = after;
        }
        (rest, *byte) = hex_byte(rest)?;
    }
    Ok((rest, Uuid(out)))
}

fn tag_text(input: &[u8]) -> IResult<&[u8], Tag, ParseError> {
    let word = take_while1(|b: u8| b.is_ascii_alphanumeric() || b == b'_');
    map_opt(word, Tag::new).parse(input)
}

fn number(input: &[u8]) -> IResult<&[u8], u64, ParseError> {
    verify(digits, |n| (1..GNO_END).contains(n)).parse(input)
}

/// `5` or `5-9`, as a half-open interval.
fn interval(input: &[u8]) -> IResult<&[u8], (u64, u64), ParseError> {
    let range = (number, opt(preceded(symbol("-"), number)));
    map_opt(range, |(first, last)| {
        let last = last.unwrap_or(first);
        Some((first, last.checked_add(1)?)).filter(|_| first <= last)
    })
    .parse(input)
}

const UUID: &str = "a UUID";
const INTERVAL: &str = "a number from 1, or first-last";

/// One UUID with its tags and intervals.
fn uuid_group<'a>(r: &mut Reader<'a>, out: &mut GtidSet) -> Result<(), ParseError> {
    let uuid = r.parse(UUID, uuid)?;
    let mut tsid = Tsid { uuid, tag: Tag::default() };
    r.parse("a colon and a number", run(symbol(":")))?;
    loop {
        let is_tag = r.peek_u8().is_some_and(|b| !b.is_ascii_digit());
        if is_tag {
            tsid.tag = r.parse("a tag or a number", tag_text)?;
            r.parse("a colon and a number", run(symbol(":")))?;
        }
        let (start, end) = r.parse(INTERVAL, interval)?;
        out.insert_interval(tsid, start, end);
        if r.parse("a colon", run(opt(symbol(":"))))?.is_none() {
            return Ok(());
        }
    }
}

pub(super) fn whole<'a, T>(
    text: &'a str,
    parse: impl FnOnce(&mut Reader<'a>) -> Result<T, ParseError>,
) -> Result<T, GtidTextError> {
    let mut r = Reader::new(text.as_bytes());
    let at_end = |e: ParseError| GtidTextError {
        what: e.field,
        at: text.len().saturating_sub(usize::try_from(e.left).unwrap_or(usize::MAX)),
    };
    r.parse("white space", space).map_err(at_end)?;
    let value = parse(&mut r).map_err(at_end)?;
    r.parse("white space", space).map_err(at_end)?;
    r.finish("the end of the text").map_err(at_end)?;
    Ok(value)
}

impl FromStr for GtidSet {
    type Err = GtidTextError;

    /// Reads what servers print and people type: white space and new lines anywhere between the parts, upper case,
    /// empty elements, intervals in any order, tags (`uuid:1-5:tag:7`).
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        whole(text, |r| {
            let mut set = Self::new();
            loop {
                while r.parse("a comma", run(opt(symbol(","))))?.is_some() {}
                if r.is_empty() {
                    return Ok(set);
                }
                uuid_group(r, &mut set)?;
                if !r.parse("white space", space).map(|_| r.is_empty())? {
                    r.parse("a comma or the end", run(symbol(",")))?;
                }
            }
        })
    }
}

impl FromStr for Gtid {
    type Err = GtidTextError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        whole(text, |r| {
            let uuid = r.parse(UUID, run(terminated(uuid, symbol(":"))))?;
            let tag = r.parse("a tag or a number", run(opt(terminated(tag_text_not_number, symbol(":")))))?;
            let gno = r.parse("a number from 1", number)?;
            Ok(Self { tsid: Tsid { uuid, tag: tag.unwrap_or_default() }, gno })
        })
    }
}

fn tag_text_not_number(input: &[u8]) -> IResult<&[u8], Tag, ParseError> {
    verify(tag_text, |t: &Tag| !t.is_empty()).parse(input)
}

impl FromStr for Uuid {
    type Err = GtidTextError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        whole(text, |r| r.parse(UUID, uuid))
    }
}

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, b) in self.0.iter().enumerate() {
            if matches!(i, 4 | 6 | 8 | 10) {
                f.write_str("-")?;
            }
            write!(f, "{b:02x}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for Tsid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.uuid)?;
        if self.tag.is_empty() { Ok(()) } else { write!(f, ":{}", self.tag) }
    }
}

impl fmt::Display for Gtid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.tsid, self.gno)
    }
}

impl fmt::Display for GtidSet {
    /// The server's form: sorted, a UUID once, its untagged intervals first. On one line; the alternate form (`{:#}`)
    /// begins a line for each UUID, as the server prints.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut last: Option<Uuid> = None;
        for (tsid, intervals) in self.tsids() {
            if last != Some(tsid.uuid) {
                if last.is_some() {
                    f.write_str(if f.alternate() { ",\n" } else { "," })?;
                }
                write!(f, "{}", tsid.uuid)?;
                last = Some(tsid.uuid);
            }
            if !tsid.tag.is_empty() {
                write!(f, ":{}", tsid.tag)?;
            }
            for (start, end) in intervals.iter() {
                let last_number = end.saturating_sub(1);
                if start == last_number { write!(f, ":{start}")? } else { write!(f, ":{start}-{last_number}")? }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const U: &str = "3e11fa47-71ca-11e1-9e33-c80aa9429562";
    const V: &str = "4e11fa47-71ca-11e1-9e33-c80aa9429562";

    /// Conformance: D2
    /// Bug: 75, 90
    #[test]
    fn set_texts_normalise() {
        for (text, normal) in [
            (String::new(), String::new()),
            (" \n".into(), String::new()),
            (format!("{U}:1-3:5"), format!("{U}:1-3:5")),
            (format!("{}:5:1-3:4", U.to_uppercase()), format!("{U}:1-5")),
            (format!("{V}:1,\n{U}:7-9 ,"), format!("{U}:7-9,{V}:1")),
            (format!("{U} : 1 - 3 : 5"), format!("{U}:1-3:5")),
            (format!("{U}:tag:1"), format!("{U}:tag:1")),
            (format!("{U}:TAG_2:1-5:7,{U}:1-2"), format!("{U}:1-2:tag_2:1-5:7")),
            (format!("{U}:1:b:2:a:3"), format!("{U}:1:a:3:b:2")),
            (format!("{}:1", U.replace('-', "")), format!("{U}:1")),
            (format!(",,{U}:1,,"), format!("{U}:1")),
        ] {
            assert_eq!(text.parse::<GtidSet>().unwrap().to_string(), normal, "{text}");
        }
    }

    #[test]
    fn bad_texts_name_their_place() {
        for (text, at) in [
            (U.to_string(), U.len()),
            (format!("{U}:"), U.len() + 1),
            (format!("{U}:0"), U.len() + 1),
            (format!("{U}:3-1"), U.len() + 1),
            (format!("{U}:1-"), U.len() + 2),
            (format!("{U}:9223372036854775807"), U.len() + 1),
            (format!("{U}:1;"), U.len() + 2),
            (format!("{U}:1 {V}:1"), U.len() + 3),
            ("3e11fa4771ca-11e1-9e33-c80aa9429562:1".into(), 12),
            ("zz".into(), 0),
            (format!("{U}:tag"), U.len() + 4),
            (format!("{U}:tag:1:t-ag:2"), U.len() + 8),
            (format!("{U}:{}:2", "x".repeat(33)), U.len() + 1),
        ] {
            assert_eq!(text.parse::<GtidSet>().unwrap_err().at, at, "{text}");
        }
    }

    #[test]
    fn single_gtids() {
        for text in [format!("{U}:7"), format!("{U}:tag_1:7")] {
            assert_eq!(text.parse::<Gtid>().unwrap().to_string(), text);
        }
        assert!(format!("{U}:1-2").parse::<Gtid>().is_err());
        assert!(format!("{U}:0").parse::<Gtid>().is_err());
        assert_eq!(U.parse::<Uuid>().unwrap().to_string(), U);
        assert!("3e11fa47".parse::<Uuid>().is_err());
    }
}

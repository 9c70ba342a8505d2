use millstream_wire::codec::{ParseError, ParseErrorKind, Reader};

use super::gtid::{GtidEvent, checked};
use crate::gtid::{Tag, Uuid};

// A message of the server's serialization library (libs/mysql/serialization):
//   version | message size | last field that must be known | (field id | value)…, ids ascending
// Every number is a varint: n trailing one bits of the first byte say that n more bytes follow, the value lies in the
// rest, little endian. Signed numbers are zigzag.

/// Fields of `Gtid_event`.
mod field {
    pub(super) const FLAGS: u64 = 0;
    pub(super) const UUID: u64 = 1;
    pub(super) const GNO: u64 = 2;
    pub(super) const TAG: u64 = 3;
    pub(super) const LAST_COMMITTED: u64 = 4;
    pub(super) const SEQUENCE_NUMBER: u64 = 5;
    pub(super) const IMMEDIATE_TIMESTAMP: u64 = 6;
    pub(super) const ORIGINAL_TIMESTAMP: u64 = 7;
    pub(super) const TRANSACTION_LENGTH: u64 = 8;
    pub(super) const IMMEDIATE_VERSION: u64 = 9;
    pub(super) const ORIGINAL_VERSION: u64 = 10;
    pub(super) const COMMIT_GROUP_TICKET: u64 = 11;
}

fn varint(r: &mut Reader<'_>, name: &'static str) -> Result<u64, ParseError> {
    let first = r.u8(name)?;
    let more = first.trailing_ones();
    let count = usize::try_from(more).unwrap_or(8);
    if count == 0 {
        return Ok(u64::from(first >> 1));
    }
    let rest = r.uint_le(count, name)?;
    // The first byte keeps 7 - more bits; with 7 or 8 trailing ones it keeps none.
    let kept = 7u32.saturating_sub(more);
    let low = u64::from(first).checked_shr(more.saturating_add(1)).unwrap_or(0) & (1u64 << kept).wrapping_sub(1);
    if rest.leading_zeros() < kept {
        return Err(r.error(name, ParseErrorKind::BadLength));
    }
    Ok((rest << kept) | low)
}

fn signed(r: &mut Reader<'_>, name: &'static str) -> Result<i64, ParseError> {
    let zigzag = varint(r, name)?;
    let half = (zigzag >> 1).cast_signed();
    Ok(if zigzag & 1 == 0 { half } else { !half })
}

impl GtidEvent {
    /// Layout of 42.
    pub(crate) fn parse_tagged(mut r: Reader<'_>) -> Result<Self, ParseError> {
        let whole = r.left();
        let version = varint(&mut r, "gtid message version")?;
        if version != 1 {
            return Err(r.error("gtid message version", ParseErrorKind::Unsupported));
        }
        let size = varint(&mut r, "gtid message size")?;
        if size != whole as u64 {
            return Err(r.error("gtid message size", ParseErrorKind::BadLength));
        }
        let must_know = varint(&mut r, "gtid last non-ignorable field")?;

        let (mut uuid, mut tag, mut gno) = ([0; 16], Tag::default(), 0i64);
        let mut event = Self {
            gtid: None,
            flags: 0,
            last_committed: 0,
            sequence_number: 0,
            immediate_commit_micros: 0,
            original_commit_micros: 0,
            transaction_length: 0,
        };
        let mut original = None;
        let mut last = None;
        while !r.is_empty() {
            let id = varint(&mut r, "gtid field id")?;
            if last.is_some_and(|l| id <= l) {
                return Err(r.error("gtid field id", ParseErrorKind::BadLength));
            }
            last = Some(id);
            match id {
                field::FLAGS => event.flags = varint(&mut r, "gtid flags")?.to_le_bytes()[0],
                field::UUID => {
                    for slot in &mut uuid {
                        *slot = u8::try_from(varint(&mut r, "gtid uuid")?)
                            .map_err(|_| r.error("gtid uuid", ParseErrorKind::BadLength))?;
                    }
                }
                field::GNO => gno = signed(&mut r, "gtid number")?,
                field::TAG => {
                    let n = varint(&mut r, "gtid tag length")?;
                    let n = usize::try_from(n).unwrap_or(usize::MAX);
                    tag = Tag::new(r.bytes(n, "gtid tag")?)
                        .ok_or_else(|| r.error("gtid tag", ParseErrorKind::BadUtf8))?;
                }
                field::LAST_COMMITTED => event.last_committed = signed(&mut r, "last_committed")?,
                field::SEQUENCE_NUMBER => event.sequence_number = signed(&mut r, "sequence_number")?,
                field::IMMEDIATE_TIMESTAMP => {
                    event.immediate_commit_micros = varint(&mut r, "immediate_commit_timestamp")?;
                }
                field::ORIGINAL_TIMESTAMP => original = Some(varint(&mut r, "original_commit_timestamp")?),
                field::TRANSACTION_LENGTH => event.transaction_length = varint(&mut r, "transaction_length")?,
                field::IMMEDIATE_VERSION | field::ORIGINAL_VERSION | field::COMMIT_GROUP_TICKET => {
                    varint(&mut r, "gtid version or ticket")?;
                }
                unknown if unknown <= must_know => {
                    return Err(r.error("gtid field id", ParseErrorKind::Unsupported));
                }
                // A newer server's field that may be ignored; its length is not known, nor is what follows.
                _ => break,
            }
        }
        event.original_commit_micros = original.unwrap_or(event.immediate_commit_micros);
        let gno = u64::try_from(gno).unwrap_or(0);
        event.gtid = Some(checked(Uuid(uuid), tag, gno, &r)?);
        Ok(event)
    }
}

#[cfg(test)]
#[allow(clippy::arithmetic_side_effects, reason = "small numbers")]
mod tests {
    use super::*;

    #[test]
    fn varints() {
        for (bytes, value) in [
            (&[0x02][..], 1),
            (&[0x75, 0x03], 0xdd),
            (&[0xfd, 0x03], 0xff),
            (&[0x00], 0),
            (&[0xfe], 127),
            (&[0x7f, 1, 2, 3, 4, 5, 6, 7], 0x0007_0605_0403_0201),
            (&[0xff, 1, 2, 3, 4, 5, 6, 7, 0x88], 0x8807_0605_0403_0201),
        ] {
            let mut r = Reader::new(bytes);
            assert_eq!(varint(&mut r, "v").unwrap(), value, "{bytes:02x?}");
            assert!(r.is_empty());
        }
        assert_eq!(signed(&mut Reader::new(&[0x02]), "v").unwrap(), -1);
        assert_eq!(signed(&mut Reader::new(&[0x04]), "v").unwrap(), 1);
        assert!(varint(&mut Reader::new(&[0xff, 1]), "v").is_err());
    }

    /// The shortest varint.
    fn put(n: u64, out: &mut Vec<u8>) {
        for more in 0..8usize {
            if n < 1 << (7 * (more + 1)) {
                let low = (n << (more + 1)) | ((1 << more) - 1);
                return out.extend_from_slice(&low.to_le_bytes()[..=more]);
            }
        }
        out.push(0xff);
        out.extend_from_slice(&n.to_le_bytes());
    }

    /// A message of `(field, values)`.
    fn message(must_know: u64, fields: &[(u64, Vec<u64>)]) -> Vec<u8> {
        let mut rest = Vec::new();
        put(must_know, &mut rest);
        for (id, values) in fields {
            put(*id, &mut rest);
            values.iter().for_each(|v| put(*v, &mut rest));
        }
        // Version 1; the size counts itself, in one byte.
        let mut out = vec![2];
        put(rest.len() as u64 + 2, &mut out);
        assert_eq!(out.len(), 2);
        [out, rest].concat()
    }

    fn zigzag(n: u64) -> u64 {
        n << 1
    }

    /// Conformance: E3
    /// Bug: 74, 75
    #[test]
    fn a_tagged_gtid_has_all_its_fields_and_those_of_later_servers_do_not_harm_it() {
        let uuid: Vec<u64> = (0..16).map(|i| 0xf8 + i / 2).collect();
        let tag = vec![3, 0];
        let base = vec![(0, vec![1]), (1, uuid.clone()), (2, vec![zigzag(7)])];
        let parse = |bytes: &[u8]| GtidEvent::parse_tagged(Reader::new(bytes));

        let event = parse(&message(2, &base)).unwrap();
        let gtid = event.gtid.unwrap().to_string();
        assert_eq!(gtid, "f8f8f9f9-fafa-fbfb-fcfc-fdfdfefeffff:7");

        // The tag's bytes are no varints: they are put in by hand.
        let mut tagged = message(3, &[&base[..], &[(3, tag)]].concat());
        tagged.truncate(tagged.len() - 1);
        tagged.extend_from_slice(b"t_1");
        tagged[1] += 4;
        assert_eq!(parse(&tagged).unwrap().gtid.unwrap().to_string(), gtid.replace(":7", ":t_1:7"));

        let more = [
            (4, vec![zigzag(5)]),
            (5, vec![zigzag(6)]),
            (6, vec![1_700_000_000_000_000]),
            (7, vec![1_600_000_000_000_000]),
            (8, vec![5_000_000_000]),
            (9, vec![90_704]),
            (10, vec![80_040]),
            (11, vec![u64::MAX]),
        ];
        let all = [&base[..], &more].concat();
        let event = parse(&message(11, &all)).unwrap();
        assert_eq!((event.flags, event.last_committed, event.sequence_number), (1, 5, 6));
        assert_eq!(event.immediate_commit_micros, 1_700_000_000_000_000);
        assert_eq!(event.original_commit_micros, 1_600_000_000_000_000);
        assert_eq!(event.transaction_length, 5_000_000_000);

        // A field of a later server: it must be known, or it may be left out with all that follows.
        let later = [&all[..], &[(12, vec![1, 2, 3])]].concat();
        assert_eq!(parse(&message(12, &later)).unwrap_err().kind, ParseErrorKind::Unsupported);
        assert_eq!(parse(&message(11, &later)).unwrap().transaction_length, 5_000_000_000);

        for (bad, kind) in [
            (message(2, &[(1, uuid.clone()), (0, vec![1])]), ParseErrorKind::BadLength),
            (message(2, &[(1, uuid.clone()), (2, vec![0])]), ParseErrorKind::BadLength),
            (message(2, &[(1, uuid), (2, vec![1])]), ParseErrorKind::BadLength),
            (message(2, &[(1, vec![256; 16])]), ParseErrorKind::BadLength),
            ([&[4][..], &message(2, &base)[1..]].concat(), ParseErrorKind::Unsupported),
            ([&message(2, &base)[..], &[0]].concat(), ParseErrorKind::BadLength),
        ] {
            assert_eq!(parse(&bad).unwrap_err().kind, kind, "{bad:02x?}");
        }
        let whole = message(11, &all);
        for end in 0..whole.len() {
            assert!(parse(&whole[..end]).is_err(), "{end}");
        }
    }
}

use millstream_wire::codec::{ParseError, ParseErrorKind, Reader, Writer};

use super::{GNO_END, GtidSet, Tag, Tsid, Uuid};

// Gtid_set::encode of the server:
//   plain   u64 uuids | per uuid: 16 bytes, u64 intervals, per interval i64 start, i64 end (exclusive)
//   tagged  01, u48 tsids, 01 | per tsid: 16 bytes, tag length as a serialization varint, tag, then as above
// Byte 7 tells them apart: a plain count never reaches 2^56.

impl GtidSet {
    /// The binary form that COM_BINLOG_DUMP_GTID sends and PREVIOUS_GTIDS carries. The tagged format is used only
    /// when a tag is present: servers before 8.3 do not read it.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let tagged = self.tsids().any(|(tsid, _)| !tsid.tag.is_empty());
        let count = self.tsids().len() as u64;
        let mut w = Writer::new();
        if tagged {
            let [a, b, c, d, e, f, ..] = count.to_le_bytes();
            w.u8(1).bytes(&[a, b, c, d, e, f]).u8(1);
        } else {
            w.u64_le(count);
        }
        for (tsid, intervals) in self.tsids() {
            w.bytes(&tsid.uuid.0);
            if tagged {
                // One byte: lengths up to 63 are the value shifted left by one.
                w.u8(tsid.tag.len << 1).bytes(tsid.tag.as_str().as_bytes());
            }
            w.u64_le(intervals.len() as u64);
            for (start, end) in intervals.iter() {
                w.u64_le(start).u64_le(end);
            }
        }
        w.into_bytes()
    }

    /// Reads either binary form. Everything must be used up.
    pub fn decode(bytes: &[u8]) -> Result<Self, ParseError> {
        let mut r = Reader::new(bytes);
        let head: [u8; 8] = r.array("gtid_set count")?;
        let tagged = head[7] == 1;
        let [first, b, c, d, e, f, g, _] = head;
        let count = match (tagged, head[7]) {
            (true, _) if first != 1 => return Err(r.error("gtid_set format", ParseErrorKind::BadTag(first))),
            (true, _) => u64::from_le_bytes([b, c, d, e, f, g, 0, 0]),
            (false, 0) => u64::from_le_bytes(head),
            (false, version) => return Err(r.error("gtid_set format", ParseErrorKind::BadTag(version))),
        };
        let mut set = Self::new();
        for _ in 0..count {
            let uuid = Uuid(r.array("gtid_set uuid")?);
            let tag = if tagged { read_tag(&mut r)? } else { Tag::default() };
            let intervals = r.u64_le("gtid_set interval count")?;
            if intervals > (r.left() as u64) >> 4 {
                return Err(r.error("gtid_set interval count", ParseErrorKind::BadLength));
            }
            let tsid = Tsid { uuid, tag };
            for _ in 0..intervals {
                let (start, end) = (r.u64_le("gtid_set interval start")?, r.u64_le("gtid_set interval end")?);
                if start == 0 || start >= end || end > GNO_END {
                    return Err(r.error("gtid_set interval", ParseErrorKind::BadLength));
                }
                set.insert_interval(tsid, start, end);
            }
        }
        r.finish("gtid_set")?;
        Ok(set)
    }
}

fn read_tag(r: &mut Reader<'_>) -> Result<Tag, ParseError> {
    let length = r.u8("gtid_set tag length")?;
    // Tags are at most 32 bytes, so the varint is one byte and even.
    if length & 1 == 1 || length > 64 {
        return Err(r.error("gtid_set tag length", ParseErrorKind::BadTag(length)));
    }
    let text = r.bytes(usize::from(length >> 1), "gtid_set tag")?;
    Tag::new(text).ok_or_else(|| r.error("gtid_set tag", ParseErrorKind::BadUtf8))
}

#[cfg(test)]
mod tests {
    use super::*;

    const U: &str = "3e11fa47-71ca-11e1-9e33-c80aa9429562";

    /// Conformance: D2, E4
    /// Bug: 75, 90
    #[test]
    fn plain_and_tagged_layouts() {
        let plain: GtidSet = format!("{U}:1-3").parse().unwrap();
        let bytes = plain.encode();
        assert_eq!(bytes.len(), 8 + 16 + 8 + 16);
        assert_eq!(bytes[..8], [1, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(bytes[24..], [1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0]);

        let tagged: GtidSet = format!("{U}:1-3:ab:5").parse().unwrap();
        let bytes = tagged.encode();
        assert_eq!(bytes[..8], [1, 2, 0, 0, 0, 0, 0, 1]);
        assert_eq!(bytes[24], 0);
        assert_eq!(bytes[24 + 1 + 24 + 16..24 + 1 + 24 + 16 + 3], [4, b'a', b'b']);
        for set in [plain, tagged, GtidSet::new()] {
            assert_eq!(GtidSet::decode(&set.encode()).unwrap(), set);
        }
    }

    /// Conformance: P3
    #[test]
    fn hostile_sets_are_refused() {
        let good = format!("{U}:1-3:7:tag:2").parse::<GtidSet>().unwrap().encode();
        for end in 0..good.len() {
            assert!(GtidSet::decode(&good[..end]).is_err(), "prefix {end}");
        }
        for at in 0..good.len() {
            for value in [0, 1, 0x7f, 0x80, 0xff] {
                let mut edited = good.clone();
                edited[at] = value;
                if let Ok(set) = GtidSet::decode(&edited) {
                    assert_eq!(GtidSet::decode(&set.encode()).unwrap(), set);
                }
            }
        }
        let many_sids = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f, 0];
        assert!(GtidSet::decode(&many_sids).is_err());
    }
}

//! What an OK packet says has changed in the session, against a plain reading of it.

use millstream_wire::codec::{ParseError, Reader};
use millstream_wire::flags::CapabilityFlags;
use millstream_wire::response::{OkPacket, SessionChange};

const STATE_CHANGED: u16 = 0x4000;

/// An OK packet of a session with SESSION_TRACK.
pub(crate) fn run(data: &[u8]) {
    let ok = OkPacket::parse(data, CapabilityFlags::PROTOCOL_41 | CapabilityFlags::SESSION_TRACK);
    let Ok(ok) = ok else {
        assert!(plain(data).is_err());
        return;
    };
    let entries = plain(data).unwrap();
    let changes: Vec<_> = ok.changes.iter().collect();
    assert_eq!(changes.len(), entries.len());
    assert_eq!(ok.changes.is_empty(), block(data).unwrap().is_empty());
    for (change, (kind, texts)) in changes.iter().zip(&entries) {
        let lossy = |at: usize| String::from_utf8_lossy(texts[at]);
        match change {
            SessionChange::SystemVariable { name, value } => {
                assert_eq!((*kind, name, value), (0, &lossy(0), &lossy(1)));
            }
            SessionChange::Schema(text) => assert_eq!((*kind, text), (1, &lossy(0))),
            SessionChange::StateChanged(yes) => assert_eq!((*kind, *yes), (2, texts[0] == b"1")),
            SessionChange::Gtids(text) => assert_eq!((*kind, text), (3, &lossy(0))),
            SessionChange::TransactionCharacteristics(text) => assert_eq!((*kind, text), (4, &lossy(0))),
            SessionChange::TransactionState(_) => assert_eq!(*kind, 5),
            SessionChange::Other { kind: other, data } => {
                assert_eq!((other, *data), (kind, texts[0]));
                assert!(*kind > 5);
            }
            other => panic!("a change that this test does not know: {other:?}"),
        }
    }
    let first = entries.iter().find(|(kind, _)| *kind == 3).map(|(_, texts)| String::from_utf8_lossy(texts[0]));
    assert_eq!(ok.changes.gtids(), first);
}

/// The block of changes; nothing where there is none.
fn block(packet: &[u8]) -> Result<&[u8], ParseError> {
    let mut r = Reader::new(packet);
    r.skip(1, "header")?;
    r.lenenc("affected rows")?;
    r.lenenc("last insert id")?;
    let status = r.u16_le("status")?;
    r.u16_le("warnings")?;
    if r.is_empty() {
        return Ok(&[]);
    }
    r.lenenc_bytes("info")?;
    if status & STATE_CHANGED == 0 || r.is_empty() { Ok(&[]) } else { r.lenenc_bytes("changes") }
}

/// Kind and texts of a change.
type Entry<'a> = (u8, Vec<&'a [u8]>);

fn plain(packet: &[u8]) -> Result<Vec<Entry<'_>>, ParseError> {
    let (mut r, mut out) = (Reader::new(block(packet)?), Vec::new());
    while !r.is_empty() {
        let kind = r.u8("kind")?;
        let data = r.lenenc_bytes("data")?;
        let mut inner = Reader::new(data);
        match kind {
            0 => {
                while !inner.is_empty() {
                    out.push((0, vec![inner.lenenc_bytes("name")?, inner.lenenc_bytes("value")?]));
                }
            }
            1 | 4 | 5 => out.push((kind, vec![inner.lenenc_bytes("text")?])),
            3 => {
                inner.skip(1, "encoding")?;
                out.push((3, vec![inner.lenenc_bytes("text")?]));
            }
            _ => out.push((kind, vec![data])),
        }
    }
    Ok(out)
}

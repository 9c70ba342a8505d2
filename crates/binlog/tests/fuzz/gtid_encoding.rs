//! The binary form of GTID sets (PREVIOUS_GTIDS, COM_BINLOG_DUMP_GTID) and GTID events of every kind.

use millstream_binlog::event::EventBody;
use millstream_binlog::{DecoderOptions, EventDecoder, Gtid, GtidSet};

/// `u8 type of the event, body`; the body is also read as a set.
pub(crate) fn run(data: &[u8]) {
    let Some((&kind, body)) = data.split_first() else { return };
    if let Ok(set) = GtidSet::decode(body) {
        let bytes = set.encode();
        assert_eq!(GtidSet::decode(&bytes).as_ref(), Ok(&set));
        // A set has one shortest form, unless tags were announced and none came.
        assert!(bytes.len() <= body.len());
        assert_eq!(set.to_string().parse::<GtidSet>().as_ref(), Ok(&set));
        let (head, tail) = body.split_at(body.len() / 2);
        for part in [head, tail] {
            if let Ok(other) = GtidSet::decode(part) {
                super::gtid_text::laws(&set, &other);
            }
        }
        super::gtid_text::laws(&set, &set);
    }
    // GTID, ANONYMOUS_GTID, GTID_TAGGED; MariaDB's own are the target `mariadb`'s.
    let raw = super::event_of([33, 34, 42, 35][usize::from(kind) % 4], body);
    let mut decoder = EventDecoder::new(DecoderOptions::default());
    if let Ok(event) = decoder.decode(&raw) {
        match event.body {
            EventBody::Gtid(event) => {
                if let Some(gtid) = event.gtid {
                    assert!(gtid.gno > 0);
                    assert_eq!(gtid.to_string().parse::<Gtid>(), Ok(gtid));
                    let set: GtidSet = [gtid].into_iter().collect();
                    assert!(set.contains(&gtid) && set.count() == 1);
                }
            }
            EventBody::PreviousGtids(set) => assert_eq!(set.decode(), GtidSet::decode(body)),
            other => panic!("{other:?}"),
        }
    }
}

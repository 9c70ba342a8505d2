//! OK, ERR, EOF and column definitions: what was read is written and read again without a difference.

use millstream_wire::ColumnDefinition;
use millstream_wire::flags::CapabilityFlags;
use millstream_wire::response::{EofPacket, OkPacket, Phase, Reply, classify, encode_err, parse_err};

const PHASES: [Phase; 8] = [
    Phase::Login,
    Phase::Simple,
    Phase::Query,
    Phase::Prepare,
    Phase::Column,
    Phase::TextRow,
    Phase::BinaryRow,
    Phase::Dump,
];

/// `u8 capabilities, packet`.
pub(crate) fn run(data: &[u8]) {
    let Some((&bits, packet)) = data.split_first() else { return };
    let caps = super::capabilities(bits);
    for phase in PHASES {
        let reply = classify(packet, caps, phase);
        assert_eq!(reply.is_ok_and(|r| r == Reply::Err), packet.first() == Some(&0xff), "ERR is ERR everywhere");
        match reply {
            Ok(Reply::Ok) => assert!(matches!(packet[0], 0 | 0xfe)),
            Ok(Reply::Eof) => assert!(packet[0] == 0xfe && packet.len() < 9),
            Ok(Reply::LocalInfile) => assert!(phase == Phase::Query && packet[0] == 0xfb),
            Ok(Reply::AuthSwitch | Reply::AuthMore | Reply::OldAuthSwitch | Reply::AuthNextFactor) => {
                assert_eq!(phase, Phase::Login);
            }
            Err(_) | Ok(_) => {}
        }
    }
    if let Ok(ok) = OkPacket::parse(packet, caps) {
        // Texts are escaped and cut for people; a text near its limit may be cut elsewhere the second time.
        if is_plain(&ok.info, 512) {
            let again = OkPacket::parse(&ok.encode(), CapabilityFlags::PROTOCOL_41).unwrap();
            assert_eq!((again.affected_rows, again.last_insert_id), (ok.affected_rows, ok.last_insert_id));
            assert_eq!((again.status, again.warnings, again.info), (ok.status, ok.warnings, ok.info));
        }
    }
    if let Ok(error) = parse_err(packet)
        && is_plain(&error.message, 4096)
    {
        let state: [u8; 5] = error.sqlstate().as_bytes().try_into().unwrap();
        assert_eq!(parse_err(&encode_err(error.code, state, &error.message)).unwrap(), error);
    }
    if let Ok(eof) = EofPacket::parse(packet) {
        assert_eq!(EofPacket::parse(&eof.encode()), Ok(eof));
    }
    if let Ok(column) = ColumnDefinition::parse(packet) {
        let names = [&column.schema, &column.table, &column.org_table, &column.name, &column.org_name];
        if names.into_iter().all(|name| is_plain(name, 1024)) {
            assert_eq!(ColumnDefinition::parse(&column.encode()).unwrap(), column);
        }
    }
}

/// Control bytes never get through; whether the text was short enough to be kept whole.
fn is_plain(text: &str, limit: usize) -> bool {
    assert!(!text.chars().any(char::is_control) && text.len() <= limit + 16);
    text.len() < limit
}

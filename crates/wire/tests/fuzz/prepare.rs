//! The answer to COM_STMT_PREPARE.

use millstream_wire::flags::CapabilityFlags;
use millstream_wire::prepare::PrepareReader;

/// `u8 capabilities, packets`.
pub(crate) fn run(data: &[u8]) {
    let Some((&bits, rest)) = data.split_first() else { return };
    let caps = super::capabilities(bits);
    let packets = super::packets(rest);
    let mut reader = PrepareReader::new(caps);
    for (i, packet) in packets.iter().enumerate() {
        match reader.handle(packet) {
            Ok(None) => {}
            Ok(Some(prepared)) => {
                // As many packets were read as the head announced.
                let [_, _, _, _, _, c0, c1, p0, p1, ..] = packets[0][..] else { panic!("a head of fewer bytes") };
                let (columns, params) = (u16::from_le_bytes([c0, c1]), u16::from_le_bytes([p0, p1]));
                assert_eq!((prepared.columns.len(), prepared.params), (usize::from(columns), params));
                let eof = usize::from(!caps.contains(CapabilityFlags::DEPRECATE_EOF));
                let list = |n: u16| if n == 0 { 0 } else { usize::from(n) + eof };
                assert_eq!(i, list(columns) + list(params));
                return;
            }
            Err(_) => return,
        }
    }
}

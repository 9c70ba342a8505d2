//! The packets of a dump, with semi-sync and without.

use millstream_wire::dump::DumpReader;

/// A packet.
pub(crate) fn run(data: &[u8]) {
    let packet = bytes::Bytes::copy_from_slice(data);
    for (semi_sync, non_blocking) in [(false, true), (true, true), (true, false)] {
        let mut reader = DumpReader::new(semi_sync, non_blocking);
        match reader.handle(packet.clone()) {
            Ok(Some(event)) => {
                // A slice of its packet that ends where the packet ends, behind one byte or three.
                let front = data.len() - event.bytes.len();
                assert_eq!((data[0], &event.bytes[..]), (0, &data[front..]));
                assert_eq!(event.bytes.as_ptr(), packet[front..].as_ptr());
                assert!(front == 1 || (semi_sync && front == 3 && data[1] == 0xef));
                assert!(!event.wants_ack || (front == 3 && data[2] == 1));
                assert!(!reader.is_ended());
            }
            Ok(None) => assert!(data[0] == 0xfe && data.len() < 9 && reader.is_ended() && non_blocking),
            Err(error) => {
                assert_eq!(error.server_error().is_some(), data.first() == Some(&0xff) && data.len() >= 3);
            }
        }
    }
}

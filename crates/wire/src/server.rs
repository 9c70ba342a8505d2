//! The server's side, as far as a server for tests needs it: payloads only, framed by
//! [`PacketCodec`](crate::packet::PacketCodec).
//!
//! ```text
//! send greeting(..)            receive HandshakeResponse41::parse, check_native_password
//! send ok(..) | err(..)        receive [command byte, ..]; COM_QUERY is 0x03 and the statement
//! send result_set(..) packets  -- begin_command() on the codec before each command is read
//! ```

use crate::flags::{CapabilityFlags, StatusFlags};
use crate::handshake::{HandshakeV10, NONCE_LEN};
use crate::response::{ColumnDefinition, EofPacket, OkPacket};

pub use crate::auth::check_native_password;
pub use crate::handshake::HandshakeResponse41;
pub use crate::response::{encode_err as err, encode_text_row as text_row};

/// What the greeting below offers: no TLS, no compression, no session tracking, classic EOF packets.
pub const CAPABILITIES: CapabilityFlags = CapabilityFlags::LONG_PASSWORD
    .union(CapabilityFlags::LONG_FLAG)
    .union(CapabilityFlags::CONNECT_WITH_DB)
    .union(CapabilityFlags::PROTOCOL_41)
    .union(CapabilityFlags::TRANSACTIONS)
    .union(CapabilityFlags::SECURE_CONNECTION)
    .union(CapabilityFlags::MULTI_RESULTS)
    .union(CapabilityFlags::PLUGIN_AUTH)
    .union(CapabilityFlags::CONNECT_ATTRS)
    .union(CapabilityFlags::PLUGIN_AUTH_LENENC);

/// A greeting that asks for `mysql_native_password`. The nonce should be random and free of NUL bytes.
#[must_use]
pub fn greeting(server_version: &str, connection_id: u32, nonce: [u8; NONCE_LEN]) -> Vec<u8> {
    HandshakeV10 {
        server_version: server_version.into(),
        connection_id,
        nonce,
        capabilities: CAPABILITIES,
        charset: 33,
        status: StatusFlags::AUTOCOMMIT,
        auth_plugin: "mysql_native_password".into(),
    }
    .encode()
}

/// An AuthSwitchRequest to `mysql_native_password`, for clients that answered with another plugin.
#[must_use]
pub fn switch_to_native_password(nonce: [u8; NONCE_LEN]) -> Vec<u8> {
    [&[0xfe][..], b"mysql_native_password\0", &nonce, &[0]].concat()
}

/// OK without a result set.
#[must_use]
pub fn ok(affected_rows: u64) -> Vec<u8> {
    OkPacket { affected_rows, status: StatusFlags::AUTOCOMMIT, ..OkPacket::default() }.encode()
}

/// The EOF after columns and after rows.
#[must_use]
pub fn eof() -> Vec<u8> {
    EofPacket { warnings: 0, status: StatusFlags::AUTOCOMMIT }.encode()
}

/// A whole text result set for a client without DEPRECATE_EOF (which [`CAPABILITIES`] does not offer), packet by packet.
#[must_use]
pub fn result_set<R, V>(columns: &[&str], rows: R) -> Vec<Vec<u8>>
where
    R: IntoIterator,
    R::Item: AsRef<[Option<V>]>,
    V: AsRef<[u8]>,
{
    let columns: Vec<ColumnDefinition> = columns.iter().map(|name| ColumnDefinition::text(name)).collect();
    result_set_of(&columns, rows)
}

/// The same with column definitions of one's own.
#[must_use]
pub fn result_set_of<R, V>(columns: &[ColumnDefinition], rows: R) -> Vec<Vec<u8>>
where
    R: IntoIterator,
    R::Item: AsRef<[Option<V>]>,
    V: AsRef<[u8]>,
{
    let mut count = crate::codec::Writer::new();
    count.lenenc(columns.len() as u64);
    let mut packets = vec![count.into_bytes()];
    packets.extend(columns.iter().map(ColumnDefinition::encode));
    packets.push(eof());
    packets.extend(rows.into_iter().map(|row| text_row(row.as_ref().iter().map(|v| v.as_ref().map(AsRef::as_ref)))));
    packets.push(eof());
    packets
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connect::{Action, Connect, Login};
    use crate::query::{QueryEvent, ResultReader};
    use crate::response::RowFormat;

    #[test]
    fn our_client_understands_it() {
        let nonce = *b"01234567890123456789";
        let login = Login {
            user: "root".into(),
            password: "pw".into(),
            database: Some("db".into()),
            max_packet: 1 << 24,
            attributes: vec![("a".into(), "b".into())],
            ..Login::default()
        };
        let mut client = Connect::new(login).unwrap();
        let Action::Send(packet) = client.handle(&greeting("5.7.99", 1, nonce)).unwrap() else { panic!() };
        let parsed = HandshakeResponse41::parse(&packet).unwrap();
        assert_eq!((parsed.user, parsed.database), (&b"root"[..], Some(&b"db"[..])));
        assert!(check_native_password(b"pw", &nonce, parsed.auth));
        let other = *b"abcdefghijklmnopqrst";
        let Action::Send(answer) = client.handle(&switch_to_native_password(other)).unwrap() else { panic!() };
        assert!(check_native_password(b"pw", &other, &answer));
        let Action::Done(session) = client.handle(&ok(0)).unwrap() else { panic!() };

        let mut reader = ResultReader::new(session.capabilities, RowFormat::Text);
        let rows = [[Some("1"), None]];
        let events: Vec<_> = result_set(&["a", "b"], rows).iter().map(|p| reader.handle(p).unwrap()).collect();
        assert_eq!(events.iter().filter(|e| **e == QueryEvent::Row).count(), 1);
        assert!(reader.is_finished());
    }
}

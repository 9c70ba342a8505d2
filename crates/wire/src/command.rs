//! What a client asks: each function is one command's payload (`page_protocol_command_phase`).

use crate::codec::{Bitmap, Writer};
use crate::error::Error;
use crate::response::Value;

const COM_QUIT: u8 = 0x01;
const COM_QUERY: u8 = 0x03;
const COM_PING: u8 = 0x0e;
const COM_BINLOG_DUMP: u8 = 0x12;
const COM_REGISTER_SLAVE: u8 = 0x15;
const COM_STMT_PREPARE: u8 = 0x16;
const COM_STMT_EXECUTE: u8 = 0x17;
const COM_STMT_CLOSE: u8 = 0x19;
const COM_STMT_RESET: u8 = 0x1a;
const COM_STMT_FETCH: u8 = 0x1c;
const COM_BINLOG_DUMP_GTID: u8 = 0x1e;

const CURSOR_TYPE_NO_CURSOR: u8 = 0;
const CURSOR_TYPE_READ_ONLY: u8 = 1;

/// Dump flag: end with an EOF at the log's end instead of waiting (`BINLOG_DUMP_NON_BLOCK`).
pub const DUMP_NON_BLOCK: u16 = 1;
/// Dump flag: heartbeats of version 2, whose positions go beyond 4 GiB (`USE_HEARTBEAT_EVENT_V2`, since 8.0.26). Never
/// for MariaDB, where the bit asks for something else.
pub const DUMP_HEARTBEAT_V2: u16 = 2;

/// Dump flag: MariaDB's ANNOTATE_ROWS too (`BINLOG_SEND_ANNOTATE_ROWS_EVENT`). Never for MySQL, where the bit asks for
/// something else.
pub const DUMP_ANNOTATE_ROWS: u16 = 2;

/// Begins an acknowledgement of a replica (`kPacketMagicNum` in `plugin/semisync/semisync.cc`).
const SEMI_SYNC_ACK: u8 = 0xef;

fn text(command: u8, text: &[u8]) -> Vec<u8> {
    let mut w = Writer::new();
    w.u8(command).bytes(text);
    w.into_bytes()
}

/// COM_QUIT: the server closes the connection.
#[must_use]
pub fn quit() -> Vec<u8> {
    vec![COM_QUIT]
}

/// COM_PING: answered by OK.
#[must_use]
pub fn ping() -> Vec<u8> {
    vec![COM_PING]
}

/// COM_QUERY, without query attributes.
#[must_use]
pub fn query(sql: &[u8]) -> Vec<u8> {
    text(COM_QUERY, sql)
}

/// COM_STMT_PREPARE.
#[must_use]
pub fn prepare(sql: &[u8]) -> Vec<u8> {
    text(COM_STMT_PREPARE, sql)
}

/// COM_STMT_CLOSE: not answered.
#[must_use]
pub fn close_statement(id: u32) -> Vec<u8> {
    text(COM_STMT_CLOSE, &id.to_le_bytes())
}

/// COM_STMT_RESET: closes the statement's cursor; answered by OK.
#[must_use]
pub fn reset_statement(id: u32) -> Vec<u8> {
    text(COM_STMT_RESET, &id.to_le_bytes())
}

/// COM_STMT_FETCH: the next rows of a cursor, at most this many (`page_protocol_com_stmt_fetch`).
#[must_use]
pub fn fetch(id: u32, rows: u32) -> Vec<u8> {
    let mut w = Writer::new();
    w.u8(COM_STMT_FETCH).u32_le(id).u32_le(rows);
    w.into_bytes()
}

/// The answer to a request for a local file: an empty packet, which stands for an empty file
/// (`page_protocol_com_query_response_local_infile_request`).
#[must_use]
pub const fn no_file() -> [u8; 0] {
    []
}

/// COM_STMT_EXECUTE without a cursor: id, cursor type, 1, null bitmap, 1, a type per parameter, values
/// (`page_protocol_com_stmt_execute`).
#[must_use]
pub fn execute(id: u32, params: &[Value<'_>]) -> Vec<u8> {
    execute_with(id, CURSOR_TYPE_NO_CURSOR, params)
}

/// COM_STMT_EXECUTE that asks for a cursor: the rows stay on the server until [`fetch`] asks for them. For what gives no
/// rows, or cannot have a cursor, the server answers as without one.
#[must_use]
pub fn execute_with_cursor(id: u32, params: &[Value<'_>]) -> Vec<u8> {
    execute_with(id, CURSOR_TYPE_READ_ONLY, params)
}

fn execute_with(id: u32, cursor: u8, params: &[Value<'_>]) -> Vec<u8> {
    let mut w = Writer::new();
    w.u8(COM_STMT_EXECUTE).u32_le(id).u8(cursor).u32_le(1);
    if params.is_empty() {
        return w.into_bytes();
    }
    let mut nulls = vec![0u8; Bitmap::byte_len(params.len())];
    for (i, _) in params.iter().enumerate().filter(|(_, p)| matches!(p, Value::Null)) {
        if let Some(byte) = nulls.get_mut(i >> 3) {
            *byte |= 1 << (i & 7);
        }
    }
    w.bytes(&nulls).u8(1);
    for p in params {
        w.u16_le(param_type(p));
    }
    for p in params {
        param_value(&mut w, p);
    }
    w.into_bytes()
}

/// Type code, and 0x8000 for unsigned.
const fn param_type(value: &Value<'_>) -> u16 {
    match value {
        Value::Null => 6,
        Value::Int(_) => 8,
        Value::UInt(_) => 0x8008,
        Value::Float(_) => 4,
        Value::Double(_) => 5,
        Value::Bytes(_) => 252,
        Value::Text(_) => 253,
        Value::Date { .. } => 10,
        Value::DateTime { .. } => 12,
        Value::Time { .. } => 11,
    }
}

fn param_value(w: &mut Writer, value: &Value<'_>) {
    match *value {
        Value::Null => {}
        Value::Int(v) => {
            w.bytes(&v.to_le_bytes());
        }
        Value::UInt(v) => {
            w.u64_le(v);
        }
        Value::Float(v) => {
            w.bytes(&v.to_le_bytes());
        }
        Value::Double(v) => {
            w.bytes(&v.to_le_bytes());
        }
        Value::Bytes(v) => {
            w.lenenc_bytes(v);
        }
        Value::Text(v) => {
            w.lenenc_bytes(v.as_bytes());
        }
        Value::Date { year, month, day } => {
            w.u8(4).u16_le(year).u8(month).u8(day);
        }
        Value::DateTime { year, month, day, hour, minute, second, micros } => {
            w.u8(11).u16_le(year).bytes(&[month, day, hour, minute, second]).u32_le(micros);
        }
        Value::Time { negative, days, hours, minutes, seconds, micros } => {
            w.u8(12).u8(negative.into()).u32_le(days).bytes(&[hours, minutes, seconds]).u32_le(micros);
        }
    }
}

/// COM_REGISTER_SLAVE: shows the replica in SHOW REPLICAS (`com_register_slave` in `sql/rpl_source.cc`). Host, user and
/// password stay empty: they would only be shown to others.
#[must_use]
pub fn register_replica(server_id: u32) -> Vec<u8> {
    let mut w = Writer::new();
    w.u8(COM_REGISTER_SLAVE).u32_le(server_id).zeros(3).u16_le(0).u32_le(0).u32_le(0);
    w.into_bytes()
}

/// COM_BINLOG_DUMP: from a place in a file. The position has 32 bits on the wire.
///
/// # Errors
/// A position beyond 4 GiB: start at the file's beginning (4) and skip, or by GTID.
pub fn binlog_dump(file: &str, position: u64, flags: u16, server_id: u32) -> Result<Vec<u8>, Error> {
    let position = u32::try_from(position).map_err(|_| {
        Error::usage("a dump by file cannot start beyond 4 GiB: start at the file's beginning, or by GTID")
    })?;
    let mut w = Writer::new();
    w.u8(COM_BINLOG_DUMP).u32_le(position).u16_le(flags).u32_le(server_id).bytes(file.as_bytes());
    Ok(w.into_bytes())
}

/// COM_BINLOG_DUMP_GTID: all transactions but those of an encoded set (`com_binlog_dump_gtid`). File and position are
/// left to the server.
#[must_use]
pub fn binlog_dump_gtid(encoded_set: &[u8], flags: u16, server_id: u32) -> Vec<u8> {
    let mut w = Writer::new();
    w.u8(COM_BINLOG_DUMP_GTID).u16_le(flags).u32_le(server_id).u32_le(0).u64_le(4);
    let mark = w.mark_u32_le();
    w.bytes(encoded_set);
    w.fill_u32_le(mark);
    w.into_bytes()
}

/// A replica's acknowledgement of all events up to a place, the end of the last of them, in a semi-synchronous dump:
/// `ef`, u64 position, file name (`slave_reply` in `plugin/semisync/semisync_replica.cc`). It is a packet of sequence id 0
/// that is not answered.
#[must_use]
pub fn acknowledge(file: &str, position: u64) -> Vec<u8> {
    let mut w = Writer::new();
    w.u8(SEMI_SYNC_ACK).u64_le(position).bytes(file.as_bytes());
    w.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Conformance: D1, D2
    /// Bug: 81, 92, 110
    #[test]
    fn dump_layouts() {
        assert_eq!(
            binlog_dump("b.000001", 4, DUMP_NON_BLOCK, 7).unwrap(),
            [&[0x12, 4, 0, 0, 0, 1, 0, 7, 0, 0, 0][..], b"b.000001"].concat()
        );
        assert!(binlog_dump("b.000001", 1 << 32, 0, 7).is_err());
        assert_eq!(
            binlog_dump_gtid(&[0; 8], DUMP_HEARTBEAT_V2, 7),
            [&[0x1e, 2, 0, 7, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0][..], &[0; 8]].concat()
        );
        assert_eq!(register_replica(7).len(), 18);
        assert_eq!(acknowledge("b.1", 0x1_0000_0002), [&[0xef, 2, 0, 0, 0, 1, 0, 0, 0][..], b"b.1"].concat());
    }

    #[test]
    fn execute_layout() {
        assert_eq!(execute(3, &[]), [0x17, 3, 0, 0, 0, 0, 1, 0, 0, 0]);
        assert_eq!(execute_with_cursor(3, &[]), [0x17, 3, 0, 0, 0, 1, 1, 0, 0, 0]);
        assert_eq!(fetch(3, 258), [0x1c, 3, 0, 0, 0, 2, 1, 0, 0]);
        assert_eq!(reset_statement(3), [0x1a, 3, 0, 0, 0]);
        let params = [Value::Int(-1), Value::Null, Value::Text("ab"), Value::UInt(1)];
        let bytes = execute(3, &params);
        assert_eq!(bytes[10..20], [0b10, 1, 8, 0, 6, 0, 253, 0, 8, 0x80]);
        assert_eq!(bytes[20..28], [0xff; 8]);
        assert_eq!(bytes[28..31], *b"\x02ab");
        assert_eq!(bytes.len(), 39);
    }
}

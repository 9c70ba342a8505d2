//! A binlog dump: how it is asked for, and what its packets are.
//!
//! ```text
//! BinlogDump: statements() -> COM_QUERY, one after the other
//!             [command::register_replica]
//!             request()    -> COM_BINLOG_DUMP or COM_BINLOG_DUMP_GTID
//! payload -> DumpReader::handle -> an event | the end
//!             after an event that wants an acknowledgement: PacketCodec::begin_answer,
//!             and command::acknowledge, by PacketCodec::encode_apart, once it is safe
//! ```
//!
//! | | MySQL | MariaDB |
//! |---|---|---|
//! | by file and position | below 4 GiB | below 4 GiB |
//! | by GTIDs | the set of all that the replica has | the last one of each domain |
//! | checksums | as declared, or refused | as declared, or refused |
//! | heartbeats | version 1; since 8.0.26 version 2 | version 1 |
//! | the same UUID again | ends the older dump | not looked at |
//! | the same server id again | ends the older dump, unless both gave a UUID | ends the older dump |

mod options;
mod reader;

pub use options::{BinlogDump, DumpChecksum, DumpStart};
pub use reader::{DumpEvent, DumpReader};

//! A place in the binlog of one server.

use core::cmp::Ordering;
use core::fmt;
use std::sync::Arc;

use crate::event::{Event, EventBody};

/// A binlog file and a byte offset in it. Ordered by the file's numeric suffix (`binlog.999999` is before
/// `binlog.1000000`), then by offset. Positions of different servers must not be compared.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Position {
    /// File name as the server sends it, without a path.
    pub file: Arc<str>,
    /// Byte offset: the end of the last event that lies at or below this position.
    pub offset: u64,
}

impl Position {
    /// A position in `file` at `offset`.
    #[must_use]
    pub fn new(file: impl Into<Arc<str>>, offset: u64) -> Self {
        Self { file: file.into(), offset }
    }

    fn suffix(&self) -> Option<u64> {
        self.file.rsplit('.').next()?.parse().ok()
    }
}

impl PartialOrd for Position {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Position {
    fn cmp(&self, other: &Self) -> Ordering {
        let files = if self.file == other.file {
            Ordering::Equal
        } else {
            self.suffix().cmp(&other.suffix()).then_with(|| self.file.cmp(&other.file))
        };
        files.then(self.offset.cmp(&other.offset))
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.offset)
    }
}

/// Where a stream or a file stands, of events that say so in 32 bits or not at all.
///
/// A header's `log_pos` is the low half of the event's end. MariaDB from 11.4 on writes 0 for every event inside a
/// transaction: there the event's length is added. The server may leave events out (annotations that were not asked for,
/// transactions that the replica has), so the next `log_pos` that is not 0 decides again. Events that were made for the
/// stream, and those inside a [`TransactionPayload`](crate::event::TransactionPayload), which must not be passed in, move
/// nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PositionTracker {
    position: Position,
    stated: bool,
}

impl PositionTracker {
    /// A tracker at a known place. A stream's first event, an artificial ROTATE, states one in any case.
    #[must_use]
    pub const fn new(position: Position) -> Self {
        Self { position, stated: true }
    }

    /// The end of the last event that lies in the log. Inside a transaction it is not a place to start from.
    #[must_use]
    pub const fn position(&self) -> &Position {
        &self.position
    }

    /// Whether the log itself said so. Where lengths were added up, the place is too low by what the server left out:
    /// a MariaDB's COMMIT of tables without transactions may say nothing, and annotations come only when they are asked
    /// for. Such a place is shown, and no dump is begun there; the next event group states its own.
    #[must_use]
    pub const fn is_stated(&self) -> bool {
        self.stated
    }

    /// Moves behind `event`.
    pub fn follow(&mut self, event: &Event<'_>) {
        let header = &event.header;
        let offset = &mut self.position.offset;
        match event.body {
            EventBody::Rotate(rotate) => {
                if *self.position.file != *rotate.file {
                    self.position.file = Arc::from(rotate.file);
                }
                *offset = rotate.position;
                self.stated = true;
            }
            EventBody::Heartbeat(heartbeat) => {
                if *self.position.file == *heartbeat.file {
                    let whole = heartbeat.is_whole;
                    *offset =
                        if whole { heartbeat.position.max(*offset) } else { widened(*offset, heartbeat.position) };
                    self.stated = true;
                }
            }
            _ if header.is_made_for_stream() => {}
            // A dump that begins in the middle of a file sends the file's own one without its place.
            EventBody::FormatDescription(_) if header.log_pos == 0 => {}
            _ if header.log_pos == 0 => {
                *offset = offset.saturating_add(u64::from(header.length));
                self.stated = false;
            }
            _ => {
                *offset = widened(*offset, u64::from(header.log_pos));
                self.stated = true;
            }
        }
    }
}

/// The place with these low 32 bits that comes next after `before`. A step back of up to 1 GiB is taken as one: the log's
/// own word counts more than lengths that were added up.
fn widened(before: u64, low: u64) -> u64 {
    let at = (before & !0xffff_ffff) | (low & 0xffff_ffff);
    if before.saturating_sub(at) > 1 << 30 { at.saturating_add(1 << 32) } else { at }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Conformance: D9
    /// Bug: 81
    #[test]
    fn the_low_half_of_a_place_is_widened_across_each_wrap() {
        for (before, low, place) in [
            (4, 120, 120),
            (0xffff_ff00, 0xffff_fff0, 0xffff_fff0),
            (0xffff_ff00, 0x10, 0x1_0000_0010),
            (0xffff_ff00, 0xffff_ff00, 0xffff_ff00),
            (0x1_0000_0010, 0x20, 0x1_0000_0020),
            (0x1_ffff_ffff, 0, 0x2_0000_0000),
            // A gap of nearly 3 GiB, as skipped transactions leave it.
            (0x1_8000_0000, 0x3000_0000, 0x2_3000_0000),
            // Steps back.
            (0x1_8000_0000, 0x7000_0000, 0x1_7000_0000),
            (0x1_0000_0100, 0x80, 0x1_0000_0080),
            (u64::MAX, 0, u64::MAX),
        ] {
            assert_eq!(widened(before, low), place, "{before:x} {low:x}");
        }
    }

    /// Bug: 80
    #[test]
    fn files_are_ordered_by_their_number() {
        let a = Position::new("mysql-bin.999999", 900);
        let b = Position::new("mysql-bin.1000000", 4);
        assert!(a < b);
        assert!(Position::new("mysql-bin.000002", 4) > Position::new("mysql-bin.000001", 5_000_000_000));
    }
}

//! Changes of every kind, around a chunk that is being read.

use std::collections::BTreeSet;

use millstream_engine::merge::Key;
use millstream_tests::server::Session;

/// A key of an INT column.
pub(crate) fn number(key: &Key) -> i32 {
    let bytes: [u8; 4] = key.order().try_into().unwrap();
    (u32::from_be_bytes(bytes) ^ (1 << 31)).cast_signed()
}

/// The keys around a chunk, and numbers between them that no row has had.
struct Keys {
    rows: Vec<Vec<i32>>,
    taken: BTreeSet<i32>,
}

impl Keys {
    /// An existing key of a region, not used before.
    fn old(&mut self, region: usize) -> i32 {
        self.rows[region].pop().expect("enough rows")
    }

    /// A new key within a region.
    fn fresh(&mut self, region: usize) -> i32 {
        let last = *self.rows[region].last().unwrap();
        let new = (last..).find(|n| !self.taken.contains(n)).unwrap();
        self.taken.insert(new);
        new
    }
}

/// How many regions there are: Done, read by the chunk, in its range but above its last row, Unread.
const REGIONS: usize = 4;

/// Changes rows of `table` (id INT, v INT) around the chunk that begins above `lo` and reads `rows` rows; ranges above `mid`
/// are Unread. Inserts, updates, deletes, key changes, re-inserts and REPLACE in each region and at the chunk's bounds, and
/// an UPDATE from each region to each other one.
pub(crate) fn disturb(session: &mut Session, table: &str, lo: i32, rows: usize, mid: i32, round: i32) {
    let all = session.sql(&format!("SELECT id FROM {table} ORDER BY id")).unwrap();
    let all: Vec<i32> = all.iter().map(|row| row[0].parse().unwrap()).collect();
    let above = all.iter().take_while(|id| **id <= lo).count();
    let unread = all.iter().take_while(|id| **id <= mid).count();
    assert!(above >= 20 && unread >= above + rows + 20 && all.len() >= unread + 20, "{table}: {lo} of {}", all.len());
    let inside = &all[above..above + rows];
    let parts =
        [&all[above - 19..above - 1], &inside[1..rows - 1], &all[above + rows..][..18], &all[unread + 1..][..18]];
    // The keys at the end of each list are used first: the last row of a region stays, as new keys lie above rows that stay.
    let mut keys =
        Keys { rows: parts.iter().map(|part| part.to_vec()).collect(), taken: all.iter().copied().collect() };

    let mut sql = String::new();
    let mut say = |statement: String| {
        sql.push_str(&statement.replace("TABLE", table).replace("ROUND", &round.to_string()));
        sql.push_str(";\n");
    };
    for region in 0..REGIONS {
        let (new, again, fresh) = (keys.fresh(region), keys.fresh(region), keys.fresh(region));
        say(format!("INSERT INTO TABLE VALUES ({new}, ROUND)"));
        say(format!("UPDATE TABLE SET v = -ROUND WHERE id = {}", keys.old(region)));
        say(format!("DELETE FROM TABLE WHERE id = {}", keys.old(region)));
        let back = keys.old(region);
        say(format!("DELETE FROM TABLE WHERE id = {back}"));
        say(format!("INSERT INTO TABLE VALUES ({back}, ROUND + 1)"));
        say(format!("REPLACE INTO TABLE VALUES ({}, ROUND + 2), ({again}, ROUND + 2)", keys.old(region)));
        let gone = keys.old(region);
        say(format!("UPDATE TABLE SET v = v + 1 WHERE id = {gone}"));
        say(format!("DELETE FROM TABLE WHERE id = {gone}"));
        say(format!("INSERT INTO TABLE VALUES ({fresh}, 1)"));
        say(format!("UPDATE TABLE SET v = 2 WHERE id = {fresh}"));
        say(format!("DELETE FROM TABLE WHERE id = {fresh}"));
        let (moved, to) = (keys.old(region), keys.fresh(region));
        say(format!("UPDATE TABLE SET id = {to} WHERE id = {moved}"));
        let (a, b, c) = (keys.old(region), keys.old(region), keys.fresh(region));
        say(format!(
            "BEGIN; UPDATE TABLE SET v = v + 3 WHERE id = {a}; DELETE FROM TABLE WHERE id = {b}; INSERT INTO TABLE VALUES ({c}, 4); \
             UPDATE TABLE SET v = 5 WHERE id IN ({a}, {c}); COMMIT"
        ));
        say(format!("INSERT INTO TABLE VALUES ({}, 6) ON DUPLICATE KEY UPDATE v = v + 6", keys.old(region)));
        for other in (0..REGIONS).filter(|other| *other != region) {
            let (from, to) = (keys.old(region), keys.fresh(other));
            say(format!("UPDATE TABLE SET id = {to} WHERE id = {from}"));
        }
    }
    for (a, b) in [(0, 1), (1, 3), (1, 2)] {
        let (a, b) = (keys.old(a), keys.old(b));
        say(format!(
            "BEGIN; UPDATE TABLE SET id = -1 WHERE id = {a}; UPDATE TABLE SET id = {a} WHERE id = {b}; \
             UPDATE TABLE SET id = {b} WHERE id = -1; COMMIT"
        ));
    }
    // The bounds: the last row below the chunk, its first and its last, the first one above it, and both of the Unread range.
    let bounds = [all[above - 1], inside[0], inside[rows - 1], all[above + rows], all[unread - 1], all[unread]];
    for (bound, kind) in bounds.into_iter().zip(round..) {
        match kind % 5 {
            0 => say(format!("UPDATE TABLE SET v = v + 7 WHERE id = {bound}")),
            1 => say(format!("DELETE FROM TABLE WHERE id = {bound}")),
            2 => say(format!("DELETE FROM TABLE WHERE id = {bound};\nINSERT INTO TABLE VALUES ({bound}, 8)")),
            3 => say(format!("REPLACE INTO TABLE VALUES ({bound}, 9)")),
            _ => {
                let to = keys.fresh(usize::try_from(kind).unwrap() / 5 % REGIONS);
                say(format!("UPDATE TABLE SET id = {to} WHERE id = {bound}"));
            }
        }
    }
    session.sql(&sql).unwrap();
}

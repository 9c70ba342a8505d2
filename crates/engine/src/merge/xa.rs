//! XA transactions: which are prepared and undecided, what waits for them, and from where a restart reads.
//!
//! Pure. The rows of a prepared transaction are the driver's to keep; this decides when they count. How a driver calls it:
//!
//! - **Begin**: [`XaBook::new`] with the durable [`XaPlace`] and the end of the log as it is now. Then
//!   [`XaBook::fence`] for every table of which nothing is Done, and the stream is opened at [`XaBook::read_from`], not at
//!   what was judged: up to there the rows of undecided transactions come again.
//! - A transaction that [`Merge::judged`](super::Merge::judged) has already is **known**: nothing of it is judged, but its
//!   XA PREPARE and XA decisions are told here as any other.
//! - **XA PREPARE**: keep its rows, judge none. After the transaction's end [`XaBook::prepared`]. A transaction that is
//!   committed in one phase is an ordinary one.
//! - **XA COMMIT**: by [`XaBook::decision`], the kept rows are judged as the rows of *this* transaction, or there are none,
//!   or the PREPARE was not seen, and [`XaBook::unseen`] says whether that can be passed over. **XA ROLLBACK**: the rows
//!   vanish. After the end of the deciding transaction [`XaBook::decided`].
//! - After every transaction, rotate and heartbeat: [`XaBook::passed`].
//! - Between transactions, once the stream has passed P0 and while [`XaBook::wants_list`]: read `XA RECOVER`, then the end of
//!   the log, and give both to [`XaBook::listed`].
//! - A chunk is opened only where [`XaBook::may_open`] agrees.
//! - **A table that is added later**: [`XaBook::fence`] in the moment from which its rows are kept.
//! - **A checkpoint** keeps [`XaBook::place`] for the place where it begins and for the one where it ends. A restart that
//!   goes on at the end takes the latter, one that goes on anywhere before it takes the former.
//! - **A lost connection**: [`XaBook::connection_lost`] first, then [`XaBook::read_from`].

use core::fmt;
use std::collections::{BTreeMap, BTreeSet};

use millstream_binlog::{GtidSet, Position};
use serde::{Deserialize, Serialize};

use super::TableId;
use crate::delivery::{Passed, TxnId};

/// The id of an XA transaction, as the server writes it in `XA COMMIT`: `X'67',X'62',1`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Xid(Box<str>);

impl Xid {
    /// From its parts.
    #[must_use]
    pub fn new(format_id: i64, gtrid: &[u8], bqual: &[u8]) -> Self {
        struct Hex<'a>(&'a [u8]);
        impl fmt::Display for Hex<'_> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
        }
        Self(format!("X'{}',X'{}',{format_id}", Hex(gtrid), Hex(bqual)).into())
    }
}

impl fmt::Display for Xid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a checkpoint keeps of XA, for one place of the stream.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct XaPlace {
    /// R: a restart at the place reads from here, so that the rows of every undecided transaction come again. `None`: from
    /// the place itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_from: Option<Passed>,
    /// Undecided at R, and without a row of a captured table.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub without_rows: BTreeSet<Xid>,
}

impl XaPlace {
    /// Whether there is nothing to keep.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// What is known of a transaction that is being decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Decision {
    /// Its rows are kept.
    Kept,
    /// It has no row of a captured table.
    WithoutRows,
    /// Its PREPARE was not seen.
    Unseen,
}

/// A prepared transaction.
#[derive(Debug)]
struct Prepared {
    /// Of the PREPARE; `None` for one without rows that a checkpoint knew.
    txn: Option<TxnId>,
    /// What was behind the PREPARE, where that is a place in a log.
    before: Option<Passed>,
    rows: bool,
    /// When it was prepared, by the source's clock, in seconds; `None`: before a restart.
    since: Option<u64>,
    reported: Option<u64>,
}

/// What XA RECOVER said.
#[derive(Debug)]
enum List {
    /// It will not be read.
    None,
    /// It has to be read.
    Wanted,
    Read {
        /// What it listed, and the end of the log after it.
        listed: BTreeSet<Xid>,
        end: Position,
        /// Listed, and not seen since: neither the PREPARE nor the decision. With the end of the log after it had left the
        /// list: its decision, if it is logged at all, is at or below that.
        waits: BTreeMap<Xid, Option<Position>>,
    },
}

/// See the module.
#[derive(Debug)]
pub struct XaBook {
    undecided: BTreeMap<Xid, Prepared>,
    /// Until the stream has passed this place of the log, it reads what it has judged already.
    rereads: Option<(XaPlace, Position)>,
    list: List,
    /// Tables of which nothing was Done when they came: transactions that were undecided then and may have rows of them that
    /// nobody kept.
    fences: BTreeMap<TableId, BTreeSet<Xid>>,
}

impl XaBook {
    /// A book for a stream that begins at the place of `place`. `log_end` is at or beyond the end of everything that was
    /// judged before. `lists`: the server logs XA PREPARE, and `XA RECOVER` can be asked.
    #[must_use]
    pub fn new(place: XaPlace, log_end: Position, lists: bool) -> Self {
        let list = if lists { List::Wanted } else { List::None };
        let mut book = Self { undecided: BTreeMap::new(), rereads: None, list, fences: BTreeMap::new() };
        book.reset(&place);
        book.rereads = place.read_from.is_some().then_some((place, log_end));
        book
    }

    fn reset(&mut self, place: &XaPlace) {
        let known =
            |xid: &Xid| (xid.clone(), Prepared { txn: None, before: None, rows: false, since: None, reported: None });
        self.undecided = place.without_rows.iter().map(known).collect();
    }

    /// Where the stream is to be opened.
    #[must_use]
    pub fn read_from(&self, judged: &Passed) -> Passed {
        let again = self.rereads.as_ref().and_then(|(place, _)| place.read_from.as_ref());
        again.unwrap_or(judged).clone()
    }

    /// The connection was lost. `true`: the stream begins at R again, and every kept row is to be forgotten.
    pub fn connection_lost(&mut self) -> bool {
        let Some((place, _)) = &self.rereads else { return false };
        let place = place.clone();
        self.reset(&place);
        true
    }

    /// The stream is at `position`, between transactions.
    pub fn passed(&mut self, position: &Position) {
        if self.rereads.as_ref().is_some_and(|(_, until)| until <= position) {
            self.rereads = None;
        }
        if let List::Read { waits, .. } = &mut self.list {
            waits.retain(|_, left| left.as_ref().is_none_or(|end| position < end));
        }
    }

    /// Transaction `txn`, before which the stream had judged `judged`, has prepared `xid`. `rows`: some of them are kept.
    /// `at`: seconds since 1970 by the source's clock.
    pub fn prepared(&mut self, xid: Xid, txn: TxnId, judged: &Passed, rows: bool, at: u64) {
        if let List::Read { waits, .. } = &mut self.list {
            waits.remove(&xid);
        }
        let before = matches!(judged, Passed::Position(_)).then(|| match &txn {
            // Of one that comes again, what was judged says nothing.
            TxnId::At(begin) if judged.contains(&txn) => begin.clone().into(),
            _ => judged.clone(),
        });
        self.undecided.insert(xid, Prepared { txn: Some(txn), before, rows, since: Some(at), reported: None });
    }

    /// What is known of `xid`.
    #[must_use]
    pub fn decision(&self, xid: &Xid) -> Decision {
        match self.undecided.get(xid) {
            Some(Prepared { rows: true, .. }) => Decision::Kept,
            Some(_) => Decision::WithoutRows,
            None => Decision::Unseen,
        }
    }

    /// The transaction that commits `xid` or rolls it back has ended.
    pub fn decided(&mut self, xid: &Xid) {
        self.undecided.remove(xid);
        if let List::Read { waits, .. } = &mut self.list {
            waits.remove(xid);
        }
        for waits in self.fences.values_mut() {
            waits.remove(xid);
        }
    }

    /// An XA COMMIT of which the PREPARE was not seen, at `position`. Of the tables that are not wholly Unread (`started`),
    /// the first that it may have rows of which are not in its Done ranges. `None`: it can be passed over.
    pub fn unseen(
        &self,
        xid: &Xid,
        position: &Position,
        started: impl IntoIterator<Item = TableId>,
    ) -> Option<TableId> {
        // Not listed and at or below the end of the log then: it was visible, and every chunk of a table that waited for the
        // list sees it.
        let visible = matches!(&self.list, List::Read { listed, end, .. } if position <= end && !listed.contains(xid));
        started.into_iter().find(|table| !(visible && self.fences.contains_key(table)))
    }

    /// Nothing of `table` is Done, and its rows are kept from now on: no chunk of it is opened before every transaction that
    /// is undecided at this moment is decided, as its rows were not kept.
    pub fn fence(&mut self, table: TableId) {
        self.fences.insert(table, self.undecided.keys().cloned().collect());
    }

    /// Whether chunks of the table may be opened, as far as XA is concerned.
    #[must_use]
    pub fn may_open(&self, table: TableId) -> bool {
        let Some(undecided) = self.fences.get(&table) else { return true };
        let listed = match &self.list {
            List::None => true,
            List::Wanted => false,
            List::Read { waits, .. } => waits.is_empty(),
        };
        listed && undecided.is_empty()
    }

    /// Whether a table waits for an answer of XA RECOVER.
    #[must_use]
    pub fn wants_list(&self) -> bool {
        let wanted = match &self.list {
            List::None => false,
            List::Wanted => true,
            List::Read { waits, .. } => waits.values().any(Option::is_none),
        };
        wanted && !self.fences.is_empty()
    }

    /// XA RECOVER has listed these, and afterwards the log ended at `end`.
    pub fn listed(&mut self, xids: BTreeSet<Xid>, end: Position) {
        match &mut self.list {
            List::None => {}
            List::Wanted => {
                let unseen = xids.iter().filter(|xid| !self.undecided.contains_key(*xid));
                let waits = unseen.map(|xid| (xid.clone(), None)).collect();
                self.list = List::Read { listed: xids, end, waits };
            }
            List::Read { waits, .. } => {
                for (xid, left) in waits.iter_mut().filter(|(_, left)| left.is_none()) {
                    if !xids.contains(xid) {
                        *left = Some(end.clone());
                    }
                }
            }
        }
    }

    /// XA RECOVER is refused: nothing waits for it, and an XA COMMIT whose PREPARE was not seen is passed over only while
    /// every table is wholly Unread.
    pub fn not_listed(&mut self) {
        self.list = List::None;
    }

    /// The transactions that are prepared and undecided.
    pub fn undecided(&self) -> impl Iterator<Item = &Xid> {
        self.undecided.keys()
    }

    /// What a checkpoint at `judged` keeps.
    #[must_use]
    pub fn place(&self, judged: &Passed) -> XaPlace {
        if let Some((place, _)) = &self.rereads {
            // Not everything has come again: as before.
            return place.clone();
        }
        let kept = || self.undecided.values().filter(|p| p.rows);
        let read_from = match judged {
            Passed::Gtids(set) => {
                let mut prepares = GtidSet::new();
                for prepared in kept() {
                    if let Some(TxnId::Gtid(gtid)) = &prepared.txn {
                        prepares.insert(*gtid);
                    }
                }
                (!prepares.is_empty()).then(|| {
                    let mut set = set.clone();
                    set.subtract(&prepares);
                    Passed::Gtids(set)
                })
            }
            Passed::Position(_) => kept().filter_map(|p| p.before.clone()).reduce(|mut least, before| {
                least.intersect(&before);
                least
            }),
        };
        let without_rows = self.undecided.iter().filter(|(_, p)| !p.rows).map(|(xid, _)| xid.clone()).collect();
        XaPlace { read_from, without_rows }
    }

    /// Transactions that are undecided for longer than `limit` seconds at `now` (seconds since 1970), with their age; each
    /// again after another `limit`.
    pub fn overdue(&mut self, now: u64, limit: u64) -> Vec<(Xid, u64)> {
        let mut overdue = Vec::new();
        for (xid, prepared) in &mut self.undecided {
            let since = *prepared.since.get_or_insert(now);
            let last = prepared.reported.unwrap_or(since);
            if now.saturating_sub(last) > limit {
                prepared.reported = Some(now);
                overdue.push((xid.clone(), now.saturating_sub(since)));
            }
        }
        overdue
    }
}

#[cfg(test)]
mod tests {
    use millstream_binlog::Gtid;

    use super::*;

    const T: TableId = TableId(1);

    fn xid(name: &str) -> Xid {
        Xid::new(1, name.as_bytes(), b"")
    }

    fn at(offset: u64) -> Position {
        Position::new("b.000001", offset)
    }

    fn set(to: u64) -> Passed {
        format!("3e11fa47-71ca-11e1-9e33-c80aa9429562:1-{to}").parse::<GtidSet>().unwrap().into()
    }

    fn txn(n: u64) -> TxnId {
        format!("3e11fa47-71ca-11e1-9e33-c80aa9429562:{n}").parse::<Gtid>().unwrap().into()
    }

    fn list(names: &[&str]) -> BTreeSet<Xid> {
        names.iter().map(|name| xid(name)).collect()
    }

    fn fenced() -> XaBook {
        let mut book = XaBook::new(XaPlace::default(), at(100), true);
        book.fence(T);
        book
    }

    #[test]
    fn ids_are_told_apart_by_every_byte() {
        assert_eq!(Xid::new(7, b"a:b", b"\0").to_string(), "X'613a62',X'00',7");
        assert_ne!(Xid::new(1, b"a:b", b"c"), Xid::new(1, b"a", b"b:c"));
        assert_ne!(Xid::new(1, b"a", b""), Xid::new(2, b"a", b""));
    }

    #[test]
    fn no_chunk_before_every_listed_transaction_is_decided_or_seen() {
        let mut book = fenced();
        assert!(book.wants_list() && !book.may_open(T));
        // b was seen before, c comes, a was prepared before the start, d is never logged.
        book.prepared(xid("b"), txn(2), &set(1), true, 0);
        book.listed(list(&["a", "b", "c", "d"]), at(200));
        assert!(!book.may_open(T) && book.wants_list());
        book.prepared(xid("c"), txn(3), &set(2), false, 0);
        book.decided(&xid("a"));
        book.passed(&at(500));
        assert!(!book.may_open(T), "d is still listed");
        book.listed(list(&["b", "c", "e"]), at(600));
        assert!(!book.wants_list() && !book.may_open(T), "its decision may be on its way");
        book.passed(&at(599));
        assert!(!book.may_open(T));
        book.passed(&at(600));
        assert!(book.may_open(T) && book.may_open(TableId(9)));
    }

    #[test]
    fn an_unseen_commit_is_passed_over_where_chunks_see_it() {
        let mut book = fenced();
        let (a, z) = (xid("a"), xid("z"));
        assert_eq!(book.unseen(&a, &at(50), []), None, "every table is Unread");
        assert_eq!(book.unseen(&a, &at(50), [T]), Some(T), "no list");
        book.listed(list(&["z"]), at(200));
        assert_eq!(book.unseen(&a, &at(200), [T]), None);
        assert_eq!(book.unseen(&a, &at(201), [T]), Some(T), "it was prepared after the list and not logged");
        assert_eq!(book.unseen(&z, &at(150), [T]), Some(T), "it was listed");
        assert_eq!(book.unseen(&a, &at(150), [T, TableId(2)]), Some(TableId(2)), "2 had Done ranges before the list");
        book.not_listed();
        assert!(book.may_open(T) && !book.wants_list());
        assert_eq!(book.unseen(&a, &at(150), [T]), Some(T));
    }

    #[test]
    fn a_table_that_comes_later_waits_for_those_that_are_undecided_then() {
        let mut book = fenced();
        book.listed(BTreeSet::new(), at(1));
        book.prepared(xid("a"), txn(2), &set(1), true, 0);
        book.fence(TableId(2));
        book.prepared(xid("b"), txn(3), &set(2), true, 0);
        assert!(book.may_open(T) && !book.may_open(TableId(2)));
        book.decided(&xid("a"));
        assert!(book.may_open(TableId(2)), "the rows of b are kept");
        // After a restart those without rows may have some of a table that was added since.
        let mut book = XaBook::new(XaPlace { read_from: None, without_rows: list(&["c"]) }, at(9), false);
        book.fence(T);
        assert!(!book.may_open(T));
        assert_eq!(book.decision(&xid("c")), Decision::WithoutRows);
        book.decided(&xid("c"));
        assert!(book.may_open(T));
        assert_eq!(book.decision(&xid("c")), Decision::Unseen);
    }

    #[test]
    fn a_checkpoint_reads_from_the_oldest_undecided_prepare_with_rows() {
        let mut book = XaBook::new(XaPlace::default(), at(1), false);
        assert!(book.place(&set(1)).is_empty());
        book.prepared(xid("a"), txn(2), &set(1), true, 0);
        book.prepared(xid("n"), txn(3), &set(2), false, 0);
        book.prepared(xid("b"), txn(4), &set(3), true, 0);
        let place = book.place(&set(9));
        let from: GtidSet = "3e11fa47-71ca-11e1-9e33-c80aa9429562:1:3:5-9".parse().unwrap();
        assert_eq!(place, XaPlace { read_from: Some(from.into()), without_rows: list(&["n"]) });
        let text = serde_json::to_string(&place).unwrap();
        assert_eq!(serde_json::from_str::<XaPlace>(&text).unwrap(), place, "{text}");
        assert_eq!(book.read_from(&set(9)), set(9), "what was judged stays judged");
        book.decided(&xid("a"));
        book.decided(&xid("b"));
        assert_eq!(book.place(&set(9)).read_from, None);

        let mut book = XaBook::new(XaPlace::default(), at(1), false);
        let begins = |n| TxnId::At(at(n));
        book.prepared(xid("b"), begins(70), &at(60).into(), true, 0);
        book.prepared(xid("a"), begins(50), &at(900).into(), true, 0);
        assert_eq!(book.place(&at(900).into()).read_from, Some(at(50).into()), "it came again: its own beginning");
        book.decided(&xid("a"));
        assert_eq!(book.place(&at(900).into()).read_from, Some(at(60).into()));
    }

    #[test]
    fn until_all_has_come_again_a_restart_reads_from_the_same_place() {
        let place = XaPlace { read_from: Some(set(3)), without_rows: list(&["n"]) };
        let mut book = XaBook::new(place.clone(), at(500), false);
        assert_eq!(book.read_from(&set(9)), set(3));
        book.prepared(xid("a"), txn(4), &set(9), true, 0);
        book.decided(&xid("n"));
        book.passed(&at(499));
        assert_eq!(book.place(&set(9)), place);
        assert!(book.connection_lost());
        assert_eq!(book.decision(&xid("a")), Decision::Unseen, "it comes again");
        assert_eq!(book.decision(&xid("n")), Decision::WithoutRows, "and so does its decision");
        book.prepared(xid("a"), txn(4), &set(9), true, 0);
        book.decided(&xid("n"));
        book.passed(&at(500));
        assert_eq!(book.read_from(&set(10)), set(10));
        assert!(!book.connection_lost());
        assert_eq!(book.decision(&xid("a")), Decision::Kept);
        let mut from = book.place(&set(10));
        assert_eq!(from.read_from.take().unwrap().to_string(), "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-3:5-10");
        assert!(from.is_empty());
    }

    #[test]
    fn one_that_stays_undecided_is_reported_once_an_hour() {
        let mut book = XaBook::new(XaPlace { read_from: None, without_rows: list(&["n"]) }, at(1), false);
        book.prepared(xid("a"), txn(2), &set(1), true, 1_000);
        assert_eq!(book.overdue(4_600, 3_600), Vec::new());
        assert_eq!(book.overdue(4_601, 3_600), [(xid("a"), 3_601)]);
        assert_eq!(book.overdue(4_700, 3_600), Vec::new());
        // Of n nothing is known but that it was undecided at the first look.
        assert_eq!(book.overdue(8_300, 3_600), [(xid("a"), 7_300), (xid("n"), 3_700)]);
        book.decided(&xid("a"));
        assert_eq!(book.overdue(99_000, 3_600), [(xid("n"), 94_400)]);
    }
}

//! Which transactions, and what of them, are shown. Pure.

use core::str::FromStr;

use millstream_binlog::{EventType, Gtid, GtidSet, MariaGtid};

use super::when::When;
use crate::config::{NameCase, Pattern};
use crate::schema::ddl::Captured;

/// What is shown. The default shows everything.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Filter {
    /// Rows of these tables, and statements that concern them.
    pub tables: Option<TableFilter>,
    /// Transactions committed at or after this moment.
    pub start_time: Option<When>,
    /// Transactions committed before this moment.
    pub stop_time: Option<When>,
    /// Transactions in this set; one without a GTID never is.
    pub gtids: Option<GtidFilter>,
    /// Transactions that are not in this set.
    pub exclude_gtids: Option<GtidFilter>,
    /// Events of these types.
    pub types: Option<TypeFilter>,
}

impl Filter {
    /// Whether transactions are chosen: what stands outside of any is then left out.
    pub(super) const fn chooses_transactions(&self) -> bool {
        self.tables.is_some()
            || self.start_time.is_some()
            || self.stop_time.is_some()
            || self.gtids.is_some()
            || self.exclude_gtids.is_some()
    }

    /// Whether a transaction is among the chosen ones, as far as it can be told at its begin.
    pub(super) fn transaction(&self, gtid: Option<AnyGtid>, time: When) -> bool {
        self.start_time.is_none_or(|start| time >= start)
            && self.stop_time.is_none_or(|stop| time < stop)
            && self.gtids.as_ref().is_none_or(|set| gtid.is_some_and(|id| set.contains(id)))
            && !self.exclude_gtids.as_ref().is_some_and(|set| gtid.is_some_and(|id| set.contains(id)))
    }

    /// Whether events of this type are shown. Heartbeats are only when asked for by name.
    pub(super) fn event_type(&self, ty: EventType) -> bool {
        match &self.types {
            Some(types) => types.contains(ty),
            None => !matches!(ty, EventType::HEARTBEAT | EventType::HEARTBEAT_V2),
        }
    }
}

/// A transaction's identity on either kind of server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AnyGtid {
    MySql(Gtid),
    Maria(MariaGtid),
}

impl core::fmt::Display for AnyGtid {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::MySql(id) => id.fmt(f),
            Self::Maria(id) => id.fmt(f),
        }
    }
}

/// GTIDs of either kind of server.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum GtidFilter {
    /// A MySQL set: `UUID:1-5:8,UUID:tag:1`.
    MySql(GtidSet),
    /// MariaDB's, each with the last sequence number of its range: `0-1-42,0-1-50..60`.
    Maria(Vec<(MariaGtid, u64)>),
}

impl GtidFilter {
    fn contains(&self, id: AnyGtid) -> bool {
        match (self, id) {
            (Self::MySql(set), AnyGtid::MySql(id)) => set.contains(&id),
            (Self::Maria(list), AnyGtid::Maria(id)) => list.iter().any(|(first, last)| {
                (first.domain, first.server) == (id.domain, id.server)
                    && (first.sequence..=*last).contains(&id.sequence)
            }),
            _ => false,
        }
    }
}

impl FromStr for GtidFilter {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.contains(':') {
            return text.parse().map(Self::MySql).map_err(|e: millstream_binlog::GtidTextError| e.to_string());
        }
        let one = |part: &str| {
            let (first, last) = part.split_once("..").map_or((part, None), |(first, last)| (first, Some(last)));
            let first: MariaGtid = first.parse().ok()?;
            let last = last.map_or(Some(first.sequence), |last| last.trim().parse().ok())?;
            (last >= first.sequence).then_some((first, last))
        };
        let list: Option<Vec<_>> = text.split(',').map(one).collect();
        list.map(Self::Maria).ok_or_else(|| {
            format!("\"{}\" is no GTID set: UUID:1-5:8 of MySQL, or 0-1-42,0-1-50..60 of MariaDB", text.escape_debug())
        })
    }
}

/// `db.table` patterns; `!db.table` excludes, wherever it stands. Exclusions alone mean all other tables.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableFilter {
    include: Vec<Pattern>,
    exclude: Vec<Pattern>,
}

impl TableFilter {
    /// Parses the patterns.
    ///
    /// # Errors
    /// The first one that is none.
    pub fn parse<S: AsRef<str>>(list: &[S]) -> Result<Self, String> {
        let mut filter = Self::default();
        for text in list {
            let text = text.as_ref().trim();
            match text.strip_prefix('!') {
                Some(rest) => filter.exclude.push(Pattern::parse(rest)?),
                None => filter.include.push(Pattern::parse(text)?),
            }
        }
        Ok(filter)
    }
}

impl Captured for TableFilter {
    fn table(&self, database: &str, table: &str) -> bool {
        let any = |list: &[Pattern]| list.iter().any(|p| p.matches(database, table, NameCase::Sensitive));
        (self.include.is_empty() || any(&self.include)) && !any(&self.exclude)
    }

    fn database(&self, database: &str) -> bool {
        self.include.is_empty() || self.include.iter().any(|p| p.matches_database(database, NameCase::Sensitive))
    }
}

/// A set of event types.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeFilter([bool; 256]);

impl TypeFilter {
    /// Parses names: those of events as they are printed, in any case and with `-` for `_`, and `insert`, `update`,
    /// `delete` for every version of those row events.
    ///
    /// # Errors
    /// The first name that is none.
    pub fn parse<S: AsRef<str>>(names: &[S]) -> Result<Self, String> {
        let mut types = [false; 256];
        for name in names {
            let upper = name.as_ref().trim().to_ascii_uppercase().replace('-', "_");
            let prefix = match upper.as_str() {
                "INSERT" => Some("WRITE_ROWS"),
                "UPDATE" => Some("UPDATE_ROWS"),
                "DELETE" => Some("DELETE_ROWS"),
                _ => None,
            };
            let mut known = false;
            for (slot, code) in types.iter_mut().zip(0u8..=u8::MAX) {
                let ty = EventType(code);
                let matches = match prefix {
                    Some(prefix) => {
                        ty.name().starts_with(prefix)
                            || (prefix == "UPDATE_ROWS" && ty == EventType::PARTIAL_UPDATE_ROWS)
                    }
                    None => ty.name() == upper && upper != "UNKNOWN",
                };
                *slot |= matches;
                known |= matches;
            }
            if !known {
                return Err(format!(
                    "\"{}\" is no event type: insert, update, delete, or a name as in the output (query, gtid, xid, …)",
                    name.as_ref().escape_debug()
                ));
            }
        }
        Ok(Self(types))
    }

    fn contains(&self, ty: EventType) -> bool {
        self.0.get(usize::from(ty.0)).copied().unwrap_or(false)
    }
}

/// Where reading begins or ends: an offset, in a file that may be named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offset {
    /// The file's name without its folder; the first (for a start) or the last one (for an end) when not given.
    pub file: Option<String>,
    /// Offset of an event.
    pub pos: u64,
}

impl FromStr for Offset {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (file, pos) = match text.rsplit_once(':') {
            Some((file, pos)) if !file.is_empty() => (Some(file.to_owned()), pos),
            Some(_) => (None, ""),
            None => (None, text),
        };
        let pos = pos.parse().map_err(|_| format!("\"{}\" is not an offset, or FILE:OFFSET", text.escape_debug()))?;
        Ok(Self { file, pos })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_chosen_by_pattern_and_exclusions_alone_mean_the_others() {
        let filter = TableFilter::parse(&["shop.*", "!shop.tmp_*"]).unwrap();
        assert!(filter.table("shop", "orders") && !filter.table("shop", "tmp_1") && !filter.table("crm", "orders"));
        assert!(filter.database("shop") && !filter.database("crm"));
        let others = TableFilter::parse(&["!shop.*"]).unwrap();
        assert!(others.table("mysql", "user") && !others.table("shop", "orders") && others.database("shop"));
        assert!(TableFilter::parse(&["shop"]).unwrap_err().contains("db.table"));
    }

    #[test]
    fn types_have_groups_and_names() {
        let types = TypeFilter::parse(&["insert", "gtid", "Xa-Prepare"]).unwrap();
        for (ty, want) in [
            (EventType::WRITE_ROWS, true),
            (EventType::WRITE_ROWS_V1, true),
            (EventType::WRITE_ROWS_COMPRESSED, true),
            (EventType::UPDATE_ROWS, false),
            (EventType::GTID, true),
            (EventType::GTID_TAGGED, false),
            (EventType::XA_PREPARE, true),
        ] {
            assert_eq!(types.contains(ty), want, "{ty}");
        }
        assert!(TypeFilter::parse(&["update"]).unwrap().contains(EventType::PARTIAL_UPDATE_ROWS));
        for bad in ["", "unknown", "rowz"] {
            assert!(TypeFilter::parse(&[bad]).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_transaction_without_gtid_is_in_no_set() {
        let set: GtidFilter = "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5".parse().unwrap();
        let gtid = |n: u64| AnyGtid::MySql(format!("3e11fa47-71ca-11e1-9e33-c80aa9429562:{n}").parse().unwrap());
        let only = Filter { gtids: Some(set.clone()), ..Filter::default() };
        assert!(only.transaction(Some(gtid(5)), When(0)) && !only.transaction(Some(gtid(6)), When(0)));
        assert!(!only.transaction(None, When(0)));
        let but = Filter { exclude_gtids: Some(set), ..Filter::default() };
        assert!(!but.transaction(Some(gtid(5)), When(0)) && but.transaction(Some(gtid(6)), When(0)));
        assert!(but.transaction(None, When(0)));
        let time = Filter { start_time: Some(When(10)), stop_time: Some(When(20)), ..Filter::default() };
        assert_eq!([9, 10, 19, 20].map(|t| time.transaction(None, When(t))), [false, true, true, false]);
    }

    #[test]
    fn gtids_of_mariadb_are_listed_or_ranges() {
        let filter: GtidFilter = "0-1-5, 0-1-8..9".parse().unwrap();
        let is_in = |text: &str| filter.contains(AnyGtid::Maria(text.parse().unwrap()));
        assert!(is_in("0-1-5") && is_in("0-1-8") && is_in("0-1-9"));
        assert!(!is_in("0-1-6") && !is_in("0-1-10") && !is_in("0-2-5") && !is_in("1-1-5"));
        for bad in ["", "0-1", "0-1-9..8", "0-1-1..", "x:1", "0-1-1,"] {
            assert!(bad.parse::<GtidFilter>().is_err(), "{bad}");
        }
    }

    #[test]
    fn offsets_may_name_their_file() {
        assert_eq!("157".parse(), Ok(Offset { file: None, pos: 157 }));
        assert_eq!("b.000002:157".parse(), Ok(Offset { file: Some("b.000002".to_owned()), pos: 157 }));
        for bad in ["", "b.000002", ":4", "b:", "-1"] {
            assert!(bad.parse::<Offset>().is_err(), "{bad}");
        }
    }
}

//! Faults the simulator can be told to show (doris.md 12.3). Each is set for a number of uses or until cleared, and
//! for all loads or only those whose table or label contains a text.

use super::options::Dialect;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Which operation a knob speaks of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Op {
    /// A Stream Load.
    Load,
    /// The second phase: commit.
    Commit,
    /// The second phase: abort.
    Abort,
}

/// The state after which a reply is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
#[allow(missing_docs)]
pub enum LostAt {
    Prepare,
    PreCommitted,
    Committed,
    Visible,
    Aborted,
}

/// Which server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs)]
pub enum Side {
    Fe,
    #[default]
    Be,
}

/// A body with status 200 that is no reply of Doris (F21).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Garbage {
    /// A page of a proxy.
    Html,
    /// Nothing.
    Empty,
    /// The first half of the reply.
    Truncated,
    /// The reply without its `Status`.
    NoStatus,
}

const fn load() -> Op {
    Op::Load
}

/// A fault. The names of the JSON form are the numbers of doris.md 12.3.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "knob")]
pub enum Fault {
    /// F1: the front end waits before its 307.
    #[serde(rename = "F1")]
    SlowRedirect {
        /// Milliseconds of the simulator's clock.
        ms: u64,
    },
    /// F2: the form of `Location`.
    #[serde(rename = "F2")]
    RedirectForm {
        /// Put instead of `user:password`, already as it shall appear in the URL. Empty: no userinfo.
        #[serde(default)]
        userinfo: Option<String>,
        /// Whether a `?` ends the URL.
        #[serde(default)]
        trailing_question: bool,
        /// Put instead of the back end's `host:port`.
        #[serde(default)]
        host: Option<String>,
    },
    /// F3: the server answers a load with a 307 that names itself. That many times it is a chain, for ever a loop.
    #[serde(rename = "F3")]
    RedirectAgain {
        /// Which server.
        at: Side,
    },
    /// F4: the 307 names a back end that refuses connections; while the knob is set, it is listed as alive too.
    #[serde(rename = "F4")]
    DeadBackend,
    /// F5: the front end refuses a load in a `RestBaseResult`, with status 200.
    #[serde(rename = "F5")]
    FrontendRefuses {
        /// Its text.
        text: String,
    },
    /// F6: the front end answers a load `Unauthorized`, code 401, with status 200.
    #[serde(rename = "F6")]
    FrontendUnauthorized,
    /// F7: the back end drops the connection once this many bytes of a load's body have arrived.
    #[serde(rename = "F7")]
    Cut {
        /// Bytes; 0 is after the header phase, before any body.
        at: u64,
    },
    /// F8: the reply is lost after the transaction reached a state. A load lost at PREPARE is cut there: its body is
    /// not read. A commit lost at PRECOMMITTED is lost before it is done.
    #[serde(rename = "F8")]
    ReplyLost {
        /// The operation.
        op: Op,
        /// The state.
        state: LostAt,
    },
    /// F9: the operation is done, its reply comes late.
    #[serde(rename = "F9")]
    SlowReply {
        /// The operation.
        op: Op,
        /// Milliseconds of the simulator's clock.
        ms: u64,
    },
    /// F10: the load fails while its body is on its way: the reply comes early, then the connection is reset.
    #[serde(rename = "F10")]
    EarlyReply {
        /// Bytes of the body that were read.
        at: u64,
        /// Milliseconds between the reply and the reset.
        #[serde(default)]
        ms: u64,
    },
    /// F11: a load whose body has arrived stays PREPARE, whatever its client does meanwhile.
    #[serde(rename = "F11")]
    HoldRunning {
        /// Milliseconds of the simulator's clock.
        ms: u64,
        /// Whether the client's connection ends at once.
        #[serde(default)]
        cut: bool,
    },
    /// F12: committed loads become visible only after this time; None: only when released.
    #[serde(rename = "F12")]
    PublishDelay {
        /// Milliseconds.
        ms: Option<u64>,
    },
    /// F13: the tablet writer gives up: -235 is too many versions, -238 too many segments.
    #[serde(rename = "F13")]
    TabletError {
        /// The number.
        err: i32,
        /// Only loads with more rows than this.
        #[serde(default)]
        above_rows: u64,
    },
    /// F14: a quota is used up: of running transactions, or of data.
    #[serde(rename = "F14")]
    Quota {
        /// Of data.
        #[serde(default)]
        data: bool,
    },
    /// F15: the front end that was asked is not the master.
    #[serde(rename = "F15")]
    NotMaster {
        /// What the operation was.
        #[serde(default = "load")]
        op: Op,
        /// Another refusal of the moment instead: a busy lock, a quorum that is not there.
        #[serde(default)]
        text: Option<String>,
    },
    /// F16: the front end restarts when a transaction reached a state, before the reply.
    #[serde(rename = "F16")]
    RestartFrontend {
        /// The state.
        after: LostAt,
    },
    /// F17: the back end restarts when a transaction reached a state, before the reply.
    #[serde(rename = "F17")]
    RestartBackend {
        /// The state.
        after: LostAt,
    },
    /// F18: finished transactions are forgotten when a transaction reached a state, before the reply.
    #[serde(rename = "F18")]
    Purge {
        /// The state.
        after: LostAt,
    },
    /// F19: the reply is the load's record: more members, one line, and `Comment` twice.
    #[serde(rename = "F19")]
    RecordReply,
    /// F20: the form of texts in replies.
    #[serde(rename = "F20")]
    Dialect {
        /// The form.
        dialect: Dialect,
    },
    /// F21: the operation is done; what comes back with status 200 is no reply. At the front end nothing is done.
    #[serde(rename = "F21")]
    Garbage {
        /// What comes back.
        body: Garbage,
        /// Which server answers so.
        #[serde(default)]
        at: Side,
        /// The operation.
        #[serde(default = "load")]
        op: Op,
    },
    /// F22: a proxy in front of the server answers.
    #[serde(rename = "F22")]
    Proxy {
        /// 500, 503, 429, 401 or 403.
        status: u16,
        /// The server it stands before.
        #[serde(default)]
        at: Side,
        /// Whether it had passed the request on, so that only the reply is replaced.
        #[serde(default)]
        after: bool,
        /// The operation.
        #[serde(default = "load")]
        op: Op,
    },
    /// F23: how replies are framed.
    #[serde(rename = "F23")]
    Framing {
        /// In chunks, without a length.
        #[serde(default)]
        chunked: bool,
        /// The connection ends after the reply, without a word of it in the reply.
        #[serde(default)]
        close: bool,
    },
    /// F24: this many leading rows of a load count as filtered.
    #[serde(rename = "F24")]
    FilterRows {
        /// Rows.
        rows: u64,
    },
    /// F25: storage and compute are separated: no two phases on merge-on-write tables. It is never spent.
    #[serde(rename = "F25")]
    Cloud,
    /// F26: a heavy schema change takes this long once it no longer waits for transactions. It is never spent.
    #[serde(rename = "F26")]
    HeavyJob {
        /// Milliseconds.
        ms: u64,
    },
    /// F27: the second phase goes by id only, as before 2.1. It is never spent.
    #[serde(rename = "F27")]
    NoLabels,
    /// F28: the back end reads a load's body slowly.
    #[serde(rename = "F28")]
    SlowReader {
        /// So many bytes …
        bytes: u64,
        /// … in so many milliseconds.
        ms: u64,
    },
    /// F29: `get_load_state` is redirected to the master front end.
    #[serde(rename = "F29")]
    StateRedirect,
    /// F30: the request waits in the back end, body and all, and begins its transaction late.
    #[serde(rename = "F30")]
    LateBegin {
        /// Milliseconds of the simulator's clock.
        ms: u64,
    },
    /// F31: the front end does the operation, the back end answers `Fail`.
    #[serde(rename = "F31")]
    FalseFail {
        /// The operation.
        op: Op,
    },
}

/// A fault with its scope.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Knob {
    /// What happens.
    #[serde(flatten)]
    pub fault: Fault,
    /// Only for tables whose `db.table` contains this.
    #[serde(default)]
    pub table: Option<String>,
    /// Only for labels that contain this.
    #[serde(default)]
    pub label: Option<String>,
    /// How often; None is until cleared.
    #[serde(default)]
    pub times: Option<u32>,
    /// For how long, in milliseconds of the simulator's clock; None is for ever.
    #[serde(default)]
    pub for_ms: Option<u64>,
}

impl Knob {
    /// A fault that happens once.
    pub fn once(fault: Fault) -> Self {
        Self { fault, table: None, label: None, times: Some(1), for_ms: None }
    }

    /// A fault that happens until it is cleared.
    pub fn always(fault: Fault) -> Self {
        Self { fault, table: None, label: None, times: None, for_ms: None }
    }

    /// Only for tables whose `db.table` contains `text`.
    #[must_use]
    pub fn table(mut self, text: &str) -> Self {
        self.table = Some(text.to_owned());
        self
    }

    /// Only for labels that contain `text`.
    #[must_use]
    pub fn label(mut self, text: &str) -> Self {
        self.label = Some(text.to_owned());
        self
    }

    /// For so long on the simulator's clock.
    #[must_use]
    pub fn lasting(mut self, time: Duration) -> Self {
        self.for_ms = u64::try_from(time.as_millis()).ok();
        self
    }

    /// That many times.
    #[must_use]
    pub fn times(mut self, n: u32) -> Self {
        self.times = Some(n);
        self
    }
}

/// The knobs that are set.
#[derive(Debug, Default)]
pub(crate) struct Knobs {
    /// Each with the time it ends at.
    set: Vec<(Knob, Option<i64>)>,
    /// How often a knob acted.
    pub(crate) fired: u64,
}

impl Knobs {
    pub(crate) fn add(&mut self, knob: Knob, now: i64) {
        if knob.times != Some(0) {
            let ends = knob.for_ms.map(|ms| now.saturating_add(i64::try_from(ms).unwrap_or(i64::MAX)));
            self.set.push((knob, ends));
        }
    }

    pub(crate) fn clear(&mut self) {
        self.set.clear();
    }

    pub(crate) fn list(&self) -> impl Iterator<Item = &Knob> {
        self.set.iter().map(|(knob, _)| knob)
    }

    fn find<T>(
        &mut self,
        table: &str,
        label: &str,
        now: i64,
        pick: impl Fn(&Fault) -> Option<T>,
    ) -> Option<(usize, T)> {
        let fits = |want: &Option<String>, have: &str| want.as_ref().is_none_or(|w| have.contains(w.as_str()));
        self.set.retain(|(_, ends)| ends.is_none_or(|at| now < at));
        self.set.iter().enumerate().find_map(|(i, (k, _))| {
            if fits(&k.table, table) && fits(&k.label, label) { pick(&k.fault).map(|t| (i, t)) } else { None }
        })
    }

    /// The first knob that fits; a use of it is spent.
    pub(crate) fn take<T>(
        &mut self,
        table: &str,
        label: &str,
        now: i64,
        pick: impl Fn(&Fault) -> Option<T>,
    ) -> Option<T> {
        let (i, found) = self.find(table, label, now, pick)?;
        self.fired += 1;
        if let Some(n) = &mut self.set[i].0.times {
            *n -= 1;
            if *n == 0 {
                self.set.remove(i);
            }
        }
        Some(found)
    }

    /// The first knob that fits, which stays as it is: it says how the cluster is.
    pub(crate) fn standing<T>(&mut self, table: &str, now: i64, pick: impl Fn(&Fault) -> Option<T>) -> Option<T> {
        self.find(table, "", now, pick).map(|(_, found)| found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knobs_are_spent_and_scoped() {
        let mut knobs = Knobs::default();
        knobs.add(Knob::once(Fault::Cut { at: 5 }).table("db.t").label("x").times(2), 0);
        let cut = |f: &Fault| if let Fault::Cut { at } = f { Some(*at) } else { None };
        assert_eq!(knobs.take("db.u", "x1", 0, cut), None);
        assert_eq!(knobs.take("db.t2", "y", 0, cut), None);
        assert_eq!(knobs.take("db.t2", "x1", 0, cut), Some(5));
        assert_eq!(knobs.take("db.t", "ax", 0, cut), Some(5));
        assert_eq!(knobs.take("db.t", "x", 0, cut), None);
        assert_eq!(knobs.fired, 2);
        knobs.add(Knob::always(Fault::Cut { at: 7 }).lasting(Duration::from_millis(10)), 5);
        assert_eq!(knobs.take("db.t", "x", 14, cut), Some(7));
        assert_eq!(knobs.standing("db.t", 14, cut), Some(7));
        assert_eq!(knobs.take("db.t", "x", 15, cut), None);
    }

    #[test]
    fn the_json_form() {
        let knob: Knob =
            serde_json::from_str(r#"{"knob":"F8","op":"load","state":"PRECOMMITTED","label":"ms1","times":1}"#)
                .unwrap();
        let want = Fault::ReplyLost { op: Op::Load, state: LostAt::PreCommitted };
        assert_eq!(knob, Knob::once(want).label("ms1"));
        assert!(serde_json::from_str::<Knob>(r#"{"knob":"F99"}"#).is_err());
        let knob: Knob = serde_json::from_str(r#"{"knob":"F22","status":503}"#).unwrap();
        assert_eq!(knob.fault, Fault::Proxy { status: 503, at: Side::Be, after: false, op: Op::Load });
    }
}

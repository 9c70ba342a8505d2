//! Faults the simulator can be told to show (doris.md 12.3). Each is set for a number of uses or until cleared, and
//! for all loads or only those whose table or label contains a text.

use serde::{Deserialize, Serialize};

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

/// A fault. The names of the JSON form are the numbers of doris.md 12.3.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "knob")]
pub enum Fault {
    /// F1: the front end waits before its 307.
    #[serde(rename = "F1")]
    SlowRedirect {
        /// Milliseconds.
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
    },
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
    /// F12: committed loads become visible only after this time; None: only when released.
    #[serde(rename = "F12")]
    PublishDelay {
        /// Milliseconds.
        ms: Option<u64>,
    },
    /// F24: this many leading rows of a load count as filtered.
    #[serde(rename = "F24")]
    FilterRows {
        /// Rows.
        rows: u64,
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
}

impl Knob {
    /// A fault that happens once.
    pub fn once(fault: Fault) -> Self {
        Self { fault, table: None, label: None, times: Some(1) }
    }

    /// A fault that happens until it is cleared.
    pub fn always(fault: Fault) -> Self {
        Self { fault, table: None, label: None, times: None }
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
    set: Vec<Knob>,
    /// How often a knob acted.
    pub(crate) fired: u64,
}

impl Knobs {
    pub(crate) fn add(&mut self, knob: Knob) {
        if knob.times != Some(0) {
            self.set.push(knob);
        }
    }

    pub(crate) fn clear(&mut self) {
        self.set.clear();
    }

    pub(crate) fn list(&self) -> &[Knob] {
        &self.set
    }

    /// The first knob that fits; a use of it is spent.
    pub(crate) fn take<T>(&mut self, table: &str, label: &str, pick: impl Fn(&Fault) -> Option<T>) -> Option<T> {
        let fits = |want: &Option<String>, have: &str| want.as_ref().is_none_or(|w| have.contains(w.as_str()));
        let (i, found) = self.set.iter().enumerate().find_map(|(i, k)| {
            if fits(&k.table, table) && fits(&k.label, label) { pick(&k.fault).map(|t| (i, t)) } else { None }
        })?;
        self.fired += 1;
        if let Some(n) = &mut self.set[i].times {
            *n -= 1;
            if *n == 0 {
                self.set.remove(i);
            }
        }
        Some(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knobs_are_spent_and_scoped() {
        let mut knobs = Knobs::default();
        knobs.add(Knob::once(Fault::Cut { at: 5 }).table("db.t").label("x").times(2));
        let cut = |f: &Fault| if let Fault::Cut { at } = f { Some(*at) } else { None };
        assert_eq!(knobs.take("db.u", "x1", cut), None);
        assert_eq!(knobs.take("db.t2", "y", cut), None);
        assert_eq!(knobs.take("db.t2", "x1", cut), Some(5));
        assert_eq!(knobs.take("db.t", "ax", cut), Some(5));
        assert_eq!(knobs.take("db.t", "x", cut), None);
        assert_eq!(knobs.fired, 2);
    }

    #[test]
    fn the_json_form() {
        let knob: Knob =
            serde_json::from_str(r#"{"knob":"F8","op":"load","state":"PRECOMMITTED","label":"ms1","times":1}"#)
                .unwrap();
        let want = Fault::ReplyLost { op: Op::Load, state: LostAt::PreCommitted };
        assert_eq!(knob, Knob::once(want).label("ms1"));
        assert!(serde_json::from_str::<Knob>(r#"{"knob":"F99"}"#).is_err());
    }
}

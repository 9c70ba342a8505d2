//! The thirty checks of a Stream Load client (`tests/tests/sink_conformance`).

use crate::lines::Reason;

/// One check.
pub(crate) struct Check {
    /// T1 to T30.
    pub(crate) id: &'static str,
    /// What must hold.
    pub(crate) requirement: &'static str,
    /// What of it runs against a real cluster (`MILLSTREAM_DORIS_FE`).
    pub(crate) real: &'static str,
}

/// Needs a fault, the clock or the log of the simulator.
const SIM: &str = "skipped";
/// No cluster is needed.
const PURE: &str = "needs none";
/// All of it.
const ALL: &str = "runs";

/// Checks that are not done.
pub(crate) const NOT_DONE: &[Reason] = &[
    Reason { id: "T26", why: "the check is not written yet" },
    Reason { id: "T30", why: "the check is not written yet" },
];

/// The checks.
#[rustfmt::skip]
pub(crate) const CHECKS: &[Check] = &[
    Check { id: "T1", requirement: "probes FE and BE ports, skips dead BEs, tries again with back-off; a port that is none of HTTP is told", real: "but for dead BEs" },
    Check { id: "T2", requirement: "two-step load: no body byte reaches the FE, however slow it is; the redirect's credentials are in no line of the log", real: SIM },
    Check { id: "T3", requirement: "one framing header; no empty loads; batches over the size are split", real: SIM },
    Check { id: "T4", requirement: "every header is on the BE's leg too, booleans in lower case", real: SIM },
    Check { id: "T5", requirement: "any password crosses the redirect; loops end; no https to http and no host outside of the list, unless allowed", real: SIM },
    Check { id: "T6", requirement: "labels match the rule, are deterministic and injective", real: PURE },
    Check { id: "T7", requirement: "a taken label: RUNNING, PRECOMMITTED and FINISHED each in its way; TxnId -1 is never used", real: SIM },
    Check { id: "T8", requirement: "a lost or wrong reply at every state, in one phase and two: rows once, the same label and bytes", real: SIM },
    Check { id: "T9", requirement: "Publish Timeout is a success, once; the wait for visibility is bounded", real: SIM },
    Check { id: "T10", requirement: "what is no reply is no success", real: SIM },
    Check { id: "T11", requirement: "doubled and unknown members are read over; the three dialects mean the same", real: SIM },
    Check { id: "T12", requirement: "after a crash no PRECOMMITTED remains but those of the record, which are committed", real: SIM },
    Check { id: "T13", requirement: "a stop aborts nothing that is being committed", real: SIM },
    Check { id: "T14", requirement: "a table dropped between the phases: the abort works, the error is clear, nothing is tried for ever", real: SIM },
    Check { id: "T15", requirement: "a forgotten transaction is found out from the data; a start warns of a cluster that forgets too soon", real: SIM },
    Check { id: "T16", requirement: "stuck in PREPARE, restarted BE, late begin: deadline, abort, the same load again, no duplicate", real: SIM },
    Check { id: "T17", requirement: "quota, NOT_MASTER, quorum, 429 and 503: back-off with jitter, no loss, counted", real: SIM },
    Check { id: "T18", requirement: "-235 widens the table's interval, -238 splits the batch; both mend themselves", real: SIM },
    Check { id: "T19", requirement: "group_commit: off_mode is always sent; a reply that says GroupCommit is an error", real: SIM },
    Check { id: "T20", requirement: "a filtered row or a wrong count: aborted in two phases, an error in one, with the page's first lines", real: SIM },
    Check { id: "T21", requirement: "every value comes back as it was written", real: SIM },
    Check { id: "T22", requirement: "the last event of a key wins whatever the order of loads; no sequence number has two contents", real: ALL },
    Check { id: "T23", requirement: "dates that Doris does not have follow the policy", real: ALL },
    Check { id: "T24", requirement: "VARCHAR by four bytes a character, text keys, text over a MiB", real: ALL },
    Check { id: "T25", requirement: "no hang wherever the server dies", real: SIM },
    Check { id: "T26", requirement: "schema changes are polled to their end, light and heavy ones, and hold no PRECOMMITTED transaction", real: SIM },
    Check { id: "T27", requirement: "PRECOMMITTED transactions of an age are warned of and given up in time", real: SIM },
    Check { id: "T28", requirement: "fewer than 100 aborts of a label, then another label", real: SIM },
    Check { id: "T29", requirement: "no two phases on merge-on-write tables of the cloud: told once, with the way out, and the same rows", real: SIM },
    Check { id: "T30", requirement: "the SQL port: native password, the commands it knows, labelled transactions, committed and visible later", real: SIM },
];

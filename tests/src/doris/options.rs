//! How a cluster is set up, and what its version makes of it.

use super::txn::Limits;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// How texts of the front end look (doris.md 5, F20).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Dialect {
    /// `text`
    Plain,
    /// `errCode = 2, detailMessage = text`
    ErrCode,
    /// `TStatus: errCode = 2, detailMessage = text`
    TStatus,
}

/// A version, as far as doris.md tells versions apart ("Version switches that matter").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// Up to 2.0: the second phase by id and by database only, `user@default_cluster` in redirects, documents for JSON.
    V2_0,
    /// 2.1.
    V2_1,
    /// 3.0 and 3.1.
    V3,
    /// 4.x.
    V4,
    /// 4.x with storage and compute separated: merge-on-write tables take no two phases.
    Cloud,
}

impl Profile {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::V2_0, Self::V2_1, Self::V3, Self::V4, Self::Cloud];
}

/// How a cluster is set up.
#[derive(Clone, Debug)]
pub struct SimOptions {
    /// The only user.
    pub user: String,
    /// Its password.
    pub password: String,
    /// The address ports are opened on.
    pub host: String,
    /// The front end's HTTP port; 0 takes a free one, as for the others.
    pub fe_port: u16,
    /// The SQL port.
    pub sql_port: u16,
    /// The back ends' HTTP ports, one per back end.
    pub be_ports: Vec<u16>,
    /// The version that `@@version_comment` and SHOW BACKENDS tell.
    pub version: String,
    /// The form of texts in load replies.
    pub dialect: Dialect,
    /// The form of texts in two-phase replies.
    pub two_phase_dialect: Dialect,
    /// Whether two-phase refusals carry their code in brackets as well.
    pub two_phase_code: bool,
    /// Put between the user and the password's colon in `Location` (`@default_cluster` up to 2.0).
    pub userinfo_suffix: String,
    /// Whether `Location` ends in `?` (up to 3.x; 4.x does not).
    pub trailing_question: bool,
    /// Whether replies carry `ReceiveDataTimeMs` (from 3.0).
    pub receive_time: bool,
    /// Whether replies carry `FirstErrorMsg` (4.x).
    pub first_error_msg: bool,
    /// Whether the second phase may name a label, and may be asked for below a table's path (from 2.1).
    pub by_label: bool,
    /// Whether UNIQUE tables are merge-on-write unless they say otherwise (from 2.1).
    pub merge_on_write: bool,
    /// Whether JSON is read by line when no header says how (from 2.1).
    pub json_by_line: bool,
    /// Whether storage and compute are separated.
    pub cloud: bool,
    /// Loads are counted by line and not kept.
    pub counting: bool,
    /// Transaction limits.
    pub limits: Limits,
    /// How long a one-phase load waits to become visible before it answers `Publish Timeout`.
    pub publish_wait: Duration,
    /// How long a committed load takes to become visible.
    pub publish_delay: Duration,
    /// How long an asynchronous group commit gathers before it is visible.
    pub group_commit_interval: Duration,
    /// Whether the back end rolls a load back at once when its client is gone, or leaves it PREPARE.
    pub rollback_on_client_gone: bool,
    /// Whether a name in `columns` that the table does not have is refused (for JSON; CSV skips such a field).
    pub reject_unknown_columns: bool,
}

impl Default for SimOptions {
    fn default() -> Self {
        Self {
            user: "root".into(),
            password: "sim:@%/é pass".into(),
            host: "127.0.0.1".into(),
            fe_port: 0,
            sql_port: 0,
            be_ports: vec![0],
            version: "doris-2.1.8".into(),
            dialect: Dialect::ErrCode,
            two_phase_dialect: Dialect::TStatus,
            two_phase_code: false,
            userinfo_suffix: String::new(),
            trailing_question: true,
            receive_time: true,
            first_error_msg: false,
            by_label: true,
            merge_on_write: true,
            json_by_line: true,
            cloud: false,
            counting: false,
            limits: Limits::default(),
            publish_wait: Duration::from_secs(5),
            publish_delay: Duration::ZERO,
            group_commit_interval: Duration::from_secs(10),
            rollback_on_client_gone: true,
            reject_unknown_columns: true,
        }
    }
}

impl SimOptions {
    /// The defaults of a version.
    pub fn profile(profile: Profile) -> Self {
        let base = Self::default();
        let limits = |running| Limits { running, ..Limits::default() };
        match profile {
            Profile::V2_0 => Self {
                version: "doris-2.0.15".into(),
                dialect: Dialect::ErrCode,
                two_phase_dialect: Dialect::ErrCode,
                userinfo_suffix: "@default_cluster".into(),
                receive_time: false,
                by_label: false,
                merge_on_write: false,
                json_by_line: false,
                limits: Limits { max_versions: 500, ..limits(100) },
                ..base
            },
            Profile::V2_1 => Self { receive_time: false, limits: limits(1000), ..base },
            Profile::V3 => {
                Self { version: "doris-3.0.6".into(), dialect: Dialect::TStatus, limits: limits(1000), ..base }
            }
            Profile::V4 => Self {
                version: "doris-4.0.1".into(),
                dialect: Dialect::TStatus,
                two_phase_code: true,
                trailing_question: false,
                first_error_msg: true,
                limits: limits(10_000),
                ..base
            },
            Profile::Cloud => Self {
                cloud: true,
                // The meta-service keeps labels by time alone, and counts the aborts of each.
                limits: Limits {
                    keep_ms: 3 * 86_400_000,
                    keep_count: usize::MAX,
                    aborts_per_label: 100,
                    ..limits(10_000)
                },
                ..Self::profile(Profile::V4)
            },
        }
    }
}

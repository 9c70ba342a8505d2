//! TCP ports that no other test process takes.

use std::net::TcpListener;

use super::error::StartError;
use crate::paths::{self, FileLock};

/// Below the range from which the kernel picks ports for outgoing connections, so that a server
/// finds its port free again after a restart.
const RANGE: std::ops::Range<u16> = 20_000..32_000;

/// A port that is free now and promised to this process among all that use this harness. Programs
/// outside it may still take it: a server that cannot bind is started again on another one.
#[derive(Debug)]
pub(crate) struct PortLease {
    port: u16,
    _lock: FileLock,
}

impl PortLease {
    /// Takes a port.
    pub(crate) fn take() -> Result<Self, StartError> {
        // Per user: one cannot open another's files. Between users, a port that is taken shows
        // when it is bound.
        let dir = std::env::temp_dir().join(format!("millstream-ports-{}", paths::user_id()));
        let mut last = String::new();
        for _ in 0..200 {
            let port = fastrand::u16(RANGE);
            match FileLock::try_acquire(&dir.join(port.to_string())) {
                Ok(Some(lock)) if TcpListener::bind(("0.0.0.0", port)).is_ok() => {
                    return Ok(Self { port, _lock: lock });
                }
                Ok(_) => {}
                Err(error) => last = error.to_string(),
            }
        }
        Err(StartError::failed(format!("no free port among 200 tried {last}")))
    }

    /// The port's number.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }
}

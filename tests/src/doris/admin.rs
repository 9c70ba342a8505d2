//! The simulator's own HTTP path, on the front end's port, for other processes:
//!
//! ```text
//! POST /sim/knob      {"knob":"F8","op":"load","state":"PRECOMMITTED","table":"db.t","label":"x","times":1}
//! GET  /sim/knob      the knobs that are set
//! POST /sim/clear     takes every knob back, publishes what was held
//! POST /sim/hold      committed loads stay COMMITTED … until
//! POST /sim/release   … here
//! POST /sim/advance   {"secs":3600}
//! POST /sim/restart-fe, /sim/purge
//! POST /sim/restart-be {"index":0}
//! GET  /sim/state     transactions per database and state, rows per table, body bytes that reached the front end
//! ```

use super::knob::Knob;
use super::{Shared, lock};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Status line and body of an admin request.
pub(crate) fn handle(shared: &Arc<Shared>, method: &str, what: &str, body: &[u8]) -> (&'static str, String) {
    match run(shared, method, what, body) {
        Ok(value) => ("200 OK", value.to_string()),
        Err(text) => ("400 Bad Request", json!({ "error": text }).to_string()),
    }
}

fn run(shared: &Arc<Shared>, method: &str, what: &str, body: &[u8]) -> Result<Value, String> {
    let done = json!({"ok": true});
    match (method, what) {
        ("POST", "knob") => {
            let knob: Knob = serde_json::from_slice(body).map_err(|e| format!("no knob: {e}"))?;
            lock(&shared.knobs).add(knob, shared.clock.now_ms());
            Ok(done)
        }
        ("GET", "knob") => {
            let knobs = lock(&shared.knobs);
            Ok(json!({"set": knobs.list().collect::<Vec<_>>(), "fired": knobs.fired}))
        }
        ("POST", "clear" | "release") => {
            if what == "clear" {
                lock(&shared.knobs).clear();
            }
            shared.publish_held.store(false, Ordering::SeqCst);
            for db in lock(&shared.world).dbs.values_mut() {
                db.txns.release_publish();
            }
            drop(shared.world());
            Ok(done)
        }
        ("POST", "hold") => {
            shared.publish_held.store(true, Ordering::SeqCst);
            Ok(done)
        }
        ("POST", "advance") => {
            let value: Value = serde_json::from_slice(body).map_err(|e| format!("no JSON: {e}"))?;
            let secs = value["secs"].as_u64().ok_or("secs must be a whole number of seconds")?;
            shared.clock.advance(Duration::from_secs(secs));
            let now = shared.clock.now_ms();
            lock(&shared.world).clean(now);
            Ok(done)
        }
        ("POST", "purge") => {
            for db in lock(&shared.world).dbs.values_mut() {
                db.txns.purge();
            }
            Ok(done)
        }
        ("POST", "restart-fe") => {
            shared.forget_prepare();
            // This answer still goes out over a connection that the restart resets.
            let later = shared.clone();
            tokio::spawn(async move {
                tokio::time::sleep(Duration::from_millis(50)).await;
                later.restart_fe();
            });
            Ok(done)
        }
        ("POST", "restart-be") => {
            let value: Value = serde_json::from_slice(body).map_err(|e| format!("no JSON: {e}"))?;
            let index = value["index"].as_u64().and_then(|i| usize::try_from(i).ok()).unwrap_or(usize::MAX);
            if index >= shared.be_addrs.len() {
                return Err("index must be that of a back end".into());
            }
            shared.restart_be(index);
            Ok(done)
        }
        ("GET", "state") => Ok(state(shared)),
        _ => Err(format!("the simulator has no {method} /sim/{what}")),
    }
}

fn state(shared: &Shared) -> Value {
    let world = shared.world();
    let mut dbs = serde_json::Map::new();
    for (name, db) in &world.dbs {
        let mut states: BTreeMap<&str, u64> = BTreeMap::new();
        for txn in db.txns.txns() {
            *states.entry(txn.state.name()).or_default() += 1;
        }
        let tables: BTreeMap<&str, u64> = db.tables.iter().map(|(n, t)| (n.as_str(), t.rows)).collect();
        dbs.insert(name.clone(), json!({"transactions": states, "rows": tables}));
    }
    json!({"databases": dbs, "fe_body_bytes": shared.fe_body_bytes.load(Ordering::SeqCst)})
}

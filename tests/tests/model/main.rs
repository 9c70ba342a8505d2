//! The model test: random histories of a server, an engine and a Doris around the engine's real merge and delivery.
//!
//! **Server**: MySQL with GTIDs, 5.6, MySQL and MariaDB known by positions; transactions of one to three row operations over two tables of seven keys, row locks until the engine
//! commit, and flush, sync (from then on the dump may send), engine commit (visible) and gtid_executed each a step of
//! its own, the last two in binlog order or in any; keys in two spellings that are equal to it; rollbacks, rotations,
//! failover to a server with other positions.
//! **Engine**: one stream, one to three chunk workers, chunks given up where held changes take too much, epochs with
//! loads cut anywhere (inside a transaction, inside a
//! chunk), targets in append and upsert mode that part and meet again, tables added while running, an upsert target
//! read again, lost connections inside a transaction, crashes between any two steps, requests of a dead engine that
//! arrive late. **Doris**: loads in two phases; a crash may cost loads that were not committed, and the memory of
//! those that were.
//!
//! Not in the model: XA, `backfill = "skip"`, DDL.
//!
//! A violation prints its seed; `MODEL_SEED=n [MODEL_MUTANT=name] cargo test -p millstream-tests --test model replay --
//! --nocapture` tells the story. `MILLSTREAM_LONG=1` runs a million histories. `MODEL_MEASURE=n` counts the violations of
//! each broken rule in n histories.

#![allow(
    clippy::cast_possible_truncation,
    reason = "a history has few keys, tables, targets and transactions; they index arrays and are ids of one byte or four"
)]

mod boot;
mod check;
mod chunks;
mod doris;
mod driver;
mod flaws;
mod mutants;
mod rng;
mod server;
mod world;

use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use mutants::{MUTANTS, Mutant};
use server::Fence;
use world::{Config, Violation, World};

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// The violating seeds among `seeds`, in order; at most `enough` (then not always the first ones).
fn violations(seeds: Range<u64>, tune: impl Fn(&mut Config) + Sync, enough: usize) -> Vec<(u64, Violation)> {
    let next = AtomicU64::new(seeds.start);
    let found = Mutex::new(Vec::new());
    let work = || {
        while found.lock().unwrap().len() < enough {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end {
                break;
            }
            if let Err(violation) = World::new(seed, &tune, false).run() {
                found.lock().unwrap().push((seed, violation));
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(2, |n| n.get().min(4)) {
            scope.spawn(work);
        }
    });
    let mut found = found.into_inner().unwrap();
    found.sort_by_key(|(seed, _)| *seed);
    found
}

/// A mutant's settings: a MySQL with GTIDs, unless it says otherwise.
fn mutated(tune: fn(&mut Config)) -> impl Fn(&mut Config) + Sync {
    move |c| {
        c.serve(Fence::Executed);
        tune(c);
    }
}

fn assert_none(seeds: Range<u64>, tune: impl Fn(&mut Config) + Sync) {
    let histories = seeds.end - seeds.start;
    if let Some((seed, violation)) = violations(seeds, &tune, 1).first() {
        let told = World::new(*seed, &tune, true).run().unwrap_err();
        panic!("seed {seed}: {}\n{}\nMODEL_SEED={seed}: {}", violation.what, told.story, violation.what);
    }
    println!("{histories} histories, no violation");
}

#[test]
fn with_every_rule_the_output_is_exact() {
    let histories = if number("MILLSTREAM_LONG").is_some() { 1_000_000 } else { 6_000 };
    assert_none(1..1 + histories, |_| {});
}

#[test]
fn a_low_watermark_smaller_than_the_truth_is_safe() {
    let histories = if number("MILLSTREAM_LONG").is_some() { 100_000 } else { 2_000 };
    assert_none(1..1 + histories, |c| {
        c.serve(Fence::Executed);
        c.smaller_lw = true;
    });
}

/// Each of these two covers for the other in GTID mode: a chunk of a table that is ahead of the stream may only lose
/// what is dropped as delivered outside of Done ranges (and `behind_and_delivered` breaks both).
#[test]
fn either_of_two_rules_that_cover_for_each_other_is_enough() {
    use millstream_engine::merge::{Broken, Rules};
    assert_none(1..1_000, |c| {
        c.serve(Fence::Executed);
        mutants::torn_apart(c);
        c.rules = Rules::without(Broken::BehindTable);
    });
    assert_none(1..1_000, |c| {
        c.serve(Fence::Executed);
        mutants::torn_apart(c);
        c.rules = Rules::without(Broken::DeliveredInDoneOnly);
    });
}

#[test]
fn each_broken_rule_is_noticed() {
    let measure = number("MODEL_MEASURE");
    let mut missed = Vec::new();
    for Mutant { name, tune, first, budget } in MUTANTS {
        if let Some(n) = measure {
            let found = violations(1..1 + n, mutated(*tune), usize::MAX);
            let seeds: Vec<u64> = found.iter().map(|(seed, _)| *seed).take(3).collect();
            println!("{name:28} {:7} of {n}, first {seeds:?}", found.len());
        }
        if violations(*first..first + budget, mutated(*tune), 1).is_empty() {
            missed.push(*name);
        }
    }
    assert!(missed.is_empty(), "not noticed within their seeds: {missed:?}");
}

#[test]
fn every_mutant_is_explained_and_every_explained_mutant_exists() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/exactly-once.md");
    let page = std::fs::read_to_string(path).unwrap();
    let mut explained: Vec<&str> =
        page.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`')).map(|(name, _)| name).collect();
    explained.sort_unstable();
    let mut names: Vec<&str> = MUTANTS.iter().map(|m| m.name).collect();
    names.sort_unstable();
    assert_eq!(explained, names);
}

/// Tells the history of `MODEL_SEED`, with the rule `MODEL_MUTANT` broken. A history is a function of its seed alone.
#[test]
fn replay() {
    let name = std::env::var("MODEL_MUTANT").ok();
    let mutant = name.map(|name| MUTANTS.iter().find(|m| m.name == name).unwrap_or_else(|| panic!("no mutant {name}")));
    let tune = |c: &mut Config| mutant.into_iter().for_each(|m| mutated(m.tune)(c));
    let seed = number("MODEL_SEED");
    let play = || World::new(seed.unwrap_or(7), tune, true).play();
    let (story, end) = play();
    assert_eq!(play(), (story.clone(), end.clone()), "the same seed gave another history");
    if seed.is_some() {
        println!("{story}");
        assert_eq!(end, Ok(()));
    }
}

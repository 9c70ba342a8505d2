//! A real MySQL replicated into the simulated cluster by the real binary.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use millstream_tests::rig::Rig;
use millstream_tests::server;
use millstream_tests::workload::Workload;

#[test]
fn a_snapshot_and_live_changes_arrive_and_the_upsert_tables_equal_the_source() {
    let Some(server) = server::shared() else { return };
    let endpoint = server.endpoint();
    let mut workload = Workload::new("rep1", 7, 2);
    workload.create(&endpoint).unwrap();
    workload.load(&endpoint, 3000, &AtomicU64::new(0)).unwrap();
    let rig = Rig::new(server, &["rep1.*"]);
    rig.run_well();
    rig.assert_exact(&endpoint, "rep1", &Workload::TABLES);
    workload.run(&endpoint, 300).unwrap();
    rig.run_well();
    rig.assert_exact(&endpoint, "rep1", &Workload::TABLES);
}

#[test]
fn an_engine_killed_again_and_again_delivers_every_change_once() {
    let Some(server) = server::shared() else { return };
    let endpoint = server.endpoint();
    let mut workload = Workload::new("rep2", 11, 2);
    workload.create(&endpoint).unwrap();
    workload.load(&endpoint, 6000, &AtomicU64::new(0)).unwrap();
    let rig = Rig::new(server, &["rep2.*"]);
    let writers = workload.start(&endpoint, Some(150.0));
    let mut rng = fastrand::Rng::with_seed(5);
    for _ in 0..12 {
        let mut engine = rig.spawn();
        std::thread::sleep(Duration::from_millis(rng.u64(100..1500)));
        engine.kill9().unwrap();
    }
    writers.stop();
    rig.run_well();
    rig.assert_exact(&endpoint, "rep2", &Workload::TABLES);
}

//! The engine runner: the binary is this source's, and runs leave nothing behind.

use std::time::Duration;

use millstream_tests::engine::{self, Home};
use millstream_tests::paths;

#[test]
fn the_binary_is_built_in_this_profile() {
    let binary = engine::binary();
    assert!(binary.starts_with(paths::target_dir()), "{}", binary.display());
    let profile = if cfg!(debug_assertions) { "debug" } else { "release" };
    assert_eq!(binary.parent().unwrap().file_name().unwrap(), profile);
    assert_eq!(binary, engine::binary());
}

#[test]
fn a_run_is_captured() {
    let home = Home::new().unwrap();
    let path = home.path().to_path_buf();
    let output = home.finish(None, &["--version"], Duration::from_secs(20));
    assert!(output.exit.success(), "{output:?}");
    drop(home);
    assert!(!path.exists());
}

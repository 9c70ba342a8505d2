//! The simulator as a judge: it uses nothing of what it judges, and it runs as a process of its own.

use millstream_tests::doris::{DorisTarget, SimOptions};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

fn sources(dir: &Path, out: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, out);
        } else if path.extension().is_some_and(|e| e == "rs") {
            out.push(path);
        }
    }
}

#[test]
fn it_uses_nothing_of_the_sink() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = vec![root.join("src/bin/doris-sim.rs")];
    sources(&root.join("src/doris"), &mut files);
    assert!(files.len() > 15, "{files:?}");
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        for word in ["doris_sink", "doris-sink", "millstream_engine", "millstream-engine"] {
            assert!(!text.contains(word), "{} names {word}", file.display());
        }
    }
    // Neither does the library it is part of: the sink and the engine are dependencies of tests only.
    let manifest = std::fs::read_to_string(root.join("Cargo.toml")).unwrap();
    let section = |name: &str| {
        let (_, rest) = manifest.split_once(&format!("\n[{name}]\n")).unwrap();
        rest.split_once("\n[").map_or(rest, |(section, _)| section)
    };
    for name in ["millstream-doris-sink", "millstream-engine"] {
        assert!(!section("dependencies").contains(name), "{name} is a dependency of the library");
        assert!(section("dev-dependencies").contains(name), "{name} moved: look at this test");
    }
}

#[test]
fn the_process_prints_its_addresses_and_ends_with_its_input() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_doris-sim"))
        .args(["--fe-port=0", "--sql-port=0", "--be-port=0", "--be-port=0", "--user=u", "--database=x", "--counting"])
        .arg("--exit-on-stdin-close")
        .env("DORIS_PASSWORD", "p")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let said: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert!(said["fe"].as_str().unwrap().starts_with("http://127.0.0.1:"), "{line}");
    assert_eq!(said["be"].as_array().unwrap().len(), 2);
    let addr: std::net::SocketAddr = said["sql"].as_str().unwrap().parse().unwrap();
    drop(std::net::TcpStream::connect(addr).unwrap());
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
}

#[tokio::test]
async fn a_target_is_the_simulator_unless_the_environment_names_a_cluster() {
    if std::env::var_os("MILLSTREAM_DORIS_FE").is_some() {
        let target = DorisTarget::from_env_or_sim().await.unwrap();
        assert!(target.is_real() && target.sim_or_skip("this test").is_none());
        return;
    }
    let target =
        DorisTarget::from_env_or_sim_with(SimOptions { user: "me".into(), ..SimOptions::default() }).await.unwrap();
    assert!(!target.is_real());
    assert_eq!(target.user, "me");
    let sim = target.sim_or_skip("this test").unwrap();
    assert_eq!(target.fe_url, sim.fe_url());
    assert_eq!(target.sql_socket().unwrap(), sim.sql_addr());
}

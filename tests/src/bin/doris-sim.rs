//! A simulated Doris cluster as a process: prints its addresses as one JSON line and lives until it is killed.

use clap::Parser;
use millstream_tests::doris::{DorisSim, Profile, SimOptions};
use std::io::{Read as _, Write as _};
use std::time::Duration;

/// A simulated Apache Doris cluster for tests, benches and the demo.
#[derive(Debug, Parser)]
struct Args {
    /// Address the ports are opened on.
    #[arg(long, default_value = "127.0.0.1")]
    host: String,
    /// Front end HTTP port; 0 takes a free one.
    #[arg(long, default_value_t = 8030)]
    fe_port: u16,
    /// SQL port; 0 takes a free one.
    #[arg(long, default_value_t = 9030)]
    sql_port: u16,
    /// Back end HTTP port; repeat it for more back ends; 0 takes a free one.
    #[arg(long, default_values_t = [8040])]
    be_port: Vec<u16>,
    /// The user that may log in.
    #[arg(long, default_value = "root")]
    user: String,
    /// Its password; without it, that of the environment variable DORIS_PASSWORD, or none.
    #[arg(long)]
    password: Option<String>,
    /// The version to be like: 2.0, 2.1, 3, 4 or cloud. Without it, a mixture that every client gets on with.
    #[arg(long, value_parser = profile)]
    like: Option<Profile>,
    /// Count rows instead of keeping them.
    #[arg(long)]
    counting: bool,
    /// Milliseconds until committed rows are visible.
    #[arg(long, default_value_t = 0)]
    publish_delay_ms: u64,
    /// Create these databases at the start.
    #[arg(long)]
    database: Vec<String>,
    /// End when standard input is closed.
    #[arg(long)]
    exit_on_stdin_close: bool,
}

fn profile(name: &str) -> Result<Profile, String> {
    Ok(match name {
        "2.0" => Profile::V2_0,
        "2.1" => Profile::V2_1,
        "3" => Profile::V3,
        "4" => Profile::V4,
        "cloud" => Profile::Cloud,
        _ => return Err("2.0, 2.1, 3, 4 or cloud".into()),
    })
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let sim = DorisSim::start(SimOptions {
        user: args.user,
        password: args.password.or_else(|| std::env::var("DORIS_PASSWORD").ok()).unwrap_or_default(),
        host: args.host,
        fe_port: args.fe_port,
        sql_port: args.sql_port,
        be_ports: args.be_port,
        counting: args.counting,
        publish_delay: Duration::from_millis(args.publish_delay_ms),
        ..args.like.map_or_else(SimOptions::default, SimOptions::profile)
    })
    .await?;
    for db in &args.database {
        sim.create_database(db);
    }
    let be: Vec<String> = sim.be_addrs().iter().map(ToString::to_string).collect();
    let line = serde_json::json!({"fe": sim.fe_url(), "sql": sim.sql_addr().to_string(), "be": be});
    writeln!(std::io::stdout(), "{line}")?;
    std::io::stdout().flush()?;
    if args.exit_on_stdin_close {
        tokio::task::spawn_blocking(|| {
            let mut buf = [0; 1024];
            while std::io::stdin().read(&mut buf).is_ok_and(|n| n > 0) {}
        })
        .await?;
    } else {
        std::future::pending::<()>().await;
    }
    Ok(())
}

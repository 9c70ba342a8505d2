//! A real MySQL with the workload's tables and a simulated Doris, to try things by hand:
//! `cargo run --release -p millstream-tests --example playground -- ROWS`. Ends with standard input.

use std::io::Read as _;
use std::sync::atomic::AtomicU64;

use millstream_tests::doris::{DorisSim, SimOptions};
use millstream_tests::server::{Server, ServerOptions};
use millstream_tests::workload::Workload;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let rows = std::env::args().nth(1).map_or(Ok(10_000), |n| n.parse())?;
    let server = Server::start(ServerOptions::new().durable(false))?;
    let mut workload = Workload::new("shop", 1, 2);
    workload.create(&server.endpoint())?;
    workload.load(&server.endpoint(), rows, &AtomicU64::new(0))?;
    let runtime = tokio::runtime::Runtime::new()?;
    let options = SimOptions { password: "doris".to_owned(), ..SimOptions::default() };
    let sim = runtime.block_on(DorisSim::start(options))?;
    println!(
        "name = \"playground\"\n[source]\nurl = \"{}\"\ntables = [\"shop.*\"]\n[sink]\ntype = \"doris\"\nfe = [\"{}\"]\n\
         sql = \"{}\"\nuser = \"{}\"\npassword = \"{}\"\n[state]\ndir = \"./state\"\n",
        server.url("repl"),
        sim.fe_url(),
        sim.sql_addr(),
        sim.user(),
        sim.password()
    );
    eprintln!("socket: {}; end with Ctrl-D", server.socket().display());
    std::io::stdin().read_to_end(&mut Vec::new())?;
    for table in Workload::TABLES {
        eprintln!("{table}: {} rows", sim.row_count("shop", table));
    }
    Ok(())
}

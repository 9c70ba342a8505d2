//! Every way to log in that a server has.

use millstream_tests::server::{self, Flavor};
use millstream_wire::Connection;

#[tokio::test]
async fn the_harness_users_log_in_everywhere() {
    for flavor in Flavor::ALL {
        let Some(server) = server::shared_of(flavor) else { continue };
        for user in ["root", "repl", "admin"] {
            let mut connection = Connection::connect(&server.connect_options(user)).await.unwrap();
            let row = connection.query_all("SELECT CURRENT_USER() AS who").await.unwrap();
            let host = if user == "root" { "localhost" } else { "%" };
            assert_eq!(row.text(0, "who"), Some(&*format!("{user}@{host}")), "{flavor}");
        }
    }
}

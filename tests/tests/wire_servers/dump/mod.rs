//! Dumps from every server: where they start, what they carry, how they end.

mod ends;
mod log;
mod own;
mod starts;

/// The same test on each server, side by side.
macro_rules! on_every_server {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        mod $name {
            use millstream_tests::server::Flavor;

            $(#[$doc])*
            #[tokio::test]
            async fn mysql_9_7() {
                super::$name(Flavor::Mysql97).await;
            }

            #[tokio::test]
            async fn mysql_5_6() {
                super::$name(Flavor::Mysql56).await;
            }

            #[tokio::test]
            async fn mariadb_10_5() {
                super::$name(Flavor::Mariadb105).await;
            }

            #[tokio::test]
            async fn mariadb_10_11() {
                super::$name(Flavor::Mariadb1011).await;
            }

            #[tokio::test]
            async fn mariadb_11_8() {
                super::$name(Flavor::Mariadb118).await;
            }
        }
    )*};
}
use on_every_server;

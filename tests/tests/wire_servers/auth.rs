//! Every plugin that a server has, on every transport: the login works, or is refused for the reason that is expected.

use millstream_tests::server::{self, Flavor, Server};
use millstream_wire::connect::Identity;
use millstream_wire::{ConnectOptions, Connection, Error, SslMode};

pub(super) const PASSWORD: &str = "a pässword of more than twenty bytes";
const WRONG: &str = "hunter2 is not it";

pub(super) async fn login(options: &ConnectOptions) -> Result<Connection, Error> {
    Connection::connect(options).await
}

pub(super) async fn refused(options: &ConnectOptions) -> Error {
    login(options).await.map(drop).unwrap_err()
}

#[tokio::test]
async fn the_harness_users_log_in_everywhere() {
    for flavor in Flavor::ALL {
        let Some(server) = server::shared_of(flavor) else { continue };
        for user in ["root", "repl", "admin"] {
            let mut connection = login(&server.connect_options(user)).await.unwrap();
            let row = connection.query_all("SELECT CURRENT_USER() AS who").await.unwrap();
            let host = if user == "root" { "localhost" } else { "%" };
            assert_eq!(row.text(0, "who"), Some(&*format!("{user}@{host}")), "{flavor}");
        }
    }
}

/// How a client comes to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Socket,
    SocketTls,
    Plain,
    /// Plain, and a key that the server sends is believed.
    PlainRetrieval,
    /// Plain, with the server's key known beforehand.
    PlainPinned,
    Preferred,
    Required,
    VerifyCa,
    VerifyIdentity,
    /// Verified without a CA.
    Proof,
}

impl Way {
    const ALL: [Self; 10] = [
        Self::Socket,
        Self::SocketTls,
        Self::Plain,
        Self::PlainRetrieval,
        Self::PlainPinned,
        Self::Preferred,
        Self::Required,
        Self::VerifyCa,
        Self::VerifyIdentity,
        Self::Proof,
    ];

    fn options(self, server: &Server, user: &str) -> ConnectOptions {
        let options = match self {
            Self::Socket | Self::SocketTls => ConnectOptions::unix(server.socket()),
            _ => ConnectOptions::tcp("127.0.0.1", server.port()),
        };
        let options = match server.ca() {
            Some(ca) if self != Self::Proof => options.ssl_ca(ca),
            _ => options,
        };
        let mode = match self {
            Self::Plain | Self::PlainRetrieval | Self::PlainPinned => SslMode::Disabled,
            Self::Socket | Self::Preferred => SslMode::Preferred,
            Self::SocketTls | Self::Required => SslMode::Required,
            Self::VerifyCa | Self::Proof => SslMode::VerifyCa,
            Self::VerifyIdentity => SslMode::VerifyIdentity,
        };
        let options = match self {
            Self::PlainRetrieval => options.allow_public_key_retrieval(true),
            Self::PlainPinned => options.server_public_key(server.data_dir().join("public_key.pem")),
            _ => options,
        };
        options.ssl_mode(mode).user(user).password(PASSWORD)
    }

    /// Whether the session is then inside TLS and who says which server it is, or a part of the refusal.
    fn expected(self, flavor: Flavor, plugin: &str) -> Result<(bool, Identity), &'static str> {
        let tls = match self {
            Self::Socket | Self::Plain | Self::PlainRetrieval | Self::PlainPinned => false,
            Self::Preferred => flavor.has_tls(),
            _ if !flavor.has_tls() => return Err("the server offers none"),
            _ => true,
        };
        let whole_password = matches!(plugin, "caching_sha2_password" | "sha256_password");
        match self {
            Self::PlainPinned if flavor.is_mariadb() || flavor == Flavor::Mysql56 => return Err("public_key.pem"),
            Self::Plain if whole_password => return Err("server_public_key"),
            Self::VerifyCa | Self::VerifyIdentity | Self::Proof if flavor.proves_certificate() => {
                return Ok((true, Identity::Password));
            }
            Self::Proof => return Err("ssl_ca"),
            // The certificates that MySQL makes for itself name no host.
            Self::VerifyIdentity if flavor.is_mysql() => return Err("verify-ca does not compare"),
            Self::VerifyCa | Self::VerifyIdentity => return Ok((true, Identity::Certificate)),
            // Nobody asked, and yet the server proved itself.
            _ if tls && flavor.proves_certificate() => return Ok((true, Identity::Password)),
            _ => {}
        }
        Ok((tls, Identity::Unknown))
    }
}

/// Makes a user whose password is `PASSWORD`.
fn create(server: &Server, user: &str, plugin: &str) {
    let identified = match (server.flavor(), plugin) {
        (Flavor::Mysql56, "sha256_password") => {
            server.sql(&format!(
                "CREATE USER {user} IDENTIFIED WITH sha256_password; SET old_passwords = 2;
                 SET PASSWORD FOR {user} = PASSWORD('{PASSWORD}')"
            ));
            return;
        }
        (Flavor::Mysql56, _) => format!("BY '{PASSWORD}'"),
        (Flavor::Mysql97, _) => format!("WITH {plugin} BY '{PASSWORD}'"),
        _ => format!("VIA {plugin} USING PASSWORD('{PASSWORD}')"),
    };
    server.sql(&format!("CREATE USER {user} IDENTIFIED {identified}"));
}

/// One plugin of one server on every way. Each login has a user of its own, so that nothing is cached of the password.
async fn every_way(server: &Server, plugin: &str) {
    let flavor = server.flavor();
    for (number, way) in Way::ALL.into_iter().enumerate() {
        // At most 16 bytes on 5.6.
        let user = format!("w{number}_{plugin:.12}");
        create(server, &user, plugin);
        let options = way.options(server, &user);
        let context = format!("{flavor}, {plugin}, {way:?}");

        let wrong = refused(&options.clone().password(WRONG)).await;
        let texts = format!("{wrong} {wrong:?}");
        assert!(!texts.contains("hunter2") && !texts.contains("pässword"), "{context}: {texts}");
        assert!(!wrong.is_retryable(), "{context}: {wrong}");
        match way.expected(flavor, plugin) {
            Err(text) => {
                for error in [wrong, refused(&options).await] {
                    assert!(error.is_auth() || error.is_tls(), "{context}: {error}");
                    assert!(error.to_string().contains(text), "{context}: {error}");
                }
            }
            Ok(expected) => {
                assert_eq!(wrong.server_error().map(|e| e.code), Some(1045), "{context}: {wrong}");
                assert!(wrong.is_auth() && wrong.to_string().contains(&user), "{context}: {wrong}");
                let mut connection = match login(&options).await {
                    Ok(connection) => connection,
                    Err(error) => panic!("{context}: {error}"),
                };
                assert_eq!((connection.tls(), connection.identity()), expected, "{context}");
                connection.ping().await.unwrap();
            }
        }
    }
}

/// Conformance: W1, W2, W3, W4, W5, W7
#[tokio::test]
async fn mysql_9_7() {
    let Some(server) = server::shared_of(Flavor::Mysql97) else { return };
    // Native passwords are gone from the server; its plugin of that name is for clients.
    for plugin in ["caching_sha2_password", "sha256_password"] {
        every_way(server, plugin).await;
    }

    // What the server has cached of a password by a whole login, it checks without one.
    create(server, "w_cached", "caching_sha2_password");
    assert!(refused(&Way::Plain.options(server, "w_cached")).await.to_string().contains("server_public_key"));
    login(&Way::Socket.options(server, "w_cached")).await.unwrap();
    login(&Way::Plain.options(server, "w_cached")).await.unwrap();
    let wrong = Way::Plain.options(server, "w_cached").password(WRONG);
    assert!(refused(&wrong).await.to_string().contains("server_public_key"), "asked for the whole of a wrong one");

    // A key that is not the server's encrypts what the server cannot read.
    create(server, "w_other_key", "caching_sha2_password");
    let dir = tempfile::tempdir().unwrap();
    let key = dir.path().join("key.pem");
    std::fs::write(&key, OTHER_KEY).unwrap();
    let options = Way::Plain.options(server, "w_other_key").server_public_key(&key);
    assert_eq!(refused(&options).await.server_error().map(|e| e.code), Some(1045));
    std::fs::write(&key, "not a key").unwrap();
    assert!(refused(&options).await.to_string().contains("server_public_key"));

    // A second factor that asks the client for nothing: the user of the system at the other end of the socket.
    server.sql("INSTALL PLUGIN auth_socket SONAME 'auth_socket.so'");
    for (user, system) in [("w_two_factors", system_user()), ("w_two_strangers", "nobody_at_all".to_owned())] {
        server.sql(&format!(
            "CREATE USER {user} IDENTIFIED BY '{PASSWORD}' AND IDENTIFIED WITH auth_socket AS '{system}'"
        ));
        let error = refused(&Way::Required.options(server, user)).await;
        assert!(error.is_auth() && !error.is_retryable(), "{user}: {error}");
        assert!(refused(&Way::Socket.options(server, user).password(WRONG)).await.is_auth());
    }
    login(&Way::Socket.options(server, "w_two_factors")).await.unwrap();
    assert!(refused(&Way::Socket.options(server, "w_two_strangers")).await.is_auth());

    empty_passwords(server, &["caching_sha2_password", "sha256_password"]).await;
    closed_accounts(server).await;
}

/// Conformance: W1, W3, W7
#[tokio::test]
async fn mysql_5_6() {
    let Some(server) = server::shared_of(Flavor::Mysql56) else { return };
    every_way(server, "mysql_native_password").await;
    empty_passwords(server, &["mysql_native_password"]).await;

    // This build has no RSA: it takes sha256_password inside TLS only, and its TLS ends at 1.1.
    create(server, "w_sha256", "sha256_password");
    assert!(refused(&Way::Plain.options(server, "w_sha256")).await.to_string().contains("server_public_key"));
    for way in [Way::Socket, Way::PlainRetrieval] {
        assert_eq!(refused(&way.options(server, "w_sha256")).await.server_error().map(|e| e.code), Some(1045));
    }

    server.sql(
        "CREATE USER w_old IDENTIFIED WITH mysql_old_password; SET GLOBAL secure_auth = 0; SET old_passwords = 1;
         SET PASSWORD FOR w_old = PASSWORD('pw')",
    );
    let error = refused(&Way::Plain.options(server, "w_old")).await;
    assert!(error.is_auth() && error.to_string().contains("mysql_old_password: the password is stored"), "{error}");
    server.sql("SET GLOBAL secure_auth = 1");
    let error = refused(&Way::Plain.options(server, "w_old")).await;
    assert!(error.is_auth() && !error.is_retryable(), "{error}");
}

/// What every MariaDB has.
async fn mariadb(flavor: Flavor, ed25519_and: &[&str]) {
    let Some(server) = server::shared_of(flavor) else { return };
    server.sql("INSTALL PLUGIN IF NOT EXISTS ed25519 SONAME 'auth_ed25519'");
    let plugins = [&["mysql_native_password", "ed25519"], ed25519_and].concat();
    for plugin in &plugins {
        every_way(server, plugin).await;
    }
    // Before 11.x nobody gets into an ed25519 account whose password is empty: a signature is checked against no key.
    empty_passwords(server, if flavor == Flavor::Mariadb118 { &plugins } else { &["mysql_native_password"] }).await;

    // An account with two ways in: the server goes on to the second, with another switch.
    for (user, first, second) in [
        ("w_two_a", "ed25519 USING PASSWORD('other')", "mysql_native_password USING PASSWORD"),
        ("w_two_b", "mysql_native_password USING PASSWORD('other')", "ed25519 USING PASSWORD"),
    ] {
        server.sql(&format!("CREATE USER {user} IDENTIFIED VIA {first} OR {second}('{PASSWORD}')"));
        for way in [Way::Plain, Way::Required, Way::VerifyCa] {
            if let Err(error) = login(&way.options(server, user)).await {
                panic!("{flavor}, {user}, {way:?}: {error}");
            }
        }
    }

    // The system's user, which needs no password and works on the socket only.
    // (The harness's root has no password and may be this user: its account is left as it is.)
    let me = system_user();
    if me == "root" {
        server.sql("CREATE USER root@'127.0.0.1' IDENTIFIED VIA unix_socket");
    } else {
        server.sql(&format!("CREATE USER '{me}'@'%' IDENTIFIED VIA unix_socket"));
    }
    login(&Way::Socket.options(server, &me).password("")).await.unwrap();
    let error = refused(&Way::Plain.options(server, &me).password("")).await;
    assert!(error.is_auth() && !error.is_retryable(), "{flavor}: {error}");

    // PASSWORD('pw') as it was before 4.1.
    server.sql("CREATE USER w_old IDENTIFIED VIA mysql_old_password USING '077fdc814925fa67'");
    server.sql("SET GLOBAL secure_auth = 0");
    let error = refused(&Way::Plain.options(server, "w_old")).await;
    assert!(error.is_auth() && error.to_string().contains("mysql_old_password: the password is stored"), "{error}");
    server.sql("SET GLOBAL secure_auth = 1");
    let error = refused(&Way::Plain.options(server, "w_old")).await;
    assert!(error.is_auth() && !error.is_retryable(), "{error}");

    closed_accounts(server).await;
}

/// Conformance: W1, W2, W3, W6, W7
#[tokio::test]
async fn mariadb_10_5() {
    mariadb(Flavor::Mariadb105, &[]).await;
}

/// Conformance: W1, W2, W3, W6, W7
#[tokio::test]
async fn mariadb_10_11() {
    mariadb(Flavor::Mariadb1011, &[]).await;
}

/// Conformance: W1, W2, W3, W6, W7
#[tokio::test]
async fn mariadb_11_8() {
    if let Some(server) = server::shared_of(Flavor::Mariadb118) {
        server.sql("INSTALL PLUGIN IF NOT EXISTS parsec SONAME 'auth_parsec'");
    }
    mariadb(Flavor::Mariadb118, &["parsec"]).await;
}

/// Whom the operating system takes this process for.
fn system_user() -> String {
    let output = std::process::Command::new("id").arg("-un").output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// Accounts without a password: in without one, and not with one.
async fn empty_passwords(server: &Server, plugins: &[&str]) {
    for plugin in plugins {
        let user = format!("w_empty_{plugin:.8}");
        server.sql(&match (server.flavor(), *plugin) {
            (Flavor::Mysql56, _) => format!("CREATE USER {user}"),
            (Flavor::Mysql97, _) => format!("CREATE USER {user} IDENTIFIED WITH {plugin} BY ''"),
            _ => format!("CREATE USER {user} IDENTIFIED VIA {plugin} USING PASSWORD('')"),
        });
        for way in [Way::Plain, Way::Preferred] {
            let options = way.options(server, &user);
            let context = format!("{}, {plugin}, {way:?}", server.flavor());
            if let Err(error) = login(&options.clone().password("")).await {
                panic!("{context}: {error}");
            }
            let error = refused(&options).await;
            assert!(error.is_auth(), "{context}: {error}");
        }
    }
}

/// Accounts that are locked, or whose password has expired: told as refused logins, not as faults of the network.
async fn closed_accounts(server: &Server) {
    let flavor = server.flavor();
    create(server, "w_locked", flavor.default_plugin());
    server.sql("ALTER USER w_locked ACCOUNT LOCK");
    create(server, "w_expired", flavor.default_plugin());
    server.sql("ALTER USER w_expired PASSWORD EXPIRE");
    let error = refused(&Way::Preferred.options(server, "w_locked")).await;
    assert!(error.is_auth() && !error.is_retryable(), "{flavor}: {error}");
    // MySQL refuses the login; MariaDB lets in, and refuses what is asked for then.
    let error = match login(&Way::Preferred.options(server, "w_expired")).await {
        Ok(mut connection) => {
            assert!(flavor.is_mariadb());
            let error = connection.query_all("SELECT 1 FROM mysql.user").await.map(drop).unwrap_err();
            assert_eq!(error.server_error().map(|e| e.code), Some(1820), "{flavor}: {error}");
            error
        }
        Err(error) => {
            assert!(error.is_auth(), "{flavor}: {error}");
            error
        }
    };
    assert!(!error.is_retryable() && error.to_string().to_lowercase().contains("password"), "{flavor}: {error}");
}

/// A public key whose private key is nobody's.
const OTHER_KEY: &str = "-----BEGIN PUBLIC KEY-----
MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEA3NypNpWL4x2mvoFTrrfv
Y0H7r3acy3V9ooeN42MeropY6Qkw7vSH95KeUsnNR+B9+TzD4Jeyo6un/ipdHq8x
f4QAQTg6mc9JmVDla7/SiehREkErpfQcfXef5fU6IPOqvt8zPDz/SsMn2e2QaLqO
Xx5SwT+QIvI42W4vdd0bxY9OKKaPYdNfVwRvaw5Dm+p5RDOcOy+1BxpPT5fBQf+y
766cnwVUekeUHcf0wp2pq55hCEPhGQSK/HLfqAYajmXQrX4mdK8W+6Z2F16XxGLb
7Olkim6dONSOnkGZE6HkGeRdnSzOdHZqFO87dP9wv6SMgNAkCVUYINCaRIAfAEZz
xQIDAQAB
-----END PUBLIC KEY-----
";

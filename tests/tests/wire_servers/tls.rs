//! TLS with somebody in between, with other names, and with servers that are too old for it.

use std::sync::Arc;

use millstream_tests::server::{self, Flavor, Server, ServerOptions, fixture, or_skip};
use millstream_wire::connect::Identity;
use millstream_wire::{ConnectOptions, Connection, SslMode};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, ServerConfig, SignatureScheme};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::{TlsAcceptor, TlsConnector};

use super::auth::{PASSWORD, login, refused};

/// Conformance: W2
#[tokio::test]
async fn names_are_compared_when_asked_for() {
    let Some(server) = server::shared_of(Flavor::Mariadb105) else { return };
    let ca = server.ca().unwrap();
    let as_host = async |host: &str, mode| {
        // The name that is dialled decides, not the address behind it.
        let stream = TcpStream::connect(("127.0.0.1", server.port())).await.unwrap();
        let options = ConnectOptions::tcp(host, server.port()).user("repl").password(server::REPL_PASSWORD);
        Connection::login(stream, &options.ssl_mode(mode).ssl_ca(&ca), false).await
    };
    for host in ["127.0.0.1", "localhost", "LOCALHOST"] {
        let connection = as_host(host, SslMode::VerifyIdentity).await.unwrap();
        assert_eq!(connection.identity(), Identity::Certificate);
    }
    for host in ["db.example", "127.0.0.2", "ost", "localhost.example"] {
        let error = as_host(host, SslMode::VerifyIdentity).await.map(drop).unwrap_err();
        assert!(error.is_tls() && error.to_string().contains("another host"), "{host}: {error}");
        as_host(host, SslMode::VerifyCa).await.unwrap();
    }
    let error = as_host("no name", SslMode::VerifyIdentity).await.map(drop).unwrap_err();
    assert!(error.is_tls() && error.to_string().contains("DNS name"), "{error}");

    // Over a socket the name is localhost.
    let socket = server.connect_options("root").ssl_ca(&ca);
    let connection = login(&socket.ssl_mode(SslMode::VerifyIdentity)).await.unwrap();
    assert!(connection.tls());

    // Another CA; a certificate that is no CA.
    for other in ["stranger.pem", "server.pem"] {
        let options = server.connect_options("repl").ssl_mode(SslMode::VerifyCa).ssl_ca(fixture(other));
        let error = refused(&options).await;
        assert!(error.is_tls() && !error.is_retryable(), "{error}");
    }
}

/// Conformance: W2
#[tokio::test]
async fn somebody_in_between_is_refused() {
    let Some(server) = server::shared_of(Flavor::Mariadb118) else { return };
    server.sql(
        "INSTALL PLUGIN IF NOT EXISTS ed25519 SONAME 'auth_ed25519';
         INSTALL PLUGIN IF NOT EXISTS parsec SONAME 'auth_parsec'",
    );
    let port = stand_in_between(server).await;
    for plugin in ["mysql_native_password", "ed25519", "parsec"] {
        let user = format!("tls_{plugin}");
        server.sql(&format!("CREATE USER {user} IDENTIFIED VIA {plugin} USING PASSWORD('{PASSWORD}')"));
        let at = |port| ConnectOptions::tcp("127.0.0.1", port).user(&user).password(PASSWORD);
        for mode in [SslMode::VerifyCa, SslMode::VerifyIdentity] {
            let connection = login(&at(server.port()).ssl_mode(mode)).await.unwrap();
            assert_eq!(connection.identity(), Identity::Password);
        }
        // Also where nobody asked: the server itself says that the certificate is not its own.
        for mode in [SslMode::VerifyCa, SslMode::VerifyIdentity, SslMode::Required, SslMode::Preferred] {
            let error = refused(&at(port).ssl_mode(mode)).await;
            assert!(error.is_tls() && error.to_string().contains("in between"), "{plugin}, {mode:?}: {error}");
        }
    }

    // Without a password nothing can be proved.
    server.sql("CREATE USER tls_nobody");
    let nobody = ConnectOptions::tcp("127.0.0.1", server.port()).user("tls_nobody");
    let error = refused(&nobody.clone().ssl_mode(SslMode::VerifyCa)).await;
    assert!(error.is_tls() && error.to_string().contains("without a password"), "{error}");
    assert_eq!(login(&nobody).await.unwrap().identity(), Identity::Unknown);
}

/// Conformance: W2
#[tokio::test]
async fn a_tls_that_is_too_old_is_named() {
    let options = ServerOptions::new().flavor(Flavor::Mysql56).durable(false);
    let file = |name| fixture(name).display().to_string();
    let options = options
        .flag(format!("--ssl-ca={}", file("ca.pem")))
        .flag(format!("--ssl-cert={}", file("server.pem")))
        .flag(format!("--ssl-key={}", file("server.key")));
    let Some(server) = or_skip(Server::start(options)) else { return };
    assert_eq!(server.value("SELECT @@have_ssl"), "YES");
    for mode in [SslMode::Preferred, SslMode::Required, SslMode::VerifyCa] {
        let error = refused(&server.connect_options("repl").ssl_mode(mode).ssl_ca(fixture("ca.pem"))).await;
        assert!(error.is_tls() && error.to_string().contains("no TLS version in common"), "{mode:?}: {error}");
    }
    login(&server.connect_options("repl").ssl_mode(SslMode::Disabled)).await.unwrap();
}

/// Ends the client's TLS with a certificate of its own, and speaks TLS to the server: it reads and could change everything.
/// Returns its port.
async fn stand_in_between(server: &Server) -> u16 {
    let target = server.port();
    let provider = Arc::new(aws_lc_rs::default_provider());
    let certificate = CertificateDer::from_pem_file(fixture("stranger.pem")).unwrap();
    let key = PrivateKeyDer::from_pem_file(fixture("stranger.key")).unwrap();
    let acceptor = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    let connector = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Anybody(provider.signature_verification_algorithms)))
        .with_no_client_auth();
    let (acceptor, connector) = (TlsAcceptor::from(Arc::new(acceptor)), TlsConnector::from(Arc::new(connector)));

    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let (acceptor, connector) = (acceptor.clone(), connector.clone());
            tokio::spawn(async move {
                // The client hangs up when it finds out.
                relay(client, target, acceptor, connector).await.ok();
            });
        }
    });
    port
}

async fn relay(
    mut client: TcpStream,
    target: u16,
    acceptor: TlsAcceptor,
    connector: TlsConnector,
) -> std::io::Result<()> {
    let mut server = TcpStream::connect(("127.0.0.1", target)).await?;
    // The greeting, and the request for TLS.
    let greeting = packet(&mut server).await?;
    client.write_all(&greeting).await?;
    let request = packet(&mut client).await?;
    server.write_all(&request).await?;
    let mut client = acceptor.accept(client).await?;
    let mut server = connector.connect(ServerName::try_from("localhost").unwrap(), server).await?;
    tokio::io::copy_bidirectional(&mut client, &mut server).await.map(drop)
}

/// One frame with its header.
async fn packet(stream: &mut TcpStream) -> std::io::Result<Vec<u8>> {
    let mut bytes = vec![0; 4];
    stream.read_exact(&mut bytes).await?;
    let length = usize::from(bytes[0]) | usize::from(bytes[1]) << 8 | usize::from(bytes[2]) << 16;
    bytes.resize(4 + length, 0);
    stream.read_exact(&mut bytes[4..]).await?;
    Ok(bytes)
}

/// Believes every certificate.
#[derive(Debug)]
struct Anybody(rustls::crypto::WebPkiSupportedAlgorithms);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls12_signature(message, cert, dss, &self.0)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls13_signature(message, cert, dss, &self.0)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_schemes()
    }
}

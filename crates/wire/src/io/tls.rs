use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, SubjectPublicKeyInfoDer, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use sha2::{Digest, Sha256};
use tokio_rustls::TlsConnector;

use super::channel::Stream;
use crate::connect::Certificate;
use crate::error::{Error, Kind};
use crate::options::{ConnectOptions, Endpoint, SslMode};

fn failed(what: &'static str, source: impl Into<Box<dyn core::error::Error + Send + Sync>>) -> Error {
    Error::new(Kind::Tls { what, source: Some(source.into()) })
}

/// Everything TLS needs, made before the first byte is sent so that a bad CA file is no half-open connection.
pub(super) struct Tls {
    connector: TlsConnector,
    name: ServerName<'static>,
    mode: SslMode,
    has_ca: bool,
}

impl Tls {
    pub(super) fn new(options: &ConnectOptions) -> Result<Self, Error> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let mode = options.ssl_mode;
        let roots = match (mode, &options.ssl_ca) {
            (SslMode::VerifyCa | SslMode::VerifyIdentity, Some(path)) => Some(roots(path)?),
            _ => None,
        };
        let has_ca = roots.is_some();
        let compare_name = has_ca && mode == SslMode::VerifyIdentity;
        let name = match &options.endpoint {
            Endpoint::Tcp { host, .. } => ServerName::try_from(host.clone()).ok(),
            Endpoint::Unix(_) => ServerName::try_from("localhost").ok(),
        };
        if compare_name && name.is_none() {
            return Err(Error::new(Kind::Tls {
                what: "ssl_mode verify-identity needs a host that is a DNS name or an address",
                source: None,
            }));
        }
        let verifier = Arc::new(ChainVerifier { roots, compare_name, provider: Arc::clone(&provider) });
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|e| failed("no protocol version", e))?
            .dangerous()
            .with_custom_certificate_verifier(verifier)
            .with_no_client_auth();
        // Where it is not compared, the name only goes into the hello: what is no DNS name goes without one.
        let name = name.unwrap_or_else(|| ServerName::IpAddress(core::net::Ipv4Addr::LOCALHOST.into()));
        Ok(Self { connector: TlsConnector::from(Arc::new(config)), name, mode, has_ca })
    }

    /// Runs the handshake, and says what it found out about the certificate.
    pub(super) async fn handshake(
        self,
        stream: Box<dyn Stream>,
        certificate: &mut Option<Certificate>,
    ) -> Result<Box<dyn Stream>, Error> {
        let tls = match self.connector.connect(self.name, stream).await {
            Ok(tls) => tls,
            Err(source) => {
                let what = source.get_ref().and_then(|e| e.downcast_ref::<rustls::Error>()).map(why);
                return Err(match what {
                    Some(what) => failed(what, source),
                    None => Error::new(Kind::Transport { during: "the TLS handshake", target: None, source }),
                });
            }
        };
        let shown = tls.get_ref().1.peer_certificates().and_then(<[_]>::first);
        *certificate = shown.map(|der| {
            let sha256 = Sha256::digest(der).into();
            match self.mode {
                _ if self.has_ca => Certificate::Verified,
                SslMode::VerifyCa | SslMode::VerifyIdentity => Certificate::ToBeProven { sha256 },
                _ => Certificate::Unchecked { sha256 },
            }
        });
        Ok(Box::new(tls))
    }
}

/// What a failed handshake means to somebody who runs a MySQL or MariaDB.
fn why(error: &rustls::Error) -> &'static str {
    use rustls::CertificateError as C;
    match error {
        rustls::Error::InvalidCertificate(C::NotValidForName | C::NotValidForNameContext { .. }) => {
            "the certificate is for another host, or names none, as the ones that MySQL makes for itself: verify-ca does not \
             compare the name"
        }
        rustls::Error::InvalidCertificate(C::UnknownIssuer) => "the certificate does not come from a CA of ssl_ca",
        rustls::Error::InvalidCertificate(C::Expired | C::ExpiredContext { .. }) => "the certificate has expired",
        rustls::Error::InvalidCertificate(C::Other(other)) if other.to_string().contains("UnsupportedCertVersion") => {
            "the certificate is of X.509 version 1 (MariaDB 11.4.0 and 11.4.1 make such): give the server another one"
        }
        rustls::Error::AlertReceived(rustls::AlertDescription::ProtocolVersion)
        | rustls::Error::PeerIncompatible(_)
        | rustls::Error::InvalidMessage(_) => {
            "the server and this client have no TLS version in common: it needs 1.2 or later, and MySQL 5.6 and some 5.7 \
             end at 1.1; use ssl_mode disabled over a network that is safe by other means"
        }
        _ => "the handshake failed",
    }
}

/// The server's RSA key of `server_public_key`, as PEM.
pub(super) fn server_public_key(path: &std::path::Path) -> Result<Vec<u8>, Error> {
    let unreadable = |why: String| {
        Error::new(Kind::Tls {
            what: "cannot use server_public_key",
            source: Some(format!("{}: {why}", path.display()).into()),
        })
    };
    let pem = std::fs::read(path).map_err(|e| unreadable(e.to_string()))?;
    SubjectPublicKeyInfoDer::from_pem_slice(&pem).map_err(|e| unreadable(e.to_string()))?;
    Ok(pem)
}

fn roots(path: &std::path::Path) -> Result<RootCertStore, Error> {
    let pem = std::fs::read(path).map_err(|source| {
        Error::new(Kind::Tls {
            what: "cannot read ssl_ca",
            source: Some(format!("{}: {source}", path.display()).into()),
        })
    })?;
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&pem) {
        let certificate = certificate.map_err(|e| failed("ssl_ca is not a PEM file", e))?;
        roots.add(certificate).map_err(|e| failed("ssl_ca holds a certificate that cannot be used", e))?;
    }
    if roots.is_empty() {
        return Err(Error::new(Kind::Tls { what: "ssl_ca holds no certificate", source: None }));
    }
    Ok(roots)
}

/// Checks the chain up to `roots` if there are any, and the name if that is asked for: the certificates that MySQL makes
/// for itself have no subjectAltName. Handshake signatures are always checked, so the peer holds the key of the certificate it shows.
#[derive(Debug)]
struct ChainVerifier {
    roots: Option<RootCertStore>,
    compare_name: bool,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for ChainVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        _ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        if let Some(roots) = &self.roots {
            let algorithms = self.provider.signature_verification_algorithms.all;
            let certificate = ParsedCertificate::try_from(end_entity)?;
            verify_server_cert_signed_by_trust_anchor(&certificate, roots, intermediates, now, algorithms)?;
            if self.compare_name {
                verify_server_name(&certificate, name)?;
            }
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ca_that_is_named_must_be_readable() {
        for mode in [SslMode::VerifyCa, SslMode::VerifyIdentity] {
            let o = ConnectOptions::tcp("db", 3306).ssl_mode(mode);
            // Without one the server has to prove itself, which shows later.
            assert!(!Tls::new(&o).unwrap().has_ca);
            let e = Tls::new(&o.ssl_ca("/nowhere/ca.pem")).err().unwrap();
            assert!(e.is_tls() && e.to_string().contains("/nowhere/ca.pem"));
        }
        assert!(Tls::new(&ConnectOptions::tcp("db", 3306).ssl_mode(SslMode::Required)).is_ok());
        let e = server_public_key(std::path::Path::new("/nowhere/key.pem")).unwrap_err();
        assert!(e.to_string().contains("/nowhere/key.pem"), "{e}");
    }

    /// Made by `openssl x509 -req -signkey`, which writes version 1 where there are no extensions.
    const VERSION_1: &str = "-----BEGIN CERTIFICATE-----\n\
        MIIBFTCBvQIUWDUIHqrxhRsMOa6H+Ebza6kPWfEwCgYIKoZIzj0EAwIwDTELMAkG\n\
        A1UEAwwCdjEwIBcNMjYxMjAxMDA1MTA4WhgPMjEyNjExMDcwMDUxMDhaMA0xCzAJ\n\
        BgNVBAMMAnYxMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEgKONee8ARTR5EraY\n\
        7Y6itotzs1GZ0FssWwyEP80dT/3B/zekrlzDIJYq4yhVFQDN6xUlx+ZIFvNeV6SM\n\
        szbGNzAKBggqhkjOPQQDAgNHADBEAiB1O9mRWYvtDLeSSTHAl7VQ0Vj62/Dcg+/R\n\
        Vkvhm8aZowIgfpWSgTGMvfkjTBTBqZXwlajVlEnXYHkZUwhO6JHcSpc=\n\
        -----END CERTIFICATE-----\n";

    /// Bug: 111
    #[test]
    fn a_certificate_of_version_1_is_told_by_its_name() {
        let der = CertificateDer::from_pem_slice(VERSION_1.as_bytes()).unwrap();
        let e = ParsedCertificate::try_from(&der).err().unwrap();
        assert!(why(&e).contains("X.509 version 1"), "{e:?}");
    }
}

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_cert_signed_by_trust_anchor;
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tokio_rustls::TlsConnector;

use super::channel::Stream;
use crate::error::{Error, Kind};
use crate::options::{ConnectOptions, Endpoint, SslMode};

fn failed(what: &'static str, source: impl Into<Box<dyn core::error::Error + Send + Sync>>) -> Error {
    Error::new(Kind::Tls { what, source: Some(source.into()) })
}

/// Everything TLS needs, made before the first byte is sent so that a bad CA file is no half-open connection.
pub(super) struct Tls {
    connector: TlsConnector,
    name: ServerName<'static>,
}

impl Tls {
    pub(super) fn new(options: &ConnectOptions) -> Result<Self, Error> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let roots = match (options.ssl_mode, &options.ssl_ca) {
            (SslMode::VerifyCa, None) => {
                return Err(Error::new(Kind::Tls {
                    what: "ssl_mode verify-ca needs ssl_ca, the file with the CA's certificate (ca.pem)",
                    source: None,
                }));
            }
            (SslMode::VerifyCa, Some(path)) => Some(roots(path)?),
            _ => None,
        };
        let verifier = Arc::new(ChainVerifier { roots, provider: Arc::clone(&provider) });
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|e| failed("no protocol version", e))?
            .dangerous()
            .with_custom_certificate_verifier(verifier)
            .with_no_client_auth();
        let name = match &options.endpoint {
            Endpoint::Tcp { host, .. } => ServerName::try_from(host.clone()).ok(),
            Endpoint::Unix(_) => None,
        };
        // The name only goes into the hello: it is never compared. What is no DNS name goes without one.
        let name = name.unwrap_or_else(|| ServerName::IpAddress(core::net::Ipv4Addr::LOCALHOST.into()));
        Ok(Self { connector: TlsConnector::from(Arc::new(config)), name })
    }

    pub(super) async fn handshake(self, stream: Box<dyn Stream>) -> Result<Box<dyn Stream>, Error> {
        match self.connector.connect(self.name, stream).await {
            Ok(tls) => Ok(Box::new(tls)),
            Err(source) if source.get_ref().is_some_and(|e| e.is::<rustls::Error>()) => {
                Err(failed("the handshake failed", source))
            }
            Err(source) => Err(Error::new(Kind::Transport { during: "the TLS handshake", target: None, source })),
        }
    }
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

/// Checks the chain up to `roots` if there are any, and no name: the certificates that MySQL makes for itself have no
/// subjectAltName. Handshake signatures are always checked, so the peer holds the key of the certificate it shows.
#[derive(Debug)]
struct ChainVerifier {
    roots: Option<RootCertStore>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for ChainVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        if let Some(roots) = &self.roots {
            let algorithms = self.provider.signature_verification_algorithms.all;
            let certificate = ParsedCertificate::try_from(end_entity)?;
            verify_server_cert_signed_by_trust_anchor(&certificate, roots, intermediates, now, algorithms)?;
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
    fn verify_ca_needs_a_readable_ca() {
        let o = ConnectOptions::tcp("db", 3306).ssl_mode(SslMode::VerifyCa);
        let e = Tls::new(&o).err().unwrap();
        assert!(e.is_tls() && e.to_string().contains("ssl_ca"));
        let e = Tls::new(&o.clone().ssl_ca("/nowhere/ca.pem")).err().unwrap();
        assert!(e.to_string().contains("/nowhere/ca.pem"));
        assert!(Tls::new(&o.ssl_mode(SslMode::Required)).is_ok());
    }
}

//! One HTTP/1.1 exchange: connect, send, read a bounded reply.

use core::fmt;
use core::time::Duration;
use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{HOST, HeaderValue, LOCATION};
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use tokio::net::TcpStream;

use super::endpoint::Endpoint;
use crate::error::{Kind, SinkError, Source};

/// Replies are small; more than this is cut off and an error.
const REPLY_LIMIT: usize = 4 * 1024 * 1024;

/// A failed exchange. Never carries a header or a `Location`.
#[derive(Debug)]
pub(crate) struct SendError {
    /// Whether any byte of the request may have reached the server.
    pub(crate) reached: bool,
    what: String,
    source: Source,
}

impl SendError {
    /// Whether the other side answers, but not in HTTP.
    pub(crate) fn is_other_protocol(&self) -> bool {
        // A server that speaks first, as a MySQL port does, may be heard before the request is out: hyper has no name for that,
        // and says it as such or as why the request was cancelled.
        let early = |error: &hyper::Error| {
            let cause = std::error::Error::source(error).map(ToString::to_string).unwrap_or_default();
            [error.to_string(), cause].iter().any(|text| text.contains("unexpected message"))
        };
        self.source.downcast_ref::<hyper::Error>().is_some_and(|error| error.is_parse() || early(error))
    }

    pub(crate) fn into_sink_error(self) -> SinkError {
        SinkError::new(Kind::Transport { what: self.what, source: self.source })
    }
}

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.source)?;
        let mut cause = self.source.source();
        while let Some(error) = cause {
            write!(f, ": {error}")?;
            cause = error.source();
        }
        Ok(())
    }
}

/// A whole reply.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    location: Option<HeaderValue>,
    pub(crate) body: Bytes,
}

impl Reply {
    /// The `Location` of a redirect that keeps method and headers. Carries credentials: never to be shown.
    pub(crate) fn redirect(&self) -> Option<Cow<'_, str>> {
        let keeps = matches!(self.status, StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT);
        let location = self.location.as_ref().filter(|_| keeps)?;
        // Bytes of 0x80 and more can stand in unencoded credentials, which are dropped anyway.
        Some(String::from_utf8_lossy(location.as_bytes()))
    }

    pub(crate) fn is_redirect(&self) -> bool {
        self.status.is_redirection()
    }
}

/// What an exchange needs to know beside the request.
#[derive(Clone)]
pub(crate) struct Transport {
    connect_timeout: Duration,
    tls: Arc<rustls::ClientConfig>,
}

impl fmt::Debug for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transport").field("connect_timeout", &self.connect_timeout).finish_non_exhaustive()
    }
}

/// A connection on which nothing was sent yet.
pub(crate) struct Connected {
    stream: Stream,
    endpoint: Endpoint,
}

enum Stream {
    Plain(TcpStream),
    Tls(Box<tokio_rustls::client::TlsStream<TcpStream>>),
}

impl Transport {
    /// Believes the public CAs, or only those of `ca_pem`.
    pub(crate) fn new(connect_timeout: Duration, ca_pem: Option<&[u8]>) -> Result<Self, SinkError> {
        let mut roots = rustls::RootCertStore::empty();
        match ca_pem {
            None => roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned()),
            Some(pem) => {
                let bad = || SinkError::config("sink.tls_ca: the file is no PEM file with certificates");
                for certificate in CertificateDer::pem_slice_iter(pem) {
                    roots.add(certificate.map_err(|_| bad())?).map_err(|_| bad())?;
                }
                if roots.is_empty() {
                    return Err(bad());
                }
            }
        }
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|source| {
                SinkError::new(Kind::Transport { what: "setting up TLS".into(), source: Box::new(source) })
            })?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self { connect_timeout, tls: Arc::new(config) })
    }

    /// Connects, TLS included.
    pub(crate) async fn connect(&self, endpoint: &Endpoint) -> Result<Connected, SendError> {
        let failed = |source: Source| SendError { reached: false, what: format!("connecting to {endpoint}"), source };
        let connecting = async {
            let tcp = TcpStream::connect((endpoint.host.as_str(), endpoint.port)).await?;
            tcp.set_nodelay(true)?;
            if !endpoint.tls {
                return Ok::<Stream, Source>(Stream::Plain(tcp));
            }
            let name = ServerName::try_from(endpoint.host.clone())?;
            let tls = tokio_rustls::TlsConnector::from(Arc::clone(&self.tls)).connect(name, tcp).await?;
            Ok(Stream::Tls(Box::new(tls)))
        };
        match tokio::time::timeout(self.connect_timeout, connecting).await {
            Ok(Ok(stream)) => Ok(Connected { stream, endpoint: endpoint.clone() }),
            Ok(Err(source)) => Err(failed(source)),
            Err(_) => Err(failed(format!("no answer within {:?}", self.connect_timeout).into())),
        }
    }

    /// Connects and exchanges.
    pub(crate) async fn request(
        &self,
        endpoint: &Endpoint,
        method: Method,
        path: &str,
        headers: HeaderMap,
        timeout: Duration,
    ) -> Result<Reply, SendError> {
        self.connect(endpoint).await?.exchange(method, path, headers, Bytes::new(), timeout).await
    }
}

impl Connected {
    /// Sends one request and reads the reply, which may come before the body is sent. The connection is then given up:
    /// a load is long compared with a handshake, and a fresh connection cannot be one the server is about to close.
    pub(crate) async fn exchange(
        self,
        method: Method,
        path: &str,
        mut headers: HeaderMap,
        body: Bytes,
        timeout: Duration,
    ) -> Result<Reply, SendError> {
        let Self { stream, endpoint } = self;
        let failed =
            |reached: bool, source: Source| SendError { reached, what: format!("{method} to {endpoint}"), source };
        let mut request = Request::builder().method(method.clone()).uri(path);
        if let Ok(host) = HeaderValue::from_str(&endpoint.authority()) {
            headers.insert(HOST, host);
        }
        if let Some(all) = request.headers_mut() {
            *all = headers;
        }
        let request = request.body(Full::new(body)).map_err(|source| failed(false, Box::new(source)))?;
        let exchanging = async {
            match stream {
                Stream::Plain(tcp) => converse(tcp, request).await,
                Stream::Tls(tls) => converse(*tls, request).await,
            }
        };
        match tokio::time::timeout(timeout, Box::pin(exchanging)).await {
            Ok(Ok(reply)) => Ok(reply),
            Ok(Err(source)) => Err(failed(true, source)),
            Err(_) => Err(failed(true, format!("no reply within {timeout:?}").into())),
        }
    }
}

async fn converse<S>(stream: S, request: Request<Full<Bytes>>) -> Result<Reply, Source>
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
{
    let (mut sender, connection) = http1::Builder::new().handshake(TokioIo::new(stream)).await?;
    let exchange = async move {
        let (head, body) = sender.send_request(request).await?.into_parts();
        let body = Limited::new(body, REPLY_LIMIT).collect().await?.to_bytes();
        Ok::<Reply, Source>(Reply { status: head.status, location: head.headers.get(LOCATION).cloned(), body })
    };
    // The connection makes progress only while it is polled, and ends before the exchange does when it breaks.
    tokio::pin!(exchange, connection);
    tokio::select! {
        reply = &mut exchange => reply,
        ended = &mut connection => match (exchange.await, ended) {
            (Ok(reply), _) => Ok(reply),
            (Err(_), Err(error)) => Err(error.into()),
            (Err(error), Ok(())) => Err(error),
        },
    }
}

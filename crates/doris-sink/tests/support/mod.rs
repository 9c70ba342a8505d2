//! A server whose every answer is scripted, over real sockets. It reads HTTP by itself, so that it sees exactly what was
//! sent.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpListener;

/// One request as it came.
#[derive(Clone, Debug, Default)]
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) target: String,
    /// Names in lower case.
    pub(crate) headers: HashMap<String, String>,
    /// As much as was read before the answer.
    pub(crate) body: Vec<u8>,
}

impl Request {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }
}

/// What to do with a request.
#[derive(Clone, Debug)]
pub(crate) enum Act {
    /// Read the body, answer, close.
    Reply(String),
    /// Answer without reading the body, then read it to the end.
    EarlyReply(String),
    /// Read the body, close without an answer.
    Lose,
    /// Read so many bytes of the body, then close.
    CutAt(usize),
    /// Read the body and never answer.
    Hang,
    /// First wait.
    Delay(Duration, Box<Self>),
}

type Script = dyn Fn(&Request, usize) -> Act + Send + Sync;

/// The server. Stops when dropped.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    tls: bool,
    requests: Arc<Mutex<Vec<Request>>>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Server {
    /// `script` gets each request, its body not read yet, and how many came before it.
    pub(crate) async fn start(script: impl Fn(&Request, usize) -> Act + Send + Sync + 'static) -> Self {
        Self::start_with(script, None).await
    }

    /// The same over TLS, with the certificate of `tests/fixtures/tls`.
    pub(crate) async fn start_tls(script: impl Fn(&Request, usize) -> Act + Send + Sync + 'static) -> Self {
        let certificate = CertificateDer::from_pem_slice(include_bytes!("../fixtures/tls/server.pem")).unwrap();
        let key = PrivateKeyDer::from_pem_slice(include_bytes!("../fixtures/tls/server.key")).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)
            .unwrap();
        Self::start_with(script, Some(tokio_rustls::TlsAcceptor::from(Arc::new(config)))).await
    }

    async fn start_with(
        script: impl Fn(&Request, usize) -> Act + Send + Sync + 'static,
        tls: Option<tokio_rustls::TlsAcceptor>,
    ) -> Self {
        let secure = tls.is_some();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&requests);
        let script: Arc<Script> = Arc::new(script);
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (script, seen, tls) = (Arc::clone(&script), Arc::clone(&seen), tls.clone());
                tokio::spawn(async move {
                    match tls {
                        None => serve(stream, script, seen).await,
                        Some(tls) => {
                            if let Ok(stream) = tls.accept(stream).await {
                                serve(stream, script, seen).await;
                            }
                        }
                    }
                });
            }
        });
        Self { address, tls: secure, requests, task }
    }

    pub(crate) fn url(&self) -> String {
        format!("{}://{}", if self.tls { "https" } else { "http" }, self.address)
    }

    pub(crate) fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }
}

async fn serve<S>(mut stream: S, script: Arc<Script>, seen: Arc<Mutex<Vec<Request>>>)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(_) => return,
        }
    }
    let text = String::from_utf8_lossy(&head).into_owned();
    let mut lines = text.lines();
    let mut first = lines.next().unwrap_or_default().split(' ');
    let mut request = Request {
        method: first.next().unwrap_or_default().to_owned(),
        target: first.next().unwrap_or_default().to_owned(),
        ..Request::default()
    };
    for (name, value) in lines.filter_map(|line| line.split_once(": ")) {
        let old = request.headers.insert(name.to_lowercase(), value.to_owned());
        assert!(old.is_none(), "header {name} is there twice");
    }
    let length: usize = request.header("content-length").parse().unwrap_or(0);
    let index = {
        let mut seen = seen.lock().unwrap();
        seen.push(request.clone());
        seen.len() - 1
    };
    let mut act = script(&request, index);
    while let Act::Delay(wait, next) = act {
        tokio::time::sleep(wait).await;
        act = *next;
    }
    if let Act::EarlyReply(reply) = &act {
        stream.write_all(reply.as_bytes()).await.unwrap();
    }
    let wanted = if let Act::CutAt(n) = act { n.min(length) } else { length };
    let mut body = vec![0; wanted];
    let mut at = 0;
    while at < wanted {
        match stream.read(&mut body[at..]).await {
            Ok(0) | Err(_) => break,
            Ok(n) => at += n,
        }
    }
    body.truncate(at);
    seen.lock().unwrap()[index].body = body;
    match act {
        Act::Reply(reply) => {
            let _written = stream.write_all(reply.as_bytes()).await;
            let _closed = stream.shutdown().await;
        }
        Act::Hang => std::future::pending().await,
        _ => {}
    }
}

pub(crate) fn http(status: &str, headers: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\n{headers}Content-Length: {}\r\n\r\n{body}", body.len())
}

pub(crate) fn ok(body: &str) -> Act {
    Act::Reply(http("200 OK", "", body))
}

pub(crate) fn redirect(location: &str) -> Act {
    let headers = format!("Location: {location}\r\nContent-Type: text/html;charset=utf-8\r\n");
    Act::Reply(http("307 Temporary Redirect", &headers, ""))
}

/// A BE's reply to a load.
pub(crate) fn loaded(txn_id: i64, status: &str, more: &str, message: &str, rows: u64) -> String {
    format!(
        "{{\n    \"TxnId\": {txn_id},\n    \"Label\": \"l\",\n    \"Comment\": \"\",\n    \"TwoPhaseCommit\": \"true\",\n    \
         \"Status\": \"{status}\",\n    {more}\"Message\": \"{message}\",\n    \"NumberTotalRows\": {rows},\n    \
         \"NumberLoadedRows\": {rows},\n    \"NumberFilteredRows\": 0,\n    \"NumberUnselectedRows\": 0,\n    \
         \"LoadBytes\": 1,\n    \"Comment\": \"\"\n}}\n"
    )
}

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};

use super::channel::Channel;
use super::result_set::ResultSet;
use super::rows::Rows;
use super::tls::Tls;
use crate::auth::CLIENT_NONCE_LEN;
use crate::command;
use crate::compress::Compression;
use crate::connect::{Action, Connect, Identity, Session};
use crate::error::{CONNECT, CONNECT_ALL, Error, Kind};
use crate::options::{ConnectOptions, Endpoint};
use crate::prepare::PrepareReader;
use crate::query::{QueryEvent, ResultReader};
use crate::response::{OkPacket, RowFormat};
use crate::version::ServerVersion;

/// Cap on [`Connection::query_all`], in bytes of packets.
const QUERY_ALL_LIMIT: usize = 64 * 1024 * 1024;

/// A session with a MySQL server.
///
/// One command runs at a time. A result that was not read to its end is read and thrown away by the next command; to
/// be rid of a large one, drop the connection. A command whose future was dropped while it was being sent, and any error
/// that is not the server's orderly answer, leave the connection broken: every later call says so.
///
/// ```no_run
/// # async fn example() -> Result<(), millstream_wire::Error> {
/// use millstream_wire::{ConnectOptions, Connection, Value};
///
/// let options = ConnectOptions::tcp("127.0.0.1", 3306).user("app").password("secret");
/// let mut connection = Connection::connect(&options).await?;
///
/// // Small results as a whole, large ones row by row.
/// let mode = connection.query_all("SELECT @@GLOBAL.gtid_mode").await?;
/// println!("gtid_mode is {}", mode.scalar().unwrap_or("NULL"));
/// let statement = connection.prepare("SELECT id, name FROM shop.orders WHERE id > ? ORDER BY id").await?;
/// let mut rows = connection.execute_statement(&statement, &[Value::Int(0)]).await?;
/// while let Some(row) = rows.next().await? {
///     for value in row.values() {
///         println!("{:?}", value?);
///     }
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Connection {
    pub(super) channel: Channel,
    pub(super) session: Session,
    /// The answer that is being read. It outlives a dropped future, so that the next command can read the rest of it.
    pub(super) answer: Option<Answer>,
}

/// What an answer is read with.
#[derive(Debug)]
pub(super) enum Answer {
    Results(ResultReader),
    Prepare(PrepareReader),
}

impl Connection {
    /// Connects, logs in and sets the character set to utf8mb4.
    ///
    /// # Errors
    /// `is_connect` if the server was not reached, `is_tls`, `is_auth`, or the server's own error.
    pub async fn connect(options: &ConnectOptions) -> Result<Self, Error> {
        let after = options.connect_timeout;
        match tokio::time::timeout(after, Self::connect_now(options)).await {
            Ok(result) => result,
            Err(_) => Err(Error::new(Kind::Timeout { during: CONNECT_ALL, after })),
        }
    }

    async fn connect_now(options: &ConnectOptions) -> Result<Self, Error> {
        let refused = |target: String| {
            move |source| Error::new(Kind::Transport { during: CONNECT, target: Some(target), source })
        };
        match &options.endpoint {
            Endpoint::Tcp { host, port } => {
                let target = if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
                let stream = TcpStream::connect((host.as_str(), *port)).await.map_err(refused(target))?;
                stream.set_nodelay(true).map_err(refused(format!("{host}:{port}")))?;
                Self::login(stream, options, false).await
            }
            Endpoint::Unix(path) => {
                let stream = UnixStream::connect(path).await.map_err(refused(path.display().to_string()))?;
                Self::login(stream, options, true).await
            }
        }
    }

    /// Logs in over a byte stream of the caller's: a tunnel, or a pipe in a test. The address in `options` is only used
    /// for TLS. `local` says that nobody can listen to the stream.
    ///
    /// # Errors
    /// As [`connect`](Self::connect); without its time limit.
    pub async fn login<S>(stream: S, options: &ConnectOptions, local: bool) -> Result<Self, Error>
    where
        S: AsyncRead + AsyncWrite + Send + Sync + Unpin + 'static,
    {
        let mut login = options.login(local);
        login.server_public_key =
            options.server_public_key.as_deref().map(super::tls::server_public_key).transpose()?;
        let mut nonce = [0; CLIENT_NONCE_LEN];
        login.client_nonce = aws_lc_rs::rand::fill(&mut nonce).is_ok().then_some(nonce);
        let mut tls = match login.tls {
            crate::connect::TlsUse::Never => None,
            _ => Some(Tls::new(options)?),
        };
        let mut connect = Connect::new(login)?;
        let mut channel = Channel::new(Box::new(stream));
        let mut action = Action::Wait;
        let session = loop {
            action = match action {
                Action::Wait => connect.handle(&channel.receive(crate::error::LOGIN).await?)?,
                Action::Send(payload) => {
                    let sent = channel.send(&payload).await;
                    channel.wipe();
                    sent?;
                    Action::Wait
                }
                Action::StartTls(payload) => {
                    channel.send(&payload).await?;
                    let Some(tls) = tls.take() else {
                        return Err(Error::usage("TLS was not asked for"));
                    };
                    let mut certificate = None;
                    let found = &mut certificate;
                    channel = channel.wrap(|stream| tls.handshake(stream, found)).await?;
                    match certificate {
                        Some(certificate) => connect.tls_ready(certificate)?,
                        None => return Err(Error::usage("TLS without a certificate")),
                    }
                }
                Action::Encrypt { public_key_pem, plaintext } => {
                    connect.encrypted(crate::auth::encrypt(&public_key_pem, &plaintext)?)?
                }
                Action::Done(session) => break session,
            };
        };
        tracing::debug!(
            connection_id = session.connection_id,
            version = %session.server_version,
            tls = session.tls,
            identity = ?session.identity,
            compression = ?session.compression,
            "logged in"
        );
        if session.compression != Compression::None {
            channel.compress(session.compression)?;
        }
        channel.set_limit(options.max_packet);
        channel.timeout = options.read_timeout;
        let mut connection = Self { channel, session, answer: None };
        // The login packet has room for one byte of collation id; this also sets the results' character set.
        connection.execute("SET NAMES utf8mb4").await?;
        Ok(connection)
    }

    /// The server's version text, such as `9.7.4` or `10.11.18-MariaDB`.
    #[must_use]
    pub fn server_version(&self) -> &str {
        &self.session.server_version
    }

    /// The server's version as numbers, with its flavor.
    #[must_use]
    pub const fn version(&self) -> ServerVersion {
        self.session.version
    }

    /// The session's id on the server, as in SHOW PROCESSLIST.
    #[must_use]
    pub const fn connection_id(&self) -> u32 {
        self.session.connection_id
    }

    /// Whether the connection is inside TLS.
    #[must_use]
    pub const fn tls(&self) -> bool {
        self.session.tls
    }

    /// Who says that the server is the right one.
    #[must_use]
    pub const fn identity(&self) -> Identity {
        self.session.identity
    }

    /// What the connection is compressed with.
    #[must_use]
    pub const fn compression(&self) -> Compression {
        self.session.compression
    }

    /// Whether the connection can still be used. False after an error that was not the server's orderly answer.
    #[must_use]
    pub const fn is_usable(&self) -> bool {
        !self.channel.is_broken()
    }

    /// Runs a statement and reads its whole answer; rows are thrown away. For several results, the last OK counts.
    ///
    /// # Errors
    /// The server's error, or a broken connection.
    pub async fn execute(&mut self, sql: &str) -> Result<OkPacket, Error> {
        self.start(&command::query(sql.as_bytes()), RowFormat::Text).await?;
        loop {
            if let QueryEvent::Done { ok, more: false } = self.step().await? {
                return Ok(ok);
            }
        }
    }

    /// Runs a statement and gives its rows one by one (text protocol). A statement without rows gives none; a CALL may give
    /// several results, one after the other.
    ///
    /// # Errors
    /// The server's error, or a broken connection.
    pub async fn query(&mut self, sql: &str) -> Result<Rows<'_>, Error> {
        self.start(&command::query(sql.as_bytes()), RowFormat::Text).await?;
        self.rows(RowFormat::Text).await
    }

    /// Runs a statement and gives all rows of its first result, owned. For small results: at most 64 MiB. Further results (of
    /// a CALL) are read and thrown away.
    ///
    /// # Errors
    /// The server's error, a result over the cap, or a broken connection.
    pub async fn query_all(&mut self, sql: &str) -> Result<ResultSet, Error> {
        let mut rows = self.query(sql).await?;
        let mut result = ResultSet::new(rows.columns().iter().map(|c| c.name.clone()).collect());
        let mut size = 0usize;
        while let Some(row) = rows.next().await? {
            size = size.saturating_add(row.packet().len());
            if size > QUERY_ALL_LIMIT {
                return Err(Error::new(Kind::Limit {
                    what: "a result that is read as a whole",
                    limit: QUERY_ALL_LIMIT,
                }));
            }
            result.push(&row)?;
        }
        while rows.next_result().await? {}
        Ok(result)
    }

    /// Asks whether the server is there.
    ///
    /// # Errors
    /// A broken connection.
    pub async fn ping(&mut self) -> Result<(), Error> {
        self.start(&command::ping(), RowFormat::Text).await?;
        while !matches!(self.step().await?, QueryEvent::Done { more: false, .. }) {}
        Ok(())
    }

    /// Says goodbye and closes. Dropping the connection closes it too; the server then counts an aborted client.
    pub async fn close(mut self) {
        // Nothing depends on the goodbye being heard.
        let goodbye = self.channel.send_command(&command::quit()).await;
        if goodbye.is_ok() {
            self.channel.shutdown().await;
        }
    }

    /// COM_REGISTER_SLAVE.
    pub(super) async fn register_replica(&mut self, server_id: u32) -> Result<(), Error> {
        self.start(&command::register_replica(server_id), RowFormat::Text).await?;
        while !matches!(self.step().await?, QueryEvent::Done { more: false, .. }) {}
        Ok(())
    }

    /// Reads what is left of an unfinished answer.
    pub(super) async fn drain(&mut self) -> Result<(), Error> {
        loop {
            let result = match &self.answer {
                None => return Ok(()),
                Some(Answer::Results(_)) => self.step().await.map(drop),
                Some(Answer::Prepare(_)) => self.prepare_step().await.map(drop),
            };
            match result {
                // The server's error belongs to an answer nobody wants any more.
                Err(e) if e.server_error().is_none() => return Err(e),
                _ => {}
            }
        }
    }

    /// Sends a command whose answer `step` reads.
    pub(super) async fn start(&mut self, payload: &[u8], format: RowFormat) -> Result<(), Error> {
        self.drain().await?;
        self.channel.send_command(payload).await?;
        self.answer = Some(Answer::Results(ResultReader::new(self.session.capabilities, format)));
        Ok(())
    }

    /// Reads one packet of the answer.
    async fn step(&mut self) -> Result<QueryEvent, Error> {
        self.step_with_packet().await.map(|(event, _)| event)
    }

    /// Reads one packet of the answer and gives it too. Safe to cancel.
    pub(super) async fn step_with_packet(&mut self) -> Result<(QueryEvent, Bytes), Error> {
        let packet = self.channel.receive("waiting for the server's answer").await?;
        let Some(Answer::Results(reader)) = &mut self.answer else {
            return Err(Error::usage("no statement is running"));
        };
        let event = reader.handle(&packet);
        if reader.is_finished() {
            self.answer = None;
        }
        let event = self.checked(event)?;
        if event == QueryEvent::FileRequested {
            self.channel.send(&command::no_file()).await?;
        }
        Ok((event, packet))
    }

    /// After an answer that does not parse nothing that follows can be believed; after some errors nothing follows.
    pub(super) fn checked<T>(&mut self, result: Result<T, Error>) -> Result<T, Error> {
        if result.as_ref().is_err_and(|e| !e.is_connection_usable()) {
            self.channel.mark_broken();
        }
        result
    }

    pub(super) async fn rows(&mut self, format: RowFormat) -> Result<Rows<'_>, Error> {
        let mut rows = Rows::new(self, format);
        rows.begin().await?;
        Ok(rows)
    }
}

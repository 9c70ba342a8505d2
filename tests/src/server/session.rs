//! A session with a server that stays open, over the `mysql` program.
//!
//! The server's own client, and not this project's, so that what writes the data and what reads it
//! for comparison is independent of the code under test.

use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use super::install::Installation;
use super::unescape;

/// How to reach a server as root; cheap to clone, and good across restarts.
#[derive(Clone, Debug)]
pub struct Endpoint {
    pub(super) installation: Installation,
    pub(super) socket: PathBuf,
}

/// Why a session ended: the server's message, or the program's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionError(String);

impl SessionError {
    pub(crate) fn new(text: String) -> Self {
        Self(text)
    }
}

impl std::fmt::Display for SessionError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for SessionError {}

impl From<io::Error> for SessionError {
    fn from(error: io::Error) -> Self {
        Self(format!("the mysql program: {error}"))
    }
}

/// An open session. Statements run in order; the first error ends the session, and with it the
/// transaction it was in.
#[derive(Debug)]
pub struct Session {
    program: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    errors: tempfile::NamedTempFile,
    statements: u64,
}

impl Endpoint {
    /// A command for one of the server's programs (`mysql`, `mysqldump`, …), connected as root
    /// over the socket.
    pub fn client(&self, program: &str) -> Command {
        let mut command = self.installation.client(program);
        command.arg("--no-defaults").arg("--user=root");
        command.arg(format!("--socket={}", self.socket.display()));
        command
    }

    /// The `mysql` program, without table borders and names, unbuffered, in UTF-8.
    pub(crate) fn batch(&self) -> Command {
        let mut command = self.client("mysql");
        command.args(["--batch", "--skip-column-names", "--quick", "--unbuffered"]);
        command.args(["--default-character-set=utf8mb4", "--binary-as-hex=0"]);
        command.arg("--max-allowed-packet=1G");
        command
    }

    /// Opens a session.
    pub fn session(&self) -> Result<Session, SessionError> {
        let errors = tempfile::NamedTempFile::new()?;
        let mut program = self.batch().stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(errors.reopen()?).spawn()?;
        let input = program.stdin.take();
        let output = program.stdout.take().ok_or_else(|| io::Error::other("no output"))?;
        let output = BufReader::new(output);
        Ok(Session { program, input, output, errors, statements: 0 })
    }
}

impl Session {
    /// Runs statements (with semicolons between them) and returns the rows of all results. NULL is
    /// the text `NULL`.
    pub fn sql(&mut self, statements: &str) -> Result<Vec<Vec<String>>, SessionError> {
        self.statements += 1;
        let marker = format!("--millstream-{}--", self.statements);
        let sent = match &mut self.input {
            Some(input) => input
                .write_all(statements.as_bytes())
                .and_then(|()| writeln!(input, "\n;SELECT '{marker}';"))
                .and_then(|()| input.flush()),
            None => Err(io::Error::from(io::ErrorKind::BrokenPipe)),
        };
        if sent.is_err() {
            return Err(self.failure());
        }
        let mut rows = Vec::new();
        let mut line = String::new();
        loop {
            line.clear();
            if self.output.read_line(&mut line)? == 0 {
                return Err(self.failure());
            }
            let text = line.trim_end_matches('\n');
            if text == marker {
                return Ok(rows);
            }
            rows.push(text.split('\t').map(unescape).collect());
        }
    }

    /// What the program said when it gave up.
    fn failure(&mut self) -> SessionError {
        self.input = None;
        self.program.wait().ok();
        let text = fs::read_to_string(self.errors.path()).unwrap_or_default();
        match text.trim() {
            "" => SessionError("the session ended without a message".to_owned()),
            text => SessionError(text.to_owned()),
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.input = None;
        self.program.kill().ok();
        self.program.wait().ok();
    }
}

//! A session with a server that stays open, as root over the unix socket.
//!
//! Where the server's own `mysql` program is there it is used, and not this project's client, so that what writes the
//! data and what reads it for comparison is independent of the code under test. The other servers come without it.

mod program;
mod wire;

use std::io;
use std::path::PathBuf;
use std::process::Command;

use super::Flavor;
use super::install::Installation;

/// How to reach a server as root; cheap to clone, and good across restarts.
#[derive(Clone, Debug)]
pub struct Endpoint {
    pub(super) installation: Installation,
    pub(super) socket: PathBuf,
}

/// Why a session ended: the server's message, or the client's.
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
        Self(format!("the session: {error}"))
    }
}

/// An open session. Statements run in order; the first error ends the session, and with it the
/// transaction it was in.
#[derive(Debug)]
pub struct Session(Client);

#[derive(Debug)]
enum Client {
    Program(program::Session),
    Wire(Box<wire::Session>),
    Ended,
}

impl Endpoint {
    /// Which server it is.
    pub fn flavor(&self) -> Flavor {
        self.installation.flavor()
    }

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
        let client = if self.installation.flavor().has_client_programs() {
            Client::Program(program::Session::start(self.batch())?)
        } else {
            Client::Wire(Box::new(wire::Session::open(&self.socket)?))
        };
        Ok(Session(client))
    }
}

impl Session {
    /// Runs statements (with semicolons between them) and returns the rows of all results. NULL is
    /// the text `NULL`.
    pub fn sql(&mut self, statements: &str) -> Result<Vec<Vec<String>>, SessionError> {
        let result = match &mut self.0 {
            Client::Program(program) => program.sql(statements),
            Client::Wire(wire) => wire.sql(statements),
            Client::Ended => Err(SessionError::new("an error has ended the session".to_owned())),
        };
        if result.is_err() {
            self.0 = Client::Ended;
        }
        result
    }
}

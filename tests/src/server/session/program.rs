//! The `mysql` program as a session.

use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use super::SessionError;
use crate::server::unescape;

#[derive(Debug)]
pub(super) struct Session {
    program: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    errors: tempfile::NamedTempFile,
    statements: u64,
}

impl Session {
    pub(super) fn start(mut program: Command) -> Result<Self, SessionError> {
        let errors = tempfile::NamedTempFile::new()?;
        let mut program = program
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(errors.reopen()?)
            .spawn()
            .map_err(|error| SessionError::new(format!("the mysql program: {error}")))?;
        let input = program.stdin.take();
        let output = program.stdout.take().ok_or_else(|| io::Error::other("no output"))?;
        let output = BufReader::new(output);
        Ok(Self { program, input, output, errors, statements: 0 })
    }

    pub(super) fn sql(&mut self, statements: &str) -> Result<Vec<Vec<String>>, SessionError> {
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
            "" => SessionError::new("the session ended without a message".to_owned()),
            text => SessionError::new(text.to_owned()),
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

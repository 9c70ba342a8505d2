//! What the server's own `mysqlbinlog` lists: the reference for what the engine delivers.

use std::collections::HashMap;
use std::io::{self, BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Stdio};

use crate::server::Server;

/// A row change as `mysqlbinlog` lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The transaction's GTID; empty for an anonymous one.
    pub gtid: String,
    /// The database.
    pub database: String,
    /// The table.
    pub table: String,
    /// What happened.
    pub kind: ListedKind,
}

/// What happened to a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ListedKind {
    /// A new row.
    Insert,
    /// New values under the same key.
    Update,
    /// New values under another key.
    KeyChange,
    /// A row is gone.
    Delete,
}

/// The row changes in a server's binlog files, read as they are listed.
#[derive(Debug)]
pub struct Listing {
    program: Child,
    output: Option<BufReader<ChildStdout>>,
    keys: HashMap<String, Vec<usize>>,
    line: Vec<u8>,
    gtid: String,
    current: Option<Change>,
}

#[derive(Debug)]
struct Change {
    database: String,
    table: String,
    start: ListedKind,
    /// Key values before and after, in the text that the program prints.
    images: [Vec<String>; 2],
    side: usize,
}

impl Listing {
    /// Lists the files from `first` (such as `binlog.000002`) on. `keys` maps `database.table` to
    /// the indexes of the key's columns, from 0; a table without an entry has no key changes.
    pub fn of(server: &Server, first: &str, keys: HashMap<String, Vec<usize>>) -> io::Result<Self> {
        let mut command = server.mysqlbinlog();
        command.args(["--base64-output=decode-rows", "--verbose"]);
        command.args(binlog_files(server)?.into_iter().skip_while(|path| !path.ends_with(first)));
        let mut program = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let output = program.stdout.take().map(|pipe| BufReader::with_capacity(1 << 20, pipe));
        Ok(Self { program, output, keys, line: Vec::new(), gtid: String::new(), current: None })
    }

    /// Takes in one line; a change that is complete now.
    fn line(&mut self, line: &[u8]) -> Option<Listed> {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let Some(rest) = line.strip_prefix(b"###") else {
            let done = self.finish();
            let line = String::from_utf8_lossy(line);
            if let Some(gtid) = line.strip_prefix("SET @@SESSION.GTID_NEXT= '") {
                let gtid = gtid.split('\'').next().unwrap_or_default();
                self.gtid = if gtid.contains(':') { gtid.to_owned() } else { String::new() };
            }
            return done;
        };
        let rest = String::from_utf8_lossy(rest);
        if let Some(value) = rest.strip_prefix("   @") {
            let change = self.current.as_mut()?;
            let (number, value) = value.split_once('=')?;
            let index = number.parse::<usize>().ok()?.checked_sub(1)?;
            let keys = self.keys.get(&format!("{}.{}", change.database, change.table))?;
            if keys.contains(&index) {
                change.images[change.side].push(value.to_owned());
            }
            return None;
        }
        match rest.trim() {
            "WHERE" => self.current.as_mut()?.side = 0,
            "SET" => self.current.as_mut()?.side = 1,
            start => {
                let done = self.finish();
                self.current = parse_start(start);
                return done;
            }
        }
        None
    }

    fn finish(&mut self) -> Option<Listed> {
        let change = self.current.take()?;
        let kind = match change.start {
            ListedKind::Update if change.images[0] != change.images[1] => ListedKind::KeyChange,
            start => start,
        };
        Some(Listed { gtid: self.gtid.clone(), database: change.database, table: change.table, kind })
    }

    fn end(&mut self) -> io::Result<()> {
        let mut text = String::new();
        if let Some(mut stderr) = self.program.stderr.take() {
            stderr.read_to_string(&mut text)?;
        }
        match self.program.wait()?.success() {
            true => Ok(()),
            false => Err(io::Error::other(format!("mysqlbinlog: {}", text.trim()))),
        }
    }
}

impl Iterator for Listing {
    type Item = io::Result<Listed>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let output = self.output.as_mut()?;
            self.line.clear();
            match output.read_until(b'\n', &mut self.line) {
                Ok(0) => {
                    self.output = None;
                    return match self.end() {
                        Ok(()) => self.finish().map(Ok),
                        Err(error) => Some(Err(error)),
                    };
                }
                Ok(_) => {
                    let line = std::mem::take(&mut self.line);
                    let listed = self.line(&line);
                    self.line = line;
                    if let Some(listed) = listed {
                        return Some(Ok(listed));
                    }
                }
                Err(error) => {
                    self.output = None;
                    return Some(Err(error));
                }
            }
        }
    }
}

impl Drop for Listing {
    fn drop(&mut self) {
        self.program.kill().ok();
        self.program.wait().ok();
    }
}

/// The server's binlog files in order, the active one included.
pub fn binlog_files(server: &Server) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(server.data_dir())? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let number = name.strip_prefix("binlog.").unwrap_or_default();
        if !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()) {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// The head of a change, such as ``UPDATE `db`.`table` ``.
fn parse_start(text: &str) -> Option<Change> {
    let starts =
        [("INSERT INTO ", ListedKind::Insert), ("UPDATE ", ListedKind::Update), ("DELETE FROM ", ListedKind::Delete)];
    let (name, start) = starts.into_iter().find_map(|(prefix, kind)| Some((text.strip_prefix(prefix)?, kind)))?;
    let (database, table) = name.strip_prefix('`')?.strip_suffix('`')?.split_once("`.`")?;
    Some(Change {
        database: database.to_owned(),
        table: table.to_owned(),
        start,
        images: [Vec::new(), Vec::new()],
        side: 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server;

    #[test]
    fn changes_are_listed_with_their_gtid_and_kind() {
        let Some(server) = server::shared() else { return };
        let mut session = server.session().unwrap();
        session
            .sql("CREATE DATABASE lists; USE lists; CREATE TABLE t (a INT, b VARCHAR(99), c INT, PRIMARY KEY (b, a))")
            .unwrap();
        session.sql("FLUSH BINARY LOGS").unwrap();
        let first = session.sql("SHOW BINARY LOG STATUS").unwrap()[0][0].clone();
        session
            .sql(
                "BEGIN; INSERT INTO t VALUES (1,'x',1),(2,'y\\n### DELETE FROM `lists`.`t`',1); \
                  UPDATE t SET c=2 WHERE a=1; UPDATE t SET b='z' WHERE a=1; COMMIT",
            )
            .unwrap();
        session.sql("DELETE FROM t WHERE a=2").unwrap();
        let keys = HashMap::from([("lists.t".to_owned(), vec![0, 1])]);
        let listed: Vec<Listed> = Listing::of(server, &first, keys)
            .unwrap()
            .map(Result::unwrap)
            .filter(|change| change.database == "lists")
            .collect();
        let kinds: Vec<ListedKind> = listed.iter().map(|change| change.kind).collect();
        use ListedKind::{Delete, Insert, KeyChange, Update};
        assert_eq!(kinds, [Insert, Insert, Update, KeyChange, Delete]);
        assert!(listed[..4].iter().all(|change| change.gtid == listed[0].gtid && change.table == "t"));
        assert_ne!(listed[4].gtid, listed[0].gtid);
        for change in &listed {
            let known = format!("SELECT GTID_SUBSET('{}', @@gtid_executed)", change.gtid);
            assert_eq!(server.value(&known), "1", "{change:?}");
        }
    }
}

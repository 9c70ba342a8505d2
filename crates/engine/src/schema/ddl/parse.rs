//! Statements by their first words. `None` anywhere means that the statement cannot be classified.

use super::token::{Token, Tokens};
use super::{Classified, SkipRule, TableName, Xid};

struct Cursor<'a> {
    tokens: core::iter::Peekable<Tokens<'a>>,
}

impl<'a> Cursor<'a> {
    fn next(&mut self) -> Option<Token<'a>> {
        self.tokens.next()
    }

    fn peek(&mut self) -> Option<&Token<'a>> {
        self.tokens.peek()
    }

    /// Takes the next token if it is this word.
    fn take(&mut self, word: &str) -> bool {
        self.tokens.next_if(|t| t.is_word(word)).is_some()
    }

    /// Takes the next token if it is one of these words.
    fn take_any(&mut self, words: &[&str]) -> bool {
        self.tokens.next_if(|t| words.iter().any(|w| t.is_word(w))).is_some()
    }

    fn take_symbol(&mut self, symbol: u8) -> bool {
        self.tokens.next_if(|t| t.is_symbol(symbol)).is_some()
    }

    /// Takes these words one after the other, or fails.
    fn all(&mut self, words: &[&str]) -> Option<()> {
        words.iter().all(|w| self.take(w)).then_some(())
    }

    fn if_exists(&mut self) -> Option<()> {
        if self.take("IF") {
            self.take("NOT");
            return self.all(&["EXISTS"]);
        }
        Some(())
    }

    /// A name: bare, in backticks, or in double quotes where that is allowed.
    fn name(&mut self) -> Option<String> {
        let bytes = match self.next()? {
            Token::Word(word) => word.to_vec(),
            Token::Name(name) => name.into_owned(),
            Token::Text(_) | Token::Symbol(_) | Token::Bad => return None,
        };
        String::from_utf8(bytes).ok()
    }

    /// `table`, `db.table` or `.table`.
    fn table(&mut self) -> Option<TableName> {
        if self.take_symbol(b'.') {
            return Some(TableName { database: None, table: self.name()? });
        }
        let first = self.name()?;
        if self.take_symbol(b'.') {
            return Some(TableName { database: Some(first), table: self.name()? });
        }
        Some(TableName { database: None, table: first })
    }

    /// `a, b, c`
    fn tables(&mut self) -> Option<Vec<TableName>> {
        let mut tables = vec![self.table()?];
        while self.take_symbol(b',') {
            tables.push(self.table()?);
        }
        Some(tables)
    }

    /// The end of the statement, a semicolon allowed.
    fn end(&mut self) -> Option<()> {
        while self.take_symbol(b';') {}
        self.peek().is_none().then_some(())
    }
}

pub(super) fn statement(tokens: Tokens<'_>) -> Option<Classified> {
    let mut c = Cursor { tokens: tokens.peekable() };
    let Token::Word(head) = c.next()? else { return None };
    let head = core::str::from_utf8(head).ok()?.to_ascii_uppercase();
    match head.as_str() {
        "BEGIN" => {
            c.take("WORK");
            c.end()?;
            Some(Classified::Begin)
        }
        "START" => {
            c.all(&["TRANSACTION"])?;
            Some(Classified::Begin)
        }
        "COMMIT" => Some(Classified::Commit),
        "ROLLBACK" => {
            c.take("WORK");
            Some(if c.take("TO") { Classified::Savepoint } else { Classified::Rollback })
        }
        "SAVEPOINT" => Some(Classified::Savepoint),
        "RELEASE" => c.all(&["SAVEPOINT"]).map(|()| Classified::Savepoint),
        "XA" => xa(&mut c),
        "GRANT" | "REVOKE" => Some(Classified::Skip(SkipRule::Account)),
        "SET" => {
            let account = c.take("PASSWORD") || c.take("ROLE") || (c.take("DEFAULT") && c.take("ROLE"));
            account.then_some(Classified::Skip(SkipRule::Account))
        }
        "FLUSH" | "ANALYZE" | "OPTIMIZE" | "REPAIR" | "CHECK" | "CHECKSUM" | "INSTALL" | "UNINSTALL" | "RESET"
        | "PURGE" | "KILL" | "LOCK" | "UNLOCK" => Some(Classified::Skip(SkipRule::Administration)),
        "CREATE" => create(&mut c),
        "ALTER" => alter(&mut c),
        "DROP" => drop_statement(&mut c),
        "RENAME" => rename(&mut c),
        "TRUNCATE" => {
            c.take("TABLE");
            let table = c.table()?;
            c.end()?;
            Some(Classified::Ddl { verb: "TRUNCATE TABLE", tables: vec![table] })
        }
        "INSERT" => dml(c, "INSERT"),
        "UPDATE" => dml(c, "UPDATE"),
        "DELETE" => dml(c, "DELETE"),
        "REPLACE" => dml(c, "REPLACE"),
        "LOAD" => dml(c, "LOAD"),
        "WITH" => dml(c, "WITH"),
        "SELECT" => dml(c, "SELECT"),
        "CALL" => dml(c, "CALL"),
        "DO" => dml(c, "DO"),
        _ => None,
    }
}

/// `XA {START|BEGIN|END|COMMIT|ROLLBACK|PREPARE} gtrid[, bqual[, format]]`
fn xa(c: &mut Cursor<'_>) -> Option<Classified> {
    let Token::Word(verb) = c.next()? else { return None };
    let verb = core::str::from_utf8(verb).ok()?.to_ascii_uppercase();
    let Token::Text(gtrid) = c.next()? else { return None };
    let mut xid = Xid { format_id: 1, gtrid: gtrid.into_owned(), bqual: Vec::new() };
    if c.take_symbol(b',') {
        let Token::Text(bqual) = c.next()? else { return None };
        xid.bqual = bqual.into_owned();
        if c.take_symbol(b',') {
            let Token::Word(number) = c.next()? else { return None };
            xid.format_id = core::str::from_utf8(number).ok()?.parse().ok()?;
        }
    }
    let classified = match verb.as_str() {
        "START" | "BEGIN" => {
            c.take_any(&["JOIN", "RESUME"]);
            Classified::XaStart(xid)
        }
        "END" => {
            if c.take("SUSPEND") && c.take("FOR") {
                c.all(&["MIGRATE"])?;
            }
            Classified::XaEnd(xid)
        }
        "COMMIT" => {
            let one_phase = c.take("ONE");
            if one_phase {
                c.all(&["PHASE"])?;
            }
            Classified::XaCommit { xid, one_phase }
        }
        "ROLLBACK" => Classified::XaRollback(xid),
        _ => return None,
    };
    c.end()?;
    Some(classified)
}

/// What a kind of object other than a table or database is skipped as.
fn other_object(word: &Token<'_>) -> Option<SkipRule> {
    const KINDS: [(&str, SkipRule); 17] = [
        ("USER", SkipRule::Account),
        ("ROLE", SkipRule::Account),
        ("VIEW", SkipRule::View),
        ("PROCEDURE", SkipRule::Routine),
        ("FUNCTION", SkipRule::Routine),
        ("TRIGGER", SkipRule::Routine),
        ("EVENT", SkipRule::Routine),
        ("LIBRARY", SkipRule::Routine),
        ("PACKAGE", SkipRule::Routine),
        ("SERVER", SkipRule::OtherObject),
        ("TABLESPACE", SkipRule::OtherObject),
        ("UNDO", SkipRule::OtherObject),
        ("LOGFILE", SkipRule::OtherObject),
        ("RESOURCE", SkipRule::OtherObject),
        ("SPATIAL", SkipRule::OtherObject),
        ("SEQUENCE", SkipRule::OtherObject),
        ("INSTANCE", SkipRule::Administration),
    ];
    KINDS.iter().find(|(name, _)| word.is_word(name)).map(|(_, rule)| *rule)
}

/// Skips `DEFINER = user`, `ALGORITHM = word` and `SQL SECURITY word` before the kind of object.
fn skip_attributes(c: &mut Cursor<'_>) -> Option<()> {
    loop {
        if c.take("DEFINER") {
            c.take_symbol(b'=');
            // 'user'@'host', user, or CURRENT_USER()
            c.next()?;
            if c.take_symbol(b'@') {
                c.next()?;
            } else if c.take_symbol(b'(') && !c.take_symbol(b')') {
                return None;
            }
        } else if c.take("ALGORITHM") {
            c.take_symbol(b'=');
            c.next()?;
        } else if c.take("SQL") {
            c.all(&["SECURITY"])?;
            c.next()?;
        } else {
            return Some(());
        }
    }
}

fn create(c: &mut Cursor<'_>) -> Option<Classified> {
    let replace = if c.take("OR") {
        c.all(&["REPLACE"])?;
        true
    } else {
        false
    };
    skip_attributes(c)?;
    if c.take("TEMPORARY") {
        c.all(&["TABLE"])?;
        return Some(Classified::Skip(SkipRule::TemporaryTable));
    }
    if c.take_any(&["TABLE", "TABLES"]) {
        c.if_exists()?;
        let table = c.table()?;
        return Some(if replace {
            Classified::Ddl { verb: "CREATE OR REPLACE TABLE", tables: vec![table] }
        } else {
            Classified::Create(table)
        });
    }
    if c.take_any(&["DATABASE", "SCHEMA"]) {
        // MariaDB's OR REPLACE drops what was there.
        return if replace { database_name(c) } else { Some(Classified::Skip(SkipRule::Database)) };
    }
    c.take("AGGREGATE");
    if c.take_any(&["UNIQUE", "FULLTEXT"]) {
        c.all(&["INDEX"])?;
        return Some(Classified::Skip(SkipRule::IndexOnly));
    }
    if c.take("SPATIAL") {
        let index = c.take("INDEX");
        return Some(Classified::Skip(if index { SkipRule::IndexOnly } else { SkipRule::OtherObject }));
    }
    if c.take("INDEX") {
        return Some(Classified::Skip(SkipRule::IndexOnly));
    }
    other_object(c.peek()?).map(Classified::Skip)
}

fn database_name(c: &mut Cursor<'_>) -> Option<Classified> {
    c.if_exists()?;
    c.name().map(Classified::DropDatabase)
}

fn drop_statement(c: &mut Cursor<'_>) -> Option<Classified> {
    if c.take("TEMPORARY") {
        c.take_any(&["TABLE", "TABLES"]).then_some(())?;
        return Some(Classified::Skip(SkipRule::TemporaryTable));
    }
    if c.take_any(&["TABLE", "TABLES"]) {
        c.if_exists()?;
        let tables = c.tables()?;
        c.take_any(&["RESTRICT", "CASCADE"]);
        if c.take("WAIT") {
            c.next()?;
        }
        c.take("NOWAIT");
        c.end()?;
        return Some(Classified::Ddl { verb: "DROP TABLE", tables });
    }
    if c.take_any(&["DATABASE", "SCHEMA"]) {
        let dropped = database_name(c)?;
        c.end()?;
        return Some(dropped);
    }
    if c.take("INDEX") {
        c.if_exists()?;
        let index = c.name()?;
        c.all(&["ON"])?;
        let table = c.table()?;
        return Some(if index.eq_ignore_ascii_case("PRIMARY") {
            Classified::Ddl { verb: "DROP INDEX `PRIMARY`", tables: vec![table] }
        } else {
            Classified::Skip(SkipRule::IndexOnly)
        });
    }
    other_object(c.peek()?).map(Classified::Skip)
}

fn rename(c: &mut Cursor<'_>) -> Option<Classified> {
    if c.take("USER") {
        return Some(Classified::Skip(SkipRule::Account));
    }
    c.take_any(&["TABLE", "TABLES"]).then_some(())?;
    c.if_exists()?;
    let mut tables = Vec::new();
    loop {
        tables.push(c.table()?);
        c.all(&["TO"])?;
        tables.push(c.table()?);
        if !c.take_symbol(b',') {
            c.end()?;
            return Some(Classified::Ddl { verb: "RENAME TABLE", tables });
        }
    }
}

fn alter(c: &mut Cursor<'_>) -> Option<Classified> {
    skip_attributes(c)?;
    c.take("ONLINE");
    c.take("IGNORE");
    if c.take_any(&["DATABASE", "SCHEMA"]) {
        return Some(Classified::Skip(SkipRule::Database));
    }
    if !c.take("TABLE") {
        return other_object(c.peek()?).map(Classified::Skip);
    }
    c.if_exists()?;
    let mut tables = vec![c.table()?];
    let mut index_only = true;
    let mut any = false;
    while let Some(token) = c.peek() {
        if token.is_symbol(b';') {
            c.end()?;
            break;
        }
        any = true;
        index_only &= specification(c, &mut tables)?;
    }
    Some(if any && index_only {
        Classified::Skip(SkipRule::IndexOnly)
    } else {
        Classified::Ddl { verb: "ALTER TABLE", tables }
    })
}

/// One clause of ALTER TABLE up to the comma behind it: whether it leaves columns, key and rows as they are. Tables that
/// it names are added.
fn specification(c: &mut Cursor<'_>, tables: &mut Vec<TableName>) -> Option<bool> {
    let harmless = if c.take("ADD") {
        add(c)
    } else if c.take("DROP") {
        if c.take("FOREIGN") {
            c.take("KEY")
        } else if c.take_any(&["INDEX", "KEY", "CONSTRAINT"]) {
            c.if_exists()?;
            !c.name()?.eq_ignore_ascii_case("PRIMARY")
        } else {
            c.take("CHECK")
        }
    } else if c.take("ALTER") {
        c.take_any(&["INDEX", "CHECK", "CONSTRAINT"])
    } else if c.take("RENAME") {
        if c.take_any(&["INDEX", "KEY"]) {
            true
        } else {
            if !c.take("COLUMN") {
                if !c.take_any(&["TO", "AS"]) {
                    c.take_symbol(b'=');
                }
                tables.push(c.table()?);
            }
            false
        }
    } else if c.take("EXCHANGE") {
        c.all(&["PARTITION"])?;
        c.name()?;
        c.all(&["WITH", "TABLE"])?;
        tables.push(c.table()?);
        false
    } else if c.take_any(&["ENABLE", "DISABLE"]) {
        c.take("KEYS")
    } else {
        c.take_any(&["ALGORITHM", "LOCK", "COMMENT", "AUTO_INCREMENT", "WITHOUT", "NOWAIT"])
    };
    skip_clause(c)?;
    Some(harmless)
}

/// What stands behind ADD: an index, a foreign key or a check leaves the rows alone.
fn add(c: &mut Cursor<'_>) -> bool {
    if c.take("CONSTRAINT") {
        // The name may be missing.
        let is_kind = |t: &Token<'_>| ["UNIQUE", "FOREIGN", "CHECK", "PRIMARY"].iter().any(|k| t.is_word(k));
        if !c.peek().is_some_and(is_kind) {
            c.next();
        }
        return c.take_any(&["UNIQUE", "FOREIGN", "CHECK"]);
    }
    c.take_any(&["INDEX", "KEY", "UNIQUE", "FULLTEXT", "SPATIAL", "FOREIGN", "CHECK"])
}

/// Passes over the rest of a clause and the comma behind it.
fn skip_clause(c: &mut Cursor<'_>) -> Option<()> {
    let mut depth = 0_usize;
    while let Some(token) = c.peek() {
        match token {
            Token::Bad => return None,
            Token::Symbol(b';') if depth == 0 => return Some(()),
            Token::Symbol(b'(') => depth = depth.saturating_add(1),
            Token::Symbol(b')') => depth = depth.checked_sub(1)?,
            Token::Symbol(b',') if depth == 0 => {
                c.next();
                return c.peek().is_some().then_some(());
            }
            _ => {}
        }
        c.next();
    }
    (depth == 0).then_some(())
}

/// Every name before a point may be a database.
fn dml(mut c: Cursor<'_>, verb: &'static str) -> Option<Classified> {
    let mut databases: Vec<String> = Vec::new();
    let mut before: Option<String> = None;
    while let Some(token) = c.next() {
        before = match token {
            Token::Bad => return None,
            Token::Symbol(b'.') => {
                if let Some(name) = before.take()
                    && !databases.contains(&name)
                {
                    databases.push(name);
                }
                None
            }
            Token::Word(word) => Some(String::from_utf8(word.to_vec()).ok()?),
            Token::Name(name) => Some(String::from_utf8(name.into_owned()).ok()?),
            Token::Symbol(_) | Token::Text(_) => None,
        };
    }
    Some(Classified::Dml { verb, databases })
}

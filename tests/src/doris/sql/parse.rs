//! Statements the SQL port knows. What it does not know is an error that names it.

use super::ddl;
use super::lex::{Token, tokens};
use crate::doris::table::Schema;

/// A statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Statement {
    CreateDatabase { name: String, if_not_exists: bool },
    DropDatabase { name: String, if_exists: bool },
    CreateTable { table: Name, schema: Box<Schema>, if_not_exists: bool },
    DropTable { table: Name, if_exists: bool },
    Truncate(Name),
    Use(String),
    Set(Vec<(String, String)>),
    Select(Select),
    ShowDatabases { like: Option<String> },
    ShowTables { db: Option<String>, like: Option<String>, full: bool },
    ShowColumns { table: Name, full: bool },
    ShowCreateTable(Name),
    ShowTransaction { db: Option<String>, which: Which },
    ShowAlterTable { db: Option<String> },
    ShowBackends,
    ShowFrontends,
    ShowFrontendConfig { like: Option<String> },
    ShowVariables { like: Option<String> },
}

/// A table's name; without a database it is of the session's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Name {
    pub(crate) db: Option<String>,
    pub(crate) table: String,
}

/// Which transactions SHOW TRANSACTION shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Which {
    Id(i64),
    Label(String),
    LabelLike(String),
    Status(String),
}

/// A SELECT over one table, or over none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Select {
    /// Item and the name its column gets.
    pub(crate) items: Vec<(Item, String)>,
    pub(crate) from: Option<Name>,
    pub(crate) filter: Vec<Condition>,
    /// Column and whether it descends.
    pub(crate) order: Vec<(String, bool)>,
    pub(crate) limit: Option<u64>,
}

/// What a select list holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Item {
    Star,
    Column(String),
    CountStar,
    Count(String),
    Min(String),
    Max(String),
    Literal(Option<String>),
    Variable(String),
    Version,
    Database,
    User,
}

impl Item {
    pub(crate) fn is_aggregate(&self) -> bool {
        matches!(self, Self::CountStar | Self::Count(_) | Self::Min(_) | Self::Max(_))
    }
}

/// One condition of a WHERE; all must hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Condition {
    pub(crate) column: String,
    pub(crate) test: Test,
}

/// What a column is compared with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Test {
    Compare(&'static str, Option<String>),
    Between(String, String),
    In(Vec<String>),
    Like(String),
    IsNull(bool),
}

/// Parses one statement; a `;` may end it.
pub(crate) fn parse(sql: &str) -> Result<Statement, String> {
    let shown = || {
        let text: String = sql.trim().chars().take(200).collect();
        text
    };
    let tokens = tokens(sql).map_err(|e| format!("{e} in: {}", shown()))?;
    parse_tokens(Parser { tokens, at: 0 }, &shown())
}

/// The same for tokens; `shown` stands for the statement in errors.
pub(crate) fn parse_tokens(mut p: Parser, shown: &str) -> Result<Statement, String> {
    let statement = p.statement().map_err(|e| format!("{e}, in: {shown}"))?;
    while p.symbol(";") {}
    if p.at < p.tokens.len() {
        return Err(format!("the simulator does not know what follows {} in: {shown}", p.before()));
    }
    Ok(statement)
}

/// A cursor over tokens.
pub(crate) struct Parser {
    pub(crate) tokens: Vec<Token>,
    pub(crate) at: usize,
}

impl Parser {
    fn before(&self) -> String {
        self.at.checked_sub(1).and_then(|i| self.tokens.get(i)).map_or_else(|| "the start".into(), |t| format!("{t:?}"))
    }

    pub(crate) fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at)
    }

    pub(crate) fn fail<T>(&self, wanted: &str) -> Result<T, String> {
        match self.peek() {
            Some(t) => Err(format!("Syntax error: {wanted} expected at {t:?}")),
            None => Err(format!("Syntax error: {wanted} expected at the end")),
        }
    }

    /// Takes the keyword if it is next.
    pub(crate) fn word(&mut self, keyword: &str) -> bool {
        let hit = matches!(self.peek(), Some(Token::Word(w)) if w.eq_ignore_ascii_case(keyword));
        self.at += usize::from(hit);
        hit
    }

    /// Takes all of the keywords, or none.
    pub(crate) fn words(&mut self, keywords: &str) -> bool {
        let start = self.at;
        for keyword in keywords.split(' ') {
            if !self.word(keyword) {
                self.at = start;
                return false;
            }
        }
        true
    }

    pub(crate) fn expect_word(&mut self, keyword: &str) -> Result<(), String> {
        if self.word(keyword) { Ok(()) } else { self.fail(keyword) }
    }

    pub(crate) fn symbol(&mut self, symbol: &str) -> bool {
        let hit = matches!(self.peek(), Some(Token::Symbol(s)) if *s == symbol);
        self.at += usize::from(hit);
        hit
    }

    pub(crate) fn expect_symbol(&mut self, symbol: &str) -> Result<(), String> {
        if self.symbol(symbol) { Ok(()) } else { self.fail(symbol) }
    }

    /// A name, quoted or not.
    pub(crate) fn name(&mut self) -> Result<String, String> {
        match self.peek() {
            Some(Token::Word(n) | Token::Quoted(n)) => {
                let n = n.clone();
                self.at += 1;
                Ok(n)
            }
            _ => self.fail("a name"),
        }
    }

    pub(crate) fn text(&mut self) -> Result<String, String> {
        match self.peek() {
            Some(Token::Text(t)) => {
                let t = t.clone();
                self.at += 1;
                Ok(t)
            }
            _ => self.fail("a string"),
        }
    }

    pub(crate) fn number(&mut self) -> Result<String, String> {
        match self.peek() {
            Some(Token::Number(n)) => {
                let n = n.clone();
                self.at += 1;
                Ok(n)
            }
            _ => self.fail("a number"),
        }
    }

    pub(crate) fn uint<T: std::str::FromStr>(&mut self) -> Result<T, String> {
        let n = self.number()?;
        n.parse().map_err(|_| format!("Syntax error: {n} is out of range"))
    }

    fn table_name(&mut self) -> Result<Name, String> {
        let first = self.name()?;
        if self.symbol(".") {
            Ok(Name { db: Some(first), table: self.name()? })
        } else {
            Ok(Name { db: None, table: first })
        }
    }

    /// A literal as text; None is NULL.
    pub(crate) fn literal(&mut self) -> Result<Option<String>, String> {
        match self.peek() {
            Some(Token::Text(_)) => return self.text().map(Some),
            Some(Token::Number(_)) => return self.number().map(Some),
            _ => {}
        }
        if self.symbol("-") {
            return Ok(Some(format!("-{}", self.number()?)));
        }
        for (word, value) in [("NULL", None), ("TRUE", Some("1")), ("FALSE", Some("0"))] {
            if self.word(word) {
                return Ok(value.map(str::to_owned));
            }
        }
        self.fail("a literal")
    }

    fn like_clause(&mut self) -> Result<Option<String>, String> {
        if self.word("LIKE") { self.text().map(Some) } else { Ok(None) }
    }

    fn optional_db(&mut self) -> Result<Option<String>, String> {
        if self.word("FROM") || self.word("IN") { self.name().map(Some) } else { Ok(None) }
    }

    fn statement(&mut self) -> Result<Statement, String> {
        if self.words("CREATE DATABASE") || self.words("CREATE SCHEMA") {
            let if_not_exists = self.words("IF NOT EXISTS");
            return Ok(Statement::CreateDatabase { name: self.name()?, if_not_exists });
        }
        if self.words("DROP DATABASE") || self.words("DROP SCHEMA") {
            let if_exists = self.words("IF EXISTS");
            let name = self.name()?;
            self.word("FORCE");
            return Ok(Statement::DropDatabase { name, if_exists });
        }
        if self.words("CREATE TABLE") {
            let if_not_exists = self.words("IF NOT EXISTS");
            let table = self.table_name()?;
            let schema = Box::new(ddl::table_body(self, &table.table)?);
            return Ok(Statement::CreateTable { table, schema, if_not_exists });
        }
        if self.words("DROP TABLE") {
            let if_exists = self.words("IF EXISTS");
            let table = self.table_name()?;
            self.word("FORCE");
            return Ok(Statement::DropTable { table, if_exists });
        }
        if self.words("TRUNCATE TABLE") {
            return self.table_name().map(Statement::Truncate);
        }
        if self.word("USE") {
            return self.name().map(Statement::Use);
        }
        if self.word("SET") {
            return self.set();
        }
        if self.word("SELECT") {
            return self.select().map(Statement::Select);
        }
        if self.word("DESC") || self.word("DESCRIBE") {
            return Ok(Statement::ShowColumns { table: self.table_name()?, full: false });
        }
        if self.words("ADMIN SHOW FRONTEND CONFIG") {
            return Ok(Statement::ShowFrontendConfig { like: self.like_clause()? });
        }
        if self.word("SHOW") {
            return self.show();
        }
        self.fail("a statement the simulator knows")
    }

    fn show(&mut self) -> Result<Statement, String> {
        if self.word("DATABASES") {
            return Ok(Statement::ShowDatabases { like: self.like_clause()? });
        }
        if self.words("CREATE TABLE") {
            return self.table_name().map(Statement::ShowCreateTable);
        }
        if self.word("TRANSACTION") {
            let db = self.optional_db()?;
            self.expect_word("WHERE")?;
            let which = if self.word("ID") {
                self.expect_symbol("=")?;
                Which::Id(self.uint()?)
            } else if self.word("STATUS") {
                self.expect_symbol("=")?;
                Which::Status(self.text()?)
            } else if self.word("LABEL") {
                if self.word("LIKE") {
                    Which::LabelLike(self.text()?)
                } else {
                    self.expect_symbol("=")?;
                    Which::Label(self.text()?)
                }
            } else {
                return self.fail("ID, LABEL or STATUS");
            };
            return Ok(Statement::ShowTransaction { db, which });
        }
        if self.words("ALTER TABLE COLUMN") {
            let db = self.optional_db()?;
            // There is never a job to show: the rest only has to be well formed.
            if self.word("WHERE") {
                self.name()?;
                self.expect_symbol("=")?;
                self.text()?;
            }
            if self.words("ORDER BY") {
                self.name()?;
                let _ = self.word("DESC") || self.word("ASC");
            }
            if self.word("LIMIT") {
                self.uint::<u64>()?;
            }
            return Ok(Statement::ShowAlterTable { db });
        }
        if self.word("BACKENDS") {
            return Ok(Statement::ShowBackends);
        }
        if self.word("FRONTENDS") {
            return Ok(Statement::ShowFrontends);
        }
        if self.word("VARIABLES") || self.words("SESSION VARIABLES") || self.words("GLOBAL VARIABLES") {
            return Ok(Statement::ShowVariables { like: self.like_clause()? });
        }
        let full = self.word("FULL");
        if self.word("TABLES") {
            let db = self.optional_db()?;
            return Ok(Statement::ShowTables { db, like: self.like_clause()?, full });
        }
        if self.word("COLUMNS") {
            if !self.word("FROM") {
                self.expect_word("IN")?;
            }
            let mut table = self.table_name()?;
            if let Some(db) = self.optional_db()? {
                table.db = Some(db);
            }
            return Ok(Statement::ShowColumns { table, full });
        }
        self.fail("a SHOW the simulator knows")
    }

    fn set(&mut self) -> Result<Statement, String> {
        let mut pairs = Vec::new();
        if self.word("NAMES") {
            let _ = if matches!(self.peek(), Some(Token::Text(_))) { self.text()? } else { self.name()? };
            return Ok(Statement::Set(pairs));
        }
        loop {
            let _ = self.word("SESSION") || self.word("GLOBAL") || self.word("LOCAL");
            let name = match self.peek() {
                Some(Token::Variable(v)) => {
                    let v = v.clone();
                    self.at += 1;
                    v
                }
                _ => self.name()?.to_ascii_lowercase(),
            };
            self.expect_symbol("=")?;
            let value = match self.peek() {
                Some(Token::Word(w)) if !w.eq_ignore_ascii_case("null") => {
                    let w = w.clone();
                    self.at += 1;
                    w
                }
                _ => self.literal()?.unwrap_or_default(),
            };
            pairs.push((name, value));
            if !self.symbol(",") {
                return Ok(Statement::Set(pairs));
            }
        }
    }

    fn select(&mut self) -> Result<Select, String> {
        let mut items = Vec::new();
        loop {
            let start = self.at;
            let item = self.item()?;
            let mut name: String = self.tokens[start..self.at]
                .iter()
                .map(|t| match t {
                    Token::Word(w) | Token::Quoted(w) | Token::Number(w) => w.clone(),
                    Token::Text(t) => format!("'{t}'"),
                    Token::Variable(v) => format!("@@{v}"),
                    Token::Symbol(s) => (*s).to_owned(),
                })
                .collect();
            if let Item::Column(c) = &item {
                name.clone_from(c);
            }
            if self.word("AS") {
                name = self.name()?;
            }
            items.push((item, name));
            if !self.symbol(",") {
                break;
            }
        }
        let from = if self.word("FROM") { Some(self.table_name()?) } else { None };
        let mut filter = Vec::new();
        if self.word("WHERE") {
            loop {
                self.condition(&mut filter)?;
                if !self.word("AND") {
                    break;
                }
            }
        }
        let mut order = Vec::new();
        if self.words("ORDER BY") {
            loop {
                let column = self.name()?;
                let descending = self.word("DESC");
                if !descending {
                    self.word("ASC");
                }
                order.push((column, descending));
                if !self.symbol(",") {
                    break;
                }
            }
        }
        let limit = if self.word("LIMIT") { Some(self.uint()?) } else { None };
        Ok(Select { items, from, filter, order, limit })
    }

    fn item(&mut self) -> Result<Item, String> {
        if self.symbol("*") {
            return Ok(Item::Star);
        }
        if let Some(Token::Variable(v)) = self.peek() {
            let v = v.clone();
            self.at += 1;
            return Ok(Item::Variable(v));
        }
        if let (Some(Token::Word(f)), Some(Token::Symbol("("))) = (self.peek(), self.tokens.get(self.at + 1)) {
            let f = f.to_ascii_lowercase();
            self.at += 2;
            let item = match f.as_str() {
                "count" if self.symbol("*") => Item::CountStar,
                "count" if matches!(self.peek(), Some(Token::Number(_))) => {
                    self.at += 1;
                    Item::CountStar
                }
                "count" => Item::Count(self.name()?),
                "min" => Item::Min(self.name()?),
                "max" => Item::Max(self.name()?),
                "version" => Item::Version,
                "database" | "schema" => Item::Database,
                "user" | "current_user" => Item::User,
                _ => return Err(format!("the simulator does not know the function {f}()")),
            };
            self.expect_symbol(")")?;
            return Ok(item);
        }
        match self.peek() {
            Some(Token::Quoted(_)) => self.name().map(Item::Column),
            Some(Token::Word(w)) if !["null", "true", "false"].contains(&w.to_ascii_lowercase().as_str()) => {
                self.name().map(Item::Column)
            }
            _ => self.literal().map(Item::Literal),
        }
    }

    fn condition(&mut self, out: &mut Vec<Condition>) -> Result<(), String> {
        if self.symbol("(") {
            loop {
                self.condition(out)?;
                if !self.word("AND") {
                    break;
                }
            }
            return self.expect_symbol(")");
        }
        // Names as `t.c` are not needed over one table.
        let column = self.name()?;
        let test = if self.words("IS NOT NULL") {
            Test::IsNull(false)
        } else if self.words("IS NULL") {
            Test::IsNull(true)
        } else if self.word("BETWEEN") {
            let low = self.literal()?.ok_or("NULL in BETWEEN")?;
            self.expect_word("AND")?;
            Test::Between(low, self.literal()?.ok_or("NULL in BETWEEN")?)
        } else if self.word("LIKE") {
            Test::Like(self.text()?)
        } else if self.word("IN") {
            self.expect_symbol("(")?;
            let mut values = Vec::new();
            loop {
                values.push(self.literal()?.ok_or("NULL in IN")?);
                if !self.symbol(",") {
                    break;
                }
            }
            self.expect_symbol(")")?;
            Test::In(values)
        } else {
            let Some(op) = ["<=", ">=", "<>", "!=", "=", "<", ">"].into_iter().find(|op| self.symbol(op)) else {
                return self.fail("a comparison");
            };
            Test::Compare(op, self.literal()?)
        };
        out.push(Condition { column, test });
        Ok(())
    }
}

//! The front end's SQL port (doris.md 8.1, E13): the statements and commands the notes list, nothing else.

mod ddl;
mod exec;
mod lex;
mod parse;
mod proto;
mod schemata;
mod select;
mod show;

use super::Shared;
use lex::Token;
use millstream_wire::codec::{ParseError, Reader};
use proto::{ColumnDef, Wire};
use select::Scan;
use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use tokio::net::TcpStream;

/// An error reply.
#[derive(Debug)]
pub(crate) struct Fail {
    code: u16,
    state: &'static str,
    text: String,
}

fn fail(code: u16, state: &'static str, text: impl Into<String>) -> Fail {
    Fail { code, state, text: text.into() }
}

/// What belongs to one connection.
#[derive(Debug, Default)]
pub(crate) struct Session {
    db: Option<String>,
    show_hidden: bool,
    variables: HashMap<String, String>,
}

/// A statement's answer.
enum Outcome {
    Ok(u64),
    Rows(Vec<ColumnDef>, Vec<Vec<Option<Vec<u8>>>>),
    Scan(Vec<ColumnDef>, Scan),
}

static NEXT_THREAD: AtomicU32 = AtomicU32::new(1);

/// Serves one connection.
pub(crate) async fn serve(stream: TcpStream, shared: Arc<Shared>) {
    // A client that is gone is nobody's problem here.
    drop(session(stream, &shared).await);
}

async fn session(stream: TcpStream, shared: &Arc<Shared>) -> io::Result<()> {
    let mut wire = Wire::new(stream);
    let thread = NEXT_THREAD.fetch_add(1, Ordering::Relaxed);
    let Some(login) = wire.login(thread).await? else { return Ok(()) };
    if login.user != shared.opts.user || !login.proves(&shared.opts.password) {
        let text = format!("Access denied for user '{}@{}' (using password: YES)", login.user, wire.peer());
        return wire.err(1045, "28000", &text).await;
    }
    let mut session = Session::default();
    if let Some(db) = login.db
        && let Err(e) = exec::use_db(shared, &mut session, &db)
    {
        return wire.err(e.code, e.state, &e.text).await;
    }
    wire.ok(0).await?;
    let mut prepared: HashMap<u32, Vec<Token>> = HashMap::new();
    let mut next_statement = 1;
    while let Some(message) = wire.command().await? {
        let (command, body) = message.split_first().ok_or(io::ErrorKind::InvalidData)?;
        let text = String::from_utf8_lossy(body);
        match command {
            1 => return Ok(()),
            2 => match exec::use_db(shared, &mut session, &text) {
                Ok(()) => wire.ok(0).await?,
                Err(e) => wire.err(e.code, e.state, &e.text).await?,
            },
            3 => match exec::run(shared, &mut session, &text) {
                Ok(outcome) => answer(&mut wire, outcome, false).await?,
                Err(e) => wire.err(e.code, e.state, &e.text).await?,
            },
            4 => {
                let table = text.split('\0').next().unwrap_or("").to_owned();
                match exec::field_list(shared, &session, &table) {
                    Ok(columns) => {
                        wire.definitions(&columns);
                        wire.end_fields().await?;
                    }
                    Err(e) => wire.err(e.code, e.state, &e.text).await?,
                }
            }
            14 => wire.ok(0).await?,
            22 => match lex::tokens(&text) {
                Ok(tokens) => {
                    let params = tokens.iter().filter(|t| **t == Token::Symbol("?")).count();
                    let params = u16::try_from(params).map_err(io::Error::other)?;
                    prepared.insert(next_statement, tokens);
                    wire.prepared(next_statement, params).await?;
                    next_statement += 1;
                }
                Err(e) => wire.err(1064, "42000", &e).await?,
            },
            23 => match execute(shared, &mut session, &prepared, body) {
                Ok(outcome) => answer(&mut wire, outcome, true).await?,
                Err(e) => wire.err(e.code, e.state, &e.text).await?,
            },
            25 => {
                // COM_STMT_CLOSE has no answer.
                if let Ok(id) = Reader::new(body).u32_le("statement_id") {
                    prepared.remove(&id);
                }
            }
            other => wire.err(1047, "08S01", &format!("Unsupported command({other})")).await?,
        }
    }
    Ok(())
}

fn execute(
    shared: &Shared,
    session: &mut Session,
    prepared: &HashMap<u32, Vec<Token>>,
    body: &[u8],
) -> Result<Outcome, Fail> {
    let broken = |e: ParseError| fail(1210, "HY000", format!("Incorrect arguments to EXECUTE: {e}"));
    let mut r = Reader::new(body);
    let id = r.u32_le("statement_id").map_err(broken)?;
    let tokens = prepared.get(&id).ok_or_else(|| fail(1243, "HY000", format!("Unknown prepared statement {id}")))?;
    r.bytes(5, "flags and iterations").map_err(broken)?;
    let count = tokens.iter().filter(|t| **t == Token::Symbol("?")).count();
    let mut values = parameters(&mut r, count).map_err(broken)?.into_iter();
    let bound: Vec<Token> = tokens
        .iter()
        .map(|t| match t {
            Token::Symbol("?") => match values.next().flatten() {
                None => Token::Word("NULL".into()),
                Some(v) => Token::Text(v),
            },
            t => t.clone(),
        })
        .collect();
    exec::run_tokens(shared, session, bound, "a prepared statement")
}

/// The parameters of COM_STMT_EXECUTE as text.
fn parameters(r: &mut Reader<'_>, count: usize) -> Result<Vec<Option<String>>, ParseError> {
    if count == 0 {
        return Ok(Vec::new());
    }
    let nulls = r.bytes(count.div_ceil(8), "null_bitmap")?;
    if r.u8("new_params_bind_flag")? != 1 {
        return Err(ParseError::new("new_params_bind_flag", millstream_wire::codec::ParseErrorKind::Unsupported, 0));
    }
    let types = r.bytes(count * 2, "parameter_type")?;
    let mut out = Vec::new();
    for i in 0..count {
        if nulls[i / 8] >> (i % 8) & 1 == 1 {
            out.push(None);
            continue;
        }
        let (kind, unsigned) = (types[i * 2], types[i * 2 + 1] & 0x80 != 0);
        let width = match kind {
            1 => 1,
            2 => 2,
            3 => 4,
            8 => 8,
            _ => 0,
        };
        out.push(Some(match kind {
            1 | 2 | 3 | 8 => {
                let raw = r.uint_le(width, "value")?;
                let shift = 64 - 8 * width;
                if unsigned { raw.to_string() } else { ((raw << shift).cast_signed() >> shift).to_string() }
            }
            4 => f32::from_bits(r.u32_le("value")?).to_string(),
            5 => f64::from_bits(r.u64_le("value")?).to_string(),
            6 => {
                out.push(None);
                continue;
            }
            15 | 246 | 249..=254 => String::from_utf8_lossy(r.lenenc_bytes("value")?).into_owned(),
            k => return Err(ParseError::new("parameter_type", millstream_wire::codec::ParseErrorKind::BadTag(k), 0)),
        }));
    }
    Ok(out)
}

async fn answer(wire: &mut Wire, outcome: Outcome, binary: bool) -> io::Result<()> {
    let strings = |mut columns: Vec<ColumnDef>| {
        if binary {
            // Binary rows carry every value as a string.
            columns.iter_mut().for_each(|c| c.kind = 253);
        }
        columns
    };
    match outcome {
        Outcome::Ok(affected) => wire.ok(affected).await,
        Outcome::Rows(columns, rows) => {
            wire.columns(&strings(columns));
            for row in &rows {
                let values = row.iter().map(Option::as_deref);
                if binary {
                    wire.binary_row(values)
                } else {
                    wire.row(values)
                }
                wire.flush_if_large().await?;
            }
            wire.end_rows().await
        }
        Outcome::Scan(columns, scan) => {
            wire.columns(&strings(columns));
            for (row, version) in scan.rows() {
                let version = if scan.wants_version() { version.to_string() } else { String::new() };
                let (mut values, mut out) = (Vec::new(), Vec::new());
                scan.output(row, version.as_bytes(), &mut values, &mut out);
                if binary {
                    wire.binary_row(out.iter().copied())
                } else {
                    wire.row(out.iter().copied())
                }
                wire.flush_if_large().await?;
            }
            wire.end_rows().await
        }
    }
}

/// Runs a statement without a connection.
pub(crate) fn run_local(shared: &Shared, statement: &str) -> Result<Vec<Vec<Option<String>>>, String> {
    let outcome = exec::run(shared, &mut Session::default(), statement).map_err(|e| e.text)?;
    let text = |v: &[u8]| String::from_utf8_lossy(v).into_owned();
    Ok(match outcome {
        Outcome::Ok(_) => Vec::new(),
        Outcome::Rows(_, rows) => rows.iter().map(|r| r.iter().map(|v| v.as_deref().map(text)).collect()).collect(),
        Outcome::Scan(_, scan) => scan
            .rows()
            .map(|(row, version)| {
                let version = version.to_string();
                let (mut values, mut out) = (Vec::new(), Vec::new());
                scan.output(row, version.as_bytes(), &mut values, &mut out);
                out.iter().map(|v| v.map(text)).collect()
            })
            .collect(),
    })
}

/// The table a CREATE TABLE makes, for tests.
#[cfg(test)]
pub(crate) fn table_of(id: i64, statement: &str) -> super::table::Table {
    match parse::parse(statement).unwrap() {
        parse::Statement::CreateTable { schema, .. } => super::table::Table::new(id, *schema),
        other => panic!("{other:?}"),
    }
}

use millstream_wire::codec::{ParseError, ParseErrorKind, Reader};

use super::StatusVars;

/// QUERY: a statement (`Query_event`).
///
/// ```text
/// u32 thread | u32 seconds | u8 schema length | u16 error | u16 status length | status variables | schema NUL | SQL
/// ```
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Query<'a> {
    /// Session that ran it.
    pub thread_id: u32,
    /// Seconds it took.
    pub exec_time: u32,
    /// Not 0: the statement failed half way and left changes behind.
    pub error_code: u16,
    /// Default schema, UTF-8; may be empty.
    pub schema: &'a [u8],
    /// The statement, in the session's character set ([`StatusVars::client_charset`]), often but not always UTF-8.
    pub sql: &'a [u8],
    /// Session state, not parsed yet.
    pub status: StatusVars<'a>,
}

impl<'a> Query<'a> {
    pub(crate) fn parse(post_header: u8, extra: usize, mut r: Reader<'a>) -> Result<Self, ParseError> {
        let thread_id = r.u32_le("thread_id")?;
        let exec_time = r.u32_le("exec_time")?;
        let schema_length = usize::from(r.u8("schema length")?);
        let error_code = r.u16_le("error_code")?;
        let status_length = if post_header >= 13 { usize::from(r.u16_le("status variables length")?) } else { 0 };
        // EXECUTE_LOAD_QUERY has more post-header fields here.
        r.skip(extra, "load query fields")?;
        let status = StatusVars::new(r.bytes(status_length, "status variables")?);
        let schema = r.bytes(schema_length, "schema")?;
        let nul = r.u8("schema terminator")?;
        if nul != 0 {
            return Err(r.error("schema terminator", ParseErrorKind::BadTag(nul)));
        }
        Ok(Self { thread_id, exec_time, error_code, schema, sql: r.rest(), status })
    }
}

//! The byte primitives of the MySQL protocol and of the binlog: one checked cursor, one writer, one small error.
//!
//! Every read names the field it reads, no read panics, and nothing is sized from a number on the wire before that
//! number has been compared with the bytes that are really there.

mod bitmap;
mod error;
mod reader;
mod writer;

pub use bitmap::Bitmap;
pub use error::{ParseError, ParseErrorKind};
pub use reader::Reader;
pub use writer::{LengthMark, Writer};

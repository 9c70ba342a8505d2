use super::Compression;
use crate::codec::ParseErrorKind;
use crate::error::Error;

/// Scratch space kept between frames; a larger one is given back.
const KEPT_SCRATCH: usize = 256 * 1024;
/// No frame inflates to more than 16 MiB, so no honest window is larger; one is allocated as declared.
#[cfg(feature = "zstd")]
const ZSTD_WINDOW_LOG: u32 = 24;

/// One step of inflating.
pub(super) struct Step {
    /// Bytes of the body used up.
    pub(super) read: usize,
    /// Bytes that came out.
    pub(super) written: usize,
    /// The end of the compressed data was seen.
    pub(super) ended: bool,
}

pub(super) struct Algorithm {
    kind: Kind,
    scratch: Vec<u8>,
}

enum Kind {
    None,
    #[cfg(feature = "zlib")]
    Zlib(Box<Zlib>),
    #[cfg(feature = "zstd")]
    Zstd {
        inflate: zstd::stream::raw::Decoder<'static>,
        deflate: zstd::bulk::Compressor<'static>,
    },
}

#[cfg(feature = "zlib")]
struct Zlib {
    inflate: flate2::Decompress,
    deflate: flate2::Compress,
}

impl Algorithm {
    pub(super) fn new(compression: Compression) -> Result<Self, Error> {
        let kind = match compression {
            #[cfg(feature = "zlib")]
            Compression::Zlib => Kind::Zlib(Box::new(Zlib {
                inflate: flate2::Decompress::new(true),
                deflate: flate2::Compress::new(flate2::Compression::default(), true),
            })),
            #[cfg(feature = "zstd")]
            Compression::Zstd { level } => {
                let codec = || {
                    let mut inflate = zstd::stream::raw::Decoder::new()?;
                    inflate.set_parameter(zstd::stream::raw::DParameter::WindowLogMax(ZSTD_WINDOW_LOG))?;
                    Ok(Kind::Zstd { inflate, deflate: zstd::bulk::Compressor::new(level.into())? })
                };
                codec().map_err(|_: std::io::Error| Error::usage("zstd could not be set up: out of memory"))?
            }
            _ => Kind::None,
        };
        Ok(Self { kind, scratch: Vec::new() })
    }

    /// The data compressed, or `None` where that does not make it shorter.
    pub(super) fn deflate(&mut self, data: &[u8]) -> Option<&[u8]> {
        if self.scratch.capacity() > KEPT_SCRATCH {
            self.scratch = Vec::new();
        }
        self.scratch.clear();
        let fits = match &mut self.kind {
            Kind::None => false,
            #[cfg(feature = "zlib")]
            Kind::Zlib(zlib) => {
                let deflate = &mut zlib.deflate;
                deflate.reset();
                self.scratch.reserve(data.len());
                let status = deflate.compress_vec(data, &mut self.scratch, flate2::FlushCompress::Finish);
                matches!(status, Ok(flate2::Status::StreamEnd))
            }
            #[cfg(feature = "zstd")]
            Kind::Zstd { deflate, .. } => {
                self.scratch.reserve(data.len());
                deflate.compress_to_buffer(data, &mut self.scratch).is_ok()
            }
        };
        (fits && self.scratch.len() < data.len()).then_some(&self.scratch)
    }

    /// Begins a body.
    pub(super) fn begin(&mut self) -> Result<(), ParseErrorKind> {
        match &mut self.kind {
            Kind::None => Err(ParseErrorKind::Unsupported),
            #[cfg(feature = "zlib")]
            Kind::Zlib(zlib) => {
                zlib.inflate.reset(true);
                Ok(())
            }
            #[cfg(feature = "zstd")]
            Kind::Zstd { inflate, .. } => {
                zstd::stream::raw::Operation::reinit(inflate).map_err(|_| ParseErrorKind::Unsupported)
            }
        }
    }

    /// Inflates from `body` into `out`.
    #[cfg_attr(
        not(any(feature = "zlib", feature = "zstd")),
        allow(unused_variables, clippy::needless_pass_by_ref_mut, reason = "nothing inflates")
    )]
    pub(super) fn inflate(&mut self, body: &[u8], out: &mut [u8]) -> Result<Step, ParseErrorKind> {
        match &mut self.kind {
            Kind::None => Err(ParseErrorKind::Unsupported),
            #[cfg(feature = "zlib")]
            Kind::Zlib(zlib) => {
                let inflate = &mut zlib.inflate;
                let before = (inflate.total_in(), inflate.total_out());
                let status = inflate
                    .decompress(body, out, flate2::FlushDecompress::None)
                    .map_err(|_| ParseErrorKind::BadLength)?;
                let count = |now: u64, then: u64| usize::try_from(now.saturating_sub(then)).unwrap_or(usize::MAX);
                Ok(Step {
                    read: count(inflate.total_in(), before.0),
                    written: count(inflate.total_out(), before.1),
                    ended: status == flate2::Status::StreamEnd,
                })
            }
            #[cfg(feature = "zstd")]
            Kind::Zstd { inflate, .. } => {
                let status = zstd::stream::raw::Operation::run_on_buffers(inflate, body, out)
                    .map_err(|_| ParseErrorKind::BadLength)?;
                Ok(Step { read: status.bytes_read, written: status.bytes_written, ended: status.remaining == 0 })
            }
        }
    }
}

impl core::fmt::Debug for Algorithm {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        // The scratch space may hold what was sent.
        f.write_str(match self.kind {
            Kind::None => "None",
            #[cfg(feature = "zlib")]
            Kind::Zlib(_) => "Zlib",
            #[cfg(feature = "zstd")]
            Kind::Zstd { .. } => "Zstd",
        })
    }
}

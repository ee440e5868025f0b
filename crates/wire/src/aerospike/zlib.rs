//! zlib streams inside of compressed frames, with `miniz_oxide` (RFC 1950).
//!
//! ```text
//! 02 04 body size u48 | size of the frame inside u64 | zlib stream of a frame of type 3, with its header
//! ```

use std::fmt;

use miniz_oxide::deflate::core::{
    CompressorOxide, TDEFLFlush, TDEFLStatus, compress, create_comp_flags_from_zip_params,
};
use miniz_oxide::inflate::stream::{InflateState, inflate};
use miniz_oxide::{DataFormat, MZError, MZFlush, MZStatus};

use super::client::{frame, put_frame_header};
use super::message::{PROTO_HEADER_SIZE, kind, size64};

/// Bytes of a compressed frame in front of its stream.
pub(super) const FRONT_SIZE: usize = PROTO_HEADER_SIZE + size_of::<u64>();
/// Messages of fewer bytes are sent as they are: so do clients (`AS_COMPRESS_THRESHOLD`, Java's `COMPRESS_THRESHOLD`).
pub const DEFLATE_SIZE_MIN: usize = 128;
/// Replies of more bytes are sent as they are: a reply is compressed in one piece, within a turn.
pub const DEFLATE_SIZE_MAX: usize = 32 * 1024;
/// Bytes that an [`Inflater`] keeps: the window of 32 KiB, and tables.
pub(super) const INFLATER_SIZE: usize = size_of::<InflateState>();

/// A stream that is read.
pub(super) struct Inflater {
    state: Box<InflateState>,
    has_ended: bool,
}

/// What is no zlib stream.
#[derive(Debug)]
pub(super) struct Broken;

impl Inflater {
    pub(super) fn new() -> Inflater {
        Inflater { state: InflateState::new_boxed(DataFormat::Zlib), has_ended: false }
    }

    /// Whether the stream is over, and its checksum right.
    pub(super) fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Reads from `input`, and writes to `out`: how many bytes of both. Nothing of either says that it wants more input.
    pub(super) fn step(&mut self, input: &[u8], out: &mut [u8]) -> Result<(usize, usize), Broken> {
        if self.has_ended {
            return Ok((0, 0));
        }
        let result = inflate(&mut self.state, input, out, MZFlush::None);
        match result.status {
            Ok(status) => self.has_ended = status == MZStatus::StreamEnd,
            Err(MZError::Buf) => {}
            Err(_) => return Err(Broken),
        }
        Ok((result.bytes_consumed, result.bytes_written))
    }
}

impl fmt::Debug for Inflater {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inflater").field("has_ended", &self.has_ended).finish_non_exhaustive()
    }
}

/// What writes compressed frames. From the first one on it keeps a third of a MiB, and is used again.
#[derive(Default)]
pub struct Deflater {
    compressor: Option<Box<CompressorOxide>>,
}

impl fmt::Debug for Deflater {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Deflater").field("is_warm", &self.compressor.is_some()).finish()
    }
}

impl Deflater {
    /// Messages, each in a frame of its own, as one compressed frame that holds all of them; nothing if that is not shorter. Of
    /// [`DEFLATE_SIZE_MIN`] to [`DEFLATE_SIZE_MAX`] bytes it is worth a try.
    ///
    /// # Panics
    /// With other frames, or cut ones.
    pub fn deflate(&mut self, frames: &[u8]) -> Option<Vec<u8>> {
        let (mut bodies, mut rest) = (Vec::with_capacity(frames.len()), frames);
        while !rest.is_empty() {
            let (frame_kind, body, size) = frame(rest).expect("frames are whole");
            assert!(frame_kind == kind::MESSAGE, "replies to messages are compressed");
            bodies.extend_from_slice(body);
            rest = &rest[size..];
        }
        let mut plain = Vec::with_capacity(PROTO_HEADER_SIZE + bodies.len());
        put_frame_header(&mut plain, kind::MESSAGE, bodies.len());
        plain.extend_from_slice(&bodies);
        let stream_size_max = frames.len().checked_sub(FRONT_SIZE + 1)?;
        let mut stream = vec![0; stream_size_max];
        let size = self.stream(&plain, &mut stream)?;
        let mut out = Vec::with_capacity(FRONT_SIZE + size);
        put_frame_header(&mut out, kind::COMPRESSED, FRONT_SIZE - PROTO_HEADER_SIZE + size);
        out.extend_from_slice(&size64(plain.len()).to_be_bytes());
        out.extend_from_slice(&stream[..size]);
        Some(out)
    }

    /// The stream of `plain`, if it fits.
    fn stream(&mut self, plain: &[u8], out: &mut [u8]) -> Option<usize> {
        let compressor = self.compressor.get_or_insert_with(|| {
            // The fastest level: `Z_BEST_SPEED`, which clients use for requests.
            let flags = create_comp_flags_from_zip_params(1, 1, 0);
            Box::new(CompressorOxide::new(flags))
        });
        compressor.reset();
        let (status, _, size) = compress(compressor, plain, out, TDEFLFlush::Finish);
        (status == TDEFLStatus::Done).then_some(size)
    }
}

/// Appends a frame, of any kind, compressed: what a client does to a request.
pub fn put_compressed(out: &mut Vec<u8>, frame: &[u8]) {
    let stream = miniz_oxide::deflate::compress_to_vec_zlib(frame, 1);
    put_frame_header(out, kind::COMPRESSED, FRONT_SIZE - PROTO_HEADER_SIZE + stream.len());
    out.extend_from_slice(&size64(frame.len()).to_be_bytes());
    out.extend_from_slice(&stream);
}

/// The frame inside of a compressed one's body; nothing if there is none, or one of more than `size_max` bytes.
pub fn inflated(body: &[u8], size_max: usize) -> Option<Vec<u8>> {
    let (size, stream) = body.split_first_chunk()?;
    let size = usize::try_from(u64::from_be_bytes(*size)).ok()?;
    let plain = miniz_oxide::inflate::decompress_to_vec_zlib_with_limit(stream, size.min(size_max)).ok()?;
    (plain.len() == size).then_some(plain)
}

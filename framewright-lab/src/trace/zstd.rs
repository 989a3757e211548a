//! Compresses and decompresses zstd in Rust, without the C library.
//!
//! A file is a sequence of frames; some may be *skippable*: other programs' data, without content.
//! [`Decoder`] reads all frames of a file. [`compress`] makes one frame.

use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};
use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use std::error::Error;
use std::io::{self, ErrorKind, Read};

/// The first bytes of a frame.
pub(super) const MAGIC: &[u8] = b"\x28\xb5\x2f\xfd";

/// The header of an empty frame.
const EMPTY_FRAME: &[u8] = b"\x28\xb5\x2f\xfd\x20\0";

/// Bytes of a skippable frame before its data.
const SKIPPABLE_HEADER: u64 = 8;

/// The last block of a frame, empty, and four bytes for a checksum.
const END_OF_FRAME: &[u8] = &[1, 0, 0, 0, 0, 0, 0];

/// `bytes` as one frame, with a checksum.
pub(crate) fn compress(bytes: &[u8]) -> Vec<u8> {
    compress_to_vec(bytes, CompressionLevel::Fastest)
}

/// All content of `bytes`, for tests.
#[cfg(test)]
pub(crate) fn decompress(bytes: &[u8]) -> Vec<u8> {
    let mut plain = Vec::new();
    Decoder::new(bytes).read_to_end(&mut plain).unwrap();
    plain
}

/// Decompresses what `input` returns.
///
/// If the input ends within a frame, all blocks that are complete are returned before the error
/// `UnexpectedEof`.
pub(super) struct Decoder<R> {
    input: R,
    frame: FrameDecoder,
    /// Bytes of the input before the current block or the next frame.
    offset: u64,
    /// The input has ended within a frame.
    cut: bool,
}

impl<R: Read> Decoder<R> {
    /// A decoder at the beginning of `input`.
    pub(super) fn new(input: R) -> Self {
        let mut frame = FrameDecoder::new();
        // From its second frame on, the decoder allocates space for a window at once. For the first, it would grow step
        // by step, and copy.
        let empty = frame.reset(EMPTY_FRAME);
        let empty = empty
            .and_then(|()| frame.decode_blocks(END_OF_FRAME, BlockDecodingStrategy::UptoBlocks(1)));
        debug_assert!(empty.is_ok(), "{empty:?}");
        Self { input, frame, offset: 0, cut: false }
    }

    /// Starts the next frame with content. Returns whether there is one.
    fn next_frame(&mut self) -> io::Result<bool> {
        loop {
            let mut first = [0];
            if self.input.read(&mut first)? == 0 {
                return Ok(false);
            }
            match self.frame.reset(first.chain(&mut self.input)) {
                Ok(()) => {
                    self.offset += self.frame.bytes_read_from_source();
                    return Ok(true);
                }
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                    length,
                    ..
                })) => {
                    let mut skipped = self.input.by_ref().take(length.into());
                    if io::copy(&mut skipped, &mut io::sink())? < length.into() {
                        return Err(ErrorKind::UnexpectedEof.into());
                    }
                    self.offset += SKIPPABLE_HEADER + u64::from(length);
                }
                Err(error) => return Err(as_io(&error, self.offset)),
            }
        }
    }

    /// Decompresses the next block of the frame.
    fn next_block(&mut self) -> io::Result<()> {
        let one = || BlockDecodingStrategy::UptoBlocks(1);
        let before = self.frame.bytes_read_from_source();
        match self.frame.decode_blocks(&mut self.input, one()) {
            Ok(_) => {
                self.offset += self.frame.bytes_read_from_source() - before;
                return Ok(());
            }
            Err(error) => match as_io(&error, self.offset) {
                cut if cut.kind() == ErrorKind::UnexpectedEof => {}
                error => return Err(error),
            },
        }
        // The decoder retains a window of content until the frame ends. An artificial end releases it.
        self.cut = true;
        let ended = self.frame.decode_blocks(END_OF_FRAME, one());
        ended.map(drop).map_err(|error| as_io(&error, self.offset))
    }

    /// Checks the checksum of a frame that was returned completely, if it has one.
    fn verify(&self) -> io::Result<()> {
        match self.frame.get_checksum_from_data() {
            Some(sum) if self.frame.get_calculated_checksum() != Some(sum) => {
                let reason = "corrupt zstd data: the content does not match its checksum";
                Err(io::Error::new(ErrorKind::InvalidData, reason))
            }
            _ => Ok(()),
        }
    }
}

impl<R: Read> Read for Decoder<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let read = self.frame.read(buffer)?;
            if read > 0 || buffer.is_empty() {
                return Ok(read);
            }
            if self.cut {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            if !self.frame.is_finished() {
                self.next_block()?;
                continue;
            }
            self.verify()?;
            if !self.next_frame()? {
                return Ok(0);
            }
        }
    }
}

/// The decoder's error in words: that of the input if reading failed, otherwise of the data at `offset`.
fn as_io(error: &FrameDecoderError, offset: u64) -> io::Error {
    let mut cause: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(inner) = cause {
        if let Some(input) = inner.downcast_ref::<io::Error>() {
            return io::Error::new(input.kind(), input.to_string());
        }
        cause = inner.source();
    }
    let reason = match error {
        FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::BadMagicNumber(_)) => {
            format!("data that is not zstd after the end of a frame, at offset {offset}")
        }
        FrameDecoderError::DictNotProvided { .. } => {
            "it was compressed with a dictionary, which is not supported".to_owned()
        }
        FrameDecoderError::WindowSizeTooBig { .. } => {
            "it was compressed with a window of more than 128 MiB, which is not supported: compress it without --long"
                .to_owned()
        }
        _ => format!("corrupt zstd data at offset {offset}"),
    };
    io::Error::new(ErrorKind::InvalidData, reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Text that compresses to about half.
    fn text(lines: u64) -> Vec<u8> {
        (0..lines)
            .map(|n| format!("line {}\n", n.wrapping_mul(7919 * 104_729)))
            .collect::<String>()
            .into()
    }

    fn read(packed: &[u8]) -> (Vec<u8>, io::Result<usize>) {
        let mut plain = Vec::new();
        let result = Decoder::new(packed).read_to_end(&mut plain);
        (plain, result)
    }

    #[test]
    fn frames_and_skippable_frames_follow_each_other() {
        let (first, second) = (text(30_000), text(10));
        let skippable = [&b"\x53\x2a\x4d\x18"[..], &3u32.to_le_bytes(), b"abc"].concat();
        let file = [&skippable, &compress(&first), &skippable, &compress(&second), &compress(b"")];
        let (plain, result) = read(&file.map(|part| &part[..]).concat());
        assert_eq!(result.unwrap(), first.len() + second.len());
        assert!(plain == [first, second].concat());
    }

    #[test]
    fn files_of_the_c_library_are_read() {
        let recording = concat!(env!("CARGO_MANIFEST_DIR"), "/../recordings/sockets.txt.zst");
        let (plain, result) = read(&std::fs::read(recording).unwrap());
        result.unwrap();
        assert_eq!(plain.iter().filter(|&&byte| byte == b'\n').count(), 160_012);
    }

    #[test]
    fn a_cut_frame_is_returned_up_to_its_last_complete_block() {
        let whole = text(100_000);
        let packed = compress(&whole);
        for cut in [packed.len() / 2, packed.len() - 5, packed.len() - 1] {
            let (plain, result) = read(&packed[..cut]);
            assert_eq!(result.unwrap_err().kind(), ErrorKind::UnexpectedEof);
            assert!(whole.starts_with(&plain));
            assert!(
                plain.len() + (256 << 10) > whole.len() * cut / packed.len(),
                "{}",
                plain.len()
            );
        }
        let next = [&packed[..], &packed[..2]].concat();
        let (plain, result) = read(&next);
        assert_eq!(result.unwrap_err().kind(), ErrorKind::UnexpectedEof);
        assert!(plain == whole);
    }

    #[test]
    fn a_wrong_checksum_and_foreign_data_are_errors() {
        let mut packed = compress(&text(100));
        *packed.last_mut().unwrap() ^= 1;
        let error = read(&packed).1.unwrap_err();
        assert!(error.to_string().contains("checksum"), "{error}");

        let trailing = [&compress(b"text")[..], b"not a frame"].concat();
        let (plain, result) = read(&trailing);
        assert_eq!(plain, b"text");
        let error = result.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidData);
        let offset = trailing.len() - b"not a frame".len();
        let words = format!("data that is not zstd after the end of a frame, at offset {offset}");
        assert_eq!(error.to_string(), words);
    }

    #[test]
    fn damaged_data_is_described_in_words() {
        let reason = |packed: &[u8]| read(packed).1.unwrap_err().to_string();
        let skippable = [&b"\x53\x2a\x4d\x18"[..], &3u32.to_le_bytes(), b"abc"].concat();
        let first = [&compress(&text(30_000)), &skippable[..]].concat();
        // A block of a reserved kind after a header of six bytes.
        let second = [EMPTY_FRAME, &[0xff; 100]].concat();
        let words = format!("corrupt zstd data at offset {}", first.len() + EMPTY_FRAME.len());
        assert_eq!(reason(&[first, second].concat()), words);

        let mut damaged = compress(&text(100_000));
        let second_block = 9 + block_size(&damaged[6..]) as usize;
        damaged[second_block + 3..second_block + 2000].fill(0xff);
        assert_eq!(reason(&damaged), format!("corrupt zstd data at offset {second_block}"));

        let dictionary = [MAGIC, &[0x21, 7, 0]].concat();
        assert!(reason(&dictionary).contains("with a dictionary, which is not supported"));
        let window = [MAGIC, &[0, 31 << 3, 1, 0, 0]].concat();
        assert!(reason(&window).contains("a window of more than 128 MiB"), "{}", reason(&window));
        let reserved = [MAGIC, &[0x20, 0, 7, 0, 0]].concat();
        assert_eq!(reason(&reserved), "corrupt zstd data at offset 6");
    }

    /// The bytes of a block after its header.
    fn block_size(block: &[u8]) -> u32 {
        u32::from_le_bytes([block[0], block[1], block[2], 0]) >> 3
    }

    #[test]
    fn errors_of_the_input_are_kept() {
        struct Fails;
        impl Read for Fails {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                Err(io::Error::new(ErrorKind::PermissionDenied, "no more"))
            }
        }
        let packed = compress(&text(100_000));
        let error =
            Decoder::new(packed[..1000].chain(Fails)).read_to_end(&mut Vec::new()).unwrap_err();
        assert_eq!(
            (error.kind(), error.to_string()),
            (ErrorKind::PermissionDenied, "no more".into())
        );
    }
}

//! Reads pieces of plain bytes, ahead in a thread of its own if they have to be decompressed, so that decompression and
//! parsing use two CPUs.
//!
//! At most [`PIECES`] pieces wait for the reader, and the thread has one more, so the memory is bounded. The reader
//! returns each piece to be filled again. The thread ends with the input, with an error, or when the reader is dropped.

use std::{
    io::{self, ErrorKind, Read},
    sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel},
    thread,
};

/// Bytes of a piece: less than the size from which allocators return memory to the system.
pub(super) const PIECE: usize = 64 << 10;
/// The maximum number of pieces that wait for the reader.
const PIECES: usize = 8;

/// The pieces of an input that a thread reads.
pub(super) struct Ahead {
    pieces: Receiver<io::Result<Vec<u8>>>,
    /// Takes pieces that are used up.
    used: Sender<Vec<u8>>,
}

impl Ahead {
    /// Starts to read `input`.
    ///
    /// # Errors
    /// The system cannot start a thread.
    pub(super) fn new(input: impl Read + Send + 'static) -> io::Result<Self> {
        let (sender, pieces) = sync_channel(PIECES);
        let (used, empty) = channel();
        thread::Builder::new()
            .name("decompress".into())
            .spawn(move || send_all(input, &sender, &empty))?;
        Ok(Self { pieces, used })
    }

    /// As [`fill`], from the input of the thread.
    pub(super) fn next(&mut self, used: Vec<u8>) -> io::Result<Vec<u8>> {
        // Sending fails if the thread has ended.
        _ = self.used.send(used);
        let died = || io::Error::other("the thread that decompresses has ended early");
        self.pieces.recv().map_err(|_| died()).flatten()
    }
}

/// Fills a piece from `input`, not always completely. The piece is empty at the end of the input.
pub(super) fn fill(input: &mut impl Read, mut piece: Vec<u8>) -> io::Result<Vec<u8>> {
    piece.resize(PIECE, 0);
    loop {
        match input.read(&mut piece) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            result => {
                piece.truncate(result?);
                return Ok(piece);
            }
        }
    }
}

/// Sends the pieces of `input`. The last is an error, or is empty: without it, the thread has panicked.
fn send_all(
    mut input: impl Read,
    sender: &SyncSender<io::Result<Vec<u8>>>,
    empty: &Receiver<Vec<u8>>,
) {
    loop {
        let result = fill(&mut input, empty.try_recv().unwrap_or_default());
        let is_last = result.as_ref().map_or(true, Vec::is_empty);
        // Sending fails if the reader has been dropped.
        if sender.send(result).is_err() || is_last {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns numbers in short reads, then what `end` returns.
    struct Input {
        left: u8,
        end: fn() -> io::Result<usize>,
    }

    impl Read for Input {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let Some(left) = self.left.checked_sub(1) else { return (self.end)() };
            self.left = left;
            buffer[..2].fill(left);
            Ok(2)
        }
    }

    fn read(left: u8, end: fn() -> io::Result<usize>) -> (Vec<u8>, io::Result<()>) {
        let mut ahead = Ahead::new(Input { left, end }).unwrap();
        let (mut bytes, mut piece) = (Vec::new(), Vec::new());
        loop {
            match ahead.next(piece) {
                Ok(next) if !next.is_empty() => piece = next,
                result => return (bytes, result.map(drop)),
            }
            bytes.extend_from_slice(&piece);
        }
    }

    #[test]
    fn everything_arrives_in_order() {
        let (bytes, result) = read(200, || Ok(0));
        result.unwrap();
        assert!(bytes.iter().eq((0..200).rev().flat_map(|n| [n, n]).collect::<Vec<_>>().iter()));
        assert!(read(0, || Ok(0)).0.is_empty());
    }

    #[test]
    fn errors_arrive_after_the_bytes_before_them() {
        let (bytes, result) = read(3, || Err(ErrorKind::UnexpectedEof.into()));
        assert_eq!(bytes, [2, 2, 1, 1, 0, 0]);
        assert_eq!(result.unwrap_err().kind(), ErrorKind::UnexpectedEof);
    }

    #[test]
    fn a_panic_of_the_thread_is_not_the_end_of_the_input() {
        let (bytes, result) = read(1, || panic!("expected by this test"));
        assert_eq!(bytes, [0, 0]);
        assert!(result.unwrap_err().to_string().contains("ended early"));
    }
}

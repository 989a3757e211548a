//! Reads ahead in a thread of its own, so that decompression and parsing use two CPUs.
//!
//! At most [`PIECES`] pieces wait for the reader, and the thread has one more, so the memory is bounded. The reader
//! returns each piece to be filled again. The thread ends with the input, with an error, or when the reader is dropped.

use std::{
    io::{self, ErrorKind, Read},
    mem,
    sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel},
    thread,
};

/// Bytes of a piece: less than the size from which allocators return memory to the system.
const PIECE: usize = 64 << 10;
/// The maximum number of pieces that wait for the reader.
const PIECES: usize = 8;

/// The bytes of an input that a thread reads.
pub(super) struct Ahead {
    pieces: Receiver<io::Result<Vec<u8>>>,
    piece: Vec<u8>,
    /// Takes pieces that were returned completely.
    read: Sender<Vec<u8>>,
    /// Bytes of the piece that were returned.
    used: usize,
    at_end: bool,
}

impl Ahead {
    /// Starts to read `input`.
    ///
    /// # Errors
    /// The system cannot start a thread.
    pub(super) fn new(input: impl Read + Send + 'static) -> io::Result<Self> {
        let (sender, pieces) = sync_channel(PIECES);
        let (read, empty) = channel();
        thread::Builder::new()
            .name("decompress".into())
            .spawn(move || send_all(input, &sender, &empty))?;
        Ok(Self { pieces, piece: Vec::new(), read, used: 0, at_end: false })
    }
}

/// Sends the pieces of `input`. The last is an error, or is empty: without it, the thread has panicked.
fn send_all(
    mut input: impl Read,
    sender: &SyncSender<io::Result<Vec<u8>>>,
    empty: &Receiver<Vec<u8>>,
) {
    loop {
        let mut piece = empty.try_recv().unwrap_or_default();
        piece.resize(PIECE, 0);
        let result = match input.read(&mut piece) {
            Ok(read) => {
                piece.truncate(read);
                Ok(piece)
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => Err(error),
        };
        let is_last = result.as_ref().map_or(true, Vec::is_empty);
        // Sending fails if the reader has been dropped.
        if sender.send(result).is_err() || is_last {
            return;
        }
    }
}

impl Read for Ahead {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.used == self.piece.len() && !self.at_end {
            let died = || io::Error::other("the thread that decompresses has ended early");
            let piece = self.pieces.recv().map_err(|_| died()).flatten();
            self.at_end = piece.as_ref().map_or(true, Vec::is_empty);
            let last = mem::replace(&mut self.piece, piece?);
            self.used = 0;
            // Sending fails if the thread has ended.
            _ = self.read.send(last);
        }
        let rest = &self.piece[self.used..];
        let read = rest.len().min(buffer.len());
        buffer[..read].copy_from_slice(&rest[..read]);
        self.used += read;
        Ok(read)
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

    fn read(left: u8, end: fn() -> io::Result<usize>) -> (Vec<u8>, io::Result<usize>) {
        let mut bytes = Vec::new();
        let result = Ahead::new(Input { left, end }).unwrap().read_to_end(&mut bytes);
        (bytes, result)
    }

    #[test]
    fn everything_arrives_in_order() {
        let (bytes, result) = read(200, || Ok(0));
        assert_eq!(result.unwrap(), 400);
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

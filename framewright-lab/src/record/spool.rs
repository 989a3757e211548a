//! What a CPU recorded, kept until the recording ends: pages of the ring buffer in a compressed
//! file that has no name, and so is gone with the program however that ends.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, Write};
use std::path::Path;

use zstd::stream::{read::Decoder, write::Encoder};

/// Fast: it is done beside the work that is recorded, and saves that work page cache.
const LEVEL: i32 = 1;

/// A spool that grows.
pub(super) struct SpoolWriter(Encoder<'static, File>);

impl SpoolWriter {
    /// An empty spool in `folder`.
    pub(super) fn new(folder: &Path) -> io::Result<Self> {
        Ok(Self(Encoder::new(tempfile::tempfile_in(folder)?, LEVEL)?))
    }

    /// Adds a page.
    pub(super) fn push(&mut self, page: &[u8]) -> io::Result<()> {
        self.0.write_all(&(page.len() as u32).to_le_bytes())?;
        self.0.write_all(page)
    }

    /// Ends it.
    pub(super) fn finish(self) -> io::Result<Spool> {
        let mut file = self.0.finish()?;
        file.rewind()?;
        Ok(Spool(file))
    }
}

/// A spool that is complete.
#[derive(Debug)]
pub(super) struct Spool(File);

impl Spool {
    /// Reads it from its beginning.
    pub(super) fn read(self) -> io::Result<SpoolReader> {
        Ok(SpoolReader(Decoder::new(self.0)?))
    }
}

/// Reads a spool page by page.
pub(super) struct SpoolReader(Decoder<'static, BufReader<File>>);

impl SpoolReader {
    /// Puts the next page into `page`; says whether there was one.
    pub(super) fn next(&mut self, page: &mut Vec<u8>) -> io::Result<bool> {
        let mut length = [0; 4];
        match self.0.read(&mut length[..1])? {
            0 => return Ok(false),
            _ => self.0.read_exact(&mut length[1..])?,
        }
        page.resize(u32::from_le_bytes(length) as usize, 0);
        self.0.read_exact(page)?;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_come_back_as_they_were() {
        let folder = tempfile::tempdir().unwrap();
        let mut spool = SpoolWriter::new(folder.path()).unwrap();
        let pages: Vec<Vec<u8>> = (0..500).map(|n| vec![n as u8; 16 + n * 8]).collect();
        for page in &pages {
            spool.push(page).unwrap();
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        let mut reader = spool.finish().unwrap().read().unwrap();
        let mut page = Vec::new();
        for expected in &pages {
            assert!(reader.next(&mut page).unwrap());
            assert_eq!(&page, expected);
        }
        assert!(!reader.next(&mut page).unwrap());
    }
}

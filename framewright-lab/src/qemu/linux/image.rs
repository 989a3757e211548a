//! The file system that Linux finds in memory (`cpio`, format `newc`): the program, and for `mmap-read` a
//! RAM disk's module and contents.

use std::{io::Write, path::Path};

use tempfile::NamedTempFile;

use super::{Skipped, package::Package, read, tool};

/// The disk: files on it consist of holes, so that this is enough for any.
const DISK: &str = "2M";
/// A regular file that everybody may execute.
const MODE: u32 = 0o100_755;

/// Makes it; with a disk for the kernel of `disk_for`.
pub(super) fn make(init: &Path, disk_for: Option<&Package>) -> Result<NamedTempFile, Skipped> {
    let failed = |error| Skipped(format!("its file system cannot be written: {error}"));
    let mut files = vec![("init", read(init)?)];
    if let Some(package) = disk_for {
        let folder = tempfile::tempdir().map_err(failed)?;
        // No journal: there is no room for one.
        let options = ["-q", "-F", "-t", "ext4", "-O", "^has_journal", "-b", "4096", "disk", DISK];
        tool("mke2fs", &options, folder.path())
            .or_else(|_| tool("/sbin/mke2fs", &options, folder.path()))?;
        files.push(("disk.img", read(&folder.path().join("disk"))?));
        files.push(("brd.ko", read(&package.module("brd.ko")?)?));
    }
    let mut image = NamedTempFile::new().map_err(failed)?;
    image.write_all(&archive(&files)).map_err(failed)?;
    Ok(image)
}

fn archive(files: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let mut all = Vec::new();
    for (number, (name, contents)) in (1..).zip(files) {
        add(&mut all, number, MODE, name, contents);
    }
    add(&mut all, 0, 0, "TRAILER!!!", &[]);
    all
}

/// Adds a file: a header of numbers in hexadecimal, its name, its contents, both filled up to fours.
fn add(all: &mut Vec<u8>, number: u32, mode: u32, name: &str, contents: &[u8]) {
    let (length, name_length) = (contents.len() as u32, name.len() as u32 + 1);
    let header = [number, mode, 0, 0, 1, 0, length, 0, 0, 0, 0, name_length, 0];
    all.extend(b"070701");
    header.iter().for_each(|number| all.extend(format!("{number:08X}").bytes()));
    all.extend(name.bytes());
    all.push(0);
    all.resize(all.len().next_multiple_of(4), 0);
    all.extend(contents);
    all.resize(all.len().next_multiple_of(4), 0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_is_filled_up_to_fours_and_ends() {
        let bytes = archive(&[("init", b"12345".to_vec())]);
        assert!(bytes.starts_with(b"07070100000001000081ED"));
        assert_eq!(
            &bytes[110..124],
            b"init\0\0".iter().chain(b"12345\0\0\0").copied().collect::<Vec<_>>()
        );
        assert_eq!(bytes.len() % 4, 0);
        assert!(bytes.windows(11).any(|window| window == b"TRAILER!!!\0"));
    }
}

//! Anonymous memory with the advice `MADV_HUGEPAGE`.

#![allow(unsafe_code)]

use rustix::{
    io::Errno,
    mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap},
};
use std::{
    fs::{self, File},
    io,
    ops::Range,
    os::unix::fs::FileExt,
    ptr::NonNull,
};

/// Bytes of a page of order 0.
const SMALL: usize = 4096;
/// The bit of an entry of `/proc/self/pagemap` that says that the page is in memory (Linux's documentation,
/// admin-guide/mm/pagemap.rst).
const PRESENT: u64 = 1 << 63;

/// A private mapping with the advice. The first touch of a huge page is the page fault that allocates it.
pub(super) struct Area {
    start: NonNull<u8>,
    /// `/proc/self/pagemap`: eight bytes for each page of order 0.
    pagemap: File,
    bytes: usize,
    /// The first address that is aligned to a huge page, as an offset.
    skipped: usize,
    huge: usize,
}

impl Area {
    /// Maps `pages` huge pages of `huge` bytes.
    ///
    /// # Errors
    ///
    /// The kernel's reason. It has no huge pages, for example.
    pub(super) fn new(pages: usize, huge: usize) -> io::Result<Self> {
        let pagemap = File::open("/proc/self/pagemap")?;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // One huge page more, for the alignment.
        let bytes = (pages + 1) * huge;
        // SAFETY: a fresh mapping at an address that the kernel selects.
        let start = unsafe { mmap_anonymous(std::ptr::null_mut(), bytes, access, flags)? };
        let start = NonNull::new(start.cast::<u8>()).ok_or(Errno::NOMEM)?;
        let skipped = start.as_ptr().align_offset(huge);
        let area = Self { start, pagemap, bytes, skipped, huge };
        // SAFETY: the advice changes no contents.
        unsafe { madvise(start.as_ptr().cast(), bytes, Advice::LinuxHugepage)? };
        Ok(area)
    }

    /// Touches huge page number `page`: a page fault, which allocates a huge page or a page of order 0. That is given back.
    /// Returns whether it is a huge page.
    ///
    /// # Errors
    ///
    /// `/proc/self/pagemap` cannot be read.
    pub(super) fn touch(&mut self, page: usize) -> io::Result<bool> {
        let offset = self.skipped + page * self.huge;
        assert!(offset + self.huge <= self.bytes, "page {page} is outside the area");
        // SAFETY: inside the mapping, which is writable and borrowed exclusively.
        let start = unsafe { self.start.add(offset) };
        // SAFETY: as above.
        unsafe { start.write_volatile(1) };
        // Only a huge page also has the next page of order 0.
        if self.is_present(start.as_ptr().addr() + SMALL)? {
            return Ok(true);
        }
        // SAFETY: a part of the mapping, whose contents nobody reads.
        unsafe { madvise(start.as_ptr().cast(), self.huge, Advice::LinuxDontNeed)? };
        Ok(false)
    }

    /// Whether the address has memory.
    fn is_present(&self, address: usize) -> io::Result<bool> {
        let mut entry = [0; 8];
        self.pagemap.read_exact_at(&mut entry, (address / SMALL * 8) as u64)?;
        Ok(u64::from_ne_bytes(entry) & PRESENT != 0)
    }

    /// The number of huge pages that the area has, counted by the kernel.
    ///
    /// # Errors
    ///
    /// `/proc/self/smaps` cannot be read.
    pub(super) fn count(&self) -> io::Result<u64> {
        let start = self.start.as_ptr().addr();
        let smaps = fs::read_to_string("/proc/self/smaps")?;
        Ok(huge_bytes(&smaps, start..start + self.bytes) / self.huge as u64)
    }
}

impl Drop for Area {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own, and no borrow of it is left.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

/// Bytes of anonymous huge pages in all mappings that overlap `range`, from the text of `/proc/PID/smaps`.
fn huge_bytes(smaps: &str, range: Range<usize>) -> u64 {
    let mut bytes = 0;
    let mut is_inside = false;
    for line in smaps.lines() {
        if let Some(found) = addresses(line) {
            is_inside = found.start < range.end && range.start < found.end;
        } else if is_inside && let Some(kib) = line.strip_prefix("AnonHugePages:") {
            let kib: Option<u64> = kib.trim().trim_end_matches(" kB").parse().ok();
            bytes += kib.unwrap_or(0) << 10;
        }
    }
    bytes
}

/// The addresses of a mapping, if the line begins one: `7f0000000000-7f0000200000 rw-p …`.
fn addresses(line: &str) -> Option<Range<usize>> {
    let (start, end) = line.split_whitespace().next()?.split_once('-')?;
    let address = |text| usize::from_str_radix(text, 16).ok();
    Some(address(start)?..address(end)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_mappings_that_overlap_the_range_are_counted() {
        let smaps = "1000-3000 rw-p 00000000 00:00 0 \nAnonHugePages:  2048 kB\n\
                     3000-5000 rw-p 00000000 00:00 0 [heap]\nRss: 4 kB\nAnonHugePages:  4096 kB\n\
                     5000-6000 rw-p 00000000 00:00 0\nAnonHugePages:  x kB\n";
        assert_eq!(huge_bytes(smaps, 0x3000..0x5000), 4 << 20);
        assert_eq!(huge_bytes(smaps, 0x1000..0x4000), 6 << 20);
        assert_eq!(huge_bytes(smaps, 0x5000..0x6000), 0);
        assert_eq!(huge_bytes("", 0..1), 0);
    }

    #[test]
    fn an_area_is_touched_and_counted() {
        let Ok(mut area) = Area::new(2, 2 << 20) else { return };
        assert_eq!(area.count().unwrap(), 0);
        let touched = (0..2).filter(|&page| area.touch(page).unwrap()).count();
        assert_eq!(area.count().unwrap(), touched as u64);
    }
}

//! Address space: the only module that maps and unmaps memory.
//!
//! A [`Mapping`] is a range of address space with one owner, readable and writable, zeroed at first,
//! and unmapped when it is dropped. This module returns a pointer to the memory, and does
//! not access the contents, except to populate them on kernels before 5.14.

#![allow(unsafe_code)]

use rustix::{
    fs::{MemfdFlags, ftruncate, memfd_create},
    io::Errno,
    mm::{Advice, MapFlags, ProtFlags, madvise, mmap, mmap_anonymous, munmap},
};
use std::{ffi::c_void, fs, ptr::NonNull};

use crate::{Backing, HostError, PageSize};

/// Size of a huge page, and alignment of the mappings that [`Mapping::new`] creates.
const HUGE: usize = 2 << 20;
/// Size of a small page.
const SMALL: usize = 4096;

/// The properties of a mapping.
#[derive(Clone, Copy)]
pub(crate) struct MappingSpec {
    /// The purpose, for error messages.
    pub(crate) what: &'static str,
    pub(crate) bytes: usize,
    pub(crate) backing: Backing,
    pub(crate) pages: PageSize,
    /// Whether the kernel provides all pages now instead of at the first touch.
    pub(crate) populate: bool,
}

/// Address space that this process has mapped.
pub(crate) struct Mapping {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: a mapping belongs to the process, not to a thread; the type itself never accesses the
// memory.
unsafe impl Send for Mapping {}
// SAFETY: as above; a shared reference gives access to the pointer only.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps memory with these properties; `bytes` is rounded up to whole pages.
    pub(crate) fn new(spec: &MappingSpec) -> Result<Self, HostError> {
        if spec.populate {
            refuse_more_than_available(spec)?;
        }
        let mapping = match spec.pages {
            PageSize::Huge => Self::huge(spec)?,
            PageSize::Small | PageSize::Transparent => Self::small(spec)?,
        };
        mapping.advise(spec)?;
        if spec.populate {
            mapping.populate(spec)?;
        }
        Ok(mapping)
    }

    /// Address space whose memory is provided page by page at the first touch. No memory is reserved
    /// for it, so it may be larger than memory.
    pub(crate) fn reserved(what: &'static str, bytes: usize) -> Result<Self, HostError> {
        let refused = |errno| HostError::OutOfMemory { what, bytes, errno };
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let mapping = Self::reserve(bytes.max(1), access, MapFlags::PRIVATE).map_err(refused)?;
        // The first touch of a page must not allocate a huge page.
        let _ = mapping.madvise(Advice::LinuxNoHugepage);
        Ok(mapping)
    }

    /// As [`Mapping::reserved`], but a first load allocates memory as well. In a private mapping a load maps the
    /// zero page; a later store replaces that page, and the kernel interrupts every processor to flush it.
    /// Child processes do not inherit the mapping: it is shared, so their stores would change the memory of this
    /// process.
    pub(crate) fn shared(what: &'static str, bytes: usize) -> Result<Self, HostError> {
        let refused = |errno| HostError::OutOfMemory { what, bytes, errno };
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let mapping = Self::reserve(bytes.max(1), access, MapFlags::SHARED).map_err(refused)?;
        let _ = mapping.madvise(Advice::LinuxNoHugepage);
        mapping.madvise(Advice::LinuxDontFork).map_err(refused)?;
        Ok(mapping)
    }

    /// The first address: a multiple of 2 MiB, or of the page size if the mapping is
    /// [reserved](Mapping::reserved) or [shared](Mapping::shared).
    pub(crate) fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// The length in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Maps explicit huge pages, which the kernel aligns.
    fn huge(spec: &MappingSpec) -> Result<Self, HostError> {
        let bytes = round_up(spec, HUGE)?;
        let errno = match map(spec, bytes, None, MapFlags::HUGETLB, MemfdFlags::HUGETLB) {
            Ok(mapping) => return Ok(mapping),
            Err(Failure::Memfd(errno) | Failure::Map(errno)) => errno,
        };
        let (needed, free) = (bytes / HUGE, free_huge_pages());
        Err(HostError::NoHugePages { what: spec.what, needed, free, errno })
    }

    /// Maps small pages over a reservation that is larger by the alignment.
    fn small(spec: &MappingSpec) -> Result<Self, HostError> {
        let what = spec.what;
        let bytes = round_up(spec, SMALL)?;
        let out_of_memory = |errno| HostError::OutOfMemory { what, bytes, errno };
        let reserved = Self::reserve(bytes + HUGE, ProtFlags::empty(), MapFlags::PRIVATE);
        let reserved = reserved.map_err(out_of_memory)?;
        let at = reserved.trim(bytes);
        map(spec, bytes, Some(at), MapFlags::empty(), MemfdFlags::empty()).map_err(|failure| {
            match failure {
                Failure::Memfd(errno) => HostError::Memfd { what, errno },
                Failure::Map(errno) => out_of_memory(errno),
            }
        })
    }

    /// Reserves address space without memory behind it.
    fn reserve(bytes: usize, access: ProtFlags, flags: MapFlags) -> Result<Self, Errno> {
        let flags = flags | MapFlags::NORESERVE;
        // SAFETY: a fresh mapping at an address that the kernel chooses.
        let start = unsafe { mmap_anonymous(std::ptr::null_mut(), bytes, access, flags)? };
        Ok(Self { start: NonNull::new(start.cast()).ok_or(Errno::NOMEM)?, bytes })
    }

    /// Unmaps the part before the first multiple of 2 MiB, and the part after the `bytes` bytes that start there. The
    /// rest stays reserved, so that the caller can map over it.
    fn trim(self, bytes: usize) -> NonNull<u8> {
        let before = self.start.as_ptr().align_offset(HUGE);
        let after = self.bytes - before - bytes;
        // SAFETY: `before` is below 2 MiB, by which the reservation exceeds `bytes`.
        let (start, end) = unsafe { (self.start.add(before), self.start.add(before + bytes)) };
        for (part, bytes) in [(self.start, before), (end, after)] {
            if bytes > 0 {
                drop(Self { start: part, bytes });
            }
        }
        std::mem::forget(self);
        start
    }

    fn advise(&self, spec: &MappingSpec) -> Result<(), HostError> {
        let refused = |errno| HostError::NoTransparentHugePages { what: spec.what, errno };
        match spec.pages {
            PageSize::Huge => Ok(()),
            PageSize::Transparent => self.madvise(Advice::LinuxHugepage).map_err(refused),
            PageSize::Small => {
                // A kernel without huge pages refuses this advice, and does not need it.
                let _ = self.madvise(Advice::LinuxNoHugepage);
                Ok(())
            }
        }
    }

    fn populate(&self, spec: &MappingSpec) -> Result<(), HostError> {
        match self.madvise(Advice::LinuxPopulateWrite) {
            Ok(()) => Ok(()),
            // Kernels before 5.14: touch every page.
            Err(Errno::INVAL) => {
                for page in (0..self.bytes).step_by(SMALL) {
                    // SAFETY: inside the mapping, which no other code has a pointer to yet.
                    unsafe { self.start.add(page).write_volatile(0) };
                }
                Ok(())
            }
            Err(errno) => Err(HostError::OutOfMemory { what: spec.what, bytes: self.bytes, errno }),
        }
    }

    fn madvise(&self, advice: Advice) -> Result<(), Errno> {
        // SAFETY: the range is this mapping, and no advice given here discards contents.
        unsafe { madvise(self.start.as_ptr().cast::<c_void>(), self.bytes, advice) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range is this mapping, and no borrow of it is left. If it fails, the memory only leaks.
        let _ = unsafe { munmap(self.start.as_ptr().cast::<c_void>(), self.bytes) };
    }
}

enum Failure {
    Memfd(Errno),
    Map(Errno),
}

/// Maps memory, over the reservation `at` if there is one. A reservation that could not be mapped over
/// is unmapped.
fn map(
    spec: &MappingSpec,
    bytes: usize,
    at: Option<NonNull<u8>>,
    flags: MapFlags,
    file_flags: MemfdFlags,
) -> Result<Mapping, Failure> {
    // Unmapped on return, unless it has become the mapping.
    let reservation = at.map(|start| Mapping { start, bytes });
    let access = ProtFlags::READ | ProtFlags::WRITE;
    let fixed = if at.is_some() { MapFlags::FIXED } else { MapFlags::empty() };
    let address = at.map_or(std::ptr::null_mut(), |at| at.as_ptr().cast::<c_void>());
    let start = match spec.backing {
        Backing::Memfd => {
            let file = memfd_create(c"framewright", MemfdFlags::CLOEXEC | file_flags)
                .map_err(Failure::Memfd)?;
            ftruncate(&file, bytes as u64).map_err(Failure::Memfd)?;
            let flags = MapFlags::SHARED | flags | fixed;
            // SAFETY: a new file, at an address that the kernel selects or in the reservation.
            unsafe { mmap(address, bytes, access, flags, &file, 0) }
        }
        Backing::Anonymous | Backing::MetadataOnly => {
            let flags = MapFlags::PRIVATE | flags | fixed;
            // SAFETY: at an address that the kernel selects or in the reservation.
            unsafe { mmap_anonymous(address, bytes, access, flags) }
        }
    }
    .map_err(Failure::Map)?;
    let start = NonNull::new(start.cast()).ok_or(Failure::Map(Errno::NOMEM))?;
    std::mem::forget(reservation);
    Ok(Mapping { start, bytes })
}

fn round_up(spec: &MappingSpec, to: usize) -> Result<usize, HostError> {
    let rounded = spec.bytes.max(1).checked_next_multiple_of(to);
    // Leave space to align, and the sign bit, because pointer offsets are signed.
    rounded.filter(|bytes| *bytes <= isize::MAX as usize - HUGE).ok_or(HostError::OutOfMemory {
        what: spec.what,
        bytes: spec.bytes,
        errno: Errno::OVERFLOW,
    })
}

fn refuse_more_than_available(spec: &MappingSpec) -> Result<(), HostError> {
    let Some(available) = available_memory() else {
        return Ok(());
    };
    // Explicit huge pages are reserved already, and not part of the available memory.
    if spec.pages == PageSize::Huge || spec.bytes as u64 <= available {
        return Ok(());
    }
    Err(HostError::TooLittleAvailable { what: spec.what, bytes: spec.bytes, available })
}

/// The memory that programs can use without swapping: `MemAvailable` of `/proc/meminfo`, in bytes;
/// `None` if the kernel does not print it.
#[must_use]
pub fn available_memory() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().trim_end_matches(" kB").parse().ok()?;
    Some(kib << 10)
}

fn free_huge_pages() -> u64 {
    let pool = "/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages";
    fs::read_to_string(pool).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(bytes: usize) -> MappingSpec {
        MappingSpec {
            what: "a test",
            bytes,
            backing: Backing::Anonymous,
            pages: PageSize::Small,
            populate: false,
        }
    }

    fn is_usable(mapping: &Mapping) {
        assert_eq!(mapping.start().as_ptr().align_offset(HUGE), 0);
        for page in (0..mapping.bytes()).step_by(SMALL) {
            // SAFETY: inside the mapping, which only this test knows.
            unsafe {
                assert_eq!(mapping.start().add(page).read(), 0);
                mapping.start().add(page).write(1);
            }
        }
    }

    #[test]
    fn every_backing_is_aligned_zeroed_and_writable() {
        for backing in [Backing::Anonymous, Backing::Memfd] {
            for populate in [false, true] {
                for bytes in [1, HUGE, HUGE + SMALL] {
                    let spec = MappingSpec { backing, populate, ..spec(bytes) };
                    let mapping = Mapping::new(&spec).unwrap();
                    assert_eq!(mapping.bytes(), bytes.next_multiple_of(SMALL));
                    is_usable(&mapping);
                }
            }
        }
    }

    #[test]
    fn transparent_huge_pages_work_or_say_why_not() {
        match Mapping::new(&MappingSpec { pages: PageSize::Transparent, ..spec(2 * HUGE) }) {
            Ok(mapping) => is_usable(&mapping),
            Err(error) => assert!(error.to_string().contains("transparent"), "{error}"),
        }
    }

    #[test]
    fn explicit_huge_pages_work_or_say_what_is_missing() {
        let all = MappingSpec { pages: PageSize::Huge, ..spec(4 * HUGE) };
        for backing in [Backing::Anonymous, Backing::Memfd] {
            match Mapping::new(&MappingSpec { backing, ..all }) {
                Ok(mapping) => is_usable(&mapping),
                Err(HostError::NoHugePages { needed: 4, .. }) => {}
                Err(error) => panic!("{error}"),
            }
        }
    }

    #[test]
    fn the_impossible_is_refused() {
        assert!(matches!(Mapping::new(&spec(usize::MAX)), Err(HostError::OutOfMemory { .. })));
        assert!(matches!(Mapping::new(&spec(1 << 60)), Err(HostError::OutOfMemory { .. })));
        let greedy = MappingSpec { populate: true, ..spec(1 << 46) };
        assert!(matches!(Mapping::new(&greedy), Err(HostError::TooLittleAvailable { .. })));
    }
}

//! The system calls that free the memory of pages.
//!
//! `MADV_DONTNEED` frees the memory behind pages. Before it returns, every processor that runs a thread of this process
//! is interrupted and flushes its translations. `madvise` takes one range per call. `process_madvise` takes a vector of
//! ranges, for the calling process since Linux 6.13, and kernels since about 6.15 flush once for all of them. A process
//! cannot query this, but can measure it: it frees pages while another thread runs, and counts interrupts.

#![allow(unsafe_code)]

use rustix::{
    fd::{AsRawFd, OwnedFd},
    io::Errno,
    mm::{Advice, madvise},
    process::{PidfdFlags, getpid, pidfd_open},
};
use std::{
    ffi::c_void,
    fmt,
    ops::Range,
    sync::{
        OnceLock,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
};

use super::{interrupts::shootdowns, region::Region};
use crate::HostError;

/// Maximum number of ranges per call (`IOV_MAX`).
const MOST: usize = 1024;

/// The system calls by which this kernel frees memory of pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EvictionMethod {
    /// `process_madvise`: many ranges and one flush per call.
    Vectors {
        /// Whether this was measured by counting interrupts. If not, it is assumed from the kernel's
        /// version.
        seen: bool,
    },
    /// `madvise`: one range of neighbouring pages and one flush per call.
    Ranges(NoVectors),
}

/// The reason why each call frees one range.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NoVectors {
    /// The cache was made with [`PageCache::without_vectors`](super::PageCache::without_vectors).
    SwitchedOff,
    /// The kernel has no `process_madvise` for the calling process.
    Refused(Errno),
    /// The kernel flushes for every range of a vector.
    Unbatched,
}

impl fmt::Display for EvictionMethod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Vectors { seen: true } => f.write_str(
                "process_madvise on vectors of ranges (interrupts were counted: one flush per call)",
            ),
            Self::Vectors { seen: false } => f.write_str(
                "process_madvise on vectors of ranges (one flush per call, by the kernel's version)",
            ),
            Self::Ranges(why) => write!(f, "madvise, one range per call, because {why}"),
        }
    }
}

impl fmt::Display for NoVectors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SwitchedOff => f.write_str("vectors were switched off"),
            Self::Refused(errno) => write!(f, "the kernel refuses vectors of ranges ({errno})"),
            Self::Unbatched => f.write_str("the kernel flushes for every range of a vector"),
        }
    }
}

/// The interface to the kernel.
pub(super) struct Kernel {
    how: EvictionMethod,
    /// This process.
    me: Option<OwnedFd>,
}

impl Kernel {
    /// The best method of this kernel. It is measured once per process, which takes some ten
    /// milliseconds.
    pub(super) fn detect() -> Result<Self, HostError> {
        static SEEN: OnceLock<Result<EvictionMethod, HostError>> = OnceLock::new();
        let how = SEEN.get_or_init(measure).clone()?;
        Ok(Self { how, me: own_pidfd().ok() })
    }

    /// One call per range, on every kernel.
    pub(super) fn ranges() -> Self {
        Self { how: EvictionMethod::Ranges(NoVectors::SwitchedOff), me: None }
    }

    pub(super) fn how(&self) -> EvictionMethod {
        self.how
    }

    /// Frees the memory of ranges of pages. Returns the number of calls.
    ///
    /// # Safety
    ///
    /// The contents of the pages must not be needed, and no thread may use the pages until this
    /// returns.
    pub(super) unsafe fn evict(&self, ranges: &[Range<usize>]) -> Result<u64, Errno> {
        let mut calls = 0;
        match (&self.me, self.how) {
            // A call for one range is cheaper than a vector of it.
            (Some(me), EvictionMethod::Vectors { .. }) if ranges.len() > 1 => {
                for ranges in ranges.chunks(MOST) {
                    // SAFETY: by the contract of this function.
                    calls += unsafe { evict_vector(me, ranges)? };
                }
            }
            _ => {
                for range in ranges {
                    // SAFETY: by the contract of this function.
                    unsafe { evict_range(range)? };
                    calls += 1;
                }
            }
        }
        Ok(calls)
    }
}

/// # Safety
///
/// As [`Kernel::evict`].
unsafe fn evict_range(range: &Range<usize>) -> Result<(), Errno> {
    // SAFETY: by the contract of this function.
    unsafe { madvise(range.start as *mut c_void, range.len(), Advice::LinuxDontNeed) }
}

/// # Safety
///
/// As [`Kernel::evict`].
unsafe fn evict_vector(me: &OwnedFd, ranges: &[Range<usize>]) -> Result<u64, Errno> {
    let mut vector: Vec<libc::iovec> = ranges
        .iter()
        .map(|range| libc::iovec { iov_base: range.start as *mut c_void, iov_len: range.len() })
        .collect();
    let (mut next, mut calls) = (0, 0);
    while next < vector.len() {
        let left = &vector[next..];
        // SAFETY: the vector is alive during the call; the caller guarantees that the ranges may be freed.
        let done = unsafe {
            libc::syscall(
                libc::SYS_process_madvise,
                me.as_raw_fd(),
                left.as_ptr(),
                left.len(),
                libc::MADV_DONTNEED,
                0,
            )
        };
        calls += 1;
        // The number of bytes freed: all, unless the call was interrupted.
        let Ok(mut done) = usize::try_from(done) else {
            let errno = std::io::Error::last_os_error().raw_os_error().unwrap_or_default();
            return Err(Errno::from_raw_os_error(errno));
        };
        while next < vector.len() && done >= vector[next].iov_len {
            done -= vector[next].iov_len;
            next += 1;
        }
        if done > 0 {
            let part = &mut vector[next];
            part.iov_base = (part.iov_base as usize + done) as *mut c_void;
            part.iov_len -= done;
        }
    }
    Ok(calls)
}

fn own_pidfd() -> Result<OwnedFd, Errno> {
    pidfd_open(getpid(), PidfdFlags::empty())
}

/// Measures this kernel on separate pages.
fn measure() -> Result<EvictionMethod, HostError> {
    let scratch = Scratch::new()?;
    let ranges = Kernel::ranges();
    scratch.evict(&ranges, 1).map_err(|errno| HostError::NoEviction { errno })?;
    let refused = |errno| Ok(EvictionMethod::Ranges(NoVectors::Refused(errno)));
    let me = match own_pidfd() {
        Ok(me) => Some(me),
        Err(errno) => return refused(errno),
    };
    let vectors = Kernel { how: EvictionMethod::Vectors { seen: false }, me };
    if let Err(errno) = scratch.evict(&vectors, 2) {
        return refused(errno);
    }
    Ok(match scratch.is_batched(&ranges, &vectors) {
        Some(true) => EvictionMethod::Vectors { seen: true },
        Some(false) => EvictionMethod::Ranges(NoVectors::Unbatched),
        None if version() >= (6, 15) => EvictionMethod::Vectors { seen: false },
        None => EvictionMethod::Ranges(NoVectors::Unbatched),
    })
}

/// Pages for the measurement.
struct Scratch(Region);

impl Scratch {
    /// Number of ranges that are freed at a time, one page each, none adjacent to another.
    const RANGES: u32 = 64;

    fn new() -> Result<Self, HostError> {
        Region::new(2 * Self::RANGES).map(Self)
    }

    /// Touches `count` pages, and frees them.
    fn evict(&self, kernel: &Kernel, count: u32) -> Result<(), Errno> {
        let pages = (0..count).map(|nth| 2 * nth);
        pages.clone().for_each(|page| self.0.words(page)[0].store(1, Relaxed));
        let ranges: Vec<_> = pages.map(|page| self.0.addresses(page..page + 1)).collect();
        // SAFETY: only this function has the address of these pages.
        unsafe { kernel.evict(&ranges) }.map(|_| ())
    }

    /// Whether vectors cause far fewer interrupts than single ranges. `None` if this is unknown, because the other
    /// thread did not run or interrupts are not counted.
    fn is_batched(&self, ranges: &Kernel, vectors: &Kernel) -> Option<bool> {
        const TRIES: u32 = 20;
        let processors = thread::available_parallelism().map_or(1, usize::from);
        if processors < 2 {
            return None;
        }
        beside_running_thread(|| {
            (0..TRIES).find_map(|_| {
                let one_by_one = self.interrupts(ranges)?;
                let together = self.interrupts(vectors)?;
                // If there were fewer interrupts, the other thread did not run.
                let runs = one_by_one >= u64::from(Self::RANGES) / 2;
                runs.then_some(together * 4 <= one_by_one)
            })
        })
    }

    fn interrupts(&self, kernel: &Kernel) -> Option<u64> {
        let before = shootdowns()?;
        self.evict(kernel, Self::RANGES).ok()?;
        Some(shootdowns()?.saturating_sub(before))
    }
}

/// Runs `body` while another thread runs all the time.
pub(super) fn beside_running_thread<R>(body: impl FnOnce() -> R) -> R {
    let (running, over) = (AtomicBool::new(false), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| {
            running.store(true, Relaxed);
            while !over.load(Relaxed) {
                std::hint::spin_loop();
            }
        });
        while !running.load(Relaxed) {
            thread::yield_now();
        }
        let result = body();
        over.store(true, Relaxed);
        result
    })
}

/// Version and patch level of the kernel.
fn version() -> (u32, u32) {
    let uname = rustix::system::uname();
    parse_version(&uname.release().to_string_lossy()).unwrap_or_default()
}

fn parse_version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_as_numbers() {
        assert_eq!(parse_version("6.18.44-fc-v657"), Some((6, 18)));
        assert_eq!(parse_version("7.0-rc1"), Some((7, 0)));
        assert_eq!(parse_version("what"), None);
        assert!(version() > (3, 0));
    }

    #[test]
    fn evicted_pages_are_zero() {
        for kernel in [Kernel::ranges(), Kernel::detect().unwrap()] {
            let region = Region::new(3000).unwrap();
            (0..3000).for_each(|page| region.words(page)[5].store(9, Relaxed));
            // More ranges than one call can free. Between two ranges is a page that stays.
            let pages = (0..3000).step_by(2);
            let ranges: Vec<_> = pages.map(|page| region.addresses(page..page + 1)).collect();
            // SAFETY: only this test has the address of these pages.
            let calls = unsafe { kernel.evict(&ranges) }.unwrap();
            let expected = if kernel.how() == EvictionMethod::Ranges(NoVectors::SwitchedOff) {
                1500
            } else {
                2
            };
            assert!(calls == expected || calls == 1500, "{calls} calls, {}", kernel.how());
            for page in 0..3000 {
                let expected = if page % 2 == 0 { 0 } else { 9 };
                assert_eq!(region.words(page)[5].load(Relaxed), expected, "page {page}");
            }
        }
    }
}

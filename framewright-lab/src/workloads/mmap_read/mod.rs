//! `mmap-read`: sparse files of ten times the memory, mapped, and read once from end to end
//! (vm-scalability's case-lru-file-mmap-read).
//!
//! One reader per CPU reads every word of its part, page by page, once. By default no disk is
//! involved: the pages of a hole are cleared frames. The work consists of faults, and of reclaim of
//! pages that were mapped and used: the first scan finds a page referenced, the second reclaims it.
//!
//! * *processes*, the benchmark: every reader is a process that maps a file of its own. A page is
//!   mapped once, by an address space that runs on one CPU.
//! * *threads*: all readers share one address space and one mapping. A page is mapped once, by an
//!   address space that runs on all CPUs, as on a cache server.

use crate::choice::choice;
use framewright_workloads::{Reads, Sharing};

use super::cdn::{Access, Next};

/// The parameters of the workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MmapRead {
    /// The kind of readers.
    pub readers: Readers,
    /// Amount to read, in multiples of memory.
    pub times: u32,
    /// The files have that amount divided by this number: with 2, files of half the memory are possible. Only simulated
    /// machines use it.
    pub divisor: u32,
    /// Solid-state disks that store the files; 0: the files consist of holes.
    pub disks: u32,
    /// Cycles of a reader for a page, apart from its fault: 512 loads of a word. Only times depend on it.
    pub cycles_per_page: u64,
}

choice! {
    /// The kind of readers.
    pub enum Readers {
        /// A process per CPU, each with a file of its own
        #[default]
        Processes = "processes",
        /// A thread per CPU, all with one mapping of one file
        Threads = "threads",
    }
}

impl Readers {
    /// Whether readers share a mapping.
    pub(crate) fn sharing(self) -> Sharing {
        match self {
            Self::Processes => Sharing::Private,
            Self::Threads => Sharing::Shared,
        }
    }
}

/// Cycles of a reader for a resident page, from memory that the processor prefetches. Estimated.
const PER_PAGE: u64 = 1_500;

impl MmapRead {
    /// Ten times the memory.
    #[must_use]
    pub fn new(readers: Readers) -> Self {
        Self { readers, times: 10, divisor: 1, disks: 0, cycles_per_page: PER_PAGE }
    }

    /// Pages that one of `cpus` readers reads on a machine of `frames` frames.
    #[must_use]
    pub fn pages_each(&self, frames: u64, cpus: u16) -> u32 {
        let parts = u64::from(self.divisor.max(1)) * u64::from(cpus.max(1));
        let pages = frames * u64::from(self.times) / parts;
        u32::try_from(pages).unwrap_or(u32::MAX)
    }
}

/// One reader.
#[derive(Clone, Debug)]
pub(crate) struct Reader {
    reads: Reads,
    cycles_per_page: u64,
}

impl Reader {
    /// The reader of CPU `cpu`, which reads `pages` pages.
    pub(crate) fn new(work: &MmapRead, cpu: u16, pages: u32) -> Self {
        let reads = Reads::new(work.readers.sharing().part(cpu.into(), pages.into()), 1);
        Self { reads, cycles_per_page: work.cycles_per_page }
    }

    /// The next page access; `None` at the end.
    pub(crate) fn next(&mut self) -> Option<Next> {
        let page = self.reads.next()?.page as u32;
        let (mapping, then) = (self.reads.mapping(), self.cycles_per_page);
        Some(Next { mapping, page, access: Access::Load, then })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readers_share_the_work_and_touch_every_page_once() {
        for readers in [Readers::Processes, Readers::Threads] {
            let work = MmapRead::new(readers);
            let pages = work.pages_each(1_000, 4);
            assert_eq!(pages, 2_500);
            let mut touched: Vec<(usize, u32)> = Vec::new();
            for cpu in 0..4 {
                let mut reader = Reader::new(&work, cpu, pages);
                while let Some(next) = reader.next() {
                    touched.push((next.mapping, next.page));
                }
            }
            touched.sort_unstable();
            touched.dedup();
            assert_eq!(touched.len(), 10_000);
        }
    }
}

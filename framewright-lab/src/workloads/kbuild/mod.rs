//! `kbuild`: compilers that fork, fault, write an object file, and exit.
//!
//! The allocator's side of eight kernel builds at once (`make -j 28` in each of eight groups, on
//! 224 CPUs): every CPU runs one compiler after the other. Each of them
//!
//! * *forks*: takes the order-1 block of its top-level page table (two pages with page-table
//!   isolation) and the tables below it. What it shares with its parent, its kernel stack and its
//!   task structure come from mappings and caches that are there already; the cache of task
//!   structures is one order-3 block that the CPU keeps;
//! * *reads* its source and headers from the page cache: frames that are there already;
//! * *faults* anonymous pages, log-uniformly distributed between two sizes, and computes for each;
//! * *writes* an object file over the one that it finds: the pages of that are truncated, and new
//!   ones stay until another compiler comes by;
//! * *exits*: frees its pages in gathered batches, then its page tables, then the order-1 block.
//!
//! It is the last free that this is about: it comes when a CPU has done nothing but free for long,
//! and a rule that takes such a free for a reason to empty the CPU's lists does so once per exit.
//!
//! Sizes and the time between faults scale the load; the shape is what counts. Compilers have the sizes
//! that those of a kernel have, 4 to 48 MiB; but they compute a fifth as long between faults as
//! the 12,000 per second and builder that were observed say, so that a short run sees many exits.

mod job;

use super::cpu::PAGES_PER_TABLE;

pub(crate) use job::Builder;

/// What each CPU does.
#[derive(Clone, Debug)]
pub struct Kbuild {
    /// Anonymous pages of the smallest compiler.
    pub least_pages: u32,
    /// Anonymous pages of the largest.
    pub most_pages: u32,
    /// Cycles that a compiler computes for each page.
    pub cycles_per_page: u64,
    /// Cycles of a fork, an exec and an exit, but for frames.
    pub cycles_per_process: u64,
    /// Files that each compiler reads from the page cache.
    pub headers: u32,
    /// Object files that a CPU has come to before it overwrites the first.
    pub objects: u32,
    /// Seed of all sizes.
    pub seed: u64,
}

impl Kbuild {
    /// Compilers of 4 to 48 MiB.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self {
            least_pages: 1024,
            most_pages: 12_288,
            cycles_per_page: 20_000,
            cycles_per_process: 500_000,
            headers: 20,
            objects: 8,
            seed,
        }
    }

    /// Frames that `cpus` CPUs hold together at most.
    #[must_use]
    pub fn live_frames(&self, cpus: u16) -> u64 {
        let tables = self.most_pages.div_ceil(PAGES_PER_TABLE) + job::UPPER_TABLES;
        let objects = (self.objects + 1) * job::OBJECT_PAGES.end();
        let process = self.most_pages + tables + 2 + objects + 8;
        u64::from(cpus) * u64::from(process)
    }

    pub(super) fn lacks(&self) -> Option<&'static str> {
        (self.least_pages == 0 || self.most_pages < self.least_pages).then_some("page per process")
    }
}

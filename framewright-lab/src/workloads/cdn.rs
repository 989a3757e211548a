//! `cdn`: a cache server that keeps its objects in one mapped file, larger than memory, as Varnish
//! with file storage does.
//!
//! One process with many threads. A request names an object. Most objects are read, some much more
//! often than others; a share of requests stores a new object over an old one: its pages become
//! dirty, and are written to the disks in the background. Memory is therefore filled and reclaimed
//! continuously. Every CPU may have cached the translation of a page, so nearly all CPUs have to
//! flush it.
//!
//! A few requests may be for large objects. Each object is stored in a huge page outside the file
//! until it expires; on average these objects use an eighth of memory. Such a request is like a
//! page fault with transparent huge pages: without a free huge page it reclaims and compacts, and
//! wakes background reclaim and compaction. If it gets no huge page, the object is not stored.
//!
//! A few requests may also allocate memory of the kernel, as sockets and file systems do: unmovable blocks, which are
//! kept for a while and on average use a 32nd of memory. They are what fragments the memory of such a server for days.
//!
//! In a *day* memory is filled 2,500 times, roughly as often as on such a server in 24 hours at 60
//! Gbit/s. A time lapse has fewer turnovers in a day.

use framewright::frame::PAGEBLOCK_FRAMES;

pub(crate) use framewright_sim::process::Access;

/// The next page access of a program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Next {
    /// Number of the mapping.
    pub(crate) mapping: usize,
    /// Page of the mapping.
    pub(crate) page: u32,
    /// Kind of access.
    pub(crate) access: Access,
    /// Cycles of work with the page afterwards.
    pub(crate) then: u64,
}

/// Pages of an object: 128 KiB.
pub(crate) const OBJECT: u32 = 32;
/// Number of times that memory is filled in a day.
pub(crate) const DAY: u64 = 2_500;
/// Hours of a day.
pub const HOURS: u64 = 24;
/// Blocks of the kernel have one of the orders below this one: up to 32 KiB, as for network buffers and slabs.
pub(crate) const KERNEL_ORDERS: u8 = 4;

/// The parameters of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cdn {
    /// Size of the file, in multiples of memory.
    pub times: u32,
    /// Threads per CPU: parallel requests.
    pub threads: u16,
    /// Requests that store a new object, in percent.
    pub writes: u8,
    /// Duration in hundredths of a day.
    pub centidays: u32,
    /// Number of times that memory is filled in a day.
    pub turnovers: u64,
    /// Solid-state disks that store the file.
    pub disks: u32,
    /// One request in this number is for an object of the size of a huge page; 0: none.
    pub huge: u32,
    /// One request in this number allocates a block of the kernel; 0: none.
    pub kernel: u32,
    /// Seed of the requests.
    pub seed: u64,
}

/// Cycles that a thread takes to send a page to its client, or to receive one. Estimated; only
/// times depend on it.
pub(crate) const PER_PAGE: u64 = 4_000;

impl Cdn {
    /// One day of a server with 24 disks, a file of four times its memory, eight threads per CPU,
    /// and one request in twenty that stores.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let (centidays, turnovers) = (100, DAY);
        Self {
            times: 4,
            threads: 8,
            writes: 5,
            centidays,
            turnovers,
            disks: 24,
            huge: 0,
            kernel: 0,
            seed,
        }
    }

    /// Pages of its file on a machine of `frames` frames: whole objects.
    #[must_use]
    pub fn pages(&self, frames: u64) -> u32 {
        let pages = frames * u64::from(self.times);
        u32::try_from(pages).unwrap_or(u32::MAX) / OBJECT * OBJECT
    }

    /// Mean number of pages that are used until a large object expires, on a machine of `frames`
    /// frames. With it, these objects use an eighth of memory.
    #[must_use]
    pub fn kept_for(&self, frames: u64) -> u64 {
        const SHARE: u64 = 8;
        let objects = frames / SHARE / PAGEBLOCK_FRAMES as u64;
        objects * u64::from(self.huge) * u64::from(OBJECT)
    }

    /// Mean number of pages that are used until a block of the kernel is freed, on a machine of `frames` frames. With it,
    /// these blocks use a 32nd of memory.
    #[must_use]
    pub fn kernel_kept_for(&self, frames: u64) -> u64 {
        const SHARE: u64 = 32;
        let sizes: u64 = (0..KERNEL_ORDERS).map(|order| 1 << order).sum();
        let blocks = frames * u64::from(KERNEL_ORDERS) / SHARE / sizes;
        blocks * u64::from(self.kernel) * u64::from(OBJECT)
    }

    /// Hours of the run, at least one. A day has [`HOURS`].
    #[must_use]
    pub fn hours(&self) -> u64 {
        (u64::from(self.centidays) * HOURS).div_ceil(100).max(1)
    }

    /// Pages that are replaced in total, on a machine of `frames` frames.
    #[must_use]
    pub fn turned_over(&self, frames: u64) -> u64 {
        frames * self.turnovers * self.hours() / HOURS
    }
}

/// One thread of the server.
#[derive(Clone, Debug)]
pub(crate) struct Server {
    objects: u32,
    writes: u8,
    random: fastrand::Rng,
    /// The rest of the current request.
    object: u32,
    page: u32,
    access: Access,
    /// One request in this number is for a large object; 0: none.
    huge: u32,
    /// Whether a request for a large object is pending.
    asked_for_huge: bool,
    /// One request in this number allocates a block of the kernel; 0: none.
    kernel: u32,
    /// The order of a block of the kernel that a request needs.
    needs_kernel: Option<u8>,
}

impl Server {
    /// Thread `thread` of CPU `cpu`, of a server with a file of `pages` pages.
    pub(crate) fn new(work: &Cdn, cpu: u16, thread: u16, pages: u32) -> Self {
        let own = u64::from(cpu) << 16 | u64::from(thread);
        let seed = work.seed ^ own.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let random = fastrand::Rng::with_seed(seed);
        Self {
            objects: pages / OBJECT,
            writes: work.writes,
            random,
            object: 0,
            page: OBJECT,
            access: Access::Load,
            huge: work.huge,
            asked_for_huge: false,
            kernel: work.kernel,
            needs_kernel: None,
        }
    }

    /// Whether a request for a large object has arrived since the last call.
    pub(crate) fn take_huge(&mut self) -> bool {
        std::mem::take(&mut self.asked_for_huge)
    }

    /// The order of the block of the kernel that a request since the last call needs.
    pub(crate) fn take_kernel(&mut self) -> Option<u8> {
        self.needs_kernel.take()
    }

    /// The next page access.
    pub(crate) fn next(&mut self) -> Next {
        if self.page == OBJECT {
            self.accept();
        }
        let page = self.object * OBJECT + self.page;
        self.page += 1;
        Next { mapping: 0, page, access: self.access, then: PER_PAGE }
    }

    /// The next request. A new object replaces a random one; reads prefer popular objects: half of
    /// them are for an eighth of the objects.
    fn accept(&mut self) {
        self.asked_for_huge |= self.huge > 0 && self.random.u32(..self.huge) == 0;
        if self.kernel > 0 && self.random.u32(..self.kernel) == 0 {
            self.needs_kernel = Some(self.random.u8(..KERNEL_ORDERS));
        }
        let stores = self.random.u8(..100) < self.writes;
        self.access = if stores { Access::Store } else { Access::Load };
        let objects = u64::from(self.objects);
        self.object = if stores {
            self.random.u32(..self.objects)
        } else {
            let rank = self.rank();
            // Popular objects are distributed over the file.
            (u64::from(rank) * 2_654_435_761 % objects) as u32
        };
        self.page = 0;
    }

    /// The popularity rank of a random read: the cube of a random number. Integers give the same
    /// result on every machine.
    fn rank(&mut self) -> u32 {
        let one = u64::from(self.random.u32(..));
        let square = (one * one) >> 32;
        let cube = (square * one) >> 32;
        ((cube * u64::from(self.objects)) >> 32) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_the_reads_are_for_an_eighth_of_the_objects_and_some_requests_store() {
        let work = Cdn::new(7);
        let pages = work.pages(100_000);
        let objects = pages / OBJECT;
        let mut server = Server::new(&work, 0, 0, pages);
        let (mut stored, mut read) = (0, vec![0u32; objects as usize]);
        for _ in 0..100_000 {
            let next = server.next();
            assert!(next.page < pages && next.page.is_multiple_of(OBJECT));
            (1..OBJECT).for_each(|_| _ = server.next());
            match next.access {
                Access::Store => stored += 1,
                Access::Load => read[(next.page / OBJECT) as usize] += 1,
            }
        }
        assert!((4_000..6_000).contains(&stored), "{stored}");
        read.sort_unstable();
        let popular: u32 = read.iter().rev().take(objects as usize / 8).sum();
        let share = f64::from(popular) / f64::from(read.iter().sum::<u32>());
        assert!((0.45..0.6).contains(&share), "{share}");
    }

    #[test]
    fn some_requests_are_for_large_objects_if_enabled() {
        let asked = |huge| {
            let work = Cdn { huge, ..Cdn::new(7) };
            let mut server = Server::new(&work, 0, 0, work.pages(100_000));
            let requests = 10_000 * OBJECT;
            (0..requests).filter(|_| (server.next(), server.take_huge()).1).count()
        };
        assert_eq!(asked(0), 0);
        assert!((150..250).contains(&asked(50)), "{}", asked(50));
        // One request is 32 pages; eight pageblocks are an eighth of 64.
        let work = Cdn { huge: 100, ..Cdn::new(7) };
        assert_eq!(work.kept_for(64 << 9), 8 * 100 * u64::from(OBJECT));
    }

    #[test]
    fn some_requests_allocate_blocks_of_the_kernel_if_enabled() {
        let needed = |kernel| {
            let work = Cdn { kernel, ..Cdn::new(7) };
            let mut server = Server::new(&work, 0, 0, work.pages(100_000));
            let requests = 10_000 * OBJECT;
            (0..requests)
                .filter_map(|_| (server.next(), server.take_kernel()).1)
                .collect::<Vec<_>>()
        };
        assert!(needed(0).is_empty());
        let orders = needed(8);
        assert!((1_000..1_500).contains(&orders.len()), "{}", orders.len());
        assert_eq!(
            (orders.iter().min(), orders.iter().max()),
            (Some(&0), Some(&(KERNEL_ORDERS - 1)))
        );
        // A 32nd of 480 * 32 frames are 128 blocks of 3.75 frames.
        let work = Cdn { kernel: 8, ..Cdn::new(7) };
        assert_eq!(work.kernel_kept_for(480 * 32), 128 * 8 * u64::from(OBJECT));
    }

    #[test]
    fn threads_have_different_requests_that_repeat() {
        let work = Cdn::new(7);
        let asked = |cpu, thread| {
            let mut server = Server::new(&work, cpu, thread, 1 << 20);
            (0..5).map(|_| (0..OBJECT).map(|_| server.next()).next_back()).collect::<Vec<_>>()
        };
        assert_eq!(asked(1, 2), asked(1, 2));
        assert_ne!(asked(1, 2), asked(2, 1));
    }
}

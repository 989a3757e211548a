//! The trait that every measured allocator implements.

use crate::list_buddy::MigrateType;

/// A frame allocator under measurement: shared by all threads, used through one [`Worker`] per
/// thread.
pub trait Peer: Sync + Sized {
    /// The row's name in tables.
    const NAME: &'static str;
    /// Whether it merges neighbouring free frames into larger blocks as they are freed, so that
    /// any order can be served again. Only merging allocators are ranked against each other.
    const MERGES: bool;
    /// The largest order it serves.
    const MAX_ORDER: u8;

    /// One thread's handle.
    type Worker<'a>: Worker
    where
        Self: 'a;

    /// An allocator over `frames` free frames, numbered from 0, for CPUs `0..cpus`.
    ///
    /// # Panics
    ///
    /// If it cannot manage that many frames or CPUs.
    fn new(frames: u64, cpus: usize) -> Self;

    /// The handle of CPU `cpu`, to be used on the thread that calls. At most one per CPU lives
    /// at any time.
    ///
    /// # Panics
    ///
    /// If there is no such CPU, or its handle is in use (where the allocator can tell).
    fn worker(&self, cpu: usize) -> Self::Worker<'_>;

    /// Memory that it needs for its bookkeeping, without per-CPU lists.
    fn metadata(&self) -> Metadata;

    /// Bytes of all its per-CPU lists together; 0 if it has none.
    fn cpu_list_bytes(&self) -> usize;

    /// Gives all frames on per-CPU lists back to the shared structure; says whether the allocator
    /// offers that.
    fn drain(&self) -> bool {
        false
    }
}

/// One thread's handle on a [`Peer`].
pub trait Worker {
    /// Takes 2^`order` naturally aligned frames; the number of the first, or `None` if there is
    /// no such block.
    fn alloc(&mut self, order: u8) -> Option<u64>;

    /// As [`alloc`](Worker::alloc), for contents of this kind. Allocators without migratetypes ignore
    /// it; for the others `alloc` is for movable contents.
    #[inline]
    fn alloc_typed(&mut self, order: u8, _migratetype: MigrateType) -> Option<u64> {
        self.alloc(order)
    }

    /// Says that the calling thread acts for this worker's CPU from now on. Needed only by a thread
    /// that has the workers of several CPUs.
    #[inline]
    fn resume(&mut self) {}

    /// Gives them back.
    ///
    /// # Safety
    ///
    /// `frame` came from an `alloc` of the same order by a worker of the same peer, and has not
    /// been given back since. (Some allocators trust this with their own memory.)
    unsafe fn free(&mut self, frame: u64, order: u8);
}

/// The size of an allocator's bookkeeping, and how it is known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Metadata {
    /// Bytes for all managed frames, without per-CPU lists.
    pub bytes: usize,
    /// Where the number comes from.
    pub how: &'static str,
}

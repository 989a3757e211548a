//! The traits that every measured allocator implements.

use crate::list_buddy::MigrateType;

/// A frame allocator under measurement: shared by all threads, used through one [`Worker`] per
/// thread.
pub trait Peer: Sync + Sized {
    /// The name in tables and reports.
    const NAME: &'static str;
    /// Whether it merges neighbouring free frames into larger blocks as they are freed, so that
    /// blocks of any order can be allocated again. Only merging allocators are ranked against each
    /// other.
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
    /// If there is no such CPU, or its handle is in use (if the allocator detects this).
    fn worker(&self, cpu: usize) -> Self::Worker<'_>;

    /// Size of its metadata, without per-CPU lists.
    fn metadata(&self) -> Metadata;

    /// Bytes of all its per-CPU lists together; 0 if it has none.
    fn cpu_list_bytes(&self) -> usize;

    /// Gives all frames on per-CPU lists back to the shared structure. Returns whether the
    /// allocator has this operation.
    fn drain(&self) -> bool {
        false
    }
}

/// One thread's handle on a [`Peer`].
pub trait Worker {
    /// Takes 2^`order` naturally aligned frames. Returns the number of the first, or `None` if
    /// there is no such block.
    fn alloc(&mut self, order: u8) -> Option<u64>;

    /// As [`alloc`](Worker::alloc), for contents of this migratetype. Allocators without
    /// migratetypes ignore it; for the others `alloc` allocates movable memory.
    #[inline]
    fn alloc_typed(&mut self, order: u8, _migratetype: MigrateType) -> Option<u64> {
        self.alloc(order)
    }

    /// Declares that the calling thread acts for this worker's CPU from now on. Only needed by a
    /// thread with the workers of several CPUs.
    #[inline]
    fn resume(&mut self) {}

    /// Frees 2^`order` frames.
    ///
    /// # Safety
    ///
    /// `frame` came from an `alloc` of the same order by a worker of the same peer, and was not
    /// freed since. (Some allocators rely on this for the safety of their own memory.)
    unsafe fn free(&mut self, frame: u64, order: u8);
}

/// The size of an allocator's metadata, and the source of the number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Metadata {
    /// Bytes for all managed frames, without per-CPU lists.
    pub bytes: usize,
    /// The source of the number.
    pub how: &'static str,
}

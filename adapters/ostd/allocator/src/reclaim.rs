//! Reclaim: when memory runs short, the library evicts pages of the kernel's page cache.
//!
//! The kernel names the owner of its pages once ([`set_owner`]), and adds each page of the cache to
//! the LRU lists ([`framewright::Memory::lru`]). OSTD's counts of references decide whether a page
//! is in use: a page is evicted only if the owner has its last reference. Pages are reclaimed by
//! requests that find too little memory. So while the owner allocates, it must not hold any lock
//! that its methods ([`Owner::lock`] and the others) take.

use alloc::sync::Arc;
use core::mem;

use framewright::{
    Pfn, ZoneId,
    platform::{Need, Pause, Relief},
    reclaim::{PageOwner, PageState, Reclaim, Reference, Released, Shadow, Unmapped, WriteOut},
    tlb::{NoShootdown, Unmapping},
};
use ostd::{
    mm::{
        HasPaddr, PAGE_SIZE, Paddr, UniqueFrame,
        frame::{GlobalFrameAllocator, meta::AnyFrameMeta},
    },
    sync::{LocalIrqDisabled, SpinLock},
};

use crate::{FRAMES, FrameAllocator, machine::Machine};

/// The owner of the pages on the LRU lists. No page table maps them. No method may allocate memory.
///
/// Reclaim locks a page, asks for its contents to be written if the page is dirty, and then releases it or unlocks it.
pub trait Owner: Send + Sync {
    /// Tries to lock the page in the frame at `addr`, without waiting. `None` if it is locked, or is no page of the cache.
    fn lock(&self, addr: Paddr) -> Option<PageState>;

    /// Unlocks a locked page.
    fn unlock(&self, addr: Paddr);

    /// Writes a locked page to its store.
    fn write_out(&self, addr: Paddr) -> WriteOut;

    /// Removes a locked page from the cache, unless it is dirty or has other users. The shadow takes its place, for
    /// [`Lru::add_refaulted`](framewright::reclaim::Lru::add_refaulted) when the page is read again.
    fn release(&self, addr: Paddr, shadow: Shadow) -> Option<Evicted>;
}

/// A frame without a user: proof that an owner has given it up. Freed when it is dropped.
#[derive(Debug)]
pub struct Evicted(Paddr);

impl<M: AnyFrameMeta> From<UniqueFrame<M>> for Evicted {
    fn from(frame: UniqueFrame<M>) -> Self {
        let addr = frame.paddr();
        frame.reset_as_unused();
        Self(addr)
    }
}

impl Drop for Evicted {
    fn drop(&mut self) {
        FrameAllocator.dealloc(self.0, PAGE_SIZE);
    }
}

static OWNER: SpinLock<Option<Arc<dyn Owner>>, LocalIrqDisabled> = SpinLock::new(None);

/// Names the owner of all pages on the LRU lists. With `None`, no page is reclaimed.
pub fn set_owner(owner: Option<Arc<dyn Owner>>) {
    // The former owner is dropped after the lock.
    let _former = mem::replace(&mut *OWNER.lock(), owner);
}

/// Calls `work` with the reclaim of this memory, if there is an owner of pages.
fn with_reclaim<R>(work: impl FnOnce(Reclaim<'_, 'static, Machine>) -> R) -> Option<R> {
    let owner = OWNER.lock().clone();
    let pages = Pages(owner?);
    // SAFETY: `Pages` releases only frames of this memory, and they are not mapped.
    #[expect(unsafe_code)]
    let reclaim = unsafe { Reclaim::new(FRAMES.memory().ok()?, &pages, &NoShootdown) }?;
    Some(work(reclaim))
}

/// Reclaim as the allocator calls it.
pub(crate) struct OwnerRelief;

impl Relief for OwnerRelief {
    fn reclaim(&self, need: &Need, frames: u64) -> u64 {
        with_reclaim(|reclaim| reclaim.direct(need, frames)).unwrap_or(0)
    }

    fn reclaimable(&self, zone: ZoneId) -> Option<u64> {
        with_reclaim(|reclaim| reclaim.reclaimable(zone))
    }

    fn pause(&self, pause: &Pause<'_>) {
        let end = crate::machine::nanoseconds() + pause.at_most();
        while !pause.is_over() && crate::machine::nanoseconds() < end {
            core::hint::spin_loop();
        }
    }
}

/// Passes the calls of the library to the owner, page by page.
struct Pages(Arc<dyn Owner>);

/// Stores the answer of `ask` for each frame.
fn answer<A>(frames: &[Pfn], out: &mut [A], ask: impl Fn(Paddr) -> A) {
    for (pfn, out) in frames.iter().zip(out) {
        *out = ask(pfn.address() as Paddr);
    }
}

// SAFETY: `release` gets an `Evicted` for each frame that it releases: a frame that was allocated from this memory, of
// which OSTD had the last reference. All such frames are blocks of order 0. No page is mapped.
#[expect(unsafe_code)]
unsafe impl PageOwner<Machine> for Pages {
    fn lock(&self, frames: &[Pfn], out: &mut [Option<PageState>]) {
        // The owner promises that no page is mapped.
        answer(frames, out, |addr| Some(PageState { mapped: false, ..self.0.lock(addr)? }));
    }

    fn unlock(&self, frames: &[Pfn]) {
        frames.iter().for_each(|pfn| self.0.unlock(pfn.address() as Paddr));
    }

    fn referenced(&self, _: &[Pfn], out: &mut [Reference]) {
        out.fill(Reference::default());
    }

    fn unmap(&self, _: &[Pfn], _: &mut Unmapping<'_, '_, '_, Machine>, out: &mut [Unmapped]) {
        out.fill(Unmapped::StillMapped);
    }

    fn write_out(&self, frames: &[Pfn], out: &mut [WriteOut]) {
        answer(frames, out, |addr| self.0.write_out(addr));
    }

    fn release(&self, frames: &[Pfn], shadows: &[Shadow], out: &mut [Released]) {
        for ((pfn, shadow), out) in frames.iter().zip(shadows).zip(out) {
            let addr = pfn.address() as Paddr;
            *out = match self.0.release(addr, *shadow) {
                Some(evicted) if evicted.0 == addr => {
                    // The library frees the frame.
                    mem::forget(evicted);
                    Released::Released
                }
                _ => Released::Busy,
            };
        }
    }
}

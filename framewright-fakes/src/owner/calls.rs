//! The traits through which the library calls a [`FakeOwner`]: `PageOwner`, and `Shootdown` for a
//! machine with TLBs.

use std::sync::atomic::Ordering;

use framewright::{
    CpuId, Pfn,
    reclaim::{
        FreedBy, PageKind, PageOwner, PageState, Reference, Released, Shadow, Unmapped, WriteError,
        WriteOut,
    },
    tlb::{CpuMask, Scope, Shootdown, Translation, Unmapping},
};

use super::{FakeOwner, OTHER, Pages, StoreBehavior};
use crate::TracedPlatform;

impl FakeOwner {
    fn each<A>(&self, frames: &[Pfn], out: &mut [A], mut answer: impl FnMut(&mut Pages, Pfn) -> A) {
        self.assert_no_lock();
        assert_eq!(frames.len(), out.len());
        let mut pages = self.pages();
        for (&pfn, slot) in frames.iter().zip(out) {
            *slot = answer(&mut pages, pfn);
        }
    }
}

impl FakeOwner {
    /// Truncates a page that reclaim has isolated, like a thread that holds the lock of the page.
    /// Does nothing if the page is in use, or if the TLB of a CPU may have an entry for it.
    fn truncate_isolated(&self, pages: &mut Pages, pfn: Pfn) {
        let Some(page) = pages.resident.get(&pfn) else { return };
        if page.maps > 0 || page.writeback || page.references > 0 || pages.cached.contains(&pfn) {
            return;
        }
        let id = page.id;
        pages.resident.remove(&pfn);
        pages.forget(id);
        // SAFETY: the page was added as a block of order 0, and nothing refers to it any more.
        assert_eq!(unsafe { self.lru().abandon(pfn) }, FreedBy::Isolator);
    }
}

// SAFETY: pages are added as blocks of order 0, and removed when they are released.
unsafe impl PageOwner<TracedPlatform> for FakeOwner {
    fn lock(&self, frames: &[Pfn], out: &mut [Option<PageState>]) {
        self.each(frames, out, |pages, pfn| {
            pages.locks += 1;
            if pages.contention > 0 && pages.locks % pages.contention == 0 {
                self.truncate_isolated(pages, pfn);
                return None;
            }
            let page = pages.resident.get_mut(&pfn)?;
            assert!(!page.locked, "the page is locked twice");
            page.locked = true;
            Some(PageState {
                mapped: page.maps > 0,
                dirty: page.dirty,
                writeback: page.writeback,
                unevictable: page.unevictable,
                pinned: page.pinned,
            })
        });
    }

    fn unlock(&self, frames: &[Pfn]) {
        self.assert_no_lock();
        let mut pages = self.pages();
        for &pfn in frames {
            let page = pages.page(pfn);
            assert!(page.locked, "the page is not locked");
            page.locked = false;
            let is_pending = pages.cached.contains(&pfn);
            assert!(!is_pending, "a CPU has stale entries of a page that can be mapped again");
        }
    }

    fn referenced(&self, frames: &[Pfn], out: &mut [Reference]) {
        self.each(frames, out, |pages, pfn| {
            let Some(page) = pages.resident.get_mut(&pfn) else {
                return Reference { contended: true, ..Reference::default() };
            };
            let young = std::mem::take(&mut page.young);
            Reference {
                young,
                executable: page.executable,
                locked: page.unevictable,
                contended: false,
            }
        });
    }

    fn unmap(
        &self,
        frames: &[Pfn],
        batch: &mut Unmapping<'_, '_, '_, TracedPlatform>,
        out: &mut [Unmapped],
    ) {
        let cpus = [OTHER].into_iter().collect::<CpuMask>();
        let mut removed = Vec::new();
        self.each(frames, out, |pages, pfn| {
            let full = pages.behavior == StoreBehavior::Full;
            let page = pages.page(pfn);
            assert!(page.locked && page.maps > 0, "unmaps a page that is not locked or not mapped");
            if page.references > 2 {
                return Unmapped::StillMapped;
            }
            if page.kind == PageKind::Anon && full {
                return Unmapped::StoreFull;
            }
            let dirty = std::mem::take(&mut page.pte_dirty);
            page.dirty |= dirty;
            page.maps = 0;
            removed.push((pfn, dirty));
            let answer = Unmapped::Removed { dirty: page.dirty };
            pages.cached.insert(pfn);
            if dirty {
                pages.cached_dirty.insert(pfn);
            }
            answer
        });
        for (pfn, dirty) in removed {
            let translation = Translation {
                cpus: &cpus,
                writable: dirty,
                dirty,
                space: 1,
                page: pfn.get(),
                space_flush: &self.space_flush,
                file_flush: None,
            };
            batch.add(pfn, &translation);
        }
    }

    fn write_out(&self, frames: &[Pfn], out: &mut [WriteOut]) {
        self.each(frames, out, |pages, pfn| {
            assert!(!pages.cached_dirty.contains(&pfn), "writes a page to which a CPU may store");
            let behavior = pages.behavior;
            let page = pages.page(pfn);
            assert!(
                page.locked && page.dirty && !page.writeback,
                "writes a page that is clean or not locked"
            );
            assert_eq!(page.maps, 0, "writes a mapped page");
            let (id, version) = (page.id, page.version);
            match behavior {
                StoreBehavior::Prompt => {
                    page.dirty = false;
                    pages.store.insert(id, version);
                    WriteOut::Done
                }
                StoreBehavior::Slow | StoreBehavior::FailsLate => {
                    page.dirty = false;
                    page.writeback = true;
                    pages.writes.push_back((pfn, id, version, behavior == StoreBehavior::Slow));
                    WriteOut::Started
                }
                StoreBehavior::Busy => WriteOut::Refused,
                StoreBehavior::Fails => WriteOut::Failed(WriteError::Io),
                StoreBehavior::Full => WriteOut::Failed(WriteError::NoSpace),
            }
        });
    }

    fn release(&self, frames: &[Pfn], shadows: &[Shadow], out: &mut [Released]) {
        let mut shadows = shadows.iter();
        self.each(frames, out, |pages, pfn| {
            let shadow = *shadows.next().expect("as many shadows as frames");
            let page = pages.page(pfn);
            assert!(page.locked && !page.pinned, "releases a page that is pinned or not locked");
            if page.references > 0 || page.maps > 0 || page.writeback {
                return Released::Busy;
            }
            if page.dirty {
                return Released::Dirty;
            }
            let id = page.id;
            pages.resident.remove(&pfn);
            pages.place.remove(&id);
            pages.shadows.insert(id, shadow);
            Released::Released
        });
    }

    fn can_swap(&self) -> bool {
        self.pages().swap
    }

    fn has_writers(&self) -> bool {
        self.pages().writers
    }

    fn wake_writers(&self) {
        self.assert_no_lock();
        self.note("wake writers");
    }
}

impl Shootdown for FakeOwner {
    fn clean_stores_fault(&self) -> bool {
        true
    }

    fn has_local_flush(&self) -> bool {
        self.has_local_flush.load(Ordering::Relaxed)
    }

    fn invalidate(&self, _: CpuId, scope: Scope) {
        let mut pages = self.pages();
        let hit = |pfn: &Pfn| match scope {
            Scope::Everything => true,
            Scope::Pages { first, pages, .. } => {
                pfn.get() >= first && pfn.get() < first + u64::from(pages)
            }
        };
        pages.cached.retain(|pfn| !hit(pfn));
        pages.cached_dirty.retain(|pfn| !hit(pfn));
    }

    fn interrupt(&self, _: CpuId, targets: &CpuMask) {
        self.note("interrupt");
        let meanwhile = self.meanwhile.lock().unwrap().take();
        meanwhile.into_iter().for_each(|act| act(self));
        for cpu in targets.iter() {
            self.flusher(cpu).serve();
        }
    }
}

//! The library's [`Mover`] on hardware: migration of pages of programs and of files.
//!
//! A claim isolates a page from the LRU lists. If the page is freed meanwhile, the end of the claim
//! frees the frame. The page-table entry of a program's page becomes a migration entry: faults on
//! the page and unmappings of it wait. A page of a file is locked, as for reclaim.

#![allow(unsafe_code)]

use framewright::{
    FrameRange, Pfn,
    migrate::{self, ClaimEnd, Claims, Effort, Locking, Move},
    reclaim::{Lru, PageKind},
    tlb::{Flushed, Translation, Unmapping},
};

use crate::{
    cpu::this_cpu,
    file::moving as file,
    memory::memory,
    platform::Machine,
    rmap::{self, Mapping},
    wait::{self, Event},
};

/// The kernel's mover of pages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mover;

fn lists() -> Lru<'static, 'static, Machine> {
    memory().lru().expect("the memory has lists for reclaim")
}

/// Replaces the entry of a program's page by a migration entry. `None` if the page is not mapped.
fn begin(pfn: Pfn, batch: &mut Unmapping<'_, '_, '_, Machine>) -> Option<()> {
    let (space, page, slot) = rmap::place_of(pfn)?;
    let entry = slot.begin_move(pfn)?;
    let cpus = space.advance();
    let translation = Translation {
        cpus: &cpus,
        writable: entry.is_writable(),
        dirty: entry.is_dirty(),
        space: space.number().into(),
        page,
        space_flush: space.deferred_flush(),
        file_flush: None,
    };
    batch.add(pfn, &translation);
    Some(())
}

/// Ends the migration of a page of a program: it is mapped to `to`, its old frame or a new one.
fn end(pfn: Pfn, to: Pfn) {
    let mapping = rmap::place_of(pfn);
    debug_assert!(mapping.is_some(), "an address space ends after its migrations");
    if let Some((_, _, slot)) = mapping {
        slot.end_move(pfn, to);
    }
}

/// Removes a page whose claim ends from the LRU lists.
fn leave_lists(lru: &Lru<'_, '_, Machine>, pfn: Pfn) {
    // SAFETY: the page was migrated, and all translations to its old frame were flushed, so the
    // frame has no users. The claim, which ends here, has isolated the page.
    let listed = unsafe {
        let _ = lru.abandon(pfn);
        lru.put_back(pfn)
    };
    debug_assert!(!listed, "an abandoned page was put back");
}

// SAFETY: pages on the lists were allocated as blocks of order 0, and stay allocated while they are
// isolated: a free of such a page leaves its frame to the claim. No entry maps an unmapped page,
// and code that finds a migration entry waits. After a migration, entries and the words of files
// have only the new frame.
unsafe impl migrate::Mover<Machine> for Mover {
    fn claim(&self, frames: FrameRange, _: &Effort, claims: &mut Claims<'_>) -> ClaimEnd {
        let lru = lists();
        claims.take_pages(frames, |pfn| match lru.list_of(pfn) {
            Some(list) if file::may_claim(list) && lru.isolate(pfn) => {
                file::note_list(pfn, list);
                true
            }
            _ => false,
        });
        ClaimEnd::Done
    }

    fn unmap(
        &self,
        moves: &mut [Move],
        effort: &Effort,
        locking: Locking,
        batch: &mut Unmapping<'_, '_, '_, Machine>,
    ) {
        for at in moves {
            if !file::unmap(at, (effort.mode, locking), batch) {
                match begin(at.from(), batch) {
                    Some(()) => at.set_unmapped(),
                    None => at.set_refused(),
                }
            }
        }
    }

    fn remap(&self, moves: &mut [Move], _: &Effort, _: &Flushed<'_>) {
        let (lru, cpu) = (lists(), this_cpu().id);
        for at in moves {
            let (from, to) = (at.from(), at.to());
            let active = file::clear_list(from);
            let of_file = file::relocate(from, to);
            leave_lists(&lru, from);
            // Reclaim must know the page before the page can be freed.
            if of_file {
                lru.add(cpu, to, PageKind::File);
                if active {
                    lru.activate(cpu, to);
                }
                file::unlock_moved(from, to);
            } else {
                lru.add(cpu, to, PageKind::Anon);
                if let Some(mapping) = Mapping::of(from) {
                    mapping.record(to);
                }
                end(from, to);
            }
            at.set_moved();
        }
        wait::wake(Event::SERVED);
    }

    fn undo(&self, moves: &[Move]) {
        for at in moves {
            if !file::unlock_if_of_file(at.from(), at.to()) {
                end(at.from(), at.from());
            }
        }
        wait::wake(Event::SERVED);
    }

    fn release(&self, moves: &mut [Move]) {
        let lru = lists();
        for at in moves {
            file::clear_list(at.from());
            // SAFETY: the claim, which ends here, has isolated the page.
            if !unsafe { lru.put_back(at.from()) } {
                at.set_gone();
            }
        }
    }
}

//! The mover for compaction: claims and moves pages.
//!
//! A claimed page is isolated from the LRU lists. An owner that releases a claimed page marks it,
//! and the end of the claim frees the frame.

#![allow(unsafe_code)]

use framewright::{
    FrameRange, Pfn,
    migrate::{ClaimEnd, Claims, Effort, Locking, MigrateMode, Move, Mover},
    reclaim::{Lru, LruList, PageKind},
    tlb::{Flushed, Unmapping},
};

use super::{
    files::FileId,
    frames::{ACTIVE, CLAIMED, Frame, GONE, Holds, LOCKED, UNMAPPED, WRITEBACK},
    kernel::{State, pfn},
    world::{OnCpu, World},
};

/// One page in this number has an extra reference for a while, and does not move meanwhile. Of the
/// pages whose migration starts, 1.2 % do not move after all tries (Linux 6.1, measured). Failures
/// because there were no target frames are not part of this figure.
const BUSY: u64 = 80;
/// The time for which a page has such a reference, in nanoseconds. Estimated: longer than all tries
/// of a migration.
const HELD_NS: u64 = 10_000_000;
/// Neighbouring frames that have such references together: pages that were read from a file or
/// added to a list in a row are neighbours. Estimated.
const HELD_TOGETHER: u64 = 2;

/// Phases in which references begin: not all begin at the same time.
const MOMENTS: u64 = 16;

/// Whether the page in a frame has such a reference in this phase. The choice depends on the seed.
fn is_held(seed: u64, pfn: Pfn, moment: u64) -> bool {
    let page = mix(seed ^ (pfn.get() / HELD_TOGETHER));
    mix(page ^ ((moment + page % MOMENTS) / MOMENTS)).is_multiple_of(BUSY)
}

/// Distributes differences between numbers over all their bits (the finaliser of splitmix64).
const fn mix(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

/// The mover of the workload.
pub(super) struct Moves<'o, 'm, W: World> {
    state: &'o State<'m, W>,
    lru: Lru<'o, 'm, W::Platform>,
    world: &'o W,
}

impl<'o, 'm, W: World> Moves<'o, 'm, W> {
    pub(super) fn new(
        state: &'o State<'m, W>,
        lru: Lru<'o, 'm, W::Platform>,
        world: &'o W,
    ) -> Self {
        Self { state, lru, world }
    }

    fn frame(&self, pfn: Pfn) -> &'o Frame {
        self.state.frames.at(pfn.get() as u32)
    }

    fn cpu(&self) -> W::Cpu {
        self.world.current().expect("pages move on a CPU")
    }

    /// Whether a page has an extra reference now.
    fn is_held(&self, cpu: W::Cpu, pfn: Pfn) -> bool {
        let moment = cpu.now() / self.world.ticks(HELD_NS / MOMENTS);
        is_held(self.state.seed, pfn, moment)
    }

    /// Claims the movable pages of some frames.
    fn claim_each(&self, frames: FrameRange, effort: &Effort, claims: &mut Claims<'_>) {
        let cpu = self.cpu();
        cpu.step();
        claims.take_pages(frames, |pfn| {
            cpu.work(self.state.costs.look);
            self.claim_one(pfn, effort.mode)
        });
    }

    /// Claims a page if that is possible now. A page under writeback is claimed only if the claim
    /// may wait.
    fn claim_one(&self, pfn: Pfn, mode: MigrateMode) -> bool {
        let frame = self.frame(pfn);
        let claimed = match frame.holds() {
            _ if frame.is(CLAIMED | LOCKED | GONE) => false,
            _ if frame.is(WRITEBACK) && mode != MigrateMode::Sync => false,
            Holds::Anonymous { .. } | Holds::Cached { .. } => self.isolate(pfn),
            _ => false,
        };
        if claimed {
            frame.mark(CLAIMED);
        }
        claimed
    }

    /// Isolates a page from the LRU lists for its claim.
    fn isolate(&self, pfn: Pfn) -> bool {
        let is_active =
            matches!(self.lru.list_of(pfn), Some(LruList::ActiveAnon | LruList::ActiveFile));
        let isolated = self.lru.isolate(pfn) && self.is_still_there(pfn);
        if isolated && is_active {
            self.frame(pfn).mark(ACTIVE);
        }
        isolated
    }

    /// Whether an isolated page can be claimed. If its file was truncated meanwhile, the page
    /// belongs to the truncating CPU until that CPU abandons it. After that, the frame belongs to
    /// the claim.
    fn is_still_there(&self, pfn: Pfn) -> bool {
        let frame = self.frame(pfn);
        if frame.holds() != Holds::Nothing {
            return true;
        }
        // SAFETY: this call has isolated the page, for this claim.
        let theirs = unsafe { self.lru.put_back(pfn) };
        if !theirs {
            frame.mark(GONE);
        }
        !theirs
    }

    /// Removes a page whose claim ends from the LRU lists for good, if it is on them.
    fn leave_lists(&self, pfn: Pfn) {
        // SAFETY: the claim, which ends here, has isolated the page, and its old frame has no users
        // any more.
        let theirs = unsafe {
            let _ = self.lru.abandon(pfn);
            self.lru.put_back(pfn)
        };
        debug_assert!(!theirs, "an abandoned page was put back");
    }

    /// Ends the claim of a page that its owner has released: the frame goes to the library.
    fn release_gone(&self, at: &mut Move, frame: &Frame) {
        if frame.holds() != Holds::Nothing {
            self.leave_lists(at.from());
        }
        frame.clear();
        at.set_gone();
    }

    fn unmap_one(
        &self,
        at: &mut Move,
        effort: &Effort,
        batch: &mut Unmapping<'_, '_, '_, W::Platform>,
    ) {
        let (cpu, frame) = (self.cpu(), self.frame(at.from()));
        if frame.is(GONE) {
            return self.release_gone(at, frame);
        }
        cpu.work(self.state.costs.unmap);
        if frame.is(WRITEBACK) && effort.mode != MigrateMode::Sync {
            return at.set_refused();
        }
        if frame.is(WRITEBACK) || self.is_held(cpu, at.from()) {
            return at.set_busy();
        }
        if let Holds::Anonymous { builder, index } = frame.holds()
            && !frame.is(UNMAPPED)
        {
            let space = &self.state.programs[builder as usize].space;
            self.world.unmap(cpu, space, index, at.from(), batch);
        }
        frame.mark(LOCKED);
        at.set_unmapped();
    }

    fn release_one(&self, at: &mut Move) {
        let frame = self.frame(at.from());
        if frame.is(GONE) {
            return self.release_gone(at, frame);
        }
        frame.unmark(CLAIMED | ACTIVE);
        // SAFETY: the claim, which ends here, has isolated the page.
        if !unsafe { self.lru.put_back(at.from()) } {
            // Only a page that was abandoned while it was claimed gets here. Owners mark claimed
            // pages as gone instead, so this does not happen.
            frame.clear();
            at.set_gone();
        }
    }

    fn remap_one(&self, at: &mut Move) {
        let (cpu, frame) = (self.cpu(), self.frame(at.from()));
        if frame.is(GONE) {
            return at.set_refused();
        }
        cpu.work(self.state.costs.map);
        let (from, to) = (at.from(), at.to().get() as u32);
        let holds = frame.holds();
        let flags = frame.flags() & !(CLAIMED | LOCKED | ACTIVE);
        self.state.frames.at(to).set(holds, flags);
        let kind = match holds {
            Holds::Anonymous { builder, index } => {
                self.state.programs[builder as usize].pages.borrow_mut()[index as usize] = to;
                PageKind::Anon
            }
            Holds::Cached { file, index } => {
                self.state.files.relocate(FileId(file), index, to);
                PageKind::File
            }
            _ => unreachable!("a page that moves is a program's or a file's"),
        };
        let active = frame.is(ACTIVE);
        frame.clear();
        self.leave_lists(from);
        self.lru.add(cpu.id(), pfn(to), kind);
        if active {
            self.lru.activate(cpu.id(), pfn(to));
        }
        self.world.has_moved(from.get() as u32, to);
        at.set_moved();
    }
}

// SAFETY: every claimed page was allocated as a block of order 0. A flag of the frame records the
// claim, and an owner that releases a claimed page leaves its frame to the end of the claim.
// Programs access their pages by frame numbers, which are updated here.
unsafe impl<W: World> Mover<W::Platform> for Moves<'_, '_, W> {
    fn claim(&self, frames: FrameRange, effort: &Effort, claims: &mut Claims<'_>) -> ClaimEnd {
        self.world.with_lock(|| self.claim_each(frames, effort, claims));
        ClaimEnd::Done
    }

    fn unmap(
        &self,
        moves: &mut [Move],
        effort: &Effort,
        _: Locking,
        batch: &mut Unmapping<'_, '_, '_, W::Platform>,
    ) {
        self.world.with_lock(|| moves.iter_mut().for_each(|at| self.unmap_one(at, effort, batch)));
    }

    fn remap(&self, moves: &mut [Move], _: &Effort, _: &Flushed<'_>) {
        self.world.with_lock(|| moves.iter_mut().for_each(|at| self.remap_one(at)));
    }

    fn undo(&self, moves: &[Move]) {
        self.world.with_lock(|| moves.iter().for_each(|at| self.frame(at.from()).unmark(LOCKED)));
    }

    fn release(&self, moves: &mut [Move]) {
        self.world.with_lock(|| moves.iter_mut().for_each(|at| self.release_one(at)));
    }
}

#[cfg(test)]
mod steps;
#[cfg(test)]
mod tests {
    use super::*;

    const FRAMES: u64 = 1 << 18;

    fn held(seed: u64, moment: u64) -> Vec<u64> {
        (0..FRAMES).filter(|&frame| is_held(seed, Pfn::new(frame), moment)).collect()
    }

    #[test]
    fn the_number_of_held_pages_is_as_drawn_and_depends_on_the_seed() {
        let (one, other) = (held(1, 1000), held(2, 1000));
        let expected = FRAMES / BUSY;
        for held in [&one, &other] {
            assert!((expected * 9 / 10..expected * 11 / 10).contains(&(held.len() as u64)));
        }
        let both = one.iter().filter(|frame| other.contains(frame)).count() as u64;
        assert!(both < 3 * expected / BUSY, "{both}");
        // Neighbouring pairs of frames, and pairs that are held again.
        let again = held(1, 1000 + MOMENTS);
        let again = one.iter().filter(|frame| again.contains(frame)).count() as u64;
        let beside =
            one.iter().filter(|&&frame| one.contains(&(frame + HELD_TOGETHER))).count() as u64;
        for count in [again, beside] {
            assert!(
                (expected / BUSY / 3..3 * expected / BUSY).contains(&count),
                "{again} {beside}"
            );
        }
        // Pageblocks differ as random draws do: the variance of a count of pairs is about the count
        // itself.
        let pairs = |block: u64| {
            one.iter().filter(|&&at| at / 512 == block).count() as f64 / HELD_TOGETHER as f64
        };
        let counts: Vec<f64> = (0..FRAMES / 512).map(pairs).collect();
        let mean = counts.iter().sum::<f64>() / counts.len() as f64;
        let variance =
            counts.iter().map(|count| (count - mean).powi(2)).sum::<f64>() / counts.len() as f64;
        assert!((0.75..1.3).contains(&(variance / mean)), "{variance} of {mean}");
    }

    #[test]
    fn pages_are_held_for_the_given_time_and_start_at_different_times() {
        let held: Vec<Vec<u64>> = (0..=MOMENTS).map(|moment| held(7, 1000 + moment)).collect();
        let kept = |later: usize| held[0].iter().filter(|at| held[later].contains(at)).count();
        assert!(kept(1) > held[0].len() * 3 / 4 && kept(MOMENTS as usize) < held[0].len() / 10);
        assert!((1..held.len()).all(|moment| held[moment] != held[moment - 1]));
    }
}

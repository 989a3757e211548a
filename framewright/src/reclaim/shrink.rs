//! Shrinking an inactive list: from isolation to free frames.
//!
//! A cluster of pages passes the phases below in this order, which is the contract with the
//! [`PageOwner`](super::PageOwner). A page that fails a phase is put back: on its list (*keep*), or
//! on the active list (*activate*), so that it is not scanned again soon.
//!
//! | phase | operation | if a page fails |
//! |---|---|---|
//! | 1 | lock | locked by others: keep; locked into memory: to the unevictable list |
//! | 2, 3 | check writeback | under writeback: activate, and reclaim when it is written |
//! | 4 | check references | used since the last scan: keep once, then activate |
//! | 7 | unmap, into the flush batch | still mapped: activate |
//! | 8 | check pins | pinned by a device: activate |
//! | 9 | write dirty pages, after a flush | in writeback, used once, write forbidden: keep; else activate |
//! | 11 | release: no references, then clean | keep |
//! | 12 | retire to the flush batch; if it is full: flush, free | |
//!
//! The phases are numbered as in Linux. Phases 5, 6 and 10 have no counterpart: there is no
//! demotion, and the owner assigns places in the swap area while it unmaps, and drops private data
//! while it releases.

use crate::{
    observe::NodeStat,
    platform::{Cost, Platform, Site},
    types::{PageKind, set::bits},
};

use super::{
    PageState, Reclaim, Released, Shadow, Unmapped, WriteOut,
    cluster::{Cluster, Pages, count, part},
    flags::Flags,
    references::{ReferenceCheck, check_reference},
    retire::Retire,
    scan::{ReclaimStat, Reclaimer, ScanControl},
};

/// A cluster in the phases of reclaim. Each set contains the pages to which its name applies.
struct Pass<'p> {
    scan: &'p ScanControl,
    cluster: &'p Cluster,
    kind: PageKind,
    /// Pages that have passed all phases so far.
    left: Pages,
    /// Pages that are locked and not released.
    locked: Pages,
    mapped: Pages,
    /// Pages without a translation in any table; CPUs may still have them cached.
    unmapped: Pages,
    dirty: Pages,
    pinned: Pages,
    /// Pages to be reclaimed only if they are clean.
    only_clean: Pages,
    activate: Pages,
    /// Pages whose write was started.
    written: Pages,
    released: Pages,
    seen: ReclaimStat,
}

impl<P: Platform> Reclaim<'_, '_, P> {
    /// Reclaims pages of a cluster, and puts the others back. With `reclaims_used`, clean pages of
    /// files are reclaimed even if they were used once since the last scan.
    pub(super) fn shrink(
        &self,
        scan: &ScanControl,
        kind: PageKind,
        cluster: &Cluster,
        reclaims_used: bool,
        retire: &mut Retire<'_, '_, '_, '_, P>,
    ) -> ReclaimStat {
        let mut pass = Pass {
            scan,
            cluster,
            kind,
            left: 0,
            locked: 0,
            mapped: 0,
            unmapped: 0,
            dirty: 0,
            pinned: 0,
            only_clean: 0,
            activate: 0,
            written: 0,
            released: 0,
            seen: ReclaimStat { taken: cluster.len() as u32, ..ReclaimStat::default() },
        };
        self.memory.platform().cost(Cost::ReclaimPages, cluster.len() as u32);
        self.lock(&mut pass);
        self.check_references(&mut pass, reclaims_used && kind == PageKind::File);
        let mut chosen = pass.left;
        while chosen != 0 {
            // Pages that are not mapped need no flush.
            let (mapped, others) = (chosen & pass.mapped, chosen & !pass.mapped);
            let mut reserved = retire.reserve(count(mapped), count(others));
            if reserved == (0, 0) {
                if pass.released != 0 {
                    // Another CPU is making space. These pages can be reclaimed later.
                    break;
                }
                reserved.0 = retire.reserve_with_flush(count(mapped));
            }
            pass.left = match reserved {
                // At least one page, which is flushed on its own.
                (0, 0) => part(chosen, 1),
                (of_mapped, of_others) => part(mapped, of_mapped) | part(others, of_others),
            };
            chosen &= !pass.left;
            self.unmap(&mut pass, retire);
            self.skip_pinned(&mut pass);
            self.write_out(&mut pass, retire);
            self.release(&mut pass, retire);
        }
        self.finish(pass, retire)
    }

    /// A point between two phases, where a schedule of the simulator may switch CPUs.
    fn step(&self) {
        self.memory.platform().point(Site::Reclaim);
    }

    fn flags(&self, pass: &Pass<'_>, at: u32) -> &Flags {
        self.state.flags_at(pass.cluster.slot(at))
    }

    /// Phases 1 to 3: lock, check writeback.
    fn lock(&self, pass: &mut Pass<'_>) {
        self.step();
        let group = pass.cluster.gather(pass.cluster.all());
        for (at, state) in group.ask(|frames, out| self.owner.lock(frames, out)) {
            let Some(state): Option<PageState> = state else { continue };
            let bit = 1 << at;
            pass.locked |= bit;
            if state.unevictable {
                self.flags(pass, at).set_unevictable(true);
                continue;
            }
            for (set, is) in [
                (&mut pass.mapped, state.mapped),
                (&mut pass.dirty, state.dirty),
                (&mut pass.pinned, state.pinned),
            ] {
                *set |= if is { bit } else { 0 };
            }
            pass.left |= bit;
            self.check_writeback(pass, at, state);
        }
    }

    /// Phases 2 and 3 for one page.
    fn check_writeback(&self, pass: &mut Pass<'_>, at: u32, state: PageState) {
        let flags = self.flags(pass, at);
        let seen = &mut pass.seen;
        seen.dirty += u32::from(state.dirty);
        seen.unqueued_dirty += u32::from(state.dirty && !state.writeback);
        if !state.writeback {
            return;
        }
        let seen_before = flags.has(Flags::RECLAIM);
        seen.congested += u32::from(seen_before);
        if seen_before {
            seen.first_writeback = seen.first_writeback.or(Some(pass.cluster.slot(at)));
        }
        let node = self.state.node(pass.scan.node);
        if seen_before && pass.scan.by == Reclaimer::Kswapd && node.kswapd.is_writing_back() {
            seen.immediate += 1;
        } else {
            flags.set(Flags::RECLAIM);
            seen.writeback += 1;
        }
        pass.skip_active(1 << at);
    }

    /// Phase 4: check references.
    fn check_references(&self, pass: &mut Pass<'_>, reclaims_used: bool) {
        self.step();
        let group = pass.cluster.gather(pass.left);
        for (at, reference) in group.ask(|frames, out| self.owner.referenced(frames, out)) {
            let bit = 1 << at;
            match check_reference(self.flags(pass, at), reference, pass.kind) {
                ReferenceCheck::Reclaim => {}
                ReferenceCheck::OnlyIfClean => pass.only_clean |= bit,
                ReferenceCheck::Activate => pass.skip_active(bit),
                ReferenceCheck::Keep if reclaims_used && !reference.contended => {
                    pass.only_clean |= bit;
                }
                ReferenceCheck::Keep => {
                    pass.seen.ref_keep += 1;
                    pass.skip(bit);
                }
            }
        }
    }

    /// Phase 7: unmap.
    fn unmap(&self, pass: &mut Pass<'_>, retire: &mut Retire<'_, '_, '_, '_, P>) {
        self.step();
        let group = pass.cluster.gather(pass.left & pass.mapped);
        let ask =
            |frames: &[_], out: &mut [_]| self.owner.unmap(frames, &mut retire.unmapping(), out);
        for (at, unmapped) in group.ask(ask) {
            let bit = 1 << at;
            match unmapped {
                Unmapped::Removed { dirty } => {
                    pass.unmapped |= bit;
                    pass.dirty |= if dirty { bit } else { 0 };
                }
                Unmapped::StillMapped => {
                    pass.seen.unmap_fail += 1;
                    pass.skip_active(bit);
                }
                Unmapped::StoreFull => pass.skip_active(bit),
            }
        }
    }

    /// Phase 8: skip pinned pages.
    fn skip_pinned(&self, pass: &mut Pass<'_>) {
        pass.skip_active(pass.left & pass.pinned);
    }

    /// Phase 9: write dirty pages.
    fn write_out(&self, pass: &mut Pass<'_>, retire: &mut Retire<'_, '_, '_, '_, P>) {
        let node = self.state.node(pass.scan.node);
        let mut ready = 0;
        for at in bits(pass.left & pass.dirty) {
            let (bit, flags) = (1 << at, self.flags(pass, at));
            if pass.only_clean & bit != 0 {
                pass.skip(bit);
            } else if !self.writes_itself(pass, flags) {
                // The background writers will write the page. It is reclaimed when that is done.
                flags.set(Flags::RECLAIM);
                node.count(NodeStat::NrVmscanImmediateReclaim, 1);
                pass.skip_active(bit);
            } else if !pass.scan.may_write {
                pass.skip(bit);
            } else {
                ready |= bit;
            }
        }
        if ready == 0 {
            return;
        }
        retire.flush_if_dirty();
        self.step();
        // The flag is set first, because the write may end before `write_out` returns.
        for at in bits(ready) {
            self.flags(pass, at).set(Flags::RECLAIM);
        }
        let group = pass.cluster.gather(ready);
        for (at, outcome) in group.ask(|frames, out| self.owner.write_out(frames, out)) {
            let bit = 1 << at;
            if outcome == WriteOut::Started {
                node.count(NodeStat::NrVmscanWrite, 1);
                pass.seen.written += 1;
                pass.written |= bit;
                pass.skip(bit);
                continue;
            }
            self.flags(pass, at).clear(Flags::RECLAIM);
            match outcome {
                WriteOut::Done => {
                    node.count(NodeStat::NrVmscanWrite, 1);
                    pass.seen.written += 1;
                }
                WriteOut::Failed(_) => {
                    node.count(NodeStat::WriteFailed, 1);
                    pass.seen.failed += 1;
                    pass.skip_active(bit);
                }
                WriteOut::Refused | WriteOut::Started => pass.skip_active(bit),
            }
        }
    }

    /// Whether reclaim writes a dirty page itself: an anonymous page always; a page of a file only
    /// if there are no background writers, or if they do not keep up.
    fn writes_itself(&self, pass: &Pass<'_>, flags: &Flags) -> bool {
        let node = self.state.node(pass.scan.node);
        pass.kind == PageKind::Anon
            || !self.owner.has_writers()
            || pass.scan.by == Reclaimer::Kswapd
                && flags.has(Flags::RECLAIM)
                && node.kswapd.is_dirty()
    }

    /// Phases 11 and 12: release, retire.
    fn release(&self, pass: &mut Pass<'_>, retire: &mut Retire<'_, '_, '_, '_, P>) {
        if pass.left == 0 {
            return;
        }
        self.step();
        let node = self.state.node(pass.scan.node);
        let clock = node.clock();
        let shadow =
            |at| Shadow::new(pass.scan.node, clock, self.flags(pass, at).has(Flags::WORKINGSET));
        let mut shadows = [Shadow::default(); super::scan::CLUSTER_MAX];
        for (slot, at) in shadows.iter_mut().zip(bits(pass.left)) {
            *slot = shadow(at);
        }
        let group = pass.cluster.gather(pass.left);
        let count = group.frames().len();
        let ask = |frames: &[_], out: &mut [_]| self.owner.release(frames, &shadows[..count], out);
        let mut released = 0;
        for (at, outcome) in group.ask(ask) {
            if outcome == Released::Released {
                released |= 1 << at;
            }
        }
        for at in bits(released) {
            // The page is no longer isolated. The count of isolated pages follows below.
            self.flags(pass, at).reset();
            retire.push(pass.cluster.pfn(at));
        }
        node.sub_isolated(self.memory.platform(), pass.kind, released.count_ones());
        pass.left = 0;
        pass.locked &= !released;
        pass.released |= released;
        pass.seen.reclaimed += released.count_ones();
        node.advance_clock(released.count_ones().into());
    }

    /// Unlocks and puts back the pages that were not released.
    fn finish(&self, mut pass: Pass<'_>, retire: &mut Retire<'_, '_, '_, '_, P>) -> ReclaimStat {
        let node = self.state.node(pass.scan.node);
        for at in bits(pass.activate) {
            if self.flags(&pass, at).activate() {
                pass.seen.activated[pass.kind as usize] += 1;
            }
        }
        let activated = pass.seen.activated[pass.kind as usize].into();
        node.count(NodeStat::Pgactivate, activated);
        node.advance_clock(activated);
        if pass.unmapped & !pass.released != 0 {
            retire.flush();
        }
        let locked = pass.cluster.gather(pass.locked);
        if pass.locked != 0 {
            self.owner.unlock(locked.frames());
        }
        retire.finish_if_lazy();
        // Pages whose write has ended already go to the tail of the list, where reclaim finds them
        // next.
        let done = |&at: &u32| !self.flags(&pass, at).has(Flags::RECLAIM);
        let tail = bits(pass.written).filter(done).fold(0, |tail, at| tail | 1 << at);
        let rest = pass.cluster.all() & !pass.released;
        let abandoned = self.put_back(pass.scan, pass.cluster, rest, tail);
        if abandoned != 0 {
            retire.free(pass.cluster.gather(abandoned).frames());
            pass.seen.reclaimed += abandoned.count_ones();
        }
        pass.seen
    }
}

impl Pass<'_> {
    /// Removes pages from the pass, so that they are not reclaimed this time.
    fn skip(&mut self, pages: Pages) {
        self.left &= !pages;
    }

    /// As [`Pass::skip`]. The pages become active.
    fn skip_active(&mut self, pages: Pages) {
        self.skip(pages);
        self.activate |= pages;
    }
}

//! Applying the moves of a batch, with one hold of the LRU lock per node.

use crate::{
    observe::NodeStat,
    platform::Platform,
    types::{CpuId, LruList},
};

use super::{
    batch::{Batch, CpuBatch, Entry, Move, Pushed},
    flags::Place,
    lists::End,
    lru::Lru,
    node::LockedLists,
    page::Page,
};

impl<'a, 'm, P: Platform> Lru<'a, 'm, P> {
    /// The batch of a CPU; `None` if the memory does not have the CPU.
    #[inline(always)]
    pub(super) fn batch_of(&self, cpu: CpuId) -> Option<&'a CpuBatch<P>> {
        self.state.batches.get(cpu.index())
    }

    /// Adds a move to a batch, and drains the batch when it is due.
    #[inline(always)]
    pub(super) fn push(&self, batch: &CpuBatch<P>, entry: Entry) {
        let limit = self.memory.tuning().reclaim.lru_batch as usize;
        loop {
            let pushed = batch.push(self.platform(), entry, limit);
            if pushed == Pushed::Waits {
                return;
            }
            self.drain_batch(batch);
            if pushed == Pushed::Due {
                return;
            }
        }
    }

    /// Applies all moves that wait in a batch.
    #[inline(never)]
    pub(super) fn drain_batch(&self, batch: &CpuBatch<P>) {
        self.apply(&batch.take(self.platform()));
    }

    /// Moves a page to the tail of its list after its write-out, so that it is reclaimed next.
    pub(super) fn rotate(&self, page: &Page<'_, 'm, P>) {
        let entry = Entry { slot: page.slot, zone: page.zone.id, to: Move::Rotate };
        page.node.with_lists(self.platform(), |lists| self.move_page(lists, entry));
    }

    /// Applies all moves of a batch.
    fn apply(&self, batch: &Batch) {
        let node_of = |moves: &[Entry]| self.state.zone(moves[0].zone).node.index();
        let of_zones = || batch.entries().chunk_by(|one, next| one.zone == next.zone);
        let mut left = 0u64;
        for moves in of_zones() {
            left |= 1 << node_of(moves);
            let slots = moves.iter().map(|entry| entry.slot);
            self.state.nodes[node_of(moves)].prefetch_links(self.platform(), slots);
        }
        while left != 0 {
            let number = left.trailing_zeros() as usize;
            left &= left - 1;
            self.state.nodes[number].with_lists(self.platform(), |lists| {
                let here = of_zones().filter(|moves| node_of(moves) == number);
                here.for_each(|moves| self.apply_moves(lists, moves));
            });
        }
    }

    /// Applies moves of pages of one zone. Under the LRU lock of its node.
    #[inline(always)]
    fn apply_moves(&self, lists: &mut LockedLists<'_, 'm, P>, mut moves: &[Entry]) {
        while let Some(&first) = moves.first() {
            let done = match first.to {
                Move::Add => self.add_pages(lists, first, moves),
                _ => {
                    self.move_page(lists, first);
                    1
                }
            };
            moves = &moves[done..];
        }
    }

    /// Adds new pages at the head of their list: the first one, and those after it that belong on
    /// the same list. Nearly all moves are of this kind. Returns the number of moves done.
    #[inline(always)]
    fn add_pages(
        &self,
        lists: &mut LockedLists<'_, 'm, P>,
        first: Entry,
        moves: &[Entry],
    ) -> usize {
        let flags = self.state.flags;
        let now = self.state.flags_at(first.slot).get();
        if now.place() != Place::Pending {
            // The page was removed or isolated meanwhile, or another move has added it to its list.
            return 1;
        }
        let new = moves.iter().take_while(|entry| entry.to == Move::Add).map(|entry| entry.slot);
        let alike = new.take_while(|&slot| flags[slot as usize].set_listed_if_like(now));
        let listed = lists.insert_all(now.list(), alike);
        self.state.zone(first.zone).count(now.list(), listed as i32);
        listed
    }

    #[inline(never)]
    fn move_page(&self, lists: &mut LockedLists<'_, 'm, P>, Entry { slot, zone, to }: Entry) {
        let page = self.state.page_of(zone, slot);
        match page.flags.place() {
            Place::Listed => page.unlink(lists),
            Place::Pending => page.flags.set_listed(),
            // The entry is stale, or the page is isolated.
            _ => return,
        }
        let evictable_inactive =
            matches!(page.flags.list(), LruList::InactiveAnon | LruList::InactiveFile);
        let end = match to {
            Move::Activate if page.flags.activate() => {
                page.node.count(NodeStat::Pgactivate, 1);
                page.node.advance_clock(1);
                End::Head
            }
            Move::Deactivate if page.flags.deactivate() => {
                page.node.count(NodeStat::Pgdeactivate, 1);
                End::Head
            }
            Move::Rotate if evictable_inactive => {
                page.node.count(NodeStat::Pgrotated, 1);
                End::Tail
            }
            _ => End::Head,
        };
        page.link(lists, end);
    }
}

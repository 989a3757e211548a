//! Selection of the blocks that leave the lists of a CPU: the coldest first. Blocks in the store
//! are colder than blocks on rings.

use super::{
    ListIndex, Lists,
    lists::leave,
    packing::pack_outlined,
    pages::ListsContext,
    probes::{probe_packed, probe_selected},
};
use crate::{
    buddy::Bundles,
    platform::{Cost, Platform},
    types::Order,
};

impl<'m> Lists<'m> {
    /// Moves about `frames` frames to `leaving`: from the store first, then from the colder ends of
    /// the rings, beginning with `list`, then from the quarantine. Stops when `leaving` is full.
    /// Returns the number of frames.
    pub(super) fn select_bundles(
        &mut self,
        context: ListsContext<'_, 'm, impl Platform>,
        list: ListIndex,
        frames: u64,
        leaving: &mut Bundles,
    ) -> u64 {
        let mut moved = 0;
        // Pageblocks are not in the store, so their ring comes first.
        if list.order() == Order::PAGEBLOCK {
            moved += self.leave_ring(context, list, frames, leaving);
        }
        let mut lists = list_order(list);
        while self.stored > 0
            && moved < frames
            && !leaving.is_full()
            && let Some(next) = lists.next()
        {
            moved += self.leave_store(context, next, frames - moved, leaving);
        }
        let mut lists = list_order(list);
        while moved < frames
            && !leaving.is_full()
            && let Some(next) = lists.next()
        {
            moved += self.leave_ring(context, next, frames - moved, leaving);
        }
        while moved < frames
            && !leaving.is_full()
            && let Some(bundle) = self.release(context)
        {
            context.cost(Cost::SelectSingly, 1);
            moved += leave(leaving, bundle);
        }
        moved
    }

    /// Moves bundles of a list from the store to `leaving`, with about `frames` frames, until that is full. Returns the
    /// number of frames.
    pub(super) fn leave_store(
        &mut self,
        context: ListsContext<'_, 'm, impl Platform>,
        list: ListIndex,
        frames: u64,
        leaving: &mut Bundles,
    ) -> u64 {
        let before = leaving.as_slice().len();
        let moved = self.store.pop_many(list, frames, leaving);
        if moved > 0 {
            self.set_stored(context, self.stored - moved);
            probe_selected(context, &self.store, list, leaving.as_slice().iter().skip(before));
        }
        moved
    }

    /// Moves the oldest blocks of a ring to `leaving`, with about `frames` frames, until that is full. Returns the number of
    /// frames.
    #[inline(never)]
    pub(super) fn leave_ring(
        &mut self,
        context: ListsContext<'_, 'm, impl Platform>,
        list: ListIndex,
        frames: u64,
        leaving: &mut Bundles,
    ) -> u64 {
        let len = context.pages.len(list);
        let (mut at, mut moved) = (0, 0);
        while moved < frames
            && !leaving.is_full()
            && let Some((bundle, used)) = pack_outlined(&self.ring(list)[at..len], list.order())
        {
            probe_packed(context, self.ring(list).get(at..at + used));
            context.cost(Cost::SelectBundles, 1);
            moved += leave(leaving, bundle);
            at += used;
        }
        if at > 0 {
            self.ring(list).copy_within(at..len, 0);
            context.pages.set_len(list, len - at);
        }
        moved
    }
}

/// All lists, beginning with `first`.
pub(super) fn list_order(first: ListIndex) -> impl Iterator<Item = ListIndex> {
    core::iter::successors(Some(first), move |list| {
        Some(list.following()).filter(|next| *next != first)
    })
}

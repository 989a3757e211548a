//! Selection of the blocks that leave the lists of a CPU: the coldest first. Blocks in the store
//! are colder than blocks on rings.

use super::{
    ListIndex, Lists,
    lists::leave,
    packing::pack_outlined,
    pages::ListsContext,
    probes::{probe_packed, probe_selected, probe_slot},
};
use crate::{
    buddy::{Bundle, Bundles},
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
        let before = leaving.as_slice().len();
        let mut moved = self.store.pop_many(list, frames, leaving);
        self.set_stored(context, self.stored - moved);
        probe_selected(context, &self.store, list, leaving.as_slice().iter().skip(before));
        while moved < frames && !leaving.is_full() {
            let Some(bundle) = self.select_one(context, list) else { break };
            moved += leave(leaving, bundle);
        }
        moved
    }

    /// Selects one bundle: from the store, beginning with `list`; else from the rings; else from
    /// the quarantine. Pageblocks are not in the store, so for a list of them its ring comes first.
    pub(super) fn select_one(
        &mut self,
        context: ListsContext<'_, 'm, impl Platform>,
        list: ListIndex,
    ) -> Option<Bundle> {
        context.cost(Cost::SelectSingly, 1);
        if list.order() == Order::PAGEBLOCK
            && let Some(bundle) = self.select_from_ring(context, list)
        {
            return Some(bundle);
        }
        let mut stored = self.store.pop(list);
        if stored.is_none() && self.stored > 0 {
            stored = list_order(list).find_map(|list| self.store.pop(list));
        }
        if let Some(bundle) = stored {
            self.set_stored(context, self.stored - bundle.frame_count());
            probe_slot(context, &self.store, list, bundle.word);
            return Some(bundle);
        }
        let of_ring = list_order(list).find_map(|list| self.select_from_ring(context, list));
        of_ring.or_else(|| self.release(context))
    }

    /// The coldest block of a ring, with the blocks of the same word that follow it.
    fn select_from_ring(
        &mut self,
        context: ListsContext<'_, 'm, impl Platform>,
        list: ListIndex,
    ) -> Option<Bundle> {
        let len = context.pages.len(list);
        let ring = self.ring(list);
        let (bundle, used) = pack_outlined(&ring[..len], list.order())?;
        probe_packed(context, ring.get(..used));
        ring.copy_within(used..len, 0);
        context.pages.set_len(list, len - used);
        Some(bundle)
    }
}

/// All lists, beginning with `first`.
fn list_order(first: ListIndex) -> impl Iterator<Item = ListIndex> {
    core::iter::successors(Some(first), move |list| {
        Some(list.following()).filter(|next| *next != first)
    })
}

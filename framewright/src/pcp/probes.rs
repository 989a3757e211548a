//! Reports of work on the lists to a simulated machine. On other machines they compile to nothing.

use super::{ListIndex, packing::is_ascending, pages::ListsContext, store::BundleStore};
use crate::{
    buddy::Bundle,
    platform::{Cost, Platform},
};

/// Reports that a bundle goes into the store, or comes out of it.
#[inline(always)]
pub(super) fn probe_stored(
    context: ListsContext<'_, '_, impl Platform>,
    store: &BundleStore<'_>,
    list: ListIndex,
    bundle: Bundle,
) {
    probe_slot(context, store, list, bundle.word);
    context.cost(Cost::StoreBundles, 1);
}

/// Reports that the slot of a word is used.
#[inline(always)]
pub(super) fn probe_slot(
    context: ListsContext<'_, '_, impl Platform>,
    store: &BundleStore<'_>,
    list: ListIndex,
    word: u32,
) {
    if context.listens() {
        context.touch_store(store.line_of(list, word));
    }
}

/// Reports bundles that left the store together.
#[inline(always)]
pub(super) fn probe_selected<'b>(
    context: ListsContext<'_, '_, impl Platform>,
    store: &BundleStore<'_>,
    list: ListIndex,
    bundles: impl Iterator<Item = &'b Bundle>,
) {
    if !context.listens() {
        return;
    }
    for bundle in bundles {
        context.cost(Cost::SelectBundles, 1);
        context.touch_store(store.line_of(list, bundle.word));
    }
}

/// Reports a sweep of `slots` slots of the store, which selected so many bundles to leave. Each slot takes half of the work
/// of joining a block to a bundle.
#[inline(always)]
pub(super) fn probe_swept(
    context: ListsContext<'_, '_, impl Platform>,
    store: &BundleStore<'_>,
    slots: u32,
    selected: usize,
) {
    context.cost(Cost::RingFrames, slots / 2);
    context.cost(Cost::SelectBundles, selected as u32);
    if context.listens() {
        store.swept_lines(slots).for_each(|line| context.touch_store(line));
    }
}

/// Reports that a bundle goes to a ring: see [`unpack`](super::packing::unpack).
#[inline(always)]
pub(super) fn probe_unpacked(context: ListsContext<'_, '_, impl Platform>, bundle: Bundle) {
    if !context.listens() {
        return;
    }
    if bundle.heads == !0 {
        context.cost(Cost::RingRuns, 1);
    } else {
        context.cost(Cost::RingFrames, bundle.blocks());
    }
}

/// Reports that blocks of a ring were added to bundles of the store.
#[inline(always)]
pub(super) fn probe_joined<'f>(
    context: ListsContext<'_, '_, impl Platform>,
    store: &BundleStore<'_>,
    list: ListIndex,
    frames: impl Iterator<Item = &'f u32>,
) {
    if !context.listens() {
        return;
    }
    for frame in frames {
        context.cost(Cost::RingFrames, 1);
        context.touch_store(store.line_of(list, frame / 64));
    }
}

/// Reports that blocks of a ring became a bundle: see [`pack`](super::packing::pack).
#[inline(always)]
pub(super) fn probe_packed(context: ListsContext<'_, '_, impl Platform>, packed: Option<&[u32]>) {
    if !context.listens() {
        return;
    }
    match packed {
        Some(frames) if is_ascending(frames) => context.cost(Cost::RingRuns, 1),
        Some(frames) => context.cost(Cost::RingFrames, frames.len() as u32),
        None => {}
    }
}

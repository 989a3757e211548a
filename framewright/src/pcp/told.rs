//! Reports of work on the lists to a simulated machine. On other machines they compile to nothing.

use super::{ListIndex, packing::is_ascending, pages::Here, store::BundleStore};
use crate::{
    buddy::Bundle,
    platform::{Cost, Platform},
};

/// Reports that a bundle goes into the store, or comes out of it.
#[inline(always)]
pub(super) fn tell_of_stored(
    here: Here<'_, '_, impl Platform>,
    store: &BundleStore<'_>,
    list: ListIndex,
    bundle: Bundle,
) {
    tell_of_slot(here, store, list, bundle.word);
    here.cost(Cost::StoreBundles, 1);
}

/// Reports that the slot of a word is used.
#[inline(always)]
pub(super) fn tell_of_slot(
    here: Here<'_, '_, impl Platform>,
    store: &BundleStore<'_>,
    list: ListIndex,
    word: u32,
) {
    if here.listens() {
        here.touch_store(store.line_of(list, word));
    }
}

/// Reports bundles that left the store together.
#[inline(always)]
pub(super) fn tell_of_chosen<'b>(
    here: Here<'_, '_, impl Platform>,
    store: &BundleStore<'_>,
    list: ListIndex,
    bundles: impl Iterator<Item = &'b Bundle>,
) {
    if !here.listens() {
        return;
    }
    for bundle in bundles {
        here.cost(Cost::ChooseBundles, 1);
        here.touch_store(store.line_of(list, bundle.word));
    }
}

/// Reports that a bundle goes to a ring: see [`unpack`](super::packing::unpack).
#[inline(always)]
pub(super) fn tell_of_unpacked(here: Here<'_, '_, impl Platform>, bundle: Bundle) {
    if !here.listens() {
        return;
    }
    if bundle.heads == !0 {
        here.cost(Cost::RingRuns, 1);
    } else {
        here.cost(Cost::RingFrames, bundle.blocks());
    }
}

/// Reports that blocks of a ring were added to bundles of the store.
#[inline(always)]
pub(super) fn tell_of_joined<'f>(
    here: Here<'_, '_, impl Platform>,
    store: &BundleStore<'_>,
    list: ListIndex,
    frames: impl Iterator<Item = &'f u32>,
) {
    if !here.listens() {
        return;
    }
    for frame in frames {
        here.cost(Cost::RingFrames, 1);
        here.touch_store(store.line_of(list, frame / 64));
    }
}

/// Reports that blocks of a ring became a bundle: see [`pack`](super::packing::pack).
#[inline(always)]
pub(super) fn tell_of_packed(here: Here<'_, '_, impl Platform>, packed: Option<&[u32]>) {
    if !here.listens() {
        return;
    }
    match packed {
        Some(frames) if is_ascending(frames) => here.cost(Cost::RingRuns, 1),
        Some(frames) => here.cost(Cost::RingFrames, frames.len() as u32),
        None => {}
    }
}

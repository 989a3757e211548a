//! Rings and store of one CPU, for whoever is inside.
//!
//! Nothing here knows of the zone: blocks that have to leave are appended to a batch, which the
//! caller gives to the zone when it is outside again.

use super::{
    CpuPages, ListIndex, Sizing,
    pages::RING,
    store::{BundleStore, Inserted},
};
use crate::{
    buddy::{Bundle, Bundles},
    frame::Order,
    hardening::Quarantine,
    platform::Platform,
};

pub(crate) struct Lists<'m> {
    rings: [[u32; RING]; ListIndex::COUNT],
    store: BundleStore<'m>,
    pub(super) quarantine: Quarantine<'m>,
    /// Frames in the store and in quarantine.
    stored: u64,
    pub(super) sizing: Sizing,
}

impl<'m> Lists<'m> {
    pub(crate) fn new(store: BundleStore<'m>, quarantine: Quarantine<'m>) -> Self {
        let rings = [[0; RING]; ListIndex::COUNT];
        Self { rings, store, quarantine, stored: 0, sizing: Sizing::disabled() }
    }

    /// Slots of the store.
    pub(super) fn slots(&self) -> usize {
        self.store.capacity()
    }

    /// Takes over new bounds and opens or closes the rings accordingly.
    pub(crate) fn resize(&mut self, pages: &CpuPages<'m, impl Platform>, to: Sizing) {
        self.sizing.resize(to);
        pages.publish(&self.sizing);
        pages.open(&to);
    }

    /// The ring of a list. How much of it is in use is the business of [`CpuPages`].
    #[inline(always)]
    pub(super) fn ring(&mut self, list: ListIndex) -> &mut [u32; RING] {
        &mut self.rings[list.get()]
    }

    /// Takes a block, filling the ring from the store if it is empty.
    pub(super) fn pop(
        &mut self,
        pages: &CpuPages<'m, impl Platform>,
        list: ListIndex,
    ) -> Option<u32> {
        let mut len = pages.len(list);
        if len == 0 {
            let bundle = self.store.pop(list)?;
            self.set_stored(pages, self.stored - bundle.frame_count());
            len = unpack(bundle, self.ring(list));
        }
        pages.set_len(list, len - 1);
        Some(self.ring(list)[len - 1])
    }

    /// Puts a block on its ring. If the ring is full its colder half goes to the store first;
    /// what finds no room there joins `leaving`.
    pub(super) fn push(
        &mut self,
        pages: &CpuPages<'m, impl Platform>,
        list: ListIndex,
        frame: u32,
        leaving: &mut Bundles,
    ) -> Pushed {
        let limit = pages.limit(list);
        if limit == 0 {
            return Pushed::SwitchedOff;
        }
        let mut pushed = Pushed::Kept;
        if pages.len(list) >= limit {
            self.spill(pages, list, limit.div_ceil(2), leaving);
            pushed = Pushed::Spilled;
        }
        let len = pages.len(list);
        self.ring(list)[len] = frame;
        pages.set_len(list, len + 1);
        pushed
    }

    /// Puts blocks that the zone gave behind the ring of a list, which is empty. Those that
    /// `stays` says no to join `leaving`.
    pub(super) fn accept(
        &mut self,
        pages: &CpuPages<'m, impl Platform>,
        list: ListIndex,
        bundles: &[Bundle],
        stays: impl Fn(Bundle) -> bool,
        leaving: &mut Bundles,
    ) {
        // Pageblocks live on rings only; to be handed out lowest first they go there last.
        if list.order() == Order::PAGEBLOCK {
            for &bundle in bundles.iter().rev() {
                self.accept_one(pages, list, bundle, &stays, leaving);
            }
        } else {
            for &bundle in bundles {
                self.accept_one(pages, list, bundle, &stays, leaving);
            }
        }
    }

    #[inline(always)]
    fn accept_one(
        &mut self,
        pages: &CpuPages<'m, impl Platform>,
        list: ListIndex,
        bundle: Bundle,
        stays: &impl Fn(Bundle) -> bool,
        leaving: &mut Bundles,
    ) {
        let (len, limit) = (pages.len(list), pages.limit(list));
        if bundle.heads == 0 {
            return;
        }
        if !stays(bundle) {
            leave(leaving, bundle);
        } else if list.order() == Order::PAGEBLOCK {
            if len < limit {
                self.ring(list)[len] = bundle.word * 64;
                pages.set_len(list, len + 1);
            } else {
                leave(leaving, bundle);
            }
        } else if len == 0 && limit > 0 {
            let len = unpack(bundle, self.ring(list));
            pages.set_len(list, len);
        } else {
            let left = insert(&mut self.store, list, bundle, leaving);
            self.set_stored(pages, self.stored + bundle.frame_count() - left);
        }
    }

    /// Moves up to `frames` frames to `leaving`: the store first, then the colder ends of the
    /// rings, beginning with `list`, then what is in quarantine. Stops when `leaving` is full. Returns the frames moved.
    pub(super) fn gather(
        &mut self,
        pages: &CpuPages<'m, impl Platform>,
        list: ListIndex,
        frames: u64,
        leaving: &mut Bundles,
    ) -> u64 {
        let mut moved = self.store.pop_many(list, frames, leaving);
        self.set_stored(pages, self.stored - moved);
        while moved < frames && !leaving.is_full() {
            let Some(bundle) = self.choose(pages, list) else { break };
            moved += bundle.frame_count();
            leave(leaving, bundle);
        }
        moved
    }

    /// One bundle to part with: of the store, beginning with `list`; else of the rings; else
    /// from quarantine.
    pub(super) fn choose(
        &mut self,
        pages: &CpuPages<'m, impl Platform>,
        list: ListIndex,
    ) -> Option<Bundle> {
        if list.order() == Order::PAGEBLOCK
            && let Some(bundle) = self.choose_from_ring(pages, list)
        {
            return Some(bundle);
        }
        let mut stored = self.store.pop(list);
        if stored.is_none() && self.stored > 0 {
            stored = list_order(list).find_map(|list| self.store.pop(list));
        }
        if let Some(bundle) = stored {
            self.set_stored(pages, self.stored - bundle.frame_count());
            return Some(bundle);
        }
        let of_ring = list_order(list).find_map(|list| self.choose_from_ring(pages, list));
        of_ring.or_else(|| self.release(pages))
    }

    /// The coldest block of a ring, with those of its word that follow it.
    fn choose_from_ring(
        &mut self,
        pages: &CpuPages<'m, impl Platform>,
        list: ListIndex,
    ) -> Option<Bundle> {
        let len = pages.len(list);
        let ring = self.ring(list);
        let (bundle, used) = pack(&ring[..len], list.order())?;
        ring.copy_within(used..len, 0);
        pages.set_len(list, len - used);
        Some(bundle)
    }

    /// Moves the coldest `count` blocks of a ring into the store.
    fn spill(
        &mut self,
        pages: &CpuPages<'m, impl Platform>,
        list: ListIndex,
        count: usize,
        leaving: &mut Bundles,
    ) {
        let len = pages.len(list);
        let count = count.min(len).min(RING);
        let order = list.order();
        let ring = &mut self.rings[list.get()];
        let mut stored = self.stored;
        let mut at = 0;
        if order == Order::PAGEBLOCK {
            // Pageblocks have no neighbours to wait for.
            for &frame in &ring[..count] {
                leave(leaving, Bundle::of(frame, order));
            }
            at = count;
        }
        while at < count {
            let joined = self.store.join(list, &ring[at..count]);
            stored += (joined as u64) << order.get();
            at += joined;
            let Some((bundle, used)) = pack(&ring[at..count], order) else { break };
            at += used;
            stored += (used as u64) << order.get();
            stored -= insert(&mut self.store, list, bundle, leaving);
        }
        ring.copy_within(at..len, 0);
        pages.set_len(list, len - at);
        self.set_stored(pages, stored);
    }

    /// Frames in the store and in quarantine.
    pub(super) fn stored(&self) -> u64 {
        self.stored
    }

    pub(super) fn set_stored(&mut self, pages: &CpuPages<'m, impl Platform>, frames: u64) {
        self.stored = frames;
        pages.set_stored(frames);
    }
}

/// What became of a pushed block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Pushed {
    /// It is on its ring.
    Kept,
    /// It is on its ring, which had to spill.
    Spilled,
    /// It is not: the lists are switched off.
    SwitchedOff,
}

/// All lists, beginning with `first`.
fn list_order(first: ListIndex) -> impl Iterator<Item = ListIndex> {
    let count = ListIndex::COUNT;
    (0..count).filter_map(move |i| ListIndex::from_number(((first.get() + i) % count) as u8))
}

/// Fills an empty ring with the blocks of a bundle, so that the lowest is handed out first.
/// Returns how many there are.
#[inline(always)]
fn unpack(bundle: Bundle, ring: &mut [u32; RING]) -> usize {
    let base = bundle.word * 64;
    if bundle.heads == !0 {
        for (i, slot) in ring[..64].iter_mut().enumerate() {
            *slot = base + 63 - i as u32;
        }
        return 64;
    }
    let mut heads = bundle.heads;
    let mut len = 0;
    while heads != 0 {
        let bit = 63 - heads.leading_zeros();
        heads ^= 1 << bit;
        ring[len % RING] = base + bit;
        len += 1;
    }
    len
}

/// Packs the leading blocks that lie in one word. Returns how many entries were used: all that
/// lie in the word of the first, up to the first that does not or that repeats one.
#[inline(always)]
fn pack(frames: &[u32], order: Order) -> Option<(Bundle, usize)> {
    let &first = frames.first()?;
    let word = first / 64;
    // Frames freed in the order of memory are the common case, and cheap to recognise.
    let straight = frames.len().min(64 - (first % 64) as usize);
    if frames.get(1) == Some(&(first + 1)) && is_ascending(&frames[..straight]) {
        let heads = (!0 >> (64 - straight)) << (first % 64);
        return Some((Bundle { word, heads, order }, straight));
    }
    let mut heads = 1 << (first % 64);
    let mut used = 1;
    for &frame in &frames[1..] {
        let bit = 1 << (frame % 64);
        if frame / 64 != word || heads & bit != 0 {
            break;
        }
        heads |= bit;
        used += 1;
    }
    Some((Bundle { word, heads, order }, used))
}

/// Whether frames follow one another without gaps. Written so that it vectorises.
#[inline(always)]
fn is_ascending(frames: &[u32]) -> bool {
    let first = frames.first().copied().unwrap_or(0);
    let mut expected = first;
    let mut difference = 0;
    for &frame in frames {
        difference |= frame ^ expected;
        expected = expected.wrapping_add(1);
    }
    difference == 0
}

/// Appends a bundle to a batch that has room for it: what one operation displaces never exceeds a
/// batch.
#[inline(always)]
fn leave(leaving: &mut Bundles, bundle: Bundle) {
    let has_room = leaving.push(bundle);
    debug_assert!(has_room, "a bundle would be lost");
}

/// Puts a bundle into the store; what finds no room joins `leaving`. Returns how many frames
/// did.
#[inline(always)]
fn insert(
    store: &mut BundleStore<'_>,
    list: ListIndex,
    bundle: Bundle,
    leaving: &mut Bundles,
) -> u64 {
    match store.insert(list, bundle) {
        Inserted::Stored => 0,
        // Of blocks freed twice one copy leaves at once: the zone refuses whichever copy
        // reaches it second, and that is reported.
        Inserted::Displaced(out) | Inserted::Doubled(out) => {
            leave(leaving, out);
            out.frame_count()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unpacked_blocks_come_out_in_ascending_order() {
        for heads in [!0u64, 0b1011, 1 << 63 | 1, 0xf0f0] {
            let bundle = Bundle { word: 3, heads, order: Order::ZERO };
            let mut ring = [0; RING];
            let len = unpack(bundle, &mut ring);
            let popped = ring[..len].iter().rev().copied();
            assert!(popped.eq(bundle.frames()), "{heads:#x}");
        }
    }

    #[test]
    fn packing_stops_at_another_word_and_at_a_repetition() {
        let order = Order::ZERO;
        let packed =
            |frames: &[u32]| pack(frames, order).map(|(bundle, used)| (bundle.heads, used));
        assert_eq!(packed(&[64, 66, 65, 128]), Some((0b111, 3)));
        assert_eq!(packed(&[64, 65, 64]), Some((0b11, 2)));
        assert_eq!(packed(&[]), None);
    }
}

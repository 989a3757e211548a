//! Rings and store of one CPU, for whoever is inside.
//!
//! Nothing here knows of the zone: blocks that have to leave are appended to a batch, which the
//! caller gives to the zone when it is outside again.

use super::{
    CpuPages, ListIndex, Sizing,
    pages::{Here, RING},
    store::{BundleStore, Inserted},
};
use crate::{
    buddy::{Bundle, Bundles},
    frame::Order,
    hardening::Quarantine,
    platform::{Cost, Platform},
    zone::{ByOrder, Kind},
};

/// Loose blocks that a list gets at once, if others are served, too.
const DRAUGHT: usize = 64;

pub(crate) struct Lists<'m> {
    rings: [[u32; RING]; ListIndex::COUNT],
    store: BundleStore<'m>,
    pub(super) quarantine: Quarantine<'m>,
    /// Lists that have run out of late, a bit each.
    thirsty: u16,
    /// Frames in the store and in quarantine.
    stored: u64,
    pub(super) sizing: Sizing,
}

impl<'m> Lists<'m> {
    pub(crate) fn new(store: BundleStore<'m>, quarantine: Quarantine<'m>) -> Self {
        let rings = [[0; RING]; ListIndex::COUNT];
        Self { rings, store, quarantine, thirsty: 0, stored: 0, sizing: Sizing::disabled() }
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
        here: Here<'_, 'm, impl Platform>,
        list: ListIndex,
    ) -> Option<u32> {
        let mut len = here.pages.len(list);
        if len == 0 {
            let bundle = self.store.pop(list)?;
            self.set_stored(here, self.stored - bundle.frame_count());
            self.tell_of_stored(here, list, bundle);
            tell_of_unpacked(here, bundle);
            len = unpack(bundle, self.ring(list));
        }
        here.pages.set_len(list, len - 1);
        Some(self.ring(list)[len - 1])
    }

    /// Puts a block on its ring. If the ring is full its colder half goes to the store first;
    /// what finds no room there joins `leaving`.
    pub(super) fn push(
        &mut self,
        here: Here<'_, 'm, impl Platform>,
        list: ListIndex,
        frame: u32,
        leaving: &mut Bundles,
    ) -> Pushed {
        let limit = here.pages.limit(list);
        if limit == 0 {
            return Pushed::SwitchedOff;
        }
        let mut pushed = Pushed::Kept;
        if here.pages.len(list) >= limit {
            self.spill(here, list, limit.div_ceil(2), leaving);
            pushed = Pushed::Spilled;
        }
        let len = here.pages.len(list);
        self.ring(list)[len] = frame;
        here.pages.set_len(list, len + 1);
        pushed
    }

    /// Puts blocks that the zone gave behind the ring of a list, which is empty. Those that
    /// `stays` says no to join `leaving`.
    pub(super) fn accept(
        &mut self,
        here: Here<'_, 'm, impl Platform>,
        list: ListIndex,
        bundles: &[Bundle],
        stays: impl Fn(Bundle) -> bool,
        leaving: &mut Bundles,
    ) {
        // Pageblocks live on rings only; to be handed out lowest first they go there last.
        if list.order() == Order::PAGEBLOCK {
            for &bundle in bundles.iter().rev() {
                self.accept_one(here, list, bundle, &stays, leaving);
            }
        } else {
            for &bundle in bundles {
                self.accept_one(here, list, bundle, &stays, leaving);
            }
        }
    }

    /// How many loose blocks of each order would be welcome, now that `list` has run out and
    /// `blocks` are to be asked for: of others as well, if they have run out before and are about to
    /// do so again, so that one hold of the zone lock serves all.
    pub(super) fn thirst(
        &mut self,
        here: Here<'_, 'm, impl Platform>,
        list: ListIndex,
        blocks: u32,
    ) -> ByOrder {
        let mut wanted = ByOrder::default();
        let (order, of) = (list.order(), list.migratetype());
        let own = if order == Order::ZERO { RING } else { DRAUGHT };
        wanted.set(order, blocks.min(own as u32) as u8);
        self.thirsty |= 1 << list.get();
        let room = u64::from(self.sizing.high()).saturating_sub(here.pages.held());
        for order in wanted.others(order) {
            let Some(other) = ListIndex::serving(order, of) else { continue };
            let len = here.pages.len(other);
            let frames = (DRAUGHT as u64) << order.get();
            if len >= DRAUGHT {
                // Nobody has asked for any since.
                self.thirsty &= !(1 << other.get());
            } else if self.thirsty >> other.get() & 1 == 1 && frames <= room {
                wanted.set(order, (DRAUGHT - len) as u8);
            }
        }
        wanted
    }

    /// Puts loose blocks on a ring, the last to be handed out first. `false` if it has no room.
    pub(super) fn accept_loose(
        &mut self,
        here: Here<'_, 'm, impl Platform>,
        kind: Kind,
        blocks: &[u32],
    ) -> bool {
        let Some(list) = ListIndex::freeing(kind.order(), kind.type_number()) else { return false };
        let len = here.pages.len(list);
        let places = len..len + blocks.len();
        let is_open = here.pages.limit(list) > 0;
        let Some(places) = self.ring(list).get_mut(places).filter(|_| is_open) else {
            return false;
        };
        here.cost(Cost::RingRuns, (blocks.len() as u32).div_ceil(64));
        places.copy_from_slice(blocks);
        here.pages.set_len(list, len + blocks.len());
        true
    }

    #[inline(always)]
    fn accept_one(
        &mut self,
        here: Here<'_, 'm, impl Platform>,
        list: ListIndex,
        bundle: Bundle,
        stays: &impl Fn(Bundle) -> bool,
        leaving: &mut Bundles,
    ) {
        let (len, limit) = (here.pages.len(list), here.pages.limit(list));
        if bundle.heads == 0 {
            return;
        }
        if !stays(bundle) {
            leave(leaving, bundle);
        } else if list.order() == Order::PAGEBLOCK {
            here.cost(Cost::RingFrames, 1);
            if len < limit {
                self.ring(list)[len] = bundle.word * 64;
                here.pages.set_len(list, len + 1);
            } else {
                leave(leaving, bundle);
            }
        } else if len == 0 && limit > 0 {
            tell_of_unpacked(here, bundle);
            let len = unpack(bundle, self.ring(list));
            here.pages.set_len(list, len);
        } else {
            self.tell_of_stored(here, list, bundle);
            let left = insert(&mut self.store, list, bundle, leaving);
            self.set_stored(here, self.stored + bundle.frame_count() - left);
        }
    }

    /// Moves up to `frames` frames to `leaving`: the store first, then the colder ends of the
    /// rings, beginning with `list`, then what is in quarantine. Stops when `leaving` is full.
    /// Returns the frames moved.
    pub(super) fn gather(
        &mut self,
        here: Here<'_, 'm, impl Platform>,
        list: ListIndex,
        frames: u64,
        leaving: &mut Bundles,
    ) -> u64 {
        let before = leaving.as_slice().len();
        let mut moved = self.store.pop_many(list, frames, leaving);
        self.set_stored(here, self.stored - moved);
        self.tell_of_chosen(here, list, leaving.as_slice().iter().skip(before));
        while moved < frames && !leaving.is_full() {
            let Some(bundle) = self.choose(here, list) else { break };
            moved += bundle.frame_count();
            leave(leaving, bundle);
        }
        moved
    }

    /// One bundle to part with: of the store, beginning with `list`; else of the rings; else
    /// from quarantine.
    pub(super) fn choose(
        &mut self,
        here: Here<'_, 'm, impl Platform>,
        list: ListIndex,
    ) -> Option<Bundle> {
        here.cost(Cost::ChooseSingly, 1);
        if list.order() == Order::PAGEBLOCK
            && let Some(bundle) = self.choose_from_ring(here, list)
        {
            return Some(bundle);
        }
        let mut stored = self.store.pop(list);
        if stored.is_none() && self.stored > 0 {
            stored = list_order(list).find_map(|list| self.store.pop(list));
        }
        if let Some(bundle) = stored {
            self.set_stored(here, self.stored - bundle.frame_count());
            self.tell_of_slot(here, list, bundle.word);
            return Some(bundle);
        }
        let of_ring = list_order(list).find_map(|list| self.choose_from_ring(here, list));
        of_ring.or_else(|| self.release(here))
    }

    /// The coldest block of a ring, with those of its word that follow it.
    fn choose_from_ring(
        &mut self,
        here: Here<'_, 'm, impl Platform>,
        list: ListIndex,
    ) -> Option<Bundle> {
        let len = here.pages.len(list);
        let ring = self.ring(list);
        let (bundle, used) = pack(&ring[..len], list.order())?;
        tell_of_packed(here, ring.get(..used));
        ring.copy_within(used..len, 0);
        here.pages.set_len(list, len - used);
        Some(bundle)
    }

    /// Moves the coldest `count` blocks of a ring into the store.
    fn spill(
        &mut self,
        here: Here<'_, 'm, impl Platform>,
        list: ListIndex,
        count: usize,
        leaving: &mut Bundles,
    ) {
        let len = here.pages.len(list);
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
            here.cost(Cost::RingFrames, count as u32);
            at = count;
        }
        while at < count {
            let joined = self.store.join(list, &ring[at..count]);
            tell_of_joined(here, &self.store, list, ring.iter().skip(at).take(joined));
            stored += (joined as u64) << order.get();
            at += joined;
            let Some((bundle, used)) = pack(&ring[at..count], order) else { break };
            tell_of_packed(here, ring.get(at..at + used));
            here.cost(Cost::StoreBundles, 1);
            if here.listens() {
                here.touch_store(self.store.line_of(list, bundle.word));
            }
            at += used;
            stored += (used as u64) << order.get();
            stored -= insert(&mut self.store, list, bundle, leaving);
        }
        ring.copy_within(at..len, 0);
        here.pages.set_len(list, len - at);
        self.set_stored(here, stored);
    }

    /// Tells that a bundle goes into the store, or comes out of it to stay.
    #[inline(always)]
    fn tell_of_stored(&self, here: Here<'_, 'm, impl Platform>, list: ListIndex, bundle: Bundle) {
        self.tell_of_slot(here, list, bundle.word);
        here.cost(Cost::StoreBundles, 1);
    }

    /// Tells that the slot of a word is used.
    #[inline(always)]
    fn tell_of_slot(&self, here: Here<'_, 'm, impl Platform>, list: ListIndex, word: u32) {
        if here.listens() {
            here.touch_store(self.store.line_of(list, word));
        }
    }

    /// Tells of bundles that left the store in one go.
    #[inline(always)]
    fn tell_of_chosen<'b>(
        &self,
        here: Here<'_, 'm, impl Platform>,
        list: ListIndex,
        bundles: impl Iterator<Item = &'b Bundle>,
    ) {
        if !here.listens() {
            return;
        }
        for bundle in bundles {
            here.cost(Cost::ChooseBundles, 1);
            here.touch_store(self.store.line_of(list, bundle.word));
        }
    }

    /// Frames in the store and in quarantine.
    pub(super) fn stored(&self) -> u64 {
        self.stored
    }

    pub(super) fn set_stored(&mut self, here: Here<'_, 'm, impl Platform>, frames: u64) {
        self.stored = frames;
        here.pages.set_stored(frames);
    }
}

/// Tells that a bundle goes to a ring: see [`unpack`].
#[inline(always)]
fn tell_of_unpacked(here: Here<'_, '_, impl Platform>, bundle: Bundle) {
    if !here.listens() {
        return;
    }
    if bundle.heads == !0 {
        here.cost(Cost::RingRuns, 1);
    } else {
        here.cost(Cost::RingFrames, bundle.blocks());
    }
}

/// Tells that blocks of a ring joined bundles of the store.
#[inline(always)]
fn tell_of_joined<'f>(
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

/// Tells that blocks of a ring became a bundle: see [`pack`].
#[inline(always)]
fn tell_of_packed(here: Here<'_, '_, impl Platform>, packed: Option<&[u32]>) {
    if !here.listens() {
        return;
    }
    match packed {
        Some(frames) if is_ascending(frames) => here.cost(Cost::RingRuns, 1),
        Some(frames) => here.cost(Cost::RingFrames, frames.len() as u32),
        None => {}
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
pub(super) fn pack(frames: &[u32], order: Order) -> Option<(Bundle, usize)> {
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

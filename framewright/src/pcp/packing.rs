//! Packing the blocks of a ring into bundles, and unpacking them.

use super::index::RING;
use crate::{buddy::Bundle, types::Order};

/// Puts the blocks of a bundle on a ring of `len` blocks, so that the lowest is allocated first. Returns the new
/// number of blocks. The ring has space for them.
#[inline(never)]
pub(super) fn unpack(bundle: Bundle, ring: &mut [u32; RING], mut len: usize) -> usize {
    let base = bundle.word * 64;
    if bundle.heads == !0
        && let Some(places) = ring.get_mut(len..len + 64)
    {
        descend(base + 63, places);
        return len + 64;
    }
    let mut heads = bundle.heads;
    while heads != 0 {
        let bit = 63 - heads.leading_zeros();
        heads ^= 1 << bit;
        ring[len % RING] = base + bit;
        len += 1;
    }
    len
}

/// Packs the leading blocks that lie in one word. Returns the bundle and the number of entries
/// used: up to the first block that lies in another word or is repeated.
#[inline(always)]
pub(super) fn pack(frames: &[u32], order: Order) -> Option<(Bundle, usize)> {
    let &first = frames.first()?;
    let word = first / 64;
    if frames.get(1).is_none_or(|next| next / 64 != word) {
        return Some((Bundle { word, heads: 1 << (first % 64), order }, 1));
    }
    // Frames freed in ascending order are the common case, and cheap to recognise.
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

/// [`pack`], not inlined, for callers off the path of frees.
#[inline(never)]
pub(super) fn pack_outlined(frames: &[u32], order: Order) -> Option<(Bundle, usize)> {
    pack(frames, order)
}

/// Two numbers in a word, in the order in which they lie in memory. The two loops below process two
/// numbers at a time, eight per round. A CPU that allocates or frees many frames in a row spends
/// most of the time in these loops.
#[inline(always)]
const fn two(first: u32, second: u32) -> u64 {
    match cfg!(target_endian = "little") {
        true => first as u64 | (second as u64) << 32,
        false => second as u64 | (first as u64) << 32,
    }
}

/// The inverse of [`two`].
#[inline(always)]
const fn apart(numbers: u64) -> [u32; 2] {
    let (low, high) = (numbers as u32, (numbers >> 32) as u32);
    if cfg!(target_endian = "little") { [low, high] } else { [high, low] }
}

/// The distance from two neighbouring numbers to the next two.
const STEP: u64 = two(2, 2);

/// Fills entries, a multiple of eight, with numbers that descend from `first`.
#[inline(always)]
fn descend(first: u32, entries: &mut [u32]) {
    let mut next = two(first, first - 1);
    let mut down = || {
        let numbers = next;
        next = next.wrapping_sub(STEP);
        apart(numbers)
    };
    for [a, b, c, d, e, f, g, h] in entries.as_chunks_mut().0 {
        [*a, *b] = down();
        [*c, *d] = down();
        [*e, *f] = down();
        [*g, *h] = down();
    }
}

/// Whether the frames follow one another without gaps.
#[inline(always)]
pub(super) fn is_ascending(frames: &[u32]) -> bool {
    let Some(&first) = frames.first() else { return true };
    let mut next = two(first, first.wrapping_add(1));
    let mut is_next = |first, second| {
        let expected = next;
        next = next.wrapping_add(STEP);
        two(first, second) == expected
    };
    let (eights, rest) = frames.as_chunks();
    for &[a, b, c, d, e, f, g, h] in eights {
        if !(is_next(a, b) && is_next(c, d) && is_next(e, f) && is_next(g, h)) {
            return false;
        }
    }
    let behind = first.wrapping_add(8 * eights.len() as u32);
    rest.iter().zip(behind..).all(|(&frame, expected)| frame == expected)
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use super::*;

    #[test]
    fn unpacked_blocks_come_out_in_ascending_order() {
        for heads in [!0u64, 0b1011, 1 << 63 | 1, 0xf0f0] {
            let bundle = Bundle { word: 3, heads, order: Order::ZERO };
            let mut ring = [0; RING];
            let len = unpack(bundle, &mut ring, 0);
            let popped = ring[..len].iter().rev().copied();
            assert!(popped.eq(bundle.frames()), "{heads:#x}");
        }
    }

    #[test]
    fn a_whole_bundle_fits_on_top_of_others() {
        let mut ring = [0; RING];
        let len = unpack(Bundle { word: 7, heads: 0b101, order: Order::ZERO }, &mut ring, 0);
        let len = unpack(Bundle { word: 3, heads: !0, order: Order::ZERO }, &mut ring, len);
        assert!(ring[..len].iter().rev().copied().eq((3 * 64..4 * 64).chain([7 * 64, 7 * 64 + 2])));
    }

    #[test]
    fn only_frames_without_gaps_ascend() {
        for len in 0..64 {
            let straight: Vec<u32> = (1000..1000 + len).collect();
            assert!(is_ascending(&straight), "{len}");
            for at in 1..straight.len() {
                let mut bent = straight.clone();
                bent[at] ^= 1 << (at % 32);
                assert!(!is_ascending(&bent), "{len}, but for entry {at}");
            }
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

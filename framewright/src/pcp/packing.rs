//! Blocks of a ring as bundles, and back: no state, only words and masks.

use super::pages::RING;
use crate::{buddy::Bundle, frame::Order};

/// Fills an empty ring with the blocks of a bundle, so that the lowest is handed out first.
/// Returns how many there are.
#[inline(always)]
pub(super) fn unpack(bundle: Bundle, ring: &mut [u32; RING]) -> usize {
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
pub(super) fn is_ascending(frames: &[u32]) -> bool {
    let first = frames.first().copied().unwrap_or(0);
    let mut expected = first;
    let mut difference = 0;
    for &frame in frames {
        difference |= frame ^ expected;
        expected = expected.wrapping_add(1);
    }
    difference == 0
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

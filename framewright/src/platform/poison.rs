//! The pattern that free frames are filled with.

use crate::types::Pfn;

/// The upper half of every word. No 64-bit machine maps an address with this upper half.
const MARK: u64 = 0xaaaa_aaaa << 32;

/// The word that fills a free frame: a mark, and below it a number. The number differs between
/// frames, so that a copy of another free frame is detected.
#[must_use]
pub const fn poison_word(pfn: Pfn) -> u64 {
    // A multiplicative hash (Knuth): neighbours differ in many bits, and none within 2^32
    // frames agree.
    let number = (pfn.get() as u32).wrapping_mul(0x9e37_79b1);
    MARK | number as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_differ_and_share_the_mark() {
        let words = [0, 1, 2, 0x8_0000, u64::from(u32::MAX)].map(|pfn| poison_word(Pfn::new(pfn)));
        for (i, word) in words.iter().enumerate() {
            assert_eq!(word >> 32, 0xaaaa_aaaa);
            assert!(!words[..i].contains(word), "{word:#x} twice");
        }
    }
}

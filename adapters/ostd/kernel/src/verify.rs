//! Checks that no frame is allocated twice: each allocation writes every word of its frames, and verifies the words
//! before it frees the frames.

use alloc::vec::Vec;
use core::sync::atomic::{AtomicUsize, Ordering};

use ostd::mm::{
    FrameAllocOptions, HasPaddr, HasSize, PAGE_SIZE, Segment, Split, io::util::HasVmReaderWriter,
};

use crate::{held::Random, user};

type Done = Result<(), &'static str>;

static WORDS: AtomicUsize = AtomicUsize::new(0);

/// The number of words that were verified.
pub(crate) fn words() -> usize {
    WORDS.load(Ordering::Relaxed)
}

/// Allocates segments of 1 to 40 frames, and of 700, and frees them in parts, in any order.
pub(crate) fn frames_and_segments(cpu: usize) -> Done {
    let mut random = Random::new(cpu);
    let mut held: Vec<Segment<()>> = Vec::with_capacity(256);
    for step in 0..2000 {
        let frames = if step % 500 == 499 { 700 } else { 1 + random.below(4) * random.below(14) };
        let mut options = FrameAllocOptions::new();
        let zeroed = random.below(4) == 0;
        options.zeroed(zeroed);
        let segment = options.alloc_segment(frames).map_err(|_| "no segment")?;
        if zeroed {
            expect(&segment, |_| 0)?;
        }
        fill(&segment);
        held.push(segment);
        while held.len() > 200 {
            let segment = held.swap_remove(random.below(held.len()));
            expect(&segment, word_at)?;
            let size = segment.size();
            if size == PAGE_SIZE {
                continue;
            }
            // One part is freed, the other is verified again later.
            let (low, high) = segment.split(PAGE_SIZE * (1 + random.below(size / PAGE_SIZE - 1)));
            held.push(if random.below(2) == 0 { low } else { high });
        }
    }
    held.iter().try_for_each(|segment| expect(segment, word_at))
}

/// Runs a process, and verifies every word of its pages.
pub(crate) fn user_pages(_: usize) -> Done {
    WORDS.fetch_add(user::store_every_word()?, Ordering::Relaxed);
    Ok(())
}

fn word_at(addr: usize) -> u64 {
    (addr as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

fn addresses(segment: &Segment<()>) -> impl Iterator<Item = usize> {
    let start = segment.paddr();
    (start..start + segment.size()).step_by(size_of::<u64>())
}

fn fill(segment: &Segment<()>) {
    let mut words = segment.writer();
    for addr in addresses(segment) {
        // The writer has space for all of them.
        let _ = words.write_val(&word_at(addr));
    }
}

fn expect(segment: &Segment<()>, word: fn(usize) -> u64) -> Done {
    let mut words = segment.reader();
    for addr in addresses(segment) {
        if words.read_val::<u64>() != Ok(word(addr)) {
            return Err("a word of a segment is wrong");
        }
    }
    WORDS.fetch_add(segment.size() / size_of::<u64>(), Ordering::Relaxed);
    Ok(())
}

//! What is in frames: words that tell one page from every other, and each other.
//!
//! A page gets a value of its own when it is new, and its words count up from that. What value the page
//! in a frame has is known beside memory: when the kernel says that a page has moved, its value goes
//! with it, and every word has to be there. The library has copied them, or it has not.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use framewright::Pfn;
use framewright_host::HostMachine;

/// See the module. Used inside the kernel.
pub(super) struct Contents {
    /// The value of the page in each frame.
    values: Box<[AtomicU64]>,
    next: AtomicU64,
    /// Pages that were looked at, those of them that had moved, and words that were not what they should.
    pub(super) looked: AtomicU64,
    pub(super) moved: AtomicU64,
    pub(super) wrong: AtomicU64,
}

impl Contents {
    pub(super) fn new(frames: u64) -> Self {
        Self {
            values: (0..frames).map(|_| AtomicU64::new(0)).collect(),
            next: AtomicU64::new(1),
            looked: AtomicU64::new(0),
            moved: AtomicU64::new(0),
            wrong: AtomicU64::new(0),
        }
    }

    /// A new page.
    pub(super) fn store(&self, machine: &HostMachine, frame: u32) {
        // No two pages have a word in common.
        let value = self.next.fetch_add(1, Relaxed) << 16;
        self.values[frame as usize].store(value, Relaxed);
        for (word, value) in machine.frame(pfn(frame)).iter().zip(value..) {
            word.store(value, Relaxed);
        }
    }

    /// Every word is looked at.
    pub(super) fn look(&self, machine: &HostMachine, frame: u32) {
        let value = self.values[frame as usize].load(Relaxed);
        let words = machine.frame(pfn(frame)).iter().zip(value..);
        let wrong = words.map(|(word, value)| u64::from(word.load(Relaxed) != value)).sum::<u64>();
        self.looked.fetch_add(1, Relaxed);
        self.wrong.fetch_add(wrong, Relaxed);
    }

    /// The page of one frame is in another. The old one is wiped, or a page that moves back there could
    /// pass for copied when it was not.
    pub(super) fn has_moved(&self, machine: &HostMachine, from: u32, to: u32) {
        let value = self.values[from as usize].load(Relaxed);
        self.values[to as usize].store(value, Relaxed);
        self.moved.fetch_add(1, Relaxed);
        self.look(machine, to);
        machine.frame(pfn(from)).iter().for_each(|word| word.store(0, Relaxed));
    }
}

fn pfn(frame: u32) -> Pfn {
    Pfn::new(frame.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use framewright::Platform;

    #[test]
    fn what_was_not_copied_is_found() {
        let machine = HostMachine::builder().frames(4).build().unwrap();
        let contents = Contents::new(4);
        contents.store(&machine, 0);
        contents.store(&machine, 1);
        machine.copy(pfn(2), pfn(0));
        contents.has_moved(&machine, 0, 2);
        assert_eq!(contents.wrong.load(Relaxed), 0);
        // Nor does it pass that what is to be copied back was there before.
        contents.has_moved(&machine, 2, 0);
        assert_eq!(contents.wrong.swap(0, Relaxed), 512);
        contents.store(&machine, 2);
        // All of another page, and a word of one that was copied otherwise.
        contents.has_moved(&machine, 2, 1);
        assert_eq!(contents.wrong.load(Relaxed), 512);
        contents.store(&machine, 2);
        machine.frame(pfn(2))[511].store(0, Relaxed);
        contents.look(&machine, 2);
        assert_eq!(contents.wrong.load(Relaxed), 513);
    }
}

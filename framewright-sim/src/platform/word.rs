//! Words of the owners' protocol: the engine's, numbered when they are first used.

use super::Simulated;
use crate::engine::WordId;
use framewright::sync::{Ordering, RawWord};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// A word: its number in the engine plus one, 0 until it is first used.
pub struct SimWord {
    number: AtomicU32,
    initial: u32,
}

impl SimWord {
    #[inline]
    fn id(&self, platform: &Simulated) -> WordId {
        match self.number.load(Relaxed) {
            0 => {
                let id = platform.engine().new_word(self.initial);
                self.number.store(id.0 + 1, Relaxed);
                id
            }
            number => WordId(number - 1),
        }
    }
}

// SAFETY: the engine keeps one value per word and runs one CPU at a time, on one thread. Stores may
// be late as x86 allows, which keeps their order, and read-modify-writes are not: what the
// orderings ask for holds, whichever they are.
unsafe impl RawWord<Simulated> for SimWord {
    fn new(value: u32) -> Self {
        Self { number: AtomicU32::new(0), initial: value }
    }

    #[inline]
    fn load(&self, platform: &Simulated, _: Ordering) -> u32 {
        let id = self.id(platform);
        platform.cpu().map_or_else(|| platform.engine().peek(id), |cpu| cpu.load(id))
    }

    #[inline]
    fn store(&self, platform: &Simulated, value: u32, _: Ordering) {
        let id = self.id(platform);
        match platform.cpu() {
            Some(cpu) => cpu.store(id, value),
            None => platform.engine().poke(id, value),
        }
    }

    fn compare_exchange(
        &self,
        platform: &Simulated,
        current: u32,
        new: u32,
        _: Ordering,
        _: Ordering,
    ) -> Result<u32, u32> {
        let id = self.id(platform);
        if let Some(cpu) = platform.cpu() {
            return cpu.compare_exchange(id, current, new);
        }
        let found = platform.engine().peek(id);
        if found != current {
            return Err(found);
        }
        platform.engine().poke(id, new);
        Ok(found)
    }
}

//! Words of the owner protocol: words of the engine, created when they are first used.

use super::Simulated;
use crate::engine::{Engine, WordId};
use framewright::sync::{Ordering, RawWord};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// A word: its number in the engine plus one, 0 until it is first used.
pub struct SimWord {
    number: AtomicU32,
    initial: u32,
}

impl SimWord {
    #[inline(always)]
    fn id(&self, engine: &Engine) -> WordId {
        match self.number.load(Relaxed) {
            0 => self.first_use(engine),
            number => WordId(number - 1),
        }
    }

    #[cold]
    fn first_use(&self, engine: &Engine) -> WordId {
        let id = engine.new_word(self.initial);
        self.number.store(id.0 + 1, Relaxed);
        id
    }
}

// SAFETY: the engine keeps one value per word and runs one CPU at a time, on one thread. Stores may
// reach memory late, but in order, as on x86. Read-modify-writes are not late. So the guarantees of
// every requested ordering hold.
unsafe impl RawWord<Simulated> for SimWord {
    fn new(value: u32) -> Self {
        Self { number: AtomicU32::new(0), initial: value }
    }

    #[inline(always)]
    fn load(&self, platform: &Simulated, _: Ordering) -> u32 {
        let engine = platform.engine();
        let id = self.id(engine);
        engine.current().map_or_else(|| engine.peek(id), |cpu| cpu.load(id))
    }

    #[inline(always)]
    fn store(&self, platform: &Simulated, value: u32, _: Ordering) {
        let engine = platform.engine();
        let id = self.id(engine);
        match engine.current() {
            Some(cpu) => cpu.store(id, value),
            None => engine.poke(id, value),
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
        let engine = platform.engine();
        let id = self.id(engine);
        if let Some(cpu) = engine.current() {
            return cpu.compare_exchange(id, current, new);
        }
        let found = engine.peek(id);
        if found != current {
            return Err(found);
        }
        engine.poke(id, new);
        Ok(found)
    }
}

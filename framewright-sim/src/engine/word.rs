//! Words that CPUs agree through: with store buffers if wanted, and with an exact way to wait for
//! a change.
//!
//! Store buffers are those of x86: stores of a CPU reach memory in order, later than it goes on;
//! it sees its own at once. When one arrives is the schedule's decision; by the clock, at once.
//! Read-modify-writes, locks, interrupts, waiting and the end of a program empty the buffer.

use super::{Cpu, Engine};
use std::collections::VecDeque;

/// A word, numbered in the order of their making.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct WordId(pub(crate) u32);

#[derive(Clone, Copy)]
struct Word {
    value: u32,
    /// How often it changed.
    version: u32,
}

/// Words that a CPU may wait for at once: what a waiting loop looked at last.
const LOADED: usize = 4;

/// A word and its version as a CPU has seen them.
#[derive(Clone, Copy)]
struct Seen {
    word: u32,
    version: u32,
}

impl Seen {
    const NOTHING: Self = Self { word: u32::MAX, version: 0 };
}

impl Default for Seen {
    fn default() -> Self {
        Self::NOTHING
    }
}

#[derive(Default)]
struct View {
    /// Stores that have not reached memory, oldest first.
    buffer: VecDeque<(u32, u32)>,
    /// What this CPU loaded last since it last waited.
    loaded: [Seen; LOADED],
    /// Where the next goes.
    oldest: usize,
    /// Parked until one of them changes.
    waits: bool,
}

/// All words of a machine.
pub(super) struct Words {
    words: Vec<Word>,
    views: Vec<View>,
}

impl Words {
    pub(super) fn new(cpus: u16) -> Self {
        let views = (0..cpus).map(|_| View::default()).collect();
        Self { words: Vec::new(), views }
    }

    pub(super) fn create(&mut self, value: u32) -> WordId {
        self.words.push(Word { value, version: 0 });
        WordId(self.words.len() as u32 - 1)
    }

    #[inline]
    fn get(&mut self, word: u32) -> &mut Word {
        self.words.get_mut(word as usize).expect("a word of before the machine was restarted")
    }

    #[inline]
    fn store(&mut self, word: u32, value: u32) {
        let word = self.get(word);
        word.value = value;
        word.version = word.version.wrapping_add(1);
    }

    /// Nobody waits, and no store is under way.
    pub(super) fn settle(&mut self) {
        for cpu in 0..self.views.len() {
            while let Some((word, value)) = self.views[cpu].buffer.pop_front() {
                self.store(word, value);
            }
            self.views[cpu].loaded = [Seen::NOTHING; LOADED];
            self.views[cpu].waits = false;
        }
    }

    pub(super) fn forget_all(&mut self) {
        self.settle();
        self.words.clear();
    }

    /// What is in memory, as a CPU sees it if it has no stores of its own under way.
    #[inline(always)]
    fn load(&mut self, cpu: u16, word: u32) -> u32 {
        let Word { value, version } = *self.get(word);
        let view = &mut self.views[usize::from(cpu)];
        view.loaded[view.oldest % LOADED] = Seen { word, version };
        view.oldest = view.oldest.wrapping_add(1);
        value
    }

    /// What a CPU sees: its own latest store, or memory.
    fn load_buffered(&mut self, cpu: u16, word: u32) -> u32 {
        let value = self.load(cpu, word);
        let stores = self.views[usize::from(cpu)].buffer.iter().rev();
        let own = stores.copied().find_map(|(other, value)| (other == word).then_some(value));
        own.unwrap_or(value)
    }

    fn changed_since_loaded(&self, cpu: u16) -> bool {
        let loaded = &self.views[usize::from(cpu)].loaded;
        let changed = |seen: &Seen| {
            self.words.get(seen.word as usize).is_some_and(|word| word.version != seen.version)
        };
        loaded.iter().any(changed)
    }
}

impl View {
    fn waits_for(&self, word: u32) -> bool {
        self.waits && self.loaded.iter().any(|seen| seen.word == word)
    }
}

impl Engine {
    /// Reads a word with nobody running.
    pub(crate) fn peek(&self, WordId(word): WordId) -> u32 {
        self.words.borrow_mut().get(word).value
    }

    /// Changes a word with nobody running.
    pub(crate) fn poke(&self, WordId(word): WordId, value: u32) {
        self.words.borrow_mut().store(word, value);
    }

    /// Lets the oldest store in the buffer of a CPU reach memory.
    pub(super) fn drain_one(&self, cpu: u16) {
        let mut words = self.words.borrow_mut();
        let buffer = &mut words.views[usize::from(cpu)].buffer;
        let Some((word, value)) = buffer.pop_front() else { return };
        if buffer.is_empty()
            && let Some(hunt) = self.scheduler.borrow_mut().hunt()
        {
            hunt.buffers(cpu, false);
        }
        words.store(word, value);
        drop(words);
        self.changed(word, self.cpus[usize::from(cpu)].clock.get());
    }

    /// Whether a store is more than a change in memory: somebody waits, or it is late.
    #[inline(always)]
    fn is_watched(&self) -> bool {
        self.watched.get() | self.stalls.get() | u32::from(self.buffers.get()) != 0
    }

    /// Wakes who waits for a word.
    fn changed(&self, word: u32, now: u64) {
        self.progress();
        if self.watched.get() > 0 {
            self.wake_watchers(word, now);
        }
    }

    #[cold]
    #[inline(never)]
    fn wake_watchers(&self, word: u32, now: u64) {
        for cpu in 0..self.cpus.len() as u16 {
            let mut words = self.words.borrow_mut();
            let view = &mut words.views[usize::from(cpu)];
            if view.waits_for(word) {
                view.waits = false;
                self.watched.set(self.watched.get() - 1);
                drop(words);
                self.wake(cpu, now);
            }
        }
    }
}

impl Cpu<'_> {
    #[cfg(test)]
    pub(crate) fn new_word(&self, value: u32) -> WordId {
        self.engine.new_word(value)
    }

    #[inline]
    pub(crate) fn load(&self, WordId(word): WordId) -> u32 {
        self.glance();
        if self.engine.buffers.get() {
            return self.engine.words.borrow_mut().load_buffered(self.number(), word);
        }
        self.engine.words.borrow_mut().load(self.number(), word)
    }

    #[inline]
    pub(crate) fn store(&self, WordId(word): WordId, value: u32) {
        self.glance();
        if self.engine.is_watched() {
            return self.store_watched(word, value);
        }
        self.engine.words.borrow_mut().store(word, value);
    }

    #[cold]
    #[inline(never)]
    fn store_watched(self, word: u32, value: u32) {
        if !self.engine.buffers.get() {
            self.engine.words.borrow_mut().store(word, value);
            return self.engine.changed(word, self.now());
        }
        self.engine.words.borrow_mut().views[usize::from(self.number())]
            .buffer
            .push_back((word, value));
        if let Some(hunt) = self.engine.scheduler.borrow_mut().hunt() {
            hunt.buffers(self.number(), true);
        }
    }

    pub(crate) fn compare_exchange(
        &self,
        WordId(word): WordId,
        current: u32,
        new: u32,
    ) -> Result<u32, u32> {
        self.step();
        self.fence();
        self.work(self.engine.model.atomic);
        let found = self.engine.words.borrow_mut().load(self.number(), word);
        if found != current {
            return Err(found);
        }
        self.engine.words.borrow_mut().store(word, new);
        self.engine.changed(word, self.now());
        Ok(found)
    }

    /// All stores of this CPU reach memory.
    pub(crate) fn fence(&self) {
        if !self.engine.buffers.get() {
            return;
        }
        while !self.engine.words.borrow().views[usize::from(self.number())].buffer.is_empty() {
            self.engine.drain_one(self.number());
        }
    }

    /// Waits until a word that this CPU loaded since it last waited has changed since.
    pub(crate) fn wait_for_change(&self) {
        self.fence();
        let me = usize::from(self.number());
        if !self.engine.words.borrow().changed_since_loaded(self.number()) {
            let watched = &self.engine.watched;
            self.engine.words.borrow_mut().views[me].waits = true;
            watched.set(watched.get() + 1);
            self.park();
            if std::mem::take(&mut self.engine.words.borrow_mut().views[me].waits) {
                watched.set(watched.get() - 1);
            }
        }
        self.engine.words.borrow_mut().views[me].loaded = [Seen::NOTHING; LOADED];
    }
}

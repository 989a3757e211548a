//! Words of memory through which CPUs synchronize, with optional store buffers, and with an exact
//! wait for a change.
//!
//! The store buffers are those of x86: stores of a CPU reach memory in order, later than they are
//! executed, and the CPU itself sees them at once. The schedule decides when a store reaches
//! memory; in a schedule by clocks it does at once. Read-modify-writes, locks, interrupts, waits
//! and the end of a program drain the buffer.

use super::{Cpu, CpuSet, Engine, Waiting, table::Table};
use framewright::CpuId;
use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
};

/// A word. Words are numbered in the order of their creation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct WordId(pub(crate) u32);

#[derive(Clone, Copy)]
struct Word {
    value: u32,
    /// The number of stores that reached it.
    version: u32,
}

/// Words that a CPU may wait for at once: the last ones that a wait loop loaded.
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

/// The words that a CPU has loaded since its last wait.
#[derive(Default)]
pub(super) struct Loaded {
    seen: [Cell<Seen>; LOADED],
    /// The index of the entry that the next load replaces.
    oldest: Cell<usize>,
    /// Whether the CPU is parked until one of the words changes.
    waits: Cell<bool>,
}

impl Loaded {
    #[inline(always)]
    fn note(&self, seen: Seen) {
        let place = self.oldest.get();
        self.seen[place % LOADED].set(seen);
        self.oldest.set(place.wrapping_add(1));
    }

    fn clear(&self) {
        self.seen.iter().for_each(|seen| seen.set(Seen::NOTHING));
    }

    fn waits_for(&self, word: u32) -> bool {
        self.waits.get() && self.seen.iter().any(|seen| seen.get().word == word)
    }

    /// Ends the wait, and removes the loaded words.
    pub(super) fn reset(&self) {
        self.clear();
        self.waits.set(false);
    }
}

/// CPUs that wait for the change of a word.
#[derive(Default)]
pub(super) struct Watchers {
    cpus: Cell<CpuSet>,
    /// The number of such CPUs; every store checks it.
    count: Cell<u32>,
}

impl Watchers {
    /// Adds a CPU that did not wait.
    fn insert(&self, cpu: CpuId) {
        let mut cpus = self.cpus.get();
        cpus.insert(cpu);
        self.cpus.set(cpus);
        self.count.set(self.count.get() + 1);
    }

    /// Removes a CPU.
    fn remove(&self, cpu: CpuId) {
        let mut cpus = self.cpus.get();
        cpus.remove(cpu);
        self.cpus.set(cpus);
        self.count.set(self.count.get() - 1);
    }

    pub(super) fn clear_all(&self) {
        self.cpus.set(CpuSet::default());
        self.count.set(0);
    }
}

/// All words of a machine.
pub(super) struct Words {
    /// The values in memory.
    words: Table<Word>,
    /// By CPU: stores that have not reached memory, oldest first.
    buffers: RefCell<Vec<VecDeque<(u32, u32)>>>,
}

impl Words {
    pub(super) fn new(cpus: u16) -> Self {
        let buffers = (0..cpus).map(|_| VecDeque::new()).collect();
        Self { words: Table::default(), buffers: RefCell::new(buffers) }
    }

    pub(super) fn create(&self, value: u32) -> WordId {
        WordId(self.words.push(Word { value, version: 0 }) as u32)
    }

    /// The value of a word in memory.
    #[inline(always)]
    fn get(&self, word: u32) -> Word {
        self.words.get(word as usize).expect("a word that was created after the last restart")
    }

    #[inline(always)]
    fn store(&self, word: u32, value: u32) {
        let version = self.get(word).version.wrapping_add(1);
        self.words.set(word as usize, Word { value, version });
    }

    /// Puts a store of a CPU into its store buffer.
    fn buffer(&self, cpu: u16, word: u32, value: u32) {
        self.buffers.borrow_mut()[usize::from(cpu)].push_back((word, value));
    }

    /// Moves the oldest store in the buffer of a CPU to memory. Returns its word, and whether the
    /// buffer is empty now.
    fn drain_one(&self, cpu: u16) -> Option<(u32, bool)> {
        let mut buffers = self.buffers.borrow_mut();
        let buffer = &mut buffers[usize::from(cpu)];
        let (word, value) = buffer.pop_front()?;
        self.store(word, value);
        Some((word, buffer.is_empty()))
    }

    /// Whether all stores of a CPU have reached memory.
    fn is_drained(&self, cpu: u16) -> bool {
        self.buffers.borrow()[usize::from(cpu)].is_empty()
    }

    /// Moves all stores to memory.
    pub(super) fn drain_all(&self) {
        let cpus = self.buffers.borrow().len() as u16;
        (0..cpus).for_each(|cpu| while self.drain_one(cpu).is_some() {});
    }

    pub(super) fn clear_all(&self) {
        self.drain_all();
        self.words.clear();
    }

    /// The latest store of a CPU to a word, if it has not reached memory.
    fn own(&self, cpu: u16, word: u32) -> Option<u32> {
        let buffers = self.buffers.borrow();
        let mut stores = buffers[usize::from(cpu)].iter().rev();
        stores.find_map(|&(other, value)| (other == word).then_some(value))
    }

    fn changed_since(&self, loaded: &Loaded) -> bool {
        let changed = |seen: Seen| {
            let word = self.words.get(seen.word as usize);
            word.is_some_and(|word| word.version != seen.version)
        };
        loaded.seen.iter().any(|seen| changed(seen.get()))
    }
}

impl Engine {
    /// Reads a word while no CPU runs.
    pub(crate) fn peek(&self, WordId(word): WordId) -> u32 {
        self.words.get(word).value
    }

    /// Changes a word while no CPU runs.
    pub(crate) fn poke(&self, WordId(word): WordId, value: u32) {
        self.words.store(word, value);
    }

    /// Moves the oldest store in the buffer of a CPU to memory.
    pub(super) fn drain_one(&self, cpu: u16) {
        let Some((word, was_last)) = self.words.drain_one(cpu) else { return };
        if was_last && let Some(explorer) = self.scheduler.borrow_mut().explorer() {
            explorer.buffers(cpu, false);
        }
        self.changed(word, self.cpus[usize::from(cpu)].clock.get());
    }

    /// Whether a store does more than change memory: a CPU waits for a word, or store buffers are
    /// on.
    #[inline(always)]
    fn is_watched(&self) -> bool {
        self.watchers.count.get() | self.stalls.get() | u32::from(self.buffers.get()) != 0
    }

    /// Wakes the CPUs that wait for a word.
    fn changed(&self, word: u32, now: u64) {
        self.progress();
        if self.watchers.count.get() > 0 {
            self.wake_watchers(word, now);
        }
    }

    #[cold]
    #[inline(never)]
    fn wake_watchers(&self, word: u32, now: u64) {
        for id in self.watchers.cpus.get().iter() {
            let loaded = &self.cpus[id.index()].loaded;
            if loaded.waits_for(word) {
                loaded.waits.set(false);
                self.watchers.remove(id);
                self.wake(id.get(), now);
            }
        }
    }
}

impl Cpu<'_> {
    #[cfg(test)]
    pub(crate) fn new_word(&self, value: u32) -> WordId {
        self.engine.new_word(value)
    }

    #[inline(always)]
    pub(crate) fn load(&self, WordId(word): WordId) -> u32 {
        self.step_if_due();
        let value = self.load_memory(word);
        if self.engine.buffers.get() { self.load_own(word).unwrap_or(value) } else { value }
    }

    /// This CPU's latest store to a word, if it has not reached memory.
    #[cold]
    #[inline(never)]
    fn load_own(self, word: u32) -> Option<u32> {
        self.engine.words.own(self.number(), word)
    }

    /// The value in memory. This CPU sees it unless its own store to the word is in its buffer.
    #[inline(always)]
    fn load_memory(&self, word: u32) -> u32 {
        let Word { value, version } = self.engine.words.get(word);
        self.state().loaded.note(Seen { word, version });
        value
    }

    #[inline(always)]
    pub(crate) fn store(&self, WordId(word): WordId, value: u32) {
        self.step_if_due();
        if self.engine.is_watched() {
            return self.store_watched(word, value);
        }
        self.engine.words.store(word, value);
    }

    #[cold]
    #[inline(never)]
    fn store_watched(self, word: u32, value: u32) {
        if !self.engine.buffers.get() {
            self.engine.words.store(word, value);
            return self.engine.changed(word, self.now());
        }
        self.engine.words.buffer(self.number(), word, value);
        if let Some(explorer) = self.engine.scheduler.borrow_mut().explorer() {
            explorer.buffers(self.number(), true);
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
        let found = self.load_memory(word);
        if found != current {
            return Err(found);
        }
        self.engine.words.store(word, new);
        self.engine.changed(word, self.now());
        Ok(found)
    }

    /// Drains the store buffer of this CPU.
    pub(crate) fn fence(&self) {
        if !self.engine.buffers.get() {
            return;
        }
        while !self.engine.words.is_drained(self.number()) {
            self.engine.drain_one(self.number());
        }
    }

    /// Waits for a change of one of the words that this CPU has loaded since its last wait.
    pub(crate) fn wait_for_change(&self) {
        self.fence();
        let loaded = &self.state().loaded;
        if !self.engine.words.changed_since(loaded) {
            let (watchers, me) = (&self.engine.watchers, self.id());
            loaded.waits.set(true);
            watchers.insert(me);
            self.waits(Waiting::Word, || self.park());
            if loaded.waits.take() {
                watchers.remove(me);
            }
        }
        loaded.clear();
    }
}

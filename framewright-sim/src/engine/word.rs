//! Words that CPUs agree through: with store buffers if wanted, and with an exact way to wait for
//! a change.

use super::Cpu;
use std::collections::VecDeque;

/// A word, numbered by first use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct WordId(pub(crate) u32);

#[derive(Default)]
struct View {
    /// Stores that have not reached memory, oldest first.
    buffer: VecDeque<(u32, u32)>,
    /// Words loaded since this CPU last waited.
    loaded: Vec<u32>,
}

/// All words of a machine.
pub(super) struct Words {
    memory: Vec<u32>,
    views: Vec<View>,
    buffered: bool,
}

impl Words {
    pub(super) fn new(cpus: u16, buffered: bool) -> Self {
        Self { memory: Vec::new(), views: (0..cpus).map(|_| View::default()).collect(), buffered }
    }

    /// Lets the oldest buffered store of a CPU reach memory; which word it was.
    fn drain_one(&mut self, cpu: u16) -> Option<u32> {
        let (word, value) = self.views[usize::from(cpu)].buffer.pop_front()?;
        self.memory[word as usize] = value;
        Some(word)
    }
}

impl Cpu<'_> {
    pub(crate) fn new_word(&self, value: u32) -> WordId {
        let mut words = self.engine.words.borrow_mut();
        words.memory.push(value);
        WordId(words.memory.len() as u32 - 1)
    }

    pub(crate) fn load(&self, WordId(word): WordId) -> u32 {
        self.step();
        let mut words = self.engine.words.borrow_mut();
        let view = &mut words.views[usize::from(self.number())];
        if !view.loaded.contains(&word) {
            view.loaded.push(word);
        }
        let own = view.buffer.iter().rev().find(|(other, _)| *other == word).map(|(_, v)| *v);
        own.unwrap_or_else(|| words.memory[word as usize])
    }

    pub(crate) fn store(&self, WordId(word): WordId, value: u32) {
        self.step();
        let mut words = self.engine.words.borrow_mut();
        words.views[usize::from(self.number())].buffer.push_back((word, value));
        if !words.buffered {
            drop(words);
            self.fence();
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
        let found = self.load(WordId(word));
        if found != current {
            return Err(found);
        }
        self.engine.words.borrow_mut().memory[word as usize] = new;
        self.changed(word);
        Ok(found)
    }

    /// All stores of this CPU reach memory.
    pub(crate) fn fence(&self) {
        loop {
            let drained = self.engine.words.borrow_mut().drain_one(self.number());
            let Some(word) = drained else { return };
            self.changed(word);
        }
    }

    /// Waits until a word that this CPU loaded since it last waited has changed.
    pub(crate) fn wait_for_change(&self) {
        self.fence();
        self.park();
        self.engine.words.borrow_mut().views[usize::from(self.number())].loaded.clear();
    }

    fn changed(&self, word: u32) {
        for other in 0..self.engine.cpus.len() as u16 {
            let waits = self.engine.words.borrow().views[usize::from(other)].loaded.contains(&word);
            if waits && other != self.number() {
                self.engine.wake(other, self.now());
            }
        }
    }
}

//! What the index remembers of its search for something to empty, between calls: words without a
//! lock. Whoever loses a race about them looks once too often.
//!
//! The search goes round and round: along the lists for pageblocks that certainly can be emptied,
//! then once more for doubtful ones, and from the beginning again. Each call goes on where the last
//! one stopped, and takes first what that one has seen and not used. After a whole round in which
//! nothing was found, memory holds nothing to empty as far as anybody knows: from then on a request
//! looks at one piece only, by turns where the search goes on and at the heads of the lists, where
//! new empty ones come, until something is found. Who has time goes all the way round.
//!
//! Full pageblocks are on no list. They are looked for by address, after a round or in a turn of theirs,
//! and again from where it was left.
//!
//! What could not be emptied is marked and passed over. After a round in vain the marks are taken
//! away, but each time in a row that nothing comes of it, twice as many rounds later.

use super::{ZoneCompaction, deferral::Deferral};
use crate::{
    buddy::{Search, Sources},
    frame::Order,
    sync::{AtomicU32, AtomicU64, Ordering},
};

/// No pageblock.
const NONE: u32 = u32::MAX;

/// Of a source that is kept: it is doubtful.
const DOUBTFUL: u32 = 1 << 31;

/// See the module.
pub(super) struct Quest {
    at: AtomicU64,
    /// Where the search for full ones goes on.
    full_at: AtomicU32,
    /// Seen and not used yet, best first; gaps are [`NONE`].
    kept: [AtomicU32; Sources::MOST],
    /// How often marks stay where they are after a round in vain.
    marks: Deferral,
    /// Where nothing was found: whose turn it is.
    turn: AtomicU32,
}

/// Where a request looks that looks at one piece only.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Turn {
    /// At the heads of the lists: every other time.
    Heads,
    /// Where the search along the lists goes on.
    Lists,
    /// At full pageblocks.
    Full,
}

/// How far the search has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Progress {
    /// The pageblock that the next piece begins with; `None`: the beginning of the lists.
    pub(super) resume: Option<u32>,
    /// It looks for doubtful ones.
    pub(super) doubtful: bool,
    /// Something was found in this round.
    pub(super) fruitful: bool,
    /// In the round before nothing was.
    pub(super) barren: bool,
}

impl Progress {
    /// At the beginning of the lists.
    pub(super) const START: Self =
        Self { resume: None, doubtful: false, fruitful: false, barren: false };

    fn to_bits(self) -> u64 {
        let flags = [self.doubtful, self.fruitful, self.barren];
        let flags = flags.iter().rev().fold(0, |bits, &flag| bits << 1 | u64::from(flag));
        u64::from(self.resume.unwrap_or(NONE)) | flags << 32
    }

    fn from_bits(bits: u64) -> Self {
        let is = |nth: u32| bits >> (32 + nth) & 1 != 0;
        let resume = Some(bits as u32).filter(|&index| index != NONE);
        Self { resume, doubtful: is(0), fruitful: is(1), barren: is(2) }
    }

    /// The next piece, of so many headers.
    pub(super) fn piece(&self, headers: u32) -> Search {
        Search { headers, resume: self.resume, doubtful: self.doubtful }
    }

    /// The same after something was found elsewhere than where the search goes on.
    pub(super) fn found(self) -> Self {
        Self { fruitful: true, barren: false, ..self }
    }

    /// A piece has ended at `resume`, and has found something or not. Whether with it a round ended
    /// in vain.
    pub(super) fn advance(&mut self, resume: Option<u32>, found: bool) -> bool {
        self.resume = resume;
        self.fruitful |= found;
        self.barren &= !found;
        if resume.is_some() {
            return false;
        }
        let ended = self.doubtful;
        self.doubtful = !ended;
        let in_vain = ended && !self.fruitful;
        if ended {
            (self.fruitful, self.barren) = (false, in_vain);
        }
        in_vain
    }
}

impl Quest {
    pub(super) fn new() -> Self {
        Self {
            at: AtomicU64::new(Progress::START.to_bits()),
            full_at: AtomicU32::new(0),
            kept: core::array::from_fn(|_| AtomicU32::new(NONE)),
            marks: Deferral::new(),
            turn: AtomicU32::new(0),
        }
    }

    pub(super) fn progress(&self) -> Progress {
        Progress::from_bits(self.at.load(Ordering::Relaxed))
    }

    pub(super) fn set_progress(&self, progress: Progress) {
        self.at.store(progress.to_bits(), Ordering::Relaxed);
    }

    /// From the beginning of the lists, with nothing kept.
    pub(super) fn begin_anew(&self) {
        self.set_progress(Progress::START);
        self.kept.iter().for_each(|word| word.store(NONE, Ordering::Relaxed));
    }

    /// Keeps what a piece has found besides the first, instead of what was kept.
    pub(super) fn keep(&self, found: &Sources, doubtful: bool) {
        let flag = if doubtful { DOUBTFUL } else { 0 };
        let rest = found.iter().skip(1).map(|index| index | flag);
        for (word, index) in self.kept.iter().zip(rest.chain(core::iter::repeat(NONE))) {
            word.store(index, Ordering::Relaxed);
        }
    }

    /// The best that is kept, and whether it is doubtful. It is not kept any more.
    pub(super) fn take(&self) -> Option<(u32, bool)> {
        let full = |word: &&AtomicU32| word.load(Ordering::Relaxed) != NONE;
        let taken = self.kept.iter().find(full)?.swap(NONE, Ordering::Relaxed);
        (taken != NONE).then_some((taken & !DOUBTFUL, taken & DOUBTFUL != 0))
    }

    /// Whose turn it is, where nothing was found; the next time it is another's. Else always the lists'.
    pub(super) fn next_turn_if(&self, barren: bool) -> Turn {
        if !barren {
            return Turn::Lists;
        }
        let turn = self.turn.load(Ordering::Relaxed);
        self.turn.store(turn.wrapping_add(1), Ordering::Relaxed);
        match turn % 4 {
            1 => Turn::Lists,
            3 => Turn::Full,
            _ => Turn::Heads,
        }
    }

    /// Where the search for full ones goes on.
    pub(super) fn full_at(&self) -> u32 {
        self.full_at.load(Ordering::Relaxed)
    }

    /// It goes on there; `None`: at the beginning of memory.
    pub(super) fn set_full_at(&self, resume: Option<u32>) {
        self.full_at.store(resume.unwrap_or(0), Ordering::Relaxed);
    }

    /// After a round in vain: whether marks are to be taken away.
    pub(super) fn forgives(&self) -> bool {
        let forgives = !self.marks.refuses(Order::PAGEBLOCK);
        if forgives {
            self.marks.defer(Order::PAGEBLOCK);
        }
        forgives
    }

    /// Something was emptied: marks are worth taking away again.
    pub(super) fn succeed(&self) {
        self.marks.reset(Order::PAGEBLOCK, true);
    }
}

/// Pageblocks that a call has emptied but for pages that somebody had, or has not begun with: the next one
/// does. Who had a page has it longer than the call takes, and often not much longer.
#[derive(Default)]
pub(super) struct Busy {
    sources: [u32; Self::MOST],
    count: usize,
}

impl Busy {
    /// More stay marked.
    const MOST: usize = 4;

    pub(super) fn add(&mut self, source: u32) {
        if let Some(free) = self.sources.get_mut(self.count) {
            *free = source;
            self.count += 1;
        }
    }

    /// Keeps them in the first places.
    pub(super) fn keep(self, hints: &ZoneCompaction) {
        for (nth, &source) in self.sources[..self.count].iter().enumerate() {
            hints.skip.clear(source);
            hints.quest.kept[nth].store(source, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_is_a_word() {
        for bits in 0..8 {
            let is = |nth: u32| bits >> nth & 1 != 0;
            for resume in [None, Some(0), Some(77)] {
                let progress = Progress { resume, doubtful: is(0), fruitful: is(1), barren: is(2) };
                assert_eq!(Progress::from_bits(progress.to_bits()), progress);
            }
        }
    }

    #[test]
    fn a_round_is_in_vain_if_neither_the_certain_nor_the_doubtful_came_to_anything() {
        let mut progress = Progress::START;
        assert!(!progress.advance(Some(5), false) && !progress.advance(None, false));
        assert!(progress.doubtful && progress.resume.is_none());
        assert!(progress.advance(None, false) && progress.barren && !progress.doubtful);
        assert!(!progress.advance(Some(3), true));
        assert!(!progress.barren && progress.fruitful);
        assert!(!progress.advance(None, false) && !progress.advance(None, false));
        assert!(!progress.barren && !progress.fruitful, "another round has begun");
    }

    #[test]
    fn marks_are_taken_away_ever_more_rarely_while_nothing_comes_of_it() {
        let quest = Quest::new();
        let forgiven: std::vec::Vec<u32> = (0..16).filter(|_| quest.forgives()).collect();
        assert_eq!(forgiven, [0, 2, 6, 14]);
        quest.succeed();
        assert!(quest.forgives());
    }
}

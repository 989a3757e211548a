//! What the index remembers of its search for something to empty, between calls: words without a
//! lock. Whoever loses a race about them looks once too often.
//!
//! The search goes round and round: along the lists for pageblocks that certainly can be emptied, then
//! once more for doubtful ones, then by address for full ones, and from the beginning again. Each call
//! goes on where the last one stopped, and takes first what that one has seen and not used. After a whole
//! round in which nothing was found, memory holds nothing to empty as far as anybody knows: from then on
//! a request looks at one piece only, by turns where the search goes on and at the heads of the lists,
//! where new empty ones come, until something is found. Who has time goes all the way round.
//!
//! Full ones there always are, and most have nowhere to go: whether a round was in vain is known before
//! them, and only one that was emptied says otherwise.
//!
//! What could not be emptied is marked and passed over. After a round in vain the marks are taken
//! away, but each time in a row that nothing comes of it, twice as many rounds later.

use super::deferral::Deferral;
use crate::{
    buddy::{Kind, Sources},
    sync::{AtomicBool, AtomicU32, AtomicU64, Ordering},
    types::Order,
};

/// No pageblock.
const NONE: u32 = u32::MAX;

/// Where the kind of a source stands, above its number.
const KIND: u32 = 30;

/// See the module.
pub(super) struct Quest {
    at: AtomicU64,
    /// What was emptied but for pages that somebody had: the next call begins with it. Who had a page has it
    /// longer than a call takes, and often not much longer.
    begun: [AtomicU32; Begun::MOST],
    /// Seen and not used yet, best first; gaps are [`NONE`].
    kept: [AtomicU32; Sources::MOST],
    /// How often marks stay where they are after a round in vain.
    marks: Deferral,
    /// Where nothing was found: the heads of the lists were looked at last.
    at_heads: AtomicBool,
}

/// Something to empty: a pageblock, or the first of several.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Source {
    pub(super) index: u32,
    /// What it was found as.
    pub(super) kind: Kind,
}

impl Source {
    fn to_bits(self) -> u32 {
        self.index | (self.kind as u32) << KIND
    }

    fn from_bits(bits: u32) -> Option<Self> {
        let source = Self { index: bits & !(3 << KIND), kind: Kind::from_bits(bits >> KIND) };
        (bits != NONE).then_some(source)
    }
}

/// What a call begins with. Taken one by one: what it does not come to stays for the next call. What it begins
/// itself does so, too, for that goes where it has taken something.
#[derive(Debug)]
pub(super) struct Begun<'q>(core::slice::Iter<'q, AtomicU32>);

impl Begun<'_> {
    const MOST: usize = 4;
}

impl Iterator for Begun<'_> {
    type Item = Source;

    fn next(&mut self) -> Option<Source> {
        self.0.find_map(|word| Source::from_bits(word.swap(NONE, Ordering::Relaxed)))
    }
}

/// How far the search has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Progress {
    /// What it looks for.
    pub(super) kind: Kind,
    /// The pageblock on the lists that it goes on with; `None`: the first.
    listed_at: Option<u32>,
    /// The same of the search for full ones, which some go round without.
    full_at: u32,
    /// Something was found in this round.
    pub(super) fruitful: bool,
    /// In the round before nothing was.
    pub(super) barren: bool,
}

impl Progress {
    /// At the beginning of a round.
    pub(super) const START: Self =
        Self { kind: Kind::Certain, listed_at: None, full_at: 0, fruitful: false, barren: false };

    fn to_bits(self) -> u64 {
        let flags = u64::from(self.fruitful) << 62 | u64::from(self.barren) << 63;
        let places =
            u64::from(self.listed_at.map_or(0, |index| index + 1)) | u64::from(self.full_at) << 32;
        places | (self.kind as u64) << 60 | flags
    }

    fn from_bits(bits: u64) -> Self {
        Self {
            kind: Kind::from_bits((bits >> 60) as u32),
            listed_at: (bits as u32).checked_sub(1),
            full_at: (bits >> 32) as u32 & !0 >> 4,
            fruitful: bits >> 62 & 1 != 0,
            barren: bits >> 63 != 0,
        }
    }

    /// Where the next piece begins; `None`: with the first.
    pub(super) fn resume(&self) -> Option<u32> {
        if self.kind == Kind::Full { Some(self.full_at) } else { self.listed_at }
    }

    /// The same at the beginning of a kind.
    pub(super) fn begin(self, kind: Kind) -> Self {
        Self { kind, listed_at: None, ..self }
    }

    /// A piece has ended at `resume`, and has found something or not.
    pub(super) fn advance(&mut self, resume: Option<u32>, found: bool) {
        if self.kind == Kind::Full {
            self.full_at = resume.unwrap_or(0);
        } else {
            self.listed_at = resume;
            self.fruitful |= found;
            self.barren &= !found;
        }
        if resume.is_none() {
            self.end_kind();
        }
    }

    /// The next kind is looked for.
    pub(super) fn end_kind(&mut self) {
        if self.kind == Kind::Doubtful {
            (self.fruitful, self.barren) = (false, !self.fruitful);
        }
        (self.kind, self.listed_at) = (self.kind.next(), None);
    }
}

impl Quest {
    pub(super) fn new() -> Self {
        Self {
            at: AtomicU64::new(Progress::START.to_bits()),
            begun: core::array::from_fn(|_| AtomicU32::new(NONE)),
            kept: core::array::from_fn(|_| AtomicU32::new(NONE)),
            marks: Deferral::new(),
            at_heads: AtomicBool::new(false),
        }
    }

    pub(super) fn progress(&self) -> Progress {
        Progress::from_bits(self.at.load(Ordering::Relaxed))
    }

    pub(super) fn set_progress(&self, progress: Progress) {
        self.at.store(progress.to_bits(), Ordering::Relaxed);
    }

    /// From the first of a kind, with nothing kept.
    pub(super) fn begin_anew(&self, kind: Kind) {
        self.set_progress(self.progress().begin(kind));
        self.kept.iter().for_each(|word| word.store(NONE, Ordering::Relaxed));
    }

    /// Keeps what a piece has found besides the first, instead of what was kept.
    pub(super) fn keep(&self, found: &Sources, kind: Kind) {
        let rest = found.iter().skip(1).map(|index| Source { index, kind }.to_bits());
        for (word, bits) in self.kept.iter().zip(rest.chain(core::iter::repeat(NONE))) {
            word.store(bits, Ordering::Relaxed);
        }
    }

    /// The best that is kept. It is not kept any more.
    pub(super) fn take(&self) -> Option<Source> {
        let full = |word: &&AtomicU32| word.load(Ordering::Relaxed) != NONE;
        Source::from_bits(self.kept.iter().find(full)?.swap(NONE, Ordering::Relaxed))
    }

    /// The next call begins with `source`, too, of which something has moved; but with no more than a few.
    /// What was full is like others now.
    pub(super) fn set_begun(&self, source: Source) {
        let was_full = source.kind == Kind::Full;
        let source = Source { kind: if was_full { Kind::Certain } else { source.kind }, ..source };
        let free = |word: &&AtomicU32| word.load(Ordering::Relaxed) == NONE;
        if let Some(word) = self.begun.iter().find(free) {
            word.store(source.to_bits(), Ordering::Relaxed);
        }
    }

    /// What this call begins with.
    pub(super) fn begun(&self) -> Begun<'_> {
        Begun(self.begun.iter())
    }

    /// Whether the heads of the lists are to be looked at, where nothing was found: every other time.
    pub(super) fn turns_to_heads(&self) -> bool {
        let turns = !self.at_heads.load(Ordering::Relaxed);
        self.at_heads.store(turns, Ordering::Relaxed);
        turns
    }

    /// After a round in vain: whether marks are to be taken away.
    pub(super) fn forgives(&self) -> bool {
        let forgives = !self.marks.refuses(Order::PAGEBLOCK);
        if forgives {
            self.marks.defer(Order::PAGEBLOCK);
        }
        forgives
    }

    /// Something was emptied: there may be more, and marks are worth taking away again. After a full one
    /// what takes fewer moves may have come meanwhile.
    pub(super) fn succeed(&self) {
        let mut progress = Progress { fruitful: true, barren: false, ..self.progress() };
        if progress.kind == Kind::Full {
            progress.end_kind();
        }
        self.set_progress(progress);
        self.marks.reset(Order::PAGEBLOCK, true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_and_sources_are_words() {
        for kind in [Kind::Certain, Kind::Doubtful, Kind::Full] {
            let source = Source { index: (1 << 23) - 1, kind };
            assert_eq!(Source::from_bits(source.to_bits()), Some(source));
            for (listed_at, full_at) in [(None, 77), (Some(0), (1 << 23) - 1), (Some(77), 0)] {
                for (fruitful, barren) in [(false, true), (true, false)] {
                    let progress = Progress { kind, listed_at, full_at, fruitful, barren };
                    assert_eq!(Progress::from_bits(progress.to_bits()), progress);
                }
            }
        }
        assert_eq!(Source::from_bits(NONE), None);
    }

    #[test]
    fn a_round_is_in_vain_if_neither_the_certain_nor_the_doubtful_came_to_anything() {
        let mut progress = Progress::START;
        progress.advance(Some(5), false);
        progress.advance(None, false);
        assert!(progress.kind == Kind::Doubtful && progress.resume().is_none());
        progress.advance(None, false);
        assert!(progress.kind == Kind::Full && progress.barren);
        progress.advance(None, true);
        assert!(progress.kind == Kind::Certain && progress.barren, "full ones there always are");
        progress.advance(Some(3), true);
        assert!(!progress.barren && progress.fruitful);
        progress.advance(None, false);
        progress.advance(None, false);
        assert!(!progress.barren && !progress.fruitful, "another round begins");
    }

    #[test]
    fn who_goes_round_without_full_ones_leaves_others_their_place() {
        let mut progress = Progress { kind: Kind::Full, ..Progress::START };
        progress.advance(Some(64), false);
        progress.end_kind();
        progress.advance(None, false);
        progress.advance(None, false);
        assert_eq!(progress.resume(), Some(64));
    }

    #[test]
    fn what_a_call_does_not_come_to_stays_begun_and_what_it_begins_is_for_the_next() {
        let quest = Quest::new();
        let source = |index| Source { index, kind: Kind::Certain };
        [1, 2].into_iter().for_each(|index| quest.set_begun(source(index)));
        assert_eq!(quest.begun().next(), Some(source(1)));
        quest.set_begun(source(3));
        let mut begun = quest.begun();
        assert_eq!(begun.next(), Some(source(3)));
        quest.set_begun(source(4));
        assert_eq!((begun.next(), begun.next()), (Some(source(2)), None));
        assert_eq!(quest.begun().next(), Some(source(4)));
    }

    #[test]
    fn what_was_emptied_ends_that_little_is_looked_at() {
        let quest = Quest::new();
        quest.set_progress(Progress { kind: Kind::Full, barren: true, ..Progress::START });
        quest.succeed();
        let progress = quest.progress();
        assert!(!progress.barren && progress.kind == Kind::Certain);
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

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
    buddy::{SourceKind, Sources},
    sync::{AtomicBool, AtomicU32, AtomicU64, Ordering},
    types::Order,
};

/// No pageblock.
const NONE: u32 = u32::MAX;

/// Where the kind of a source stands, above its number.
const KIND: u32 = 30;

/// See the module.
pub(super) struct SearchCursor {
    progress_bits: AtomicU64,
    /// What was emptied but for pages that somebody had: the next call begins with it. Who had a page has it
    /// longer than a call takes, and often not much longer.
    partly_emptied: [AtomicU32; PartlyEmptied::MOST],
    /// Seen and not used yet, best first; gaps are [`NONE`].
    candidates: [AtomicU32; Sources::MOST],
    /// How often marks stay where they are after a round in vain.
    skip_hint_resets: Deferral,
    /// Where nothing was found: the heads of the lists were looked at last.
    heads_were_last: AtomicBool,
}

/// Something to empty: a pageblock, or the first of several.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Source {
    pub(super) index: u32,
    /// What it was found as.
    pub(super) kind: SourceKind,
}

impl Source {
    fn to_bits(self) -> u32 {
        self.index | (self.kind as u32) << KIND
    }

    fn from_bits(bits: u32) -> Option<Self> {
        let source = Self { index: bits & !(3 << KIND), kind: SourceKind::from_bits(bits >> KIND) };
        (bits != NONE).then_some(source)
    }
}

/// What a call begins with. Taken one by one: what it does not come to stays for the next call. What it begins
/// itself does so, too, for that goes where it has taken something.
#[derive(Debug)]
pub(super) struct PartlyEmptied<'q>(core::slice::Iter<'q, AtomicU32>);

impl PartlyEmptied<'_> {
    const MOST: usize = 4;
}

impl Iterator for PartlyEmptied<'_> {
    type Item = Source;

    fn next(&mut self) -> Option<Source> {
        self.0.find_map(|word| Source::from_bits(word.swap(NONE, Ordering::Relaxed)))
    }
}

/// How far the search has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Progress {
    /// What it looks for.
    pub(super) kind: SourceKind,
    /// The pageblock on the lists that it goes on with; `None`: the first.
    list_position: Option<u32>,
    /// The same of the search for full ones, which some go round without.
    address_position: u32,
    /// Something was found in this round.
    pub(super) found_any: bool,
    /// In the round before nothing was.
    pub(super) last_round_empty: bool,
}

impl Progress {
    /// At the beginning of a round.
    pub(super) const START: Self = Self {
        kind: SourceKind::AllMovable,
        list_position: None,
        address_position: 0,
        found_any: false,
        last_round_empty: false,
    };

    fn to_bits(self) -> u64 {
        let flags = u64::from(self.found_any) << 62 | u64::from(self.last_round_empty) << 63;
        let places = u64::from(self.list_position.map_or(0, |index| index + 1))
            | u64::from(self.address_position) << 32;
        places | (self.kind as u64) << 60 | flags
    }

    fn from_bits(bits: u64) -> Self {
        Self {
            kind: SourceKind::from_bits((bits >> 60) as u32),
            list_position: (bits as u32).checked_sub(1),
            address_position: (bits >> 32) as u32 & !0 >> 4,
            found_any: bits >> 62 & 1 != 0,
            last_round_empty: bits >> 63 != 0,
        }
    }

    /// Where the next piece begins; `None`: with the first.
    pub(super) fn resume(&self) -> Option<u32> {
        if self.kind == SourceKind::Full { Some(self.address_position) } else { self.list_position }
    }

    /// The same at the beginning of a kind.
    pub(super) fn begin(self, kind: SourceKind) -> Self {
        Self { kind, list_position: None, ..self }
    }

    /// A piece has ended at `resume`, and has found something or not.
    pub(super) fn advance(&mut self, resume: Option<u32>, found: bool) {
        if self.kind == SourceKind::Full {
            self.address_position = resume.unwrap_or(0);
        } else {
            self.list_position = resume;
            self.found_any |= found;
            self.last_round_empty &= !found;
        }
        if resume.is_none() {
            self.end_kind();
        }
    }

    /// The next kind is looked for.
    pub(super) fn end_kind(&mut self) {
        if self.kind == SourceKind::HasUnmovable {
            (self.found_any, self.last_round_empty) = (false, !self.found_any);
        }
        (self.kind, self.list_position) = (self.kind.next(), None);
    }
}

impl SearchCursor {
    pub(super) fn new() -> Self {
        Self {
            progress_bits: AtomicU64::new(Progress::START.to_bits()),
            partly_emptied: core::array::from_fn(|_| AtomicU32::new(NONE)),
            candidates: core::array::from_fn(|_| AtomicU32::new(NONE)),
            skip_hint_resets: Deferral::new(),
            heads_were_last: AtomicBool::new(false),
        }
    }

    pub(super) fn progress(&self) -> Progress {
        Progress::from_bits(self.progress_bits.load(Ordering::Relaxed))
    }

    pub(super) fn set_progress(&self, progress: Progress) {
        self.progress_bits.store(progress.to_bits(), Ordering::Relaxed);
    }

    /// From the first of a kind, with nothing kept.
    pub(super) fn restart(&self, kind: SourceKind) {
        self.set_progress(self.progress().begin(kind));
        self.candidates.iter().for_each(|word| word.store(NONE, Ordering::Relaxed));
    }

    /// Keeps what a piece has found besides the first, instead of what was kept.
    pub(super) fn keep_candidates(&self, found: &Sources, kind: SourceKind) {
        let rest = found.iter().skip(1).map(|index| Source { index, kind }.to_bits());
        for (word, bits) in self.candidates.iter().zip(rest.chain(core::iter::repeat(NONE))) {
            word.store(bits, Ordering::Relaxed);
        }
    }

    /// The best that is kept. It is not kept any more.
    pub(super) fn take_candidate(&self) -> Option<Source> {
        let full = |word: &&AtomicU32| word.load(Ordering::Relaxed) != NONE;
        Source::from_bits(self.candidates.iter().find(full)?.swap(NONE, Ordering::Relaxed))
    }

    /// The next call begins with `source`, too, of which something has moved; but with no more than a few.
    /// What was full is like others now.
    pub(super) fn add_partly_emptied(&self, source: Source) {
        let was_full = source.kind == SourceKind::Full;
        let source =
            Source { kind: if was_full { SourceKind::AllMovable } else { source.kind }, ..source };
        let free = |word: &&AtomicU32| word.load(Ordering::Relaxed) == NONE;
        if let Some(word) = self.partly_emptied.iter().find(free) {
            word.store(source.to_bits(), Ordering::Relaxed);
        }
    }

    /// What this call begins with.
    pub(super) fn partly_emptied(&self) -> PartlyEmptied<'_> {
        PartlyEmptied(self.partly_emptied.iter())
    }

    /// Whether the heads of the lists are to be looked at, where nothing was found: every other time.
    pub(super) fn take_turn_at_heads(&self) -> bool {
        let polls = !self.heads_were_last.load(Ordering::Relaxed);
        self.heads_were_last.store(polls, Ordering::Relaxed);
        polls
    }

    /// After a round in vain: whether marks are to be taken away.
    pub(super) fn should_reset_skip_hints(&self) -> bool {
        let should_reset_skip_hints = !self.skip_hint_resets.refuses(Order::PAGEBLOCK);
        if should_reset_skip_hints {
            self.skip_hint_resets.defer(Order::PAGEBLOCK);
        }
        should_reset_skip_hints
    }

    /// Something was emptied: there may be more, and marks are worth taking away again. After a full one
    /// what takes fewer moves may have come meanwhile.
    pub(super) fn succeed(&self) {
        let mut progress = Progress { found_any: true, last_round_empty: false, ..self.progress() };
        if progress.kind == SourceKind::Full {
            progress.end_kind();
        }
        self.set_progress(progress);
        self.skip_hint_resets.reset(Order::PAGEBLOCK, true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_and_sources_are_packed_into_words_and_back() {
        for kind in [SourceKind::AllMovable, SourceKind::HasUnmovable, SourceKind::Full] {
            let source = Source { index: (1 << 23) - 1, kind };
            assert_eq!(Source::from_bits(source.to_bits()), Some(source));
            for (list_position, address_position) in
                [(None, 77), (Some(0), (1 << 23) - 1), (Some(77), 0)]
            {
                for (found_any, last_round_empty) in [(false, true), (true, false)] {
                    let progress = Progress {
                        kind,
                        list_position,
                        address_position,
                        found_any,
                        last_round_empty,
                    };
                    assert_eq!(Progress::from_bits(progress.to_bits()), progress);
                }
            }
        }
        assert_eq!(Source::from_bits(NONE), None);
    }

    #[test]
    fn a_round_is_empty_if_the_lists_offered_no_source() {
        let mut progress = Progress::START;
        progress.advance(Some(5), false);
        progress.advance(None, false);
        assert!(progress.kind == SourceKind::HasUnmovable && progress.resume().is_none());
        progress.advance(None, false);
        assert!(progress.kind == SourceKind::Full && progress.last_round_empty);
        progress.advance(None, true);
        assert!(
            progress.kind == SourceKind::AllMovable && progress.last_round_empty,
            "full ones there always are"
        );
        progress.advance(Some(3), true);
        assert!(!progress.last_round_empty && progress.found_any);
        progress.advance(None, false);
        progress.advance(None, false);
        assert!(!progress.last_round_empty && !progress.found_any, "another round begins");
    }

    #[test]
    fn skipping_full_pageblocks_keeps_the_address_position() {
        let mut progress = Progress { kind: SourceKind::Full, ..Progress::START };
        progress.advance(Some(64), false);
        progress.end_kind();
        progress.advance(None, false);
        progress.advance(None, false);
        assert_eq!(progress.resume(), Some(64));
    }

    #[test]
    fn unreached_sources_stay_stored_and_new_ones_are_for_the_next_call() {
        let cursor = SearchCursor::new();
        let source = |index| Source { index, kind: SourceKind::AllMovable };
        [1, 2].into_iter().for_each(|index| cursor.add_partly_emptied(source(index)));
        assert_eq!(cursor.partly_emptied().next(), Some(source(1)));
        cursor.add_partly_emptied(source(3));
        let mut partly_emptied = cursor.partly_emptied();
        assert_eq!(partly_emptied.next(), Some(source(3)));
        cursor.add_partly_emptied(source(4));
        assert_eq!((partly_emptied.next(), partly_emptied.next()), (Some(source(2)), None));
        assert_eq!(cursor.partly_emptied().next(), Some(source(4)));
    }

    #[test]
    fn an_emptied_pageblock_ends_the_short_searches() {
        let cursor = SearchCursor::new();
        cursor.set_progress(Progress {
            kind: SourceKind::Full,
            last_round_empty: true,
            ..Progress::START
        });
        cursor.succeed();
        let progress = cursor.progress();
        assert!(!progress.last_round_empty && progress.kind == SourceKind::AllMovable);
    }

    #[test]
    fn skip_hints_are_reset_at_doubling_intervals_without_success() {
        let cursor = SearchCursor::new();
        let resets: std::vec::Vec<u32> =
            (0..16).filter(|_| cursor.should_reset_skip_hints()).collect();
        assert_eq!(resets, [0, 2, 6, 14]);
        cursor.succeed();
        assert!(cursor.should_reset_skip_hints());
    }
}

//! The position of the search for pageblocks to empty by index, between calls: single words without
//! a lock. A lost race only makes the search examine a pageblock twice.
//!
//! The search works in rounds. Each round is searched in *pieces*: a piece reads up to
//! `compact.headers_per_piece` headers under one hold of the zone lock. A round walks the lists for
//! pageblocks whose frames were all requested as movable, then the lists for pageblocks with
//! unmovable frames, and then searches full pageblocks by address. Each call continues at the
//! position where the last call stopped, and first uses the candidates that the last call found and
//! did not use. If a whole round finds nothing, there is probably nothing to empty. From then on a
//! request searches one piece only, until something is found: alternately at the cursor, and at the
//! heads of the lists, because the pageblocks that have become the emptiest are there. Other callers
//! still search a whole round.
//!
//! Full pageblocks exist nearly always, and most of them cannot be emptied for lack of target
//! frames. So a round counts as empty if it found nothing before the search for full pageblocks,
//! unless a full one could be emptied.
//!
//! A pageblock gets a skip hint if its pages could not all be moved, but not if target frames or the
//! budget were lacking. After an empty round all skip hints are reset. Until a pageblock is emptied,
//! each reset doubles the number of empty rounds before the next one.

use super::deferral::Deferral;
use crate::{
    buddy::{SourceKind, Sources},
    sync::{AtomicBool, AtomicU32, AtomicU64, Ordering},
    types::Order,
};

/// No pageblock.
const NONE: u32 = u32::MAX;

/// Bit position of the kind of a [`Source`], above the number of its pageblock.
const KIND: u32 = 30;

/// State of one search between calls.
pub(super) struct SearchCursor {
    /// The [`Progress`] in one word.
    progress_bits: AtomicU64,
    /// Sources that could be emptied only in part, because some pages were in use. The next call
    /// starts with them, because such pages are often in use only a little longer than a call.
    partly_emptied: [AtomicU32; PartlyEmptied::MOST],
    /// Sources that were seen and not used yet, best first; empty slots are [`NONE`].
    candidates: [AtomicU32; Sources::MOST],
    /// The number of empty rounds between resets of the skip hints.
    skip_hint_resets: Deferral,
    /// After an empty round: whether the last search was at the heads of the lists.
    heads_were_last: AtomicBool,
}

/// A *source*: a pageblock to empty, or the first one of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Source {
    pub(super) index: u32,
    /// Its kind when the search found it.
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

/// The sources that a call starts with. The iterator removes them one by one, so sources that the
/// call does not reach stay for the next call. Sources that the call adds also stay, because the
/// iterator has already passed their slots.
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

/// The position of the search, and the results of its rounds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Progress {
    /// The kind of source that the search is at.
    pub(super) kind: SourceKind,
    /// The pageblock on the lists at which the search continues; `None`: the first one.
    list_position: Option<u32>,
    /// The pageblock at which the search for full ones continues. Rounds without that search do not
    /// change it.
    address_position: u32,
    /// This round has found a source.
    pub(super) found_any: bool,
    /// The previous round found no source.
    pub(super) last_round_empty: bool,
}

impl Progress {
    /// The start of a round.
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

    /// The start of the next piece; `None`: the first pageblock on the lists.
    pub(super) fn resume(&self) -> Option<u32> {
        if self.kind == SourceKind::Full { Some(self.address_position) } else { self.list_position }
    }

    /// The position at the start of `kind`, in the same round.
    pub(super) fn begin(self, kind: SourceKind) -> Self {
        Self { kind, list_position: None, ..self }
    }

    /// Records the end of a piece at `resume`. `found` tells whether it found a source.
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

    /// Continues with the next kind of source.
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

    /// Restarts at the first pageblock of a kind, without candidates.
    pub(super) fn restart(&self, kind: SourceKind) {
        self.set_progress(self.progress().begin(kind));
        self.candidates.iter().for_each(|word| word.store(NONE, Ordering::Relaxed));
    }

    /// Stores the sources that a piece found, except the first, in place of the old candidates.
    pub(super) fn keep_candidates(&self, found: &Sources, kind: SourceKind) {
        let rest = found.iter().skip(1).map(|index| Source { index, kind }.to_bits());
        for (word, bits) in self.candidates.iter().zip(rest.chain(core::iter::repeat(NONE))) {
            word.store(bits, Ordering::Relaxed);
        }
    }

    /// Removes and returns the best candidate.
    pub(super) fn take_candidate(&self) -> Option<Source> {
        let is_set = |word: &&AtomicU32| word.load(Ordering::Relaxed) != NONE;
        Source::from_bits(self.candidates.iter().find(is_set)?.swap(NONE, Ordering::Relaxed))
    }

    /// Stores `source`, which was emptied in part, as a start of the next call. Only a few sources
    /// are stored. A source that was full is no longer full.
    pub(super) fn add_partly_emptied(&self, source: Source) {
        let was_full = source.kind == SourceKind::Full;
        let source =
            Source { kind: if was_full { SourceKind::AllMovable } else { source.kind }, ..source };
        let free = |word: &&AtomicU32| word.load(Ordering::Relaxed) == NONE;
        if let Some(word) = self.partly_emptied.iter().find(free) {
            word.store(source.to_bits(), Ordering::Relaxed);
        }
    }

    /// The sources that this call starts with.
    pub(super) fn partly_emptied(&self) -> PartlyEmptied<'_> {
        PartlyEmptied(self.partly_emptied.iter())
    }

    /// After an empty round: whether this search is at the heads of the lists, as every second
    /// search is.
    pub(super) fn take_turn_at_heads(&self) -> bool {
        let at_heads = !self.heads_were_last.load(Ordering::Relaxed);
        self.heads_were_last.store(at_heads, Ordering::Relaxed);
        at_heads
    }

    /// After an empty round: whether skip hints are to be reset.
    pub(super) fn should_reset_skip_hints(&self) -> bool {
        let should_reset_skip_hints = !self.skip_hint_resets.refuses(Order::PAGEBLOCK);
        if should_reset_skip_hints {
            self.skip_hint_resets.defer(Order::PAGEBLOCK);
        }
        should_reset_skip_hints
    }

    /// Records that a source was emptied. There may be more, so skip hints are reset after the next
    /// empty round. If the source was full, a new round begins, because cheaper sources may have
    /// appeared meanwhile.
    pub(super) fn succeed(&self) {
        let mut progress = Progress { found_any: true, last_round_empty: false, ..self.progress() };
        if progress.kind == SourceKind::Full {
            progress.end_kind();
        }
        self.set_progress(progress);
        self.skip_hint_resets.reset(Order::PAGEBLOCK);
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
            "a full pageblock changed the result of the round"
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

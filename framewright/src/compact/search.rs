//! The search for the next pageblock to empty by index. The search reads pageblock headers only.
//!
//! A piece of the search reads at most `compact.headers_per_piece` headers under one hold of the
//! zone lock. It continues at the position where the last piece stopped
//! ([`cursor`](super::cursor)). Single pageblocks are searched on the lists, emptiest first. A
//! pageblock whose pages could not all be moved gets a skip hint, and is skipped until no other
//! pageblock is left. Full pageblocks are searched last, by address, and only for a request or for a
//! whole node on demand. Each full pageblock costs as many moves as a pageblock has frames, and its
//! pages can move only into pageblocks with unmovable frames. Runs of pageblocks, for larger blocks,
//! are searched by address, too, with a cursor of their own.

use super::{
    Compactor, Goal,
    compactor::ZoneContext,
    cursor::{PartlyEmptied, SearchCursor, Source},
};
use crate::{
    buddy::{Search, SourceKind, Sources},
    platform::Platform,
};

/// The maximum number of pieces that a request searches for one pageblock to empty.
const PIECES: u32 = 16;

/// Result of a search.
pub(super) enum Found {
    Source(Source),
    /// There is more to search, in a later call.
    Later,
    /// There is nothing to empty.
    Nothing,
}

/// State of the searches within one call.
#[derive(Debug)]
pub(super) struct SearchPass<'q> {
    /// Sources that earlier calls partly emptied; this call starts with them.
    partly_emptied: PartlyEmptied<'q>,
    /// Whether no source of the same kind is emptier than the source found last: that source was the first on the
    /// lists, or all sources of its kind are full.
    pub(super) is_emptiest: bool,
    /// Whether pageblocks on the lists lack targets, so that only full ones are left.
    pub(super) lists_exhausted: bool,
    /// Whether a search for runs has reached the end of memory. Runs have no skip hints, so each
    /// call searches to the end only once.
    reached_end: bool,
}

impl<'q> SearchPass<'q> {
    /// Starts with the sources that earlier calls partly emptied.
    pub(super) fn of(cursor: &'q SearchCursor) -> Self {
        Self {
            partly_emptied: cursor.partly_emptied(),
            is_emptiest: false,
            lists_exhausted: false,
            reached_end: false,
        }
    }

    /// Takes a partly emptied source, and clears its skip hint, if it has one: its pages may be
    /// movable now.
    fn take_partly_emptied<P: Platform>(&mut self, ctx: ZoneContext<'_, '_, P>) -> Option<Source> {
        let source = self.partly_emptied.next()?;
        ctx.hints.skip.clear(source.index);
        Some(source)
    }
}

impl<'c, 'm, P: Platform> Compactor<'c, 'm, P> {
    /// Finds a source that is cheap to empty: a pageblock, or the first one of a run.
    pub(super) fn find_source(
        &self,
        ctx: ZoneContext<'c, 'm, P>,
        goal: &Goal,
        search_pass: &mut SearchPass<'_>,
    ) -> Found {
        let (cursor, most) = (cursor(ctx, goal), self.memory.tuning().compact.headers_per_piece);
        search_pass.is_emptiest = false;
        while let Some(source) =
            search_pass.take_partly_emptied(ctx).or_else(|| cursor.take_candidate())
        {
            if self.is_source(ctx, goal, source) {
                return Found::Source(source);
            }
        }
        let mut progress = cursor.progress();
        let last_round_empty = goal.limits_search() && progress.last_round_empty;
        // Pageblocks that became the emptiest ones meanwhile are at the heads of the lists.
        let at_heads = last_round_empty && cursor.take_turn_at_heads();
        if at_heads {
            progress = progress.begin(SourceKind::AllMovable);
        }
        for piece in 0.. {
            if search_pass.reached_end {
                return Found::Nothing;
            }
            if goal.is_direct() && !goal.is_exhaustive() && piece == PIECES {
                return Found::Later;
            }
            let kind = progress.kind;
            let is_first = kind == SourceKind::Full || progress.resume().is_none();
            let mut found = Sources::default();
            if kind == SourceKind::Full && !goal.empties_full() {
                progress.end_kind();
            } else {
                let resume =
                    self.search_piece(ctx, goal, (kind, progress.resume(), most), &mut found);
                progress.advance(resume, found.first().is_some());
                search_pass.reached_end =
                    goal.wants_run() && kind == SourceKind::HasUnmovable && resume.is_none();
            }
            // There may be many full pageblocks, and none is on a list. So a limited search
            // examines one piece of them per round.
            if kind == SourceKind::Full && found.first().is_none() && goal.limits_search() {
                progress = progress.begin(SourceKind::AllMovable);
            }
            if found.first().is_some() || !at_heads {
                cursor.set_progress(progress);
            }
            if let Some(index) = found.first() {
                search_pass.is_emptiest = is_first && !goal.wants_run();
                cursor.keep_candidates(&found, kind);
                return Found::Source(Source { index, kind });
            }
            let ended = progress.kind != kind
                && self.is_exhausted(ctx, goal, (kind, progress.last_round_empty), search_pass);
            if last_round_empty || ended {
                return Found::Nothing;
            }
        }
        Found::Nothing
    }

    /// Whether the search is over when no source of `kind` is left. `last_round_empty`: the whole
    /// round found nothing. At the end of an empty round, also resets the skip hints if that is due.
    fn is_exhausted(
        &self,
        ctx: ZoneContext<'c, 'm, P>,
        goal: &Goal,
        (kind, last_round_empty): (SourceKind, bool),
        search_pass: &SearchPass<'_>,
    ) -> bool {
        match kind {
            SourceKind::HasUnmovable if last_round_empty => {
                if ctx.hints.cursor.should_reset_skip_hints() {
                    ctx.hints.skip.clear_all();
                }
                !goal.empties_full()
            }
            SourceKind::Full => {
                (last_round_empty || search_pass.lists_exhausted) && goal.empties_full()
            }
            _ => false,
        }
    }

    /// Searches one piece. Returns the start of the next one.
    fn search_piece(
        &self,
        ctx: ZoneContext<'c, 'm, P>,
        goal: &Goal,
        (kind, resume, headers): (SourceKind, Option<u32>, u32),
        found: &mut Sources,
    ) -> Option<u32> {
        let search = Search { kind, pageblocks: goal.pageblocks(), headers, resume };
        let is_eligible = |index| goal.wants_run() || !ctx.hints.skip.is_set(index);
        let (zone, platform) = (ctx.on_cpu.zone, ctx.on_cpu.platform);
        let seen = zone.with(platform, |buddy| buddy.find_sources(search, is_eligible, found));
        ctx.count_headers(seen.headers);
        seen.resume
    }

    /// Whether a pageblock that an earlier search found is still a source. Only its own headers are
    /// read.
    fn is_source(&self, ctx: ZoneContext<'c, 'm, P>, goal: &Goal, source: Source) -> bool {
        let mut found = Sources::default();
        self.search_piece(ctx, goal, (source.kind, Some(source.index), 1), &mut found);
        found.first() == Some(source.index)
    }
}

/// The cursor of the search for blocks of the goal's size.
pub(super) fn cursor<'m, P: Platform>(
    ctx: ZoneContext<'_, 'm, P>,
    goal: &Goal,
) -> &'m SearchCursor {
    if goal.wants_run() { &ctx.hints.runs } else { &ctx.hints.cursor }
}

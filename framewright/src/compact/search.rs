//! What is emptied next, by index: the headers of pageblocks say it.
//!
//! A search looks at a bounded number of headers and goes on where the last one was cut short
//! ([`quest`](super::quest)). Single pageblocks are looked for along the lists, emptiest first; what
//! could not be emptied is marked, and passed over until nothing else is left. In the end full ones are
//! looked for, by address, on behalf of who has to have a block or wants as many as there can be: each takes
//! as many moves as a pageblock has frames, and what it holds may go to where nothing forms. Runs of
//! pageblocks, for blocks that are larger, are looked for by address too, on a quest of their own.

use super::{
    Compactor, Goal,
    compactor::ZoneContext,
    cursor::{PartlyEmptied, SearchCursor, Source},
};
use crate::{
    buddy::{Search, SourceKind, Sources},
    platform::Platform,
};

/// Pieces of the search for one pageblock to empty on behalf of a request.
const PIECES: u32 = 16;

/// What a search came to.
pub(super) enum Found {
    Source(Source),
    /// There is more to look at, some other time.
    Later,
    /// There is nothing.
    Nothing,
}

/// What one call has seen so far.
#[derive(Debug)]
pub(super) struct SearchPass<'q> {
    /// What was emptied in part before: to begin with.
    partly_emptied: PartlyEmptied<'q>,
    /// None of its kind is emptier than what was found last: it is the first at the heads of the lists, or
    /// full, and all others are.
    pub(super) is_emptiest: bool,
    /// There is no room for what is on the lists, which leaves full ones.
    pub(super) lists_exhausted: bool,
    /// The end of memory was reached by a search for runs. These have no marks: a call gets there once.
    reached_end: bool,
}

impl<'q> SearchPass<'q> {
    /// It begins with what calls before have left.
    pub(super) fn of(cursor: &'q SearchCursor) -> Self {
        Self {
            partly_emptied: cursor.partly_emptied(),
            is_emptiest: false,
            lists_exhausted: false,
            reached_end: false,
        }
    }

    /// What was emptied in part is marked like whatever could not be emptied.
    fn take_partly_emptied<P: Platform>(&mut self, ctx: ZoneContext<'_, '_, P>) -> Option<Source> {
        let source = self.partly_emptied.next()?;
        ctx.hints.skip.clear(source.index);
        Some(source)
    }
}

impl<'c, 'm, P: Platform> Compactor<'c, 'm, P> {
    /// A pageblock, or the first of several, that is cheap to empty.
    pub(super) fn find_source(
        &self,
        ctx: ZoneContext<'c, 'm, P>,
        goal: &Goal,
        search_pass: &mut SearchPass<'_>,
    ) -> Found {
        let (cursor, most) = (cursor(ctx, goal), self.memory.tuning().compact.headers);
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
        // What has become empty meanwhile is at the heads of the lists.
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
            // There are many of them, and none on any list: who is in haste looks at one piece in each round.
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

    /// Whether nothing is left to look at, now that there is no more of a kind; `last_round_empty`: nor was there
    /// anything else in a whole round.
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

    /// Looks at a piece; where the next one begins.
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

    /// Whether what an earlier search has seen is one to empty still. It alone is looked at.
    fn is_source(&self, ctx: ZoneContext<'c, 'm, P>, goal: &Goal, source: Source) -> bool {
        let mut found = Sources::default();
        self.search_piece(ctx, goal, (source.kind, Some(source.index), 1), &mut found);
        found.first() == Some(source.index)
    }
}

/// What is remembered of the way to blocks of a goal.
pub(super) fn cursor<'m, P: Platform>(
    ctx: ZoneContext<'_, 'm, P>,
    goal: &Goal,
) -> &'m SearchCursor {
    if goal.wants_run() { &ctx.hints.runs } else { &ctx.hints.cursor }
}

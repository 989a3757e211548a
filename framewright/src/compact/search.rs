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
    compactor::Site,
    quest::{Begun, Quest, Source},
};
use crate::{
    buddy::{Kind, Search, Sources},
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
pub(super) struct Tour<'q> {
    /// What was emptied in part before: to begin with.
    begun: Begun<'q>,
    /// None of its kind is emptier than what was found last: it is the first at the heads of the lists, or
    /// full, and all others are.
    pub(super) is_emptiest: bool,
    /// There is no room for what is on the lists, which leaves full ones.
    pub(super) is_off_lists: bool,
    /// The end of memory was reached by a search for runs. These have no marks: a call gets there once.
    has_ended: bool,
}

impl<'q> Tour<'q> {
    /// It begins with what calls before have left.
    pub(super) fn of(quest: &'q Quest) -> Self {
        Self { begun: quest.begun(), is_emptiest: false, is_off_lists: false, has_ended: false }
    }

    /// What was emptied in part is marked like whatever could not be emptied.
    fn take_begun<P: Platform>(&mut self, site: Site<'_, '_, P>) -> Option<Source> {
        let source = self.begun.next()?;
        site.hints.skip.clear(source.index);
        Some(source)
    }
}

impl<'c, 'm, P: Platform> Compactor<'c, 'm, P> {
    /// A pageblock, or the first of several, that is cheap to empty.
    pub(super) fn find_source(
        &self,
        site: Site<'c, 'm, P>,
        goal: &Goal,
        tour: &mut Tour<'_>,
    ) -> Found {
        let (quest, most) = (quest(site, goal), self.memory.tuning().compact.headers);
        tour.is_emptiest = false;
        while let Some(source) = tour.take_begun(site).or_else(|| quest.take()) {
            if self.is_source(site, goal, source) {
                return Found::Source(source);
            }
        }
        let mut progress = quest.progress();
        let barren = goal.is_in_haste() && progress.barren;
        // What has become empty meanwhile is at the heads of the lists.
        let at_heads = barren && quest.turns_to_heads();
        if at_heads {
            progress = progress.begin(Kind::Certain);
        }
        for piece in 0.. {
            if tour.has_ended {
                return Found::Nothing;
            }
            if goal.is_direct() && !goal.is_exhaustive() && piece == PIECES {
                return Found::Later;
            }
            let kind = progress.kind;
            let is_first = kind == Kind::Full || progress.resume().is_none();
            let mut found = Sources::default();
            if kind == Kind::Full && !goal.takes_full() {
                progress.end_kind();
            } else {
                let resume = self.look(site, goal, (kind, progress.resume(), most), &mut found);
                progress.advance(resume, found.first().is_some());
                tour.has_ended = goal.is_larger() && kind == Kind::Doubtful && resume.is_none();
            }
            // There are many of them, and none on any list: who is in haste looks at one piece in each round.
            if kind == Kind::Full && found.first().is_none() && goal.is_in_haste() {
                progress = progress.begin(Kind::Certain);
            }
            if found.first().is_some() || !at_heads {
                quest.set_progress(progress);
            }
            if let Some(index) = found.first() {
                tour.is_emptiest = is_first && !goal.is_larger();
                quest.keep(&found, kind);
                return Found::Source(Source { index, kind });
            }
            let ended =
                progress.kind != kind && self.ends(site, goal, (kind, progress.barren), tour);
            if barren || ended {
                return Found::Nothing;
            }
        }
        Found::Nothing
    }

    /// Whether nothing is left to look at, now that there is no more of a kind; `barren`: nor was there
    /// anything else in a whole round.
    fn ends(
        &self,
        site: Site<'c, 'm, P>,
        goal: &Goal,
        (kind, barren): (Kind, bool),
        tour: &Tour<'_>,
    ) -> bool {
        match kind {
            Kind::Doubtful if barren => {
                if site.hints.quest.forgives() {
                    site.hints.skip.clear_all();
                }
                !goal.takes_full()
            }
            Kind::Full => (barren || tour.is_off_lists) && goal.takes_full(),
            _ => false,
        }
    }

    /// Looks at a piece; where the next one begins.
    fn look(
        &self,
        site: Site<'c, 'm, P>,
        goal: &Goal,
        (kind, resume, headers): (Kind, Option<u32>, u32),
        found: &mut Sources,
    ) -> Option<u32> {
        let search = Search { kind, pageblocks: goal.pageblocks(), headers, resume };
        let passes = |index| goal.is_larger() || !site.hints.skip.is_set(index);
        let (zone, platform) = (site.at.zone, site.at.platform);
        let seen = zone.with(platform, |buddy| buddy.find_sources(search, passes, found));
        site.looked_at_headers(seen.headers);
        seen.resume
    }

    /// Whether what an earlier search has seen is one to empty still. It alone is looked at.
    fn is_source(&self, site: Site<'c, 'm, P>, goal: &Goal, source: Source) -> bool {
        let mut found = Sources::default();
        self.look(site, goal, (source.kind, Some(source.index), 1), &mut found);
        found.first() == Some(source.index)
    }
}

/// What is remembered of the way to blocks of a goal.
pub(super) fn quest<'m, P: Platform>(site: Site<'_, 'm, P>, goal: &Goal) -> &'m Quest {
    if goal.is_larger() { &site.hints.runs } else { &site.hints.quest }
}

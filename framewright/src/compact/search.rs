//! What is emptied next, by index: the headers of pageblocks say it.
//!
//! A search looks at a bounded number of headers and goes on where the last one was cut short
//! ([`quest`](super::quest)). Single pageblocks are looked for along the lists, emptiest first; what
//! could not be emptied is marked, and passed over until nothing else is left. In the end full ones are
//! looked for, by address: what they hold may go to where nothing forms. Runs of pageblocks, for blocks
//! that are larger, are looked for by address too, on a tour of their own.

use super::{
    Compactor, Goal,
    compactor::Site,
    quest::{Progress, Turn},
};
use crate::{
    buddy::{Buddy, Search, Searched, Sources},
    frame::{Order, PAGEBLOCK_ORDER},
    platform::Platform,
};

/// Pieces of the search for one pageblock to empty on behalf of a request.
const PIECES: u32 = 16;

/// What a search came to.
pub(super) enum Source {
    /// A pageblock to empty, or the first of several.
    Found(u32),
    /// There is more to look at, some other time.
    Later,
    /// There is nothing.
    None,
}

/// What one call has seen so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tour {
    /// The end of memory, on the way to a run of pageblocks: a call gets there once.
    ended: bool,
    /// None is emptier than what was found last: it is the first at the heads of the lists, or full, and
    /// all others are.
    pub(super) is_emptiest: bool,
    /// It is a doubtful one.
    is_doubtful: bool,
    /// It is a full one, which the lists say nothing of.
    pub(super) is_full: bool,
    /// Nothing is to be had from the lists any more.
    is_off_lists: bool,
    /// Headers that were looked at for full ones.
    full_seen: u32,
}

impl Tour {
    /// There is no room for what was found last, nor for others of its kind. Whether there may be for full
    /// ones: what is free in doubtful ones, however empty, is room for all but doubtful ones.
    pub(super) const fn leaves_lists(&mut self) -> bool {
        let leaves = self.is_doubtful && !self.is_off_lists;
        self.is_off_lists |= leaves;
        leaves
    }
}

/// The order of the goal, if its blocks are runs of pageblocks.
pub(super) fn larger(goal: &Goal) -> Option<Order> {
    goal.order.filter(|&order| order > Order::PAGEBLOCK)
}

impl<'c, 'm, P: Platform> Compactor<'c, 'm, P> {
    /// A pageblock, or the first of several, that is cheap to empty.
    pub(super) fn find_source(
        &self,
        site: Site<'c, 'm, P>,
        goal: &Goal,
        tour: &mut Tour,
    ) -> Source {
        match larger(goal) {
            None => self.find_pageblock(site, goal, tour),
            Some(order) => self.find_run(site, goal, order, tour),
        }
    }

    fn find_pageblock(&self, site: Site<'c, 'm, P>, goal: &Goal, tour: &mut Tour) -> Source {
        let barren = goal.is_in_haste() && site.hints.quest.progress().barren;
        tour.is_full = false;
        if !tour.is_off_lists {
            let found = self.find_listed(site, goal, barren, tour);
            if barren || !matches!(found, Source::None) {
                return found;
            }
            tour.is_off_lists = true;
        }
        let pieces = if goal.is_async() { 1 } else { PIECES };
        self.find_full(site, goal, pieces, tour)
    }

    /// A full one that may be emptied into others; by who has to have a block, or to make as many as
    /// there can be: it takes as many moves as a pageblock has frames.
    fn find_full(
        &self,
        site: Site<'c, 'm, P>,
        goal: &Goal,
        pieces: u32,
        tour: &mut Tour,
    ) -> Source {
        let (quest, most) = (&site.hints.quest, self.memory.tuning().compact.headers);
        let passes = |index| !site.hints.skip.is_set(index);
        let pageblocks = (site.at.zone.spanned() >> PAGEBLOCK_ORDER) as u32;
        (tour.is_doubtful, tour.is_emptiest, tour.is_full) = (false, true, true);
        for _ in 0..pieces {
            if tour.full_seen >= pageblocks || !goal.takes_full() {
                return Source::None;
            }
            let piece = (quest.full_at(), most);
            let look = |buddy: &mut Buddy<'_>| buddy.find_full_source(piece, passes);
            let (found, seen) = site.at.zone.with(site.at.platform, look);
            site.looked_at_headers(seen.headers);
            tour.full_seen += seen.headers.max(1);
            quest.set_full_at(seen.resume);
            if let Some(found) = found {
                return Source::Found(found);
            }
        }
        Source::None
    }

    fn find_listed(
        &self,
        site: Site<'c, 'm, P>,
        goal: &Goal,
        barren: bool,
        tour: &mut Tour,
    ) -> Source {
        let quest = &site.hints.quest;
        if let Some((kept, doubtful)) = self.kept_pageblock(site) {
            // It may have become fuller.
            (tour.is_doubtful, tour.is_emptiest) = (doubtful, false);
            return Source::Found(kept);
        }
        let mut progress = quest.progress();
        match quest.next_turn_if(barren) {
            Turn::Heads => {
                (tour.is_doubtful, tour.is_emptiest) = (false, true);
                return self.look_at_heads(site);
            }
            Turn::Full => return self.find_full(site, goal, 1, tour),
            Turn::Lists => {}
        }
        for piece in 0.. {
            if goal.is_direct() && piece == PIECES {
                return Source::Later;
            }
            let doubtful = progress.doubtful;
            (tour.is_doubtful, tour.is_emptiest) = (doubtful, progress.resume.is_none());
            let mut found = Sources::default();
            let seen = self.search_lists(site, self.piece(progress), &mut found);
            let first = found.iter().next();
            let in_vain = progress.advance(seen.resume, first.is_some());
            quest.set_progress(progress);
            if let Some(first) = first {
                quest.keep(&found, doubtful);
                return Source::Found(first);
            }
            if in_vain && quest.forgives() {
                site.hints.skip.clear_all();
            }
            if in_vain || barren {
                return Source::None;
            }
        }
        Source::None
    }

    /// Where nothing was found in a whole round: what has become empty meanwhile is at the heads of
    /// the lists.
    fn look_at_heads(&self, site: Site<'c, 'm, P>) -> Source {
        let quest = &site.hints.quest;
        let mut found = Sources::default();
        self.search_lists(site, self.piece(Progress::START), &mut found);
        let Some(first) = found.iter().next() else { return Source::None };
        quest.set_progress(quest.progress().found());
        quest.keep(&found, false);
        Source::Found(first)
    }

    /// The best that an earlier search has seen and that is one to empty still.
    fn kept_pageblock(&self, site: Site<'c, 'm, P>) -> Option<(u32, bool)> {
        let (zone, platform) = (site.at.zone, site.at.platform);
        while let Some((index, doubtful)) = site.hints.quest.take() {
            site.looked_at_headers(1);
            let pages = zone.with(platform, |buddy| buddy.pages_of_source(index, doubtful));
            if pages.is_some() && !site.hints.skip.is_set(index) {
                return Some((index, doubtful));
            }
        }
        None
    }

    fn find_run(
        &self,
        site: Site<'c, 'm, P>,
        goal: &Goal,
        order: Order,
        tour: &mut Tour,
    ) -> Source {
        let runs = &site.hints.runs;
        while let Some((first, doubtful)) = runs.take() {
            // It alone is looked at again.
            let again = Search { headers: 1, resume: Some(first), doubtful };
            let mut found = Sources::default();
            self.search_runs(site, order, again, &mut found);
            if found.iter().next() == Some(first) {
                return Source::Found(first);
            }
        }
        let mut progress = runs.progress();
        for piece in 0.. {
            if tour.ended {
                return Source::None;
            }
            if goal.is_direct() && piece == PIECES {
                return Source::Later;
            }
            let doubtful = progress.doubtful;
            let mut found = Sources::default();
            let seen = self.search_runs(site, order, self.piece(progress), &mut found);
            let first = found.iter().next();
            progress.advance(seen.resume, first.is_some());
            tour.ended = doubtful && seen.resume.is_none();
            runs.set_progress(progress);
            if let Some(first) = first {
                runs.keep(&found, doubtful);
                return Source::Found(first);
            }
        }
        Source::None
    }

    fn piece(&self, progress: Progress) -> Search {
        progress.piece(self.memory.tuning().compact.headers)
    }

    fn search_lists(&self, site: Site<'c, 'm, P>, search: Search, found: &mut Sources) -> Searched {
        let passes = |index| !site.hints.skip.is_set(index);
        let seen = (site.at.zone)
            .with(site.at.platform, |buddy| buddy.find_sources(search, passes, found));
        site.looked_at_headers(seen.headers);
        seen
    }

    fn search_runs(
        &self,
        site: Site<'c, 'm, P>,
        order: Order,
        search: Search,
        found: &mut Sources,
    ) -> Searched {
        let seen = (site.at.zone)
            .with(site.at.platform, |buddy| buddy.find_source_runs(order, search, |_| true, found));
        site.looked_at_headers(seen.headers);
        seen
    }
}

//! By index: the emptiest movable pageblock is withheld, emptied into fuller ones, and what forms
//! is kept for who asked.
//!
//! Emptying into *fuller* pageblocks only, or as full ones, makes progress certain: the free frames
//! of a zone are never spread again. Pageblocks that hold something which does not move will not be free
//! as a whole: what leaves others may go there, however empty they are. What is emptied next is found by a
//! search through the headers ([`search`](super::search)): the emptiest first; if there are none, doubtful
//! ones, which look as if something in them did not move; in the end full ones.

use super::{
    Caller, Compactor, Goal, Outcome,
    compactor::Site,
    daemon::is_good_enough,
    evacuate::{CutShort, Evacuation, contents, used_in, within, work_of},
    quest::{Quest, Source},
    room::Room,
    search::{Found, Tour, quest},
    suitable,
};
use crate::{
    alloc::MigrateType,
    buddy::{Buddy, Contents, Hosts, Kind, WORDS},
    frame::{Block, Order, PAGEBLOCK_FRAMES, PAGEBLOCK_ORDER},
    platform::{Captured, Platform},
};

impl<'c, 'm, P: Platform> Compactor<'c, 'm, P> {
    /// Compacts a zone by index.
    pub(super) fn run_by_index(
        &mut self,
        site: Site<'c, 'm, P>,
        goal: Goal,
        captured: Option<Captured<'_>>,
    ) -> Outcome {
        let end = site.at.zone.spanned() as u32;
        let quest = quest(site, &goal);
        let first = quest.progress().resume().map_or(0, |block| block << PAGEBLOCK_ORDER);
        site.trace_run(&goal, (first, end), None);
        let mut last = first;
        let mut outcome = Outcome::Complete;
        // Who leaves nothing out comes to the end first, and then tries once more what was marked.
        for pass in 0..=u32::from(goal.is_exhaustive()) {
            if pass > 0 {
                site.hints.skip.clear_all();
                quest.begin_anew(Kind::Certain);
            }
            outcome = self.empty_sources(site, &goal, captured, &mut last);
            if outcome != Outcome::Complete {
                break;
            }
        }
        site.trace_run(&goal, (last, end), Some(outcome));
        outcome
    }

    /// Empties one pageblock after the other; `last` is the first frame of the last one.
    fn empty_sources(
        &mut self,
        site: Site<'c, 'm, P>,
        goal: &Goal,
        captured: Option<Captured<'_>>,
        last: &mut u32,
    ) -> Outcome {
        let quest = quest(site, goal);
        let mut lacked_room = false;
        let mut tour = Tour::of(quest);
        loop {
            let allowed = captured.map_or(u64::MAX, Captured::left);
            let finished = self.finished(site, goal, allowed == 0);
            site.trace_judged(goal, true, finished);
            if let Some(outcome) = finished {
                return outcome;
            }
            let source = match self.find_source(site, goal, &mut tour) {
                Found::Source(source) => source,
                Found::Later => return Outcome::Contended,
                Found::Nothing => return Outcome::Complete,
            };
            *last = source.index << PAGEBLOCK_ORDER;
            let how = how(goal, captured);
            let emptied = self.empty(site, goal, source.index, how, captured);
            if let Some(captured) = captured {
                captured.spend(emptied.work);
                if emptied.brought_home {
                    captured.bring_home();
                }
            }
            if emptied.moved > 0 && emptied.outcome != Outcome::Success {
                quest.set_begun(source);
            }
            match emptied.outcome {
                Outcome::PartialSkipped => {
                    // None is emptier, so there is no room for any other of its kind either. But what was
                    // emptied in part is emptier now, and so may others be of which frames were brought home.
                    let untouched = emptied.work == 0 && !emptied.brought_home;
                    let sure = lacked_room || tour.is_emptiest && untouched;
                    lacked_room = !sure;
                    tour.is_off_lists |= sure;
                    if !goes_on_without_room(quest, goal, source, sure) {
                        return Outcome::Complete;
                    }
                }
                Outcome::Contended => return Outcome::Contended,
                Outcome::Success => {
                    lacked_room = false;
                    quest.succeed();
                    if goal.order.is_some() && !goal.restocks {
                        return Outcome::Success;
                    }
                }
                // A mark is on a pageblock: it says nothing of a run that begins there.
                _ if goal.is_larger() => {}
                _ => _ = site.hints.skip.set(source.index),
            }
        }
    }

    fn finished(&self, site: Site<'c, 'm, P>, goal: &Goal, spent: bool) -> Option<Outcome> {
        if self.has_formed(site, goal) {
            return Some(Outcome::Success);
        }
        if goal.caller == Caller::Proactive && is_good_enough(self.memory, site) {
            return Some(Outcome::Success);
        }
        if suitable::lacks_room(site, goal, self.memory.tuning()) {
            return Some(Outcome::Skipped);
        }
        (goal.is_direct() && spent).then_some(Outcome::Contended)
    }

    fn has_formed(&self, site: Site<'c, 'm, P>, goal: &Goal) -> bool {
        if goal.restocks {
            return !site.at.zone.can_fill_huge_reserve(site.at.platform);
        }
        site.has_formed(goal)
    }

    /// Empties what a block of the goal's order takes, unless that is more than is allowed.
    fn empty(
        &mut self,
        site: Site<'c, 'm, P>,
        goal: &Goal,
        source: u32,
        mut how: Evacuation,
        captured: Option<Captured<'_>>,
    ) -> Emptied {
        let order = wanted(goal);
        let (first, pageblocks) =
            (source << PAGEBLOCK_ORDER, order.max(Order::PAGEBLOCK).pageblocks());
        let end = (source + pageblocks) << PAGEBLOCK_ORDER;
        let Ok(withheld) = self.memory.withhold_undrained(site.id, first, end) else {
            return Emptied::untried(Outcome::Complete, false);
        };
        // Not before: from now on it only becomes emptier, so what is fuller stays so.
        let mut before = contents(site, source);
        let block = if order < Order::PAGEBLOCK { cheapest(&before.map, order) } else { 0 };
        let start = first + block;
        let stop = start + order.frames() as u32;
        if work_of(used_in(site, start, stop)) > how.allowed && !how.in_part {
            return Emptied::untried(Outcome::Contended, false);
        }
        let mut fetched = false;
        let mut room = match order > Order::PAGEBLOCK {
            true => Room::in_zone(site.at),
            false => {
                let at = (start, stop);
                if !self.finds_room(site, source, at, &mut before, &mut how, &mut fetched) {
                    return Emptied::untried(Outcome::PartialSkipped, fetched);
                }
                Room::beside(site.at, source, &before)
            }
        };
        let result = self.evacuate(site, (start, stop), how, &mut room);
        site.hints.counters.compact_isolated.add(room.taken);
        site.looked_at_headers(room.looked_at);
        drop(room);
        let emptied = |outcome| Emptied {
            outcome,
            work: result.work(),
            brought_home: fetched || result.brought_home,
            moved: result.moved,
        };
        if result.left > 0 {
            drop(withheld);
            let outcome = match result.cut_short {
                Some(CutShort::NoRoom) => Outcome::PartialSkipped,
                Some(CutShort::Contended) if goal.is_async() => Outcome::Contended,
                Some(CutShort::Spent) => Outcome::Contended,
                _ => Outcome::Complete,
            };
            return emptied(outcome);
        }
        site.hints.counters.compact_emptied.add(1);
        // What is larger than a pageblock can be taken off the lists alone.
        let _withheld = (!goal.is_larger()).then_some(withheld);
        self.hand_over(site, goal, start, captured);
        emptied(Outcome::Success)
    }

    /// Whether there may be room for what is in frames `start` to `stop` of a pageblock, which holds
    /// `held`. What lies elsewhere looks used, and is room once it is home: it is fetched, once, where
    /// there is too little without it.
    fn finds_room(
        &self,
        site: Site<'c, 'm, P>,
        source: u32,
        (start, stop): (u32, u32),
        held: &mut Contents,
        how: &mut Evacuation,
        fetched: &mut bool,
    ) -> bool {
        let may_take_in = |held: &Contents| {
            let used = within(&held.used, start, stop);
            self.may_have_room(site, count(&used), Hosts::beside(held))
        };
        if may_take_in(held) {
            return true;
        }
        if !how.may_bring_home || !self.holds_back(site) {
            return false;
        }
        self.bring_home(site, how);
        *fetched = true;
        *held = contents(site, source);
        may_take_in(held)
    }

    /// Whether `hosts` may take in `frames` more. Claiming pages that have nowhere to go is dearer than
    /// to look.
    fn may_have_room(&self, site: Site<'c, 'm, P>, frames: u32, hosts: Hosts) -> bool {
        let most = self.memory.tuning().compact.headers;
        let look = |buddy: &mut Buddy<'_>| buddy.may_have_room(frames, hosts, most);
        let (may, headers) = site.at.zone.with(site.at.platform, look);
        site.looked_at_headers(headers);
        may
    }

    /// Keeps the block that has formed for who asked, if it is whole pageblocks or he asked for
    /// movable memory.
    fn hand_over(
        &self,
        site: Site<'c, 'm, P>,
        goal: &Goal,
        start: u32,
        captured: Option<Captured<'_>>,
    ) {
        let (Some(order), Some(captured)) = (goal.order, captured) else { return };
        let suits = goal.of == MigrateType::Movable || order >= Order::PAGEBLOCK;
        if order != wanted(goal) || !suits || !captured.lacks(order) {
            return;
        }
        if !site.at.take_block(start, order, goal.of) {
            return;
        }
        let block = Block::new(self.memory.tag(), site.at.pfn(start), order);
        if let Err(block) = captured.keep(block) {
            let (_, order) = block.into_raw();
            site.at.free_to_zone(start, order);
        }
    }
}

/// How a pageblock is emptied on behalf of who waits, if anybody does. What lies on the lists of CPUs is
/// fetched once for a request, however many pageblocks it tries: to fetch it takes the time of all of them.
fn how(goal: &Goal, captured: Option<Captured<'_>>) -> Evacuation {
    let (effort, left) = (goal.effort, captured.map_or(u64::MAX, Captured::left));
    Evacuation {
        effort,
        all_or_none: true,
        may_bring_home: !captured.is_some_and(Captured::is_home),
        // The last try is not to fail for what others pay for.
        allowed: if goal.is_exhaustive() { u64::MAX } else { left },
        // What is left is little for the next request. What is larger than a pageblock would move in vain
        // if that does not come.
        in_part: !goal.is_larger() && captured.is_some_and(Captured::has_plenty_left),
    }
}

/// Where the search goes on for who found no room for `source`, and perhaps is `sure` that there is none
/// for others of its kind. If at all: what is free in doubtful ones is room for all that are none of them, so
/// that with certain ones the others lack it too, but with doubtful ones full ones need not.
fn goes_on_without_room(quest: &Quest, goal: &Goal, source: Source, sure: bool) -> bool {
    if goal.is_larger() {
        return !sure;
    }
    let next = match source.kind {
        kind if !sure => kind,
        Kind::Doubtful if goal.takes_full() => Kind::Full,
        _ => Kind::Certain,
    };
    quest.begin_anew(next);
    next != Kind::Certain || !sure
}

/// What came of a pageblock that was to be emptied.
struct Emptied {
    outcome: Outcome,
    /// What it took, in moves.
    work: u64,
    /// What lay elsewhere was brought home for it.
    brought_home: bool,
    /// Frames that were moved.
    moved: u64,
}

impl Emptied {
    /// No page was looked at.
    const fn untried(outcome: Outcome, brought_home: bool) -> Self {
        Self { outcome, work: 0, brought_home, moved: 0 }
    }
}

/// The order of the block that is formed: who wants other than movable memory claims whole
/// pageblocks, so that nothing is mixed.
fn wanted(goal: &Goal) -> Order {
    match goal.order {
        Some(order) if order >= Order::PAGEBLOCK || goal.of == MigrateType::Movable => order,
        _ => Order::PAGEBLOCK,
    }
}

fn count(map: &[u64; WORDS]) -> u32 {
    map.iter().map(|word| word.count_ones()).sum()
}

/// Where in a pageblock the block of `order` is that has the most free frames.
fn cheapest(map: &[u64; WORDS], order: Order) -> u32 {
    let size = order.frames() as u32;
    let free = |start: u32| -> u32 { count(&within(map, start, start + size)) };
    // The lowest of equals.
    let starts = (0..PAGEBLOCK_FRAMES as u32).step_by(size as usize);
    starts.rev().max_by_key(|&start| free(start)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cheapest_part_of_a_pageblock_is_the_one_with_the_most_free_frames() {
        let mut map = [0u64; WORDS];
        (map[1], map[3]) = (0x0f0f, 0xffff_0000);
        let order = |number| Order::new(number).unwrap();
        assert_eq!(cheapest(&map, order(4)), 3 * 64 + 16);
        assert_eq!(cheapest(&map, order(6)), 3 * 64);
        assert_eq!(cheapest(&map, order(8)), 0);
    }
}

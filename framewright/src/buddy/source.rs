//! Which pageblock is worth emptying.
//!
//! Headers say it: how much of a pageblock is free, and whether what is allocated was requested as
//! movable. Pageblocks hang on lists by fullness, so that the emptiest come first. A search is a walk
//! along the lists, cut into pieces: each piece looks at a few headers, keeps the best that it saw,
//! and says where the next one goes on. Full pageblocks are on no list: they are walked by address.

use super::{
    Buddy, Contents, MigrateType, WORDS,
    lists::QUARTILES,
    pageblock::{NIL, Pageblock, UNLISTED, quartile_below},
};
use crate::frame::{Order, PAGEBLOCK_FRAMES, PAGEBLOCK_ORDER};

/// Pageblocks that may take in what leaves another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Hosts {
    /// Those with fewer free frames.
    pub(crate) below: u16,
    /// And those that hold frames which were not requested as movable, however empty they are: most of
    /// them will not be free as a whole anyway.
    pub(crate) doubtful: bool,
}

impl Hosts {
    /// For what leaves a pageblock: those as full as that, or fuller; and if it is none of them, doubtful ones.
    pub(crate) const fn beside(held: &Contents) -> Self {
        Self { below: held.free + 1, doubtful: held.pinned == 0 }
    }

    /// Any.
    pub(crate) const ANY: Self = Self { below: u16::MAX, doubtful: true };

    pub(super) fn include(self, block: &Pageblock) -> bool {
        block.free < self.below || self.doubtful && block.pinned > 0
    }

    /// The emptiest quartile that they are in.
    pub(super) fn emptiest_quartile(self) -> u8 {
        if self.doubtful { QUARTILES - 1 } else { quartile_below(self.below) }
    }
}

/// A piece of a search for pageblocks to empty.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Search {
    /// Headers that may be looked at.
    pub(crate) headers: u32,
    /// Where the last piece was cut off; `None`: at the beginning of the lists.
    pub(crate) resume: Option<u32>,
    /// Pageblocks with frames that were not requested as movable count, instead of the others: after kinds
    /// were mixed, what headers say of that is an estimate.
    pub(crate) doubtful: bool,
}

/// What it came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Searched {
    /// Headers looked at.
    pub(crate) headers: u32,
    /// Where to go on, if there is more to look at.
    pub(crate) resume: Option<u32>,
}

/// The best sources that a search saw: those with the fewest pages to move first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sources {
    /// Pages to move, and the pageblock, or the first of several.
    list: [(u32, u32); Self::MOST],
    len: usize,
}

impl Sources {
    /// More are not kept.
    pub(crate) const MOST: usize = 16;

    /// A pageblock with so many pages; of equals the first that was seen stays in front.
    fn offer(&mut self, pages: u32, index: u32) {
        let at = self.list[..self.len].partition_point(|&(other, _)| other <= pages);
        if at == Self::MOST {
            return;
        }
        self.len = (self.len + 1).min(Self::MOST);
        self.list[at..self.len].rotate_right(1);
        self.list[at] = (pages, index);
    }

    /// Them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = u32> {
        self.list[..self.len].iter().map(|&(_, index)| index)
    }
}

impl Buddy<'_> {
    /// Movable pageblocks that take few moves to empty, of those that hold movable frames only, or of
    /// the doubtful ones, and that `passes` lets through.
    pub(crate) fn find_sources(
        &self,
        search: Search,
        passes: impl Fn(u32) -> bool,
        found: &mut Sources,
    ) -> Searched {
        let mut headers = 0;
        let from = search.resume.and_then(|index| self.listed_class(index).map(|at| (at, index)));
        let first = from.map_or(0, |(class, _)| rank(class));
        for rank in first..(PAGEBLOCK_ORDER * QUARTILES) {
            let class = class_of(rank);
            let mut at = match from {
                Some((resumed, index)) if resumed == class => index,
                _ => self.lists.head_of(MigrateType::Movable, class),
            };
            while at != NIL {
                if headers == search.headers {
                    return Searched { headers, resume: Some(at) };
                }
                headers += 1;
                if let Some(pages) =
                    self.pages_of_source(at, search.doubtful).filter(|_| passes(at))
                {
                    found.offer(pages.into(), at);
                }
                at = self.blocks[at as usize].next;
            }
        }
        Searched { headers, resume: None }
    }

    /// The first pageblock at or behind `from` that is full of what was requested as movable, and that
    /// `passes` lets through; or else where to go on. It looks at `headers` at most, and says at how many.
    pub(crate) fn find_full_source(
        &self,
        (from, headers): (u32, u32),
        passes: impl Fn(u32) -> bool,
    ) -> (Option<u32>, Searched) {
        let end = self.blocks.len() as u32;
        let stop = from.saturating_add(headers).min(end);
        let found = (from..stop).find(|&at| self.is_full_source(at) && passes(at));
        let next = found.map_or(stop, |at| at + 1);
        let resume = Some(next).filter(|&next| next < end);
        (found, Searched { headers: next.saturating_sub(from), resume })
    }

    /// Whether movable pageblocks that are hosts have room for `frames` together, and how many headers
    /// it took to tell: the emptiest of the fuller ones come first. Where `most` headers do not tell, there
    /// may be.
    pub(crate) fn may_have_room(&self, frames: u32, hosts: Hosts, most: u32) -> (bool, u32) {
        let (mut headers, mut free) = (0, 0);
        const RANKS: u8 = PAGEBLOCK_ORDER * QUARTILES;
        let first = (QUARTILES - 1 - quartile_below(hosts.below)) * PAGEBLOCK_ORDER;
        let emptier = if hosts.doubtful { 0..first } else { 0..0 };
        for rank in (first..RANKS).chain(emptier) {
            let mut at = self.lists.head_of(MigrateType::Movable, class_of(rank));
            while at != NIL {
                if free >= frames || headers == most {
                    return (true, headers);
                }
                headers += 1;
                let block = &self.blocks[at as usize];
                free += if hosts.include(block) { u32::from(block.free) } else { 0 };
                at = block.next;
            }
        }
        (free >= frames, headers)
    }

    /// How many pages would have to move out of a pageblock, if it is one to empty.
    pub(crate) fn pages_of_source(&self, index: u32, doubtful: bool) -> Option<u16> {
        self.listed_class(index)?;
        let block = &self.blocks[index as usize];
        let used = block.movable + block.pinned;
        (used > 0 && (block.pinned > 0) == doubtful).then_some(used)
    }

    /// Whether a pageblock is full of what was requested as movable, and as more than one block.
    fn is_full_source(&self, index: u32) -> bool {
        const ONE_BLOCK: [u64; WORDS] = [1, 0, 0, 0, 0, 0, 0, 0];
        self.blocks.get(index as usize).is_some_and(|block| {
            usize::from(block.movable) == PAGEBLOCK_FRAMES
                && block.class == UNLISTED
                && block.heads != ONE_BLOCK
                && self.type_of(index) == MigrateType::Movable
                && !self.lists.gigablocks.is_folded(index)
        })
    }

    /// The list that a movable pageblock hangs on.
    pub(super) fn listed_class(&self, index: u32) -> Option<u8> {
        let class = self.blocks.get(index as usize)?.class;
        let listed = self.type_of(index) == MigrateType::Movable;
        (listed && class < PAGEBLOCK_ORDER * QUARTILES).then_some(class)
    }

    /// Aligned runs of pageblocks, as many as a block of `order` has, that take few moves to empty;
    /// of those that hold movable frames only, unless also doubtful ones count.
    pub(crate) fn find_source_runs(
        &self,
        order: Order,
        search: Search,
        passes: impl Fn(u32) -> bool,
        found: &mut Sources,
    ) -> Searched {
        let pageblocks = order.pageblocks();
        let mut headers = 0;
        let mut at = self.first_aligned(search.resume.unwrap_or(0), pageblocks);
        while at as usize + pageblocks as usize <= self.blocks.len() {
            if headers >= search.headers {
                return Searched { headers, resume: Some(at) };
            }
            let mut moves = 0;
            let suits = (at..at + pageblocks).all(|index| {
                headers += 1;
                let held = self.contents(index);
                moves += u32::from(held.movable + held.pinned);
                held.of == MigrateType::Movable && (held.pinned == 0 || search.doubtful)
            });
            if suits && moves > 0 && passes(at) {
                found.offer(moves, at);
            }
            at += pageblocks;
        }
        Searched { headers, resume: None }
    }

    /// The first pageblock at or behind `index` at which a block of so many may start.
    fn first_aligned(&self, index: u32, pageblocks: u32) -> u32 {
        let place = self.lists.gigablocks.place(index);
        index + (place.next_multiple_of(pageblocks) - place)
    }
}

/// Classes below that of free pageblocks, by the order they are searched in for something to
/// empty: emptiest quartile first, largest free block first.
fn class_of(rank: u8) -> u8 {
    let (quartile, order) = (rank / PAGEBLOCK_ORDER, rank % PAGEBLOCK_ORDER);
    (PAGEBLOCK_ORDER - 1 - order) * QUARTILES + QUARTILES - 1 - quartile
}

/// The inverse.
fn rank(class: u8) -> u8 {
    let (order, quartile) = (class / QUARTILES, class % QUARTILES);
    (QUARTILES - 1 - quartile) * PAGEBLOCK_ORDER + PAGEBLOCK_ORDER - 1 - order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_are_kept_in_order_and_of_equals_the_first_is_first() {
        let mut sources = Sources::default();
        for (index, pages) in [30, 10, 20, 10].into_iter().enumerate() {
            sources.offer(pages, index as u32);
        }
        assert_eq!(sources.iter().collect::<std::vec::Vec<_>>(), [1, 3, 2, 0]);
        (0..100).for_each(|index| sources.offer(5, 100 + index));
        assert_eq!(sources.iter().count(), Sources::MOST);
        assert_eq!(sources.iter().next(), Some(100));
        assert!(sources.iter().all(|index| (100..116).contains(&index)));
    }
}

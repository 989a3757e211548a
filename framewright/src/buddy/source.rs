//! Which pageblock is worth emptying.
//!
//! Headers say it: how much of a pageblock is free, and whether what is allocated was requested as
//! movable. Pageblocks hang on lists by fullness, so that the emptiest come first. A search is a walk
//! along the lists, cut into pieces: each piece looks at a few headers, keeps the best that it saw,
//! and says where the next one goes on. What no list tells of is walked by address: full pageblocks, and
//! runs of pageblocks.

use super::{
    Buddy, Contents, FRAMES, Heads, MigrateType,
    lists::QUARTILES,
    pageblock::{NIL, Pageblock, quartile_below},
};
use crate::types::PAGEBLOCK_ORDER;

/// Classes that a search looks at: all but that of pageblocks that are free as a whole.
pub(super) const RANKS: u8 = PAGEBLOCK_ORDER * QUARTILES;

/// Pageblocks that may take in what leaves another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TargetFilter {
    /// Those with fewer free frames.
    pub(crate) free_below: u16,
    /// And those that hold frames which were not requested as movable, however empty they are: most of
    /// them will not be free as a whole anyway.
    pub(crate) with_unmovable: bool,
}

impl TargetFilter {
    /// For what leaves a pageblock: those as full as that, or fuller; and if it is none of them, doubtful ones.
    pub(crate) const fn for_source(held: &Contents) -> Self {
        Self { free_below: held.free + 1, with_unmovable: held.pinned == 0 }
    }

    /// Any.
    pub(crate) const ANY: Self = Self { free_below: u16::MAX, with_unmovable: true };

    pub(super) fn accepts(self, block: &Pageblock) -> bool {
        block.free < self.free_below || self.with_unmovable && block.pinned > 0
    }

    /// Whether nothing is fuller than what is emptied.
    pub(super) const fn only_with_unmovable(self) -> bool {
        self.free_below <= 1
    }
}

/// What a search is for. After kinds were mixed in a pageblock, what its header says of that is an
/// estimate.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum SourceKind {
    /// Pageblocks of which all that they hold was requested as movable.
    #[default]
    AllMovable,
    /// Those that hold something else, too.
    HasUnmovable,
    /// Those that are full of what was requested as movable.
    Full,
}

impl SourceKind {
    /// What is looked for when there is no more of this.
    pub(crate) const fn next(self) -> Self {
        Self::from_bits(self as u32 + 1)
    }

    /// Of the lowest two bits of a word.
    pub(crate) const fn from_bits(bits: u32) -> Self {
        match bits % 4 {
            1 => Self::HasUnmovable,
            2 => Self::Full,
            _ => Self::AllMovable,
        }
    }
}

/// A piece of a search for pageblocks to empty.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Search {
    pub(crate) kind: SourceKind,
    /// Pageblocks in a row: of more than one the doubtful may also be certain, and none are looked for as
    /// full ones.
    pub(crate) pageblocks: u32,
    /// Headers that may be looked at.
    pub(crate) headers: u32,
    /// Where the last piece was cut off; `None`: at the beginning.
    pub(crate) resume: Option<u32>,
}

impl Search {
    fn is_by_address(&self) -> bool {
        self.pageblocks > 1 || self.kind == SourceKind::Full
    }
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
    fn insert(&mut self, pages: u32, index: u32) {
        let at = self.list[..self.len].partition_point(|&(other, _)| other <= pages);
        if at == Self::MOST {
            return;
        }
        self.len = (self.len + 1).min(Self::MOST);
        self.list[at..self.len].rotate_right(1);
        self.list[at] = (pages, index);
    }

    /// The best.
    pub(crate) fn first(&self) -> Option<u32> {
        self.iter().next()
    }

    /// Them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = u32> {
        self.list[..self.len].iter().map(|&(_, index)| index)
    }
}

impl Buddy<'_> {
    /// What takes few moves to empty of what is searched for, and `passes` lets through.
    pub(crate) fn find_sources(
        &self,
        search: Search,
        is_eligible: impl Fn(u32) -> bool,
        found: &mut Sources,
    ) -> Searched {
        let (mut headers, mut next) = (0, self.first_place(search));
        // One full pageblock is like the other.
        let enough = if search.kind == SourceKind::Full { 1 } else { usize::MAX };
        while let Some(at) = next {
            if headers >= search.headers || found.len >= enough {
                break;
            }
            headers += search.pageblocks;
            if let Some(pages) = self.pages_to_move(at, search).filter(|_| is_eligible(at)) {
                found.insert(pages, at);
            }
            next = self.place_after(at, search);
        }
        Searched { headers, resume: next }
    }

    /// Where a piece of a search begins.
    fn first_place(&self, search: Search) -> Option<u32> {
        if search.is_by_address() {
            let from = search.resume.unwrap_or(0);
            let place = self.lists.gigablocks.place(from);
            return self
                .within_zone(from + place.next_multiple_of(search.pageblocks) - place, search);
        }
        // What it has stopped at may be on no list by now.
        let resumed = search.resume.filter(|&index| self.listed_class(index).is_some());
        resumed.or_else(|| self.first_listed(0))
    }

    fn place_after(&self, at: u32, search: Search) -> Option<u32> {
        if search.is_by_address() {
            self.within_zone(at + search.pageblocks, search)
        } else {
            self.listed_after(at)
        }
    }

    fn within_zone(&self, at: u32, search: Search) -> Option<u32> {
        ((at + search.pageblocks) as usize <= self.blocks.len()).then_some(at)
    }

    /// The first pageblock on the lists from `rank` on.
    fn first_listed(&self, rank: u8) -> Option<u32> {
        let head = |rank| self.lists.head_of(MigrateType::Movable, class_of(rank));
        (rank..RANKS).map(head).find(|&at| at != NIL)
    }

    fn listed_after(&self, at: u32) -> Option<u32> {
        let block = &self.blocks[at as usize];
        if block.next != NIL { Some(block.next) } else { self.first_listed(rank(block.class) + 1) }
    }

    /// How many pages have to move out of what begins with pageblock `first`, if it is searched for.
    fn pages_to_move(&self, first: u32, search: Search) -> Option<u32> {
        let each = (first..first + search.pageblocks).map(|index| self.pages_in(index, search));
        each.sum::<Option<u32>>().filter(|&pages| pages > 0)
    }

    /// How many pages pageblock `index` holds, if it suits the search.
    fn pages_in(&self, index: u32, search: Search) -> Option<u32> {
        let block = self.blocks.get(index as usize)?;
        let in_run = search.pageblocks > 1;
        if self.type_of(index) != MigrateType::Movable {
            return None;
        }
        if in_run && self.lists.gigablocks.is_folded(index) {
            return Some(FRAMES);
        }
        let suits = match search.kind {
            SourceKind::AllMovable => block.pinned == 0 && (block.free > 0 || in_run),
            SourceKind::HasUnmovable => in_run || block.pinned > 0 && block.free > 0,
            SourceKind::Full => {
                let is_one_block = |heads: &Heads| heads.is_one_block();
                u32::from(block.movable) == FRAMES
                    && !self.heads_of(index).is_some_and(is_one_block)
            }
        };
        suits.then_some((block.movable + block.pinned).into())
    }

    /// Whether movable pageblocks that are hosts have room for `frames` together, and how many headers
    /// it took to tell: the emptiest come first. Where `most` headers do not tell, there may be.
    pub(crate) fn may_have_targets(
        &self,
        frames: u32,
        filter: TargetFilter,
        most: u32,
    ) -> (bool, u32) {
        let (mut headers, mut free) = (0, 0);
        let fuller = (QUARTILES - 1 - quartile_below(filter.free_below)) * PAGEBLOCK_ORDER;
        let mut next = self.first_listed(if filter.with_unmovable { 0 } else { fuller });
        while let Some(at) = next.filter(|_| free < frames) {
            if headers == most {
                return (true, headers);
            }
            headers += 1;
            let block = &self.blocks[at as usize];
            free += if filter.accepts(block) { u32::from(block.free) } else { 0 };
            next = self.listed_after(at);
        }
        (free >= frames, headers)
    }

    /// The list that a movable pageblock hangs on.
    pub(super) fn listed_class(&self, index: u32) -> Option<u8> {
        let class = self.blocks.get(index as usize)?.class;
        let listed = self.type_of(index) == MigrateType::Movable;
        (listed && class < RANKS).then_some(class)
    }
}

/// Classes below that of free pageblocks, by the order they are searched in for something to
/// empty: emptiest quartile first, largest free block first.
pub(super) fn class_of(rank: u8) -> u8 {
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
    fn best_sources_are_sorted_and_ties_keep_their_order() {
        let mut sources = Sources::default();
        for (index, pages) in [30, 10, 20, 10].into_iter().enumerate() {
            sources.insert(pages, index as u32);
        }
        assert_eq!(sources.iter().collect::<std::vec::Vec<_>>(), [1, 3, 2, 0]);
        (0..100).for_each(|index| sources.insert(5, 100 + index));
        assert_eq!(sources.iter().count(), Sources::MOST);
        assert_eq!(sources.iter().next(), Some(100));
        assert!(sources.iter().all(|index| (100..116).contains(&index)));
    }
}

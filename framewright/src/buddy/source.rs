//! The choice of pageblocks to empty.
//!
//! The header of a pageblock tells how many of its frames are free, and whether the allocated
//! frames were requested as movable. The lists sort pageblocks by fullness, and a search walks them
//! from the emptiest pageblock on. It does so in pieces: each piece reads a few headers, keeps the
//! best sources, and returns the start of the next piece. Full pageblocks and runs of pageblocks
//! are on no list, so they are searched by address.

use super::{
    Buddy, Contents, FRAMES, Heads, MigrateType,
    lists::GRADES,
    pageblock::{NIL, Pageblock, grade_below},
};
use crate::types::PAGEBLOCK_ORDER;

/// Number of list classes that a search reads: all but the class of wholly free pageblocks. A class
/// is the order of the largest free block, and the grade of fullness.
pub(super) const RANKS: u8 = PAGEBLOCK_ORDER * GRADES;

/// The pageblocks that may receive pages from another pageblock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TargetFilter {
    /// Pageblocks with fewer free frames than this.
    pub(crate) free_below: u16,
    /// Also all pageblocks with frames that were not requested as movable, even nearly empty ones:
    /// most of these will not become wholly free anyway.
    pub(crate) with_unmovable: bool,
}

impl TargetFilter {
    /// The filter for pages of a source with contents `held`. It accepts pageblocks that are at
    /// least as full. If the source has no unmovable frames, it also accepts pageblocks with such
    /// frames.
    pub(crate) const fn for_source(held: &Contents) -> Self {
        Self { free_below: held.free + 1, with_unmovable: held.unmovable == 0 }
    }

    /// All pageblocks.
    pub(crate) const ANY: Self = Self { free_below: u16::MAX, with_unmovable: true };

    pub(super) fn accepts(self, block: &Pageblock) -> bool {
        block.free < self.free_below || self.with_unmovable && block.unmovable > 0
    }

    /// Whether only pageblocks with unmovable frames can have targets, because the source is full.
    pub(super) const fn only_with_unmovable(self) -> bool {
        self.free_below <= 1
    }
}

/// The kind of pageblocks that a search returns. The counts in a header are an estimate after
/// movable and other frames were mixed in the pageblock.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum SourceKind {
    /// Pageblocks whose allocated frames were all requested as movable.
    #[default]
    AllMovable,
    /// Pageblocks with free frames and with allocated frames that were not requested as movable.
    HasUnmovable,
    /// Pageblocks full of frames that were requested as movable.
    Full,
}

impl SourceKind {
    /// The kind that is searched for after this one.
    pub(crate) const fn next(self) -> Self {
        Self::from_bits(self as u32 + 1)
    }

    /// The kind in the lowest two bits of a word.
    pub(crate) const fn from_bits(bits: u32) -> Self {
        match bits % 4 {
            1 => Self::HasUnmovable,
            2 => Self::Full,
            _ => Self::AllMovable,
        }
    }
}

/// One piece of a search for pageblocks to empty.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Search {
    pub(crate) kind: SourceKind,
    /// The number of adjacent pageblocks to empty together. If it is above one, `HasUnmovable` also
    /// finds runs without unmovable frames, and `Full` is not used.
    pub(crate) pageblocks: u32,
    /// The number of headers after which the piece ends.
    pub(crate) headers: u32,
    /// The end of the last piece; `None` starts at the beginning.
    pub(crate) resume: Option<u32>,
}

impl Search {
    fn is_by_address(&self) -> bool {
        self.pageblocks > 1 || self.kind == SourceKind::Full
    }
}

/// Result of one piece of a search.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Searched {
    /// Headers that were read.
    pub(crate) headers: u32,
    /// Start of the next piece, if there is more to search.
    pub(crate) resume: Option<u32>,
}

/// The best sources of a search; those with the fewest pages to move come first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sources {
    /// The number of pages to move, and the pageblock, or the first pageblock of a run.
    list: [(u32, u32); Self::MOST],
    len: usize,
}

impl Sources {
    /// The maximum number of sources that are kept.
    pub(crate) const MOST: usize = 16;

    /// Inserts a source with `pages` pages to move. Of equal sources, the one that was found first
    /// stays in front.
    fn insert(&mut self, pages: u32, index: u32) {
        let at = self.list[..self.len].partition_point(|&(other, _)| other <= pages);
        if at == Self::MOST {
            return;
        }
        self.len = (self.len + 1).min(Self::MOST);
        self.list[at..self.len].rotate_right(1);
        self.list[at] = (pages, index);
    }

    /// The best source.
    pub(crate) fn first(&self) -> Option<u32> {
        self.iter().next()
    }

    /// All sources, best first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = u32> {
        self.list[..self.len].iter().map(|&(_, index)| index)
    }
}

impl Buddy<'_> {
    /// Searches one piece for sources that `is_eligible` accepts, and keeps those with the fewest
    /// pages to move. On the lists, a piece ends with the grade of fullness in which it found any:
    /// all further pageblocks have more pages.
    pub(crate) fn find_sources(
        &self,
        search: Search,
        is_eligible: impl Fn(u32) -> bool,
        found: &mut Sources,
    ) -> Searched {
        let (mut headers, mut next) = (0, self.first_place(search));
        // All full pageblocks cost the same, so the first one is as good as any other.
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
            let is_last_of_grade = next.is_some_and(|next| self.grade(next) != self.grade(at));
            if found.len > 0 && is_last_of_grade && !search.is_by_address() {
                break;
            }
        }
        Searched { headers, resume: next }
    }

    /// The grade of fullness of a listed pageblock.
    fn grade(&self, index: u32) -> u8 {
        self.blocks[index as usize].class % GRADES
    }

    /// Start of a piece of a search.
    fn first_place(&self, search: Search) -> Option<u32> {
        if search.is_by_address() {
            let from = search.resume.unwrap_or(0);
            let place = self.lists.gigablocks.place(from);
            return self
                .within_zone(from + place.next_multiple_of(search.pageblocks) - place, search);
        }
        // The pageblock at which the last piece ended may have left the lists since.
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

    /// Number of pages to move out of the pageblocks from `first` on; `None` if they do not suit
    /// the search.
    fn pages_to_move(&self, first: u32, search: Search) -> Option<u32> {
        let each = (first..first + search.pageblocks).map(|index| self.pages_in(index, search));
        each.sum::<Option<u32>>().filter(|&pages| pages > 0)
    }

    /// Number of pages in pageblock `index`; `None` if it does not suit the search.
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
            SourceKind::AllMovable => block.unmovable == 0 && (block.free > 0 || in_run),
            SourceKind::HasUnmovable => in_run || block.unmovable > 0 && block.free > 0,
            SourceKind::Full => {
                let is_one_block = |heads: &Heads| heads.is_one_block();
                u32::from(block.movable) == FRAMES
                    && !self.heads_of(index).is_some_and(is_one_block)
            }
        };
        suits.then_some((block.movable + block.unmovable).into())
    }

    /// Whether the movable pageblocks that `filter` accepts have at least `frames` free frames
    /// together, and the number of headers that were read to find out. The emptiest pageblocks are
    /// read first. If `most` headers are not enough to decide, the answer is `true`.
    pub(crate) fn may_have_targets(
        &self,
        frames: u32,
        filter: TargetFilter,
        most: u32,
    ) -> (bool, u32) {
        let (mut headers, mut free) = (0, 0);
        let fuller = (GRADES - 1 - grade_below(filter.free_below)) * PAGEBLOCK_ORDER;
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

    /// The class of the list that a movable pageblock is on; `None` if searches do not read that
    /// list.
    pub(super) fn listed_class(&self, index: u32) -> Option<u8> {
        let class = self.blocks.get(index as usize)?.class;
        let listed = self.type_of(index) == MigrateType::Movable;
        (listed && class < RANKS).then_some(class)
    }
}

/// The class with this rank in the search for sources. The emptiest grade is first, and within
/// it the largest free block.
pub(super) fn class_of(rank: u8) -> u8 {
    let (grade, order) = (rank / PAGEBLOCK_ORDER, rank % PAGEBLOCK_ORDER);
    (PAGEBLOCK_ORDER - 1 - order) * GRADES + GRADES - 1 - grade
}

/// The rank of a class: the inverse of [`class_of`].
fn rank(class: u8) -> u8 {
    let (order, grade) = (class / GRADES, class % GRADES);
    (GRADES - 1 - grade) * PAGEBLOCK_ORDER + PAGEBLOCK_ORDER - 1 - order
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

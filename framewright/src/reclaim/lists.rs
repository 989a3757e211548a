//! The LRU lists: doubly linked lists in a table of two numbers per frame.
//!
//! The index of a frame in the per-frame tables (its *slot*) identifies it, so the lists do not
//! depend on zones. All operations are done under the LRU lock of a node. The links are atomics,
//! because nodes share the table (each node uses its own part of it), and because a CPU reads links
//! without the lock to prefetch them.

use crate::{
    sync::{AtomicU32, Ordering},
    types::LruList,
};

/// The slot number of no page.
pub(super) const NONE: u32 = u32::MAX;

/// The neighbours of a page on its list.
pub(crate) struct Link {
    /// The neighbour towards the head, where pages are added.
    newer: AtomicU32,
    /// The neighbour towards the tail, where pages are taken.
    older: AtomicU32,
}

impl Link {
    pub(crate) fn new() -> Self {
        Self { newer: AtomicU32::new(NONE), older: AtomicU32::new(NONE) }
    }

    fn newer(&self) -> u32 {
        self.newer.load(Ordering::Relaxed)
    }

    fn older(&self) -> u32 {
        self.older.load(Ordering::Relaxed)
    }

    /// The page that is taken after this one, read without the lock.
    pub(super) fn newer_unlocked(&self) -> u32 {
        self.newer()
    }

    /// Fetches the cache line for writing, and changes nothing.
    pub(super) fn prefetch_for_write(&self) {
        self.newer.fetch_or(0, Ordering::Relaxed);
    }
}

/// The end of a list at which a page is added.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum End {
    /// The page is taken last.
    Head,
    /// The page is taken next.
    Tail,
}

#[derive(Clone, Copy)]
struct Ends {
    head: u32,
    tail: u32,
    length: u32,
}

/// The lists of a node.
pub(crate) struct Lists<'m> {
    links: &'m [Link],
    ends: [Ends; LruList::COUNT],
}

impl<'m> Lists<'m> {
    pub(crate) fn new(links: &'m [Link]) -> Self {
        Self { links, ends: [Ends { head: NONE, tail: NONE, length: 0 }; LruList::COUNT] }
    }

    pub(super) fn length(&self, list: LruList) -> u32 {
        self.ends[list as usize].length
    }

    /// The page that is taken next.
    pub(super) fn tail(&self, list: LruList) -> Option<u32> {
        some(self.ends[list as usize].tail)
    }

    /// The page that is taken after `slot`.
    pub(super) fn newer(&self, slot: u32) -> Option<u32> {
        some(self.links[slot as usize].newer())
    }

    /// Removes the last `count` pages from a list. The caller has walked them. `rest` is the page
    /// before them, the new tail. The links between the removed pages do not change.
    pub(super) fn cut(&mut self, list: LruList, count: u32, rest: Option<u32>) {
        let ends = &mut self.ends[list as usize];
        match rest {
            Some(rest) => {
                self.links[rest as usize].older.store(NONE, Ordering::Relaxed);
                ends.tail = rest;
            }
            None => (ends.head, ends.tail) = (NONE, NONE),
        }
        ends.length -= count;
    }

    /// Adds a page that is on no list.
    pub(super) fn insert(&mut self, list: LruList, slot: u32, at: End) {
        let ends = &mut self.ends[list as usize];
        let (newer, older) = match at {
            End::Head => (NONE, ends.head),
            End::Tail => (ends.tail, NONE),
        };
        let link = &self.links[slot as usize];
        link.newer.store(newer, Ordering::Relaxed);
        link.older.store(older, Ordering::Relaxed);
        match self.links.get(newer as usize) {
            Some(newer) => newer.older.store(slot, Ordering::Relaxed),
            None => ends.head = slot,
        }
        match self.links.get(older as usize) {
            Some(older) => older.newer.store(slot, Ordering::Relaxed),
            None => ends.tail = slot,
        }
        ends.length += 1;
    }

    /// Adds pages, which are on no list, at the head, one after the other. Returns their number.
    /// Inlined with the iterator, because most of the time that a new page costs is spent here.
    #[inline(always)]
    pub(super) fn insert_all(&mut self, list: LruList, slots: impl Iterator<Item = u32>) -> usize {
        let (links, ends) = (self.links, &mut self.ends[list as usize]);
        let (mut head, mut count) = (ends.head, 0);
        for slot in slots {
            links[slot as usize].older.store(head, Ordering::Relaxed);
            match links.get(head as usize) {
                Some(older) => older.newer.store(slot, Ordering::Relaxed),
                None => ends.tail = slot,
            }
            head = slot;
            count += 1;
        }
        if let Some(newest) = links.get(head as usize) {
            newest.newer.store(NONE, Ordering::Relaxed);
        }
        ends.head = head;
        ends.length += count as u32;
        count
    }

    /// Removes pages from the list that they are on. Returns their number. Inlined like
    /// [`Lists::insert_all`].
    #[inline(always)]
    pub(super) fn remove_all(&mut self, list: LruList, slots: impl Iterator<Item = u32>) -> usize {
        let (links, ends) = (self.links, &mut self.ends[list as usize]);
        let mut count = 0;
        for slot in slots {
            let link = &links[slot as usize];
            let (newer, older) = (link.newer(), link.older());
            match links.get(newer as usize) {
                Some(newer) => newer.older.store(older, Ordering::Relaxed),
                None => ends.head = older,
            }
            match links.get(older as usize) {
                Some(older) => older.newer.store(newer, Ordering::Relaxed),
                None => ends.tail = newer,
            }
            count += 1;
        }
        ends.length -= count as u32;
        count
    }

    /// Iterates over the pages of a list from tail to head. Even if the links are corrupt, returns
    /// at most one page more than the length of the list.
    pub(super) fn walk(&self, list: LruList) -> impl Iterator<Item = u32> {
        let mut next = self.tail(list);
        let limit = self.length(list) as usize;
        core::iter::from_fn(move || {
            let slot = next?;
            next = self.newer(slot);
            Some(slot)
        })
        .take(limit + 1)
    }
}

fn some(slot: u32) -> Option<u32> {
    (slot != NONE).then_some(slot)
}

#[cfg(all(test, not(any(framewright_loom, framewright_tso))))]
mod tests {
    use super::*;
    use std::{collections::VecDeque, vec::Vec};

    #[test]
    fn lists_behave_like_queues() {
        let links: Vec<Link> = (0..64).map(|_| Link::new()).collect();
        let mut lists = Lists::new(&links);
        let mut oracle: [VecDeque<u32>; LruList::COUNT] = Default::default();
        let mut random = 1u64;
        for _ in 0..5000 {
            random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let slot = (random >> 33) as u32 % 64;
            let place = oracle.iter().position(|list| list.contains(&slot));
            if let Some(place) = place
                && random >> 60 == 0
            {
                // Up to three pages at the tail.
                let list = LruList::ALL[place];
                let count = oracle[place].len().min(3);
                oracle[place].drain(..count);
                lists.cut(list, count as u32, oracle[place].front().copied());
            } else if let Some(place) = place {
                // A page, and perhaps the one in the next frame, as when a program frees a range.
                let with =
                    |&other: &u32| other == slot || random >> 59 & 1 == 0 && other == slot + 1;
                let some = || (slot..slot + 2).filter(with).filter(|at| oracle[place].contains(at));
                let count = some().count();
                assert_eq!(lists.remove_all(LruList::ALL[place], some()), count);
                oracle[place].retain(|other| !with(other));
            } else if random >> 58 & 1 == 0 {
                let place = (random >> 50) as usize % LruList::COUNT;
                let is_new = |slot: &u32| !oracle.iter().any(|list| list.contains(slot));
                let some: Vec<u32> = (slot..64.min(slot + 3)).filter(is_new).collect();
                assert_eq!(lists.insert_all(LruList::ALL[place], some.iter().copied()), some.len());
                oracle[place].extend(some);
            } else {
                let place = (random >> 50) as usize % LruList::COUNT;
                let at = if random >> 20 & 1 == 0 { End::Head } else { End::Tail };
                lists.insert(LruList::ALL[place], slot, at);
                match at {
                    End::Head => oracle[place].push_back(slot),
                    End::Tail => oracle[place].push_front(slot),
                }
            }
            for (list, oracle) in LruList::ALL.into_iter().zip(&oracle) {
                assert!(lists.walk(list).eq(oracle.iter().copied()));
                assert_eq!(lists.length(list) as usize, oracle.len());
                assert_eq!(lists.tail(list), oracle.front().copied());
            }
        }
    }
}

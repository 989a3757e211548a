//! Where the frames that a recording names were when it began.
//!
//! The first event that names a frame tells: freed, it was in use; handed out without having left
//! the zone before, or drained, it was on the lists of that CPU; leaving the zone, it was free.

use std::collections::HashMap;

use framewright::frame::PAGEBLOCK_ORDER;

use super::layout::{Map, fill};
use super::unit::{PAGEBLOCK, has_lists, pageblock};
use crate::trace::{Event, Record};

/// What a recording tells of the beginning.
#[derive(Clone, Debug, Default)]
pub(super) struct Census {
    /// The pageblocks that it names, by number.
    pub(super) pageblocks: HashMap<u64, Recorded>,
    /// Blocks on CPU lists, in the order in which they left these.
    pub(super) held: Vec<Held>,
}

/// A recorded pageblock.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Recorded {
    /// Its migratetype, in the kernel's numbering, where an event tells it.
    pub(super) of: Option<u8>,
    /// Frames that were in use, or on the lists of a CPU.
    pub(super) taken: Map,
    /// Frames that have been named.
    seen: Map,
}

/// A block on the lists of a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Held {
    pub(super) cpu: u16,
    pub(super) pfn: u64,
    pub(super) order: u8,
}

impl Census {
    /// Takes note of an event.
    pub(super) fn add(&mut self, record: &Record) {
        match record.event {
            Event::Alloc { pfn, order, migratetype, .. } => {
                if has_lists(order) {
                    self.leaves_list(record.cpu, pfn, order);
                }
                self.name(pfn, order, false);
                // Requests of one type may be served from pageblocks of another: a guess.
                self.pageblocks.entry(pageblock(pfn)).or_default().of.get_or_insert(migratetype);
            }
            Event::Free { pfn, order } => self.name(pfn, order, true),
            Event::PcpuDrain { pfn, order, migratetype } => {
                self.leaves_list(record.cpu, pfn, order);
                self.name(pfn, order, false);
                // This one names the pageblock's own type.
                self.pageblocks.entry(pageblock(pfn)).or_default().of = Some(migratetype);
            }
            Event::ZoneLocked { pfn, order, .. } => self.name(pfn, order, false),
            Event::ExtFrag(event) => self.name(event.pfn, event.fallback_order, false),
            Event::AllocFailed { .. } | Event::FreeBatched { .. } | Event::Other => {}
        }
    }

    /// A block has left the lists of a CPU: if it was never named, it was there from the beginning.
    fn leaves_list(&mut self, cpu: u16, pfn: u64, order: u8) {
        let block = self.pageblocks.entry(pageblock(pfn)).or_default();
        let at = (pfn % PAGEBLOCK) as usize;
        if block.seen[at / 64] >> (at % 64) & 1 == 0 {
            self.held.push(Held { cpu, pfn, order });
            self.name(pfn, order, true);
        }
    }

    /// Frames are named; those that never were before were `taken` at the beginning, or free.
    fn name(&mut self, pfn: u64, order: u8, taken: bool) {
        let size = 1u64 << order.min(PAGEBLOCK_ORDER);
        for pfn in (pfn..pfn + (1 << order)).step_by(size as usize) {
            let block = self.pageblocks.entry(pageblock(pfn)).or_default();
            let mut named = Map::default();
            // A fallback's block need not begin at a multiple of its size.
            let at = (pfn % PAGEBLOCK) & !(size - 1);
            fill(&mut named, at as usize, size as usize);
            for ((taken_of, seen), named) in block.taken.iter_mut().zip(&mut block.seen).zip(named)
            {
                if taken {
                    *taken_of |= named & !*seen;
                }
                *seen |= named;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::GfpFlags;

    fn census(events: &[(u16, Event)]) -> Census {
        let mut census = Census::default();
        for &(cpu, event) in events {
            census.add(&Record { line: 1, cpu, nanos: 0, event });
        }
        census
    }

    fn alloc(pfn: u64, order: u8) -> Event {
        Event::Alloc { pfn, order, migratetype: 1, gfp: GfpFlags::NONE }
    }

    #[test]
    fn the_first_event_of_a_frame_tells_where_it_was() {
        let locked = Event::ZoneLocked { pfn: 520, order: 1, migratetype: 1, percpu_refill: true };
        let drain = Event::PcpuDrain { pfn: 530, order: 1, migratetype: 2 };
        let census = census(&[
            (1, alloc(512, 1)),
            (0, locked),
            (0, alloc(520, 1)),
            (0, Event::Free { pfn: 512, order: 1 }),
            (0, Event::Free { pfn: 516, order: 0 }),
            (1, alloc(516, 0)),
            (0, drain),
            (0, alloc(576, 6)),
        ]);
        let held = |cpu, pfn, order| Held { cpu, pfn, order };
        assert_eq!(census.held, [held(1, 512, 1), held(0, 530, 1)]);
        let block = census.pageblocks[&1];
        assert_eq!(block.taken[0], 0b11 | 1 << 4 | 0b11 << 18);
        assert_eq!(
            (block.taken[1], block.seen[1]),
            (0, u64::MAX),
            "no list: it came from the zone"
        );
        assert_eq!(block.of, Some(2), "a drain tells the pageblock's own type");
    }

    #[test]
    fn what_spans_pageblocks_is_noted_in_each() {
        let census = census(&[(0, Event::Free { pfn: 1024, order: 10 })]);
        assert_eq!(census.pageblocks.len(), 2);
        assert!(census.pageblocks.values().all(|block| block.taken == [u64::MAX; 8]));
    }
}

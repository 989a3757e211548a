//! The state of recorded frames at the start of the recording.
//!
//! The first event that names a frame determines its state at the start. If the frame is freed, it
//! was in use. If it is allocated or drained, and no earlier event reports that it left the zone,
//! it was on the lists of the CPU of this event. If it leaves the zone, it was free.

use framewright::frame::PAGEBLOCK_ORDER;
use rustc_hash::FxHashMap;

use super::{
    layout::{Map, words},
    survey::{PAGEBLOCK, has_lists, pageblock},
};
use crate::trace::{Event, Record};

/// The state at the start, as far as the recording shows it.
#[derive(Clone, Debug, Default)]
pub(super) struct Census {
    /// The recorded pageblocks, by number.
    pub(super) pageblocks: FxHashMap<u64, Recorded>,
    /// Blocks on CPU lists, in the order in which they left the lists.
    pub(super) held: Vec<Held>,
}

/// A recorded pageblock.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Recorded {
    /// Its migratetype, in the kernel's numbering, if an event shows it.
    pub(super) of: Option<u8>,
    /// Frames that were in use, or on the lists of a CPU.
    pub(super) taken: Map,
    /// Frames that events have named.
    seen: Map,
}

/// A block on the lists of a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Held {
    pub(super) cpu: u16,
    pub(super) pfn: u64,
    pub(super) order: u8,
}

/// The state of a block at the start of the recording, if no earlier event named it.
#[derive(Clone, Copy)]
enum AtStart {
    Free,
    InUse,
    /// On the lists of a CPU.
    Held(u16),
}

impl Census {
    /// Adds an event.
    pub(super) fn add(&mut self, record: &Record) {
        match record.event {
            Event::Alloc { pfn, order, migratetype, .. } => {
                let lists = has_lists(order);
                let state = if lists { AtStart::Held(record.cpu) } else { AtStart::Free };
                // An estimate: requests of one type may be served from pageblocks of another.
                self.see(pfn, order, state).of.get_or_insert(migratetype);
            }
            Event::Free { pfn, order } => _ = self.see(pfn, order, AtStart::InUse),
            Event::PcpuDrain { pfn, order, migratetype } => {
                // This event has the pageblock's own type.
                self.see(pfn, order, AtStart::Held(record.cpu)).of = Some(migratetype);
            }
            Event::ZoneLocked { pfn, order, .. } => _ = self.see(pfn, order, AtStart::Free),
            Event::ExtFrag { pfn, fallback_order, .. } => {
                self.see(pfn, fallback_order, AtStart::Free);
            }
            Event::AllocFailed { .. }
            | Event::FreeBatched { .. }
            | Event::ContentionBegin { .. }
            | Event::ContentionEnd { .. }
            | Event::ZoneWait { .. }
            | Event::Other => {}
        }
    }

    /// An event names a block. Sets the state of its frames that no earlier event named. Returns its first pageblock.
    #[inline]
    fn see(&mut self, pfn: u64, order: u8, state: AtStart) -> &mut Recorded {
        let first = pageblock(pfn);
        let more = (1u64 << order).div_ceil(PAGEBLOCK);
        let is_taken = match state {
            AtStart::Free => false,
            AtStart::InUse => true,
            AtStart::Held(cpu) => {
                let block = self.pageblocks.entry(first).or_default();
                let at = (pfn % PAGEBLOCK) as usize;
                let is_new = block.seen[at / 64] >> (at % 64) & 1 == 0;
                self.held.extend(is_new.then_some(Held { cpu, pfn, order }));
                is_new
            }
        };
        for number in first + 1..first + more {
            self.pageblocks.entry(number).or_default().see(0, PAGEBLOCK as usize, is_taken);
        }
        let block = self.pageblocks.entry(first).or_default();
        let size = 1 << order.min(PAGEBLOCK_ORDER);
        // A fallback's block need not be aligned to its size.
        block.see((pfn % PAGEBLOCK) as usize & !(size - 1), size, is_taken);
        block
    }
}

impl Recorded {
    /// An event names an aligned block, which was taken or free at the start if no earlier event named it.
    fn see(&mut self, at: usize, size: usize, is_taken: bool) {
        let (words, mask) = words(at, size);
        for (taken, seen) in self.taken[words.clone()].iter_mut().zip(&mut self.seen[words]) {
            *taken |= if is_taken { mask & !*seen } else { 0 };
            *seen |= mask;
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
    fn the_first_event_of_a_frame_determines_its_state() {
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
            "the block is counted on a list although it came from the zone"
        );
        assert_eq!(block.of, Some(2), "the drain did not give the pageblock its type");
    }

    #[test]
    fn a_block_of_several_pageblocks_is_noted_in_each() {
        let census = census(&[(0, Event::Free { pfn: 1024, order: 10 })]);
        assert_eq!(census.pageblocks.len(), 2);
        assert!(census.pageblocks.values().all(|block| block.taken == [u64::MAX; 8]));
    }
}

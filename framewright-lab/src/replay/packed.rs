//! A frequent event in 16 bytes. Fresh memory is slow, and a recording has millions of events.

use crate::trace::{Event, GfpFlags, MAX_CPUS, MAX_MIGRATETYPE, MAX_ORDER, MAX_PFN, Record};

/// An event of a frequent kind, soon after the event before it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packed {
    /// From the lowest bit: the kind, 4 bits for the order, 3 for the migratetype, 13 for flags, 40 for the frame.
    what: u64,
    /// From the lowest bit: 32 bits for the number of the block, 12 for the CPU, 20 for the nanoseconds since the event
    /// before it.
    who: u64,
}

const ORDER: u32 = 4;
const MIGRATETYPE: u32 = ORDER + 4;
const FLAGS: u32 = MIGRATETYPE + 3;
const FRAME: u32 = FLAGS + 13;
const CPU: u32 = 32;
const TIME: u32 = CPU + 12;

const _: () = assert!(MAX_ORDER < 1 << 4 && MAX_MIGRATETYPE < 1 << 3 && GfpFlags::LIMIT <= 1 << 13);
const _: () = assert!(MAX_PFN == 1 << (64 - FRAME) && MAX_CPUS == 1 << 12);

/// The kinds.
const OTHER: u64 = 0;
const ALLOC: u64 = 1;
const FREE: u64 = 2;
const FREE_BATCHED: u64 = 3;
const ZONE_LOCKED: u64 = 4;
const PCPU_DRAIN: u64 = 5;
/// The event is not packed.
const NONE: u64 = 6;

impl Packed {
    /// In the place of an event that is not packed.
    pub(super) const NONE: Self = Self { what: NONE, who: 0 };

    /// Packs an event after one at the time `before`, if it is of a frequent kind.
    #[inline]
    pub(super) fn new(record: &Record, number: u32, before: u64) -> Option<Self> {
        let (kind, pfn, order, of, flags) = match record.event {
            Event::Alloc { pfn, order, migratetype, gfp } => {
                (ALLOC, pfn, order, migratetype, gfp.bits())
            }
            Event::Free { pfn, order } => (FREE, pfn, order, 0, 0),
            Event::FreeBatched { pfn } => (FREE_BATCHED, pfn, 0, 0, 0),
            Event::ZoneLocked { pfn, order, migratetype, percpu_refill } => {
                (ZONE_LOCKED, pfn, order, migratetype, percpu_refill.into())
            }
            Event::PcpuDrain { pfn, order, migratetype } => {
                (PCPU_DRAIN, pfn, order, migratetype, 0)
            }
            Event::Other => (OTHER, 0, 0, 0, 0),
            _ => return None,
        };
        let what = kind
            | u64::from(order) << ORDER
            | u64::from(of) << MIGRATETYPE
            | u64::from(flags) << FLAGS
            | pfn << FRAME;
        let since = record.nanos.checked_sub(before).filter(|&since| since >> (64 - TIME) == 0)?;
        let who = u64::from(number) | u64::from(record.cpu) << CPU | since << TIME;
        Some(Self { what, who })
    }

    /// The number of the block that the event frees as a whole.
    #[inline]
    pub(super) fn frees(self) -> Option<u32> {
        (self.what & ((1 << ORDER) - 1) == FREE).then_some(self.who as u32)
    }

    /// Replaces `record`, the event before this one, by the event, and returns the number of its block; `None` if it is
    /// not packed. Its line is unknown: 0.
    ///
    /// Each field is written where it is read. A copy of several small fields at once, soon after they were written one by
    /// one, has to wait until they are in the cache: a ninth of the time of a replay.
    #[inline]
    pub(super) fn unpack(self, record: &mut Record) -> Option<u32> {
        let Self { what, who } = self;
        let bits = |from: u32, to: u32| what >> from & ((1 << (to - from)) - 1);
        let order = bits(ORDER, MIGRATETYPE) as u8;
        let migratetype = bits(MIGRATETYPE, FLAGS) as u8;
        let flags = bits(FLAGS, FRAME) as u16;
        let pfn = what >> FRAME;
        let event = &mut record.event;
        match bits(0, ORDER) {
            ALLOC => {
                let gfp = GfpFlags::from_bits(flags);
                *event = Event::Alloc { pfn, order, migratetype, gfp };
            }
            FREE => *event = Event::Free { pfn, order },
            FREE_BATCHED => *event = Event::FreeBatched { pfn },
            ZONE_LOCKED => {
                let percpu_refill = flags != 0;
                *event = Event::ZoneLocked { pfn, order, migratetype, percpu_refill };
            }
            PCPU_DRAIN => *event = Event::PcpuDrain { pfn, order, migratetype },
            OTHER => *event = Event::Other,
            _ => return None,
        }
        record.line = 0;
        record.cpu = (who >> CPU) as u16 & (MAX_CPUS - 1) as u16;
        record.nanos += who >> TIME;
        Some(who as u32)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_event_has_16_bytes() {
        assert_eq!(size_of::<Packed>(), 16);
    }

    fn frequent() -> impl Strategy<Value = Event> {
        let pfn = || prop_oneof![Just(0), Just(MAX_PFN - 1), 0..MAX_PFN];
        let of = || (pfn(), 0..=MAX_ORDER, 0..=MAX_MIGRATETYPE);
        let gfp = (0..GfpFlags::LIMIT).prop_map(GfpFlags::from_bits);
        prop_oneof![
            (of(), gfp).prop_map(|((pfn, order, migratetype), gfp)| Event::Alloc {
                pfn,
                order,
                migratetype,
                gfp
            }),
            of().prop_map(|(pfn, order, _)| Event::Free { pfn, order }),
            pfn().prop_map(|pfn| Event::FreeBatched { pfn }),
            (of(), any::<bool>()).prop_map(|((pfn, order, migratetype), percpu_refill)| {
                Event::ZoneLocked { pfn, order, migratetype, percpu_refill }
            }),
            of().prop_map(|(pfn, order, migratetype)| Event::PcpuDrain { pfn, order, migratetype }),
            Just(Event::Other),
        ]
    }

    proptest! {
        #[test]
        fn frequent_events_soon_after_another_stay_the_same(
            event in frequent(), cpu in 0..MAX_CPUS as u16, number: u32, before in 0u64..1 << 63, since in 0u64..1 << 20
        ) {
            let record = Record { line: 0, cpu, nanos: before + since, event };
            let packed = Packed::new(&record, number, before).unwrap();
            let mut unpacked = Record { line: 7, cpu: 7, nanos: before, event: Event::Other };
            prop_assert_eq!(packed.unpack(&mut unpacked), Some(number));
            prop_assert_eq!(unpacked, record);
        }
    }

    #[test]
    fn rare_events_and_those_long_after_or_before_another_are_not_packed() {
        let record = Record { line: 0, cpu: 0, nanos: 5 << 20, event: Event::Other };
        assert!(Packed::new(&record, 0, (4 << 20) + 1).is_some());
        assert!(Packed::new(&record, 0, 4 << 20).is_none());
        assert!(Packed::new(&record, 0, (5 << 20) + 1).is_none());
        let rare = Record { event: Event::ContentionEnd { lock: 1 }, ..record };
        assert!(Packed::new(&rare, 0, 5 << 20).is_none());
        assert!(Packed::NONE.unpack(&mut record.clone()).is_none());
    }
}

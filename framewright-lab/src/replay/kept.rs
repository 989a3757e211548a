//! The events of a recording, kept from the first reading for each replay of it.
//!
//! An event takes some 10 bytes: numbers of 7 bits per byte, times and frames as differences to the
//! event before. If a recording has more events than fit, none are kept, and each replay reads the
//! recording again.

use super::survey::Recording;
use crate::{
    Error,
    trace::{Event, ExtFrag, GfpFlags, Record, TraceReader},
};

/// The maximum number of bytes: more than 20 million events.
const MOST: usize = 256 << 20;

/// The events of a recording.
#[derive(Clone, Debug, Default)]
pub(super) struct Kept {
    bytes: Vec<u8>,
    before: Before,
    is_too_long: bool,
}

/// What the encoding of an event refers to.
#[derive(Clone, Copy, Debug, Default)]
struct Before {
    nanos: u64,
    pfn: u64,
}

/// The kinds of events, as they are encoded.
mod kind {
    pub(super) const ALLOC: u8 = 0;
    pub(super) const ALLOC_FAILED: u8 = 1;
    pub(super) const FREE: u8 = 2;
    pub(super) const FREE_BATCHED: u8 = 3;
    pub(super) const ZONE_LOCKED: u8 = 4;
    pub(super) const REFILL: u8 = 5;
    pub(super) const DRAIN: u8 = 6;
    pub(super) const EXTFRAG: u8 = 7;
    pub(super) const BEGIN: u8 = 8;
    pub(super) const BEGIN_SPIN: u8 = 9;
    pub(super) const END: u8 = 10;
    pub(super) const ZONE_WAIT: u8 = 11;
    pub(super) const OTHER: u8 = 12;
}

impl Kept {
    /// Adds an event, unless there is no more space.
    pub(super) fn add(&mut self, record: &Record) {
        self.add_within(MOST, record);
    }

    fn add_within(&mut self, most: usize, record: &Record) {
        if self.is_too_long {
            return;
        }
        self.encode(record);
        if self.bytes.len() > most {
            *self = Self { is_too_long: true, ..Self::default() };
        }
    }

    /// The events, in order; `None` if there were too many.
    fn events(&self) -> Option<Decoder<'_>> {
        (!self.is_too_long).then(|| Decoder { rest: &self.bytes, before: Before::default() })
    }

    fn encode(&mut self, record: &Record) {
        use kind::*;
        let Record { cpu, nanos, event, .. } = *record;
        let kind = match event {
            Event::Alloc { .. } => ALLOC,
            Event::AllocFailed { .. } => ALLOC_FAILED,
            Event::Free { .. } => FREE,
            Event::FreeBatched { .. } => FREE_BATCHED,
            Event::ZoneLocked { percpu_refill: false, .. } => ZONE_LOCKED,
            Event::ZoneLocked { percpu_refill: true, .. } => REFILL,
            Event::PcpuDrain { .. } => DRAIN,
            Event::ExtFrag(_) => EXTFRAG,
            Event::ContentionBegin { spins: false, .. } => BEGIN,
            Event::ContentionBegin { spins: true, .. } => BEGIN_SPIN,
            Event::ContentionEnd { .. } => END,
            Event::ZoneWait { .. } => ZONE_WAIT,
            Event::Other => OTHER,
        };
        self.bytes.push(kind);
        self.number(cpu.into());
        self.number(signed(nanos.wrapping_sub(self.before.nanos)));
        self.before.nanos = nanos;
        match event {
            Event::Alloc { pfn, order, migratetype, gfp } => {
                self.block(pfn, order, migratetype);
                self.number(gfp.bits().into());
            }
            Event::AllocFailed { order, migratetype, gfp } => {
                self.bytes.extend([order, migratetype]);
                self.number(gfp.bits().into());
            }
            Event::Free { pfn, order } => self.block(pfn, order, 0),
            Event::FreeBatched { pfn } => self.frame(pfn),
            Event::ZoneLocked { pfn, order, migratetype, .. }
            | Event::PcpuDrain { pfn, order, migratetype } => self.block(pfn, order, migratetype),
            Event::ExtFrag(of) => {
                self.block(of.pfn, of.alloc_order, of.alloc_migratetype);
                self.bytes.extend([of.fallback_order, of.pageblock_order, of.fallback_migratetype]);
                self.bytes.extend([of.fragmenting, of.change_ownership].map(u8::from));
            }
            Event::ContentionBegin { lock: number, .. }
            | Event::ContentionEnd { lock: number }
            | Event::ZoneWait { nanos: number } => self.number(number),
            Event::Other => {}
        }
    }

    fn block(&mut self, pfn: u64, order: u8, migratetype: u8) {
        self.frame(pfn);
        // Both are below 16.
        self.bytes.push(order << 4 | migratetype);
    }

    fn frame(&mut self, pfn: u64) {
        self.number(signed(pfn.wrapping_sub(self.before.pfn)));
        self.before.pfn = pfn;
    }

    fn number(&mut self, mut number: u64) {
        while number >= 1 << 7 {
            self.bytes.push(number as u8 | 1 << 7);
            number >>= 7;
        }
        self.bytes.push(number as u8);
    }
}

/// A difference as a number that is small if the difference is near 0.
fn signed(difference: u64) -> u64 {
    difference << 1 ^ (difference as i64 >> 63) as u64
}

/// The inverse of [`signed`].
fn difference(signed: u64) -> u64 {
    signed >> 1 ^ (signed & 1).wrapping_neg()
}

/// Reads what [`Kept`] has encoded. The lines of the records are 0.
struct Decoder<'k> {
    rest: &'k [u8],
    before: Before,
}

impl Decoder<'_> {
    #[inline]
    fn next(&mut self) -> Option<Record> {
        let kind = self.byte()?;
        let cpu = self.number()? as u16;
        self.before.nanos = self.before.nanos.wrapping_add(difference(self.number()?));
        let event = self.event(kind)?;
        Some(Record { line: 0, cpu, nanos: self.before.nanos, event })
    }

    fn event(&mut self, kind: u8) -> Option<Event> {
        use kind::*;
        Some(match kind {
            ALLOC => {
                let (pfn, order, migratetype) = self.block()?;
                Event::Alloc { pfn, order, migratetype, gfp: self.flags()? }
            }
            ALLOC_FAILED => {
                let (order, migratetype) = (self.byte()?, self.byte()?);
                Event::AllocFailed { order, migratetype, gfp: self.flags()? }
            }
            FREE => {
                let (pfn, order, _) = self.block()?;
                Event::Free { pfn, order }
            }
            FREE_BATCHED => Event::FreeBatched { pfn: self.frame()? },
            ZONE_LOCKED | REFILL => {
                let (pfn, order, migratetype) = self.block()?;
                Event::ZoneLocked { pfn, order, migratetype, percpu_refill: kind == REFILL }
            }
            DRAIN => {
                let (pfn, order, migratetype) = self.block()?;
                Event::PcpuDrain { pfn, order, migratetype }
            }
            EXTFRAG => {
                let (pfn, alloc_order, alloc_migratetype) = self.block()?;
                Event::ExtFrag(ExtFrag {
                    pfn,
                    alloc_order,
                    alloc_migratetype,
                    fallback_order: self.byte()?,
                    pageblock_order: self.byte()?,
                    fallback_migratetype: self.byte()?,
                    fragmenting: self.byte()? == 1,
                    change_ownership: self.byte()? == 1,
                })
            }
            BEGIN | BEGIN_SPIN => {
                Event::ContentionBegin { lock: self.number()?, spins: kind == BEGIN_SPIN }
            }
            END => Event::ContentionEnd { lock: self.number()? },
            ZONE_WAIT => Event::ZoneWait { nanos: self.number()? },
            _ => Event::Other,
        })
    }

    fn block(&mut self) -> Option<(u64, u8, u8)> {
        let pfn = self.frame()?;
        let both = self.byte()?;
        Some((pfn, both >> 4, both & 15))
    }

    fn frame(&mut self) -> Option<u64> {
        self.before.pfn = self.before.pfn.wrapping_add(difference(self.number()?));
        Some(self.before.pfn)
    }

    fn flags(&mut self) -> Option<GfpFlags> {
        Some(GfpFlags::from_bits(self.number()? as u16))
    }

    #[inline]
    fn number(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 1 << 7 {
                return Some(number);
            }
        }
        None
    }

    #[inline]
    fn byte(&mut self) -> Option<u8> {
        let (&byte, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(byte)
    }
}

/// The events of a recording for a replay: those that were kept, or those of another reading.
pub(super) struct Events<'k>(Source<'k>);

enum Source<'k> {
    Kept(Decoder<'k>),
    Read(Box<TraceReader>),
}

impl<'k> Events<'k> {
    /// Starts with the first event.
    ///
    /// # Errors
    /// No events were kept, and the recording cannot be read.
    pub(super) fn of(kept: &'k Kept, recording: &Recording) -> Result<Self, Error> {
        Ok(Self(match kept.events() {
            Some(events) => Source::Kept(events),
            None => Source::Read(Box::new(recording.reader()?)),
        }))
    }

    /// The next event, or `None` at the end. Events that were kept have no line: it is 0.
    ///
    /// # Errors
    /// The recording cannot be read further.
    #[inline]
    pub(super) fn next(&mut self) -> Result<Option<Record>, Error> {
        match &mut self.0 {
            Source::Kept(events) => Ok(events.next()),
            Source::Read(reader) => Ok(reader.next_record()?),
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::trace::{MAX_CPUS, MAX_MIGRATETYPE, MAX_ORDER, MAX_PFN};
    use proptest::prelude::*;

    impl Kept {
        /// The state after more events than fit.
        pub(in crate::replay) fn too_long() -> Self {
            Self { is_too_long: true, ..Self::default() }
        }
    }

    fn event() -> impl Strategy<Value = Event> {
        let numbers = (0..MAX_PFN, any::<u64>(), 0..1u16 << 11, any::<[bool; 2]>());
        let orders = (0..=MAX_ORDER, 0..=MAX_ORDER, 0..=MAX_ORDER);
        let types = (0..=MAX_MIGRATETYPE, 0..=MAX_MIGRATETYPE);
        (0..11u8, numbers, orders, types).prop_map(
            |(kind, (pfn, number, bits, flags), (order, other, third), (migratetype, of))| {
                let gfp = GfpFlags::from_bits(bits);
                match kind {
                    0 => Event::Alloc { pfn, order, migratetype, gfp },
                    1 => Event::AllocFailed { order, migratetype, gfp },
                    2 => Event::Free { pfn, order },
                    3 => Event::FreeBatched { pfn },
                    4 => Event::ZoneLocked { pfn, order, migratetype, percpu_refill: flags[0] },
                    5 => Event::PcpuDrain { pfn, order, migratetype },
                    6 => Event::ExtFrag(ExtFrag {
                        pfn,
                        alloc_order: order,
                        fallback_order: other,
                        pageblock_order: third,
                        alloc_migratetype: migratetype,
                        fallback_migratetype: of,
                        fragmenting: flags[0],
                        change_ownership: flags[1],
                    }),
                    7 => Event::ContentionBegin { lock: number, spins: flags[0] },
                    8 => Event::ContentionEnd { lock: number },
                    9 => Event::ZoneWait { nanos: number },
                    _ => Event::Other,
                }
            },
        )
    }

    proptest! {
        #[test]
        fn events_are_decoded_as_they_were(
            events in proptest::collection::vec((0..MAX_CPUS as u16, any::<u64>(), event()), 0..50),
        ) {
            let record = |(cpu, nanos, event)| Record { line: 0, cpu, nanos, event };
            let records: Vec<Record> = events.into_iter().map(record).collect();
            let mut kept = Kept::default();
            records.iter().for_each(|record| kept.add(record));
            let mut events = kept.events().unwrap();
            let decoded: Vec<Record> = std::iter::from_fn(|| events.next()).collect();
            prop_assert_eq!(decoded, records);
            prop_assert!(events.rest.is_empty());
        }
    }

    #[test]
    fn nothing_is_kept_of_a_recording_that_does_not_fit() {
        let record = |nanos| Record { line: 1, cpu: 0, nanos, event: Event::Other };
        let mut kept = Kept::default();
        (0..10).for_each(|nanos| kept.add_within(30, &record(nanos)));
        assert!(kept.events().is_some());
        kept.add_within(30, &record(10));
        assert!(kept.events().is_none());
        kept.add_within(30, &record(11));
        assert!(kept.events().is_none() && kept.bytes.capacity() == 0);
    }
}

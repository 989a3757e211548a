//! The events of a recording, kept from the first reading for each replay of it. If there are too many, each replay reads
//! the recording again.

use std::slice;

use super::{
    ledger::{Ledger, Step},
    packed::Packed,
    survey::Recording,
};
use crate::{
    Error,
    trace::{Event, Record, TraceReader},
};

/// The maximum number of events and steps, of which each has 16 bytes: 256 MiB.
const MOST: usize = (256 << 20) / size_of::<Packed>();

/// The number of events of which [`Events::frees_soon`] tells.
pub(super) const SOON: usize = 64;

/// An event that is not packed, without its line, which only errors need.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rare {
    cpu: u16,
    /// The number of its steps.
    steps: u16,
    number: u32,
    nanos: u64,
    event: Event,
}

/// The events of a recording.
#[derive(Clone, Debug)]
pub(super) enum Kept {
    All(All),
    TooMany,
}

/// All events, in order.
#[derive(Clone, Debug, Default)]
pub(super) struct All {
    events: Vec<Packed>,
    /// Those that are not packed.
    rare: Vec<Rare>,
    /// The steps of these.
    steps: Vec<Step>,
    /// The time of the last event.
    nanos: u64,
}

/// An event, and what it does to the blocks of the ledger.
pub(super) struct Resolved<'k> {
    pub(super) record: &'k Record,
    /// The number of the block that it allocates or frees as a whole; 0 if there is none.
    pub(super) number: u32,
    /// Its other steps.
    pub(super) steps: &'k [Step],
}

impl Default for Kept {
    fn default() -> Self {
        Self::All(All::default())
    }
}

impl Kept {
    /// Adds an event, unless there are too many.
    pub(super) fn add(&mut self, resolved: &Resolved<'_>) {
        self.add_within(MOST, resolved);
    }

    fn add_within(&mut self, most: usize, resolved: &Resolved<'_>) {
        let Self::All(all) = self else { return };
        if !all.add(resolved) || all.size() > most {
            *self = Self::TooMany;
        }
    }
}

impl All {
    /// Adds an event. Returns whether it could be added.
    #[inline]
    fn add(&mut self, resolved: &Resolved<'_>) -> bool {
        let &Resolved { record, number, steps } = resolved;
        let packed = if steps.is_empty() { Packed::new(record, number, self.nanos) } else { None };
        self.events.push(packed.unwrap_or(Packed::NONE));
        self.nanos = record.nanos;
        packed.is_some() || self.add_rare(resolved)
    }

    fn add_rare(&mut self, resolved: &Resolved<'_>) -> bool {
        let &Resolved { record: &Record { cpu, nanos, event, .. }, number, steps } = resolved;
        let Ok(count) = u16::try_from(steps.len()) else { return false };
        self.steps.extend_from_slice(steps);
        self.rare.push(Rare { cpu, steps: count, number, nanos, event });
        true
    }

    /// Its size in units of 16 bytes.
    fn size(&self) -> usize {
        self.events.len() + 2 * self.rare.len() + self.steps.len()
    }
}

/// The events of a recording, in order.
pub(super) enum Events<'k> {
    Kept(Rest<'k>),
    Read(Box<Again>),
}

/// The events that are not yet replayed.
pub(super) struct Rest<'k> {
    events: slice::Iter<'k, Packed>,
    rare: slice::Iter<'k, Rare>,
    steps: &'k [Step],
    /// The event before them.
    record: Record,
}

/// A recording that is read again.
pub(super) struct Again {
    reader: TraceReader,
    ledger: Ledger,
    record: Record,
    steps: Vec<Step>,
}

/// Before the first event.
const NO_RECORD: Record = Record { line: 0, cpu: 0, nanos: 0, event: Event::Other };

impl<'k> Events<'k> {
    /// Starts with the first event.
    ///
    /// # Errors
    ///
    /// No events were kept, and the recording cannot be read.
    pub(super) fn of(kept: &'k Kept, recording: &Recording) -> Result<Self, Error> {
        Ok(match kept {
            Kept::All(All { events, rare, steps, .. }) => {
                let (events, rare) = (events.iter(), rare.iter());
                Self::Kept(Rest { events, rare, steps, record: NO_RECORD })
            }
            Kept::TooMany => {
                let (ledger, steps) = (Ledger::default(), Vec::new());
                let reader = recording.reader()?;
                Self::Read(Box::new(Again { reader, ledger, record: NO_RECORD, steps }))
            }
        })
    }

    /// The next event, or `None` at the end. The line of a kept event is unknown: 0.
    ///
    /// # Errors
    ///
    /// The recording cannot be read further.
    #[inline(always)]
    pub(super) fn next(&mut self) -> Result<Option<Resolved<'_>>, Error> {
        match self {
            Self::Kept(rest) => Ok(rest.next()),
            Self::Read(again) => again.next(),
        }
    }

    /// The numbers of blocks that some of the next events free, as far as they are known yet.
    pub(super) fn frees_soon(&self) -> impl Iterator<Item = u32> {
        let events = match self {
            Self::Kept(rest) => rest.events.as_slice(),
            Self::Read(_) => &[],
        };
        events.iter().take(SOON).filter_map(|event| event.frees())
    }
}

impl Rest<'_> {
    #[inline(always)]
    fn next(&mut self) -> Option<Resolved<'_>> {
        match self.events.next()?.unpack(&mut self.record) {
            Some(number) => Some(Resolved { record: &self.record, number, steps: &[] }),
            None => self.next_rare(),
        }
    }

    fn next_rare(&mut self) -> Option<Resolved<'_>> {
        let &Rare { cpu, steps, number, nanos, event } = self.rare.next()?;
        let (steps, later) = self.steps.split_at(steps.into());
        self.steps = later;
        self.record = Record { line: 0, cpu, nanos, event };
        Some(Resolved { record: &self.record, number, steps })
    }
}

impl Again {
    #[cold]
    fn next(&mut self) -> Result<Option<Resolved<'_>>, Error> {
        let Some(record) = self.reader.next_record()? else { return Ok(None) };
        self.record = record;
        self.steps.clear();
        let number = self.ledger.add(&record.event, &mut self.steps);
        Ok(Some(Resolved { record: &self.record, number, steps: &self.steps }))
    }
}

#[cfg(test)]
mod tests {
    use framewright::Order;

    use super::*;

    #[test]
    fn rare_events_are_kept_in_32_bytes_and_steps_in_16() {
        assert_eq!((size_of::<Event>(), size_of::<Rare>(), size_of::<Step>()), (16, 32, 16));
    }

    #[test]
    fn events_return_in_order_with_their_times_and_steps() {
        let steps = &[Step::Unseen { pfn: 8, order: Order::ZERO }; 2];
        fn event(nanos: u64, event: Event, steps: &[Step]) -> (Record, &[Step]) {
            (Record { cpu: 3, nanos, line: 0, event }, steps)
        }
        let all = [
            event(9 << 40, Event::Other, &[]),
            event((9 << 40) + 1, Event::Free { pfn: 8, order: 1 }, steps),
            event((9 << 40) + 5, Event::FreeBatched { pfn: 8 }, &[]),
            event(9 << 40, Event::ContentionEnd { lock: u64::MAX }, &[]),
            event((9 << 40) + 1, Event::Free { pfn: 8, order: 1 }, &[]),
            event(
                (9 << 40) + 2,
                Event::PcpuDrain { pfn: 6, order: 1, migratetype: 2 },
                &steps[1..],
            ),
        ];
        let mut kept = Kept::default();
        let number = 7;
        all.iter().for_each(|(record, steps)| kept.add(&Resolved { record, number, steps }));
        let Kept::All(found) = &kept else { panic!("there are six events") };
        assert_eq!((found.events.len(), found.rare.len()), (6, 4));
        let recording = Recording::from_bytes("t", Vec::new());
        let mut events = Events::of(&kept, &recording).unwrap();
        assert_eq!(events.frees_soon().collect::<Vec<_>>(), [7]);
        for (record, steps) in &all {
            let next = events.next().unwrap().unwrap();
            assert_eq!((next.record, next.number, next.steps), (record, number, *steps));
        }
        assert!(events.next().unwrap().is_none());
    }

    #[test]
    fn nothing_is_kept_of_a_recording_that_does_not_fit() {
        let record = Record { cpu: 0, nanos: 0, line: 1, event: Event::Other };
        let plain = Resolved { record: &record, number: 0, steps: &[] };
        let mut kept = Kept::default();
        (0..3).for_each(|_| kept.add_within(3, &plain));
        assert!(matches!(&kept, Kept::All(all) if all.size() == 3));
        (0..2).for_each(|_| kept.add_within(3, &plain));
        assert!(matches!(kept, Kept::TooMany));

        let steps = &[Step::Unseen { pfn: 0, order: Order::ZERO }; 6];
        let mut kept = Kept::default();
        kept.add_within(9, &Resolved { steps, ..plain });
        assert!(matches!(&kept, Kept::All(all) if all.size() == 9));
        kept.add_within(9, &plain);
        assert!(matches!(kept, Kept::TooMany));
    }
}

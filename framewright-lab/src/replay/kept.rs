//! The events of a recording, kept from the first reading for each replay of it. If there are too many, each replay reads
//! the recording again.

use std::slice;

use super::{
    ledger::{Ledger, Step},
    survey::Recording,
};
use crate::{
    Error,
    trace::{Event, Record, TraceReader},
};

/// The maximum number of events and half steps: 256 MiB, more than eight million events.
const MOST: usize = (256 << 20) / size_of::<KeptRecord>();

/// A record without its line, which only errors need.
#[derive(Clone, Copy, Debug)]
pub(super) struct KeptRecord {
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
    All {
        events: Vec<KeptRecord>,
        /// The steps of all events, in order.
        steps: Vec<Step>,
    },
    TooMany,
}

/// An event, and what it does to the blocks of the ledger.
pub(super) struct Resolved<'k> {
    pub(super) record: Record,
    /// The number of the block that it allocates or frees as a whole; 0 if there is none.
    pub(super) number: u32,
    /// Its other steps.
    pub(super) steps: &'k [Step],
}

impl Default for Kept {
    fn default() -> Self {
        Self::All { events: Vec::new(), steps: Vec::new() }
    }
}

impl Kept {
    /// Adds an event, unless there are too many.
    pub(super) fn add(&mut self, resolved: &Resolved<'_>) {
        self.add_within(MOST, resolved);
    }

    fn add_within(&mut self, most: usize, resolved: &Resolved<'_>) {
        let &Resolved { record: Record { cpu, nanos, event, .. }, number, steps: more } = resolved;
        match (self, u16::try_from(more.len())) {
            (Self::All { events, steps }, Ok(count)) if events.len() + steps.len() / 2 < most => {
                steps.extend_from_slice(more);
                events.push(KeptRecord { cpu, steps: count, number, nanos, event });
            }
            (kept, _) => *kept = Self::TooMany,
        }
    }
}

/// The events of a recording, in order.
pub(super) enum Events<'k> {
    Kept { events: slice::Iter<'k, KeptRecord>, steps: &'k [Step] },
    Read { reader: Box<TraceReader>, ledger: Ledger, steps: Vec<Step> },
}

impl<'k> Events<'k> {
    /// Starts with the first event.
    ///
    /// # Errors
    ///
    /// No events were kept, and the recording cannot be read.
    pub(super) fn of(kept: &'k Kept, recording: &Recording) -> Result<Self, Error> {
        Ok(match kept {
            Kept::All { events, steps } => Self::Kept { events: events.iter(), steps },
            Kept::TooMany => {
                let (ledger, steps) = (Ledger::default(), Vec::new());
                Self::Read { reader: Box::new(recording.reader()?), ledger, steps }
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
        let Self::Kept { events, steps } = self else { return self.read() };
        let Some(&KeptRecord { cpu, steps: count, number, nanos, event }) = events.next() else {
            return Ok(None);
        };
        let record = Record { line: 0, cpu, nanos, event };
        let (now, later) = steps.split_at(count.into());
        *steps = later;
        Ok(Some(Resolved { record, number, steps: now }))
    }

    /// As [`Events::next`], of a recording that is read again.
    #[cold]
    fn read(&mut self) -> Result<Option<Resolved<'_>>, Error> {
        let Self::Read { reader, ledger, steps } = self else { return Ok(None) };
        let Some(record) = reader.next_record()? else { return Ok(None) };
        steps.clear();
        let number = ledger.add(&record.event, steps);
        Ok(Some(Resolved { record, number, steps }))
    }
}

#[cfg(test)]
mod tests {
    use framewright::Order;

    use super::*;

    #[test]
    fn events_are_kept_in_32_bytes() {
        assert_eq!((size_of::<Event>(), size_of::<KeptRecord>(), size_of::<Step>()), (16, 32, 16));
    }

    #[test]
    fn nothing_is_kept_of_a_recording_that_does_not_fit() {
        let record = Record { cpu: 0, nanos: 0, line: 1, event: Event::Other };
        let plain = Resolved { record, number: 0, steps: &[] };
        let mut kept = Kept::default();
        (0..3).for_each(|_| kept.add_within(3, &plain));
        assert!(matches!(&kept, Kept::All { events, .. } if events.len() == 3));
        (0..2).for_each(|_| kept.add_within(3, &plain));
        assert!(matches!(kept, Kept::TooMany));

        let steps = &[Step::Unseen { pfn: 0, order: Order::ZERO }; 6];
        let mut kept = Kept::default();
        kept.add_within(3, &Resolved { steps, ..plain });
        assert!(matches!(kept, Kept::All { .. }));
        kept.add_within(3, &plain);
        assert!(matches!(kept, Kept::TooMany));
    }
}

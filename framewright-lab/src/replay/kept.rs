//! The events of a recording, kept from the first reading for each replay of it. If there are too many, each replay reads
//! the recording again.

use std::slice;

use super::survey::Recording;
use crate::{
    Error,
    trace::{Event, Record, TraceReader},
};

/// The maximum number of events: 256 MiB, more than eight million.
const MOST: usize = (256 << 20) / size_of::<KeptRecord>();

/// A record without its line, which only errors need.
#[derive(Clone, Copy, Debug)]
pub(super) struct KeptRecord {
    cpu: u16,
    nanos: u64,
    event: Event,
}

/// The events of a recording.
#[derive(Clone, Debug)]
pub(super) enum Kept {
    All(Vec<KeptRecord>),
    TooMany,
}

impl Default for Kept {
    fn default() -> Self {
        Self::All(Vec::new())
    }
}

impl Kept {
    /// Adds an event, unless there are too many.
    pub(super) fn add(&mut self, record: &Record) {
        self.add_within(MOST, record);
    }

    fn add_within(&mut self, most: usize, record: &Record) {
        match self {
            Self::All(events) if events.len() < most => {
                let Record { cpu, nanos, event, .. } = *record;
                events.push(KeptRecord { cpu, nanos, event });
            }
            _ => *self = Self::TooMany,
        }
    }
}

/// The events of a recording, in order.
pub(super) enum Events<'k> {
    Kept(slice::Iter<'k, KeptRecord>),
    Read(Box<TraceReader>),
}

impl<'k> Events<'k> {
    /// Starts with the first event.
    ///
    /// # Errors
    ///
    /// No events were kept, and the recording cannot be read.
    pub(super) fn of(kept: &'k Kept, recording: &Recording) -> Result<Self, Error> {
        Ok(match kept {
            Kept::All(events) => Self::Kept(events.iter()),
            Kept::TooMany => Self::Read(Box::new(recording.reader()?)),
        })
    }

    /// The next event, or `None` at the end. The line of a kept event is unknown: 0.
    ///
    /// # Errors
    ///
    /// The recording cannot be read further.
    #[inline]
    pub(super) fn next(&mut self) -> Result<Option<Record>, Error> {
        match self {
            Self::Kept(events) => {
                let record =
                    |&KeptRecord { cpu, nanos, event }| Record { line: 0, cpu, nanos, event };
                Ok(events.next().map(record))
            }
            Self::Read(reader) => Ok(reader.next_record()?),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_kept_in_32_bytes() {
        assert_eq!((size_of::<Event>(), size_of::<KeptRecord>()), (16, 32));
    }

    #[test]
    fn nothing_is_kept_of_a_recording_that_does_not_fit() {
        let record = Record { cpu: 0, nanos: 0, line: 1, event: Event::Other };
        let mut kept = Kept::default();
        (0..3).for_each(|_| kept.add_within(3, &record));
        assert!(matches!(&kept, Kept::All(events) if events.len() == 3));
        (0..2).for_each(|_| kept.add_within(3, &record));
        assert!(matches!(kept, Kept::TooMany));
    }
}

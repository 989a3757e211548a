//! Waits for the recorded kernel's zone locks, and holds of these locks.
//!
//! The events `contention_begin` and `contention_end` name a lock by a number without meaning. A lock
//! is that of a zone if most waits for it are followed, on the same CPU, by an event that the kernel
//! emits under a zone lock, before any other event of the page allocator. The frame of that event is
//! in the zone. The proposed event `mm_zone_locked` needs no such inference. A hold lasts at least
//! from the first to the last event under the lock.

use std::collections::HashMap;

use serde::Serialize;

use crate::trace::Event;

/// The use of the lock of a zone by the recorded kernel, as far as its events show it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct KernelLock {
    /// Acquisitions that had to wait; `None` if no events of locks were recorded.
    pub waits: Option<u64>,
    /// Nanoseconds of all waits.
    pub wait_nanos: Option<u64>,
    /// Holds with an event. Frees of orders without per-CPU lists emit none under the lock.
    pub holds: u64,
    /// Nanoseconds of these, from the first to the last event: less than the whole.
    pub hold_nanos: u64,
}

/// Waits for one lock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Waits {
    pub(crate) times: u64,
    pub(crate) nanos: u64,
    /// Waits that an event under a zone lock followed.
    of_zone: u64,
    /// Waits that another event followed.
    of_others: u64,
    /// The zone of the last event under a zone lock that followed a wait.
    zone: usize,
}

/// A run of events of one kind under the lock.
#[derive(Clone, Copy, Debug)]
struct Hold {
    drains: bool,
    zone: usize,
    first: u64,
    last: u64,
}

/// A wait or a hold of the kernel that has ended, in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Span {
    /// A wait for a lock.
    Wait {
        /// Its start.
        since: u64,
        /// Its end.
        until: u64,
    },
    /// A hold of the lock of a zone.
    Hold {
        /// The zone.
        zone: usize,
        /// The first event.
        first: u64,
        /// The last event.
        last: u64,
    },
}

/// The activity of a CPU.
#[derive(Clone, Copy, Debug, Default)]
struct Cpu {
    /// The lock that it waits for, and since when.
    waiting: Option<(u64, u64)>,
    /// The lock that it has waited for. Kept until the next event of the page allocator.
    waited: Option<u64>,
    /// The time for which it has waited for a zone lock. Kept until the next event of the page allocator.
    named: Option<u64>,
    hold: Option<Hold>,
}

impl Cpu {
    /// Whether an event that is not under a zone lock changes nothing.
    fn is_idle(&self) -> bool {
        self.waited.is_none() && self.named.is_none() && self.hold.is_none()
    }
}

/// Collects waits and holds, event by event.
#[derive(Debug, Default)]
pub(crate) struct LockWaits {
    cpus: Vec<Cpu>,
    locks: HashMap<u64, Waits>,
    holds: HashMap<usize, (u64, u64)>,
    /// Waits by `mm_zone_locked`, by zone.
    named: HashMap<usize, (u64, u64)>,
    any: bool,
    /// Waits and holds that have ended, with their CPUs, if they are kept.
    spans: Option<Vec<(u16, Span)>>,
}

impl LockWaits {
    /// Adds an event of a CPU at the time `nanos`. `zone_of` returns the zone of a frame.
    #[inline]
    pub(crate) fn add(
        &mut self,
        cpu: u16,
        nanos: u64,
        event: &Event,
        zone_of: impl Fn(u64) -> usize,
    ) {
        let changes_nothing = match event {
            Event::Other | Event::ExtFrag { .. } => true,
            // Most events are of this kind, and follow another of it.
            Event::Alloc { .. }
            | Event::AllocFailed { .. }
            | Event::Free { .. }
            | Event::FreeBatched { .. } => self.cpus.get(usize::from(cpu)).is_none_or(Cpu::is_idle),
            _ => false,
        };
        if !changes_nothing {
            self.add_any(cpu, nanos, event, zone_of);
        }
    }

    fn add_any(&mut self, cpu: u16, nanos: u64, event: &Event, zone_of: impl Fn(u64) -> usize) {
        let number = cpu;
        let cpu = usize::from(cpu);
        if self.cpus.len() <= cpu {
            self.cpus.resize(cpu + 1, Cpu::default());
        }
        let cpu = &mut self.cpus[cpu];
        let spans = &mut self.spans;
        let mut count = |holds: &mut HashMap<_, _>, hold: Option<Hold>| {
            count(holds, hold);
            if let (Some(spans), Some(Hold { zone, first, last, .. })) = (spans.as_mut(), hold) {
                spans.push((number, Span::Hold { zone, first, last }));
            }
        };
        let under = match *event {
            Event::ContentionBegin { lock, spins } => {
                self.any = true;
                cpu.waiting = spins.then_some((lock, nanos));
                return count(&mut self.holds, cpu.hold.take());
            }
            Event::ContentionEnd { lock } => {
                if let Some((_, since)) = cpu.waiting.take_if(|(waits, _)| *waits == lock) {
                    let waits = self.locks.entry(lock).or_default();
                    waits.times += 1;
                    waits.nanos += nanos.saturating_sub(since);
                    cpu.waited = Some(lock);
                    if let Some(spans) = &mut self.spans {
                        spans.push((number, Span::Wait { since, until: nanos }));
                    }
                }
                return;
            }
            Event::ZoneWait { nanos } => {
                self.any = true;
                cpu.named = Some(nanos);
                return count(&mut self.holds, cpu.hold.take());
            }
            Event::Other | Event::ExtFrag { .. } => return,
            Event::ZoneLocked { pfn, .. } => Some((zone_of(pfn), false)),
            Event::PcpuDrain { pfn, .. } => Some((zone_of(pfn), true)),
            Event::Alloc { .. }
            | Event::AllocFailed { .. }
            | Event::Free { .. }
            | Event::FreeBatched { .. } => None,
        };
        if let Some(waits) = cpu.waited.take().and_then(|lock| self.locks.get_mut(&lock)) {
            match under {
                Some((zone, _)) => (waits.of_zone, waits.zone) = (waits.of_zone + 1, zone),
                None => waits.of_others += 1,
            }
        }
        if let (Some(wait), Some((zone, _))) = (cpu.named.take(), under) {
            let (times, all) = self.named.entry(zone).or_default();
            (*times, *all) = (*times + u64::from(wait > 0), *all + wait);
        }
        count(&mut self.holds, cpu.hold.take_if(|hold| under != Some((hold.zone, hold.drains))));
        if let Some((zone, drains)) = under {
            let new = Hold { drains, zone, first: nanos, last: nanos };
            cpu.hold.get_or_insert(new).last = nanos;
        }
    }

    /// Keeps waits and holds that end from now on, for [`LockWaits::take_spans`].
    pub(crate) fn keep_spans(&mut self) {
        self.spans = Some(Vec::new());
    }

    /// Removes and returns the waits and holds that have ended, with their CPUs.
    pub(crate) fn take_spans(&mut self) -> Vec<(u16, Span)> {
        self.spans.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// The holds that have not ended, with their CPUs.
    pub(crate) fn open_holds(&self) -> impl Iterator<Item = (u16, Span)> {
        let open = (0..).zip(&self.cpus).filter_map(|(cpu, state)| Some((cpu, state.hold?)));
        open.map(|(cpu, Hold { zone, first, last, .. })| (cpu, Span::Hold { zone, first, last }))
    }

    /// The numbers of the locks of zones, with the waits for them.
    pub(crate) fn zone_locks(&self) -> impl Iterator<Item = (u64, Waits)> {
        let of_zones = self.locks.iter().filter(|(_, waits)| waits.of_zone > waits.of_others);
        of_zones.map(|(lock, waits)| (*lock, *waits))
    }

    /// The waits for the lock with this number.
    pub(crate) fn of_lock(&self, lock: u64) -> Waits {
        self.locks.get(&lock).copied().unwrap_or_default()
    }

    /// Waits and nanoseconds that `mm_zone_locked` names, over all zones; `None` without that event.
    pub(crate) fn named(&self) -> Option<(u64, u64)> {
        let sum = |sum: (u64, u64), more: &(u64, u64)| (sum.0 + more.0, sum.1 + more.1);
        (!self.named.is_empty()).then(|| self.named.values().fold((0, 0), sum))
    }

    /// The use of the lock of a zone.
    pub(crate) fn of_zone(&self, zone: usize) -> KernelLock {
        let (mut holds, mut hold_nanos) = self.holds.get(&zone).copied().unwrap_or_default();
        let open = self.cpus.iter().filter_map(|cpu| cpu.hold).filter(|hold| hold.zone == zone);
        for hold in open {
            (holds, hold_nanos) = (holds + 1, hold_nanos + hold.last.saturating_sub(hold.first));
        }
        let of_locks = || {
            let locks = self.zone_locks().filter(|(_, waits)| waits.zone == zone);
            locks.fold((0, 0), |sum, (_, waits)| (sum.0 + waits.times, sum.1 + waits.nanos))
        };
        let waits = self.any.then(|| match self.named.is_empty() {
            true => of_locks(),
            false => self.named.get(&zone).copied().unwrap_or_default(),
        });
        KernelLock {
            waits: waits.map(|(times, _)| times),
            wait_nanos: waits.map(|(_, nanos)| nanos),
            holds,
            hold_nanos,
        }
    }
}

/// Counts a finished hold, if there is one.
fn count(holds: &mut HashMap<usize, (u64, u64)>, hold: Option<Hold>) {
    if let Some(hold) = hold {
        let (times, nanos) = holds.entry(hold.zone).or_default();
        (*times, *nanos) = (*times + 1, *nanos + hold.last.saturating_sub(hold.first));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ZONE_LOCK: u64 = 7;
    const OTHER: u64 = 8;
    const LOCKED: Event =
        Event::ZoneLocked { pfn: 9, order: 0, migratetype: 1, percpu_refill: true };
    const DRAINED: Event = Event::PcpuDrain { pfn: 2000, order: 0, migratetype: 1 };
    const FREED: Event = Event::Free { pfn: 9, order: 0 };

    fn begin(lock: u64) -> Event {
        Event::ContentionBegin { lock, spins: true }
    }

    fn end(lock: u64) -> Event {
        Event::ContentionEnd { lock }
    }

    /// Frames from 1000 on are in zone 1.
    fn of(events: &[(u16, u64, Event)]) -> LockWaits {
        let mut waits = LockWaits::default();
        for (cpu, nanos, event) in events {
            waits.add(*cpu, *nanos, event, |pfn| usize::from(pfn >= 1000));
        }
        waits
    }

    #[test]
    fn waits_belong_to_the_zone_of_the_next_frame_under_the_lock() {
        let waits = of(&[
            (0, 100, begin(ZONE_LOCK)),
            (1, 110, begin(OTHER)),
            (0, 150, end(ZONE_LOCK)),
            (1, 190, end(OTHER)),
            (1, 195, FREED),
            (0, 200, DRAINED),
            (0, 260, DRAINED),
            (0, 300, FREED),
        ]);
        let expected =
            KernelLock { waits: Some(1), wait_nanos: Some(50), holds: 1, hold_nanos: 60 };
        assert_eq!(waits.of_zone(1), expected);
        assert_eq!(
            waits.of_zone(0),
            KernelLock { waits: Some(0), wait_nanos: Some(0), ..KernelLock::default() }
        );
        assert_eq!(waits.zone_locks().map(|(lock, _)| lock).collect::<Vec<_>>(), [ZONE_LOCK]);
        assert_eq!(waits.of_lock(OTHER).nanos, 80);
    }

    #[test]
    fn sleeping_and_unfinished_waits_do_not_count() {
        let waits = of(&[
            (0, 100, Event::ContentionBegin { lock: ZONE_LOCK, spins: false }),
            (0, 150, end(ZONE_LOCK)),
            (0, 200, LOCKED),
            (1, 300, begin(ZONE_LOCK)),
            (1, 400, end(OTHER)),
        ]);
        assert_eq!(waits.of_zone(0).waits, Some(0));
    }

    #[test]
    fn holds_end_with_another_kind_of_event_and_with_a_wait() {
        let events = [
            (0, 10, LOCKED),
            (0, 30, LOCKED),
            (0, 40, DRAINED),
            (0, 45, begin(OTHER)),
            (0, 50, LOCKED),
        ];
        let waits = of(&events);
        assert_eq!((waits.of_zone(0).holds, waits.of_zone(0).hold_nanos), (2, 20));
        assert_eq!((waits.of_zone(1).holds, waits.of_zone(1).hold_nanos), (1, 0));
    }

    #[test]
    fn an_event_outside_the_lock_ends_a_hold_and_what_a_wait_has_left() {
        let held = of(&[(0, 10, LOCKED), (0, 20, FREED), (0, 25, FREED), (0, 30, LOCKED)]);
        assert_eq!((held.of_zone(0).holds, held.of_zone(0).hold_nanos), (2, 0));
        let waited = of(&[(0, 1, begin(OTHER)), (0, 2, end(OTHER)), (0, 3, FREED), (0, 4, LOCKED)]);
        assert_eq!(waited.zone_locks().count(), 0);
        let named = of(&[(0, 1, Event::ZoneWait { nanos: 700 }), (0, 2, FREED), (0, 3, LOCKED)]);
        assert_eq!(named.named(), None);
    }

    #[test]
    fn without_events_of_locks_waits_are_unknown() {
        let waits = of(&[(0, 10, LOCKED), (0, 30, LOCKED)]);
        let expected = KernelLock { waits: None, wait_nanos: None, holds: 1, hold_nanos: 20 };
        assert_eq!(waits.of_zone(0), expected);
        assert_eq!(waits.named(), None);
    }

    #[test]
    fn waits_that_an_event_names_replace_those_of_locks() {
        let named = Event::ZoneWait { nanos: 700 };
        let none = Event::ZoneWait { nanos: 0 };
        let events = [
            (0, 10, begin(ZONE_LOCK)),
            (0, 20, end(ZONE_LOCK)),
            (0, 21, named),
            (0, 22, LOCKED),
            (0, 30, none),
            (0, 31, LOCKED),
        ];
        let lock = of(&events).of_zone(0);
        assert_eq!((lock.waits, lock.wait_nanos, lock.holds), (Some(1), Some(700), 2));
    }
}

//! Replays event by event, in recorded order.

use framewright::{Order, Request, ZoneKind};

use super::allocator::Allocator;
use super::census::{Freed, Ledger, parts};
use super::kept::Events;
use super::kernel::KernelCounter;
use super::lists;
use super::lock_waits::LockWaits;
use super::machine::{highest, request};
use super::map::PageblockMap;
use super::plan::{Plan, ZonePlan};
use super::report::{Fallback, Logical};
use super::stand_ins::StandIns;
use super::survey::{Recording, Survey, pageblock};
use super::tracks::Tracks;
use crate::Error;
use crate::samples::Sample;
use crate::trace::{Event, GfpFlags, Record};
use crate::workloads::world::Frames;

/// Number of samples over a recording.
const SAMPLES: u64 = 200;
/// Interval of progress reports, in events.
const PROGRESS_EVERY: u64 = 1 << 14;

/// A replay under way.
pub(super) struct Engine<'s, A: Allocator> {
    pub(super) machine: A,
    stand_ins: StandIns<A::Block>,
    ledger: Ledger<A::Block>,
    pub(super) survey: &'s Survey,
    pub(super) plan: &'s Plan,
    pub(super) logical: Logical,
    pub(super) kernel: Vec<KernelCounter>,
    pub(super) samples: Vec<Sample>,
    pub(super) fallbacks: Vec<Fallback>,
    pub(super) waits: LockWaits,
    tracks: Option<Tracks>,
    /// Acquisitions of zone locks before the first event.
    acquisitions_before: u64,
    /// Reused for every event, to avoid allocations.
    freed: Freed<A::Block>,
}

impl<'s, A: Allocator> Engine<'s, A> {
    /// Brings `machine`, whose memory is that of `plan` and `maps`, into the state at the start.
    pub(super) fn start(
        mut machine: A,
        survey: &'s Survey,
        plan: &'s Plan,
        maps: &[Vec<PageblockMap>],
    ) -> Self {
        let stand_ins = lists::prepare(&mut machine, plan, maps, &survey.census);
        Self {
            kernel: vec![KernelCounter::default(); usize::from(machine.cpus())],
            machine,
            stand_ins,
            ledger: Ledger::default(),
            survey,
            plan,
            logical: Logical::default(),
            samples: Vec::new(),
            fallbacks: Vec::new(),
            waits: LockWaits::default(),
            tracks: None,
            acquisitions_before: 0,
            freed: Freed::default(),
        }
    }

    /// Replays all events.
    ///
    /// # Errors
    ///
    /// The recording had to be read again and cannot be, or has changed since the first reading.
    pub(super) fn run(
        &mut self,
        recording: &Recording,
        tracks: Option<Tracks>,
        progress: &mut dyn FnMut(f64),
    ) -> Result<(), Error> {
        let mut events = Events::of(&self.survey.kept, recording)?;
        if tracks.as_ref().is_some_and(Tracks::shows_kernel) {
            self.waits.keep_spans();
        }
        self.tracks = tracks;
        self.acquisitions_before = self.machine.zone_lock_acquisitions();
        // Those of the preparations are not the recording's.
        (0..self.machine.cpus()).for_each(|cpu| _ = self.machine.new_fallbacks(cpu));
        let (mut replayed, every) = (0u64, (self.survey.events / SAMPLES).max(1));
        let mut next_sample = every;
        let mut last = self.survey.first_nanos;
        self.sample(last);
        while let Some(record) = events.next()? {
            if record.cpu >= self.machine.cpus() {
                let (file, line) = (self.survey.file.clone(), record.line);
                return Err(Error::input(format_args!(
                    "{file}:{line}: CPU {} was not in the file at the first reading: the file has changed",
                    record.cpu
                )));
            }
            self.event(&record);
            self.trace(&record);
            last = record.nanos;
            replayed += 1;
            if replayed == next_sample {
                self.sample(last);
                next_sample += every;
            }
            if replayed.is_multiple_of(PROGRESS_EVERY) {
                progress(replayed as f64 / self.survey.events.max(1) as f64);
            }
        }
        if !replayed.is_multiple_of(every) {
            self.sample(last);
        }
        progress(1.0);
        if let Some(mut tracks) = self.tracks.take() {
            self.waits.open_holds().for_each(|(cpu, span)| tracks.span(cpu, span));
            tracks.finish();
        }
        Ok(())
    }

    /// Adds the holds and waits of an event to the trace, if there is one.
    fn trace(&mut self, record: &Record) {
        let Some(tracks) = &mut self.tracks else { return };
        for hold in self.machine.take_holds() {
            tracks.hold(record.cpu, record.nanos, hold);
        }
        for (cpu, span) in self.waits.take_spans() {
            tracks.span(cpu, span);
        }
    }

    fn event(&mut self, record: &Record) {
        self.machine.set_time(record.nanos);
        self.kernel[usize::from(record.cpu)].add(&record.event);
        let zone_of = |pfn| self.plan.zone_of(pfn);
        self.waits.add(record.cpu, record.nanos, &record.event, zone_of);
        match record.event {
            Event::Alloc { pfn, order, migratetype, gfp } => {
                self.logical.allocs += 1;
                let highest = self.highest(pfn, gfp);
                for (pfn, order) in parts(pfn, order) {
                    self.alloc(record.cpu, pfn, request(order, migratetype, gfp).zone(highest));
                }
                let [claims, steals] = self.machine.new_fallbacks(record.cpu);
                for number in 0..claims + steals {
                    self.fallback(record, false, (order, migratetype), None, number < claims);
                }
            }
            Event::Free { pfn, order } => {
                self.logical.frees += 1;
                let unmatched = self.logical.unmatched_frames;
                for (pfn, order) in parts(pfn, order) {
                    self.free(record.cpu, pfn, order);
                }
                self.logical.unmatched_frees +=
                    u64::from(self.logical.unmatched_frames > unmatched);
            }
            Event::ExtFrag {
                alloc_order,
                fallback_order,
                alloc_migratetype,
                fallback_migratetype,
                change_ownership,
                ..
            } => {
                let asked = (alloc_order, alloc_migratetype);
                let found = Some((fallback_order, fallback_migratetype));
                self.fallback(record, true, asked, found, change_ownership);
            }
            // Events of the kernel's lists and zones are counted, not replayed: the library manages
            // its own.
            _ => {}
        }
    }

    /// Adds a request that was served from a pageblock of another type.
    fn fallback(
        &mut self,
        record: &Record,
        by_kernel: bool,
        (order, migratetype): (u8, u8),
        found: Option<(u8, u8)>,
        claimed: bool,
    ) {
        let seconds = record.nanos.saturating_sub(self.survey.first_nanos) as f64 / 1e9;
        let cpu = record.cpu;
        let fallback = Fallback { seconds, cpu, by_kernel, order, migratetype, found, claimed };
        if let Some(tracks) = &mut self.tracks {
            tracks.fallback(record.nanos, &fallback);
        }
        self.fallbacks.push(fallback);
    }

    /// The highest zone for a recorded allocation: the highest that the caller could use or, if the
    /// kernel passed over higher zones of the node, the zone that the kernel used.
    fn highest(&self, pfn: u64, gfp: GfpFlags) -> ZoneKind {
        let zones = &self.plan.zones;
        let (zone, highest) = (&zones[self.plan.zone_of(pfn)], highest(gfp));
        let above = |other: &ZonePlan| other.kind > zone.kind && other.kind <= highest;
        let passed_over = zones.iter().any(|other| other.node == zone.node && above(other));
        if passed_over { zone.kind } else { highest.max(zone.kind) }
    }

    fn alloc(&mut self, cpu: u16, pfn: u64, request: Request) {
        let (order, frames) = (request.order(), request.order().frames());
        self.logical.alloc_frames += frames;
        let evicted = self.ledger.evict(pfn, order, &mut self.freed.blocks);
        if evicted > 0 {
            self.logical.reallocations += 1;
            self.logical.freed_unseen_frames += evicted;
            self.free_blocks(cpu);
        }
        let block = self.machine.alloc(cpu, request);
        if block.is_none() {
            self.logical.refused_allocs += 1;
            self.logical.refused_frames += frames;
        }
        self.ledger.insert(pfn, order, block);
    }

    fn free(&mut self, cpu: u16, pfn: u64, order: Order) {
        self.logical.free_frames += order.frames();
        let mut freed = std::mem::take(&mut self.freed);
        self.ledger.free(&mut self.machine, pfn, order, &mut freed);
        self.logical.partial_frees += u64::from(std::mem::take(&mut freed.split));
        for (pfn, order) in freed.unseen.drain(..) {
            self.logical.stand_in_frees += 1;
            let known = freed.blocks.len();
            let recorded = self.survey.census.pageblocks.get(&pageblock(pfn));
            let of = recorded.and_then(|recorded| recorded.of);
            let zone = self.plan.zone_of(pfn);
            self.stand_ins.take(&mut self.machine, zone, pfn, order, of, &mut freed.blocks);
            let frames: u64 = freed.blocks[known..].iter().map(|b| b.order().frames()).sum();
            self.logical.stand_in_frames += frames;
            self.logical.unmatched_frames += order.frames() - frames;
        }
        self.freed = freed;
        self.free_blocks(cpu);
    }

    /// Frees the collected blocks.
    fn free_blocks(&mut self, cpu: u16) {
        for block in self.freed.blocks.drain(..) {
            self.machine.free(cpu, block);
        }
    }

    fn sample(&mut self, nanos: u64) {
        let seconds = nanos.saturating_sub(self.survey.first_nanos) as f64 / 1e9;
        let state = self.machine.state();
        if let Some(tracks) = &mut self.tracks {
            let acquisitions = self.machine.zone_lock_acquisitions() - self.acquisitions_before;
            tracks.sample(nanos, &state, &self.logical, acquisitions);
        }
        self.samples.push(Sample::of(seconds, &state));
    }
}

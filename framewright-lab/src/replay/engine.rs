//! Replays event by event, in recorded order.

use framewright::{Order, Request, ZoneKind};
use framewright_sim::host_memory::prefetch;

use super::allocator::Allocator;
use super::kept::{Events, Resolved, SOON};
use super::kernel::KernelCounter;
use super::ledger::{Step, order_of};
use super::lists;
use super::lock_waits::LockWaits;
use super::machine::{highest, request};
use super::map::PageblockMap;
use super::plan::{Plan, ZonePlan};
use super::report::{Fallback, Logical};
use super::stand_ins::StandIns;
use super::survey::{Recording, Survey};
use super::tracks::Tracks;
use crate::Error;
use crate::samples::Sample;
use crate::trace::{Event, GfpFlags, Record};
use crate::workloads::world::Frames;

/// Number of samples over a recording.
const SAMPLES: u64 = 200;
/// Interval of progress reports, in events.
const PROGRESS_EVERY: u64 = 1 << 14;
/// Nanoseconds between two trims of the lists of CPUs, as in Linux.
const TRIM_EVERY: u64 = 1_000_000_000;

/// A replay under way.
pub(super) struct Engine<'s, A: Allocator> {
    pub(super) machine: A,
    stand_ins: StandIns<A::Block>,
    /// The allocated blocks by their numbers in the ledger. A request that was refused has none.
    blocks: Vec<Option<A::Block>>,
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
    /// The time at which the lists are trimmed next.
    trim_at: u64,
    /// The blocks that an event frees. Reused for every event, to avoid allocations.
    freed: Vec<A::Block>,
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
            blocks: Vec::new(),
            survey,
            plan,
            logical: Logical::default(),
            samples: Vec::new(),
            fallbacks: Vec::new(),
            waits: LockWaits::default(),
            tracks: None,
            acquisitions_before: 0,
            trim_at: survey.first_nanos + TRIM_EVERY,
            freed: Vec::new(),
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
        self.prefetch(&events);
        while let Some(Resolved { record, number, steps }) = events.next()? {
            if record.cpu >= self.machine.cpus() {
                let (file, line) = (self.survey.file.clone(), record.line);
                return Err(Error::input(format_args!(
                    "{file}:{line}: CPU {} was not in the file at the first reading: the file has changed",
                    record.cpu
                )));
            }
            self.event(record, number, steps);
            self.trace(record);
            last = record.nanos;
            replayed += 1;
            if replayed == next_sample {
                self.sample(last);
                next_sample += every;
            }
            if replayed.is_multiple_of(SOON as u64) {
                self.prefetch(&events);
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

    /// Prefetches the blocks that the next events free.
    fn prefetch(&self, events: &Events<'_>) {
        let blocks = events.frees_soon().filter_map(|number| self.blocks.get(number as usize));
        blocks.for_each(prefetch);
    }

    /// Trims the lists of all CPUs.
    fn trim(&mut self, nanos: u64) {
        for cpu in 0..self.machine.cpus() {
            self.machine.trim(cpu);
            self.trace_holds(cpu, nanos);
        }
        self.trim_at = nanos + TRIM_EVERY;
    }

    /// Adds the holds since the last call to the trace, if there is one.
    fn trace_holds(&mut self, cpu: u16, nanos: u64) {
        let Some(tracks) = &mut self.tracks else { return };
        for hold in self.machine.take_holds() {
            tracks.hold(cpu, nanos, hold);
        }
    }

    /// Adds the holds and waits of an event to the trace, if there is one.
    fn trace(&mut self, record: &Record) {
        self.trace_holds(record.cpu, record.nanos);
        let Some(tracks) = &mut self.tracks else { return };
        for (cpu, span) in self.waits.take_spans() {
            tracks.span(cpu, span);
        }
    }

    /// Replays an event, with its number and its other steps from the ledger.
    fn event(&mut self, record: &Record, number: u32, steps: &[Step]) {
        self.machine.set_time(record.nanos);
        if record.nanos >= self.trim_at {
            self.trim(record.nanos);
        }
        self.kernel[usize::from(record.cpu)].add(&record.event);
        let zone_of = |pfn| self.plan.zone_of(pfn);
        self.waits.add(record.cpu, record.nanos, &record.event, zone_of);
        match record.event {
            Event::Alloc { pfn, order, migratetype, gfp } => {
                self.logical.allocs += 1;
                let highest = self.highest(pfn, gfp);
                let request = request(order_of(order), migratetype, gfp).zone(highest);
                self.evict(record.cpu, steps);
                self.alloc(record.cpu, number, request);
                let [claims, steals] = self.machine.new_fallbacks(record.cpu);
                for number in 0..claims + steals {
                    self.fallback(record, false, (order, migratetype), None, number < claims);
                }
            }
            Event::Free { pfn, order } => {
                let order = order_of(order);
                self.logical.frees += 1;
                self.logical.free_frames += order.frames();
                match (number, steps) {
                    (0, []) => self.free_parts(record.cpu, &[Step::Unseen { pfn, order }]),
                    (0, _) => self.free_parts(record.cpu, steps),
                    _ => self.free(record.cpu, number),
                }
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

    /// Frees blocks whose frames the kernel allocated again: their frees were not recorded.
    fn evict(&mut self, cpu: u16, steps: &[Step]) {
        self.logical.reallocations += u64::from(!steps.is_empty());
        for step in steps {
            if let Step::Free { number, order } = *step {
                self.logical.freed_unseen_frames += order.frames();
                self.free(cpu, number);
            }
        }
    }

    fn alloc(&mut self, cpu: u16, number: u32, request: Request) {
        let frames = request.order().frames();
        self.logical.alloc_frames += frames;
        let block = self.machine.alloc(cpu, request);
        if block.is_none() {
            self.logical.refused_allocs += 1;
            self.logical.refused_frames += frames;
        }
        self.put(number, block);
    }

    fn put(&mut self, number: u32, block: Option<A::Block>) {
        let at = number as usize;
        if self.blocks.len() <= at {
            self.blocks.resize_with(at + 1, || None);
        }
        self.blocks[at] = block;
    }

    fn free(&mut self, cpu: u16, number: u32) {
        if let Some(block) = self.blocks[number as usize].take() {
            self.machine.free(cpu, block);
        }
    }

    /// A free that does not end exactly one block. Blocks are freed after all splits.
    fn free_parts(&mut self, cpu: u16, steps: &[Step]) {
        let unmatched = self.logical.unmatched_frames;
        let mut freed = std::mem::take(&mut self.freed);
        for step in steps {
            match *step {
                Step::Free { number, .. } => freed.extend(self.blocks[number as usize].take()),
                Step::Split { number, other, keeps_low } => self.split(number, other, keeps_low),
                Step::Unseen { pfn, order } => self.take_stand_in(pfn, order, &mut freed),
            }
        }
        freed.drain(..).for_each(|block| self.machine.free(cpu, block));
        self.freed = freed;
        let is_split = |step: &Step| matches!(step, Step::Split { .. });
        self.logical.partial_frees += u64::from(steps.iter().any(is_split));
        self.logical.unmatched_frees += u64::from(self.logical.unmatched_frames > unmatched);
    }

    fn split(&mut self, number: u32, other: u32, keeps_low: bool) {
        let halves = self.blocks[number as usize].take().map(|block| self.machine.split(block));
        let (low, high) = halves.unzip();
        let (kept, rest) = if keeps_low { (low, high) } else { (high, low) };
        self.put(number, kept);
        self.put(other, rest);
    }

    /// Takes stand-ins for frames whose allocation was not recorded.
    fn take_stand_in(&mut self, pfn: u64, order: Order, freed: &mut Vec<A::Block>) {
        self.logical.stand_in_frees += 1;
        let known = freed.len();
        let (zone, census) = (self.plan.zone_of(pfn), &self.survey.census);
        self.stand_ins.take(&mut self.machine, zone, pfn, order, census, freed);
        let frames: u64 = freed[known..].iter().map(|block| block.order().frames()).sum();
        self.logical.stand_in_frames += frames;
        self.logical.unmatched_frames += order.frames() - frames;
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

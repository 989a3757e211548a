//! The second reading of the recording: replays event by event, in recorded order.

use std::mem::MaybeUninit;

use framewright::observe::CpuStats;
use framewright::{
    Config, InitError, Layout, Memory, MemoryRange, Order, Request, Tuning, ZoneKind,
};

use super::Tables;
use super::census::{Freed, Ledger, parts};
use super::kernel::{FreeMemory, FreeReport, KernelActivity, KernelCounter};
use super::lists;
use super::lists::{Beginning, stats};
use super::machine::refused;
use super::machine::{Machine, Serial, highest, request};
use super::map::{self, PageblockMap};
use super::plan::{MOST_FRAMES, Plan, ZonePlan};
use super::report::{Activity, Balance, CpuReport, Logical, MachineReport, ReplayReport, Sample};
use super::stand_ins::StandIns;
use super::survey::{Recording, Survey, pageblock};
use crate::Error;
use crate::trace::{Event, GfpFlags, Record, Snapshot};

/// Number of samples over a recording.
const SAMPLES: u64 = 200;
/// Interval of progress reports, in events.
const PROGRESS_EVERY: u64 = 1 << 14;

/// Builds the planned machine and replays the recording on it.
pub(super) fn replay(
    recording: &Recording,
    survey: &Survey,
    plan: &Plan,
    tables: &Tables,
    tuning: &Tuning,
    progress: &mut dyn FnMut(f64),
) -> Result<ReplayReport, Error> {
    let frames = plan.managed();
    if frames > MOST_FRAMES {
        let file = survey.file.clone();
        return Err(Error::input(format_args!(
            "{file}: a machine of {frames} frames of 4 KiB; a replay can have at most {MOST_FRAMES}"
        )));
    }
    let setup = |error: InitError| refused(frames, plan.cpus, &error);
    let maps = map::map(plan, &survey.census);
    let ranges = memory_map(plan, &maps);
    let config = Config::new(&ranges, plan.cpus).with_tuning(*tuning);
    let layout = Layout::new::<Serial>(&config).map_err(setup)?;
    let mut buffer = Vec::with_capacity(layout.bytes() + layout.align());
    let metadata = aligned(buffer.spare_capacity_mut(), &layout);
    let memory = Memory::new(Serial::default(), &config, metadata).map_err(setup)?;

    let mut machine = Machine::new(&memory, plan.cpus)?;
    let stand_ins = lists::prepare(&mut machine, plan, &maps, &survey.census);
    drop(maps);
    let mut engine = Engine::new(machine, stand_ins, survey, plan);
    let begin = Beginning::of(&engine.machine, plan, tables);
    engine.run(recording, progress)?;
    memory.check().map_err(|violation| {
        Error::broken(format_args!(
            "the allocator violated an invariant, please report this: {violation}"
        ))
    })?;
    Ok(engine.report(begin, tables.after.as_ref(), layout.bytes() as u64))
}

/// The frames of all zones.
fn memory_map(plan: &Plan, maps: &[Vec<PageblockMap>]) -> Vec<MemoryRange> {
    let zones = plan.zones.iter().zip(maps);
    let ranges = zones.flat_map(|(zone, map)| {
        let of_zone = |frames| MemoryRange::new(frames, zone.node, zone.kind);
        map::ranges(map).into_iter().map(of_zone)
    });
    ranges.collect()
}

/// The part of `buffer` from the first aligned address.
fn aligned<'b>(buffer: &'b mut [MaybeUninit<u8>], layout: &Layout) -> &'b mut [MaybeUninit<u8>] {
    let skip = buffer.as_ptr().align_offset(layout.align());
    buffer.get_mut(skip..).unwrap_or_default()
}

/// Free memory of all zones.
fn all_free(machine: &Machine<'_, '_>) -> FreeMemory {
    let mut sum = FreeMemory::default();
    for zone in machine.memory().zones() {
        sum.add(&FreeMemory::ours(&machine.memory().block_counts(zone.id)));
    }
    sum
}

struct Engine<'a, 'm, 's> {
    machine: Machine<'a, 'm>,
    stand_ins: StandIns<'m>,
    ledger: Ledger<'m>,
    survey: &'s Survey,
    plan: &'s Plan,
    logical: Logical,
    kernel: Vec<KernelCounter>,
    samples: Vec<Sample>,
    /// Reused for every event, to avoid allocations.
    freed: Freed<'m>,
}

impl<'a, 'm, 's> Engine<'a, 'm, 's> {
    fn new(
        machine: Machine<'a, 'm>,
        stand_ins: StandIns<'m>,
        survey: &'s Survey,
        plan: &'s Plan,
    ) -> Self {
        Self {
            kernel: vec![KernelCounter::default(); usize::from(machine.cpus())],
            machine,
            stand_ins,
            ledger: Ledger::default(),
            survey,
            plan,
            logical: Logical::default(),
            samples: Vec::new(),
            freed: Freed::default(),
        }
    }

    fn run(&mut self, recording: &Recording, progress: &mut dyn FnMut(f64)) -> Result<(), Error> {
        let mut reader = recording.reader()?;
        let every = (self.survey.events / SAMPLES).max(1);
        let mut last = self.survey.first_nanos;
        self.sample(last);
        while let Some(record) = reader.next_record()? {
            if record.cpu >= self.machine.cpus() {
                let (file, line) = (self.survey.file.clone(), record.line);
                return Err(Error::input(format_args!(
                    "{file}:{line}: CPU {} was not in the file at the first reading: the file has changed",
                    record.cpu
                )));
            }
            self.event(&record);
            last = record.nanos;
            if reader.events().is_multiple_of(every) {
                self.sample(last);
            }
            if reader.events().is_multiple_of(PROGRESS_EVERY) {
                progress(reader.events() as f64 / self.survey.events.max(1) as f64);
            }
        }
        if !reader.events().is_multiple_of(every) {
            self.sample(last);
        }
        progress(1.0);
        Ok(())
    }

    fn event(&mut self, record: &Record) {
        self.machine.memory().platform().set_time(record.nanos);
        self.kernel[usize::from(record.cpu)].add(&record.event);
        match record.event {
            Event::Alloc { pfn, order, migratetype, gfp } => {
                self.logical.allocs += 1;
                let highest = self.highest(pfn, gfp);
                for (pfn, order) in parts(pfn, order) {
                    self.alloc(record.cpu, pfn, request(order, migratetype, gfp).zone(highest));
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
            // Events of the kernel's lists and zones are counted, not replayed: the library manages
            // its own.
            _ => {}
        }
    }

    /// The highest zone for a recorded allocation: the highest that the caller could use, but not
    /// above the zone that the kernel used.
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
        let memory = self.machine.memory();
        let free = all_free(&self.machine);
        self.samples.push(Sample {
            seconds: nanos.saturating_sub(self.survey.first_nanos) as f64 / 1e9,
            in_use: self.machine.in_use(),
            free: memory.free(),
            held_by_cpus: memory.held_by_cpus(),
            largest_order: memory.largest_free_order().map(Order::get),
            unusable_pageblock: free.unusable_index(Order::PAGEBLOCK),
            unusable_order_3: free.unusable_index(Order::new(3).unwrap_or(Order::PAGEBLOCK)),
        });
    }

    fn report(
        self,
        begin: Beginning,
        after: Option<&Snapshot>,
        metadata_bytes: u64,
    ) -> ReplayReport {
        let (mut first, mut last) = (CpuStats::default(), CpuStats::default());
        let mut kernel_total = KernelActivity::default();
        let mut cpus = Vec::new();
        let counters = begin.stats.iter().zip(stats(&self.machine)).zip(&self.kernel);
        for (cpu, ((before, after), kernel)) in (0..).zip(counters) {
            first += *before;
            last += after;
            kernel_total += kernel.activity();
            let ours = Activity::between(before, &after);
            cpus.push(CpuReport { cpu, ours, kernel: *kernel.activity() });
        }
        let memory = self.machine.memory();
        let (in_use, held) = (begin.in_use, begin.held);
        let zones = begin.end(&self.machine, self.plan);
        let mut free = FreeReport::default();
        for (index, zone) in zones.iter().enumerate() {
            if index == 0 { free = zone.free.clone() } else { free.add(&zone.free) }
        }
        ReplayReport {
            file: self.survey.file.clone(),
            events: self.survey.events,
            others: self.survey.others.clone(),
            seconds: self.survey.seconds(),
            machine: MachineReport {
                frames: memory.managed(),
                cpus: self.machine.cpus(),
                metadata_bytes,
                from_snapshot: self.plan.from_snapshot,
                in_use_at_start: in_use,
                held_at_start: held,
            },
            logical: self.logical,
            balance: Balance::new(in_use, self.machine.in_use(), &self.logical),
            total: Activity::between(&first, &last),
            kernel_total,
            cpus,
            free,
            zones,
            ends_early: after.is_some() && self.survey.ends_early(),
            samples: self.samples,
        }
    }
}

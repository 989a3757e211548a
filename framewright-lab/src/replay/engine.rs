//! The second reading: event by event, in recorded order.

use std::mem::MaybeUninit;

use framewright::observe::CpuStats;
use framewright::{
    Config, CpuId, FrameRange, InitError, Layout, Memory, MemoryRange, MigrateType, Order, Pfn,
    Request, Tuning, ZoneId,
};

use super::error::ReplayError;
use super::kernel::{KernelActivity, KernelCounter};
use super::ledger::{Freed, Ledger, parts};
use super::machine::Machine;
use super::plan::Plan;
use super::recording::Recording;
use super::report::{
    Activity, Balance, CpuReport, FreeMemory, Logical, MachineReport, ReplayReport, Sample,
};
use super::serial::Serial;
use super::stand_ins::StandIns;
use super::start;
use super::survey::Survey;
use crate::trace::{Event, GfpFlags, Record, Snapshot};

/// The largest machine: 4 TiB. Its metadata is a few hundred MiB.
const MOST_FRAMES: u64 = 1 << 30;
/// How many samples are taken over a recording.
const SAMPLES: u64 = 200;
/// How often progress is told, in events.
const PROGRESS_EVERY: u64 = 1 << 14;

/// Builds the planned machine and replays the recording on it.
pub(super) fn replay(
    recording: &Recording,
    survey: &Survey,
    plan: &Plan,
    snapshot: Option<&Snapshot>,
    tuning: &Tuning,
    progress: &mut dyn FnMut(f64),
) -> Result<ReplayReport, ReplayError> {
    if plan.frames > MOST_FRAMES {
        let file = survey.file.clone();
        return Err(ReplayError::TooLarge { file, frames: plan.frames, limit: MOST_FRAMES });
    }
    let setup = |error: InitError| ReplayError::Setup {
        frames: plan.frames,
        cpus: plan.cpus,
        reason: error.to_string(),
    };
    let ranges: Vec<MemoryRange> = FrameRange::new(Pfn::new(0), Pfn::new(plan.frames))
        .into_iter()
        .map(MemoryRange::from)
        .collect();
    let config = Config { tuning: *tuning, ..Config::new(&ranges, plan.cpus) };
    let layout = Layout::new::<Serial>(&config).map_err(setup)?;
    let mut buffer = Vec::with_capacity(layout.bytes() + layout.align());
    let metadata = aligned(buffer.spare_capacity_mut(), &layout);
    let memory = Memory::new(Serial::default(), &config, metadata).map_err(setup)?;

    let mut machine = Machine::new(&memory, plan.cpus)?;
    let stand_ins = start::prepare(&mut machine, plan);
    let mut engine = Engine::new(machine, stand_ins, survey);
    let begin = Beginning::of(&engine.machine, plan, snapshot);
    engine.run(recording, progress)?;
    memory
        .check()
        .map_err(|violation| ReplayError::Violation { violation: violation.to_string() })?;
    Ok(engine.report(begin, layout.bytes() as u64))
}

/// The part of `buffer` that begins where metadata may.
fn aligned<'b>(buffer: &'b mut [MaybeUninit<u8>], layout: &Layout) -> &'b mut [MaybeUninit<u8>] {
    let skip = buffer.as_ptr().align_offset(layout.align());
    buffer.get_mut(skip..).unwrap_or_default()
}

/// The state when the recording began.
struct Beginning {
    stats: Vec<CpuStats>,
    in_use: u64,
    held: u64,
    free: FreeMemory,
    kernel_free: Option<FreeMemory>,
    from_snapshot: bool,
}

impl Beginning {
    fn of(machine: &Machine<'_, '_>, plan: &Plan, snapshot: Option<&Snapshot>) -> Self {
        Self {
            stats: stats(machine),
            in_use: machine.in_use(),
            held: machine.memory().held_by_cpus(),
            free: FreeMemory::ours(&machine.memory().block_counts(ZoneId::default())),
            kernel_free: snapshot.and_then(FreeMemory::kernels),
            from_snapshot: plan.from_snapshot,
        }
    }
}

/// The counters of all CPUs.
fn stats(machine: &Machine<'_, '_>) -> Vec<CpuStats> {
    let cpus = (0..machine.cpus()).map(CpuId::new);
    cpus.map(|cpu| machine.memory().cpu_stats(cpu).unwrap_or_default()).collect()
}

struct Engine<'a, 'm, 's> {
    machine: Machine<'a, 'm>,
    stand_ins: StandIns<'m>,
    ledger: Ledger<'m>,
    survey: &'s Survey,
    logical: Logical,
    kernel: Vec<KernelCounter>,
    samples: Vec<Sample>,
    /// Kept between events, so that none of them allocates.
    freed: Freed<'m>,
}

impl<'a, 'm, 's> Engine<'a, 'm, 's> {
    fn new(machine: Machine<'a, 'm>, stand_ins: StandIns<'m>, survey: &'s Survey) -> Self {
        Self {
            kernel: vec![KernelCounter::default(); usize::from(machine.cpus())],
            machine,
            stand_ins,
            ledger: Ledger::default(),
            survey,
            logical: Logical::default(),
            samples: Vec::new(),
            freed: Freed::default(),
        }
    }

    fn run(
        &mut self,
        recording: &Recording,
        progress: &mut dyn FnMut(f64),
    ) -> Result<(), ReplayError> {
        let mut reader = recording.reader()?;
        let every = (self.survey.events / SAMPLES).max(1);
        let mut last = self.survey.first_nanos;
        self.sample(last);
        while let Some(record) = reader.next_record()? {
            if record.cpu >= self.machine.cpus() {
                let (file, line) = (self.survey.file.clone(), record.line);
                return Err(ReplayError::Changed { file, line, cpu: record.cpu });
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
                for (pfn, order) in parts(pfn, order) {
                    self.alloc(record.cpu, pfn, request(order, migratetype, gfp));
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
            // What the kernel's own lists and zone did is counted, not repeated: ours do their own.
            _ => {}
        }
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
            let types = &self.survey.types;
            self.stand_ins.take(&mut self.machine, pfn, order, types, &mut freed.blocks);
            let frames: u64 = freed.blocks[known..].iter().map(|b| b.order().frames()).sum();
            self.logical.stand_in_frames += frames;
            self.logical.unmatched_frames += order.frames() - frames;
        }
        self.freed = freed;
        self.free_blocks(cpu);
    }

    /// Frees what was gathered.
    fn free_blocks(&mut self, cpu: u16) {
        for block in self.freed.blocks.drain(..) {
            self.machine.free(cpu, block);
        }
    }

    fn sample(&mut self, nanos: u64) {
        let memory = self.machine.memory();
        let zone = memory.zone(ZoneId::default()).unwrap();
        let free = FreeMemory::ours(&memory.block_counts(ZoneId::default()));
        self.samples.push(Sample {
            seconds: nanos.saturating_sub(self.survey.first_nanos) as f64 / 1e9,
            in_use: self.machine.in_use(),
            free: zone.free,
            held_by_cpus: zone.held_by_cpus,
            largest_order: free.largest_order(),
            unusable_pageblock: free.unusable_index(Order::PAGEBLOCK),
            unusable_order_3: free.unusable_index(Order::new(3).unwrap_or(Order::PAGEBLOCK)),
        });
    }

    fn report(self, begin: Beginning, metadata_bytes: u64) -> ReplayReport {
        let (mut before, mut after) = (CpuStats::default(), CpuStats::default());
        let mut kernel_total = KernelActivity::default();
        let mut cpus = Vec::new();
        let counters = begin.stats.iter().zip(stats(&self.machine)).zip(&self.kernel);
        for (cpu, ((first, last), kernel)) in (0..).zip(counters) {
            before += *first;
            after += last;
            kernel_total += kernel.activity();
            let ours = Activity::between(first, &last);
            cpus.push(CpuReport { cpu, ours, kernel: *kernel.activity() });
        }
        let memory = self.machine.memory();
        ReplayReport {
            file: self.survey.file.clone(),
            events: self.survey.events,
            others: self.survey.others.clone(),
            seconds: self.survey.seconds(),
            machine: MachineReport {
                frames: memory.managed(),
                cpus: self.machine.cpus(),
                metadata_bytes,
                from_snapshot: begin.from_snapshot,
                in_use_at_start: begin.in_use,
                held_at_start: begin.held,
            },
            logical: self.logical,
            balance: Balance::new(begin.in_use, self.machine.in_use(), &self.logical),
            total: Activity::between(&before, &after),
            kernel_total,
            cpus,
            free_at_start: begin.free,
            free_at_end: FreeMemory::ours(&memory.block_counts(ZoneId::default())),
            kernel_free_at_start: begin.kernel_free,
            samples: self.samples,
        }
    }
}

/// What the recorded caller asked for, in our words.
///
/// `__GFP_NOFAIL` becomes *retry, may fail*: with one thread there is nobody to wait for.
fn request(order: Order, migratetype: u8, gfp: GfpFlags) -> Request {
    let of = MigrateType::from_number(migratetype).filter(|of| of.is_requestable());
    let mut request = Request::new(order, of.unwrap_or(MigrateType::Movable));
    let wants = |flag| gfp.contains(flag);
    let waits = wants(GfpFlags::DIRECT_RECLAIM);
    request = match (wants(GfpFlags::HIGH) || wants(GfpFlags::MEMALLOC), waits) {
        (true, false) => request.atomic(),
        (true, true) => request.urgent(),
        (false, false) => request.no_wait(),
        (false, true) => request,
    };
    if wants(GfpFlags::ZERO) {
        request = request.zeroed();
    }
    if wants(GfpFlags::NORETRY) {
        request = request.no_retry();
    }
    if wants(GfpFlags::RETRY_MAYFAIL) || wants(GfpFlags::NOFAIL) {
        request = request.retry_may_fail();
    }
    request
}

//! A run of one side with one seed: the machine, its programs, and the result.

use std::cell::RefCell;

use framewright::{
    CpuId, Memory, Order, SideTables, buddy::unusable_index, frame::PAGEBLOCK_FRAMES,
    observe::NodeStat, reclaim::Throttle,
};
use framewright_sim::{
    engine::{Failure, LockClass, Machine, Program},
    file::{AreaId, FileCosts, FileSpec, KernelState, PageCache, Parts, StoreSpec},
    platform::{LentRelief, Simulated},
    process::{AddressSpace, Mmu},
};

use super::{
    Paging, Work,
    event_loop::{self, EventLoop, Spent, Thread},
    figures::Outcome,
    kept::{Kept, KernelBlocks},
    timeline::{Blocks, HOURS, Timeline},
};
use crate::Error;
use crate::invariants::all_free;
use crate::perfetto::{Sample, levels};
use crate::samples::{MemoryState, Watch, Watcher};
use crate::simulated::refused;
use crate::{
    simulated::{column::Nodes, memory::on_memory},
    workloads::{
        Side,
        cdn::{Cdn, Server},
        mmap_read::{MmapRead, Reader},
    },
};

/// CPUs start within this number of cycles, about a millisecond: processes are forked one after the
/// other.
const LATE: u64 = 2_500_000;

/// Runs one side with one seed. `progress` gets the number of finished parts and of all parts.
pub(super) fn run(
    paging: &Paging,
    side: &Side,
    seed: u64,
    watch: Watch<'_>,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Outcome, Error> {
    let spec = &paging.spec;
    let nodes = Nodes::new(spec, paging.frames);
    let side_tables = SideTables::default().with_lru();
    let config = nodes.config(side.tuning).with_side_tables(side_tables);
    let frames = u32::try_from(nodes.frames()).map_err(|_| refused(spec, &"it is too large"))?;
    let relief = LentRelief::default();
    on_memory(spec, &config, seed, &relief, |machine, memory| {
        let mmu = Mmu::measuring(spec.cpus(), spec.costs().into());
        let (cache, areas) = cache(paging, &mmu, machine, frames);
        let parts = Parts { machine, memory, cache: &cache, relief: &relief };
        let title = format!("{}, seed {seed}", side.label);
        let watcher = &Watcher::start(watch, machine, &title);
        if let Some(recorder) = watcher.recorder() {
            recorder.name_zones(memory);
        }
        let frames = nodes.frames();
        let play = Play { paging, parts: &parts, areas: &areas, seed, frames, watcher };
        let outcome = parts.together(|kernel| play.play(kernel, progress));
        let outcome = outcome.map_err(|failure| side.broken(seed, failure))?;
        all_free(memory).map_err(|what| side.broken(seed, what))?;
        Ok(outcome)
    })
}

/// The page cache with all files, and the areas that map them.
fn cache(paging: &Paging, mmu: &Mmu, machine: &Machine, frames: u32) -> (PageCache, Vec<AreaId>) {
    let (spec, work) = (&paging.spec, &paging.work);
    let store = match work {
        Work::MmapRead(MmapRead { disks: 0, .. }) => StoreSpec::INSTANT,
        Work::MmapRead(MmapRead { disks, .. }) | Work::Cdn(Cdn { disks, .. }) => {
            StoreSpec::ssds(*disks)
        }
    };
    let costs = FileCosts::from(spec.costs());
    let mut cache = PageCache::new(mmu, machine.model(), frames, store, costs);
    let all = u64::from(frames);
    let mappings = match work {
        Work::MmapRead(work) => {
            let each = work.pages_each(all, spec.cpus());
            let sharing = work.readers.sharing();
            let (files, pages) = sharing.mappings(spec.cpus().into(), each.into());
            let sparse = FileSpec { sparse: work.disks == 0, ..FileSpec::new(pages as u32) };
            vec![(sparse, false); files]
        }
        Work::Cdn(work) => vec![(FileSpec::new(work.pages(all)), true)],
    };
    let areas = mappings.into_iter().map(|(file, writable)| {
        let file = cache.create(file);
        cache.map(&AddressSpace::new(mmu), 0, file, writable)
    });
    let areas = areas.collect();
    (cache, areas)
}

/// All parts of a run.
struct Play<'p, 'm> {
    paging: &'p Paging,
    parts: &'p Parts<'p, 'm>,
    areas: &'p [AreaId],
    seed: u64,
    frames: u64,
    watcher: &'p Watcher,
}

impl<'m> Play<'_, 'm> {
    fn play(
        &self,
        kernel: &KernelState<'_, 'm>,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Outcome, Failure> {
        let hours = self.hours();
        let all_hours = hours.unwrap_or(HOURS);
        let progress = RefCell::new(progress);
        let tell = |hour: u64| (*progress.borrow_mut())(hour.min(all_hours), all_hours);
        tell(0);
        let second = self.frequency() as u64;
        let timeline = Timeline::new(self.hour(), hours, self.programs(), second, &tell);
        let spent: Vec<Spent> = (0..self.cpus()).map(|_| Spent::default()).collect();
        let ended = self.work(kernel, &timeline, &spent);
        let samples = self.watcher.finish(|| self.sample(&timeline), || self.state());
        ended?;
        let outcome = Outcome { samples, ..self.outcome(kernel, &timeline, &spent) };
        self.free_all(kernel)?;
        Ok(outcome)
    }

    fn cpus(&self) -> u16 {
        self.paging.spec.cpus()
    }

    /// Hours of the run; `None` if it ends with its programs.
    fn hours(&self) -> Option<u64> {
        match &self.paging.work {
            Work::MmapRead(_) => None,
            Work::Cdn(work) => Some(work.hours()),
        }
    }

    /// Pages that are read in an hour.
    fn hour(&self) -> u64 {
        match &self.paging.work {
            Work::MmapRead(work) => {
                self.frames * u64::from(work.times) / u64::from(work.divisor.max(1)) / HOURS
            }
            Work::Cdn(work) => self.frames * work.turnovers / HOURS,
        }
    }

    fn programs(&self) -> u64 {
        (0..self.cpus()).map(|cpu| self.threads(cpu).len() as u64).sum()
    }

    fn threads(&self, cpu: u16) -> Vec<Thread> {
        let program = |program| Thread::new(program);
        match &self.paging.work {
            Work::MmapRead(work) => {
                let pages = work.pages_each(self.frames, self.cpus());
                vec![program(event_loop::Program::Reader(Reader::new(work, cpu, pages)))]
            }
            Work::Cdn(work) => {
                let server = |thread| {
                    let seed = work.seed.wrapping_add(self.seed);
                    let work = Cdn { seed, ..work.clone() };
                    let server = Server::new(&work, cpu, thread, work.pages(self.frames));
                    program(event_loop::Program::Server(server))
                };
                (0..work.threads).map(server).collect()
            }
        }
    }

    /// The large objects and the blocks of the kernel of a CPU, none at first.
    fn kept(&self, cpu: u16) -> [Kept<'m>; 2] {
        let kept_for = match &self.paging.work {
            Work::MmapRead(_) => [0; 2],
            Work::Cdn(work) => [work.kept_for(self.frames), work.kernel_kept_for(self.frames)],
        };
        let seed = self.seed ^ u64::from(cpu) << 32;
        let [large, kernel] = kept_for;
        [Kept::new(large, seed), Kept::new(kernel, !seed)]
    }

    /// Cycles per second.
    fn frequency(&self) -> f64 {
        1e12 / self.parts.machine.model().nanos_per_1000_cycles as f64
    }

    /// Runs the event loop of every CPU until the end.
    fn work(
        &self,
        kernel: &KernelState<'_, 'm>,
        timeline: &Timeline<'_>,
        spent: &[Spent],
    ) -> Result<(), Failure> {
        let kernel_blocks = KernelBlocks::default();
        let pageblocks = self.frames / PAGEBLOCK_FRAMES as u64;
        let blocks = || Blocks {
            movable: pageblocks.saturating_sub(kernel_blocks.pageblocks()),
            ..blocks(self.parts.memory)
        };
        let sample = |now| self.watcher.look(now, || self.sample(timeline), || self.state());
        let mut random = fastrand::Rng::with_seed(self.seed);
        let programs = spent.iter().enumerate().map(|(number, spent)| -> Program<'_> {
            let (number, late) = (number as u16, random.u64(..LATE));
            let (blocks, sample, kernel_blocks) = (&blocks, &sample, &kernel_blocks);
            Box::new(move |cpu| {
                let [large, of_kernel] = self.kept(number);
                let mut event_loop = EventLoop {
                    cpu_context: kernel.cpu_context(CpuId::new(number)),
                    timeline,
                    areas: self.areas,
                    spent,
                    threads: self.threads(number),
                    large,
                    kernel: of_kernel,
                    kernel_blocks,
                    turn: 0,
                    blocks,
                    sample,
                };
                if let Err(error) = event_loop.work(cpu, late) {
                    cpu.fail(error.to_string());
                }
            })
        });
        self.parts.machine.run(programs.collect())
    }

    fn state(&self) -> Option<MemoryState> {
        Some(MemoryState::of(self.parts.memory))
    }

    /// Counters, for a trace.
    fn sample(&self, timeline: &Timeline<'_>) -> Sample {
        let Parts { memory, .. } = self.parts;
        let flushes = memory.tlb().stats();
        Sample {
            levels: levels(memory),
            counts: vec![
                ("pages", timeline.pages()),
                ("unmapped pages", flushes.unmapped),
                ("interrupts for flushes", flushes.interrupts),
            ],
        }
    }

    /// Frees every frame. All CPUs take part, because some have to flush.
    fn free_all(&self, kernel: &KernelState<'_, 'm>) -> Result<(), Failure> {
        let programs = (0..self.cpus()).map(|number| -> Program<'_> {
            Box::new(move |cpu| {
                if number == 0 {
                    kernel.cpu_context(CpuId::new(0)).free_all(cpu);
                }
            })
        });
        self.parts.machine.run(programs.collect())
    }

    fn outcome(
        &self,
        kernel: &KernelState<'_, 'm>,
        timeline: &Timeline<'_>,
        spent: &[Spent],
    ) -> Outcome {
        let Parts { machine, memory, cache, .. } = self.parts;
        let frequency = self.frequency();
        let seconds = |cycles: u64| cycles as f64 / frequency;
        let sum = |of: fn(&Spent) -> u64| spent.iter().map(of).sum::<u64>();
        let user = sum(|spent| spent.user.get());
        let busy = sum(|spent| spent.ended.get() - spent.idle.get() - spent.late.get());
        let (tlb, pages, flushes) = (memory.tlb().stats(), cache.stats(), kernel.flush_costs());
        let lock = |class| {
            let stats = machine.lock_stats_of(class);
            stats.wait_cycles + stats.hold_cycles
        };
        let stats = kernel.reclaim().lru().stats();
        let compact = memory.compact_stats();
        let both = |one, other| stats.get(one) + stats.get(other);
        Outcome {
            elapsed: seconds(timeline.end()),
            system: seconds(busy.saturating_sub(user)),
            stall: seconds(timeline.stall()) * 1e9,
            freezes: timeline.freezes(),
            device: seconds(cache.store_stats().slowest) * 1e9,
            expired: Throttle::ALL.map(|why| stats.get(why.expired())),
            pages: timeline.pages(),
            reclaimed: both(NodeStat::PgstealKswapd, NodeStat::PgstealDirect),
            by_kswapd: stats.get(NodeStat::PgstealKswapd),
            scanned: both(NodeStat::PgscanKswapd, NodeStat::PgscanDirect),
            refaults: stats.get(NodeStat::WorkingsetRefaultFile),
            direct: kernel.stalls(),
            unmapped: pages.unmapped,
            flushes: tlb.nr_tlb_remote_flush,
            interrupts: tlb.interrupts - flushes.for_writes,
            coalesced: tlb.coalesced,
            unflushed: tlb.unflushed_frames_max,
            written: cache.store_stats().written,
            faults: pages.faults,
            mapped: pages.mapped,
            busy_cycles: busy,
            flush_cycles: flushes.cycles,
            zone_lock_cycles: lock(LockClass::Zone),
            lru_lock_cycles: lock(LockClass::Lru),
            huge: timeline.huge(),
            compact_stalls: memory.stats().compact_stall,
            moved: compact.pgmigrate_success,
            frames_scanned: compact.compact_migrate_scanned + compact.compact_free_scanned,
            headers_scanned: compact.compact_headers_scanned,
            ends: self.hours().is_none(),
            hours: timeline.hours(),
            frequency,
            samples: Vec::new(),
        }
    }
}

/// The order of the unusable free space index: that of network buffers and stacks. During constant
/// reclaim only a few hundred frames are free, and no larger blocks.
const INDEX_ORDER: usize = 3;

/// The free blocks of all zones.
fn blocks(memory: &Memory<'_, Simulated>) -> Blocks {
    let mut blocks = [0; Order::COUNT];
    for zone in memory.zones() {
        let counts = memory.block_counts(zone.id).by_order();
        blocks.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
    }
    let huge = usize::from(Order::PAGEBLOCK.get());
    let free_huge = (huge..).zip(&blocks[huge..]).map(|(order, count)| count << (order - huge));
    Blocks {
        unusable: unusable_index(&blocks, INDEX_ORDER),
        free_huge: free_huge.sum(),
        movable: 0,
    }
}

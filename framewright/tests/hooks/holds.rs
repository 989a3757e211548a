//! Random allocations and frees on random machines: nothing is lost, and no free visits more pageblocks under one hold
//! of the zone lock than `pcp.hold_pageblocks`. Each run draws other machines and prints its seed.
//! `FRAMEWRIGHT_STRESS_SEED` repeats a run.
#![cfg(not(any(miri, framewright_loom, framewright_tso)))]

use std::{
    env,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
};

use fastrand::Rng;
use framewright::{
    Block, Config, CpuToken, FrameRange, Memory, MigrateType, Order, Pfn, Request,
    platform::{Cost, Section},
};
use framewright_fakes::{FakePlatform, Metadata, ProbeCall, ProbedPlatform, cpu};

/// Machines of one run.
const MACHINES: u32 = 12;
/// The default of `pcp.hold_pageblocks` with up to 8 CPUs, and with more.
const AUTO: [u32; 2] = [16, 64];

/// The parameters of one machine and its work.
#[derive(Debug)]
struct Drawn {
    pageblocks: u64,
    cpus: u16,
    /// Memory in use, in percent.
    occupancy: u64,
    /// One block in this number is a huge page.
    huge_one_in: u16,
    /// One block in this number is freed by another CPU than the one that allocated it.
    freed_by_other_one_in: u16,
    has_types: bool,
    /// `None`: the default.
    hold: Option<u32>,
    /// Whether the depot may have an eighth of the zone. Otherwise it has its default size.
    has_large_depot: bool,
    operations: u32,
    seed: u64,
}

impl Drawn {
    fn new(random: &mut Rng) -> Self {
        let cpus = random.u16(1..=16);
        Self {
            pageblocks: random.u64(u64::from(cpus).max(8)..=128),
            cpus,
            occupancy: random.u64(30..=95),
            huge_one_in: random.choice([64, 512, u16::MAX]).unwrap(),
            freed_by_other_one_in: random.choice([1, 8, u16::MAX]).unwrap(),
            has_types: random.bool(),
            hold: random.bool().then(|| random.u32(1..=64)),
            has_large_depot: random.bool(),
            operations: random.u32(10_000..=100_000),
            seed: random.u64(..),
        }
    }

    /// Pageblocks that a free may visit under one hold.
    fn bound(&self) -> u32 {
        self.hold.unwrap_or(AUTO[usize::from(self.cpus > 8)])
    }

    fn request(&self, random: &mut Rng) -> Request {
        if random.u16(..self.huge_one_in) == 0 {
            return Request::new(Order::PAGEBLOCK, MigrateType::Movable);
        }
        let order = Order::new((random.u8(..) | 16).trailing_zeros() as u8).unwrap();
        let migratetype = match random.u8(..20) {
            0 if self.has_types => MigrateType::Unmovable,
            1..4 if self.has_types => MigrateType::Reclaimable,
            _ => MigrateType::Movable,
        };
        Request::new(order, migratetype)
    }
}

/// The pageblocks visited in the current hold of the zone lock, and the maximum over the holds.
#[derive(Default)]
struct Visits {
    now: AtomicU32,
    most: AtomicU32,
}

impl Visits {
    fn hear(&self, call: ProbeCall) {
        match call {
            ProbeCall::Enter(Section::Zone(_)) => self.now.store(0, Relaxed),
            ProbeCall::Cost(Cost::GivePageblocks, count) => {
                let now = self.now.fetch_add(count, Relaxed) + count;
                self.most.fetch_max(now, Relaxed);
            }
            _ => {}
        }
    }

    /// The maximum since the last call.
    fn take(&self) -> u32 {
        self.most.swap(0, Relaxed)
    }
}

fn run(drawn: &Drawn) {
    let frames = drawn.pageblocks * 512;
    let map = [FrameRange::new(Pfn::new(0), Pfn::new(frames)).unwrap().into()];
    let mut config = Config::new(&map, drawn.cpus);
    config.tuning.set("zone.min_free", "0").unwrap();
    config.tuning.set("zone.watermark_scale", "1").unwrap();
    if drawn.has_large_depot {
        config.tuning.set("zone.depot_divisor", "8").unwrap();
    }
    if let Some(hold) = drawn.hold {
        config.tuning.set("pcp.hold_pageblocks", &hold.to_string()).unwrap();
    }
    let visits = Arc::new(Visits::default());
    let platform = FakePlatform::default().probed();
    platform.set_tick(1_000_000);
    platform.on_probe({
        let visits = Arc::clone(&visits);
        move |call| visits.hear(call)
    });
    let mut metadata = Metadata::of::<ProbedPlatform>(&config);
    let memory = Memory::new(platform, &config, metadata.as_mut()).unwrap();
    churn(drawn, &memory, &visits);
    memory.drain_all();
    memory.check().unwrap();
    assert_eq!(memory.free(), frames, "frames were lost");
}

/// The CPUs, and the blocks that they have allocated.
struct Cpus<'a, 'm> {
    drawn: &'a Drawn,
    tokens: Vec<CpuToken<'a, 'm, ProbedPlatform>>,
    blocks: Vec<(usize, Block<'m>)>,
    used: u64,
    random: Rng,
    visits: &'a Visits,
}

impl Cpus<'_, '_> {
    fn alloc(&mut self, request: Request) {
        let by = self.random.usize(..self.tokens.len());
        if let Ok(block) = self.tokens[by].alloc(request) {
            self.used += block.order().frames();
            self.blocks.push((by, block));
        }
    }

    /// Frees a random block, and checks the pageblocks that the free visits.
    fn free(&mut self) {
        let (allocated_by, block) = self.blocks.swap_remove(self.random.usize(..self.blocks.len()));
        let by = match self.random.u16(..self.drawn.freed_by_other_one_in) {
            0 => self.random.usize(..self.tokens.len()),
            _ => allocated_by,
        };
        self.used -= block.order().frames();
        self.visits.take();
        self.tokens[by].free(block).unwrap();
        let (visited, bound) = (self.visits.take(), self.drawn.bound());
        assert!(
            visited <= bound,
            "a free visited {visited} pageblocks under one hold: {bound} are allowed"
        );
    }
}

/// Random allocations and frees at the occupancy. In the end everything is freed.
fn churn(drawn: &Drawn, memory: &Memory<'_, ProbedPlatform>, visits: &Visits) {
    let tokens = (0..drawn.cpus).map(|number| memory.cpu(cpu(number)).unwrap()).collect();
    let random = Rng::with_seed(drawn.seed);
    let mut cpus = Cpus { drawn, tokens, blocks: Vec::new(), used: 0, random, visits };
    let most = memory.managed() * drawn.occupancy / 100;
    for _ in 0..drawn.operations {
        let next = drawn.request(&mut cpus.random);
        let fits = cpus.used + next.order().frames() <= most;
        if cpus.blocks.is_empty() || fits && cpus.random.u8(..8) < 5 {
            cpus.alloc(next);
        } else {
            cpus.free();
        }
    }
    while !cpus.blocks.is_empty() {
        cpus.free();
    }
}

#[test]
fn random_machines_lose_nothing_and_bound_the_holds_of_frees() {
    let seed = env::var("FRAMEWRIGHT_STRESS_SEED").ok();
    let seed = seed.map_or_else(|| fastrand::u64(..), |seed| seed.parse().expect("a number"));
    println!("FRAMEWRIGHT_STRESS_SEED={seed}");
    let random = &mut Rng::with_seed(seed);
    for _ in 0..MACHINES {
        let drawn = Drawn::new(random);
        println!("{drawn:?}");
        run(&drawn);
    }
}

//! The workloads. Each has rounds of the same kind; the first third warms up.

use std::mem::MaybeUninit;

use framewright::{
    Block, Config, CpuId, CpuToken, FrameRange, Layout, Memory, MigrateType, Order, Pfn, Request,
    Tuning, tuning::Auto,
};

use crate::machine::{Machine, Part, run, warmed_up};

/// Rounds, of which the first third is not counted.
const ROUNDS: u32 = 9;
/// Allocations and frees in a round, each.
const PAIRS: usize = 32_768;
/// Calls of [`NOTHING`] that are counted.
pub(crate) const NOTHINGS: u64 = (ROUNDS - ROUNDS / 3) as u64 * PAIRS as u64;
const PAGE: Order = Order::ZERO;

/// Requests on one CPU.
pub(crate) struct Workload {
    pub(crate) name: &'static str,
    kind: Kind,
    /// CPUs that share the zone. Only one of them runs.
    cpus: u16,
    mib: u64,
}

#[derive(Clone, Copy)]
enum Kind {
    /// Nothing is done, in as many calls as of allocations.
    Nothing,
    /// One block of the order is allocated and freed again and again. It does not leave its ring.
    Pairs(u8),
    /// Blocks of these orders in turn are allocated, then all are freed.
    Bursts { orders: &'static [u8], blocks: usize, shuffled: bool },
    /// Single frames in use, in percent: random ones are freed, as many at a time as stated, then as many allocated.
    Scattered { in_use: u64, batch: usize },
    /// Blocks of orders 0 to 4 in use, in percent, and perhaps some of order 9: random ones are freed.
    Churn { in_use: u64, huge: bool },
}

const fn workload(name: &'static str, kind: Kind, cpus: u16, mib: u64) -> Workload {
    Workload { name, kind, cpus, mib }
}

/// Shows how many instructions belong to the counting itself.
pub(crate) const NOTHING: Workload = workload("nothing", Kind::Nothing, 1, 1024);

pub(crate) const WORKLOADS: &[Workload] = {
    use Kind::{Bursts, Churn, Pairs, Scattered};
    const ONE: &[u8] = &[0];
    const FOUR: &[u8] = &[0, 1, 2, 3];
    &[
        workload("pairs", Pairs(0), 1, 1024),
        workload("pairs-order2", Pairs(2), 1, 1024),
        workload("mapping", Bursts { orders: ONE, blocks: PAIRS, shuffled: false }, 1, 1024),
        workload("mapping-16", Bursts { orders: ONE, blocks: PAIRS, shuffled: false }, 16, 4096),
        workload("random", Bursts { orders: ONE, blocks: PAIRS, shuffled: true }, 1, 1024),
        workload("random-16", Bursts { orders: ONE, blocks: PAIRS, shuffled: true }, 16, 4096),
        workload("large", Bursts { orders: ONE, blocks: 4 * PAIRS, shuffled: true }, 1, 1024),
        workload("large-16", Bursts { orders: ONE, blocks: 4 * PAIRS, shuffled: true }, 16, 1024),
        workload("orders", Bursts { orders: FOUR, blocks: PAIRS, shuffled: true }, 1, 1024),
        workload("orders-16", Bursts { orders: FOUR, blocks: PAIRS, shuffled: true }, 16, 4096),
        workload("huge", Bursts { orders: &[9], blocks: 128, shuffled: false }, 1, 1024),
        workload("huge-16", Bursts { orders: &[9], blocks: 128, shuffled: false }, 16, 1024),
        workload("half", Scattered { in_use: 50, batch: PAIRS }, 1, 1024),
        workload("half-16", Scattered { in_use: 50, batch: PAIRS }, 16, 4096),
        workload("quarter-4", Scattered { in_use: 75, batch: PAIRS }, 4, 4096),
        workload("pressure", Scattered { in_use: 98, batch: 4096 }, 1, 1024),
        workload("pressure-4", Scattered { in_use: 98, batch: 8192 }, 4, 4096),
        workload("replace", Scattered { in_use: 50, batch: 1 }, 1, 1024),
        workload("replace-16", Scattered { in_use: 50, batch: 1 }, 16, 4096),
        workload("replace-4", Scattered { in_use: 10, batch: 1 }, 4, 4096),
        workload("small", Churn { in_use: 80, huge: false }, 1, 1024),
        workload("small-16", Churn { in_use: 95, huge: false }, 16, 4096),
        workload("mixed", Churn { in_use: 95, huge: true }, 1, 1024),
        workload("mixed-16", Churn { in_use: 80, huge: true }, 16, 4096),
    ]
};

impl Workload {
    pub(crate) fn run<const LISTENING: bool>(&self) {
        let frames = self.mib << 8;
        let map = [FrameRange::new(Pfn::new(0), Pfn::new(frames)).expect("ascending").into()];
        let mut tuning = Tuning::default();
        // Without reserves, so that memory can be nearly full.
        tuning.zone.min_free = Auto::Fixed(0);
        tuning.zone.watermark_scale = 1;
        let config = Config::new(&map, self.cpus).with_tuning(tuning);
        let layout = Layout::new::<Machine<LISTENING>>(&config).expect("a valid configuration");
        let mut buffer = vec![MaybeUninit::uninit(); layout.bytes() + layout.align()];
        let start = buffer.as_ptr().align_offset(layout.align());
        let memory = Memory::new(Machine::<LISTENING>, &config, &mut buffer[start..])
            .expect("the buffer is as large as the layout");
        let mut cpu = memory.cpu(CpuId::new(0)).expect("the CPU is not claimed");
        Run { cpu: &mut cpu, used: Vec::new(), random: 1 }.rounds(self.kind, frames);
    }
}

/// A call for each allocation, as in a kernel: nothing of it is computed once for many.
#[inline(never)]
fn alloc<'m, const LISTENING: bool>(
    cpu: &mut CpuToken<'_, 'm, Machine<LISTENING>>,
    order: Order,
) -> Option<Block<'m>> {
    cpu.alloc(Request::new(order, MigrateType::Movable)).ok()
}

#[inline(never)]
fn free<'m, const LISTENING: bool>(
    cpu: &mut CpuToken<'_, 'm, Machine<LISTENING>>,
    block: Block<'m>,
) {
    cpu.free(block).expect("the block is of this memory");
}

/// A workload while it runs.
struct Run<'r, 'a, 'm, const LISTENING: bool> {
    cpu: &'r mut CpuToken<'a, 'm, Machine<LISTENING>>,
    used: Vec<Block<'m>>,
    random: u64,
}

impl<'m, const LISTENING: bool> Run<'_, '_, 'm, LISTENING> {
    fn rounds(mut self, kind: Kind, frames: u64) {
        if let Kind::Scattered { in_use, .. } = kind {
            while let Some(block) = self.alloc(PAGE) {
                self.used.push(block);
            }
            while self.used.len() as u64 > frames * in_use / 100 {
                self.free_random();
            }
        }
        for round in 0..ROUNDS {
            if round == ROUNDS / 3 {
                warmed_up();
            }
            self.round(kind, frames);
        }
    }

    fn round(&mut self, kind: Kind, frames: u64) {
        match kind {
            Kind::Nothing => (0..PAIRS).for_each(|_| run(Part::Alloc, || ())),
            Kind::Pairs(order) => (0..PAIRS).for_each(|_| {
                let block = self.must_alloc(order);
                self.free(block);
            }),
            Kind::Bursts { orders, blocks, shuffled } => {
                for i in 0..blocks {
                    let block = self.must_alloc(orders[i % orders.len()]);
                    self.used.push(block);
                }
                if shuffled {
                    (0..blocks).for_each(|_| self.free_random());
                } else {
                    std::mem::take(&mut self.used).into_iter().for_each(|block| self.free(block));
                }
            }
            Kind::Scattered { batch, .. } => (0..PAIRS.div_ceil(batch)).for_each(|_| {
                (0..batch).for_each(|_| self.free_random());
                (0..batch).for_each(|_| {
                    let block = self.must_alloc(0);
                    self.used.push(block);
                });
            }),
            Kind::Churn { in_use, huge } => self.churn(frames * in_use / 100, huge),
        }
    }

    /// Small orders are more frequent. One block in 512 is huge.
    fn churn(&mut self, most: u64, huge: bool) {
        const ORDERS: [u8; 10] = [0, 0, 0, 0, 1, 1, 2, 2, 3, 4];
        let mut held: u64 = self.used.iter().map(|block| block.order().frames()).sum();
        for _ in 0..2 * PAIRS {
            if held >= most {
                let index = self.below(self.used.len());
                let block = self.used.swap_remove(index);
                held -= block.order().frames();
                self.free(block);
            } else {
                let order =
                    if huge && self.below(512) == 0 { 9 } else { ORDERS[self.below(ORDERS.len())] };
                if let Some(block) = self.alloc(Order::new(order).expect("an order")) {
                    held += block.order().frames();
                    self.used.push(block);
                }
            }
        }
    }

    fn alloc(&mut self, order: Order) -> Option<Block<'m>> {
        run(Part::Alloc, || alloc(self.cpu, order))
    }

    fn must_alloc(&mut self, order: u8) -> Block<'m> {
        self.alloc(Order::new(order).expect("an order")).expect("there is enough")
    }

    fn free(&mut self, block: Block<'m>) {
        run(Part::Free, || free(self.cpu, block));
    }

    fn free_random(&mut self) {
        let index = self.below(self.used.len());
        let block = self.used.swap_remove(index);
        self.free(block);
    }

    /// A random number below `end`.
    fn below(&mut self, end: usize) -> usize {
        let factor = 6_364_136_223_846_793_005;
        self.random = self.random.wrapping_mul(factor).wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 33) as usize % end
    }
}

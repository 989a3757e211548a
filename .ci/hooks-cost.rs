//! The work that `.ci/hooks-cost` counts: allocations and frees on one CPU of a small memory.
//!
//! Arguments: the kind of work, and the number of rounds.

use framewright::{
    Block, Config, CpuId, CpuToken, FrameRange, Layout, Memory, MigrateType, Order, Pfn, Platform,
    Request, Tuning,
    observe::Corruption,
    platform::{BarrierTarget, OwnerLock, Probe, Wait},
    sync::{PlainWord, SpinFlag},
    tuning::Auto,
};
use std::mem::MaybeUninit;

/// A platform with one thread. No memory backs the frames.
struct Machine;

// SAFETY: the lock is the library's. There is only one thread.
unsafe impl Platform for Machine {
    type Lock = SpinFlag;
    type Word = PlainWord;
    type Irq = ();

    fn irq_save(&self) {}
    fn irq_restore(&self, (): ()) {}
    fn owner_lock(&self) -> OwnerLock {
        OwnerLock::Biased
    }
    fn remote_barrier(&self, _: BarrierTarget) {}
    fn wait(&self, _: Wait, _: u32) {
        std::hint::spin_loop();
    }
    unsafe fn clear(&self, _: Pfn, _: Order) {}
    unsafe fn copy(&self, _: Pfn, _: Pfn) {}
    fn now(&self) -> u64 {
        0
    }
    fn corruption(&self, report: &Corruption) {
        panic!("{report}");
    }
}

impl Probe for Machine {}

/// The number of pairs in a round.
const PAIRS: usize = 32_768;
/// The number of frames in the zone: 1 GiB.
const FRAMES: u64 = 1 << 18;

type Token<'a, 'm> = CpuToken<'a, 'm, Machine>;

#[inline(never)]
fn counted_alloc<'m>(cpu: &mut Token<'_, 'm>, order: Order) -> Block<'m> {
    cpu.alloc(Request::new(order, MigrateType::Movable)).expect("there is enough")
}

#[inline(never)]
fn counted_free<'m>(cpu: &mut Token<'_, 'm>, block: Block<'m>) {
    cpu.free(block).expect("the block is of this memory");
}

/// Allocates and frees one frame again and again. The frame does not leave its ring.
fn hot(cpu: &mut Token<'_, '_>) {
    for _ in 0..PAIRS {
        let block = counted_alloc(cpu, Order::ZERO);
        counted_free(cpu, block);
    }
}

/// Allocates a burst of blocks, of order `order(i)` for the i-th. Frees them in the sequence that
/// `sort` leaves.
fn burst(
    cpu: &mut Token<'_, '_>,
    order: impl Fn(usize) -> Order,
    sort: impl FnOnce(&mut Vec<Block<'_>>),
) {
    let mut blocks: Vec<Block<'_>> = (0..PAIRS).map(|i| counted_alloc(cpu, order(i))).collect();
    sort(&mut blocks);
    blocks.into_iter().for_each(|block| counted_free(cpu, block));
}

/// A fixed permutation.
fn shuffle(blocks: &mut [Block<'_>]) {
    let mut state = 1u64;
    for i in (1..blocks.len()).rev() {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        blocks.swap(i, (state >> 33) as usize % (i + 1));
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let work = arguments.next().expect("which work");
    let rounds: u32 = arguments.next().and_then(|text| text.parse().ok()).expect("how many rounds");

    let map = [FrameRange::new(Pfn::new(0), Pfn::new(FRAMES)).expect("ascending").into()];
    let mut tuning = Tuning::default();
    tuning.zone.min_free = Auto::Fixed(0);
    tuning.zone.watermark_scale = 1;
    if work == "depot" {
        tuning.zone.depot_divisor = Auto::Fixed(8);
        tuning.pcp.high_fraction = 200;
    }
    let config = Config::new(&map, 4).with_tuning(tuning);
    let layout = Layout::new::<Machine>(&config).expect("a valid configuration");
    let mut buffer = vec![MaybeUninit::uninit(); layout.bytes() + layout.align()];
    let start = buffer.as_ptr().align_offset(layout.align());
    let memory = Memory::new(Machine, &config, &mut buffer[start..]).expect("a valid buffer");
    let mut cpu = memory.cpu(CpuId::new(0)).expect("the CPU is not claimed");

    let small = |i: usize| Order::new([0, 1, 2, 3][i % 4]).expect("orders that exist");
    for _ in 0..rounds {
        match work.as_str() {
            "hot" => hot(&mut cpu),
            "mapping" => burst(&mut cpu, |_| Order::ZERO, |_| ()),
            "random" | "depot" => burst(&mut cpu, |_| Order::ZERO, |blocks| shuffle(blocks)),
            "orders" => burst(&mut cpu, small, |blocks| shuffle(blocks)),
            _ => panic!("'{work}' is not hot, mapping, random, depot or orders"),
        }
    }
}

//! The work that `framewright reproduce hot-path` counts: bursts of allocations and then frees, on
//! one CPU of a memory of 1 GiB. Lists are refilled under the zone lock again and again.
//!
//! Arguments: the allocator (`list-buddy`; `list-buddy-chosen-before`, which selects the blocks of
//! a bulk free before it takes the lock; `framewright`; or `framewright-one-by-one`, the library
//! taking batches block by block), the order of frees (`mapping` or `random`), and the number of
//! bursts. Prints the number of frames that refills took. With `--cfg framewright_outlined`, the
//! compiler does not inline the function that takes frames.

use framewright::{
    Block, Config, CpuId, CpuToken, FrameRange, Layout, Memory, MigrateType, Order, Pfn, Platform,
    Request, Tuning,
    observe::Corruption,
    platform::{BarrierTarget, OwnerLock, Probe, Wait},
    sync::{PlainWord, SpinFlag},
    tuning::{Auto, BulkTake},
};
use framewright_peers::list_buddy::{self, BulkFree, ListBuddy};
use std::mem::MaybeUninit;

/// Frames of a burst: 128 MiB.
const BURST: usize = 32_768;
/// Frames of the zone: 1 GiB.
const FRAMES: u64 = 1 << 18;
/// CPUs that share the zone; one of them works.
const CPUS: u16 = 4;
/// Frames per batch, for both allocators.
const BATCH: u32 = 31;
/// Limit of frames on a CPU's lists, for both allocators.
const HIGH: u32 = 6 * BATCH;

/// One thread, without memory behind the frames.
struct Machine;

// SAFETY: the lock is the library's own, and there is only one thread.
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

/// Allocation and free of one frame.
trait Frames {
    type Frame;

    fn take(&mut self) -> Self::Frame;
    fn give(&mut self, frame: Self::Frame);
}

impl<'m> Frames for CpuToken<'_, 'm, Machine> {
    type Frame = Block<'m>;

    fn take(&mut self) -> Block<'m> {
        self.alloc(Request::new(Order::ZERO, MigrateType::Movable)).expect("there is enough")
    }

    fn give(&mut self, block: Block<'m>) {
        self.free(block).expect("it is ours");
    }
}

impl Frames for &ListBuddy {
    type Frame = u64;

    fn take(&mut self) -> u64 {
        self.alloc(0, 0, list_buddy::MigrateType::Movable).expect("there is enough")
    }

    fn give(&mut self, frame: u64) {
        self.free(0, frame, 0).expect("it is allocated");
    }
}

fn bursts<F: Frames>(mut cpu: F, random: bool, bursts: u32) {
    for _ in 0..bursts {
        let mut frames: Vec<F::Frame> = (0..BURST).map(|_| cpu.take()).collect();
        if random {
            shuffle(&mut frames);
        }
        frames.into_iter().for_each(|frame| cpu.give(frame));
    }
}

/// The same permutation for all allocators.
fn shuffle<T>(frames: &mut [T]) {
    let mut state = 1u64;
    for i in (1..frames.len()).rev() {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        frames.swap(i, (state >> 33) as usize % (i + 1));
    }
}

fn list_buddy(bulk_free: BulkFree, random: bool, rounds: u32) -> u64 {
    let tuning = list_buddy::Tuning {
        bulk_free,
        batch: Some(BATCH),
        high: Some(HIGH),
        ..list_buddy::Tuning::default()
    };
    let buddy = ListBuddy::with_tuning(FRAMES, CPUS.into(), &tuning);
    bursts(&buddy, random, rounds);
    buddy.stats().cpus.refilled_frames
}

fn framewright(how: BulkTake, random: bool, rounds: u32) -> u64 {
    let map = [FrameRange::new(Pfn::new(0), Pfn::new(FRAMES)).expect("ascending").into()];
    let mut tuning = Tuning::default();
    tuning.zone.min_free = Auto::Fixed(0);
    tuning.zone.watermark_scale = 1;
    tuning.zone.bulk_take = how;
    tuning.pcp.batch = Auto::Fixed(BATCH);
    tuning.pcp.high_fraction = FRAMES as u32 / (HIGH * u32::from(CPUS));
    tuning.pcp.scale_max = 0;
    let config = Config::new(&map, CPUS).with_tuning(tuning);
    let layout = Layout::new::<Machine>(&config).expect("a valid configuration");
    let mut buffer = vec![MaybeUninit::uninit(); layout.bytes() + layout.align()];
    let start = buffer.as_ptr().align_offset(layout.align());
    let memory = Memory::new(Machine, &config, &mut buffer[start..]).expect("a valid buffer");
    bursts(memory.cpu(CpuId::new(0)).expect("the first token"), random, rounds);
    memory.stats().refilled_frames
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let known = |order: &str| ["mapping", "random"].contains(&order);
    let [subject, order, rounds] = words[..] else { return usage() };
    let Some(rounds) = rounds.parse().ok().filter(|_| known(order)) else { return usage() };
    let random = order == "random";
    println!(
        "{}",
        match subject {
            "list-buddy" => list_buddy(BulkFree::SelectUnderLock, random, rounds),
            "list-buddy-chosen-before" => list_buddy(BulkFree::SelectBeforeLock, random, rounds),
            "framewright" => framewright(BulkTake::Bulk, random, rounds),
            "framewright-one-by-one" => framewright(BulkTake::OneByOne, random, rounds),
            _ => return usage(),
        }
    );
}

fn usage() {
    let subjects = "list-buddy|list-buddy-chosen-before|framewright|framewright-one-by-one";
    eprintln!("bulk-take {subjects} mapping|random BURSTS");
    std::process::exit(2);
}

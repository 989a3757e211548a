//! Probes of one thread: the clock, atomics, system calls, clearing and copying frames, and the
//! instructions of the library.

use framewright::{Config, CpuId, Layout, Memory, MigrateType, Order, Request};
use framewright_host::{Backing, HostMachine, Metadata};
use framewright_sim::host_memory::in_huge_pages;
use std::{
    cell::RefCell,
    hint::black_box,
    rc::Rc,
    sync::atomic::{AtomicU64, Ordering::SeqCst},
    time::Instant,
};

use super::probe::{Probe, Quantity, cpu_nanos};

/// Cycles of a dependent multiplication of 64 bits and an exclusive or, on every x86-64 processor since
/// 2008 and on common ones of AArch64.
const MULTIPLY_CYCLES: f64 = 4.0;
/// Words of a frame.
const FRAME_WORDS: usize = 512;
/// Frames of the buffer for cold frames: 128 MiB, more than the caches of most processors.
const COLD_FRAMES: usize = 32 << 10;
/// Cold frames that a round clears: a sixteenth of the buffer, so that they have left the caches
/// when their turn comes again.
const COLD_ROUND: usize = COLD_FRAMES / 16;
/// Frames that a second-level cache holds.
const HOT_FRAMES: usize = 16;

const TIMER: [Quantity; 1] =
    [Quantity::nanos("timer_read_ns", "reading the monotonic clock, repeatedly")];
const CYCLE: [Quantity; 1] = [Quantity::nanos(
    "cycle_ns",
    "a chain of dependent multiplications and exclusive ors, of 4 cycles each",
)];
const ATOMIC: [Quantity; 1] =
    [Quantity::nanos("atomic_ns", "an atomic addition to a line in the first-level cache")];
const SYSCALL: [Quantity; 1] = [Quantity::nanos("syscall_ns", "getppid")];
const CLEAR: [Quantity; 2] = [
    Quantity::nanos("clear_ns", "filling a frame with zeroes, frames of 128 MiB in turn"),
    Quantity::nanos(
        "clear_hot_ns",
        "filling a frame with zeroes, the same 16 frames again and again",
    ),
];
const COPY: [Quantity; 2] = [
    Quantity::nanos("copy_ns", "copying a frame, frames of 128 MiB in turn"),
    Quantity::nanos("copy_hot_ns", "copying a frame, the same 16 frames again and again"),
];
const PAIR: [Quantity; 1] = [Quantity::nanos(
    "hot_pair_ns",
    "an allocation and a free of the library that never leave the ring",
)];

pub(super) fn probes<'m>() -> Vec<Probe<'m>> {
    let cycle = match cfg!(any(target_arch = "x86_64", target_arch = "aarch64")) {
        true => Probe::single(&CYCLE, || cpu_nanos(|| multiply(1 << 20)) / MULTIPLY_CYCLES),
        false => Probe::missing(&CYCLE, "the time of a multiplication is not known here".into()),
    };
    let pair = match cfg!(debug_assertions) {
        false => Probe::new(&PAIR, || Ok(vec![hot_pair()?])),
        true => Probe::missing(&PAIR, "this program is a debug build".into()),
    };
    let timer = Probe::single(&TIMER, || {
        cpu_nanos(|| {
            (0..50_000).for_each(|_| _ = black_box(Instant::now()));
            50_000
        })
    });
    let atomic = Probe::single(&ATOMIC, || {
        let word = AtomicU64::new(0);
        cpu_nanos(|| {
            (0..500_000).for_each(|_| _ = black_box(&word).fetch_add(1, SeqCst));
            500_000
        })
    });
    let syscall = Probe::single(&SYSCALL, || {
        cpu_nanos(|| {
            (0..20_000).for_each(|_| _ = black_box(rustix::process::getppid()));
            20_000
        })
    });
    let [clear, copy] = frames();
    vec![timer, cycle, atomic, syscall, clear, copy, pair]
}

/// `count` dependent multiplications. Without the exclusive or, the compiler would multiply the factors
/// with each other first.
pub(super) fn multiply(count: u64) -> u64 {
    let factor = black_box(0x9E37_79B9_7F4A_7C15_u64);
    let mut value = black_box(1_u64);
    for turn in 0..count {
        value = value.wrapping_mul(factor) ^ turn;
    }
    black_box(value);
    count
}

/// The probes that clear and copy frames.
fn frames<'m>() -> [Probe<'m>; 2] {
    let mut words: Vec<u64> = Vec::with_capacity(COLD_FRAMES * FRAME_WORDS);
    in_huge_pages(words.spare_capacity_mut());
    words.resize(COLD_FRAMES * FRAME_WORDS, 1);
    let frames = Rc::new(RefCell::new(Frames { words, turn: 0 }));
    let probe = |quantities, work: fn(&mut [u64], u64) -> u64| {
        let frames = Rc::clone(&frames);
        Probe::new(quantities, move || {
            let mut frames = frames.borrow_mut();
            let part = frames.next_part();
            let cold = cpu_nanos(|| work(part, 1));
            let part = &mut part[..HOT_FRAMES * FRAME_WORDS];
            work(part, 1);
            Ok(vec![cold, cpu_nanos(|| work(part, 100))])
        })
    };
    [probe(&CLEAR, clear), probe(&COPY, copy)]
}

/// A buffer of frames that are used in turn.
struct Frames {
    words: Vec<u64>,
    turn: usize,
}

impl Frames {
    fn next_part(&mut self) -> &mut [u64] {
        let words = COLD_ROUND * FRAME_WORDS;
        let start = self.turn * words % self.words.len();
        self.turn += 1;
        &mut self.words[start..start + words]
    }
}

/// Clears each frame of `words`, `times` times. Returns the number of cleared frames.
fn clear(words: &mut [u64], times: u64) -> u64 {
    for _ in 0..times {
        for frame in words.chunks_exact_mut(FRAME_WORDS) {
            black_box(frame).fill(0);
        }
    }
    times * (words.len() / FRAME_WORDS) as u64
}

/// Copies the first half of `words` to the second, frame by frame, `times` times. Returns the number
/// of copied frames.
fn copy(words: &mut [u64], times: u64) -> u64 {
    let (from, to) = words.split_at_mut(words.len() / 2);
    for _ in 0..times {
        let pairs = to.chunks_exact_mut(FRAME_WORDS).zip(from.chunks_exact(FRAME_WORDS));
        pairs.for_each(|(to, from)| black_box(to).copy_from_slice(black_box(from)));
    }
    times * (to.len() / FRAME_WORDS) as u64
}

/// Nanoseconds of an allocation and a free.
fn hot_pair() -> Result<f64, String> {
    let machine = HostMachine::builder().frames(4096).backing(Backing::MetadataOnly).build();
    let machine = machine.map_err(|error| error.to_string())?;
    let map = [machine.frames().into()];
    let config = Config::new(&map, 1);
    let layout = Layout::new::<HostMachine>(&config).map_err(|error| error.to_string())?;
    let mut metadata = Metadata::for_layout(&layout).map_err(|error| error.to_string())?;
    let memory = Memory::new(machine, &config, metadata.as_mut());
    let memory = memory.map_err(|error| error.to_string())?;
    let mut cpu = memory.cpu(CpuId::new(0)).map_err(|error| error.to_string())?;
    let request = Request::new(Order::ZERO, MigrateType::Movable);
    let mut pairs = |count: u64| {
        for _ in 0..count {
            if let Ok(block) = cpu.alloc(black_box(request)) {
                let _ = cpu.free(black_box(block));
            }
        }
        count
    };
    pairs(1000);
    Ok(cpu_nanos(|| pairs(100_000)))
}

//! Latencies by the place of a line, independent misses, and bandwidth.

use framewright_sim::host_memory::in_huge_pages;
use std::{
    cell::RefCell,
    hint::black_box,
    rc::Rc,
    sync::{
        Barrier,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
    time::Instant,
};

use super::{
    Means,
    probe::{Probe, Quantity, cpu_nanos},
    two::beside,
};
use crate::clock::settle;
use crate::report::Unit;

/// Words of a cache line.
const LINE: usize = 8;
/// Bytes of the buffer for latencies of memory, at least and at most. Between these, it is four
/// times the last-level cache.
const MEMORY: std::ops::RangeInclusive<usize> = 128 << 20..=512 << 20;
/// Chains that are followed at once: more than the misses that a core can have in flight.
const CHAINS: usize = 24;
/// The maximum number of threads that read at once.
const MOST_READERS: usize = 64;

const L1: [Quantity; 1] =
    [Quantity::nanos("l1_ns", "a chain of dependent loads in half of the first-level cache")];
const L2: [Quantity; 1] = [Quantity::nanos(
    "l2_ns",
    "a chain of dependent loads, random in half of the second-level cache",
)];
const LLC: [Quantity; 1] = [Quantity::nanos(
    "llc_ns",
    "a chain of dependent loads, random in a part of the last-level cache",
)];
const DRAM: [Quantity; 2] = [
    Quantity::nanos(
        "dram_ns",
        "a chain of dependent loads, random in four times the last-level cache",
    ),
    Quantity::nanos("dram_parallel_ns", "the same with 24 independent chains at once, per load"),
];
const LOADED: [Quantity; 1] = [Quantity {
    name: "loaded_percent",
    unit: Unit::Percent,
    how: "loads of memory while another CPU reads memory, relative to those without",
}];
const REMOTE: [Quantity; 1] =
    [Quantity::nanos("dram_remote_ns", "a chain of dependent loads of memory of another socket")];
const BANDWIDTH: [Quantity; 1] = [Quantity {
    name: "bandwidth_bytes_per_s",
    unit: Unit::BytesPerSecond,
    how: "one thread on each CPU of this process reads memory in ascending order",
}];

pub(super) fn probes(means: &Means) -> Vec<Probe<'_>> {
    let [l1, l2, llc] = means.caches;
    let unknown = |level: u32| format!("the kernel does not say how large cache {level} is");
    let at = |quantity: &'static [Quantity; 1], bytes: Option<usize>, level, steps| match bytes {
        None => Probe::missing(quantity, unknown(level)),
        Some(bytes) => {
            let mut chain = Chain::new(bytes);
            Probe::single(quantity, move || cpu_nanos(|| chain.follow(steps)))
        }
    };
    // Far more than the second-level cache, and far less than the last-level one, which other CPUs use too.
    let of_llc = l2.zip(llc).map(|(l2, llc)| (4 * l2).min(llc / 2).max(llc / 8));
    let mut probes = vec![
        at(&L1, l1.map(|l1| l1 / 2), 1, 1_000_000),
        at(&L2, l2.map(|l2| l2 / 2), 2, 500_000),
        at(&LLC, of_llc, 3, 200_000),
    ];
    let bytes = (4 * llc.unwrap_or(0)).clamp(*MEMORY.start(), *MEMORY.end());
    probes.extend(of_memory(means, bytes));
    probes
}

/// The probes of memory, with buffers of `bytes` bytes.
fn of_memory<'m>(means: &'m Means, bytes: usize) -> Vec<Probe<'m>> {
    let chain = Rc::new(RefCell::new(Chain::new(bytes)));
    let buffer = Rc::new(vec![1_u64; bytes / 8]);
    in_huge_pages(&buffer);
    let dram = Probe::new(&DRAM, {
        let chain = Rc::clone(&chain);
        move || {
            let mut chain = chain.borrow_mut();
            let alone = cpu_nanos(|| chain.follow(40_000));
            Ok(vec![alone, cpu_nanos(|| chain.follow_many(10_000))])
        }
    });
    let loaded = match &means.second {
        Err(reason) => Probe::missing(&LOADED, reason.clone()),
        Ok(second) => {
            let (chain, buffer) = (Rc::clone(&chain), Rc::clone(&buffer));
            Probe::single(&LOADED, move || {
                let (words, mut chain) = (&buffer[..], chain.borrow_mut());
                let alone = cpu_nanos(|| chain.follow(40_000));
                let stream = |stop: &AtomicBool| {
                    while !stop.load(Relaxed) {
                        words.chunks(1 << 16).take_while(|_| !stop.load(Relaxed)).for_each(read);
                    }
                    0
                };
                let (loaded, _) = beside(*second, stream, || cpu_nanos(|| chain.follow(40_000)));
                100.0 * loaded / alone
            })
        }
    };
    let remote = match &means.remote {
        Err(reason) => Probe::missing(&REMOTE, reason.clone()),
        Ok(remote) => Probe::new(&REMOTE, move || {
            let chain = &mut *chain.borrow_mut();
            let there = thread::scope(|scope| {
                let follow = || {
                    settle(*remote);
                    cpu_nanos(|| chain.follow(40_000))
                };
                scope.spawn(follow).join()
            });
            Ok(vec![there.map_err(|_| "the thread on the other socket failed")?])
        }),
    };
    let bandwidth = Probe::single(&BANDWIDTH, move || bandwidth(&buffer, &means.cpus));
    vec![dram, loaded, remote, bandwidth]
}

/// A random cycle through all lines of a buffer: the first word of each line is the index of the
/// next line's first word.
struct Chain {
    words: Vec<u64>,
    at: usize,
    /// Starts of further chains on the same cycle.
    heads: [usize; CHAINS],
}

impl Chain {
    /// A chain through `bytes` bytes, at least two lines.
    fn new(bytes: usize) -> Self {
        let lines = (bytes / 64).max(2);
        let mut words: Vec<u64> = Vec::with_capacity(lines * LINE);
        in_huge_pages(words.spare_capacity_mut());
        words.resize(lines * LINE, 0);
        // Sattolo's algorithm: a random permutation of one cycle.
        let mut order: Vec<u32> = (0..lines as u32).collect();
        let mut random = fastrand::Rng::with_seed(bytes as u64);
        for last in (1..lines).rev() {
            order.swap(last, random.usize(..last));
        }
        for (line, next) in order.iter().enumerate() {
            words[line * LINE] = u64::from(*next) * LINE as u64;
        }
        let heads = std::array::from_fn(|_| random.usize(..lines) * LINE);
        Self { words, at: 0, heads }
    }

    /// Follows the chain for `steps` steps. Returns their number.
    fn follow(&mut self, steps: u64) -> u64 {
        let mut at = self.at;
        for _ in 0..steps {
            at = self.words[at] as usize;
        }
        self.at = black_box(at);
        steps
    }

    /// Follows several chains for `steps` steps each. Returns the number of all steps.
    fn follow_many(&mut self, steps: u64) -> u64 {
        let mut heads = self.heads;
        for _ in 0..steps {
            for head in &mut heads {
                *head = self.words[*head] as usize;
            }
        }
        self.heads = black_box(heads);
        steps * CHAINS as u64
    }
}

/// Reads all words.
fn read(words: &[u64]) {
    black_box(words.iter().fold(0_u64, |sum, word| sum.wrapping_add(*word)));
}

/// Bytes per second of one reader on each CPU, each with its part of `buffer`.
fn bandwidth(buffer: &[u64], cpus: &[usize]) -> f64 {
    let readers = cpus.len().clamp(1, MOST_READERS);
    let ready = Barrier::new(readers);
    let mut parts = buffer.chunks(buffer.len().div_ceil(readers));
    let mine = parts.next().unwrap_or_default();
    let start = thread::scope(|scope| {
        for (part, &cpu) in parts.zip(cpus.iter().skip(1)) {
            let ready = &ready;
            scope.spawn(move || {
                settle(cpu);
                ready.wait();
                read(part);
            });
        }
        ready.wait();
        let start = Instant::now();
        read(mine);
        start
    });
    size_of_val(buffer) as f64 / start.elapsed().as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_visits_every_line_once() {
        let mut chain = Chain::new(64 * 1000);
        let mut seen = [false; 1000];
        for _ in 0..1000 {
            chain.follow(1);
            assert!(!std::mem::replace(&mut seen[chain.at / LINE], true));
        }
        assert_eq!(chain.at, 0);
    }
}

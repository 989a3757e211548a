//! Interrupts: round trips by `membarrier` and by a TLB shootdown, the time that the interrupted CPU
//! loses, and the periodic tick.

use rustix::thread::{MembarrierCommand, membarrier};
use std::{
    fs,
    sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

use super::{
    Means,
    one::multiply,
    probe::{Probe, Quantity},
    two::{Line, beside},
};
use crate::anonymous::Anonymous;

/// Barriers, and shootdowns, in a round.
const CALLS: u32 = 400;
/// So many pages that a kernel flushes the whole address space instead of single pages: more than Linux's 33.
const MANY_PAGES: usize = 64;
/// Time for which the victim runs without interrupts.
const QUIET: Duration = Duration::from_millis(2);
/// Time in which the timer is watched.
const WATCH: Duration = Duration::from_millis(60);
/// The duration of interruptions that may be ticks.
const TICKS: std::ops::Range<Duration> = Duration::from_nanos(400)..Duration::from_micros(40);

const BARRIER: [Quantity; 2] = [
    Quantity::nanos(
        "interrupt_round_trip_ns",
        "membarrier while another thread runs, minus membarrier while none does",
    ),
    Quantity::nanos(
        "interrupt_loss_ns",
        "the time that the other thread loses to each of these interrupts",
    ),
];
const SHOOTDOWN: [Quantity; 2] = [
    Quantity::nanos(
        "shootdown_ns",
        "madvise(MADV_DONTNEED) of a page while another thread runs, minus the same while none does",
    ),
    Quantity::nanos(
        "shootdown_64_ns",
        "the same with 64 pages: the whole address space is flushed",
    ),
];
const TICK: [Quantity; 2] = [
    Quantity::nanos(
        "tick_period_ns",
        "time per local timer interrupt of a busy CPU, as /proc/interrupts counts them",
    ),
    Quantity::nanos("tick_ns", "the median of gaps of 0.4 to 40 us in readings of the clock"),
];

pub(super) fn probes(means: &Means) -> Vec<Probe<'_>> {
    let (barrier, shootdown) = match &means.second {
        Err(reason) => {
            (Probe::missing(&BARRIER, reason.clone()), Probe::missing(&SHOOTDOWN, reason.clone()))
        }
        Ok(second) => (
            match &means.membarrier {
                Err(reason) => Probe::missing(&BARRIER, reason.clone()),
                Ok(()) => Probe::new(&BARRIER, move || barriers(*second)),
            },
            Probe::new(&SHOOTDOWN, move || {
                let [one, many] = [1, MANY_PAGES].map(|pages| shootdown(*second, pages));
                Ok(vec![one?, many?])
            }),
        ),
    };
    let first = means.first;
    vec![barrier, shootdown, Probe::new(&TICK, move || tick(first))]
}

/// The round trip of an interrupt, and the time that its target loses.
fn barriers(other: usize) -> Result<Vec<f64>, String> {
    let call =
        || membarrier(MembarrierCommand::PrivateExpedited).map_err(|errno| errno.to_string());
    let calls = || -> Result<f64, String> {
        let start = Instant::now();
        (0..CALLS).try_for_each(|_| call())?;
        Ok(start.elapsed().as_nanos() as f64)
    };
    let alone = calls()?;
    let work = Line(AtomicU64::new(0));
    let victim = |stop: &AtomicBool| {
        while !stop.load(Relaxed) {
            work.0.store(work.0.load(Relaxed) + multiply(100), Relaxed);
        }
        0
    };
    let (measured, _) = beside(other, victim, || -> Result<_, String> {
        let start = (Instant::now(), work.0.load(Relaxed));
        thread::sleep(QUIET);
        let middle = (Instant::now(), work.0.load(Relaxed));
        let with = calls()?;
        let end = (Instant::now(), work.0.load(Relaxed));
        let rate = |from: (Instant, u64), to: (Instant, u64)| {
            (to.1 - from.1) as f64 / (to.0 - from.0).as_nanos() as f64
        };
        let lost = 1.0 - rate(middle, end) / rate(start, middle);
        Ok((with, lost * with / f64::from(CALLS)))
    });
    let (with, loss) = measured?;
    Ok(vec![(with - alone) / f64::from(CALLS), loss.max(0.0)])
}

/// The time that a discard of `pages` pages takes longer because of another running thread.
fn shootdown(other: usize, pages: usize) -> Result<f64, String> {
    let mut area = Anonymous::new(pages).map_err(|errno| errno.to_string())?;
    let mut discards = || -> Result<f64, String> {
        let mut time = Duration::ZERO;
        for _ in 0..CALLS {
            area.touch();
            let start = Instant::now();
            area.discard().map_err(|errno| errno.to_string())?;
            time += start.elapsed();
        }
        Ok(time.as_nanos() as f64)
    };
    discards()?;
    let alone = discards()?;
    let runs = |stop: &AtomicBool| {
        while !stop.load(Relaxed) {
            multiply(100);
        }
        0
    };
    let (with, _) = beside(other, runs, discards);
    Ok((with? - alone) / f64::from(CALLS))
}

/// The period and the duration of the tick of CPU `cpu`, on which this thread runs, in nanoseconds.
fn tick(cpu: usize) -> Result<Vec<f64>, String> {
    let count = || {
        let text = fs::read_to_string("/proc/interrupts").map_err(|error| error.to_string())?;
        local_timer(&text, cpu).ok_or("/proc/interrupts has no count of the local timer".to_owned())
    };
    let before = count()?;
    let start = Instant::now();
    let (mut last, mut gaps) = (start, Vec::new());
    while last - start < WATCH {
        let now = Instant::now();
        if TICKS.contains(&(now - last)) {
            gaps.push(now - last);
        }
        last = now;
    }
    let elapsed = start.elapsed();
    let ticks = count()? - before;
    if ticks == 0 {
        return Err("no timer interrupt came on a busy CPU".to_owned());
    }
    gaps.sort_unstable();
    let gap = gaps.get(gaps.len() / 2).ok_or("no tick was noticed in readings of the clock")?;
    Ok(vec![elapsed.as_nanos() as f64 / ticks as f64, gap.as_nanos() as f64])
}

/// The count of local timer interrupts of a CPU in `/proc/interrupts`.
fn local_timer(text: &str, cpu: usize) -> Option<u64> {
    let name = format!("CPU{cpu}");
    let mut lines = text.lines();
    let column = lines.next()?.split_whitespace().position(|word| word == name)?;
    let counts = lines.find_map(|line| line.trim_start().strip_prefix("LOC:"))?;
    counts.split_whitespace().nth(column)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timer_interrupts_are_counted_per_cpu() {
        let text =
            "           CPU0       CPU2\n  0:  1  2  IO-APIC  timer\nLOC:  413  427  Local timer\n";
        assert_eq!([0, 1, 2].map(|cpu| local_timer(text, cpu)), [Some(413), None, Some(427)]);
        assert_eq!(local_timer("CPU0\n 0: 1\n", 0), None);
    }
}

//! `mprotect` and `munmap` while a second thread of the process runs: it must flush its TLB, which
//! takes an interrupt. The figure is the additional time of the caller. System calls and mappings
//! themselves are not modelled, and cancel out.

use framewright::{Config, CpuId, FrameRange, MemoryRange, Pfn};
use framewright_sim::{
    engine::{Cpu, Program},
    platform::{LentRelief, Simulated},
    process::{Access, Costs, HeldFrames, Mmu, Process, TokenFrames},
};
use std::{
    cell::Cell,
    hint::spin_loop,
    sync::{
        Barrier,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

use super::{Here, Row, Tolerance, Validation};
use crate::Error;
use crate::anonymous::Anonymous;
use crate::clock::settle;
use crate::record::{RecordError, Shootdowns};
use crate::report::Unit;
use crate::simulated::memory::on_memory;

const WORK: &str = "shootdowns: a second thread runs";
/// Calls of a round.
const CALLS: u32 = 200;
/// Frames of the simulated memory.
const FRAMES: u64 = 16 << 10;

/// A call that makes translations invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    Mprotect,
    Munmap,
}

/// The rows: a call, and the number of its pages. For more than 33 pages, Linux flushes the whole TLB.
const CALLED: [(Call, usize, &str); 4] = [
    (Call::Mprotect, 1, "mprotect_1"),
    (Call::Mprotect, 64, "mprotect_64"),
    (Call::Munmap, 1, "munmap_1"),
    (Call::Munmap, 64, "munmap_64"),
];

/// The rows of all calls: time, and interrupts.
pub(super) fn rows(validation: &Validation, here: &Here) -> Result<Vec<Row>, Error> {
    let mut rows = Vec::new();
    for (call, pages, name) in CALLED {
        let more = format!("{name}_more_ns");
        let cpus = match here.two() {
            Ok(cpus) => cpus,
            Err(why) => {
                rows.push(Row::missing(WORK, more, why));
                continue;
            }
        };
        let [alone, beside] =
            [false, true].map(|beside| modelled(validation, call, pages as u32, beside));
        let (alone, beside) = (alone?, beside?);
        let model = [beside.nanos - alone.nanos];
        match measured(validation.rounds, call, pages, cpus) {
            Ok(real) => {
                rows.push(Row::new(WORK, more, Unit::Nanos, Tolerance::Time, [&real, &model]));
            }
            Err(why) => rows.push(Row::missing(WORK, more, why)),
        }
        let name = format!("{name}_interrupts");
        rows.push(match interrupts(call, pages, cpus) {
            Ok(real) => {
                let figures = [&[real][..], &[beside.interrupts]];
                Row::new(WORK, name, Unit::Ratio, Tolerance::Count, figures)
            }
            Err(why) => Row::missing(WORK, name, why),
        });
    }
    Ok(rows)
}

/// Additional nanoseconds per call, one value per round.
fn measured(
    rounds: u32,
    call: Call,
    pages: usize,
    [first, second]: [usize; 2],
) -> Result<Vec<f64>, String> {
    let rounds = || {
        settle(first);
        let round = |_| -> Result<f64, String> {
            let alone = calls(call, pages)?;
            let with = beside(second, || calls(call, pages))?;
            // Other programs may run between rounds.
            thread::sleep(Duration::from_millis(1));
            Ok((with.as_nanos() as f64 - alone.as_nanos() as f64) / f64::from(CALLS))
        };
        (0..rounds).map(round).collect()
    };
    thread::scope(|scope| scope.spawn(rounds).join())
        .unwrap_or_else(|_| Err("the measuring thread failed".to_owned()))
}

/// The time of all calls together, without that of making their pages.
fn calls(call: Call, pages: usize) -> Result<Duration, String> {
    let mut time = Duration::ZERO;
    for _ in 0..CALLS {
        let mut area = Anonymous::new(pages).map_err(|errno| errno.to_string())?;
        area.touch();
        let start = Instant::now();
        let _unmapped_later = match call {
            Call::Mprotect => Some(area.forbid_stores().map_err(|errno| errno.to_string())?),
            Call::Munmap => {
                drop(area);
                None
            }
        };
        time += start.elapsed();
    }
    Ok(time)
}

/// Runs `work` while another thread runs on CPU `cpu`.
fn beside<R>(cpu: usize, work: impl FnOnce() -> R) -> R {
    let (stop, ready) = (AtomicBool::new(false), Barrier::new(2));
    thread::scope(|scope| {
        scope.spawn(|| {
            settle(cpu);
            ready.wait();
            while !stop.load(Relaxed) {
                spin_loop();
            }
        });
        ready.wait();
        let result = work();
        stop.store(true, Relaxed);
        result
    })
}

/// Interrupts of threads of this process, per call. Those of the unmapping after an `mprotect`
/// count, too.
fn interrupts(call: Call, pages: usize, [first, second]: [usize; 2]) -> Result<f64, String> {
    let one_line = |error: RecordError| error.to_string();
    let counter = Shootdowns::count().map_err(one_line)?;
    let work = || {
        settle(first);
        beside(second, || -> Result<u64, String> {
            // Making and ending the second thread takes interrupts, too.
            let before = counter.so_far().map_err(one_line)?;
            calls(call, pages)?;
            Ok(counter.so_far().map_err(one_line)? - before)
        })
    };
    let counted = thread::scope(|scope| scope.spawn(work).join());
    let counted = counted.unwrap_or_else(|_| Err("the measuring thread failed".to_owned()))?;
    Ok(counted as f64 / f64::from(CALLS))
}

/// The figures of the simulated machine, per call.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Modelled {
    nanos: f64,
    interrupts: f64,
}

fn modelled(
    validation: &Validation,
    call: Call,
    pages: u32,
    beside: bool,
) -> Result<Modelled, Error> {
    let spec = validation.spec.with_cpus(2)?;
    let range = FrameRange::new(Pfn::new(0), Pfn::new(FRAMES));
    let map: Vec<MemoryRange> = range.into_iter().map(MemoryRange::from).collect();
    let config = Config::new(&map, 2);
    on_memory(&spec, &config, 1, &LentRelief::default(), |machine, memory| {
        let mmu = Mmu::measuring(2, Costs::from(spec.costs()));
        let process = Process::new(&mmu);
        let (cycles, over) = (Cell::new(0), Cell::new(false));
        let held = HeldFrames::default();
        let caller: Program<'_> = Box::new(|cpu| {
            let token = memory.cpu(CpuId::new(0)).expect("a CPU of its own");
            let mut frames = TokenFrames::new(token, &held);
            process.run_on(cpu);
            // The second thread loads the address space meanwhile.
            cpu.work(10_000);
            cpu.step();
            for _ in 0..CALLS {
                cycles.set(cycles.get() + one(cpu, &process, call, pages, &mut frames));
            }
            over.set(true);
        });
        let second: Program<'_> = Box::new(|cpu| {
            if beside {
                process.run_on(cpu);
            }
            while !over.get() {
                cpu.work(100);
                cpu.step();
            }
        });
        let run = machine.run(vec![caller, second]);
        run.map_err(|failure| Error::broken(format_args!("shootdown: {failure}")))?;
        let calls = f64::from(CALLS);
        Ok(Modelled {
            nanos: spec.costs().nanos_of_cycles(cycles.get()) as f64 / calls,
            interrupts: mmu.stats().interrupts as f64 / calls,
        })
    })
}

/// Maps and touches pages, and calls. Returns the cycles of the call alone.
fn one(
    cpu: Cpu<'_>,
    process: &Process,
    call: Call,
    pages: u32,
    frames: &mut TokenFrames<'_, '_, '_, Simulated>,
) -> u64 {
    process.map(cpu, 0..pages);
    for page in 0..pages {
        process.touch(cpu, page, Access::Store, frames).expect("memory for the pages");
    }
    cpu.step();
    let start = cpu.now();
    match call {
        Call::Mprotect => process.protect(cpu, 0..pages, false),
        Call::Munmap => process.unmap(cpu, 0..pages, frames),
    }
    let cycles = cpu.now() - start;
    if call == Call::Mprotect {
        process.unmap(cpu, 0..pages, frames);
    }
    cycles
}

use super::*;
use crate::engine::{Cpu, Failure, LockClass, Machine, Options, Program, Schedule};
use crate::platform::{MetadataBuffer, Settings};
use framewright::{
    Block, Config, FrameRange, Layout, MemoryRange, MigrateType, Order, Pfn, Request,
};

const FRAMES: u64 = 4096;

fn machine(seed: u64) -> Machine {
    let options = Options { store_buffers: true, late_interrupts: true, ..Options::default() };
    Machine::new(3, Options { schedule: Schedule::Random(seed), ..options })
}

fn program<'a, 'm: 'a>(memory: &'a Memory<'m, Simulated>, ledger: &'a Ledger) -> Program<'a> {
    Box::new(move |cpu: Cpu<'_>| {
        let mut token = memory.cpu(cpu.id()).unwrap();
        let mut blocks: Vec<Block<'m>> = Vec::new();
        for round in 0..60u8 {
            let request = Request::new(Order::new(round % 4).unwrap(), MigrateType::Movable);
            let block = token.alloc(request).unwrap();
            ledger.take(cpu, block.pfn(), block.order());
            blocks.push(block);
            if round % 3 == 0 {
                let block = blocks.swap_remove(usize::from(round) % blocks.len());
                ledger.give(cpu, block.pfn(), block.order());
                token.free(block).unwrap();
            }
        }
        if cpu.id().get() == 1 {
            memory.drain_all();
        }
        // The remaining blocks stay allocated, and the count of allocated frames includes them.
        for block in blocks {
            let _still_allocated = block.into_raw();
        }
    })
}

fn with_memory<R>(machine: &Machine, f: impl FnOnce(&Memory<'_, Simulated>) -> R) -> R {
    let map = [MemoryRange::from(FrameRange::new(Pfn::new(0), Pfn::new(FRAMES)).unwrap())];
    let config = Config::new(&map, 3);
    let mut metadata = MetadataBuffer::new(&Layout::new::<Simulated>(&config).unwrap());
    let simulated = Simulated::new(machine, Settings::default());
    f(&Memory::new(simulated, &config, metadata.as_mut()).unwrap())
}

#[test]
fn invariants_hold_during_a_run_and_at_its_end() {
    for seed in 0..20 {
        let (machine, ledger) = (machine(seed), Ledger::new());
        with_memory(&machine, |memory| {
            let programs = (0..3).map(|_| program(memory, &ledger)).collect();
            machine.run_watched(programs, 1, &|| in_between(memory)).unwrap();
            assert!(ledger.held() > 0);
            at_rest(memory, Some(&ledger)).unwrap();
            let other = at_rest(memory, Some(&Ledger::new())).unwrap_err();
            assert!(other.starts_with("programs hold 0 frames"), "{other}");
        });
    }
}

#[test]
fn a_frame_that_is_allocated_twice_or_freed_twice_is_reported() {
    let machine = machine(1);
    let order = Order::new(2).unwrap();
    let run = |program: &dyn Fn(Cpu<'_>)| machine.run(vec![Box::new(program)]).unwrap_err();
    let twice = run(&|cpu| {
        let ledger = Ledger::new();
        ledger.take(cpu, Pfn::new(8), order);
        ledger.take(cpu, Pfn::new(11), Order::ZERO);
    });
    assert_eq!(twice.to_string(), "CPU 0: frame 0xb was allocated while CPU 0 held it");
    let freed = run(&|cpu| {
        let ledger = Ledger::new();
        ledger.take(cpu, Pfn::new(8), order);
        ledger.give(cpu, Pfn::new(8), order);
        ledger.give(cpu, Pfn::new(8), Order::ZERO);
    });
    assert_eq!(freed.to_string(), "CPU 0: frame 0x8 is freed, but no CPU holds it");
}

#[test]
fn a_lock_that_is_never_released_is_reported() {
    let machine = machine(1);
    let lock = machine.new_lock(LockClass::Program);
    let failure = machine.run(vec![Box::new(|cpu: Cpu<'_>| cpu.lock(lock))]).unwrap_err();
    assert_eq!(failure, Failure::Invariant { what: "CPU 0 ended while it held lock 0".to_owned() });
}

/// Runs three CPUs that allocate orders 3 to 0 until nothing is left. CPU 2 may go below the
/// watermark. The check runs with `urgent` as the number of frames that such requests hold. Returns
/// its result.
fn exhausted(seed: u64, urgent: u64) -> Result<(), Failure> {
    let machine = machine(seed);
    with_memory(&machine, |memory| {
        let program = |cpu: Cpu<'_>| {
            let mut token = memory.cpu(cpu.id()).unwrap();
            let mut blocks = Vec::new();
            for order in [3, 2, 1, 0] {
                let request = Request::new(Order::new(order).unwrap(), MigrateType::Movable);
                let request = if cpu.id().get() == 2 { request.urgent() } else { request };
                while let Ok(block) = token.alloc(request.no_retry()) {
                    blocks.push(block);
                }
            }
            blocks.into_iter().for_each(|block| token.free(block).unwrap());
        };
        let programs = (0..3).map(|_| -> Program<'_> { Box::new(program) }).collect();
        let zone = memory.zones().next().unwrap();
        assert!(0 < zone.min && zone.min < zone.free, "{zone:?}");
        machine.run_watched(programs, 1, &|| above_min(memory, urgent))
    })
}

#[test]
fn only_urgent_requests_go_below_the_min_watermark() {
    for seed in 0..4 {
        exhausted(seed, FRAMES).unwrap();
        let failure = exhausted(seed, 0).unwrap_err().to_string();
        assert!(failure.contains("below its min watermark of"), "{failure}");
    }
}

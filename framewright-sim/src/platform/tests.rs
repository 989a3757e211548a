use super::*;
use crate::engine::{Failure, Model, Options, Program, Schedule};
use crate::machine::Spec;
use framewright::{
    Block, Config, FrameRange, Layout, Memory, MemoryRange, MigrateType, Request, sync::RawLock,
};

const FRAMES: u64 = 4096;
const PAGE: Request = Request::new(Order::ZERO, MigrateType::Movable).zeroed();

/// The program of every CPU: repeatedly allocates frames and frees most of them, and at the end
/// frees all.
fn churn<'m>(memory: &Memory<'m, Simulated>, cpu: Cpu<'_>, rounds: u32) {
    let mut token = memory.cpu(cpu.id()).unwrap();
    let mut blocks: Vec<Block<'m>> = Vec::new();
    for _ in 0..rounds {
        for _ in 0..64 {
            blocks.push(token.alloc(PAGE).unwrap());
            cpu.work(500);
        }
        for block in blocks.drain(16..) {
            token.free(block).unwrap();
        }
    }
    blocks.into_iter().for_each(|block| token.free(block).unwrap());
}

/// Runs four CPUs on one memory. Returns the fingerprint.
fn four(machine: &Machine, settings: Settings, rounds: u32) -> Result<u64, Failure> {
    let frames = FrameRange::new(Pfn::new(0), Pfn::new(FRAMES)).unwrap();
    let map = [MemoryRange::from(frames)];
    let config = Config::new(&map, 4);
    let mut metadata = MetadataBuffer::new(&Layout::new::<Simulated>(&config).unwrap());
    let simulated = Simulated::new(machine, settings);
    let memory = Memory::new(simulated, &config, metadata.as_mut()).unwrap();
    let program = |drains: bool| -> Program<'_> {
        let memory = &memory;
        Box::new(move |cpu: Cpu<'_>| {
            churn(memory, cpu, rounds);
            if drains {
                memory.drain_all();
            }
        })
    };
    machine.run(vec![program(false), program(true), program(false), program(true)])?;
    memory.check().unwrap();
    memory.drain_all();
    assert_eq!(memory.free(), FRAMES);
    Ok(machine.fingerprint())
}

#[test]
fn four_cpus_share_a_memory_and_repeat_their_run_exactly() {
    let spec = Spec::preset("skx-2s-112").unwrap();
    let run = || {
        let machine = Machine::from(&spec);
        let settings = Settings { prices: spec.costs().library, ..Settings::default() };
        let fingerprint = four(&machine, settings, 20).unwrap();
        let stats = machine.lock_stats();
        assert!(stats.acquisitions > 4 && stats.hold_cycles > stats.hold_miss_cycles);
        assert!(machine.clock(CpuId::new(0)) > 20 * 64 * 500);
        (fingerprint, stats)
    };
    assert_eq!(run(), run());
}

fn hunting(schedule: Schedule) -> Machine {
    let (store_buffers, late_interrupts) = (true, true);
    Machine::new(4, Options { schedule, store_buffers, late_interrupts, ..Options::default() })
}

fn hunted(seed: u64) -> Machine {
    let schedule = if seed.is_multiple_of(2) {
        Schedule::Random(seed)
    } else {
        Schedule::Pct { seed, depth: 3, steps: 2000 }
    };
    hunting(schedule)
}

#[test]
fn runs_succeed_under_any_schedule() {
    let runs: Vec<u64> =
        (0..40).map(|seed| four(&hunted(seed), Settings::default(), 3).unwrap()).collect();
    assert_ne!(runs[0], runs[2]);
    assert_eq!(runs[..2], [0, 1].map(|seed| four(&hunted(seed), Settings::default(), 3).unwrap()));
}

#[test]
fn without_the_barrier_two_cpus_meet_inside_the_lists() {
    let settings = Settings { skip_barriers: true, ..Settings::default() };
    let found = (0..400).find_map(|seed| {
        let machine = hunted(seed);
        let failure = four(&machine, settings, 3).err()?;
        Some((machine.choices(), failure))
    });
    let (choices, failure) = found.expect("the missing barrier is found");
    assert!(matches!(failure, Failure::Shared { .. }), "{failure}");
    assert!(failure.to_string().contains("entered lists"), "{failure}");
    assert_eq!(four(&hunting(Schedule::Replay(choices)), settings, 3), Err(failure));
}

#[test]
fn a_run_with_slow_interrupts_succeeds() {
    let mut model = Model::free(4);
    (model.send, model.arrive_local, model.entry) = (700, 900, 1200);
    four(&Machine::modelled(model, Options::default()), Settings::default(), 5).unwrap();
}

#[test]
fn a_barrier_makes_earlier_stores_visible() {
    for (seed, target) in (0..200).flat_map(|seed| {
        [BarrierTarget::Cpu(CpuId::new(1)), BarrierTarget::All].map(|target| (seed, target))
    }) {
        let machine = hunting(Schedule::Random(seed));
        let simulated = Simulated::new(&machine, Settings::default());
        let (word, stored) = (machine.engine().new_word(0), std::cell::Cell::new(false));
        let stores = |cpu: Cpu<'_>| {
            cpu.store(word, 1);
            stored.set(true);
            (0..10).for_each(|_| cpu.step());
        };
        let asks = |cpu: Cpu<'_>| {
            (0..5).for_each(|_| cpu.step());
            let before = stored.get();
            simulated.remote_barrier(target);
            assert!(!before || machine.engine().peek(word) == 1, "{target:?}, seed {seed}");
        };
        machine.run(vec![Box::new(asks), Box::new(stores)]).unwrap();
    }
}

#[test]
fn other_cpus_see_whether_a_lock_is_held() {
    let machine = Machine::modelled(Model::free(2), Options::default());
    let simulated = Simulated::new(&machine, Settings::default());
    let lock = <SimLock as RawLock<Simulated>>::new();
    let seen = std::cell::RefCell::new(Vec::new());
    let observe = || seen.borrow_mut().push(lock.is_held(&simulated));
    machine
        .run(vec![
            Box::new(|cpu: Cpu<'_>| {
                cpu.work(100);
                lock.lock(&simulated);
                cpu.work(100);
                // SAFETY: it was taken above.
                unsafe { lock.unlock(&simulated) };
            }),
            Box::new(|cpu: Cpu<'_>| {
                for _ in 0..3 {
                    cpu.work(cpu.now().max(75));
                    observe();
                }
            }),
        ])
        .unwrap();
    assert_eq!(*seen.borrow(), [false, true, false], "at 75, 150 and 300");
}

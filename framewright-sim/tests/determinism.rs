//! The same command gives the same run: in any process, at any address, in any environment.

use framewright::{
    Block, Config, FrameRange, Layout, Memory, MemoryRange, MigrateType, Order, Pfn, Request,
    platform::Site,
};
use framewright_sim::{
    engine::{Cpu, Machine, Options, Program, Schedule},
    machine::Spec,
    platform::{MetadataBuffer, Settings, Simulated},
};
use std::process::Command;

const CPUS: u16 = 6;
/// Set in child processes, which print the fingerprints of their runs.
const CHILD: &str = "FRAMEWRIGHT_SIM_TELL";

/// The fingerprint of a run in which CPUs allocate, free and drain.
fn fingerprint(schedule: Schedule) -> u64 {
    let spec = Spec::uniform(CPUS).unwrap();
    let force = vec![(Site::Refill, 7)];
    let options = Options {
        schedule,
        store_buffers: true,
        late_interrupts: true,
        force,
        seed: 1,
        ..Options::default()
    };
    let machine = Machine::modelled((&spec).into(), options);
    let map = [MemoryRange::from(FrameRange::new(Pfn::new(0), Pfn::new(8192)).unwrap())];
    let config = Config::new(&map, CPUS);
    let mut metadata = MetadataBuffer::new(&Layout::new::<Simulated>(&config).unwrap());
    let settings = Settings { prices: spec.costs().library, ..Settings::default() };
    let simulated = Simulated::new(&machine, settings);
    let memory = Memory::new(simulated, &config, metadata.as_mut()).unwrap();
    let program = |_| -> Program<'_> { Box::new(|cpu| work(&memory, cpu)) };
    machine.run((0..CPUS).map(program).collect()).unwrap();
    memory.check().unwrap();
    machine.fingerprint()
}

fn work<'m>(memory: &Memory<'m, Simulated>, cpu: Cpu<'_>) {
    let mut token = memory.cpu(cpu.id()).unwrap();
    let mut random = fastrand::Rng::with_seed(cpu.id().get().into());
    let mut blocks: Vec<Block<'m>> = Vec::new();
    for _ in 0..400 {
        let order = Order::new(random.u8(..4)).unwrap();
        if let Ok(block) = token.alloc(Request::new(order, MigrateType::Movable)) {
            blocks.push(block);
        }
        if blocks.len() > 40 {
            let block = blocks.swap_remove(random.usize(..blocks.len()));
            token.free(block).unwrap();
        }
        cpu.work(random.u64(..1000));
    }
    blocks.into_iter().for_each(|block| token.free(block).unwrap());
    memory.drain_all();
}

fn all() -> Vec<u64> {
    let pct = |seed| Schedule::Pct { seed, depth: 4, steps: 10_000 };
    let schedules = [Schedule::Clock, Schedule::Random(1), Schedule::Random(2), pct(1), pct(2)];
    schedules.map(fingerprint).into()
}

/// The output of a child process.
fn child_output(mut command: Command) -> Option<String> {
    let filter = ["other_processes_agree", "--exact", "--nocapture"];
    let output = command.args(filter).env(CHILD, "1").output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    text.lines().find_map(|line| Some(line.split_once("RUNS ")?.1.to_owned()))
}

#[test]
fn other_processes_agree() {
    let runs = format!("{:x?}", all());
    if std::env::var_os(CHILD).is_some() {
        println!("RUNS {runs}");
        return;
    }
    let this = std::env::current_exe().unwrap();
    assert_eq!(child_output(Command::new(&this)).as_ref(), Some(&runs), "another process");
    let mut large = Command::new(&this);
    large.env("FRAMEWRIGHT_SIM_FILLER", "x".repeat(3001));
    assert_eq!(child_output(large).as_ref(), Some(&runs), "a larger environment");
    let mut fixed = Command::new("setarch");
    fixed.arg("-R").arg(&this);
    // Without that program or its permission, there is nothing to compare.
    if let Some(output) = child_output(fixed) {
        assert_eq!(output, runs, "addresses that are not random");
    }
}

#[test]
fn every_seed_gives_a_different_run() {
    let mut runs = all();
    assert_eq!(runs, all());
    runs.sort_unstable();
    runs.dedup();
    assert_eq!(runs.len(), 5);
}

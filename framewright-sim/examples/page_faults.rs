//! Processes that allocate and free memory on a simulated machine: the speed of the simulator, and
//! a fingerprint that shows its determinism.
//!
//! ```sh
//! cargo run --release -p framewright-sim --example page_faults -- skx-2s-112 32768 10
//! ```
//!
//! Arguments: the machine, frames per process, milliseconds of simulated time. The figures of the
//! run go to standard output, without any time of this host. The duration on the host goes to
//! standard error.

use framewright::{
    Block, Config, CpuId, FrameRange, Layout, Memory, MemoryRange, MigrateType, NodeId, Order, Pfn,
    Request, ZoneKind,
};
use framewright_sim::{
    engine::{Cpu, LockClass, Machine, Program},
    machine::{Costs, Spec},
    platform::{MetadataBuffer, Settings, Simulated},
};
use std::{cell::Cell, time::Instant};

const PAGE: Request = Request::new(Order::ZERO, MigrateType::Movable).zeroed();

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let argument = |nth: usize, default: &str| {
        arguments.get(nth).cloned().unwrap_or_else(|| default.to_owned())
    };
    let spec = match argument(0, "skx-2s-112").strip_prefix("uniform:") {
        Some(cpus) => Spec::uniform(cpus.parse().expect("a number of CPUs")),
        None => Spec::preset(&argument(0, "skx-2s-112")),
    };
    let spec = spec.unwrap_or_else(|error| panic!("{error}"));
    let frames: u64 = argument(1, "2048").parse().expect("a number of frames");
    let millis: u64 = argument(2, "10").parse().expect("a number of milliseconds");
    run(&spec, frames, spec.costs().cycles_of_nanos(millis * 1_000_000));
}

/// Ranges of memory, node by node, a quarter larger than the demand of all processes.
fn map(spec: &Spec, frames: u64) -> Vec<MemoryRange> {
    let nodes = u64::from(spec.nodes());
    let each = (u64::from(spec.cpus()).div_ceil(nodes) * frames * 5 / 4).next_multiple_of(1 << 15);
    let range = |node: u64| {
        let frames = FrameRange::new(Pfn::new(node * each), Pfn::new((node + 1) * each));
        let node = NodeId::new(node as u8).expect("a node");
        MemoryRange::new(frames.expect("some frames"), node, ZoneKind::Normal)
    };
    (0..nodes).map(range).collect()
}

fn run(spec: &Spec, frames: u64, until: u64) {
    let machine = Machine::from(spec);
    let settings = Settings { prices: spec.costs().library, ..Settings::default() };
    let map = map(spec, frames);
    let nodes: Vec<NodeId> =
        (0..spec.cpus()).map(|cpu| NodeId::new(spec.node_of(cpu)).expect("a node")).collect();
    let config = Config::new(&map, spec.cpus()).with_cpu_nodes(&nodes);
    let mut metadata = MetadataBuffer::new(&Layout::new::<Simulated>(&config).expect("a layout"));
    let simulated = Simulated::new(&machine, settings);
    let memory = Memory::new(simulated, &config, metadata.as_mut()).expect("a memory");

    let faults = Cell::new(0);
    let program = |_| -> Program<'_> {
        let (memory, costs, faults) = (&memory, spec.costs(), &faults);
        Box::new(move |cpu| process(memory, costs, cpu, frames, until, faults))
    };
    let started = Instant::now();
    machine
        .run((0..spec.cpus()).map(program).collect())
        .unwrap_or_else(|failure| panic!("{failure}"));
    let took = started.elapsed().as_secs_f64();
    memory.check().unwrap_or_else(|violation| panic!("{violation}"));

    let cycles: u64 = (0..spec.cpus()).map(|cpu| machine.clock(CpuId::new(cpu))).sum();
    let zone = machine.lock_stats_of(LockClass::Zone);
    println!("faults        {}", faults.get());
    println!("zone lock     {zone:?}");
    println!("waiting       {:.3} %", 100.0 * zone.wait_cycles as f64 / cycles as f64);
    println!("fingerprint   {:016x}", machine.fingerprint());
    let virtual_seconds =
        spec.costs().nanos_of_cycles(cycles / u64::from(spec.cpus())) as f64 / 1e9;
    eprintln!(
        "{took:.3} s on the host for {virtual_seconds:.3} simulated s: {:.1} host s per simulated s, \
         {:.2} M faults/s, {:.2} M switches/s",
        took / virtual_seconds,
        f64::from(faults.get()) / took / 1e6,
        machine.steps() as f64 / took / 1e6,
    );
}

/// One process after the other, until the end of the simulated time.
fn process<'m>(
    memory: &Memory<'m, Simulated>,
    costs: &Costs,
    cpu: Cpu<'_>,
    frames: u64,
    until: u64,
    faults: &Cell<u32>,
) {
    let mut token = memory.cpu(cpu.id()).expect("the CPU has no other owner");
    let mut pages: Vec<Block<'m>> = Vec::with_capacity(frames as usize);
    while cpu.now() < until {
        for _ in 0..frames {
            cpu.work(costs.fault.service + costs.fault.lru_add);
            pages.push(token.alloc(PAGE).expect("memory for all processes"));
            faults.set(faults.get() + 1);
            if cpu.now() >= until {
                break;
            }
        }
        for page in pages.drain(..) {
            cpu.work(costs.fault.unmap);
            token.free(page).expect("a page of this memory");
        }
    }
}

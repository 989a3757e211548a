//! Two threads allocate frames from one memory, write to them, and free them.
//!
//! `cargo run -p framewright-host --example threads`

use framewright::{Config, Layout, Memory, MigrateType, Order, Request};
use framewright_host::{HostMachine, Metadata};
use std::{error::Error, thread};

const FRAMES: u64 = 16 * 1024; // 64 MiB
const THREADS: u16 = 2;

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

fn main() -> Result<()> {
    // The machine: real memory, and one CPU per thread.
    let machine = HostMachine::builder().frames(FRAMES).cpus(THREADS).build()?;
    if let Some(why) = machine.no_remote_barrier() {
        println!("using the try-lock owner lock: {why}");
    }
    // The memory: its frames, and a buffer for its metadata.
    let map = [machine.frames().into()];
    let config = Config::new(&map, machine.cpus());
    let mut metadata = Metadata::for_layout(&Layout::new::<HostMachine>(&config)?)?;
    let memory = Memory::new(machine, &config, metadata.as_mut())?;

    thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(|| work(&memory))).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("no thread panics"))
    })?;

    memory.drain_all();
    memory.check()?;
    let stats = memory.stats();
    println!("{} frames allocated, {} freed", stats.pgalloc, stats.pgfree);
    println!("{} acquisitions of the zone lock", stats.zone_lock_acquisitions);
    Ok(())
}

fn work(memory: &Memory<'_, HostMachine>) -> Result<()> {
    // From now on, this thread is a CPU, and may use the lists of that CPU.
    let me = memory.platform().register()?;
    let mut cpu = memory.cpu(me.id())?;
    let page = Request::new(Order::ZERO, MigrateType::Movable).zeroed();
    for round in 0..10_000 {
        let mut block = cpu.alloc(page)?;
        memory.platform().fill(&mut block, round);
        memory.platform().verify(&block, round)?;
        cpu.free(block).map_err(|block| format!("{block:?} is of another memory"))?;
    }
    Ok(())
}

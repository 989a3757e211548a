//! A static allocator for many CPUs, with a fair lock: `cargo run -p framewright --example many_cpus`.
//!
//! The CPUs are threads of this process. Comments describe the code of a kernel.

use std::{cell::Cell, error::Error, mem::MaybeUninit, thread};

use framewright::{
    Block, Config, CpuId, FrameRange, Global, Layout, MigrateType, Order, Pfn, Platform, Request,
    global::Pinning,
    observe::Corruption,
    platform::{BarrierTarget, OwnerLock, Probe, Wait},
    sync::{PlainWord, TicketLock},
};

const CPUS: usize = 4;

static MEMORY: Global<Machine, CPUS> = Global::new();

thread_local! {
    /// The number of this CPU. A kernel reads it from the CPU's own data, for example through `gs`.
    static CPU: Cell<u16> = const { Cell::new(0) };
}

struct Machine;

// SAFETY: the lock is the library's own. A CPU takes a try-lock to use its own per-CPU lists
// (`OwnerLock::Trylock`), so `remote_barrier` has nothing to do.
unsafe impl Platform for Machine {
    /// A ticket lock serves CPUs in their order of arrival.
    type Lock = TicketLock;
    type Word = PlainWord;
    /// In a kernel: the interrupt flag as it was before.
    type Irq = ();

    fn irq_save(&self) {}
    fn irq_restore(&self, (): ()) {}

    /// A kernel that can interrupt other CPUs returns `Biased`. Then the fast paths of allocating and freeing execute
    /// no atomic read-modify-write.
    fn owner_lock(&self) -> OwnerLock {
        OwnerLock::Trylock
    }

    fn remote_barrier(&self, _: BarrierTarget) {}

    fn wait(&self, _: Wait, _: u32) {
        thread::yield_now();
    }

    /// The frames of this example have no contents.
    unsafe fn clear(&self, _: Pfn, _: Order) {}
    unsafe fn copy(&self, _: Pfn, _: Pfn) {}

    fn now(&self) -> u64 {
        0
    }

    fn corruption(&self, report: &Corruption) {
        eprintln!("{report}");
    }
}

impl Probe for Machine {}

// SAFETY: every allocating thread of this program is a separate CPU.
unsafe impl Pinning for Machine {
    type Pin = ();

    /// A kernel disables preemption here, and then reads the number of the CPU.
    fn pin(&self) -> (CpuId, ()) {
        (CpuId::new(CPU.get()), ())
    }

    fn unpin(&self, (): ()) {}
}

/// An interrupt handler. It must not wait, because it may have interrupted an allocation on its CPU.
fn handler() -> Option<Block<'static>> {
    MEMORY.alloc(Request::new(Order::ZERO, MigrateType::Unmovable).atomic()).ok()
}

fn run(cpu: u16) {
    CPU.set(cpu);
    let mut held: Vec<Block<'static>> = Vec::new();
    for round in 0..10_000_u32 {
        let order = Order::new((round % 4) as u8).unwrap_or(Order::ZERO);
        held.extend(MEMORY.alloc(Request::new(order, MigrateType::Movable)));
        held.extend((round % 100 == 0).then(handler).flatten());
        if held.len() > 100 {
            for block in held.drain(..50) {
                MEMORY.free(block).expect("it is of this memory");
            }
        }
    }
    for block in held {
        MEMORY.free(block).expect("it is of this memory");
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let frames = FrameRange::new(Pfn::new(0), Pfn::new(1 << 16)).ok_or("no memory")?;
    let map = [frames.into()];
    let config = Config::new(&map, CPUS as u16);
    let layout = Layout::new::<Machine>(&config)?;
    println!("metadata: {layout}");
    let metadata = vec![MaybeUninit::uninit(); layout.bytes() + layout.align()].leak();
    let start = metadata.as_ptr().align_offset(layout.align());
    MEMORY.init(Machine, &config, &mut metadata[start..])?;

    thread::scope(|scope| {
        for cpu in 0..CPUS as u16 {
            scope.spawn(move || run(cpu));
        }
    });

    let memory = MEMORY.memory()?;
    memory.drain_all();
    memory.check()?;
    assert_eq!(memory.free(), memory.managed());
    println!("all {} frames are free again", memory.free());
    Ok(())
}

#[cfg(test)]
#[test]
fn runs() -> Result<(), Box<dyn Error>> {
    main()
}

//! CPUs: the data of each, and access to it.
//!
//! The base of `gs` of a CPU points to its [`Cpu`]; other CPUs get it by number ([`by_number`]).
//! Fields that only their own CPU uses are cells; fields that other CPUs write are atomics.

#![allow(unsafe_code)]

pub(crate) mod control;
mod descriptors;
mod jobs;
mod rendezvous;
mod stacks;
mod start;

use core::{
    arch::asm,
    cell::Cell,
    sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering},
};

use framewright::{CpuId, NodeId};

use crate::paging::AddressSpace;

pub(crate) use jobs::{run_on_all, work_for_others};
pub(crate) use rendezvous::Rendezvous;
pub(crate) use stacks::Stack;
pub(crate) use start::{start_first, start_others};

/// The greatest number of CPUs.
pub(crate) const MAX_CPUS: usize = 32;

/// The data of a CPU.
#[repr(C)]
pub(crate) struct Cpu {
    /// Its own address, which `gs:0` reads.
    this: *const Cpu,
    /// Its number, from 0.
    pub(crate) id: CpuId,
    /// The APIC number, to which interrupts are addressed.
    pub(crate) apic: u32,
    /// The node of the CPU.
    pub(crate) node: NodeId,

    /// Whether the CPU is in lazy TLB mode: it does not use its loaded address space.
    pub(crate) lazy: AtomicBool,
    /// The numbers of memory barriers that other CPUs requested, and that this CPU executed.
    pub(crate) barriers: [AtomicU64; 2],
    /// Interrupts taken, by vector from [`FIRST_INTERRUPT`](crate::interrupts).
    pub(crate) interrupts: [AtomicU64; crate::interrupts::KINDS],
    /// Page faults taken.
    pub(crate) faults: AtomicU64,

    /// The loaded address space; null if only the kernel's page tables are loaded.
    pub(crate) loaded: AtomicPtr<AddressSpace>,
    /// The generation of that address space at this CPU's last flush of it.
    pub(crate) generation: Cell<u64>,
    /// Whether its timer has ticked since the last check.
    pub(crate) ticked: Cell<bool>,
    /// Whether its token is in use.
    pub(crate) token_in_use: Cell<bool>,
}

// SAFETY: cells are used by their own CPU only (other CPUs get the value through `by_number`, whose callers
// use atomics), and `this` never changes.
unsafe impl Sync for Cpu {}

static CPUS: [AtomicPtr<Cpu>; MAX_CPUS] =
    [const { AtomicPtr::new(core::ptr::null_mut()) }; MAX_CPUS];
static ONLINE: AtomicUsize = AtomicUsize::new(0);

impl Cpu {
    fn new(id: CpuId, apic: u32, node: NodeId) -> Self {
        Self {
            this: core::ptr::null(),
            id,
            apic,
            node,
            lazy: AtomicBool::new(true),
            barriers: [const { AtomicU64::new(0) }; 2],
            interrupts: [const { AtomicU64::new(0) }; crate::interrupts::KINDS],
            faults: AtomicU64::new(0),
            loaded: AtomicPtr::new(core::ptr::null_mut()),
            generation: Cell::new(0),
            ticked: Cell::new(false),
            token_in_use: Cell::new(false),
        }
    }
}

/// The CPU that the caller runs on.
#[inline(always)]
pub(crate) fn this_cpu() -> &'static Cpu {
    let cpu: *const Cpu;
    // SAFETY: `gs` points to this CPU's `Cpu`, which begins with its own address, from before the
    // first line of Rust that calls this (`start`); it is never freed.
    unsafe {
        asm!("mov {}, gs:[0]", out(reg) cpu, options(pure, readonly, nostack, preserves_flags));
        &*cpu
    }
}

/// The number of running CPUs.
pub(crate) fn online() -> usize {
    ONLINE.load(Ordering::Acquire)
}

/// A CPU by its number.
pub(crate) fn by_number(id: CpuId) -> Option<&'static Cpu> {
    let cpu = CPUS.get(id.index())?.load(Ordering::Acquire);
    // SAFETY: null, or a `Cpu` that is never freed.
    unsafe { cpu.as_ref() }
}

/// All running CPUs.
pub(crate) fn all() -> impl Iterator<Item = &'static Cpu> {
    (0..online() as u16).filter_map(|id| by_number(CpuId::new(id)))
}

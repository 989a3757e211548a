//! Starting CPUs: the first CPU sets itself up, then starts the others one by one.
//!
//! A CPU waits for an INIT and a start-up interrupt. Then it begins in real mode in a page below 1
//! MiB, the trampoline (`boot/boot.s`). CPUs start one at a time, so one pair of words is
//! sufficient for the stack and the number of the new CPU.

use core::{
    mem::MaybeUninit,
    sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering},
};

use framewright::{CpuId, NodeId};

use super::{
    CPUS, Cpu, ONLINE, control,
    descriptors::Descriptors,
    stacks::{IST_STACKS, Stack},
};
use crate::{
    apic,
    boot::early::EarlyMemory,
    clock::{Clock, MICROSECOND, MILLISECOND},
    interrupts,
};

const MSR_GS_BASE: u32 = 0xc000_0101;

/// The address of the trampoline, as in `boot.s`. The first MiB has no other use.
const TRAMPOLINE: u64 = 0x8000;

unsafe extern "C" {
    static trampoline_start: u8;
    static trampoline_end: u8;
    static next_stack: AtomicU64;
    static next_cpu: AtomicU64;
}

/// Sets up the CPU that booted as CPU 0.
pub(crate) fn start_first(early: &mut EarlyMemory, node: NodeId) {
    apic::enable();
    let cpu = prepare(early, CpuId::new(0), apic::own_number(), node);
    set_up(cpu, descriptors(early));
}

/// Starts the CPUs `apics`, given with their nodes, as CPUs 1 and up. Returns the number that
/// started.
pub(crate) fn start_others(early: &mut EarlyMemory, apics: &[(u32, NodeId)]) -> usize {
    if apics.is_empty() {
        return 0;
    }
    install_trampoline();
    apic::send_init_to_others();
    // The delay after INIT; current processors need very little.
    Clock::wait(100 * MICROSECOND);
    // A CPU that has not started in time may still use its stack. No further CPU is started then.
    apics.iter().take_while(|&&(apic, node)| start(early, apic, node)).count()
}

/// Starts one CPU. Returns whether it started.
fn start(early: &mut EarlyMemory, apic: u32, node: NodeId) -> bool {
    let id = super::online();
    if id >= super::MAX_CPUS {
        return false;
    }
    let cpu = prepare(early, CpuId::new(id as u16), apic, node);
    let tables = descriptors(early);
    TABLES.store(tables, Ordering::Release);
    EXPECTED.store(id, Ordering::Release);
    // SAFETY: both are plain words of `boot.s`, read only by the CPU that is being started.
    unsafe {
        next_stack.store(Stack::for_thread(early).top(), Ordering::Release);
        next_cpu.store(core::ptr::from_ref(cpu) as u64, Ordering::Release);
    }
    for _ in 0..2 {
        apic::send_startup(apic, (TRAMPOLINE >> 12) as u8);
        if Clock::wait_until(200 * MICROSECOND, || super::online() > id) {
            return true;
        }
    }
    // If the CPU has announced itself, this waits for it. A CPU that announces itself later halts.
    if !Clock::wait_until(1000 * MILLISECOND, || super::online() > id)
        && EXPECTED.swap(NOBODY, Ordering::AcqRel) == id
    {
        return false;
    }
    Clock::wait_until(u64::MAX / 2, || super::online() > id)
}

/// The number of the CPU that is being started; `NOBODY` after it has announced itself, or after
/// the wait has ended.
static EXPECTED: AtomicUsize = AtomicUsize::new(NOBODY);
const NOBODY: usize = usize::MAX;

/// The tables of the CPU that is being started.
static TABLES: AtomicPtr<Descriptors> = AtomicPtr::new(core::ptr::null_mut());

/// The entry of CPUs other than the first into Rust, called by `boot.s`.
#[unsafe(no_mangle)]
extern "C" fn other_cpu(cpu: *const Cpu) -> ! {
    let tables = TABLES.load(Ordering::Acquire);
    // SAFETY: the first CPU made `cpu` and the tables for this CPU. It replaces them only after
    // this CPU has started.
    let cpu = unsafe { &*cpu };
    let id = cpu.id.index();
    if EXPECTED.compare_exchange(id, NOBODY, Ordering::AcqRel, Ordering::Relaxed).is_err() {
        control::halt_forever();
    }
    // SAFETY: as above; only the expected CPU uses them.
    let tables = unsafe { &mut *tables };
    apic::enable();
    set_up(cpu, tables);
    super::work_for_others()
}

fn prepare(early: &mut EarlyMemory, id: CpuId, apic: u32, node: NodeId) -> &'static Cpu {
    let cpu = place(early, Cpu::new(id, apic, node));
    cpu.this = cpu;
    CPUS[id.index()].store(cpu, Ordering::Release);
    cpu
}

fn descriptors(early: &mut EarlyMemory) -> &'static mut Descriptors {
    let stacks: [Stack; IST_STACKS] = core::array::from_fn(|_| Stack::for_interrupts(early));
    place(early, Descriptors::new(&stacks))
}

/// Puts a value into memory that is never freed.
fn place<T>(early: &mut EarlyMemory, value: T) -> &'static mut T {
    let bytes = early.take(size_of::<T>(), align_of::<T>().max(64));
    // SAFETY: the memory is never freed, large enough and aligned.
    unsafe { (*bytes.as_mut_ptr().cast::<MaybeUninit<T>>()).write(value) }
}

/// Sets up the CPU that runs this as `cpu`.
fn set_up(cpu: &'static Cpu, tables: &'static mut Descriptors) {
    tables.load();
    // SAFETY: every x86-64 CPU has this register; no other code uses `gs`.
    unsafe { control::write_msr(MSR_GS_BASE, core::ptr::from_ref(cpu) as u64) };
    interrupts::load_table();
    ONLINE.fetch_add(1, Ordering::AcqRel);
    apic::start_timer();
    control::enable_interrupts();
}

fn install_trampoline() {
    // SAFETY: the page is not in use (the firmware's data below 1 MiB was copied before),
    // and the symbols enclose the code.
    unsafe {
        let from = &raw const trampoline_start;
        let bytes = (&raw const trampoline_end).offset_from_unsigned(from);
        core::ptr::copy_nonoverlapping(from, TRAMPOLINE as *mut u8, bytes);
    }
}

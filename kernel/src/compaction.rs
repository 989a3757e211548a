//! Compaction on this machine: the compactor of each CPU, and kcompactd of each node.
//!
//! Each CPU has a compactor of its own. Compaction on a CPU, for a page fault or in a thread of the kernel,
//! does not let other code run there before it has ended.

#![allow(unsafe_code)]

use core::{
    mem::MaybeUninit,
    sync::atomic::{AtomicPtr, AtomicU8, AtomicU64, Ordering},
};

use framewright::{
    CpuId, NodeId, Order, ZoneKind,
    compact::{Compactor, Workspace},
    migrate::Move,
    platform::{Captured, CompactPriority, Compacted, Need},
    tlb::BatchSlot,
};

use crate::{
    boot::early::EarlyMemory,
    clock::{Clock, MILLISECOND},
    cpu::{self, MAX_CPUS, this_cpu},
    kthread,
    memory::{self, memory},
    mover::Mover,
    platform::Machine,
    shootdown::Hardware,
};

/// Pages that move for one flush: fewer than the library allows, so that small machines boot.
const AT_ONCE: usize = 256;
/// How often kcompactd looks whether its node is fragmented, and how long not after that was in vain.
const LOOKS: u64 = 500 * MILLISECOND;
const RESTS: u64 = 32_000 * MILLISECOND;

/// Whether pages may move.
pub(crate) const BUILT_IN: bool = true;

/// What a CPU compacts on.
struct Desk {
    moves: [Move; AT_ONCE],
    slots: [BatchSlot; AT_ONCE],
}

static DESKS: [AtomicPtr<Desk>; MAX_CPUS] =
    [const { AtomicPtr::new(core::ptr::null_mut()) }; MAX_CPUS];

/// The order of the largest block that is requested of each node; 0: none.
static WANTED: [AtomicU8; kthread::NODES] = [const { AtomicU8::new(0) }; kthread::NODES];
/// When kcompactd of each node looks again by itself.
static LOOKS_AT: [AtomicU64; kthread::NODES] = [const { AtomicU64::new(0) }; kthread::NODES];

/// Makes a compactor for each CPU. Called by the first CPU.
pub(crate) fn prepare(early: &mut EarlyMemory) {
    for cpu in cpu::all() {
        let desk = early.take(size_of::<Desk>(), align_of::<Desk>()).as_mut_ptr();
        let desk = desk.cast::<MaybeUninit<Desk>>();
        // SAFETY: the memory is never freed, large enough and aligned.
        let desk = unsafe { &mut *desk };
        let desk = desk.write(Desk {
            moves: [Move::default(); AT_ONCE],
            slots: [BatchSlot::default(); AT_ONCE],
        });
        DESKS[cpu.id.index()].store(desk, Ordering::Release);
    }
}

/// Compacts for a request that waits.
pub(crate) fn for_request(
    need: &Need,
    priority: CompactPriority,
    captured: Captured<'_>,
) -> Compacted {
    compacting(|compactor| compactor.compact(need, priority, captured))
}

/// Compacts on the CPU that this runs on.
fn compacting<R>(work: impl FnOnce(&mut Compactor<'_, 'static, Machine>) -> R) -> R {
    let me = this_cpu().id;
    let desk = take_desk(me);
    let space = Workspace { moves: &mut desk.moves, slots: &mut desk.slots };
    // SAFETY: there is only one memory, so all pages have their frames from it; `Hardware` flushes
    // all translations to them.
    let result = work(&mut unsafe { memory().compactor(me, &Mover, &Hardware, space) });
    DESKS[me.index()].store(desk, Ordering::Release);
    result
}

/// The desk of the CPU that this runs on, out of its place.
#[inline(never)]
fn take_desk(me: CpuId) -> &'static mut Desk {
    // Pages that wait to be put on the lists of reclaim could not be claimed.
    if let Some(lru) = memory().lru() {
        lru.drain_all();
    }
    let desk = DESKS[me.index()].swap(core::ptr::null_mut(), Ordering::Acquire);
    // SAFETY: taken out of its slot, so no other code has it; made when the machine booted, never freed.
    unsafe { desk.as_mut() }.expect("a CPU compacts one thing at a time")
}

/// Records that a block of a node is requested, for the next wake-up of kcompactd.
pub(crate) fn want(node: NodeId, order: Order) {
    WANTED[usize::from(node.get())].fetch_max(order.get(), Ordering::Relaxed);
}

/// Whether a block of a node is requested.
pub(crate) fn is_wanted(node: NodeId) -> bool {
    WANTED[usize::from(node.get())].load(Ordering::Relaxed) > 0
}

/// When kcompactd of a node looks for the first time, unless it is woken before.
pub(crate) fn first_look() -> u64 {
    Clock::now() + LOOKS
}

/// What kcompactd of a node does when it is woken; when it wants to be woken again, if nobody does.
pub(crate) fn work(node: NodeId) -> u64 {
    // The clock may be faster than a machine that boots.
    if memory::get().is_none() {
        return first_look();
    }
    let at = usize::from(node.get());
    let wanted = Order::new(WANTED[at].swap(0, Ordering::Relaxed)).unwrap_or(Order::ZERO);
    if wanted > Order::ZERO {
        compacting(|compactor| {
            compactor.reset_skip_hints(node);
            compactor.background(node, wanted, ZoneKind::Movable)
        });
    }
    if Clock::now() >= LOOKS_AT[at].load(Ordering::Relaxed) {
        let better = compacting(|compactor| compactor.proactive(node));
        let pause = if better == Some(0) { RESTS } else { LOOKS };
        LOOKS_AT[at].store(Clock::now() + pause, Ordering::Relaxed);
    }
    LOOKS_AT[at].load(Ordering::Relaxed)
}

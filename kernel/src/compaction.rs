//! Compaction on this machine: the compactor of each CPU, and kcompactd of each node.
//!
//! Each CPU has a compactor of its own. While compaction runs on a CPU, for a page fault or in a
//! kernel thread, no other code runs there.

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

/// Pages that are migrated with one flush. The library allows more, but small machines have too
/// little memory at boot.
const AT_ONCE: usize = 256;
/// The interval after a check of a node's fragmentation by kcompactd, and the interval after a check
/// without success.
const CHECK_INTERVAL: u64 = 500 * MILLISECOND;
const CHECK_INTERVAL_IN_VAIN: u64 = 32_000 * MILLISECOND;

/// Whether compaction is built in.
pub(crate) const BUILT_IN: bool = true;

/// The buffers of a CPU's compactor.
struct CompactorBuffers {
    moves: [Move; AT_ONCE],
    slots: [BatchSlot; AT_ONCE],
}

static BUFFERS: [AtomicPtr<CompactorBuffers>; MAX_CPUS] =
    [const { AtomicPtr::new(core::ptr::null_mut()) }; MAX_CPUS];

/// The order of the largest block that is requested of each node; 0: none.
static WANTED: [AtomicU8; kthread::NODES] = [const { AtomicU8::new(0) }; kthread::NODES];
/// The time of the next check by kcompactd of each node.
static NEXT_CHECK: [AtomicU64; kthread::NODES] = [const { AtomicU64::new(0) }; kthread::NODES];

/// Allocates the buffers of each CPU's compactor. Called by the first CPU.
pub(crate) fn prepare(early: &mut EarlyMemory) {
    for cpu in cpu::all() {
        let buffers =
            early.take(size_of::<CompactorBuffers>(), align_of::<CompactorBuffers>()).as_mut_ptr();
        let buffers = buffers.cast::<MaybeUninit<CompactorBuffers>>();
        // SAFETY: the memory is never freed, large enough and aligned.
        let buffers = unsafe { &mut *buffers };
        let buffers = buffers.write(CompactorBuffers {
            moves: [Move::default(); AT_ONCE],
            slots: [BatchSlot::default(); AT_ONCE],
        });
        BUFFERS[cpu.id.index()].store(buffers, Ordering::Release);
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

/// Runs `work` with the compactor of this CPU.
fn compacting<R>(work: impl FnOnce(&mut Compactor<'_, 'static, Machine>) -> R) -> R {
    let me = this_cpu().id;
    let buffers = take_buffers(me);
    let space = Workspace { moves: &mut buffers.moves, slots: &mut buffers.slots };
    // SAFETY: there is only one memory, and the frames of all pages come from it; `Hardware`
    // flushes all translations to them.
    let result = work(&mut unsafe { memory().compactor(me, &Mover, &Hardware, space) });
    BUFFERS[me.index()].store(buffers, Ordering::Release);
    result
}

/// Takes the buffers of this CPU.
#[inline(never)]
fn take_buffers(me: CpuId) -> &'static mut CompactorBuffers {
    // The mover claims only pages that are on a list, not those in the per-CPU LRU batches.
    if let Some(lru) = memory().lru() {
        lru.drain_all();
    }
    let buffers = BUFFERS[me.index()].swap(core::ptr::null_mut(), Ordering::Acquire);
    // SAFETY: removed from its slot, so no other code has it; made at boot, never freed.
    unsafe { buffers.as_mut() }.expect("only one compactor runs on a CPU")
}

/// Records that a block of a node is requested, for the next wake-up of kcompactd.
pub(crate) fn want(node: NodeId, order: Order) {
    WANTED[usize::from(node.get())].fetch_max(order.get(), Ordering::Relaxed);
}

/// Whether a block of a node is requested.
pub(crate) fn is_wanted(node: NodeId) -> bool {
    WANTED[usize::from(node.get())].load(Ordering::Relaxed) > 0
}

/// The time of the first check by kcompactd, unless it is woken before.
pub(crate) fn first_check() -> u64 {
    Clock::now() + CHECK_INTERVAL
}

/// A step of kcompactd. Returns the time of its next check.
pub(crate) fn work(node: NodeId) -> u64 {
    // The check may be due before the machine has booted.
    if memory::get().is_none() {
        return first_check();
    }
    let at = usize::from(node.get());
    let wanted = Order::new(WANTED[at].swap(0, Ordering::Relaxed)).unwrap_or(Order::ZERO);
    if wanted > Order::ZERO {
        compacting(|compactor| {
            compactor.reset_skip_hints(node);
            compactor.background(node, wanted, ZoneKind::Movable)
        });
    }
    if Clock::now() >= NEXT_CHECK[at].load(Ordering::Relaxed) {
        let better = compacting(|compactor| compactor.proactive(node));
        let pause = if better == Some(0) { CHECK_INTERVAL_IN_VAIN } else { CHECK_INTERVAL };
        NEXT_CHECK[at].store(Clock::now() + pause, Ordering::Relaxed);
    }
    NEXT_CHECK[at].load(Ordering::Relaxed)
}

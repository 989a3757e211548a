//! Each of these calls must be `unsafe`, because it relies on a promise of the caller.

use framewright::{
    CpuId, Memory, Order, Platform,
    compact::Workspace,
    migrate::Mover,
    reclaim::{Lru, PageOwner, Reclaim},
    tlb::{Flusher, NoShootdown},
    Pfn,
};

fn attack<P: Platform>(
    memory: &Memory<'_, P>,
    owner: &dyn PageOwner<P>,
    mover: &dyn Mover<P>,
    flusher: &Flusher<'_, '_, P>,
    lru: &Lru<'_, '_, P>,
) {
    let work = Workspace { moves: &mut [], slots: &mut [] };
    let _ = memory.flusher(CpuId::new(0), &NoShootdown);
    let _ = memory.compactor(CpuId::new(0), mover, &NoShootdown, work);
    let _ = Reclaim::new(memory, owner, &NoShootdown);
    flusher.record_full_flush(|| ());
    let _ = lru.put_back(Pfn::new(0));
    memory.platform().clear(Pfn::new(0), Order::ZERO);
    memory.platform().copy(Pfn::new(0), Pfn::new(1));
    memory.platform().poison(Pfn::new(0), Order::ZERO);
    let _ = memory.platform().verify_poison(Pfn::new(0));
}

fn main() {}

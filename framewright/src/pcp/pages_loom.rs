//! The lock-free parts of a CPU's lists under the C11 memory model: the claim of its token, and
//! counters that are read while they are written.

use std::{boxed::Box, vec};

use loom::{cell::UnsafeCell, model::Builder, sync::Arc, thread};

use super::{BundleStore, CpuPages, Lists, Slot};
use crate::{
    buddy::MigrateType,
    frame::Order,
    pcp::ListIndex,
    platform::{BarrierTarget, CpuId, OwnerLock, Platform, model::Machine},
};

/// Slots of the store; it is not what these models are about.
const SLOTS: usize = 64;

/// The lists of a CPU, closed, as a memory would make them; their store is leaked.
fn pages(kind: OwnerLock) -> Arc<CpuPages<'static>> {
    let slots = Box::leak(vec![Slot::default(); SLOTS].into_boxed_slice());
    let occupied = vec![0; BundleStore::set_words(SLOTS)].into_boxed_slice();
    let store = BundleStore::new(slots, Box::leak(occupied));
    Arc::new(CpuPages::new(kind, Lists::new(store)))
}

fn explore(body: impl Fn() + Sync + Send + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(body);
}

#[test]
fn loom_a_cpu_has_one_owner_at_a_time_and_hands_over_all_it_did() {
    #![allow(unsafe_code)]
    /// What an owner does, watched by loom.
    struct Work(UnsafeCell<u32>);
    // SAFETY: used by whom the claim admits; loom reports who is not.
    unsafe impl Sync for Work {}
    // SAFETY: as above.
    unsafe impl Send for Work {}

    explore(|| {
        let pages = pages(OwnerLock::Trylock);
        let work = Arc::new(Work(UnsafeCell::new(0)));
        let own = |pages: &CpuPages<'_>, work: &Work| {
            let claimed = pages.claim();
            if claimed {
                // SAFETY: the claim admits one.
                work.0.with_mut(|done| unsafe { *done += 1 });
                pages.unclaim();
            }
            u32::from(claimed)
        };
        let (theirs, its_work) = (Arc::clone(&pages), Arc::clone(&work));
        let other = thread::spawn(move || own(&theirs, &its_work));
        let claims = own(&pages, &work) + other.join().unwrap();
        // SAFETY: the other thread has ended.
        work.0.with(|done| assert_eq!(unsafe { *done }, claims));
        assert!(claims >= 1, "nobody was admitted");
    });
}

#[test]
fn loom_counters_only_grow_while_others_read_them() {
    for machine in [Machine::BIASED, Machine::TRYLOCK] {
        explore(move || {
            let pages = pages(machine.kind);
            let list = ListIndex::serving(Order::ZERO, MigrateType::Movable).unwrap();
            let its_pages = Arc::clone(&pages);
            let owner = thread::spawn(move || {
                for _ in 0..2 {
                    its_pages.as_owner(|_| its_pages.count_free(list)).unwrap();
                }
            });
            let (first, second) = (pages.stats().pgfree, pages.stats().pgfree);
            assert!(first <= second && second <= 2, "{first}, then {second}");
            owner.join().unwrap();
            assert_eq!(pages.stats().pgfree, 2);
        });
    }
}

#[test]
fn loom_a_drainer_counts_beside_the_owner() {
    explore(|| {
        let machine = Machine::BIASED;
        let pages = pages(machine.kind);
        let its_pages = Arc::clone(&pages);
        let owner = thread::spawn(move || its_pages.counters.zone_frees.add(1));
        pages.announce(&machine);
        machine.remote_barrier(BarrierTarget::Cpu(CpuId::new(0)));
        pages.counters.zone_frees.add(1);
        owner.join().unwrap();
        assert_eq!(pages.stats().zone_frees, 2, "an addition was lost");
    });
}

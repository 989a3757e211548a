//! Pages that are still dirty when a run ends.

use framewright_host::paging::{PageCache, Pager, PagingError, RunOutcome};
use std::{mem, sync::atomic::Ordering::SeqCst};

use super::setup::{Words, builder, with_memory};

#[test]
fn a_run_that_ends_says_how_many_pages_are_not_written() {
    let machine = builder(2).build().unwrap();
    let store = Words::new(10);
    let mut cache = PageCache::new(&machine).unwrap();
    let file = cache.add(Box::new(store.clone()), 10, 1).unwrap();
    with_memory(machine, |memory| {
        store.full.store(true, SeqCst);
        let run = Pager::run(memory, &cache, |pager| {
            let me = pager.register().unwrap();
            let mut pager_cpu = pager.cpu(&me).unwrap();
            (0..3).for_each(|page| pager_cpu.write(file, page).unwrap().fill(70));
            pager_cpu.evict_all()
        });
        let RunOutcome { value, unwritten } = run.unwrap();
        assert!(matches!(value, Err(PagingError::Unwritten { pages: 3, page: 0, .. })));
        assert_eq!(unwritten, 3);
        // The pages are not lost yet.
        store.full.store(false, SeqCst);
        let run = Pager::run(memory, &cache, |pager| {
            let me = pager.register().unwrap();
            let mut pager_cpu = pager.cpu(&me).unwrap();
            pager_cpu.write(file, 5).unwrap().fill(70);
            assert_eq!(pager_cpu.read(file, 2).unwrap().word(9), 70);
        });
        let error = run.and_then(RunOutcome::written).unwrap_err();
        assert!(matches!(error, PagingError::LeftUnwritten { pages: 4 }), "{error}");
        let run = Pager::run(memory, &cache, |pager| {
            let me = pager.register().unwrap();
            pager.cpu(&me).unwrap().sync(file).unwrap();
        });
        assert_eq!(run.unwrap(), RunOutcome { value: (), unwritten: 0 });
    });
    let stored: Vec<u64> = (0..7).map(|page| store.stored(page)).collect();
    assert_eq!(stored, [70, 70, 70, 3, 4, 70, 6]);
}

#[test]
fn a_forgotten_guard_keeps_its_page_and_is_reported() {
    let machine = builder(2).build().unwrap();
    let store = Words::new(10);
    let mut cache = PageCache::new(&machine).unwrap();
    let file = cache.add(Box::new(store.clone()), 10, 1).unwrap();
    with_memory(machine, |memory| {
        let run = Pager::run(memory, &cache, |pager| {
            let me = pager.register().unwrap();
            let mut pager_cpu = pager.cpu(&me).unwrap();
            let mut guard = pager_cpu.write(file, 3).unwrap();
            guard.fill(70);
            mem::forget(guard);
            let error = pager_cpu.evict_all().unwrap_err();
            assert!(matches!(error, PagingError::InUse { pages: 1, page: 3 }), "{error}");
            // A leaked value keeps only the token of its CPU.
            mem::forget(pager_cpu);
            assert!(matches!(pager.cpu(&me), Err(PagingError::Cpu(_))));
            mem::forget(me);
        });
        assert_eq!(run.unwrap(), RunOutcome { value: (), unwritten: 1 });
    });
    assert_eq!(store.stored(3), 3);
}

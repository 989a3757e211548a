//! Memories, machines, caches and files that do not belong together; and changes of the LRU lists
//! during reclaim.

use framewright::{CpuId, FrameRange, Memory, NodeId, Pfn, reclaim::PageKind};
use framewright_host::{
    HostMachine,
    paging::{FileId, PageCache, Pager, PagingError, RunOutcome},
};
use std::{
    mem,
    sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    thread,
};

use super::setup::{FRAMES, Words, builder, config, metadata, with_memory};

fn refusal(memory: &Memory<'_, HostMachine>, cache: &PageCache) -> Option<PagingError> {
    Pager::run(memory, cache, |_| ()).err()
}

#[test]
fn a_cache_serves_the_memory_of_its_machine_alone() {
    let [one, other] = [(); 2].map(|()| builder(2).build().unwrap());
    let mut of_one = PageCache::new(&one).unwrap();
    let mut of_other = PageCache::new(&other).unwrap();
    with_memory(one, |memory| {
        assert!(matches!(refusal(memory, &of_other), Some(PagingError::OtherMachine)));
        mem::swap(&mut of_one, &mut of_other);
        assert!(matches!(refusal(memory, &of_one), Some(PagingError::OtherMachine)));
        assert!(refusal(memory, &of_other).is_none());
    });
    // The next machine may have the same address as the last.
    with_memory(builder(2).build().unwrap(), |memory| {
        assert!(matches!(refusal(memory, &of_other), Some(PagingError::OtherMachine)));
    });
}

#[test]
fn caches_that_run_in_turn_have_no_more_pages_than_memory() {
    let machine = builder(2).build().unwrap();
    let caches = [(); 2].map(|()| {
        let mut cache = PageCache::new(&machine).unwrap();
        let file = cache.add(Box::new(Words::new(6_000)), 6_000, 8).unwrap();
        (cache, file)
    });
    with_memory(machine, |memory| {
        for round in 0..3 {
            for (cache, file) in &caches {
                let run = Pager::run(memory, cache, |pager| {
                    let me = pager.register().unwrap();
                    let mut pager_cpu = pager.cpu(&me).unwrap();
                    for page in (0..1_500).map(|page| (page * 7 + round) % 6_000) {
                        assert_eq!(pager_cpu.read(*file, page).unwrap().word(1), u64::from(page));
                    }
                });
                run.and_then(RunOutcome::written).unwrap();
                let resident: u64 = caches.iter().map(|(cache, file)| cache.resident(*file)).sum();
                assert!(resident <= memory.managed(), "{resident}");
            }
        }
    });
}

#[test]
fn one_pager_runs_at_a_time() {
    let machine = builder(2).build().unwrap();
    let cache = PageCache::new(&machine).unwrap();
    with_memory(machine, |memory| {
        let nested = Pager::run(memory, &cache, |_| refusal(memory, &cache)).unwrap().value;
        assert!(matches!(nested, Some(PagingError::Running)), "{nested:?}");
        assert!(refusal(memory, &cache).is_none());
    });
}

#[test]
fn a_file_of_another_cache_is_named() {
    let machine = builder(2).build().unwrap();
    let mut other = PageCache::new(&machine).unwrap();
    let files: Vec<FileId> =
        (0..2).map(|_| other.add(Box::new(Words::new(4)), 4, 1).unwrap()).collect();
    let mut cache = PageCache::new(&machine).unwrap();
    cache.add(Box::new(Words::new(4)), 4, 1).unwrap();
    with_memory(machine, |memory| {
        let run = Pager::run(memory, &cache, |pager| {
            let me = pager.register().unwrap();
            let mut pager_cpu = pager.cpu(&me).unwrap();
            let error = pager_cpu.write(files[1], 0).unwrap_err();
            assert!(matches!(error, PagingError::NoSuchFile { file: 1, files: 1 }), "{error}");
            assert!(matches!(pager_cpu.sync(files[1]), Err(PagingError::NoSuchFile { .. })));
        });
        run.and_then(RunOutcome::written).unwrap();
    });
}

#[test]
fn frames_outside_the_machine_hold_no_pages() {
    let machine = builder(2).build().unwrap();
    let beyond = FrameRange::new(Pfn::new(FRAMES), Pfn::new(2 * FRAMES)).unwrap();
    let mut cache = PageCache::new(&machine).unwrap();
    let file = cache.add(Box::new(Words::new(4)), 4, 1).unwrap();
    let map = [beyond.into()];
    let config = config(&machine, &map);
    let mut metadata = metadata(&machine, &map);
    let memory = Memory::new(machine, &config, metadata.as_mut()).unwrap();
    let run = Pager::run(&memory, &cache, |pager| {
        let me = pager.register().unwrap();
        let error = pager.cpu(&me).unwrap().read(file, 2).unwrap_err();
        assert!(matches!(error, PagingError::ForeignFrame { page: 2, .. }), "{error}");
    });
    run.and_then(RunOutcome::written).unwrap();
    memory.drain_all();
    assert_eq!(memory.free(), memory.managed());
}

/// Removes pages from the lists, adds them again, reports them as written, and reclaims, all
/// without the cache.
fn change_lists(
    pager: &Pager<'_, '_>,
    memory: &Memory<'_, HostMachine>,
    cpu: CpuId,
    over: &AtomicBool,
) {
    let (lru, reclaim) = (memory.lru().unwrap(), pager.reclaim());
    let mut random = fastrand::Rng::with_seed(5);
    while !over.load(SeqCst) {
        let frame = Pfn::new(random.u64(..FRAMES));
        match random.u32(..7) {
            0 => _ = lru.remove(frame) && lru.add(cpu, frame, PageKind::File),
            1 => _ = lru.add(cpu, frame, PageKind::Anon),
            2 => reclaim.written(cpu, frame, Ok(())),
            3 => _ = reclaim.shrink_node(cpu, NodeId::default(), 32),
            4 => lru.drain_all(),
            _ => lru.activate(cpu, frame),
        }
    }
}

#[test]
fn changes_of_the_lists_lose_no_page_and_no_store() {
    const PAGES: u32 = 5_000;
    let machine = builder(4).build().unwrap();
    let store = Words::new(PAGES);
    let mut cache = PageCache::new(&machine).unwrap();
    let file = cache.add(Box::new(store.clone()), PAGES, 4).unwrap();
    let last: Vec<AtomicU64> = (0..PAGES.into()).map(AtomicU64::new).collect();
    with_memory(machine, |memory| {
        let over = AtomicBool::new(false);
        let run = Pager::run(memory, &cache, |pager| {
            thread::scope(|scope| {
                scope.spawn(|| {
                    let me = pager.register().unwrap();
                    change_lists(pager, memory, me.id(), &over);
                });
                let workers: Vec<_> = (0..2)
                    .map(|thread| {
                        let last = &last;
                        scope.spawn(move || {
                            let me = pager.register().unwrap();
                            let mut pager_cpu = pager.cpu(&me).unwrap();
                            let mut random = fastrand::Rng::with_seed(thread);
                            for turn in 0..20_000 {
                                // Each thread stores to separate pages.
                                let page = random.u32(..PAGES / 2) * 2 + thread as u32;
                                let word = &last[page as usize];
                                if turn % 3 == 0 {
                                    word.store(turn << 32 | u64::from(page), SeqCst);
                                    pager_cpu.write(file, page).unwrap().fill(word.load(SeqCst));
                                }
                                let reading = pager_cpu.read(file, page).unwrap();
                                let expected = word.load(SeqCst);
                                assert!(reading.words().all(|found| found == expected));
                            }
                        })
                    })
                    .collect();
                let ended: Vec<_> = workers.into_iter().map(|worker| worker.join()).collect();
                over.store(true, SeqCst);
                ended.into_iter().for_each(|worker| worker.unwrap());
            });
            let me = pager.register().unwrap();
            pager.cpu(&me).unwrap().sync(file).unwrap();
        });
        run.and_then(RunOutcome::written).unwrap();
        assert!(cache.stats().evicted > 1_000, "{:?}", cache.stats());
    });
    for page in 0..PAGES {
        assert_eq!(store.stored(page), last[page as usize].load(SeqCst), "page {page}");
    }
}

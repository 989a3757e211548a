use std::{
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::atomic::{
        AtomicBool, AtomicU32,
        Ordering::{Relaxed, SeqCst},
    },
};

use framewright::{
    Config, Layout, Memory, Pfn, SideTables,
    reclaim::{PageOwner, PageState, Released, Shadow, Unmapped},
    tlb::BatchSlot,
};

use super::*;
use crate::{Backing, HostMachine, Metadata};

mod early;
mod wrong;

/// A read-only store: every byte of page `n` is `n`.
struct Bytes;

impl Store for Bytes {
    fn read(&self, page: u32, into: &mut [u8]) -> io::Result<()> {
        into.fill(page as u8);
        Ok(())
    }

    fn write(&self, _page: u32, _from: &[u8]) -> io::Result<()> {
        Err(io::Error::other("the store is read-only"))
    }
}

#[test]
#[allow(unsafe_code)]
fn an_unmapped_page_is_rescued_with_its_contents_and_is_not_evicted() {
    let builder = HostMachine::builder().frames(4096).cpus(2).backing(Backing::MetadataOnly);
    let machine = builder.build().unwrap();
    let map = [machine.frames().into()];
    let side_tables = SideTables::default().with_lru();
    let config = Config::new(&map, machine.cpus()).with_side_tables(side_tables);
    let layout = Layout::new::<HostMachine>(&config).unwrap();
    let mut metadata = Metadata::for_layout(&layout).unwrap();
    let mut cache = PageCache::new(&machine).unwrap();
    let file = cache.add(Box::new(Bytes), 10, 1).unwrap();
    let memory = Memory::new(machine, &config, metadata.as_mut()).unwrap();
    Pager::run(&memory, &cache, |pager| {
        let me = pager.register().unwrap();
        let mut pager_cpu = pager.cpu(&me).unwrap();
        drop(pager_cpu.read(file, 3).unwrap());
        let page = cache.page(cache::PageId { file, page: 3 });
        let number = page.state.frame().unwrap();
        let (frame, owner) = (Pfn::new(number.into()), owner::Owner(&cache));
        let lru = memory.lru().unwrap();
        lru.drain_all();
        assert!(lru.remove(frame));
        // Reclaim unmaps the page.
        let mut slots = [BatchSlot::default(); 4];
        let mut batch = pager.shooter.flusher(me.id()).batch(&mut slots);
        let (mut locked, mut unmapped) = ([None], [Unmapped::default()]);
        owner.lock(&[frame], &mut locked);
        assert_eq!(locked, [Some(PageState { mapped: true, ..PageState::default() })]);
        owner.unmap(&[frame], &mut batch.unmapping(), &mut unmapped);
        assert_eq!(unmapped, [Unmapped::Removed { dirty: false }]);
        assert_eq!((cache.resident(file), cache.in_memory(file)), (0, 1));
        // The page is used again.
        assert_eq!(pager_cpu.read(file, 3).unwrap().word(511), 0x0303_0303_0303_0303);
        assert_ne!(page.state.frame(), Some(number));
        let mut released = [Released::default()];
        owner.release(&[frame], &[Shadow::default()], &mut released);
        assert_eq!(released, [Released::Released]);
        owner.release(&[frame], &[Shadow::default()], &mut released);
        assert_eq!(released, [Released::Busy], "once only");
        batch.retire(pager_cpu.adopt(frame)).unwrap();
        batch.flush();
        batch.finish(&mut |blocks| blocks.for_each(|block| pager_cpu.free(block)));
        drop(batch);
        assert_eq!(pager_cpu.read(file, 3).unwrap().word(0), 0x0303_0303_0303_0303);
        let PagingStats { read, rescued, unmapped, evicted, .. } = cache.stats();
        assert_eq!((read, rescued, unmapped, evicted), (1, 1, 1, 0));
        pager_cpu.evict_all().unwrap();
        assert_eq!((cache.stats().evicted, cache.in_memory(file)), (1, 0));
    })
    .and_then(RunOutcome::written)
    .unwrap();
    memory.drain_all();
    assert_eq!(memory.free(), memory.managed());
}

/// A store that panics on demand. It stores nothing.
#[derive(Default)]
struct Buggy {
    reads: AtomicBool,
    writes: AtomicBool,
    syncs: AtomicBool,
    /// Whether writes fail with an error, or a panic payload, that panics when it is dropped.
    drop_panics: AtomicBool,
    /// The number of calls of `sync`.
    synced: AtomicU32,
}

impl Store for &'static Buggy {
    fn read(&self, page: u32, into: &mut [u8]) -> io::Result<()> {
        assert!(!self.reads.load(SeqCst), "a bug in read");
        into.fill(page as u8);
        Ok(())
    }

    fn write(&self, page: u32, _from: &[u8]) -> io::Result<()> {
        assert!(!self.writes.load(SeqCst), "a bug in write");
        match self.drop_panics.load(SeqCst) {
            true if page.is_multiple_of(2) => Err(io::Error::other(PanicOnDrop)),
            true => std::panic::panic_any(PanicOnDrop),
            false => Ok(()),
        }
    }

    fn sync(&self) -> io::Result<()> {
        self.synced.fetch_add(1, Relaxed);
        if self.syncs.load(SeqCst) { Err(io::Error::other("the device is gone")) } else { Ok(()) }
    }
}

#[derive(Debug)]
struct PanicOnDrop;

impl Drop for PanicOnDrop {
    fn drop(&mut self) {
        panic!("a bug in drop");
    }
}

impl std::fmt::Display for PanicOnDrop {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("tick")
    }
}

impl std::error::Error for PanicOnDrop {}

/// Runs `body` with a file of 64 pages and a read-ahead of 8 in this store. Also returns whether
/// all frames were free at the end.
fn with_buggy<R>(
    store: &'static Buggy,
    body: impl FnOnce(&Pager<'_, '_>, &mut PagerCpu<'_, '_>, FileId) -> R,
) -> (std::thread::Result<R>, bool) {
    let builder = HostMachine::builder().frames(4096).cpus(2).backing(Backing::MetadataOnly);
    let machine = builder.build().unwrap();
    let map = [machine.frames().into()];
    let side_tables = SideTables::default().with_lru();
    let config = Config::new(&map, machine.cpus()).with_side_tables(side_tables);
    let layout = Layout::new::<HostMachine>(&config).unwrap();
    let mut metadata = Metadata::for_layout(&layout).unwrap();
    let mut cache = PageCache::new(&machine).unwrap();
    let file = cache.add(Box::new(store), 64, 8).unwrap();
    let memory = Memory::new(machine, &config, metadata.as_mut()).unwrap();
    let run = || {
        Pager::run(&memory, &cache, |pager| {
            let me = pager.register().unwrap();
            let mut pager_cpu = pager.cpu(&me).unwrap();
            let result = body(pager, &mut pager_cpu, file);
            for switch in [&store.reads, &store.writes, &store.syncs, &store.drop_panics] {
                switch.store(false, SeqCst);
            }
            pager_cpu.evict_all().unwrap();
            result
        })
        .and_then(RunOutcome::written)
        .unwrap()
    };
    let result = catch_unwind(AssertUnwindSafe(run));
    memory.drain_all();
    (result, memory.free() == memory.managed())
}

#[test]
fn a_panic_while_pages_are_read_leaves_none_of_them_locked() {
    let store: &Buggy = Box::leak(Box::default());
    let (result, all_free) = with_buggy(store, |pager, pager_cpu, file| {
        store.reads.store(true, SeqCst);
        let read = catch_unwind(AssertUnwindSafe(|| pager_cpu.read(file, 3).map(drop)));
        assert!(read.is_err(), "the panic was not passed on");
        for page in 0..64 {
            let state = &pager.cache.page(cache::PageId { file, page }).state;
            assert_eq!(state.fix(page::Access::Read), page::Fix::Absent, "page {page}");
        }
        store.reads.store(false, SeqCst);
        assert_eq!(pager_cpu.read(file, 3).unwrap().word(0), 0x0303_0303_0303_0303);
    });
    result.unwrap();
    assert!(all_free);
}

#[test]
fn a_panic_while_a_page_is_synced_leaves_it_dirty_and_unlocked() {
    let store: &Buggy = Box::leak(Box::default());
    let (result, all_free) = with_buggy(store, |pager, pager_cpu, file| {
        drop(pager_cpu.write(file, 3).unwrap());
        store.writes.store(true, SeqCst);
        assert!(catch_unwind(AssertUnwindSafe(|| pager_cpu.sync(file))).is_err());
        let page = cache::PageId { file, page: 3 };
        assert_eq!(
            pager.cache.page(page).state.fix(page::Access::Read),
            page::Fix::Fixed { dirtied: false }
        );
        pager.cache.page(page).state.release();
        assert_eq!((pager.cache.dirty(file), pager.cache.failed(file)), (1, 1));
    });
    result.unwrap();
    assert!(all_free);
}

#[test]
fn a_panic_while_reclaim_writes_is_a_failed_write_and_is_resumed_at_the_end() {
    let store: &Buggy = Box::leak(Box::default());
    let (result, all_free) = with_buggy(store, |pager, pager_cpu, file| {
        drop(pager_cpu.write(file, 3).unwrap());
        store.writes.store(true, SeqCst);
        let (reclaim, node) = (pager.reclaim(), framewright::NodeId::default());
        reclaim.lru().drain_all();
        for _ in 0..8 {
            reclaim.shrink_node(framewright::CpuId::new(0), node, 64);
        }
        assert!(pager.cache.stats().write_failed > 0, "no write was tried");
        let page = cache::PageId { file, page: 3 };
        assert_eq!(
            pager.cache.page(page).state.fix(page::Access::Read),
            page::Fix::Fixed { dirtied: false }
        );
        pager.cache.page(page).state.release();
        assert_eq!((pager.cache.dirty(file), pager.cache.failed(file)), (1, 1));
    });
    let panic = result.expect_err("the panic is passed on at the end");
    assert_eq!(panic.downcast_ref::<&str>(), Some(&"a bug in write"));
    assert!(all_free);
}

#[test]
fn a_panic_in_dropping_an_error_does_not_unwind_reclaim() {
    let store: &Buggy = Box::leak(Box::default());
    let (result, all_free) = with_buggy(store, |pager, pager_cpu, file| {
        for page in [3, 4, 5, 6, 7] {
            drop(pager_cpu.write(file, page).unwrap());
        }
        store.drop_panics.store(true, SeqCst);
        let (reclaim, node) = (pager.reclaim(), framewright::NodeId::default());
        reclaim.lru().drain_all();
        for _ in 0..8 {
            reclaim.shrink_node(framewright::CpuId::new(0), node, 64);
        }
        assert!(pager.cache.stats().write_failed >= 5, "some writes were not tried");
        assert_eq!(pager.cache.dirty(file), 5);
    });
    // Dropping the payload would panic.
    std::mem::forget(result.expect_err("the panic is passed on at the end"));
    assert!(all_free);
}

#[test]
fn a_sync_is_passed_on_to_the_store_and_its_failure_back() {
    let store: &Buggy = Box::leak(Box::default());
    let (result, _) = with_buggy(store, |_, pager_cpu, file| {
        drop(pager_cpu.write(file, 3).unwrap());
        pager_cpu.sync(file).unwrap();
        assert_eq!(store.synced.load(Relaxed), 1);
        store.syncs.store(true, SeqCst);
        let error = pager_cpu.sync(file).unwrap_err();
        assert!(matches!(error, PagingError::Unsynced { .. }), "{error}");
        assert!(error.to_string().ends_with("the device is gone"), "{error}");
    });
    result.unwrap();
}

#[test]
fn a_sync_of_some_pages_leaves_the_others_dirty() {
    let store: &Buggy = Box::leak(Box::default());
    let (result, _) = with_buggy(store, |pager, pager_cpu, file| {
        for page in [3, 4, 5, 40] {
            drop(pager_cpu.write(file, page).unwrap());
        }
        pager_cpu.sync_pages(file, 4..6).unwrap();
        assert_eq!((pager.cache.dirty(file), store.synced.load(Relaxed)), (2, 1));
        pager_cpu.sync_pages(file, 7..7).unwrap();
        let error = pager_cpu.sync_pages(file, 40..65).unwrap_err();
        assert!(matches!(error, PagingError::NoSuchPage { page: 64, .. }), "{error}");
        assert_eq!(pager.cache.dirty(file), 2);
        pager_cpu.sync_pages(file, 0..64).unwrap();
        assert_eq!(pager.cache.dirty(file), 0);
    });
    result.unwrap();
}

#[test]
fn stores_to_the_same_word_by_two_threads_are_not_lost() {
    let store: &Buggy = Box::leak(Box::default());
    let (result, _) = with_buggy(store, |_, pager_cpu, file| {
        let mut guards = [(); 2].map(|()| pager_cpu.write(file, 3).unwrap());
        std::thread::scope(|threads| {
            for (half, guard) in guards.iter_mut().enumerate() {
                threads.spawn(move || {
                    (0..10_000u32).for_each(|n| guard.write_bytes(4 * half, &n.to_ne_bytes()));
                });
            }
        });
        drop(guards);
        let mut bytes = [0; 8];
        pager_cpu.read(file, 3).unwrap().read_bytes(0, &mut bytes);
        assert_eq!(bytes[..4], 9_999u32.to_ne_bytes());
        assert_eq!(bytes[4..], 9_999u32.to_ne_bytes());
    });
    result.unwrap();
}

#[test]
fn the_number_of_guards_of_a_page_is_limited() {
    let store: &Buggy = Box::leak(Box::default());
    let (result, all_free) = with_buggy(store, |_, pager_cpu, file| {
        let mut guards: Vec<_> = (0..0xffff).map(|_| pager_cpu.read(file, 3).unwrap()).collect();
        let error = pager_cpu.read(file, 3).unwrap_err();
        assert_eq!(error.to_string(), "page 3 has the maximum of 65535 guards; release some first");
        assert!(pager_cpu.write(file, 3).is_err());
        guards.pop();
        drop(pager_cpu.write(file, 3).unwrap());
    });
    result.unwrap();
    assert!(all_free);
}

//! Spurious wake-ups of waits for pages while other threads read, write, reclaim or evict these pages.

use std::{
    io,
    sync::atomic::{AtomicU64, Ordering::SeqCst},
    thread,
};

use framewright::{Config, CpuId, Layout, Memory, NodeId, SideTables};

use super::super::*;
use crate::{Backing, HostMachine, Metadata, wait::early::Early};

const PAGES: u32 = 48;

/// A store of one word per page. It yields to other threads during each call.
struct Slow(Vec<AtomicU64>);

impl Store for &'static Slow {
    fn read(&self, page: u32, into: &mut [u8]) -> io::Result<()> {
        for (page, bytes) in (page as usize..).zip(into.chunks_exact_mut(4096)) {
            let word = self.0[page].load(SeqCst).to_ne_bytes();
            bytes.chunks_exact_mut(8).for_each(|bytes| bytes.copy_from_slice(&word));
            thread::yield_now();
        }
        Ok(())
    }

    fn write(&self, page: u32, from: &[u8]) -> io::Result<()> {
        let word = u64::from_ne_bytes(from[..8].try_into().unwrap());
        thread::yield_now();
        let same = from.chunks_exact(8).all(|bytes| bytes == word.to_ne_bytes());
        assert!(same, "page {page} is written during a store to it");
        self.0[page as usize].store(word, SeqCst);
        Ok(())
    }
}

/// Whether so many pages were reclaimed and written that both kinds of waits probably occurred.
fn reclaimed(cache: &PageCache) -> bool {
    let stats = cache.stats();
    stats.evicted > 100 && stats.written > 50
}

#[test]
fn nothing_is_lost_though_all_waits_end_early() {
    let _early = Early::begin();
    let builder = HostMachine::builder().frames(4096).cpus(4).backing(Backing::MetadataOnly);
    let machine = builder.build().unwrap();
    let map = [machine.frames().into()];
    let side_tables = SideTables::default().with_lru();
    let config = Config::new(&map, machine.cpus()).with_side_tables(side_tables);
    let layout = Layout::new::<HostMachine>(&config).unwrap();
    let mut metadata = Metadata::for_layout(&layout).unwrap();
    let mut cache = PageCache::new(&machine).unwrap();
    let store: &'static Slow = Box::leak(Box::new(Slow((0..PAGES).map(|_| 0.into()).collect())));
    let file = cache.add(Box::new(store), PAGES, 4).unwrap();
    let memory = Memory::new(machine, &config, metadata.as_mut()).unwrap();
    let (cache, memory) = (&cache, &memory);
    let run = Pager::run(memory, cache, |pager| {
        thread::scope(|scope| {
            let workers = [0, 1].map(|thread| {
                scope.spawn(move || {
                    let me = pager.register().unwrap();
                    let mut pager_cpu = pager.cpu(&me).unwrap();
                    let mut random = fastrand::Rng::with_seed(thread.into());
                    let mut last = [0; PAGES as usize];
                    let mut turn = 0;
                    // The scheduler decides how long this overlaps the reclaim below.
                    while turn < 6_000 || !reclaimed(cache) && turn < 6_000_000 {
                        turn += 1;
                        // Each thread stores to its own pages, and reads all pages.
                        let page = random.u32(..PAGES);
                        let own = page % 2 == thread;
                        if own && turn % 2 == 0 {
                            last[page as usize] = turn;
                            pager_cpu.write(file, page).unwrap().fill(turn);
                        }
                        let reading = pager_cpu.read(file, page).unwrap();
                        assert!(!own || reading.words().all(|word| word == last[page as usize]));
                        drop(reading);
                        if turn % 64 == 0 {
                            match pager_cpu.sync(file) {
                                Ok(()) | Err(PagingError::InUse { .. }) => {}
                                Err(error) => panic!("{error}"),
                            }
                        }
                    }
                })
            });
            scope.spawn(move || {
                while workers.iter().any(|worker| !worker.is_finished()) {
                    memory.lru().unwrap().drain_all();
                    pager.reclaim().shrink_node(CpuId::new(3), NodeId::default(), 16);
                    thread::yield_now();
                }
            });
        });
        let me = pager.register().unwrap();
        pager.cpu(&me).unwrap().evict_all().unwrap();
    });
    run.and_then(RunOutcome::written).unwrap();
    assert!(reclaimed(cache), "{:?}", cache.stats());
    memory.drain_all();
    memory.check().unwrap();
    assert_eq!(memory.free(), memory.managed());
}

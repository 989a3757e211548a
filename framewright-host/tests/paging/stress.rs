//! Many threads read and store to shared files. Every page contains the result of its last store,
//! in memory, and at the end in the `Store`.

use framewright::tuning::FlushBatching;
use framewright_host::paging::{PageCache, Pager};
use std::{
    sync::atomic::{AtomicU64, Ordering::SeqCst},
    thread,
};

use super::stores::{Shape, Tokens, token};

const PAGES: u32 = 6_000;
const THREADS: u16 = 4;

/// The number of stores to each page, which determines the next value. Only thread `p % THREADS`
/// stores to page `p`; all threads read it.
struct Last(Vec<AtomicU64>);

impl Last {
    fn value(page: u32, times: u64) -> u64 {
        if times == 0 { token(page) } else { times << 32 | u64::from(page) }
    }

    /// Whether a reader may find this value after at least `before` stores.
    fn allows(&self, page: u32, found: u64, before: u64) -> bool {
        let after = self.0[page as usize].load(SeqCst);
        // A store in progress is counted only at its end.
        (before..=after + 1).any(|times| found == Self::value(page, times))
    }
}

fn work(pager: &Pager<'_, '_>, cache: &PageCache, thread: u32, last: &Last, rounds: u32) {
    let file = cache.files().next().unwrap();
    let me = pager.register().unwrap();
    let mut pager_cpu = pager.cpu(&me).unwrap();
    let mut random = fastrand::Rng::with_seed(thread.into());
    for round in 0..rounds {
        // Half of the accesses are to a small part of the pages, so that unmapped pages are used
        // again.
        let page = random.u32(..if round % 2 == 0 { PAGES } else { PAGES / 4 });
        let times = &last.0[page as usize];
        if page % u32::from(THREADS) == thread && random.u32(..3) == 0 {
            let mut writing = pager_cpu.write(file, page).unwrap();
            let next = times.load(SeqCst) + 1;
            writing.fill(Last::value(page, next));
            drop(writing);
            times.store(next, SeqCst);
        } else {
            let before = times.load(SeqCst);
            let reading = pager_cpu.read(file, page).unwrap();
            for at in [0, 255, 511] {
                let found = reading.word(at);
                assert!(last.allows(page, found, before), "page {page}, word {at}: {found:#x}");
            }
        }
    }
}

fn stress(batching: FlushBatching, vectors: bool) {
    let store = Tokens::new(PAGES);
    let kept = store.clone();
    let last = Last((0..PAGES).map(|_| AtomicU64::new(0)).collect());
    let shape = Shape { frames: 3072, cpus: THREADS, batching, vectors };
    let stats = shape.run(&[(store, 4)], |pager, cache| {
        thread::scope(|scope| {
            for thread in 0..u32::from(THREADS) {
                let last = &last;
                scope.spawn(move || work(pager, cache, thread, last, 30_000));
            }
        });
        let file = cache.files().next().unwrap();
        assert!(cache.in_memory(file) <= shape.frames, "{}", cache.in_memory(file));
        cache.stats()
    });
    let stats = stats.unwrap();
    assert!(stats.evicted > 5_000 && stats.written > 1_000, "{stats:?}");
    for page in 0..PAGES {
        let expected = Last::value(page, last.0[page as usize].load(SeqCst));
        assert_eq!(kept.stored(page), expected, "page {page} lost a store");
    }
}

#[test]
fn one_by_one() {
    stress(FlushBatching::Off, true);
}

#[test]
fn batches() {
    stress(FlushBatching::All, true);
}

#[test]
fn lazily() {
    stress(FlushBatching::Lazy, true);
}

#[test]
fn lazily_range_by_range() {
    stress(FlushBatching::Lazy, false);
}

//! One thread: pages in memory, their contents, and counted costs.

use framewright::tuning::FlushBatching;
use framewright_host::paging::{FileId, PageCache, PagerCpu, PagingError};

use super::stores::{Shape, Tokens, token};

const ALL: [FlushBatching; 4] =
    [FlushBatching::Off, FlushBatching::CleanOnly, FlushBatching::All, FlushBatching::Lazy];

/// Reads all words of pages.
fn read(pager_cpu: &mut PagerCpu<'_, '_>, file: FileId, pages: impl Iterator<Item = u32>) {
    for page in pages {
        let reading = pager_cpu.read(file, page).unwrap();
        let expected = token(page);
        assert!(reading.words().all(|word| word == expected), "page {page}");
    }
}

#[test]
fn files_are_read_that_are_larger_than_memory() {
    for batching in ALL {
        for vectors in [true, false] {
            let shape = Shape { vectors, ..Shape::new(batching) };
            let store = Tokens::new(20_000);
            let stats = shape.run(&[(store, 32)], |pager, cache| {
                let file = cache.files().next().unwrap();
                let me = pager.register().unwrap();
                let mut pager_cpu = pager.cpu(&me).unwrap();
                for _ in 0..2 {
                    read(&mut pager_cpu, file, 0..20_000);
                    assert!(cache.resident(file) < 4096);
                    assert!(cache.in_memory(file) <= 4096, "{}", cache.in_memory(file));
                }
                cache.stats()
            });
            let stats = stats.unwrap();
            assert!(stats.evicted > 32_000, "{batching:?}: {stats:?}");
            assert_eq!((stats.refused, stats.written), (0, 0));
            let each = stats.evicted / stats.flushes;
            let expected = match batching {
                FlushBatching::Off => 1..2,
                // As many pages as one call of reclaim has unmapped, which may be few.
                FlushBatching::CleanOnly => 4..128,
                FlushBatching::All => 32..256,
                FlushBatching::Lazy => 64..1024,
            };
            assert!(expected.contains(&each), "{batching:?}: {stats:?}");
        }
    }
}

#[test]
fn pages_that_are_used_again_stay() {
    let store = Tokens::new(20_000);
    let shape = Shape::new(FlushBatching::Lazy);
    shape
        .run(&[(store, 1)], |pager, cache| {
            let file = cache.files().next().unwrap();
            let me = pager.register().unwrap();
            let mut pager_cpu = pager.cpu(&me).unwrap();
            let hot = || (0..400).map(|page| page * 7);
            for round in 0..40 {
                read(&mut pager_cpu, file, hot());
                read(&mut pager_cpu, file, 5_000 + round * 300..5_000 + (round + 1) * 300);
            }
            let before = cache.stats().misses;
            read(&mut pager_cpu, file, hot());
            let missed = cache.stats().misses - before;
            assert!(missed < 40, "{missed} of 400 were evicted");
        })
        .unwrap();
}

#[test]
fn dirty_pages_are_written_before_they_are_evicted() {
    for batching in ALL {
        let store = Tokens::new(12_000);
        let kept = store.clone();
        Shape::new(batching)
            .run(&[(store, 8)], |pager, cache| {
                let file = cache.files().next().unwrap();
                let me = pager.register().unwrap();
                let mut pager_cpu = pager.cpu(&me).unwrap();
                for page in (0..12_000).step_by(3) {
                    pager_cpu.write(file, page).unwrap().fill(u64::from(page));
                }
                assert!(cache.stats().written > 500, "{:?}", cache.stats());
                for page in 0..12_000 {
                    let expected = if page % 3 == 0 { u64::from(page) } else { token(page) };
                    assert_eq!(
                        pager_cpu.read(file, page).unwrap().word(511),
                        expected,
                        "page {page}"
                    );
                }
                pager_cpu.sync(file).unwrap();
                assert_eq!(cache.dirty(file), 0);
            })
            .unwrap();
        for page in (0..12_000).step_by(3) {
            assert_eq!(kept.stored(page), u64::from(page));
        }
    }
}

#[test]
fn pages_in_use_stay_in_memory() {
    let store = Tokens::new(9_000);
    Shape::new(FlushBatching::Lazy)
        .run(&[(store, 32)], |pager, cache| {
            let file = cache.files().next().unwrap();
            let me = pager.register().unwrap();
            let mut pager_cpu = pager.cpu(&me).unwrap();
            let reading = pager_cpu.read(file, 5).unwrap();
            let writing = pager_cpu.write(file, 6).unwrap();
            read(&mut pager_cpu, file, 100..9_000);
            assert_eq!((reading.word(0), cache.dirty(file)), (token(5), 1));
            let error = pager_cpu.sync(file).unwrap_err();
            assert!(matches!(error, PagingError::InUse { pages: 1, page: 6 }), "{error}");
            drop(writing);
            pager_cpu.sync(file).unwrap();
        })
        .unwrap();
}

#[test]
fn pages_that_are_not_there_are_named() {
    Shape::new(FlushBatching::Lazy)
        .run(&[(Tokens::new(10), 1)], |pager, cache: &PageCache| {
            let file = cache.files().next().unwrap();
            let me = pager.register().unwrap();
            let error = pager.cpu(&me).unwrap().read(file, 10).unwrap_err();
            assert_eq!(error.to_string(), "there is no page 10: the file has 10");
            let error = pager.cpu(&me).map(|_| ()).err();
            assert!(error.is_none(), "{error:?}");
        })
        .unwrap();
}

//! Failing stores: no data is lost, every failure is reported, and no loop runs forever.

use framewright::tuning::FlushBatching;
use framewright_host::paging::PagingError;

use super::stores::{Shape, Tokens, token};

#[test]
fn pages_whose_write_failed_stay_dirty_and_are_reported() {
    for full in [true, false] {
        let store = Tokens::new(8_000);
        let kept = store.clone();
        let fail = |fails: bool| if full { kept.set_full(fails) } else { kept.set_broken(fails) };
        let shape = Shape { frames: 2048, ..Shape::new(FlushBatching::Lazy) };
        shape
            .run(&[(store, 1)], |pager, cache| {
                let file = cache.files().next().unwrap();
                let me = pager.register().unwrap();
                let mut pager_cpu = pager.cpu(&me).unwrap();
                fail(true);
                let mut last = 0;
                let error = (0..8_000).find_map(|page| {
                    last = page;
                    pager_cpu.write(file, page).map(|mut page| page.fill(7)).err()
                });
                // When memory is full of unevictable pages, an error is returned soon.
                let error = error.expect("8000 dirty pages do not fit");
                assert!(matches!(error, PagingError::OutOfMemory { .. }), "{error}");
                assert!(last > 1_000, "{last}");
                assert!(cache.stats().write_failed > 0 && cache.failed(file) > 0);
                let error = pager_cpu.sync(file).unwrap_err();
                assert!(matches!(error, PagingError::Unwritten { .. }), "{error}");
                assert_eq!(cache.dirty(file), u64::from(last), "a store is not in memory");
                assert_eq!(kept.stored(0), token(0));
                fail(false);
                pager_cpu.sync(file).unwrap();
                assert_eq!((cache.dirty(file), cache.failed(file)), (0, 0));
                assert!((0..last).all(|page| kept.stored(page) == 7));
                // Further stores succeed.
                for page in last..8_000 {
                    pager_cpu.write(file, page).unwrap().fill(7);
                }
            })
            .unwrap();
        assert!((0..8_000).all(|page| kept.stored(page) == 7));
    }
}

#[test]
fn a_page_that_cannot_be_read_is_an_error_and_its_neighbours_are_not() {
    let store = Tokens::new(100);
    let kept = store.clone();
    Shape::new(FlushBatching::Lazy)
        .run(&[(store, 32)], |pager, cache| {
            let file = cache.files().next().unwrap();
            let me = pager.register().unwrap();
            let mut pager_cpu = pager.cpu(&me).unwrap();
            kept.set_unreadable(Some(40));
            assert_eq!(pager_cpu.read(file, 33).unwrap().word(0), token(33));
            let error = pager_cpu.read(file, 40).unwrap_err();
            assert!(matches!(error, PagingError::Unreadable { page: 40, .. }), "{error}");
            assert_eq!(
                cache.in_memory(file),
                cache.resident(file),
                "the file's memory was not freed"
            );
            kept.set_unreadable(None);
            assert_eq!(pager_cpu.read(file, 40).unwrap().word(0), token(40));
        })
        .unwrap();
}

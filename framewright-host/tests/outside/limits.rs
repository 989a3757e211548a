//! Sizes and counts at their limits.

use std::io;

use framewright::Pfn;
use framewright_host::{
    HostError,
    paging::{PageCache, Pager, PagingError, RunOutcome, Store},
};

use super::setup::{FRAMES, Words, builder, with_memory};

/// Reads and writes three times as many pages as there are frames.
fn turn_over(base: u64) {
    let machine = builder(2).base(Pfn::new(base)).build().unwrap();
    let store = Words::new(3 * FRAMES as u32);
    let mut cache = PageCache::new(&machine).unwrap();
    let file = cache.add(Box::new(store.clone()), 3 * FRAMES as u32, 8).unwrap();
    with_memory(machine, |memory| {
        let run = Pager::run(memory, &cache, |pager| {
            let me = pager.register().unwrap();
            let mut pager_cpu = pager.cpu(&me).unwrap();
            for page in 0..3 * FRAMES as u32 {
                if page % 4 == 0 {
                    pager_cpu.write(file, page).unwrap().fill(7);
                } else {
                    assert_eq!(pager_cpu.read(file, page).unwrap().word(511), u64::from(page));
                }
            }
            pager_cpu.evict_all().unwrap();
        });
        run.and_then(RunOutcome::written).unwrap();
        assert!(cache.stats().evicted > 2 * FRAMES, "{:?}", cache.stats());
        memory.drain_all();
        assert_eq!(memory.free(), memory.managed(), "from frame {base:#x} on");
    });
    assert!((0..3 * FRAMES as u32).step_by(4).all(|page| store.stored(page) == 7));
}

#[test]
fn pages_are_evicted_from_frames_of_any_number() {
    for base in [0, (1 << 32) - 2048, 1 << 32, (1 << 48) - 8192] {
        turn_over(base);
    }
}

/// A store that keeps nothing. A read returns the low byte of the page number.
struct Empty;

impl Store for Empty {
    fn read(&self, page: u32, into: &mut [u8]) -> io::Result<()> {
        into.fill(page as u8);
        Ok(())
    }

    fn write(&self, _: u32, _: &[u8]) -> io::Result<()> {
        Ok(())
    }
}

/// The resident memory of this process, in bytes.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    text.split(' ').nth(1).unwrap().parse::<u64>().unwrap() << 12
}

#[test]
fn tables_take_memory_only_for_pages_that_are_used() {
    // If all entries were used, the table would take 4 GiB. The limit is far higher than the need of four pages,
    // because other tests of this process and the thread sanitizer use memory at the same time.
    let (pages, most) = (1 << 28, 512 << 20);
    let before = resident();
    let machine = builder(2).build().unwrap();
    let mut cache = PageCache::new(&machine).unwrap();
    let file = cache.add(Box::new(Empty), pages, 1).unwrap();
    with_memory(machine, |memory| {
        let run = Pager::run(memory, &cache, |pager| {
            let me = pager.register().unwrap();
            let mut pager_cpu = pager.cpu(&me).unwrap();
            for page in [0, 300, pages / 2, pages - 1] {
                pager_cpu.write(file, page).unwrap().fill(7);
            }
            assert_eq!((cache.resident(file), cache.dirty(file), cache.failed(file)), (4, 4, 0));
            assert_eq!(cache.in_memory(file), 4);
            pager_cpu.sync(file).unwrap();
            assert_eq!((cache.resident(file), cache.dirty(file)), (4, 0));
            let used = resident().saturating_sub(before);
            println!("{} KiB", used >> 10);
            assert!(used < most, "{} MiB", used >> 20);
            pager_cpu.evict_all().unwrap();
            assert_eq!((cache.resident(file), cache.stats().evicted), (0, 4));
        });
        run.and_then(RunOutcome::written).unwrap();
    });
}

#[test]
fn a_machine_with_more_frames_than_a_cache_can_number_is_refused() {
    PageCache::new(&builder(1).frames(1 << 32).build().unwrap()).unwrap();
    let machine = builder(1).frames(1 << 40).build().unwrap();
    let error = PageCache::new(&machine).unwrap_err();
    let (frames, most) = (1 << 40, 1 << 32);
    assert_eq!(error, HostError::TooManyToCache { frames, most });
}

#[test]
fn a_thread_without_a_free_cpu_is_told_that_background_reclaim_has_one() {
    let machine = builder(1).build().unwrap();
    let cache = PageCache::new(&machine).unwrap();
    with_memory(machine, |memory| {
        let run = Pager::run(memory, &cache, |pager| {
            let error = pager.register().unwrap_err();
            assert!(matches!(error, PagingError::NoFreeCpu { cpus: 1 }), "{error:?}");
            assert!(error.to_string().contains("background reclaim has the last"), "{error}");
        });
        run.and_then(RunOutcome::written).unwrap();
    });
}

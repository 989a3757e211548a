//! Sizes and numbers at their limits.

use framewright::Pfn;
use framewright_host::{
    HostError,
    paging::{PageCache, Pager, PagingError, Ran},
};

use super::setup::{FRAMES, Words, builder, with_memory};

/// Reads and stores more pages than there are frames.
fn turn_over(base: u64) {
    let machine = builder(2).base(Pfn::new(base)).build().unwrap();
    let store = Words::new(3 * FRAMES as u32);
    let mut cache = PageCache::new(&machine).unwrap();
    let file = cache.add(Box::new(store.clone()), 3 * FRAMES as u32, 8).unwrap();
    with_memory(machine, |memory| {
        let run = Pager::run(memory, &cache, |pager| {
            let me = pager.register().unwrap();
            let mut seat = pager.seat(&me).unwrap();
            for page in 0..3 * FRAMES as u32 {
                if page % 4 == 0 {
                    seat.write(file, page).unwrap().fill(7);
                } else {
                    assert_eq!(seat.read(file, page).unwrap().word(511), u64::from(page));
                }
            }
            seat.clear_away().unwrap();
        });
        run.and_then(Ran::written).unwrap();
        assert!(cache.stats().evicted > 2 * FRAMES, "{:?}", cache.stats());
        memory.drain_all();
        assert_eq!(memory.free(), memory.managed(), "from frame {base:#x} on");
    });
    assert!((0..3 * FRAMES as u32).step_by(4).all(|page| store.stored(page) == 7));
}

#[test]
fn pages_are_evicted_whatever_the_numbers_of_their_frames() {
    for base in [0, (1 << 32) - 2048, 1 << 32, (1 << 48) - 8192] {
        turn_over(base);
    }
}

#[test]
fn a_file_for_whose_pages_there_is_no_memory_is_refused() {
    let machine = builder(2).build().unwrap();
    let mut cache = PageCache::new(&machine).unwrap();
    let error = cache.add(Box::new(Words::new(1)), u32::MAX, 1).unwrap_err();
    // 64 GiB: refused even if the kernel overcommits without limit.
    let refused = |error: &HostError| {
        matches!(error, HostError::OutOfMemory { .. } | HostError::TooLittleAvailable { .. })
    };
    assert!(refused(&error), "{error}");
    assert_eq!(cache.files().len(), 0);
    let file = cache.add(Box::new(Words::new(1)), 1, u32::MAX).unwrap();
    assert_eq!(cache.files().collect::<Vec<_>>(), [file]);
}

#[test]
fn a_machine_for_whose_frames_there_is_no_memory_is_refused() {
    let machine = builder(1).frames(1 << 32).build().unwrap();
    let error = PageCache::new(&machine).unwrap_err();
    let is_32_gib = |bytes| bytes == 8 << 32;
    match error {
        HostError::OutOfMemory { bytes, .. } | HostError::TooLittleAvailable { bytes, .. } => {
            assert!(is_32_gib(bytes), "{bytes}");
        }
        error => panic!("{error}"),
    }
    let machine = builder(1).frames(1 << 40).build().unwrap();
    let error = PageCache::new(&machine).unwrap_err();
    let (frames, most) = (1 << 40, 1 << 32);
    assert_eq!(error, HostError::TooManyToCache { frames, most });
}

#[test]
fn who_has_no_cpu_left_is_told_who_has_it() {
    let machine = builder(1).build().unwrap();
    let cache = PageCache::new(&machine).unwrap();
    with_memory(machine, |memory| {
        let run = Pager::run(memory, &cache, |pager| {
            let error = pager.register().unwrap_err();
            assert!(matches!(error, PagingError::NoFreeCpu { cpus: 1 }), "{error:?}");
            assert!(error.to_string().contains("background reclaim has the last"), "{error}");
        });
        run.and_then(Ran::written).unwrap();
    });
}

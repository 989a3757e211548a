//! A memory map in pieces, in safe code.
#![forbid(unsafe_code)]

use framewright::{
    Config, FrameRange, HotplugError, MemoryRange, Pfn, platform::OwnerLock, tuning::Auto,
};

use framewright_fakes::leaked;

use crate::machine::{CPU, Machine, PAGE, assert_apart, assert_complete, take_all};

fn range(start: u64, end: u64) -> FrameRange {
    FrameRange::new(Pfn::new(start), Pfn::new(end)).unwrap()
}

#[test]
fn no_frame_is_added_twice() {
    let map = [MemoryRange::from(range(0, 4096)).in_pieces()];
    let mut config = Config::new(&map, 2);
    config.tuning.zone.min_free = Auto::Fixed(0);
    let memory = leaked(Machine::new(OwnerLock::Trylock), &config);
    let mut token = memory.cpu(CPU).unwrap();
    assert!(
        token.alloc(PAGE.no_wait()).is_err(),
        "a frame was allocated although no piece was added"
    );
    memory.add_memory(range(100, 1000)).unwrap();
    // No frame is added a second time, whether it is in use, on a list, or free.
    let mut held = take_all(memory, &mut token);
    held.drain(..300).for_each(|block| token.free(block).unwrap());
    for start in (0..=1000).step_by(50) {
        let added = memory.add_memory(range(start, start + 60));
        let inside = start > 0 && start < 1000;
        assert_eq!(added.is_err(), inside, "{start}: {added:?}");
        if let Err(error) = added {
            assert!(matches!(error, HotplugError::Present { .. }));
        }
    }
    held.extend(take_all(memory, &mut token));
    assert_apart(&held);
    assert_eq!(held.len() as u64, memory.managed());
    assert_complete(memory, &mut token, held);
}

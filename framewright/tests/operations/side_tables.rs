//! Optional side tables. They exist only if requested, with the size in the layout.

use crate::support::machine::{Machine, Metadata};
use framewright::{Config, FrameRange, Layout, Memory, Pfn, SideTables};
use std::sync::atomic::Ordering;

fn with_side_tables(side_tables: SideTables, test: impl FnOnce(&Memory<'_, Machine>, &Layout)) {
    let map = [FrameRange::new(Pfn::new(700), Pfn::new(3000)).unwrap().into()];
    let config = Config::new(&map, 1).with_side_tables(side_tables);
    let layout = Layout::new::<Machine>(&config).unwrap();
    let mut metadata = Metadata::new(layout.bytes());
    test(&Memory::new(Machine::default(), &config, metadata.as_mut()).unwrap(), &layout);
}

#[test]
fn side_tables_have_one_entry_per_frame() {
    with_side_tables(SideTables::default().with_flags().with_owners(), |memory, _| {
        for number in [700, 701, 2999] {
            let pfn = Pfn::new(number);
            assert_eq!(memory.frame_flags(pfn).unwrap().fetch_or(4, Ordering::Relaxed), 0);
            memory.frame_owner(pfn).unwrap().store(number as u32, Ordering::Relaxed);
        }
        assert_eq!(memory.frame_flags(Pfn::new(701)).unwrap().load(Ordering::Relaxed), 4);
        assert_eq!(memory.frame_flags(Pfn::new(702)).unwrap().load(Ordering::Relaxed), 0);
        assert_eq!(memory.frame_owner(Pfn::new(2999)).unwrap().load(Ordering::Relaxed), 2999);
        for outside in [0, 699, 3000, u64::MAX] {
            assert!(memory.frame_flags(Pfn::new(outside)).is_none());
        }
        memory.check().unwrap();
    });
}

#[test]
fn unwanted_side_tables_do_not_exist_and_cost_nothing() {
    let mut without = 0;
    with_side_tables(SideTables::default(), |memory, layout| {
        assert!(memory.frame_flags(Pfn::new(700)).is_none());
        assert!(memory.frame_owner(Pfn::new(700)).is_none());
        without = layout.bytes();
    });
    with_side_tables(SideTables::default().with_flags(), |memory, layout| {
        assert!(memory.frame_owner(Pfn::new(700)).is_none());
        // Five pageblocks hold the frames.
        assert_eq!(layout.bytes() - without, 5 * 512);
        let price = layout.parts().find(|part| part.name == "flags table").unwrap();
        assert!(price.optional && price.bytes == 5 * 512);
    });
}

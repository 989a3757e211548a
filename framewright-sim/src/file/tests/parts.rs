//! A cache works only with the memory that it belongs to.

use framewright::{Config, FrameRange, Layout, Memory, Pfn, SideTables};

use crate::{
    engine::{Machine, Model, Options},
    file::{FileCosts, PageCache, Parts, StoreSpec},
    platform::{LentRelief, MetadataBuffer, Settings, Simulated},
    process::{Mmu, Oracle},
};

#[test]
#[should_panic(expected = "a page cache serves one memory, once")]
fn a_cache_cannot_be_used_with_a_second_memory() {
    const FRAMES: u64 = 512;
    let machine = Machine::new(1, Options::default());
    let map = [FrameRange::new(Pfn::new(0), Pfn::new(FRAMES)).unwrap().into()];
    let config = Config::new(&map, 1).with_side_tables(SideTables::default().with_lru());
    let mmu = Mmu::checking(1, Oracle::new(FRAMES as u32));
    let (model, store) = (Model::free(1), StoreSpec::INSTANT);
    let cache = PageCache::new(&mmu, &model, FRAMES as u32, store, FileCosts::FREE);
    for _ in 0..2 {
        let mut metadata = MetadataBuffer::new(&Layout::new::<Simulated>(&config).unwrap());
        let relief = LentRelief::default();
        let platform = Simulated::new(&machine, Settings::default()).with_relief(&relief);
        let memory = Memory::new(platform, &config, metadata.as_mut()).unwrap();
        let parts = Parts { machine: &machine, memory: &memory, cache: &cache, relief: &relief };
        parts.together(|_| ());
    }
}

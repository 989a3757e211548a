use std::io;

use framewright::{
    Config, Layout, Memory, Planes,
    reclaim::{PageOwner, PageState, Released, Shadow, Unmapped},
    tlb::BatchSlot,
};

use super::*;
use crate::{Backing, HostMachine, Metadata};

/// Every byte of page `n` is `n`.
struct Bytes;

impl Store for Bytes {
    fn read(&self, page: u32, into: &mut [u8]) -> io::Result<()> {
        into.fill(page as u8);
        Ok(())
    }

    fn write(&self, _page: u32, _from: &[u8]) -> io::Result<()> {
        Err(io::Error::other("it is read-only"))
    }
}

#[test]
fn what_leaves_is_rescued_with_its_contents_and_is_not_given_up() {
    let builder = HostMachine::builder().frames(4096).cpus(2).backing(Backing::MetadataOnly);
    let machine = builder.build().unwrap();
    let map = [machine.frames().into()];
    let planes = Planes { lru: true, ..Planes::default() };
    let config = Config { planes, ..Config::new(&map, machine.cpus()) };
    let layout = Layout::new::<HostMachine>(&config).unwrap();
    let mut metadata = Metadata::for_layout(&layout).unwrap();
    let mut cache = PageCache::new(&machine).unwrap();
    let file = cache.add(Box::new(Bytes), 10, 1).unwrap();
    let memory = Memory::new(machine, &config, metadata.as_mut()).unwrap();
    Pager::run(&memory, &cache, |pager| {
        let me = pager.register().unwrap();
        let mut seat = pager.seat(&me).unwrap();
        drop(seat.read(file, 3).unwrap());
        let page = cache.page(cache::PageId { file, page: 3 });
        let frame = page.state.frame().unwrap();
        let lru = memory.lru().unwrap();
        lru.drain_all();
        assert!(lru.remove(frame));
        // Reclaim takes it away...
        let mut slots = [BatchSlot::default(); 4];
        let mut batch = memory.flusher(me.id(), &pager.shooter).batch(&mut slots);
        let (mut locked, mut unmapped) = ([None], [Unmapped::default()]);
        cache.lock(&[frame], &mut locked);
        assert_eq!(locked, [Some(PageState { mapped: true, ..PageState::default() })]);
        cache.unmap(&[frame], &mut batch, &mut unmapped);
        assert_eq!(unmapped, [Unmapped::Gone { dirty: false }]);
        assert_eq!((cache.resident(file), cache.in_memory(file)), (0, 1));
        // ... and it is wanted again.
        assert_eq!(seat.read(file, 3).unwrap().word(511), 0x0303_0303_0303_0303);
        assert_ne!(page.state.frame(), Some(frame));
        let mut released = [Released::default()];
        cache.release(&[frame], &[Shadow::default()], &mut released);
        assert_eq!(released, [Released::Released]);
        batch.retire(frame).unwrap();
        batch.flush();
        batch.finish(&mut |frames| frames.iter().for_each(|&frame| seat.free(frame)));
        drop(batch);
        assert_eq!(seat.read(file, 3).unwrap().word(0), 0x0303_0303_0303_0303);
        let PagingStats { read, rescued, unmapped, evicted, .. } = cache.stats();
        assert_eq!((read, rescued, unmapped, evicted), (1, 1, 1, 0));
        seat.clear_away().unwrap();
        assert_eq!((cache.stats().evicted, cache.in_memory(file)), (1, 0));
    })
    .unwrap();
    memory.drain_all();
    assert_eq!(memory.free(), memory.managed());
}

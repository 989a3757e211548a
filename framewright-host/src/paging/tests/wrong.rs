//! Calls of the `PageOwner` with wrong frames or in a wrong order are harmless.

use std::{
    io,
    sync::{
        OnceLock,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
};

use framewright::{
    Config, Layout, Memory, Pfn, SideTables,
    reclaim::{PageOwner, PageState, Reference, Released, Shadow, Unmapped, WriteOut},
    tlb::BatchSlot,
};

use super::super::{
    cache::PageId,
    owner::Owner,
    page::{Access, Fix},
    *,
};
use crate::{Backing, HostMachine, Metadata};

/// A store that records the last write, and unlocks pages while they are written.
#[derive(Default)]
struct Unlocking {
    written: AtomicU64,
    place: OnceLock<(&'static PageCache, Pfn, PageId)>,
}

impl Store for &'static Unlocking {
    fn read(&self, _page: u32, into: &mut [u8]) -> io::Result<()> {
        into.fill(0);
        Ok(())
    }

    fn write(&self, _page: u32, from: &[u8]) -> io::Result<()> {
        if let Some(&(cache, frame, id)) = self.place.get() {
            let owner = Owner(cache);
            owner.unlock(&[frame]);
            assert_eq!(
                cache.page(id).state.fix(Access::Store),
                Fix::Busy,
                "the call was not refused although the page is being written"
            );
            owner.lock(&[frame], &mut [None]);
            let mut out = [WriteOut::Started];
            owner.write_out(&[frame], &mut out);
            assert_eq!(
                out,
                [WriteOut::Refused],
                "the call was not refused although the page is being written"
            );
        }
        self.written.store(from[0].into(), SeqCst);
        Ok(())
    }
}

#[test]
fn no_step_is_taken_with_a_page_in_use_nor_with_one_that_was_not_chosen() {
    let builder = HostMachine::builder().frames(4096).cpus(2).backing(Backing::MetadataOnly);
    let machine = builder.build().unwrap();
    let map = [machine.frames().into()];
    let side_tables = SideTables::default().with_lru();
    let config = Config::new(&map, machine.cpus()).with_side_tables(side_tables);
    let layout = Layout::new::<HostMachine>(&config).unwrap();
    let mut metadata = Metadata::for_layout(&layout).unwrap();
    let mut cache = PageCache::new(&machine).unwrap();
    let store: &'static Unlocking = Box::leak(Box::default());
    let file = cache.add(Box::new(store), 4, 1).unwrap();
    let cache: &'static PageCache = Box::leak(Box::new(cache));
    let memory = Memory::new(machine, &config, metadata.as_mut()).unwrap();
    let run = Pager::run(&memory, cache, |pager| {
        let me = pager.register().unwrap();
        let mut pager_cpu = pager.cpu(&me).unwrap();
        let mut guard = pager_cpu.write(file, 3).unwrap();
        guard.fill(0x0101_0101_0101_0101);
        let id = PageId { file, page: 3 };
        let frame = Pfn::new(cache.page(id).state.frame().unwrap().into());
        let owner = Owner(cache);
        let all_steps = |what: &str| {
            let mut slots = [BatchSlot::default(); 4];
            let mut batch = pager.shooter.flusher(me.id()).batch(&mut slots);
            let (mut unmapped, mut written) = ([Unmapped::default()], [WriteOut::Started]);
            let (mut used, mut released) = ([Reference::default()], [Released::Released]);
            owner.unlock(&[frame]);
            owner.referenced(&[frame], &mut used);
            owner.unmap(&[frame], &mut batch.unmapping(), &mut unmapped);
            assert_eq!(unmapped, [Unmapped::StillMapped], "{what}");
            owner.write_out(&[frame], &mut written);
            assert_eq!(written, [WriteOut::Refused], "{what}");
            owner.release(&[frame], &[Shadow::default()], &mut released);
            assert_ne!(released, [Released::Released], "{what}");
        };
        let mut locked = [Some(PageState::default())];
        owner.lock(&[frame], &mut locked);
        assert_eq!(locked, [None], "a page in use was locked");
        all_steps("in use");
        guard.fill(0x0202_0202_0202_0202);
        drop(guard);
        all_steps("not chosen");
        assert_eq!((cache.dirty(file), store.written.load(SeqCst)), (1, 0));
        // Empty frames, and frames that are not of this machine.
        for frame in [frame.offset(1), Pfn::new(4096), Pfn::MAX] {
            owner.lock(&[frame], &mut locked);
            let mut released = [Released::Released];
            owner.release(&[frame], &[Shadow::default()], &mut released);
            assert_eq!((locked, released), ([None], [Released::Busy]));
            owner.unlock(&[frame]);
        }
        // The order is right, but the page is unlocked during the write.
        store.place.set((cache, frame, id)).unwrap();
        owner.lock(&[frame], &mut locked);
        let mut written = [WriteOut::default()];
        owner.write_out(&[frame], &mut written);
        assert_eq!((written, store.written.load(SeqCst)), ([WriteOut::Started], 2));
        assert_eq!(cache.page(id).state.fix(Access::Read), Fix::Fixed { dirtied: false });
        cache.page(id).state.release();
        assert_eq!(pager_cpu.read(file, 3).unwrap().word(0), 0x0202_0202_0202_0202);
        pager_cpu.evict_all().unwrap();
    });
    run.and_then(RunOutcome::written).unwrap();
    memory.drain_all();
    assert_eq!(memory.free(), memory.managed());
}

//! Fake embedders of several sizes.

use framewright::{
    Config, CpuId, MemoryRange, NodeId, Pfn, ZoneKind,
    observe::NodeStat,
    reclaim::PageKind,
    tuning::{Auto, Tuning},
};
use framewright_fakes::FakeOwner;

/// The CPU with TLB entries. CPU 0 does all the work.
pub(crate) const OTHER: u16 = 1;

pub(crate) const CPU: CpuId = CpuId::new(0);

/// An embedder and its allocator, which has `frames` frames in one zone, 64 of them in reserve.
pub(crate) fn embedder(frames: u64, tune: impl FnOnce(&mut Tuning)) -> &'static FakeOwner {
    embedder_of(&[range(0, frames, ZoneKind::Normal)], true, tune)
}

/// A range of memory on node 0.
pub(crate) fn range(start: u64, frames: u64, zone: ZoneKind) -> MemoryRange {
    let frames = framewright::FrameRange::new(Pfn::new(start), Pfn::new(start + frames)).unwrap();
    MemoryRange { zone, ..frames.into() }
}

pub(crate) fn embedder_of(
    map: &[MemoryRange],
    background: bool,
    tune: impl FnOnce(&mut Tuning),
) -> &'static FakeOwner {
    let mut config = Config::new(map, 2);
    config.side_tables.lru = true;
    config.tuning.zone.min_free = Auto::Fixed(64);
    tune(&mut config.tuning);
    FakeOwner::new(&config, background)
}

pub(crate) fn node() -> NodeId {
    NodeId::default()
}

/// An embedder with `pages` resident pages, each used once.
pub(crate) fn filled(pages: u32, kind: PageKind) -> &'static FakeOwner {
    let embedder = embedder(2048, |_| ());
    for id in 0..pages {
        embedder.touch(id, kind).unwrap();
    }
    embedder.lru().drain_all();
    embedder
}

/// The sum of a counter over all nodes.
pub(crate) fn stat(embedder: &FakeOwner, stat: NodeStat) -> u64 {
    embedder.lru().stats().get(stat)
}

/// Clears the uses of all pages.
pub(crate) fn clear_young(embedder: &FakeOwner) {
    embedder.pages().resident.values_mut().for_each(|page| page.young = 0);
}

//! The tables of an allocator, in the formats of Linux.

use crate::support::machine::{Machine, Metadata, cpu};
use framewright::{
    Config, FrameRange, Memory, MemoryRange, MigrateType, NodeId, Order, Pfn, Request, ZoneKind,
};

fn range(start: u64, end: u64, node: u8, kind: ZoneKind) -> MemoryRange {
    let frames = FrameRange::new(Pfn::new(start), Pfn::new(end)).unwrap();
    MemoryRange::new(frames, NodeId::new(node).unwrap(), kind)
}

/// Runs `test` on an allocator with two nodes. The first zone of the first node has holes.
fn on_two_nodes(test: impl FnOnce(&Memory<'_, Machine>)) {
    let map = [
        range(256, 1024, 0, ZoneKind::Dma32),
        range(2048, 2560, 0, ZoneKind::Dma32),
        range(4096, 8192, 0, ZoneKind::Normal),
        range(8192, 12_288, 1, ZoneKind::Normal),
    ];
    let config = Config::new(&map, 2);
    let mut metadata = Metadata::of::<Machine>(&config);
    test(&Memory::new(Machine::default(), &config, metadata.as_mut()).unwrap());
}

#[test]
fn zones_that_have_memory_have_their_rows() {
    on_two_nodes(|memory| {
        let mut text = String::new();
        memory.write_buddyinfo(&mut text).unwrap();
        let zones: Vec<&str> = text.lines().map(|line| &line[..21]).collect();
        assert_eq!(
            zones,
            ["Node 0, zone    DMA32", "Node 0, zone   Normal", "Node 1, zone   Normal"]
        );
        text.clear();
        memory.write_pagetypeinfo(&mut text).unwrap();
        assert_eq!(text.matches("Page block order: 9\n").count(), 2, "not once per node");
        assert_eq!(text.matches(", type      Movable").count(), 3);
        // A pageblock of only holes is not counted.
        let blocks = "Node 0, zone    DMA32            0            3            0";
        assert!(text.contains(blocks), "{text}");
        text.clear();
        memory.write_extfrag_index(&mut text).unwrap();
        memory.write_unusable_index(&mut text).unwrap();
        assert_eq!(text.lines().count(), 6);
    });
}

#[test]
fn zoneinfo_follows_allocations_and_frees() {
    on_two_nodes(|memory| {
        let mut token = memory.cpu(cpu(1)).unwrap();
        let of_zone = Request::new(Order::ZERO, MigrateType::Movable).zone(ZoneKind::Dma32);
        let block = token.alloc(of_zone).unwrap();
        let zone = memory.zones().next().unwrap();
        let mut text = String::new();
        memory.write_zoneinfo(&mut text).unwrap();
        let (first, others) = text.split_at(text.find("Node 0, zone   Normal").unwrap());
        for line in [
            "Node 0, zone    DMA32\n  per-node stats\n  pages free ",
            "        spanned  2304\n        present  1280\n        managed  1280\n",
            "  start_pfn:           256\n",
            "      numa_hit     1\n",
            &format!("  pages free     {}\n", zone.free),
            &format!("    cpu: 1\n              count:    {}\n", zone.held_by_cpus),
        ] {
            assert!(first.contains(line), "{line} is missing in {first}");
        }
        assert_eq!(zone.free + zone.held_by_cpus + 1, 1280);
        assert_eq!(others.matches("per-node stats").count(), 1, "{others}");
        token.free(block).unwrap();
    });
}

#[test]
fn the_type_of_a_pageblock_can_be_set() {
    on_two_nodes(|memory| {
        let (pfn, of) = (Pfn::new(4096 + 700), MigrateType::Unmovable);
        assert!(memory.set_pageblock_type(pfn, of));
        assert_eq!(memory.pageblock_type(Pfn::new(4096 + 512)), Some(of));
        assert_eq!(memory.pageblock_type(Pfn::new(4096)), Some(MigrateType::Movable));
        assert_eq!(memory.pageblock_type(Pfn::new(0)), None);
        assert!(!memory.set_pageblock_type(Pfn::new(0), of), "the type of a hole was set");
        assert!(!memory.set_pageblock_type(pfn, MigrateType::Isolate));
        let mut token = memory.cpu(cpu(0)).unwrap();
        let block = token.alloc(Request::new(Order::ZERO, of)).unwrap();
        assert_eq!(
            block.pfn().get() >> 9,
            9,
            "the frame is not from a pageblock of the request's type"
        );
        // The type can also be set while the pageblock is allocated as one block.
        let whole = token.alloc(Request::new(Order::PAGEBLOCK, MigrateType::Movable)).unwrap();
        assert!(memory.set_pageblock_type(whole.pfn(), MigrateType::Reclaimable));
        memory.check().unwrap();
        token.free(whole).unwrap();
        token.free(block).unwrap();
        token.drain();
        memory.check().unwrap();
        let isolated = memory.isolate(Pfn::new(8192)).unwrap();
        assert!(!memory.set_pageblock_type(Pfn::new(8192), of));
        memory.undo_isolate(isolated).unwrap();
    });
}

//! Allocating without a CPU token, as interrupt handlers do.

use crate::support::machine::{Machine, Metadata, cpu};
use framewright::{
    AllocError, Config, FrameRange, Memory, MigrateType, NodeId, Order, Pfn, Request,
};

#[test]
fn the_lists_of_a_busy_cpu_are_not_touched() {
    let map = [FrameRange::new(Pfn::new(0), Pfn::new(4096)).unwrap().into()];
    let config = Config::new(&map, 1);
    let mut metadata = Metadata::of::<Machine>(&config);
    let memory = Memory::new(Machine::default(), &config, metadata.as_mut()).unwrap();
    // The CPU is busy: its token is in use, and its lists hold frames.
    let mut token = memory.cpu(cpu(0)).unwrap();
    let owned = token.alloc(Request::new(Order::ZERO, MigrateType::Movable)).unwrap();
    let held = memory.held_by_cpus();

    let urgent = Request::new(Order::new(2).unwrap(), MigrateType::Unmovable).atomic();
    let block = memory.alloc_bypassing_lists(urgent).unwrap();
    assert_ne!(block.pfn(), owned.pfn());
    assert_eq!(memory.held_by_cpus(), held);
    memory.free_bypassing_lists(block).unwrap();
    assert_eq!(memory.held_by_cpus(), held);

    token.free(owned).unwrap();
    memory.check().unwrap();
}

#[test]
fn a_type_that_cannot_be_requested_is_refused() {
    let map = [FrameRange::new(Pfn::new(0), Pfn::new(512)).unwrap().into()];
    let config = Config::new(&map, 1);
    let mut metadata = Metadata::of::<Machine>(&config);
    let memory = Memory::new(Machine::default(), &config, metadata.as_mut()).unwrap();
    let request = Request::new(Order::ZERO, MigrateType::Isolate);
    let refused = AllocError::NotRequestable(MigrateType::Isolate);
    assert_eq!(memory.alloc_bypassing_lists(request), Err(refused));
}

#[test]
fn a_request_for_a_missing_node_gets_memory_of_another() {
    let map = [FrameRange::new(Pfn::new(0), Pfn::new(512)).unwrap().into()];
    let config = Config::new(&map, 1);
    let mut metadata = Metadata::of::<Machine>(&config);
    let memory = Memory::new(Machine::default(), &config, metadata.as_mut()).unwrap();
    let nowhere = NodeId::new(63).unwrap();
    let request = Request::new(Order::ZERO, MigrateType::Movable).on_node(nowhere);
    let block = memory.alloc_bypassing_lists(request).unwrap();
    memory.free_bypassing_lists(block).unwrap();
    assert_eq!(memory.alloc_bypassing_lists(request.this_node()), Err(AllocError::NoZone));
    memory.check().unwrap();
}

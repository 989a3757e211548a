//! The share of the reserves for each kind of request.

use framewright::{Request, ZoneId, ZoneKind, tuning::Auto};

use crate::script::{MIN, NO_HELP, memory, memory_of, page, range, unmovable};

/// The number of free frames after requests like this one have allocated all that they can.
fn left_by(request: Request) -> u64 {
    let memory = memory(NO_HELP);
    memory.allocate_all(request.no_wait());
    memory.free()
}

#[test]
fn each_kind_of_request_leaves_its_part_of_the_reserve() {
    for (request, left) in [
        (page(), MIN),
        (page().urgent(), MIN * 3 / 8),
        (page().oom_victim(), MIN / 2),
        (page().ignoring_watermarks(), 0),
        (page().inside_relief(), 0),
        (page().inside_relief().without_reserves(), MIN),
        (page().ignoring_watermarks().without_reserves(), MIN),
        (page().oom_victim().without_reserves(), MIN),
        (page().urgent().without_reserves(), MIN),
    ] {
        assert_eq!(left_by(request), left, "{request:?}");
    }
}

#[test]
fn each_kind_of_request_leaves_its_part_through_a_cpu() {
    for (request, left) in [
        (page().urgent(), MIN / 2),
        (page().atomic(), MIN * 3 / 8),
        (page().oom_victim(), MIN / 2),
        (page().oom_victim().atomic(), MIN * 3 / 8),
        (page().inside_relief(), 0),
        (page().ignoring_watermarks(), 0),
    ] {
        let memory = memory(NO_HELP);
        let mut cpu = memory.cpu(framewright::CpuId::new(0)).unwrap();
        while let Ok(block) = cpu.alloc(request) {
            let _stays = block.into_raw();
        }
        drop(cpu);
        memory.drain_all();
        assert_eq!(memory.free(), left, "{request:?}");
    }
}

#[test]
fn a_lower_zone_keeps_frames_back_from_requests_that_could_use_a_higher_one() {
    let map = [range(0, 2048, 0, ZoneKind::Dma32), range(2048, 8192, 0, ZoneKind::Normal)];
    let memory = memory_of(&map, NO_HELP, |tuning| {
        tuning.zone.min_free = Auto::Fixed(100);
        tuning.zone.reserve_ratios = [256, 16, 32, 0];
    });
    let zone = |index: usize| memory.zones().nth(index).unwrap();
    assert_eq!(zone(0).protection, [0, 0, 8192 / 16, 8192 / 16]);
    assert_eq!((zone(0).min, zone(1).min), (20, 80));
    memory.allocate_all(unmovable(0).no_wait());
    assert_eq!(
        (zone(0).free, zone(1).free),
        (20 + 512, 80),
        "the lower zone did not keep its share"
    );
    // Half of min and the whole lowmem reserve stay free.
    memory.allocate_all(unmovable(0).atomic());
    assert_eq!((zone(0).free, zone(1).free), (8 + 512, 30));
    memory.allocate_all(unmovable(0).zone(ZoneKind::Dma32).no_wait());
    assert_eq!(zone(0).free, 20, "requests that can use only the lower zone did not get its share");
    assert_eq!(memory.zone(ZoneId::default()).unwrap().free, 20);
    memory.allocate_all(unmovable(0).inside_relief());
    assert_eq!(memory.free(), 0);
    memory.check().unwrap();
}

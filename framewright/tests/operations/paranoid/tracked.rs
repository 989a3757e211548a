//! At `tracked`, in contrast to `paranoid`, free frames may be on CPU lists and in the depot. A raw free of such a frame
//! is refused.

use framewright::{
    Block, Config, FrameRange, FreeError, InitError, Layout, Memory, MigrateType, Order, Pfn,
    Request,
    platform::OwnerLock,
    tuning::{Auto, Hardening, OwnerChoice},
};

use super::{
    MANAGED, PAGE, Token, free, on_memory_with, refused,
    support::machine::{Machine, Metadata, cpu, order},
    with_config,
};

fn on_tracked(test: impl for<'m> FnOnce(&Memory<'m, Machine>, &mut Token<'_, 'm>)) {
    on_memory_with(|config| config.tuning.hardening = Hardening::Tracked, test);
}

#[test]
fn the_lists_of_cpus_are_used() {
    on_tracked(|memory, token| {
        for size in [0, 0, 1, 3, 9] {
            let block = token.alloc(Request::new(order(size), MigrateType::Movable)).unwrap();
            token.free(block).unwrap();
        }
        let stats = memory.stats();
        assert!(stats.list_hits > 0 && stats.refills > 0, "{stats:?}");
        assert!(memory.held_by_cpus() > 0);
        memory.check().unwrap();
        memory.drain_all();
        memory.check().unwrap();
        assert_eq!(memory.free(), MANAGED);
    });
}

#[test]
fn a_block_on_the_list_of_another_cpu_is_refused() {
    on_tracked(|memory, token| {
        let mut other = memory.cpu(cpu(1)).unwrap();
        for size in [0, 2, 9] {
            let request = Request::new(order(size), MigrateType::Movable);
            let Ok(block) = other.alloc(request) else { continue };
            let pfn = block.pfn();
            // Frames of the same refill that were never allocated.
            if size < 9 {
                let neighbour = pfn.offset(order(size).frames());
                let error = refused(memory, token, neighbour, order(size));
                assert_eq!(error, FreeError::AlreadyFree);
            }
            other.free(block).unwrap();
            assert_eq!(refused(memory, token, pfn, order(size)), FreeError::AlreadyFree);
            assert_eq!(refused(memory, &mut other, pfn, order(size)), FreeError::AlreadyFree);
        }
    });
}

#[test]
fn a_block_in_the_depot_is_refused() {
    let map = [FrameRange::new(Pfn::new(0), Pfn::new(16 * 512)).unwrap().into()];
    let mut config = Config::new(&map, 2);
    for (key, value) in [
        ("hardening", "tracked"),
        ("zone.depot_divisor", "8"),
        ("zone.min_free", "0"),
        ("pcp.batch", "7"),
        ("pcp.high_fraction", "1000"),
    ] {
        config.tuning.set(key, value).unwrap();
    }
    let mut metadata = Metadata::of::<Machine>(&config);
    let memory =
        Memory::new(Machine::default().keeping_reports(), &config, metadata.as_mut()).unwrap();
    let (mut first, mut second) = (memory.cpu(cpu(0)).unwrap(), memory.cpu(cpu(1)).unwrap());
    let frames: Vec<Pfn> =
        (0..2048).map(|_| first.alloc(PAGE).map(Block::into_raw).unwrap().0).collect();
    // Neighbours are freed far apart in time.
    for i in 0..frames.len() {
        free(&mut first, frames[i * 129 % frames.len()], Order::ZERO).unwrap();
    }
    let in_depot: u64 = memory.zones().map(|zone| zone.in_depot).sum();
    assert!(in_depot > 100, "{in_depot}");
    for &pfn in &frames {
        assert_eq!(free(&mut second, pfn, Order::ZERO), Err(FreeError::AlreadyFree), "{pfn}");
    }
    assert_eq!(memory.platform().take_reports().len(), frames.len());
    memory.check().unwrap();
}

#[test]
fn a_free_after_a_new_allocation_is_not_detected() {
    on_tracked(|memory, token| {
        let (pfn, size) = token.alloc(PAGE).unwrap().into_raw();
        free(token, pfn, size).unwrap();
        let again = token.alloc(PAGE).unwrap();
        assert_eq!(again.pfn(), pfn);
        // The stale free looks like a free by the new owner, so the new owner's free is refused.
        free(token, pfn, size).unwrap();
        token.free(again).unwrap();
        assert_eq!(memory.platform().take_reports().len(), 1);
        memory.check().unwrap();
    });
}

#[test]
fn owners_enter_their_lists_through_a_try_lock() {
    on_tracked(|memory, _| assert_eq!(memory.owner_lock(), OwnerLock::Trylock));
    with_config(|config| {
        config.tuning.hardening = Hardening::Tracked;
        config.tuning.owner_lock = OwnerChoice::Fixed(OwnerLock::Biased);
        let error = Layout::new::<Machine>(config).unwrap_err();
        assert_eq!(error, InitError::TrackedAndBiased);
        let text = error.to_string();
        assert!(text.contains("hardening=tracked") && text.contains("owner_lock=auto"), "{text}");
        config.tuning.zone.min_free = Auto::Fixed(0);
        config.tuning.hardening = Hardening::Checked;
        assert!(Layout::new::<Machine>(config).is_ok());
    });
}

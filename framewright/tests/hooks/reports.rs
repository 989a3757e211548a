//! The simulation hooks: reports to a simulator, and rare outcomes that the simulator forces.
#![cfg(not(any(framewright_loom, framewright_tso)))]

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use framewright::{
    AllocError, Config, FrameRange, Memory, MigrateType, Order, Pfn, Request, Tuning, ZoneId,
    observe::CpuStats,
    platform::{Access, Cost, Line, Miss, Section, Site},
    sync::{RawLock, SpinFlag},
    tuning::Auto,
};
use framewright_fakes::{FakePlatform, Metadata, ProbeCall, ProbedPlatform, cpu, order};

/// The reports of a machine of one thread.
#[derive(Default)]
struct Listener {
    heard: Mutex<Heard>,
    /// The outcome to force, and the number of times.
    forced: Mutex<Option<(Site, u32)>>,
}

#[derive(Default)]
struct Heard {
    inside: Vec<Section>,
    costs: BTreeMap<Cost, u64>,
    touched: BTreeMap<Line, Vec<(Access, Miss)>>,
    sites: BTreeMap<Site, u64>,
}

impl Heard {
    fn touch(&mut self, line: Line, access: Access, miss: Miss) {
        self.touched.entry(line).or_default().push((access, miss));
        let needs = match line {
            // A raw free reads the map of heads (first frames of blocks) without the lock, and
            // relies only on a confirmation.
            Line::Heads(..) if access == Access::Read => return,
            Line::Map(zone, _)
            | Line::Heads(zone, _)
            | Line::Header(zone, _)
            | Line::Depot(zone, _) => zone,
            Line::CpuStore(zone, cpu, _) => {
                assert!(
                    self.inside.contains(&Section::Lists(zone, cpu)),
                    "{line:?} outside the lists"
                );
                return;
            }
            _ => return,
        };
        let ahead = access == Access::Prefetch;
        assert!(ahead || self.inside.contains(&Section::Zone(needs)), "{line:?} without the lock");
    }

    fn enter(&mut self, section: Section) {
        let inside = &mut self.inside;
        // The lists of a CPU are entered before the zone. The zone is innermost.
        assert!(inside.len() < 2 && !matches!(inside.last(), Some(Section::Zone(_))), "{inside:?}");
        inside.push(section);
    }

    fn call(&mut self, call: ProbeCall) {
        match call {
            ProbeCall::Cost(cost, count) => {
                *self.costs.entry(cost).or_default() += u64::from(count);
            }
            ProbeCall::Touch(line, access, miss) => self.touch(line, access, miss),
            ProbeCall::Enter(section) => self.enter(section),
            ProbeCall::Leave(section) => assert_eq!(self.inside.pop(), Some(section)),
            ProbeCall::Point(site) => *self.sites.entry(site).or_default() += 1,
        }
    }
}

impl Listener {
    /// Whether to force the rare outcome at a site.
    fn force(&self, site: Site) -> bool {
        let mut forced = self.forced.lock().unwrap();
        match &mut *forced {
            Some((at, times)) if *at == site && *times > 0 => {
                *times -= 1;
                true
            }
            _ => false,
        }
    }

    fn forces(&self, site: Site, times: u32) {
        *self.forced.lock().unwrap() = Some((site, times));
    }

    fn cost_of(&self, cost: Cost) -> u64 {
        self.heard.lock().unwrap().costs.get(&cost).copied().unwrap_or(0)
    }

    fn touched(&self, line: Line, access: Access) -> bool {
        let heard = self.heard.lock().unwrap();
        heard.touched.get(&line).is_some_and(|touches| touches.iter().any(|(a, _)| *a == access))
    }
}

const PAGE: Request = Request::new(Order::ZERO, MigrateType::Movable);
/// Runs `test` on an allocator with 16 MiB, in pageblocks of 2 MiB.
fn with_memory(
    settings: &[(&str, &str)],
    test: impl FnOnce(&Memory<'_, ProbedPlatform>, &Listener),
) {
    let map = [FrameRange::new(Pfn::new(0), Pfn::new(4096)).unwrap().into()];
    let mut tuning = Tuning::default();
    tuning.zone.min_free = Auto::Fixed(0);
    for &(key, value) in settings {
        tuning.set(key, value).unwrap();
    }
    let config = Config::new(&map, 2).with_tuning(tuning);
    let mut metadata = Metadata::of::<ProbedPlatform>(&config);
    let (machine, platform) = (Arc::new(Listener::default()), FakePlatform::default().probed());
    platform.on_wait(|why, _| panic!("no CPU waits here: {why:?}"));
    platform.on_probe({
        let machine = Arc::clone(&machine);
        move |call| machine.heard.lock().unwrap().call(call)
    });
    platform.on_force({
        let machine = Arc::clone(&machine);
        move |site| machine.force(site)
    });
    let memory = Memory::new(platform, &config, metadata.as_mut()).unwrap();
    *machine.heard.lock().unwrap() = Heard::default();
    test(&memory, &machine);
    assert_eq!(machine.heard.lock().unwrap().inside, []);
    memory.check().unwrap();
}

/// Allocates `burst` frames on CPU 0 and frees them, `bursts` times.
fn burst(memory: &Memory<'_, ProbedPlatform>, bursts: usize, burst: usize) {
    let mut token = memory.cpu(cpu(0)).unwrap();
    for _ in 0..bursts {
        let blocks: Vec<_> = (0..burst).map(|_| token.alloc(PAGE).unwrap()).collect();
        blocks.into_iter().for_each(|block| token.free(block).unwrap());
    }
}

#[test]
fn all_work_is_charged() {
    let compared = cfg!(feature = "compare").then_some("select-under-lock");
    for how in ["select-before-lock"].into_iter().chain(compared) {
        with_memory(&[("pcp.bulk_free", how), ("pcp.batch", "15")], |memory, machine| {
            burst(memory, 3, 2000);
            memory.drain_all();
            let CpuStats { zone_lock_acquisitions, zone_lock_frames, .. } = memory.stats();
            let cost = |cost| machine.cost_of(cost);
            assert_eq!(cost(Cost::HotAlloc) + cost(Cost::SlowAlloc), 6000);
            assert_eq!(cost(Cost::HotFree) + cost(Cost::SlowFree), 6000);
            assert_eq!(cost(Cost::ZoneHold), zone_lock_acquisitions);
            assert_eq!(cost(Cost::TakeFrames) + cost(Cost::GiveFrames), zone_lock_frames);
            assert_eq!(
                cost(Cost::TakeFrames),
                cost(Cost::GiveFrames),
                "frames did not return to the zone"
            );
            assert!(cost(Cost::TakeBundles) >= cost(Cost::TakePageblocks));
            let given = cost(Cost::GiveBundles) + cost(Cost::GiveSingles);
            assert!(given >= cost(Cost::GivePageblocks));
            let chosen = cost(Cost::SelectBundles) + cost(Cost::SelectSingly);
            assert!(chosen >= given);
            for kind in [Cost::Refill, Cost::RingRuns, Cost::StoreBundles, Cost::Relist] {
                assert!(cost(kind) > 0, "{kind:?}");
            }
        });
    }
}

#[test]
fn single_frames_larger_blocks_and_pageblocks_are_charged_apart() {
    let apart = [Cost::GiveSingles, Cost::TakeHighOrder, Cost::PageblockWords, Cost::OtherList];
    // Whether each kind is reported of some allocations, and of 4 frees that are at least 64 frames apart.
    for (number, step, expected) in [
        (0, 64, [true, false, false, false]),
        (2, 16, [false, true, false, true]),
        (9, 1, [false, false, true, true]),
    ] {
        with_memory(&[], |memory, machine| {
            let mut token = memory.cpu(cpu(0)).unwrap();
            let request = Request::new(order(number), MigrateType::Movable);
            let mut blocks: Vec<_> =
                (0..4 * step).map(|_| Some(token.alloc(request).unwrap())).collect();
            for block in blocks.iter_mut().step_by(step) {
                token.free(block.take().unwrap()).unwrap();
            }
            token.drain();
            assert_eq!(apart.map(|cost| machine.cost_of(cost) > 0), expected, "order {number}");
            blocks.into_iter().flatten().for_each(|block| token.free(block).unwrap());
        });
    }
}

#[test]
fn work_of_the_depot_is_charged() {
    let settings = [
        ("pcp.batch", "7"),
        ("pcp.high_fraction", "1000"),
        ("zone.depot_divisor", "8"),
        ("pcp.bundle_slots", "64"),
    ];
    with_memory(&settings, |memory, machine| {
        let mut token = memory.cpu(cpu(0)).unwrap();
        for _ in 0..2 {
            let mut blocks: Vec<_> = (0..3000).map(|_| token.alloc(PAGE).ok()).collect();
            for first in 0..96 {
                token.free_bulk(
                    &mut blocks
                        .iter_mut()
                        .skip(first)
                        .step_by(96)
                        .map(Option::take)
                        .collect::<Vec<_>>(),
                );
            }
        }
        drop(token);
        memory.drain_all();
        let cost = |cost| machine.cost_of(cost);
        let CpuStats { zone_lock_acquisitions, zone_lock_frames, .. } = memory.stats();
        let through_maps = cost(Cost::TakeFrames) + cost(Cost::GiveFrames);
        assert_eq!(through_maps + cost(Cost::DepotBlocks), zone_lock_frames);
        assert_eq!(cost(Cost::ZoneHold), zone_lock_acquisitions);
        assert!(cost(Cost::DepotBlocks) > 500 && cost(Cost::LooseBlocks) > 250);
        assert!(cost(Cost::DepotStacks) > cost(Cost::DepotBlocks) / 64);
        // Heads of stacks, then chunks.
        for line in [0, 3, 4] {
            assert!(machine.touched(Line::Depot(ZoneId::default(), line), Access::Write), "{line}");
        }
    });
}

#[test]
fn lines_are_touched_where_they_are() {
    with_memory(&[("pcp.batch", "15")], |memory, machine| {
        burst(memory, 1, 2000);
        let zone = ZoneId::default();
        for (line, access) in [
            (Line::CpuLists(zone, cpu(0)), Access::Write),
            (Line::ZoneIndex(zone, 0), Access::Write),
            (Line::ZoneWords(zone), Access::Read),
            (Line::ZoneWords(zone), Access::Write),
            (Line::Header(zone, 0), Access::Write),
            (Line::Map(zone, 0), Access::Prefetch),
            (Line::Map(zone, 3), Access::Write),
            (Line::Heads(zone, 3), Access::Write),
            (Line::Gigablock(zone, 0), Access::Write),
        ] {
            assert!(machine.touched(line, access), "{line:?} {access:?}");
        }
        assert!(!machine.touched(Line::CpuLists(zone, cpu(1)), Access::Write));
        // A drain of another CPU does not touch the lists of CPU 0.
        memory.drain_cpu(cpu(1)).unwrap();
        memory.drain_cpu(cpu(0)).unwrap();
        assert_eq!(machine.heard.lock().unwrap().sites.get(&Site::Drain), Some(&1));
    });
}

#[test]
fn hardening_that_is_off_touches_no_heads() {
    with_memory(&[("hardening", "off")], |memory, machine| {
        burst(memory, 1, 1000);
        let heard = machine.heard.lock().unwrap();
        let heads = |(line, touches): (&Line, &Vec<(Access, Miss)>)| {
            matches!(line, Line::Heads(..)) && touches.iter().any(|t| t.0 != Access::Prefetch)
        };
        assert!(!heard.touched.iter().any(heads));
    });
}

#[test]
fn a_refused_owner_uses_the_zone() {
    with_memory(&[], |memory, machine| {
        let mut token = memory.cpu(cpu(0)).unwrap();
        machine.forces(Site::EnterLists, u32::MAX);
        let block = token.alloc(PAGE).unwrap();
        token.free(block).unwrap();
        assert_eq!((memory.stats().zone_allocs, memory.stats().zone_frees), (1, 1));
        assert_eq!(memory.held_by_cpus(), 0);
        machine.forces(Site::EnterLists, 0);
        let block = token.alloc(PAGE).unwrap();
        token.free(block).unwrap();
        assert!(memory.held_by_cpus() > 0);
    });
}

#[test]
fn a_raw_free_that_cannot_search_the_lists_goes_to_the_zone() {
    with_memory(&[], |memory, machine| {
        let mut token = memory.cpu(cpu(0)).unwrap();
        let (pfn, order) = token.alloc(PAGE).unwrap().into_raw();
        let held = memory.held_by_cpus();
        // Forces the refusal that a drainer inside the lists would cause.
        machine.forces(Site::EnterLists, 1);
        // SAFETY: the frames were a block until `into_raw`.
        unsafe { token.free_raw(pfn, order) }.unwrap();
        assert_eq!((memory.stats().zone_frees, memory.held_by_cpus()), (1, held));
    });
}

#[test]
fn a_raw_free_takes_the_lock_only_if_lists_and_heads_do_not_decide() {
    for (size, locks) in [(0, 0), (1, 1)] {
        // A refill also takes the buddy of a single frame, so the heads confirm that frame.
        with_memory(&[("pcp.batch", "63")], |memory, machine| {
            let mut token = memory.cpu(cpu(0)).unwrap();
            let block = token.alloc(Request::new(order(size), MigrateType::Movable)).unwrap();
            let (pfn, of_order) = block.into_raw();
            let before = memory.stats().zone_lock_acquisitions;
            // SAFETY: the frames were a block until `into_raw`.
            unsafe { token.free_raw(pfn, of_order) }.unwrap();
            assert_eq!(memory.stats().zone_lock_acquisitions - before, locks);
            let line = Line::Heads(ZoneId::default(), (pfn.get() / 512) as u32);
            assert_eq!(machine.touched(line, Access::Read), size == 0);
            assert_eq!(machine.cost_of(Cost::ZoneHold), memory.stats().zone_lock_acquisitions);
        });
    }
}

#[test]
fn a_zone_that_is_forced_empty_is_tried_again() {
    for site in [Site::Refill, Site::SlowPath] {
        with_memory(&[], |memory, machine| {
            let mut token = memory.cpu(cpu(0)).unwrap();
            // The zone is forced empty only once, and the next walk finds a block.
            machine.forces(site, 1);
            let block = token.alloc(PAGE).unwrap();
            token.free(block).unwrap();
            token.drain();
            machine.forces(site, u32::MAX);
            let refused = token.alloc(PAGE.no_wait());
            assert!(matches!(refused, Err(AllocError::NoBlockOfOrder(_))), "{refused:?}");
            assert_eq!(memory.free(), memory.managed(), "frames were lost");
        });
    }
}

#[test]
fn a_deferred_bulk_free_happens_later() {
    with_memory(&[("pcp.batch", "7"), ("pcp.high_fraction", "200")], |memory, machine| {
        let mut token = memory.cpu(cpu(0)).unwrap();
        let mut blocks: Vec<_> = (0..2000).map(|_| token.alloc(PAGE).unwrap()).collect();
        token.drain();
        machine.forces(Site::BulkFree, u32::MAX);
        blocks.drain(..1000).for_each(|block| token.free(block).unwrap());
        let deferred = memory.held_by_cpus();
        machine.forces(Site::BulkFree, 0);
        blocks.drain(..).for_each(|block| token.free(block).unwrap());
        let settled = memory.held_by_cpus();
        assert!(deferred > 5 * settled, "{deferred} frames were held, {settled} are due to stay");
    });
}

/// If `is_held` returns `true`, callers that do not need the lock do not wait for it.
#[test]
fn a_held_flag_reports_that_it_is_held() {
    let machine: FakePlatform = FakePlatform::default();
    let lock = <SpinFlag as RawLock<FakePlatform>>::new();
    assert!(!lock.is_held(&machine));
    lock.lock(&machine);
    assert!(lock.is_held(&machine));
    // SAFETY: the lock was acquired above.
    unsafe { lock.unlock(&machine) };
    assert!(!lock.is_held(&machine));
}

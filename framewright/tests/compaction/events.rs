//! Trace events. Both methods of compaction (`compact.method`) emit each of Linux's events with the
//! same meaning.

use std::sync::{Arc, Mutex};

use framewright::{
    Config, CpuId, FrameRange, Memory, MemoryRange, MigrateType, NodeId, Order, Pfn, Request,
    ZoneKind,
    compact::{Compactor, Workspace},
    migrate::Move,
    observe::{CompactEvent, Event, Scanner},
    platform::{CompactPriority, Compacted},
    tlb::BatchSlot,
    tuning::Auto,
};

use framewright_fakes::{FakeMover, FakePlatform, TracedPlatform, leaked};

const HUGE: Request = Request::new(Order::PAGEBLOCK, MigrateType::Movable);

type Traced = Memory<'static, TracedPlatform>;

/// The owner of all pages, and the compaction events of its memory. Each page has one frame.
struct Owner {
    memory: &'static Traced,
    events: Arc<Mutex<Vec<CompactEvent>>>,
    pages: FakeMover<'static, 'static, true>,
}

impl Owner {
    /// Two zones of 16 pageblocks each. Every third frame contains a page.
    fn of_scattered_memory(method: &str, shortcuts: &str) -> Self {
        Self::of_memory(&[("compact.method", method), ("compact.shortcuts", shortcuts)], |at| {
            at % 3 == 0
        })
    }

    /// The same zones, with pages in the frames for which `is_kept` returns `true`.
    fn of_memory(set: &[(&str, &str)], is_kept: impl Fn(u64) -> bool) -> Self {
        let zone = |first: u64, kind| {
            let (start, end) = (Pfn::new(first), Pfn::new(first + 16 * 512));
            MemoryRange::new(FrameRange::new(start, end).unwrap(), NodeId::default(), kind)
        };
        let map = [zone(0, ZoneKind::Dma32), zone(16 * 512, ZoneKind::Normal)];
        let mut config = Config::new(&map, 2);
        config.tuning.zone.min_free = Auto::Fixed(0);
        set.iter().for_each(|(key, value)| config.tuning.set(key, value).unwrap());
        let platform = FakePlatform::default().traced();
        let events = Arc::new(Mutex::new(Vec::new()));
        platform.on_trace({
            let events = Arc::clone(&events);
            move |_, event| {
                if let Event::Compaction(event) = event {
                    events.lock().unwrap().push(*event);
                }
            }
        });
        let memory = leaked(platform, &config);
        let pages = FakeMover::new(memory, 1);
        while pages.alloc(0, MigrateType::Movable, false).is_some() {}
        let gone: Vec<_> =
            pages.pages.borrow().keys().copied().filter(|&at| !is_kept(at)).collect();
        gone.into_iter().for_each(|at| pages.free(at));
        memory.drain_all();
        Self { memory, events, pages }
    }

    fn with_compactor<R>(
        &self,
        work: impl FnOnce(&mut Compactor<'_, 'static, TracedPlatform>) -> R,
    ) -> R {
        let (mut moves, mut slots) = ([Move::default(); 64], [BatchSlot::default(); 64]);
        let space = Workspace { moves: &mut moves, slots: &mut slots };
        // SAFETY: the pages of the mover are in frames of this allocator, and it flushes all translations to them.
        work(&mut unsafe { self.memory.compactor(CpuId::new(0), &self.pages, &self.pages, space) })
    }

    /// Wakes background compaction.
    fn wake(&self) {
        let (cpu, node, highest) = (CpuId::new(0), NodeId::default(), ZoneKind::Normal);
        if self.memory.wakes_compaction(cpu, node, Order::PAGEBLOCK, highest) {
            self.with_compactor(|c| c.background(node, Order::PAGEBLOCK, highest));
        }
    }

    /// The events since the last call.
    fn events(&self) -> Vec<CompactEvent> {
        std::mem::take(&mut self.events.lock().unwrap())
    }
}

/// All compaction events, except that of the scanners' fast search.
const NAMES: [&str; 14] = [
    "mm_compaction_try_to_compact_pages",
    "mm_compaction_begin",
    "mm_compaction_end",
    "mm_compaction_migratepages",
    "mm_compaction_isolate_migratepages",
    "mm_compaction_isolate_freepages",
    "mm_compaction_finished",
    "mm_compaction_suitable",
    "mm_compaction_deferred",
    "mm_compaction_defer_compaction",
    "mm_compaction_defer_reset",
    "mm_compaction_kcompactd_sleep",
    "mm_compaction_kcompactd_wake",
    "mm_compaction_wakeup_kcompactd",
];

/// Makes requests that succeed, then failures until requests are deferred.
fn exercise(owner: &Owner) -> Vec<CompactEvent> {
    for priority in [CompactPriority::Async, CompactPriority::SyncLight] {
        let (_, block) = owner.with_compactor(|c| c.form(HUGE, priority));
        block.into_iter().for_each(|block| owner.memory.free_bypassing_lists(block).unwrap());
    }
    owner.wake();
    while let Ok(block) = owner.memory.alloc_bypassing_lists(HUGE.no_wait()) {
        let _ = block.into_raw();
    }
    owner.pages.stuck.set(true);
    let refused = |_: &_| {
        let (result, _) = owner.with_compactor(|c| c.form(HUGE, CompactPriority::SyncLight));
        result == Compacted::Deferred
    };
    (0..16).find(refused).expect("attempts are deferred in the end");
    owner.events()
}

#[test]
fn every_compaction_event_is_emitted_by_both_methods() {
    for method in ["index", "scan"] {
        let mut events = exercise(&Owner::of_scattered_memory(method, "on"));
        // With shortcuts the scanners need not scan.
        events.extend(exercise(&Owner::of_scattered_memory(method, "off")));
        let has = |name: &str| events.iter().any(|event| event.name() == name);
        let missing: Vec<_> = NAMES.into_iter().filter(|name| !has(name)).collect();
        assert!(missing.is_empty(), "{method}: {missing:?}");
        assert_eq!(has("mm_compaction_fast_isolate_freepages"), method == "scan");
        let others = events.iter().map(CompactEvent::name).filter(|name| !NAMES.contains(name));
        assert!(others.into_iter().all(|name| name == "mm_compaction_fast_isolate_freepages"));
    }
}

/// The sums of all events equal the counters.
#[test]
fn events_and_counters_agree() {
    for method in ["index", "scan"] {
        let owner = Owner::of_scattered_memory(method, "on");
        let events = exercise(&owner);
        let stats = owner.memory.compact_stats();
        let (mut moved, mut looked_at, mut targets) = (0, 0, 0);
        for event in events {
            match event {
                CompactEvent::MigratePages { moved: pages, .. } => moved += pages,
                CompactEvent::IsolatePages { by: Scanner::Migrate, scanned, taken, range } => {
                    assert!(taken <= range.frames());
                    looked_at += scanned;
                }
                CompactEvent::IsolatePages { taken, range, .. } => {
                    assert!(
                        (1..=range.frames()).contains(&taken) || taken == 0 && method == "scan"
                    );
                    targets += taken;
                }
                _ => {}
            }
        }
        assert_eq!((moved, looked_at), (stats.pgmigrate_success, stats.compact_migrate_scanned));
        assert!(targets >= moved, "{method}: {targets} frames for {moved} pages");
    }
}

/// One wake-up covers all zones of the node.
#[test]
fn kcompactd_events_are_emitted_once_per_wakeup_of_a_node() {
    for method in ["index", "scan"] {
        let owner = Owner::of_scattered_memory(method, "on");
        let named = |events: &[CompactEvent], name| {
            events.iter().filter(|event| event.name() == name).count()
        };
        for woken in 1..4 {
            owner.wake();
            let events = owner.events();
            for name in [
                "mm_compaction_wakeup_kcompactd",
                "mm_compaction_kcompactd_wake",
                "mm_compaction_kcompactd_sleep",
            ] {
                assert_eq!(named(&events, name), 1, "{method}: {name}");
            }
            assert_eq!(owner.memory.compact_stats().compact_daemon_wake, woken, "{method}");
        }
        // No memory is free, so background compaction is not woken.
        let page = Request::new(Order::ZERO, MigrateType::Movable).no_wait();
        while let Ok(block) = owner.memory.alloc_bypassing_lists(page) {
            let _ = block.into_raw();
        }
        owner.events();
        owner.wake();
        assert_eq!(owner.events(), [], "{method}");
    }
}

/// The event distinguishes a shortage of memory from fragmentation.
#[test]
fn the_suitable_event_says_why_a_zone_is_not_suitable() {
    // The lower halves of some pageblocks are free. These are enough target frames, in few blocks.
    let owner = Owner::of_memory(&[("compact.method", "scan")], |at| {
        at % 512 >= 256 || at % (3 * 512) >= 512
    });
    owner.with_compactor(|c| c.form(HUGE, CompactPriority::SyncLight));
    let verdicts: Vec<_> = owner.events().iter().map(ToString::to_string).collect();
    let verdict = "node=0 zone=Normal   order=9 ret=not_suitable_zone";
    assert!(verdicts.iter().any(|events| events == verdict), "{verdicts:?}");
}

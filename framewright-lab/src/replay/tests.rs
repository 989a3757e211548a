//! Tests of whole replays: small handwritten recordings, and the shipped one.

use std::path::Path;

use framewright::{MigrateType, Order};

use super::allocator::Allocator;
use super::*;
use crate::samples::SHOWN_ORDERS;

/// A recording, one event after another.
#[derive(Default)]
pub(super) struct Script {
    text: String,
    events: u64,
}

impl Script {
    pub(super) fn line(mut self, cpu: u16, body: &str) -> Self {
        let micros = self.events;
        self.text += &format!("task-1 [{cpu:03}] ..... 7.{micros:06}: {body}\n");
        self.events += 1;
        self
    }

    /// CPU 0 waits for a lock for 1 µs, holds that of the zone of frame 0x201 as long, and allocates and frees the frame.
    pub(super) fn contended() -> Self {
        Self::default()
            .line(0, "contention_begin: 00000000980e6a35 (flags=SPIN)")
            .line(0, "contention_end: 00000000980e6a35 (ret=0)")
            .line(0, Self::ZONE_LOCKED)
            .line(0, Self::ZONE_LOCKED)
            .alloc(0, 0x201, 0)
            .free(0, 0x201, 0)
    }

    /// An event under a zone lock.
    pub(super) const ZONE_LOCKED: &str =
        "mm_page_alloc_zone_locked: page=1 pfn=0x201 order=0 migratetype=1 percpu_refill=1";

    pub(super) fn alloc(self, cpu: u16, pfn: u64, order: u8) -> Self {
        let body = format!("pfn={pfn:#x} order={order} migratetype=1 gfp_flags=GFP_KERNEL");
        self.line(cpu, &format!("mm_page_alloc: page=1 {body}"))
    }

    pub(super) fn free(self, cpu: u16, pfn: u64, order: u8) -> Self {
        self.line(cpu, &format!("mm_page_free: page=1 pfn={pfn:#x} order={order}"))
    }

    pub(super) fn recording(&self) -> Recording {
        Recording::from_bytes("script", self.text.clone().into_bytes())
    }

    pub(super) fn replay(&self, snapshot: Option<&Snapshot>) -> ReplayReport {
        replay(&self.recording(), snapshot, &Tuning::default())
    }
}

pub(super) fn replay(
    recording: &Recording,
    snapshot: Option<&Snapshot>,
    tuning: &Tuning,
) -> ReplayReport {
    let survey = Survey::of(recording, &mut |_| {}).unwrap();
    run(recording, &survey, &before(snapshot), tuning, &mut |_| {}).unwrap()
}

pub(super) fn before(snapshot: Option<&Snapshot>) -> Tables {
    Tables { before: snapshot.cloned(), after: None }
}

/// The plan of a recording with one event on one CPU, with a snapshot.
pub(super) fn plan(snapshot: &Snapshot) -> plan::Plan {
    let survey = Survey::of(&Script::default().alloc(0, 1, 0).recording(), &mut |_| {}).unwrap();
    plan::Plan::from_snapshot(snapshot, &survey).unwrap()
}

/// A machine of `managed` frames, `free` of them free, none on CPU lists.
fn machine(managed: u64, free: u64) -> Snapshot {
    let text = format!("# zoneinfo\nNode 0, zone Normal\npages free {free}\nmanaged {managed}\n");
    Snapshot::parse("machine", text.as_bytes()).unwrap()
}

/// 256 MiB with 78 MiB in use.
fn small_machine() -> Snapshot {
    machine(1 << 16, (1 << 16) - 20_000)
}

pub(super) fn shipped() -> (Recording, Snapshot) {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../recordings"));
    let path = folder.join("sockets.txt.zst");
    let before = crate::trace::snapshot::beside(&path, "before").unwrap().unwrap();
    (Recording::open(&path, 0).unwrap(), Snapshot::open(&before).unwrap())
}

#[test]
fn a_small_recording_is_counted_exactly() {
    let report = Script::default()
        .alloc(0, 0x100, 0)
        .alloc(0, 0x104, 2)
        .line(0, "mm_page_alloc: page=0 pfn=0x0 order=4 migratetype=0 gfp_flags=GFP_NOWAIT")
        .alloc(1, 0x200, 0)
        .line(1, "tlb_flush: pages:1 reason:whatever (3)")
        .free(1, 0x100, 0)
        .line(1, "mm_page_free_batched: page=1 pfn=0x100 order=0")
        .free(1, 0x800, 3)
        .replay(Some(&small_machine()));
    let expected = Logical {
        allocs: 3,
        alloc_frames: 6,
        frees: 2,
        free_frames: 9,
        stand_in_frees: 1,
        stand_in_frames: 8,
        ..Logical::default()
    };
    assert_eq!(report.logical, expected);
    assert_eq!(report.machine.in_use_at_start, 20_000);
    assert_eq!((report.balance.recorded, report.balance.replayed), (19_997, 19_997));
    assert_eq!((report.events, report.cpus.len()), (8, 2));
    assert_eq!(report.others["tlb_flush"], 1);
    let [first, second] = &report.cpus[..] else { panic!() };
    assert_eq!((first.ours.alloc_frames, first.ours.free_frames), (5, 0));
    assert_eq!((second.ours.alloc_frames, second.ours.free_frames), (1, 9));
    assert_eq!((first.kernel.allocs, first.kernel.failed_allocs), (2, 1));
    assert_eq!((second.kernel.frees, second.kernel.batched_frees), (2, 1));
    assert_eq!(report.total.list_hits + report.total.list_misses, 3);
}

#[test]
fn frames_in_depots_are_not_in_use() {
    // One CPU frees what the other allocates.
    let mut script = Script::default();
    for round in 0..8 {
        let pages = 0x1000 + 512 * round..0x1200 + 512 * round;
        script = pages.clone().fold(script, |script, pfn| script.alloc(0, pfn, 0));
        script = pages.fold(script, |script, pfn| script.free(1, pfn, 0));
    }
    let report = script.replay(Some(&small_machine()));
    assert_eq!((report.balance.recorded, report.balance.replayed), (20_000, 20_000));
}

#[test]
fn blocks_are_freed_in_parts_and_parts_as_blocks() {
    let mut script = Script::default().alloc(0, 0x400, 9).free(0, 0x480, 7);
    for pfn in (0x400..0x480).chain(0x500..0x600) {
        script = script.free(0, pfn, 0);
    }
    script = script.alloc(0, 0x40, 0).alloc(0, 0x41, 0).alloc(0, 0x42, 1).free(0, 0x40, 2);
    let report = script.replay(Some(&small_machine()));
    assert_eq!(report.logical.stand_in_frees, 0);
    assert!(report.logical.partial_frees > 0);
    assert_eq!((report.balance.recorded, report.balance.replayed), (20_000, 20_000));
}

#[test]
fn orders_beyond_a_pageblock_are_kept_in_pieces() {
    let script = Script::default().alloc(0, 0x800, 11).free(0, 0xc00, 10).free(0, 0x800, 3);
    let report = script.replay(Some(&small_machine()));
    assert_eq!((report.logical.alloc_frames, report.logical.free_frames), (2048, 1032));
    assert_eq!(report.logical.stand_in_frees, 0);
    assert_eq!((report.balance.recorded, report.balance.replayed), (21_016, 21_016));
}

#[test]
fn a_half_recorded_block_takes_a_stand_in_for_the_other_half() {
    let report = Script::default().alloc(0, 0x40, 0).free(0, 0x40, 1).replay(None);
    assert_eq!((report.logical.stand_in_frees, report.logical.stand_in_frames), (1, 1));
    assert_eq!(report.logical.unmatched_frees, 0);
    assert!(report.balance.difference_percent.abs() < f64::EPSILON);
}

#[test]
fn a_frame_allocated_twice_had_an_unrecorded_free() {
    let report = Script::default()
        .alloc(0, 0x40, 2)
        .alloc(0, 0x41, 0)
        .alloc(0, 0x40, 1)
        .free(0, 0x40, 1)
        .replay(Some(&small_machine()));
    assert_eq!((report.logical.reallocations, report.logical.freed_unseen_frames), (2, 5));
    assert_eq!((report.balance.recorded, report.balance.replayed), (20_000, 20_000));
}

#[test]
fn a_free_without_a_stand_in_is_unmatched() {
    let report = Script::default()
        .alloc(0, 0x400, 4)
        .free(0, 0x40, 1)
        .free(0, 0x80, 0)
        .replay(Some(&machine(1 << 16, (1 << 16) - 1)));
    // The only stand-in serves half of the first free.
    assert_eq!((report.logical.unmatched_frees, report.logical.unmatched_frames), (2, 2));
    assert_eq!((report.balance.recorded, report.balance.replayed), (14, 16));
    assert!(report.balance.difference_percent > 10.0);
}

#[test]
fn a_refused_allocation_is_neither_freed_nor_replaced() {
    let mut script = Script::default();
    for pfn in 0..20 {
        script = script.alloc(0, pfn << 9 | 1 << 30, 9);
    }
    for pfn in 0..20 {
        script = script.free(0, pfn << 9 | 1 << 30, 9);
    }
    let report = script.replay(Some(&machine(16 << 9, 8 << 9)));
    assert!(report.logical.refused_allocs >= 12, "{:?}", report.logical);
    assert_eq!(report.logical.stand_in_frees, 0);
    assert_eq!((report.balance.recorded, report.balance.replayed), (4096, 4096));
}

#[test]
fn memory_starts_in_the_state_of_the_snapshot() {
    let (recording, snapshot) = shipped();
    let report = replay(&recording, Some(&snapshot), &Tuning::default());
    assert_eq!(report.machine.frames, snapshot.managed());
    // zoneinfo and buddyinfo were read one after the other.
    assert!(report.machine.in_use_at_start.abs_diff(snapshot.in_use()) < 100);
    let names: Vec<_> = report.zones.iter().map(|zone| (zone.node, zone.zone)).collect();
    assert_eq!(names, [(0, "DMA"), (0, "DMA32"), (0, "Normal")]);
    for (ours, theirs) in report.zones.iter().zip(&snapshot.zones) {
        assert_eq!(ours.managed, theirs.managed);
        assert_eq!(ours.watermarks, [theirs.min, theirs.low, theirs.high]);
        let short = theirs.held_by_cpus() - ours.held.start;
        assert!(short <= theirs.held_by_cpus() / 100, "{}: {short} short", ours.zone);
        let kernel = ours.free.kernel_start.as_ref().unwrap();
        assert_eq!(ours.free.start.blocks, kernel.blocks, "{}", ours.zone);
        assert_eq!(ours.free.start.by_type, kernel.by_type, "{}", ours.zone);
    }
    assert_eq!(report.free.start.beyond(report.free.kernel_start.as_ref().unwrap())[3], 0);
}

#[test]
fn tables_of_a_memory_match_the_kernels() {
    machine::tests::with_machine(8, |machine| {
        let block = machine.alloc(0, framewright::Request::new(Order::ZERO, MigrateType::Movable));
        let memory = machine.memory();
        let mut text = String::from("# zoneinfo\n");
        memory.write_zoneinfo(&mut text).unwrap();
        text += "# buddyinfo\n";
        memory.write_buddyinfo(&mut text).unwrap();
        text += "# pagetypeinfo\n";
        memory.write_pagetypeinfo(&mut text).unwrap();
        text += "# vmstat\nnr_unstable 0\n";
        let snapshot = Snapshot::parse("ours", text.as_bytes()).unwrap();
        assert_eq!(snapshot.gaps(), []);
        assert_eq!((snapshot.managed(), snapshot.in_use()), (4096, 1));
        assert_eq!(snapshot.free(), memory.free());
        let blocks = memory.block_counts(framewright::ZoneId::default()).by_order();
        assert_eq!(snapshot.free_blocks()[..9], blocks[..9]);
        let mut again = String::new();
        snapshot.write_zoneinfo(&mut again).unwrap();
        assert!(text.contains(&again), "{text}\n{again}");
        machine.free(0, block.unwrap());
    });
}

#[test]
fn a_replay_begins_in_the_zones_of_the_snapshot() {
    let tables = "# zoneinfo\nNode 0, zone DMA32\npages free 2048\nspanned 4096\nmanaged 4096\n\
                  start_pfn: 0\nNode 0, zone Normal\npages free 8000\nspanned 8192\n\
                  managed 8192\nstart_pfn: 4096\n";
    let snapshot = Snapshot::parse("t", tables.as_bytes()).unwrap();
    // The kernel took the first block from the lower zone, and the second from the default zone.
    let report = Script::default()
        .alloc(0, 0x200, 3)
        .alloc(0, 0x1200, 3)
        .free(0, 0x100, 4)
        .replay(Some(&snapshot));
    let in_use = |zone: &ZoneReport| {
        let (start, end) = (zone.free.start.frames(), zone.free.end.frames() + zone.held.end);
        (zone.zone, zone.managed - start, zone.managed - end)
    };
    let zones: Vec<_> = report.zones.iter().map(in_use).collect();
    assert_eq!(zones, [("DMA32", 2048, 2048 + 8 - 16), ("Normal", 192, 192 + 8)]);
    assert_eq!((report.balance.recorded, report.balance.replayed), (2240, 2240));
    assert_eq!(report.logical.stand_in_frames, 16);
}

#[test]
fn a_zone_that_a_memory_cannot_have_is_named() {
    let tables = "# zoneinfo\nNode 0, zone HighMem\npages free 8\nmanaged 16\n";
    let snapshot = Snapshot::parse("t", tables.as_bytes()).unwrap();
    let recording = Script::default().alloc(0, 1, 0).recording();
    let survey = Survey::of(&recording, &mut |_| {}).unwrap();
    let tables = before(Some(&snapshot));
    let error = run(&recording, &survey, &tables, &Tuning::default(), &mut |_| {}).unwrap_err();
    assert!(error.to_string().contains("node 0, zone HighMem"), "{error}");
}

#[test]
fn the_end_is_compared_with_the_tables_from_the_end() {
    let (recording, snapshot) = shipped();
    let survey = Survey::of(&recording, &mut |_| {}).unwrap();
    let tables = Tables { before: Some(snapshot.clone()), after: Some(snapshot.clone()) };
    let tuning = Tuning::default();
    let report = run(&recording, &survey, &tables, &tuning, &mut |_| {}).unwrap();
    assert!(!report.ends_early);
    let kernel = report.free.kernel_end.as_ref().unwrap();
    assert_eq!(kernel, report.free.kernel_start.as_ref().unwrap());
    assert_ne!(report.free.end.beyond(kernel), [0; SHOWN_ORDERS]);
    let zones: u64 = report.zones.iter().map(|zone| zone.free.end.frames()).sum();
    assert_eq!(report.free.end.frames(), zones);
}

#[test]
fn the_shipped_recording_balances_and_repeats() {
    let (recording, snapshot) = shipped();
    let survey = Survey::of(&recording, &mut |_| {}).unwrap();
    assert_eq!((survey.warnings.len(), survey.events, survey.cpus), (0, 160_000, 2));
    let mut parts = Vec::new();
    let tuning = Tuning::default();
    let mut progress = |part| parts.push(part);
    let tables = before(Some(&snapshot));
    let report = run(&recording, &survey, &tables, &tuning, &mut progress).unwrap();
    assert_eq!(report.logical.unmatched_frees, 0);
    assert_eq!(report.logical.refused_allocs, 0);
    assert_eq!(report.balance.recorded, report.balance.replayed);
    // More than a third of its frees end earlier allocations.
    assert!(report.logical.stand_in_frees * 3 > report.logical.frees);
    assert_eq!(report.kernel_total.extfrag_claims, 20);
    let fallbacks = |by_kernel| report.fallbacks.iter().filter(move |it| it.by_kernel == by_kernel);
    assert_eq!(fallbacks(true).count(), 20);
    assert_eq!(fallbacks(false).count() as u64, report.total.claims + report.total.steals);
    let last = report.samples.last().unwrap();
    assert_eq!(last.free_blocks, report.free.end.blocks);
    let by_type = last.free_by_type.iter().sum::<u64>();
    // The high-atomic reserve has a type of its own.
    assert!(by_type > last.free / 2 && by_type <= last.free, "{last:?}");
    assert!(last.free_by_type.iter().all(|&frames| frames > 0), "{last:?}");
    assert!(report.samples.len() as u64 > 200 && report.samples.last().unwrap().seconds > 8.0);
    assert!(parts.is_sorted() && parts.last() == Some(&1.0));
    assert_eq!(report, replay(&recording, Some(&snapshot), &tuning), "not deterministic");
}

#[test]
fn a_recording_that_is_too_long_to_be_kept_is_read_again() {
    let (recording, snapshot) = shipped();
    let mut survey = Survey::of(&recording, &mut |_| {}).unwrap();
    let tables = before(Some(&snapshot));
    let run = |survey: &Survey, recording: &Recording| {
        run(recording, survey, &tables, &Tuning::default(), &mut |_| {})
    };
    let nowhere = Recording::from_bytes("empty", Vec::new());
    let from_memory = run(&survey, &nowhere).expect("the events were not kept");
    survey.kept = kept::Kept::TooMany;
    assert_eq!(run(&survey, &recording).unwrap(), from_memory);
    assert!(run(&survey, &nowhere).unwrap_err().to_string().contains("empty"));
    let other = Script::default().alloc(7, 0x40, 0).recording();
    let error = run(&survey, &other).unwrap_err().to_string();
    assert!(error.contains(":1: CPU 7") && error.contains("has changed"), "{error}");
}

#[test]
fn settings_make_a_difference() {
    let (recording, snapshot) = shipped();
    let drained = |rule: &str| {
        let mut tuning = Tuning::default();
        tuning.set("pcp.high_order_drain", rule).unwrap();
        let report = replay(&recording, Some(&snapshot), &tuning);
        assert_eq!(report.balance.recorded, report.balance.replayed);
        report.total.drains["high-order"]
    };
    assert!(drained("every-free") > drained("second-consecutive"));
}

#[test]
fn without_a_snapshot_the_recording_determines_the_size() {
    let (recording, _) = shipped();
    let report = replay(&recording, None, &Tuning::default());
    assert_eq!(report.logical.unmatched_frees, 0);
    assert_eq!(report.logical.refused_allocs, 0);
    assert_eq!(report.balance.recorded, report.balance.replayed);
    assert!(!report.machine.from_snapshot && report.free.kernel_start.is_none());
}

#[test]
fn tables_that_contradict_zoneinfo_are_left_out() {
    let text = "# zoneinfo\nNode 0, zone Normal\npages free 1000\nmanaged 8192\n# pagetypeinfo\n\
                Number of blocks type Unmovable Movable\n\
                Node 0, zone Normal, type Unmovable 1 1 1099511627776\n\
                Node 0, zone Normal 1099511627776 7\n";
    let snapshot = Snapshot::parse("t", text.as_bytes()).unwrap();
    let report = Script::default().free(0, 0x40, 0).replay(Some(&snapshot));
    assert_eq!(report.machine.in_use_at_start, 7192);
    assert_eq!((report.balance.recorded, report.balance.replayed), (7191, 7191));
}

#[test]
fn impossible_replays_are_refused_with_a_reason() {
    let fails = |text: &str, snapshot: Option<&Snapshot>| {
        let recording = Recording::from_bytes("t.txt", text.as_bytes().to_vec());
        let survey = match Survey::of(&recording, &mut |_| {}) {
            Ok(survey) => survey,
            Err(error) => return error.to_string(),
        };
        run(&recording, &survey, &before(snapshot), &Tuning::default(), &mut |_| {})
            .map(|_| ())
            .unwrap_err()
            .to_string()
    };
    let good = Script::default().alloc(0, 1, 0).text;
    let bad = format!("{good}{}", Script::default().alloc(0, 1, 99).text);
    assert!(fails(&bad, None).contains("t.txt:2: order `99`"));
    assert!(fails("", None).contains("empty"));
    let giant = machine(1 << 40, 1 << 39);
    assert!(fails(&good, Some(&giant)).contains("a replay can have at most 1073741824"));
    assert!(Recording::open(Path::new("/nowhere/at/all"), 0).is_err());
}

#[test]
fn waits_and_holds_of_zone_locks_are_reported_beside_the_replay_s_own() {
    let report = Script::contended().replay(None);
    let zone = &report.zones[0];
    let expected =
        KernelLock { waits: Some(1), wait_nanos: Some(1000), holds: 1, hold_nanos: 1000 };
    assert_eq!(zone.kernel_lock, expected);
    assert_eq!(zone.lock.holds, report.total.zone_lock_acquisitions);
    assert!(zone.lock.hold_nanos > 0);
    assert!(report.others.is_empty(), "{:?}", report.others);
}

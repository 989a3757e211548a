//! The effect of the scanners' repairs (fixes of 2013 in Linux, `compact.repair.*`) under load,
//! compared with `compact.method=index`.
//!
//! The test is a small version of MMTests' stress-highalloc. Memory is filled with movable pages
//! and a few unmovable pages. While a load allocates and frees pages, huge pages are requested and
//! kept for some time.

use framewright::{
    CpuId, MigrateType, Order, Request, observe::CompactStats, platform::CompactPriority,
};

use framewright_fakes::FakeMover;

use crate::{with_compactor, with_owner_sized};

const HUGE: Request = Request::new(Order::PAGEBLOCK, MigrateType::Movable);

/// The name and the settings of a run.
type Column = (&'static str, &'static [(&'static str, &'static str)]);

const UNREPAIRED: Column = (
    "unrepaired",
    &[
        ("compact.method", "scan"),
        ("compact.repair.reset_before_read", "off"),
        ("compact.repair.detect_meeting", "off"),
        ("compact.repair.unmarked_types", "off"),
        ("compact.repair.reset_on_meeting", "off"),
    ],
);
const ALL: Column = ("all", &[("compact.method", "scan")]);
const INDEX: Column = ("index", &[("compact.method", "index")]);

/// One page in this many does not move.
const UNMOVABLE: u64 = 10;
/// The number of requested huge pages.
const REQUESTS: u64 = 250;
/// The maximum number of huge pages that are kept at the same time.
const KEPT: usize = 8;

/// Result of a run.
#[derive(Clone, Copy, Debug, Default)]
struct Score {
    formed: u64,
    stats: CompactStats,
}

impl Score {
    fn examined(&self) -> u64 {
        let stats = &self.stats;
        stats.compact_headers_scanned + stats.compact_migrate_scanned + stats.compact_free_scanned
    }

    /// The examined frames without the moved pages, which must be examined anyway.
    fn searched(&self) -> u64 {
        self.examined() - self.stats.pgmigrate_success
    }
}

fn run(column: Column, seed: u64) -> Score {
    let mut score = Score::default();
    // Free blocks are taken and reused as in Linux. Otherwise huge pages form without compaction.
    const AS_LINUX: &[(&str, &str)] = &[
        ("zone.emptying_above", "512"),
        ("zone.bulk_take", "smallest-first"),
        ("pcp.refill_ignores_free", "on"),
    ];
    let settings = [column.1, AS_LINUX].concat();
    with_owner_sized(128, &settings, seed, |owner| {
        fill(owner);
        let mut kept = std::collections::VecDeque::new();
        for _ in 0..REQUESTS {
            load(owner, 200);
            if let Some(block) = ask(owner) {
                score.formed += 1;
                kept.push_back(block);
            }
            if kept.len() > KEPT {
                owner.memory.free_bypassing_lists(kept.pop_front().unwrap()).unwrap();
                scatter_one(owner);
            }
        }
        score.stats = owner.memory.compact_stats();
        for block in kept {
            owner.memory.free_bypassing_lists(block).unwrap();
        }
        owner.memory.drain_all();
        owner.check();
    });
    score
}

/// Fills memory, with one page in [`UNMOVABLE`] not movable, and frees a seventh at random.
fn fill(owner: &FakeMover<'_, '_>) {
    loop {
        let unmovable = owner.below(UNMOVABLE) == 0;
        let of = if unmovable { MigrateType::Unmovable } else { MigrateType::Movable };
        if owner.alloc(0, of, unmovable).is_none() {
            break;
        }
    }
    let pages = owner.pages.borrow().len();
    free_some(owner, pages / 7);
}

/// Frees `count` pages at random.
fn free_some(owner: &FakeMover<'_, '_>, count: usize) {
    let pages: Vec<_> = owner.pages.borrow().keys().copied().collect();
    let mut freed = 0;
    while freed < count {
        let at = pages[owner.below(pages.len() as u64) as usize];
        if owner.pages.borrow().contains_key(&at) {
            owner.free(at);
            freed += 1;
        }
    }
}

/// Replaces a huge page by small pages, and frees as many frames at random.
fn scatter_one(owner: &FakeMover<'_, '_>) {
    for _ in 0..512 {
        owner.alloc(0, MigrateType::Movable, false);
    }
    free_some(owner, 512);
}

/// Frees and allocates `pages` pages at random.
fn load(owner: &FakeMover<'_, '_>, pages: u64) {
    let keys: Vec<_> = owner.pages.borrow().keys().copied().collect();
    for _ in 0..pages {
        let at = keys[owner.below(keys.len() as u64) as usize];
        if !owner.pages.borrow().contains_key(&at) {
            continue;
        }
        let page = owner.pages.borrow()[&at];
        owner.free(at);
        let of = if page.pinned { MigrateType::Unmovable } else { MigrateType::Movable };
        owner.alloc(0, of, page.pinned);
    }
}

/// Makes a request as with default flags: first without compaction, and then with increasing
/// priority.
fn ask<'m>(owner: &FakeMover<'_, 'm>) -> Option<framewright::Block<'m>> {
    let there = || {
        let mut token = owner.memory.cpu(CpuId::new(0)).unwrap();
        token.alloc(HUGE.no_wait()).ok()
    };
    there().or_else(|| {
        [CompactPriority::Async, CompactPriority::SyncLight].into_iter().find_map(|priority| {
            with_compactor(owner, 512, |c| c.form(HUGE, priority)).1.or_else(there)
        })
    })
}

fn sum(column: Column) -> Score {
    let mut sum = Score::default();
    for seed in 1..=18 {
        let score = run(column, seed);
        sum.formed += score.formed;
        sum.stats += score.stats;
    }
    println!("{}: {} formed, {} examined, {:?}", column.0, sum.formed, sum.examined(), sum.stats);
    sum
}

#[test]
fn repairs_form_and_scan_more_and_the_index_forms_most_with_the_least_search() {
    let [unrepaired, all, index] = [UNREPAIRED, ALL, INDEX].map(sum);
    assert!(all.formed > unrepaired.formed, "{} and {}", all.formed, unrepaired.formed);
    assert!(all.examined() > unrepaired.examined());
    assert!(index.formed > all.formed, "{} and {}", index.formed, all.formed);
    // Per formed huge page, the index searches less than a tenth of the frames.
    assert!(index.searched() * all.formed * 10 < all.searched() * index.formed);
    let moved = |score: Score| score.stats.pgmigrate_success;
    // The index also forms huge pages in pageblocks that the scanners leave, which takes more moves.
    assert!(moved(index) * all.formed <= 3 * moved(all) * index.formed);
}

/// The fast search compensates for the bugs of unrepaired scanners.
#[test]
fn repairs_gain_more_without_shortcuts() {
    const WITHOUT: (&str, &str) = ("compact.shortcuts", "off");
    let with = |column: Column| {
        let settings: Vec<_> = column.1.iter().copied().chain([WITHOUT]).collect();
        let settings: &'static [_] = Box::leak(settings.into_boxed_slice());
        sum((column.0, settings))
    };
    let gain = |unrepaired: Score, all: Score| all.formed as f64 / unrepaired.formed.max(1) as f64;
    let (without, shortcuts) = (gain(with(UNREPAIRED), with(ALL)), gain(sum(UNREPAIRED), sum(ALL)));
    assert!(without > shortcuts, "{without} and {shortcuts} times as many");
}

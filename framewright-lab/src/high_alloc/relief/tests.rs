//! The shrinker examines files in proportion to the pages that reclaim scans.

use framewright_sim::engine::{Cpu, Schedule};

use crate::high_alloc::{
    files::{FileId, NONE},
    fixture::{FRESH, Fixture, USED, play},
};

const FILES: [FileId; 2] = [FRESH, USED];

/// Lets reclaim scan at least this number of pages. Returns the number that it scanned.
fn scan(pages: u64, fixture: &Fixture<'_, '_>, cpu: Cpu<'_>) -> u64 {
    let (kernel, node) = (fixture.kernel, fixture.kernel.node(cpu.id()));
    kernel.reclaim.lru().drain_all();
    let before = kernel.scanned();
    while kernel.scanned() < before + pages {
        kernel.reclaim.shrink_node(cpu.id(), node, 1);
    }
    kernel.scanned() - before
}

fn used(fixture: &Fixture<'_, '_>) -> usize {
    FILES.iter().filter(|&&file| fixture.kernel.state.files.at(file).used.get()).count()
}

fn known(fixture: &Fixture<'_, '_>) -> usize {
    let files = &fixture.kernel.state.files;
    FILES.iter().filter(|&&file| files.at(file).inode.get() != NONE).count()
}

#[test]
fn files_are_examined_twice_as_often_as_pages() {
    let moving = |fixture: &Fixture<'_, '_>, cpu: Cpu<'_>| {
        let kernel = fixture.kernel;
        kernel.shrink_objects();
        assert_eq!(used(fixture), 2, "files were examined although reclaim has scanned nothing");
        // A scan of a quarter of the pages examines one of two files; a shorter scan examines none.
        let pages = kernel.reclaimable_pages();
        let scanned = scan(pages / 6, fixture, cpu);
        assert!(scanned < kernel.reclaimable_pages() / 4, "{scanned} of {pages} are too many");
        kernel.shrink_objects();
        assert_eq!(used(fixture), 2);
        scan(pages / 4, fixture, cpu);
        kernel.shrink_objects();
        assert!(used(fixture) < 2);
        scan(pages, fixture, cpu);
        kernel.shrink_objects();
        assert_eq!(used(fixture), 0);
        let before = known(fixture);
        kernel.shrink_objects();
        assert_eq!(
            known(fixture),
            before,
            "the inodes have changed although reclaim has scanned nothing again"
        );
    };
    play(Schedule::Clock, &|_, _, _| (), moving, |_, _| (), |_, ended| ended.unwrap());
}

#[test]
fn files_without_pages_lose_their_inodes() {
    let moving = |fixture: &Fixture<'_, '_>, cpu: Cpu<'_>| {
        let files = &fixture.kernel.state.files;
        while files.at(FRESH).cached.get() > 0 {
            scan(1, fixture, cpu);
        }
        for _ in 0..2 {
            scan(fixture.kernel.reclaimable_pages(), fixture, cpu);
            fixture.kernel.shrink_objects();
        }
        assert_eq!(files.at(FRESH).inode.get(), NONE);
        fixture.check();
    };
    play(Schedule::Clock, &|_, _, _| (), moving, |_, _| (), |_, ended| ended.unwrap());
}

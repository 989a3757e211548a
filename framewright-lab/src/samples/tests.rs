//! Runs that are watched have the figures of other runs, and their samples agree with one another.

use framewright_sim::machine::Spec;

use super::*;
use crate::{
    paging::{Paging, Work},
    report::Measured,
    simulated::{Column, Plan, Simulation},
    workloads::{
        Side, Workload,
        kbuild::Kbuild,
        mmap_read::{MmapRead, Readers},
    },
};

/// The samples of a machine with so many frames, by side.
fn sampled(frames: u64, run: impl Fn(Watch<'_>) -> Measured) -> Vec<(String, Vec<Sample>)> {
    let (plain, watched) = (run(Watch::default()), run(Watch { trace: None, memory: true }));
    assert_eq!(plain.runs, watched.runs, "sampling changes the run");
    assert!(plain.samples.iter().all(|(_, samples)| samples.is_empty()));
    for (side, samples) in &watched.samples {
        assert!(samples.len() > 20, "{side}: {} samples", samples.len());
        assert!(samples.is_sorted_by(|a, b| a.seconds < b.seconds), "{side}");
        for sample in samples {
            let Sample { in_use, free, held_by_cpus, free_blocks, free_by_type, .. } = sample;
            assert_eq!(in_use + free + held_by_cpus, frames, "{side}: {sample:?}");
            let blocks: u64 = (0..).zip(free_blocks).map(|(order, blocks)| blocks << order).sum();
            let by_type: u64 = free_by_type.iter().sum();
            assert!(blocks <= *free && by_type <= blocks, "{side}: {sample:?}");
        }
        let uses = || samples.iter().map(|sample| sample.in_use);
        assert!(uses().max() > uses().min(), "{side}: the same state again and again");
    }
    watched.samples
}

#[test]
fn both_designs_are_sampled_on_a_machine_with_nodes() {
    let work = Workload::Kbuild(Kbuild { least_pages: 256, most_pages: 600, ..Kbuild::new(1) });
    let plan = Plan { warm_up: 500_000, window: 3_000_000, steady: false };
    let spec = Spec::preset("numa-4n-48").unwrap();
    let frames = 1 << 19;
    let simulation = Simulation { work, spec, frames: Some(frames), plan };
    let side = Side::new("framewright");
    let columns = [Column::framewright(&side), Column::list_buddy("list-buddy", &side)];
    let samples = sampled(frames, |watch| {
        simulation.run_watched(&columns, &[1, 2], watch, &mut |_, _| {}).unwrap()
    });
    let [(_, ours), (_, theirs)] = &samples[..] else { panic!() };
    assert!(ours.iter().all(|sample| sample.free_by_type[1] > frames / 2), "{:?}", ours[0]);
    assert!(theirs.iter().all(|sample| sample.free_by_type == [0; 3]), "{:?}", theirs[0]);
}

#[test]
fn memory_is_sampled_while_files_are_read() {
    let work = Work::MmapRead(MmapRead { times: 3, ..MmapRead::new(Readers::Threads) });
    let frames = 64 << 8;
    let paging = Paging { work, spec: Spec::uniform(4).unwrap(), frames };
    let samples = sampled(frames, |watch| {
        paging.run_watched(&[Side::new("one")], &[1], watch, &mut |_, _| {}).unwrap()
    });
    let free = |at: fn(&[Sample]) -> Option<&Sample>| at(&samples[0].1).unwrap().free;
    assert!(free(|it| it.first()) > frames / 2 && free(|it| it.last()) < frames / 4);
}

#[test]
fn a_sample_counts_until_the_next_one() {
    let samples = |points: &[(f64, u64)]| -> Vec<Sample> {
        let sample = |&(seconds, blocks): &(f64, u64)| {
            let free = FreeMemory::of_blocks(&[0, 0, 0, 0, 0, 0, 0, 0, 9, blocks % 2, blocks / 2]);
            let state = MemoryState {
                free,
                free_frames: 0,
                held_by_cpus: 0,
                in_use: 0,
                largest_order: None,
            };
            Sample::of(seconds, &state)
        };
        points.iter().map(sample).collect()
    };
    let over = |points: &[(f64, u64)]| OverTime::order9_allocatable(&samples(points));
    let expected = OverTime { mean: 9.0, min: 3, last: 7 };
    assert_eq!(over(&[(1.0, 11), (4.0, 3), (5.0, 7)]), Some(expected));
    assert_eq!(over(&[(1.0, 11), (1.0, 7)]).unwrap().mean, 9.0);
    assert_eq!(over(&[]), None);
}

use super::*;
use crate::workloads::mmap_read::Readers;
use framewright::tuning::FlushBatching;

fn side(batching: FlushBatching) -> Side {
    let mut side = Side::new(format!("{batching:?}"));
    side.tuning.tlb.batching = batching;
    side
}

fn paging(readers: Readers, count: u16) -> HostPaging {
    let work = MmapRead { times: 3, ..MmapRead::new(readers) };
    HostPaging { work, readers: count, frames: 16 << 8, rounds: 2 }
}

#[test]
fn real_files_are_read_and_batches_save_calls() {
    for (readers, count) in [(Readers::Processes, 2), (Readers::Threads, 2), (Readers::Threads, 1)]
    {
        let sides = [side(FlushBatching::Off), side(FlushBatching::All)];
        let mut told = Vec::new();
        let mut tell = |done, total| told.push((done, total));
        let result = paging(readers, count).run(&sides, &mut tell).unwrap();
        assert_eq!(told.last(), Some(&(6, 6)));
        assert!(
            result.measured.checks.iter().all(|check| check.passed),
            "{:?}",
            result.measured.checks
        );
        let [off, all] = &result.measured.runs[..] else { panic!() };
        let of = |run: &crate::report::Run, name: &str| run.metrics[name].median;
        for run in [off, all] {
            assert_eq!(of(run, "pages"), 4096.0);
            assert!(of(run, "evicted") > 3000.0, "{run:?}");
        }
        // Background reclaim continues while counters are read.
        let [one, many] = [off, all].map(|run| of(run, "unmaps_per_flush"));
        assert!((0.99..=1.01).contains(&one) && many > 8.0, "{one} {many}");
    }
}

#[test]
fn too_little_memory_is_refused_with_the_needed_size() {
    let small = HostPaging { frames: 512, ..paging(Readers::Threads, 2) };
    let error = small.run(&[side(FlushBatching::Off)], &mut |_, _| {}).unwrap_err();
    assert!(error.to_string().contains("--memory 48MiB"), "{error}");
}

#[test]
fn memory_that_the_system_does_not_have_is_refused() {
    let (paging, mib) = (paging(Readers::Threads, 2), 1 << 20);
    // 16 MiB, and a few KiB of metadata for three times as many pages.
    assert!(paging.check_available(Some(17 * mib), 1).is_ok());
    assert!(paging.check_available(None, 1).is_ok(), "unknown");
    assert!(paging.check_available(Some(16 * mib), 1).is_err());
    let error = paging.check_available(Some(17 * mib), 2).unwrap_err().to_string();
    assert!(error.contains("2 sides would need 32 MiB and the system has 17 MiB"), "{error}");
}

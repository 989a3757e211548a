use super::*;
use crate::workloads::mmap_read::Readers;
use framewright::{Tuning, tuning::FlushBatching};
use indexmap::IndexMap;

const MIB: u64 = 256;

fn side(batching: FlushBatching) -> Side {
    let mut tuning = Tuning::default();
    tuning.tlb.batching = batching;
    Side { label: format!("{batching:?}"), tuning, settings: IndexMap::new() }
}

fn mmap_read(cpus: u16, readers: Readers, frames: u64, times: u32) -> Paging {
    let work = Work::MmapRead(MmapRead { times, ..MmapRead::new(readers) });
    Paging { work, spec: Spec::uniform(cpus).unwrap(), frames }
}

fn run(paging: &Paging, batchings: &[FlushBatching]) -> PagingResult {
    let sides: Vec<Side> = batchings.iter().copied().map(side).collect();
    paging.run(&sides, &[1], &mut |_, _| {}).unwrap()
}

fn median(run: &Run, name: &str) -> f64 {
    run.metrics[name].median
}

#[test]
fn look() {
    use FlushBatching::{All, CleanOnly, Lazy, Off};
    let env = |name: &str, default: u64| {
        std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
    };
    let readers = if env("THREADS", 0) == 1 { Readers::Threads } else { Readers::Processes };
    let paging =
        mmap_read(env("CPUS", 4) as u16, readers, env("MIB", 64) * MIB, env("TIMES", 4) as u32);
    let result = run(&paging, &[Off, CleanOnly, All, Lazy]);
    for name in result.runs[0].metrics.keys() {
        print!("{name:28}");
        result.runs.iter().for_each(|run| print!(" {:>14.4}", median(run, name)));
        println!();
    }
}

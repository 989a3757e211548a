//! `alloc-micro`: costs of single operations, of the library and of other allocators.
//!
//! Every allocator manages the same number of frames, as metadata only: there is no memory behind
//! the frames, so only the allocator is timed. Each operation goes through the same never-inlined
//! wrapper (`calls`), with static dispatch. A *row* of the table is an allocator, and a *cell* is
//! the cost of one operation. One *round* measures every cell, one row after the other. The order
//! of rows changes from round to round: other load of the machine affects all rows alike. A figure
//! is the median of the rounds.
//!
//! Single-threaded cells are measured in CPU time of the thread. Two-threaded cells are measured in
//! wall time. Each thread is pinned to a CPU of its own and, if the system permits, runs under
//! `SCHED_FIFO`; otherwise preempted lock holders dominate.
//!
//! | module         | job                                                               |
//! |----------------|-------------------------------------------------------------------|
//! | `scale`        | sizes: frames, operations, rounds                                 |
//! | `calls`        | the wrapper around every allocator, and loops with a time limit   |
//! | `one`, `two`   | the cells of one thread, of two threads                           |
//! | `row`          | one allocator with its pools, behind an object-safe trait         |
//! | `framewright_row` | the library as some of the rows, with blocks and raw frees     |
//! | `goals`        | the goals of the library's row                                    |
//! | `outside`      | figures of an allocator that was measured outside this program    |
//! | `instructions` | instructions per operation, counted by callgrind                  |

mod calls;
pub(crate) mod framewright_row;
mod goals;
pub mod instructions;
mod one;
mod outside;
mod row;
mod scale;
mod two;

use crate::{
    clock,
    report::{Better, Check, Metric, Run, Unit},
};
use indexmap::IndexMap;

pub use goals::{Rank, ranks, ratio};
pub use outside::{LLFREE, Outside};
pub use row::Rows;
pub use scale::{METADATA, METRICS, Scale, ScaleError};

use row::Row;
use scale::Cell;

/// The finished table.
#[derive(Clone, Debug)]
pub struct Table {
    /// One run per row: its label, and its metrics in the order of [`METRICS`]. Metrics that the
    /// allocator does not support are missing.
    pub runs: Vec<Run>,
    /// Labels of the allocators that merge free buddies and were measured at the common size. Only
    /// these are ranked.
    pub ranked: Vec<String>,
    /// The end of the labels of the rows on a large machine, for example `-256g`.
    pub large_suffix: String,
    /// Describes how the two-threaded cells were run.
    pub two_threads: String,
}

impl Table {
    /// Checks the goals of the library: the fastest of the ranked allocators, close to the lower
    /// bound, no operation above 100 ns, little metadata. On a large machine: no operation above
    /// 100 ns, and under pressure close to `frame-alloc-depot`.
    #[must_use]
    pub fn checks(&self) -> Vec<Check> {
        let mut checks = goals::checks(&self.runs, &self.ranked);
        checks.extend(goals::large_checks(&self.runs, &self.large_suffix));
        checks
    }
}

/// Measures every cell of the usual rows. `progress` gets the number of finished measurements and
/// of all.
pub fn run(scale: &Scale, progress: &mut dyn FnMut(u64, u64)) -> Table {
    run_rows(scale, Rows::standard(scale), progress)
}

/// As [`run`], with the given rows.
pub fn run_rows(scale: &Scale, rows: Rows, progress: &mut dyn FnMut(u64, u64)) -> Table {
    let Rows(mut rows) = rows;
    let cpus = clock::two_cpus();
    let total = (scale.rounds * Cell::ALL.len() * rows.len()) as u64;
    let mut done = 0;
    let mut samples: Vec<IndexMap<&str, Vec<f64>>> = vec![IndexMap::new(); rows.len()];
    for round in 0..scale.rounds {
        for cell in Cell::ALL {
            if cell.needs_two_cpus() && cpus.is_none() {
                done += rows.len() as u64;
                continue;
            }
            for turn in 0..rows.len() {
                let index = (turn + round) % rows.len();
                for (metric, nanos) in rows[index].measure(cell, scale, round as u64) {
                    samples[index].entry(metric).or_default().push(nanos);
                }
                done += 1;
                progress(done, total);
            }
        }
    }
    let runs = rows.iter().zip(&samples).map(|(row, samples)| summary(&**row, samples)).collect();
    let ranked = rows.iter().filter(|row| row.ranked()).map(|row| row.label().to_owned()).collect();
    Table {
        runs,
        ranked,
        large_suffix: scale.large_suffix(),
        two_threads: clock::describe_two_threads(cpus),
    }
}

fn summary(row: &dyn Row, samples: &IndexMap<&str, Vec<f64>>) -> Run {
    let mut run = Run { label: row.label().to_owned(), ..Run::default() };
    for name in METRICS {
        let rounds = samples.get(name).map_or(&[][..], Vec::as_slice);
        if let Some(metric) = Metric::of_rounds(rounds, Unit::Nanos, Some(Better::Lower)) {
            run.metrics.insert(name.to_owned(), metric);
        }
    }
    let size = row.size();
    run.metrics.insert(
        METADATA.to_owned(),
        Metric::once(size.metadata_per_frame, Unit::BytesPerFrame, Some(Better::Lower)),
    );
    run.metrics.insert(
        "cpu_list_bytes".to_owned(),
        Metric::once(size.cpu_list_bytes as f64, Unit::Bytes, None),
    );
    run.settings.insert("managed_frames".to_owned(), size.frames.to_string());
    run.settings.insert("metadata_known_by".to_owned(), size.how.to_owned());
    run
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tiny_run_fills_the_table() {
        let mut calls = 0;
        let table = run(&Scale::tiny(), &mut |done, total| {
            calls += 1;
            assert!(done <= total);
        });
        assert!(calls > 0);
        let run = |label: &str| table.runs.iter().find(|run| run.label == label).expect(label);
        let list = run("list-buddy");
        for name in METRICS {
            let two = ["_2t_", "cross", "tight_pool"].iter().any(|part| name.contains(part));
            if !two {
                let metric = list.metrics.get(name).expect(name);
                assert!(metric.median > 0.0 && metric.n == 2, "{name}: {metric:?}");
            }
        }
        assert!(list.metrics[METADATA].median >= 64.0);
        // A refused request would leave the cell empty.
        if clock::two_cpus().is_some() {
            assert!(run("framewright").metrics.contains_key("tight_pool_ns"));
            assert!(!run("floor").metrics.contains_key("tight_pool_ns"));
        }
        assert!(run("frame-alloc-depot-0g").metrics.contains_key("pressure_free_1t_ns"));
        assert!(!run("frame-alloc-depot-0g").metrics.contains_key("half_alloc_1t_ns"));
        assert!(!run("floor").metrics.contains_key("pair_o9_1t_ns"));
        assert!(table.ranked.iter().any(|label| label == "list-buddy"));
        assert!(!table.ranked.iter().any(|label| label == "bitmap-allocator"));
        // Of the hardening levels `checked` and `tracked`, only `tracked` has a byte per frame.
        let price = |label: &str| run(label).metrics[METADATA].median;
        assert_eq!(price("framewright-raw"), price("framewright"));
        assert_eq!(price("framewright-tracked"), price("framewright") + 1.0);
        for label in ["framewright-raw", "framewright-tracked"] {
            assert!(run(label).metrics["pair_o0_1t_ns"].median > 0.0);
            assert!(!table.ranked.iter().any(|ranked| ranked == label));
        }
    }
}

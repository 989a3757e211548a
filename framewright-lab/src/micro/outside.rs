//! Figures of an allocator that is not in the package registry.
//!
//! LLFree is only in its repository, so it cannot be a row. It was measured once, outside this
//! program, as one more row in a process with the library. Its figures are printed beside those of
//! the library in that process. They are not ranked.

/// An allocator that was measured outside this program.
#[derive(Clone, Copy, Debug)]
pub struct Outside {
    /// Its name.
    pub name: &'static str,
    /// Its repository, with the commit and its date.
    pub source: &'static str,
    /// The date of the measurement, and the machine.
    pub measured: &'static str,
    /// Figures: the name of a metric, its value, and the library's value in the same process. Names
    /// with blanks are metrics of `run churn`, or of `run replace` with the percentage of free
    /// memory.
    pub figures: &'static [(&'static str, f64, f64)],
}

/// LLFree (Wrenger et al., USENIX ATC 2023), with the policy `simple` of its crate. Times are
/// medians of 15 rounds. `churn` is `run churn --mix small --threads 2 --occupancy 95 --operations
/// 8M --seeds 5`, whose latencies include refused requests. `replace 50` is
/// `run replace --free 50`, where 1,024 huge frames are possible, and 1,843 with 90.
pub const LLFREE: Outside = Outside {
    name: "llfree-rs",
    source: "github.com/luhsra/llfree-rs, commit 441c8d13 of 2026-06-08",
    measured: "2026-11-28, 4 GiB, on 2 CPUs of a virtual machine, AMD EPYC",
    figures: &[
        ("pair_o0_1t_ns", 38.8, 5.0),
        ("pair_o0_2t_ns", 38.8, 5.1),
        ("bulk_alloc_1t_ns", 22.1, 3.4),
        ("bulk_free_same_1t_ns", 19.8, 3.2),
        ("bulk_free_random_1t_ns", 20.6, 5.0),
        ("half_alloc_1t_ns", 22.4, 7.0),
        ("half_free_random_1t_ns", 19.9, 16.7),
        ("bulk_large_alloc_1t_ns", 22.0, 3.3),
        ("bulk_large_free_random_1t_ns", 20.3, 18.6),
        ("pair_o9_1t_ns", 33.5, 4.9),
        ("pair_o9_2t_ns", 33.5, 4.9),
        ("bulk_o9_alloc_1t_ns", 39.3, 11.8),
        ("bulk_o9_free_1t_ns", 16.3, 10.7),
        ("cross_cpu_ns", 94.8, 8.0),
        ("tight_pool_ns", 65.0, 12.3),
        ("pressure_alloc_1t_ns", 26.1, 20.9),
        ("pressure_free_1t_ns", 23.6, 17.9),
        ("churn alloc_p99_ns", 57_800.0, 295.0),
        ("churn alloc_p999_ns", 89_100.0, 495.0),
        ("churn alloc_p9999_ns", 120_000.0, 1510.0),
        ("churn free_p99_ns", 155.0, 225.0),
        ("churn free_p999_ns", 235.0, 483.0),
        ("churn free_p9999_ns", 831.0, 2250.0),
        ("churn smaller_refused", 149_332.0, 0.0),
        ("replace 50 huge_frames_free", 1012.0, 1021.0),
        ("replace 90 huge_frames_free", 1840.0, 1841.0),
    ],
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::micro::METRICS;

    #[test]
    fn every_figure_is_of_this_table_or_names_its_command() {
        let commands = ["churn ", "replace 50 ", "replace 90 "];
        for (name, theirs, ours) in LLFREE.figures {
            let names_command = commands.iter().any(|command| name.starts_with(command));
            assert!(METRICS.contains(name) || names_command, "{name}");
            assert!(*theirs >= 0.0 && *ours >= 0.0, "{name}");
        }
    }
}

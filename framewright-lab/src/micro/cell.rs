//! The cells of the table: what is measured together, and under which names.

/// Name of the one metric that is not a time.
pub const METADATA: &str = "metadata_bytes_per_frame";

/// Names of the timed metrics, in the order of the table. All are nanoseconds per operation, of
/// each thread where there are two; a *pair* is an allocation and a free.
pub const METRICS: [&str; 16] = [
    "pair_o0_1t_ns",
    "pair_o0_2t_ns",
    "bulk_alloc_1t_ns",
    "bulk_free_same_1t_ns",
    "bulk_free_random_1t_ns",
    "half_alloc_1t_ns",
    "half_free_random_1t_ns",
    "bulk_alloc_2t_ns",
    "bulk_free_random_2t_ns",
    "pair_o9_1t_ns",
    "pair_o9_2t_ns",
    "bulk_o9_alloc_1t_ns",
    "bulk_o9_free_1t_ns",
    "cross_cpu_ns",
    "pressure_alloc_1t_ns",
    "pressure_free_1t_ns",
];

/// What one go of one row measures.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Cell {
    /// Allocate a block and free it at once, again and again, in a fresh pool.
    Pair { order: u8, threads: usize },
    /// Allocate many frames in a fresh pool, free them in the same order; allocate them again,
    /// free them in random order.
    Bulk,
    /// Allocate and free in random order in a pool of which every other frame, at random, is
    /// taken: a checkerboard.
    Half,
    /// Two threads at once allocate many frames each, then free them in random order.
    BulkTwo,
    /// Allocate many huge blocks in a fresh pool, and free them.
    BulkHuge,
    /// One thread allocates and hands over, another frees; per frame.
    Cross,
    /// Free random frames of a pool that is exhausted, and take them again.
    Pressure,
}

impl Cell {
    /// All of them.
    pub(super) const ALL: [Self; 10] = [
        Self::Pair { order: 0, threads: 1 },
        Self::Pair { order: 0, threads: 2 },
        Self::Bulk,
        Self::Half,
        Self::BulkTwo,
        Self::Pair { order: 9, threads: 1 },
        Self::Pair { order: 9, threads: 2 },
        Self::BulkHuge,
        Self::Cross,
        Self::Pressure,
    ];

    pub(super) fn needs_two_cpus(self) -> bool {
        matches!(self, Self::Pair { threads: 2, .. } | Self::BulkTwo | Self::Cross)
    }

    /// The largest order it asks for.
    pub(super) fn order(self) -> u8 {
        match self {
            Self::Pair { order, .. } => order,
            Self::BulkHuge => 9,
            _ => 0,
        }
    }
}

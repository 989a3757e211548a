//! One allocator with its pools, behind a trait that hides its type.
//!
//! The benchmark iterates over rows of different types; inside a cell, everything is generic over
//! the allocator and dispatched statically.

use super::{
    calls::{CPUS, Pools},
    framewright_row::{Framewright, Ours, Raw, Tracked},
    one::{self, Sample},
    scale::{Cell, Scale},
    two,
};
use framewright_peers::{
    BitmapAllocator, BuddySystem, Floor, FloorTrylock, FrameAllocDepot, FreeListPeer, ListBuddy,
    Peer,
};

/// A row of the table.
pub(super) trait Row {
    fn label(&self) -> &str;
    /// Whether it is ranked.
    fn ranked(&self) -> bool;
    /// Measures one cell; empty if the allocator does not support the cell.
    fn measure(&mut self, cell: Cell, scale: &Scale, seed: u64) -> Vec<Sample>;
    fn size(&self) -> Size;
}

/// The size of an allocator's own data.
pub(super) struct Size {
    pub(super) frames: u64,
    pub(super) metadata_per_frame: f64,
    pub(super) how: &'static str,
    pub(super) cpu_list_bytes: usize,
}

struct RowOf<P: Peer> {
    label: String,
    frames: u64,
    ranked: bool,
    /// Cells that are not measured.
    left_out: &'static [Cell],
    pools: Pools<P>,
}

/// Cells that are not measured for [`FreeListPeer`]: it would move hundreds of gigabytes to free
/// this many frames in random order.
const FREE_LIST_LEFT_OUT: &[Cell] =
    &[Cell::Half, Cell::BulkLarge { threads: 1 }, Cell::BulkLarge { threads: 2 }];

/// The rows of a table.
pub struct Rows(pub(super) Vec<Box<dyn Row>>);

impl Rows {
    /// The usual rows, the library's first.
    #[must_use]
    pub fn standard(scale: &Scale) -> Self {
        let frames = scale.frames;
        let mut rows = Self(Vec::new()).with::<Framewright>(scale);
        if scale.large_frames > 0 {
            rows = rows.large::<Framewright>(scale, &[Cell::TightPool]);
            // Freeing a random half of its frames would take seconds.
            rows = rows.large::<FrameAllocDepot>(scale, &[Cell::TightPool, Cell::Half]);
        }
        rows = rows.beside::<Ours<Raw>>(frames).beside::<Ours<Tracked>>(frames);
        rows = rows.with::<FrameAllocDepot>(scale).with::<BuddySystem>(scale);
        rows.0.push(Box::new(RowOf::<FreeListPeer> {
            left_out: FREE_LIST_LEFT_OUT,
            ..RowOf::new(frames)
        }));
        rows = rows.with::<ListBuddy>(scale);
        if frames <= BitmapAllocator::MAX_FRAMES {
            rows = rows.with::<BitmapAllocator>(scale);
        }
        rows.with::<FloorTrylock>(scale).with::<Floor>(scale)
    }

    /// A row with the metadata of a large machine, which is not ranked.
    fn large<P: Peer + 'static>(mut self, scale: &Scale, left_out: &'static [Cell]) -> Self {
        let frames = scale.large_frames;
        let label = format!("{}{}", P::NAME, scale.large_suffix());
        self.0.push(Box::new(RowOf::<P> { label, ranked: false, left_out, ..RowOf::new(frames) }));
        self
    }

    /// A further row of the library, which is not ranked: the cost of raw frees.
    fn beside<P: Peer + 'static>(mut self, frames: u64) -> Self {
        self.0.push(Box::new(RowOf::<P> { ranked: false, ..RowOf::new(frames) }));
        self
    }

    /// One more row: any [`Peer`].
    #[must_use]
    pub fn with<P: Peer + 'static>(mut self, scale: &Scale) -> Self {
        self.0.push(Box::new(RowOf::<P>::new(scale.frames)));
        self
    }
}

impl<P: Peer> RowOf<P> {
    fn new(frames: u64) -> Self {
        Self {
            label: P::NAME.to_owned(),
            frames,
            ranked: P::MERGES,
            left_out: &[],
            pools: Pools::new(),
        }
    }
}

impl<P: Peer> Row for RowOf<P> {
    fn label(&self) -> &str {
        &self.label
    }

    fn ranked(&self) -> bool {
        self.ranked
    }

    fn measure(&mut self, cell: Cell, scale: &Scale, seed: u64) -> Vec<Sample> {
        if cell.order() > P::MAX_ORDER || self.left_out.contains(&cell) {
            return Vec::new();
        }
        let random = &mut fastrand::Rng::with_seed(seed);
        let frames = self.frames;
        match cell {
            Cell::Pair { order, threads } => named(
                pair_name(order, threads),
                match (order, threads) {
                    (0, 1) => one::pair::<0, P>(frames, scale),
                    (0, _) => two::pair::<0, P>(frames, scale),
                    (_, 1) => one::pair::<9, P>(frames, scale),
                    (_, _) => two::pair::<9, P>(frames, scale),
                },
            ),
            Cell::Bulk => several(one::bulk::<P>(frames, scale, random)),
            Cell::Half => several(one::half_full(self.pools.half(frames, random), scale, random)),
            Cell::BulkTwo => pair_of(
                ["bulk_alloc_2t_ns", "bulk_free_random_2t_ns"],
                two::bulk::<P>(frames, scale.bulk, scale, seed),
            ),
            Cell::BulkLarge { threads: 1 } => several(one::bulk_large::<P>(frames, scale, random)),
            Cell::BulkLarge { .. } => pair_of(
                ["bulk_large_alloc_2t_ns", "bulk_large_free_random_2t_ns"],
                two::bulk::<P>(frames, scale.bulk_large, scale, seed),
            ),
            Cell::BulkHuge => several(one::bulk_huge::<P>(frames, scale)),
            Cell::Cross => named("cross_cpu_ns", two::cross::<P>(frames, scale)),
            Cell::TightPool => named("tight_pool_ns", two::tight_pool::<P>(scale)),
            Cell::Pressure => {
                one::pressure(self.pools.exhausted(frames, random), scale, random).to_vec()
            }
        }
    }

    fn size(&self) -> Size {
        let peer = P::new(self.frames, CPUS);
        let metadata = peer.metadata();
        Size {
            frames: self.frames,
            metadata_per_frame: metadata.bytes as f64 / self.frames as f64,
            how: metadata.how,
            cpu_list_bytes: peer.cpu_list_bytes(),
        }
    }
}

fn pair_name(order: u8, threads: usize) -> &'static str {
    match (order, threads) {
        (0, 1) => "pair_o0_1t_ns",
        (0, _) => "pair_o0_2t_ns",
        (_, 1) => "pair_o9_1t_ns",
        (_, _) => "pair_o9_2t_ns",
    }
}

fn named(name: &'static str, nanos: Option<f64>) -> Vec<Sample> {
    nanos.map(|nanos| (name, nanos)).into_iter().collect()
}

fn pair_of(names: [&'static str; 2], nanos: Option<[f64; 2]>) -> Vec<Sample> {
    nanos.map(|nanos| names.into_iter().zip(nanos).collect()).unwrap_or_default()
}

fn several<const N: usize>(samples: Option<[Sample; N]>) -> Vec<Sample> {
    samples.map(Vec::from).unwrap_or_default()
}

//! The memory map, as OSTD reports it before the first allocation.

use framewright::{
    Config, FrameRange, MemoryRange, Order, Pfn,
    frame::FRAME_SIZE,
    tuning::{Hardening, Tuning},
};
use ostd::sync::{LocalIrqDisabled, SpinLock};

use crate::{FRAMES, machine::Machine};

/// The maximum number of pieces before the first allocation. Memory maps have about ten.
const PIECES: usize = 64;

/// The first frame at 4 GiB.
const HIGH: Pfn = Pfn::new((4 << 30) / FRAME_SIZE as u64);

struct Pieces {
    /// Ascending.
    ranges: [Option<FrameRange>; PIECES],
    len: usize,
}

static KEPT: SpinLock<Pieces, LocalIrqDisabled> =
    SpinLock::new(Pieces { ranges: [None; PIECES], len: 0 });

/// Remembers a piece until the first allocation.
pub(crate) fn keep(range: FrameRange) {
    let mut kept = KEPT.lock();
    let len = kept.len;
    assert!(len < PIECES, "the memory map has more than {PIECES} pieces");
    let at = kept.ranges[..len]
        .partition_point(|other| other.is_some_and(|other| other.start() < range.start()));
    kept.ranges[at..=len].rotate_right(1);
    kept.ranges[at] = Some(range);
    kept.len += 1;
}

impl Pieces {
    fn all(&self) -> impl Iterator<Item = FrameRange> + Clone + '_ {
        self.ranges.iter().flatten().copied()
    }

    /// The start of the largest piece on one side of 4 GiB.
    fn largest(&self, is_high: bool) -> Option<Pfn> {
        let side = self.all().filter(|piece| (piece.start() >= HIGH) == is_high);
        side.max_by_key(|piece| piece.frames()).map(|piece| piece.start())
    }

    /// The memory map: the pieces, and the memory between them. Gaps that share a pageblock with a piece are declared
    /// as in use, so that no pageblock has a hole: frees in a pageblock with holes are slower.
    fn map(&self, add: &mut dyn FnMut(MemoryRange)) {
        let mut end = Pfn::new(0);
        for piece in self.all() {
            let start = piece.start();
            let is_high = start >= HIGH;
            let rest = round_up(end).min(start);
            // `early..start` may belong to OSTD's early allocator: it takes the start of the largest
            // range below 4 GiB and of the largest above, so what is left of these begins later.
            let early = match self.largest(is_high) == Some(start) {
                true if is_high => HIGH,
                true => rest,
                false => start,
            };
            let early = early.min(start.align_down(Order::PAGEBLOCK)).max(rest);
            range(end, rest).into_iter().for_each(|range| add(range.in_use()));
            range(rest, early).into_iter().for_each(|range| add(range.in_pieces()));
            range(early, start).into_iter().for_each(|range| add(range.in_use()));
            add(piece.into());
            end = piece.end();
        }
        range(end, round_up(end)).into_iter().for_each(|range| add(range.in_use()));
    }
}

/// The frames from `start` to `end`, if there are any.
fn range(start: Pfn, end: Pfn) -> Option<MemoryRange> {
    FrameRange::new(start, end).filter(|range| range.frames() > 0).map(MemoryRange::from)
}

fn round_up(pfn: Pfn) -> Pfn {
    Pfn::new(pfn.get().next_multiple_of(Order::PAGEBLOCK.frames()))
}

/// Initialises the allocator.
///
/// OSTD's early allocator has taken its frames from the start of the largest usable range below 4 GiB, and of the
/// largest one above. So the memory below the largest pieces is declared as in use from the start, and OSTD frees parts
/// of it later. The map names the other gaps as memory that is added in pieces.
pub(crate) fn start() {
    let kept = KEPT.lock();
    let Some(any) = kept.all().next() else {
        panic!("OSTD allocates before it has added memory");
    };
    // For each piece, the piece and up to three ranges before it; one range at the end.
    let mut map = [MemoryRange::from(any); 4 * PIECES + 1];
    let mut len = 0;
    kept.map(&mut |range| {
        map[len] = range;
        len += 1;
    });
    // OSTD's own record of every frame refuses to free a frame twice.
    let mut tuning = Tuning::default();
    tuning.hardening = Hardening::Off;
    let config = Config::new(&map[..len], ostd::cpu::num_cpus() as u16).with_tuning(tuning);
    #[cfg(feature = "reclaim")]
    let config = config.with_side_tables(framewright::SideTables::default().with_lru());
    if let Err(error) = FRAMES.init_in_map(Machine, &config) {
        panic!("Framewright cannot manage the memory: {error}");
    }
    let Ok(memory) = FRAMES.memory() else { return };
    for range in &map[..len] {
        // Fails for ranges that are not in use.
        if let Ok(extent) = memory.take_in_use(range.frames)
            && let Ok(frames) = memory.split_extent(extent)
        {
            // OSTD frees them by frame number.
            let _ = frames.into_raw();
        }
    }
}

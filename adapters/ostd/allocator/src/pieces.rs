//! The memory map, as OSTD tells it before the first allocation.

use framewright::{
    Config, FrameRange, MemoryRange, Pfn,
    tuning::{Hardening, Tuning},
};
use ostd::sync::{LocalIrqDisabled, SpinLock};

use crate::{FRAMES, machine::Machine};

/// The maximum of pieces before the first allocation. Memory maps have some ten.
const PIECES: usize = 64;

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

/// Initialises the allocator with the pieces. Between them the map names memory that comes in pieces.
pub(crate) fn start() {
    let kept = KEPT.lock();
    let Some(any) = kept.ranges[0] else { panic!("OSTD allocates before it has added memory") };
    let mut map = [MemoryRange::from(any); 2 * PIECES];
    let mut len = 0;
    let mut end = Pfn::new(0);
    for &piece in kept.ranges.iter().flatten() {
        if let Some(gap) = FrameRange::new(end, piece.start()).filter(|gap| gap.frames() > 0) {
            map[len] = MemoryRange::from(gap).in_pieces();
            len += 1;
        }
        map[len] = piece.into();
        len += 1;
        end = piece.end();
    }
    // OSTD's own record of every frame refuses to free a frame twice.
    let mut tuning = Tuning::default();
    tuning.hardening = Hardening::Off;
    let config = Config::new(&map[..len], ostd::cpu::num_cpus() as u16).with_tuning(tuning);
    if let Err(error) = FRAMES.init_in_map(Machine, &config) {
        panic!("Framewright cannot manage the memory: {error}");
    }
}

//! A stress driver that removes and adds the memory of the workers.
//!
//! The driver fills removed memory and extents with a pattern, and verifies them before it returns
//! them. So it detects a worker that still uses such a frame.

use framewright::{
    Contiguous, CpuId, CpuToken, Extent, FrameRange, HotplugError, Memory, MigrateType, Order, Pfn,
    RangeError,
    frame::{FRAME_SIZE, PAGEBLOCK_FRAMES},
};
use framewright_host::HostMachine;
use std::{
    ops::AddAssign,
    sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    thread,
    time::Duration,
};

const PAGEBLOCK: u64 = PAGEBLOCK_FRAMES as u64;
const WORDS: usize = FRAME_SIZE / 8;
/// The maximum number of pageblocks that are removed at the same time.
const REMOVED_MAX: usize = 12;
/// The maximum number of extents at the same time.
const EXTENTS_MAX: usize = 8;

/// The numbers of operations, to check that the test was effective.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct OperationCounts {
    pub(crate) removed: u64,
    pub(crate) busy: u64,
    pub(crate) ranges: u64,
    pub(crate) runs: u64,
    pub(crate) reported: u64,
}

impl OperationCounts {
    /// Whether memory was removed, and contiguous runs were allocated.
    pub(crate) fn is_enough(&self) -> bool {
        self.removed > 0 && self.runs > 0
    }
}

impl AddAssign for OperationCounts {
    fn add_assign(&mut self, more: Self) {
        self.removed += more.removed;
        self.busy += more.busy;
        self.ranges += more.ranges;
        self.runs += more.runs;
        self.reported += more.reported;
    }
}

pub(crate) struct StressDriver<'a, 'm> {
    memory: &'a Memory<'m, HostMachine>,
    /// Makes blocks of removed frames, so that the driver can access their contents.
    token: CpuToken<'a, 'm, HostMachine>,
    random: fastrand::Rng,
    removed: Vec<FrameRange>,
    extents: Vec<Extent<'m>>,
    counts: OperationCounts,
}

impl<'a, 'm> StressDriver<'a, 'm> {
    pub(crate) fn new(memory: &'a Memory<'m, HostMachine>, cpu: CpuId, seed: u64) -> Self {
        Self {
            memory,
            token: memory.cpu(cpu).unwrap(),
            random: fastrand::Rng::with_seed(!seed),
            removed: Vec::new(),
            extents: Vec::new(),
            counts: OperationCounts::default(),
        }
    }

    /// Removes and adds memory until `stop`. Then adds and frees all of it.
    pub(crate) fn run(mut self, stop: &AtomicBool) -> OperationCounts {
        while !stop.load(Relaxed) {
            match self.random.u32(0..16) {
                0..4 => self.remove(),
                4..6 => self.add(),
                6..9 => self.take_range(),
                9..11 => self.take_run(),
                11..13 => self.give_extent(),
                13 => self.memory.drain_all(),
                14 => self.report_free(),
                _ => thread::sleep(Duration::from_micros(self.random.u64(0..50))),
            }
        }
        while !self.removed.is_empty() {
            self.add();
        }
        while !self.extents.is_empty() {
            self.give_extent();
        }
        self.counts
    }

    // ---- memory hotplug -------------------------------------------------------------------------

    fn remove(&mut self) {
        if self.removed.len() >= REMOVED_MAX {
            return self.add();
        }
        let range = self.some_pageblock();
        let mut in_the_way = 0;
        let result = self.memory.remove_memory(range, &mut |frames| {
            assert!(range.contains(frames.start()) && frames.end() <= range.end());
            in_the_way += frames.frames();
        });
        match result {
            Ok(()) => {
                assert_eq!(in_the_way, 0);
                self.fill(range);
                self.removed.push(range);
                self.counts.removed += 1;
            }
            Err(HotplugError::Busy { frames }) => {
                assert_eq!(frames, in_the_way);
                self.counts.busy += 1;
            }
            Err(HotplugError::NotInMap | HotplugError::Absent { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }

    fn add(&mut self) {
        if self.removed.is_empty() {
            return;
        }
        let range = self.removed.swap_remove(self.random.usize(..self.removed.len()));
        self.verify(range);
        self.memory.add_memory(range).unwrap();
    }

    fn some_pageblock(&mut self) -> FrameRange {
        let frames = self.memory.platform().frames();
        let pageblock = self.random.u64(0..frames.frames() / PAGEBLOCK);
        let start = frames.start().offset(pageblock * PAGEBLOCK);
        FrameRange::new(start, start.offset(PAGEBLOCK)).unwrap()
    }

    fn report_free(&mut self) {
        let memory = self.memory;
        self.counts.reported += memory.report_free(Order::PAGEBLOCK, &mut |_| ()).unwrap();
    }

    // ---- extents --------------------------------------------------------------------------------

    fn take_range(&mut self) {
        let frames = self.memory.platform().frames();
        let start = frames.start().offset(self.random.u64(0..frames.frames() - 1200));
        let range = FrameRange::new(start, start.offset(self.random.u64(1..1200))).unwrap();
        match self.memory.alloc_range(range, MigrateType::Movable, &mut |_| ()) {
            Ok(extent) => {
                assert_eq!(extent.range(), range);
                self.counts.ranges += 1;
                self.hold(extent);
            }
            // Parts of the range may be removed, or may belong to another zone.
            Err(RangeError::Busy { .. } | RangeError::NotOurs) => {}
            Err(error) => panic!("{error}"),
        }
    }

    fn take_run(&mut self) {
        let wanted = Contiguous::new(self.random.u64(1..1500), MigrateType::Unmovable);
        match self.memory.alloc_contiguous(&wanted) {
            Ok(extent) => {
                self.counts.runs += 1;
                self.hold(extent);
            }
            Err(RangeError::NotFound) => {}
            Err(error) => panic!("{error}"),
        }
    }

    fn hold(&mut self, extent: Extent<'m>) {
        self.fill(extent.range());
        self.extents.push(extent);
        if self.extents.len() > EXTENTS_MAX {
            self.give_extent();
        }
    }

    /// Frees an extent, sometimes in two parts.
    fn give_extent(&mut self) {
        if self.extents.is_empty() {
            return;
        }
        let extent = self.extents.swap_remove(self.random.usize(..self.extents.len()));
        let range = extent.range();
        self.verify(range);
        match extent.split_at(range.start().offset(self.random.u64(0..range.frames() + 1))) {
            Ok((low, high)) => {
                self.memory.free_extent(high).unwrap();
                self.memory.free_extent(low).unwrap();
            }
            Err(extent) => self.memory.free_extent(extent).unwrap(),
        }
    }

    // ---- frames in exclusive use ----------------------------------------------------------------

    /// Writes a word into every frame.
    fn fill(&mut self, range: FrameRange) {
        self.each_frame(range, |pfn, word| word.store(pattern(pfn), Relaxed));
    }

    fn verify(&mut self, range: FrameRange) {
        self.each_frame(range, |pfn, word| {
            let found = word.load(Relaxed);
            assert_eq!(
                found,
                pattern(pfn),
                "frame {pfn:#x} of {range:?} was used by another thread"
            );
        });
    }

    /// Calls `f` with one word of every frame of a range.
    fn each_frame(&mut self, range: FrameRange, f: impl Fn(u64, &AtomicU64)) {
        let machine = self.memory.platform();
        for pfn in range.start().get()..range.end().get() {
            // SAFETY: the frame was removed, or is part of an extent, so no other code uses it.
            let frame = unsafe { self.token.adopt_unchecked(Pfn::new(pfn), Order::ZERO) };
            f(pfn, &machine.words(&frame)[pfn as usize % WORDS]);
            let _ = frame.into_raw();
        }
    }
}

/// A value that no worker writes.
fn pattern(pfn: u64) -> u64 {
    1 << 63 | pfn
}

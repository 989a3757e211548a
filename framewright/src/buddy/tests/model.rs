//! A naive model of every frame, with which a buddy is compared.

use super::*;

/// The state of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Frame {
    Hole,
    Free,
    Used,
}

pub(super) struct Model {
    pub(super) buddy: Buddy<'static>,
    /// Place of the first pageblock in its gigablock.
    skew: u32,
    pub(super) frames: Vec<Frame>,
    /// Blocks that were taken: first frame and order.
    pub(super) held: Vec<(u32, u8)>,
    /// Ranges that were taken: first frame and end.
    pub(super) ranges: Vec<(u32, u32)>,
}

impl Model {
    pub(super) fn new(skew: u32, pageblocks: u32, ranges: &[[u32; 2]]) -> Self {
        let mut frames = std::vec![Frame::Hole; (pageblocks * FRAMES) as usize];
        for range in ranges {
            frames[range[0] as usize..range[1] as usize].fill(Frame::Free);
        }
        let blocks = (0..pageblocks).map(|_| Pageblock::empty()).collect();
        let types = (0..pageblocks).map(|_| AtomicU8::new(MOVABLE as u8)).collect();
        let base = Pfn::new(Order::MAX.frames() + u64::from(skew * FRAMES));
        let buddy = at(base, blocks, types, ranges.to_vec());
        Self { buddy, skew, frames, held: Vec::new(), ranges: Vec::new() }
    }

    pub(super) fn pageblocks(&self) -> u32 {
        self.frames.len() as u32 / FRAMES
    }

    pub(super) fn slice(&mut self, frame: u32, frames: u32) -> &mut [Frame] {
        &mut self.frames[frame as usize..(frame + frames) as usize]
    }

    /// Marks frames, which must all be free, as used.
    pub(super) fn use_frames(&mut self, frame: u32, frames: u32) {
        let slice = self.slice(frame, frames);
        assert!(slice.iter().all(|&frame| frame == Frame::Free), "allocated twice: {frame}");
        slice.fill(Frame::Used);
    }

    /// Records a block that was taken.
    pub(super) fn hold(&mut self, frame: u32, order: u8) {
        let physical = u64::from(self.skew * FRAMES) + u64::from(frame);
        assert_eq!(physical % (1 << order), 0, "misaligned: {frame} of order {order}");
        self.use_frames(frame, 1 << order);
        self.held.push((frame, order));
    }

    /// Gives back a block.
    pub(super) fn give(&mut self, frame: u32, order: u8) {
        self.slice(frame, 1 << order).fill(Frame::Free);
        assert_eq!(give_unchecked(&mut self.buddy, frame, order).count, 0);
    }

    /// Takes a range if it is free. The buddy must agree whether it is.
    pub(super) fn take_range(&mut self, start: u32, end: u32, to: MigrateType) {
        let free = self.slice(start, end - start).iter().all(|&frame| frame == Frame::Free);
        assert_eq!(self.buddy.take_range(start, end, to), free, "{start}..{end}");
        if free {
            self.use_frames(start, end - start);
            self.ranges.push((start, end));
        }
    }

    /// Gives back a part of a range.
    pub(super) fn give_range(&mut self, start: u32, end: u32) {
        self.slice(start, end - start).fill(Frame::Free);
        assert_eq!(self.buddy.give_range(start, end), Refusals::default(), "{start}..{end}");
    }

    /// Adds pageblock `index` if it is absent, otherwise removes it if it is isolated and free.
    pub(super) fn plug(&mut self, index: u32) {
        let first = index * FRAMES;
        if self.buddy.is_absent(index) {
            self.buddy.add_frames(index * FRAMES, (index + 1) * FRAMES);
            self.slice(first, FRAMES).fill(Frame::Free);
            return;
        }
        let isolated = self.buddy.type_of(index) == MigrateType::Isolate;
        let free = self.slice(first, FRAMES).iter().all(|&frame| frame == Frame::Free);
        assert_eq!(self.buddy.remove_pageblock(index), isolated && free, "{index}");
        if isolated && free {
            self.slice(first, FRAMES).fill(Frame::Hole);
        }
    }

    /// The start of the run that a search must find.
    pub(super) fn find_run(&self, want: RunWanted, from: u32) -> Option<u32> {
        let base = u64::from(self.skew * FRAMES);
        let mut run = 0;
        for frame in from..want.to {
            let usable = self.buddy.type_of(frame / FRAMES).mixes();
            run = if usable && self.frames[frame as usize] == Frame::Free { run + 1 } else { 0 };
            if run >= want.frames {
                let start = frame + 1 - want.frames;
                if (base + u64::from(start)).is_multiple_of(want.align) {
                    return Some(start);
                }
            }
        }
        None
    }

    /// Counts free blocks by order. Pageblocks that are not wholly free are halved until a part is
    /// wholly free; wholly free pageblocks are paired into larger blocks.
    fn blocks(&self) -> [u64; Order::COUNT] {
        let mut counts = [0; Order::COUNT];
        let mut whole = Vec::new();
        for (index, frames) in self.frames.chunks(FRAMES as usize).enumerate() {
            let index = index as u32;
            let all_free = frames.iter().all(|&frame| frame == Frame::Free);
            if all_free && self.buddy.type_of(index).mixes() {
                whole.push(index + self.skew);
            } else {
                count_blocks(frames, &mut counts);
            }
        }
        for order in Order::all().skip(9) {
            let has_buddy = |place: u32| whole.binary_search(&(place ^ 1)).is_ok();
            let merges = |&place: &u32| order < Order::MAX && has_buddy(place);
            let (paired, alone): (Vec<u32>, Vec<u32>) = whole.iter().partition(|p| merges(p));
            counts[usize::from(order.get())] += alone.len() as u64;
            whole = paired.iter().filter(|&place| place % 2 == 0).map(|place| place / 2).collect();
        }
        counts
    }

    /// Compares buddy and model.
    pub(super) fn check(&self) {
        check(&self.buddy);
        let expected = self.blocks();
        let counts = self.buddy.counts();
        let counted: Vec<u64> = Order::all().map(|order| counts.free_of_order(order)).collect();
        assert_eq!(counted, expected);
        let listed = |index: u32| self.buddy.type_of(index).listed().is_some();
        let free = |index: u32| {
            let frames = &self.frames[(index * FRAMES) as usize..][..FRAMES as usize];
            frames.iter().filter(|&&frame| frame == Frame::Free).count() as u64
        };
        let indices = 0..self.pageblocks();
        let sum: u64 = indices.filter(|&index| listed(index)).map(free).sum();
        assert_eq!(self.buddy.free_frames(), sum);
        assert_eq!(self.buddy.scattered_percent(), scattered_percent(counts));
    }
}

/// The share of free frames in blocks smaller than a pageblock, from the unusable free space index.
fn scattered_percent(mut counts: BlockCounts) -> u64 {
    for excluded in [MigrateType::HighAtomic, MigrateType::Isolate] {
        counts.free[excluded as usize] = [0; Order::COUNT];
    }
    counts.unusable_index(Order::PAGEBLOCK) / 10
}

fn give_unchecked(buddy: &mut Buddy<'_>, frame: u32, order: u8) -> Refusals {
    buddy.give_bundles(&[Bundle::of(frame, super::order(order))], ())
}

/// Counts the frames as one block if all are free. Otherwise counts the two halves separately.
fn count_blocks(frames: &[Frame], counts: &mut [u64; Order::COUNT]) {
    let free = frames.iter().filter(|&&frame| frame == Frame::Free).count();
    if free == frames.len() {
        counts[free.ilog2() as usize] += 1;
    } else if free > 0 {
        let (low, high) = frames.split_at(frames.len() / 2);
        count_blocks(low, counts);
        count_blocks(high, counts);
    }
}

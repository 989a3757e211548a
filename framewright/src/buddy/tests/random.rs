//! Random sequences of all operations of a buddy, compared with a naive model.

use super::{
    model::{Frame, Model},
    *,
};

/// A random-number generator that gives the same sequences on all machines.
pub(super) struct Random(u64);

impl Random {
    pub(super) fn below(&mut self, bound: u32) -> u32 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        ((self.0 >> 33) % u64::from(bound)) as u32
    }

    /// A type that may be requested, movable more often than others.
    fn migratetype(&mut self) -> MigrateType {
        match self.below(4) {
            0 => MigrateType::Unmovable,
            1 => MigrateType::Reclaimable,
            _ => MOVABLE,
        }
    }
}

/// The methods of taking a batch.
const HOWS: &[BulkTake] = &[
    BulkTake::Bulk,
    #[cfg(feature = "compare")]
    BulkTake::OneByOne,
    #[cfg(feature = "compare")]
    BulkTake::SmallestFirst,
];

fn take_some(model: &mut Model, random: &mut Random) {
    let order = random.below(19) as u8;
    let blocks = if random.below(2) == 0 { 1 } else { 1 + random.below(40) };
    let mut wanted = want(order, random.migratetype(), blocks);
    wanted.how = HOWS[random.below(HOWS.len() as u32) as usize];
    wanted.reserve = [Reserve::None, Reserve::First, Reserve::Last][random.below(3) as usize];
    let classes = model.buddy.classes();
    let at = super::order(order);
    let reserved = wanted.reserve != Reserve::None && classes.offer_reserved(at);
    let mut out = Bundles::new();
    model.buddy.take_bundles(wanted, &mut out, ());
    let frames: Vec<u32> = out.as_slice().iter().flat_map(|bundle| bundle.frames()).collect();
    assert_eq!(!frames.is_empty(), classes.offer(at) || reserved, "order {order}");
    for frame in frames {
        model.hold(frame, order);
    }
}

fn give_one(model: &mut Model, random: &mut Random) {
    if !model.held.is_empty() {
        let (frame, order) = model.held.swap_remove(random.below(model.held.len() as u32) as usize);
        model.give(frame, order);
    }
}

fn split_one(model: &mut Model, random: &mut Random) {
    if model.held.is_empty() {
        return;
    }
    let i = random.below(model.held.len() as u32) as usize;
    let (frame, order) = model.held[i];
    if let Some(half) = order.checked_sub(1) {
        model.buddy.split_head(frame, super::order(half));
        model.held[i] = (frame, half);
        model.held.push((frame + (1 << half), half));
    }
}

fn give_wrongly(model: &mut Model, random: &mut Random) {
    let order = random.below(19) as u8;
    let frame = random.below(model.frames.len() as u32) & !((1u32 << order) - 1);
    let in_zone = frame as usize + (1 << order) <= model.frames.len();
    // A range consists of single frames and pageblocks, which may be freed one by one.
    let in_range = model.ranges.iter().any(|range| (range.0..range.1).contains(&frame));
    if in_zone && !in_range && !model.held.contains(&(frame, order)) {
        let refusals = model.buddy.give_bundles(&[Bundle::of(frame, super::order(order))], ());
        assert_eq!(refusals.count, 1, "{frame} of order {order}");
    }
}

fn take_one_place(model: &mut Model, random: &mut Random) {
    let order = random.below(19);
    let pageblock = random.below(model.pageblocks());
    let frame = match super::order(order as u8) {
        large if large > Order::PAGEBLOCK => {
            match model.buddy.align_down(pageblock * FRAMES, large) {
                Some(frame) => frame,
                None => return,
            }
        }
        _ => (pageblock * FRAMES + random.below(FRAMES)) & !((1 << order) - 1),
    };
    let of = random.migratetype();
    if model.buddy.take_specific(frame, super::order(order as u8), of) {
        model.hold(frame, order as u8);
    } else if order <= 9 {
        let frames = model.slice(frame, 1 << order);
        assert!(frames.iter().any(|&frame| frame != Frame::Free), "{frame} of order {order}");
    }
}

fn isolate_one(model: &mut Model, random: &mut Random) {
    let index = random.below(model.pageblocks());
    let absent = model.buddy.is_absent(index);
    if model.buddy.type_of(index) == MigrateType::Isolate {
        model.buddy.undo_isolate(index);
    } else {
        let _ = model.buddy.isolate(index);
    }
    assert_eq!(model.buddy.is_absent(index), absent, "isolation has added or removed a pageblock");
}

/// A random range in the zone. Two out of three consist of whole pageblocks.
fn some_range(model: &Model, random: &mut Random) -> (u32, u32) {
    let all = model.frames.len() as u32;
    let start = random.below(all);
    let longest = [70, 3 * FRAMES, 80 * FRAMES][random.below(3) as usize].min(all - start);
    let end = start + 1 + random.below(longest);
    match random.below(3) {
        0 => (start, end),
        _ => (start / FRAMES * FRAMES, end.next_multiple_of(FRAMES)),
    }
}

fn take_a_range(model: &mut Model, random: &mut Random) {
    let (start, end) = some_range(model, random);
    model.take_range(start, end, random.migratetype());
}

fn give_a_range(model: &mut Model, random: &mut Random) {
    if model.ranges.is_empty() {
        return;
    }
    let i = random.below(model.ranges.len() as u32) as usize;
    let (start, end) = model.ranges.swap_remove(i);
    let cut = start + random.below(end - start + 1);
    let (given, rest) = match random.below(2) {
        0 => ((start, cut), (cut, end)),
        _ => ((cut, end), (start, cut)),
    };
    model.give_range(given.0, given.1);
    if rest.0 < rest.1 {
        model.ranges.push(rest);
    }
}

fn search(model: &mut Model, random: &mut Random) {
    let (start, end) = some_range(model, random);
    let frames = end - start;
    let (from, to) = (random.below(start + 1), model.frames.len() as u32 - random.below(700));
    let align = 1 << random.below(if frames < FRAMES { 8 } else { 13 });
    let want = RunWanted { frames, align, to };
    let budget = 1 + random.below(40);
    let mut found = model.buddy.find_free_run(want, from, budget);
    while let FreeRun::Continue(next) = found {
        found = model.buddy.find_free_run(want, next, budget);
    }
    let expected = model.find_run(want, from).map_or(FreeRun::None, FreeRun::Found);
    assert_eq!(found, expected, "{want:?} from {from}");
}

fn reserve_some(model: &mut Model, random: &mut Random) {
    if random.below(3) == 0 {
        model.buddy.unreserve_highatomic(random.migratetype());
    } else if !model.held.is_empty() {
        let (frame, order) = model.held[random.below(model.held.len() as u32) as usize];
        let limit = u64::from(model.pageblocks() * FRAMES) / 8;
        let before = model.buddy.highatomic_reserved();
        let more = model.buddy.reserve_highatomic(frame, super::order(order), limit);
        assert_eq!(more, model.buddy.highatomic_reserved() > before);
    }
}

/// Takes all unreported free blocks of an order as free page reporting does, and checks that each
/// is taken once.
fn report(model: &mut Model, random: &mut Random) {
    let order = super::order(9 + random.below(5) as u8);
    let free = model.buddy.free_frames();
    for gigablock in 0..model.pageblocks().div_ceil(512) + 1 {
        let mut last = None;
        while let Some(frame) = model.buddy.take_unreported(gigablock, order) {
            assert!(Some(frame) > last, "{frame} was reported before");
            last = Some(frame);
            let frames = model.slice(frame, order.frames() as u32);
            assert!(frames.iter().all(|&frame| frame == Frame::Free));
            model.buddy.give_reported(frame, order);
        }
    }
    assert_eq!(model.buddy.free_frames(), free);
}

fn run(seed: u64, skew: u32, pageblocks: u32, ranges: &[[u32; 2]], steps: u32) {
    let mut random = Random(seed);
    let mut model = Model::new(skew, pageblocks, ranges);
    model.check();
    for step in 0..steps {
        match random.below(26) {
            0..5 => take_some(&mut model, &mut random),
            5..11 => give_one(&mut model, &mut random),
            11 => split_one(&mut model, &mut random),
            12 => give_wrongly(&mut model, &mut random),
            13 => take_one_place(&mut model, &mut random),
            14 => take_a_range(&mut model, &mut random),
            15..17 => give_a_range(&mut model, &mut random),
            17..19 => reserve_some(&mut model, &mut random),
            19 => report(&mut model, &mut random),
            20..23 => model.plug(random.below(pageblocks)),
            23 => search(&mut model, &mut random),
            _ => isolate_one(&mut model, &mut random),
        }
        if step % 8 == 0 || cfg!(miri) {
            model.check();
        }
    }
    for index in 0..pageblocks {
        model.buddy.undo_isolate(index);
    }
    while let Some((frame, order)) = model.held.pop() {
        model.give(frame, order);
    }
    while let Some((start, end)) = model.ranges.pop() {
        model.give_range(start, end);
    }
    while model.buddy.unreserve_highatomic(MOVABLE) {}
    model.check();
    assert_eq!((model.buddy.highatomic_reserved(), model.buddy.highatomic_free()), (0, 0));
}

const STEPS: u32 = if cfg!(miri) { 20 } else { 1500 };

#[test]
fn a_small_zone_agrees_with_the_model() {
    for seed in 0..if cfg!(miri) { 1 } else { 4 } {
        run(seed, 3, 9, &[[0, 9 * 512]], STEPS);
        run(seed, 511, 7, &[[100, 1300], [1536, 7 * 512 - 1]], STEPS);
    }
}

#[test]
fn a_zone_of_several_gigablocks_agrees_with_the_model() {
    let whole = if cfg!(miri) { 70 } else { 512 + 40 + 33 };
    run(11, 472, whole, &[[0, whole * 512]], STEPS);
    run(12, 0, whole, &[[0, 64 * 512], [65 * 512, whole * 512 - 77]], STEPS);
}

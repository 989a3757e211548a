//! Whether compaction should start in a zone. There are three reasons against it: a free block
//! exists already, too few frames are free as targets, or the request failed because memory is short
//! and not because memory is fragmented. Calls that form as many blocks as possible check the number
//! of free frames again before each pageblock.

use super::{Goal, Outcome, compactor::ZoneContext};
use crate::{
    platform::Platform,
    tuning::Tuning,
    types::{Order, Watermark, ZoneKind},
    zone::ZoneAccess,
};

/// Orders above this are costly.
const COSTLY_ORDER: u8 = 3;

/// `None` if compaction should start, else the outcome without it.
pub(super) fn refuse<P: Platform>(
    ctx: ZoneContext<'_, '_, P>,
    goal: &Goal,
    highest: ZoneKind,
    tuning: &Tuning,
) -> Option<Outcome> {
    // Frames in the depot count neither as free frames nor as free blocks.
    ctx.on_cpu.empty_depot();
    let refused = check(ctx, goal, highest, tuning);
    ctx.trace_check(goal, false, refused);
    refused
}

/// Whether too few frames are free to continue a run that forms as many blocks as possible. While a
/// pageblock is emptied, its free frames and the targets of its pages are not available to others,
/// and no request waits for the result, so the reserve must not be used.
pub(super) fn lacks_free_frames<P: Platform>(
    ctx: ZoneContext<'_, '_, P>,
    goal: &Goal,
    tuning: &Tuning,
) -> bool {
    let zone = ctx.on_cpu.zone;
    let min = ZoneAccess::above(Watermark::Min, zone.kind());
    goal.order.is_none() && !zone.could_compact(Order::PAGEBLOCK, min, 0, &tuning.compact)
}

fn check<P: Platform>(
    ctx: ZoneContext<'_, '_, P>,
    goal: &Goal,
    highest: ZoneKind,
    tuning: &Tuning,
) -> Option<Outcome> {
    let order = goal.order?;
    let costly = order.get() > COSTLY_ORDER;
    let zone = ctx.on_cpu.zone;
    let min = ZoneAccess::above(Watermark::Min, highest);
    if zone.may_take(ctx.on_cpu.platform, order, min) && ctx.has_formed(goal) {
        return Some(Outcome::Success);
    }
    let mark = if costly { Watermark::Low } else { Watermark::Min };
    if !zone.could_compact(order, ZoneAccess::above(mark, highest), 0, &tuning.compact) {
        return Some(Outcome::Skipped);
    }
    if costly && zone.is_short(ctx.on_cpu.platform, order, &tuning.compact) {
        return Some(Outcome::NotSuitable);
    }
    None
}

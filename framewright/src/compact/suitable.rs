//! Whether to begin: not where a block is there already, nor where too little is free to move pages
//! into, nor where memory is short rather than scattered. Who compacts for nobody in particular asks before
//! each pageblock.

use super::{Goal, Outcome, compactor::ZoneContext};
use crate::{
    platform::Platform,
    tuning::Tuning,
    types::{Order, Watermark, ZoneKind},
    zone::ZoneAccess,
};

/// Orders above this are costly.
const COSTLY_ORDER: u8 = 3;

/// `None`: begin. Else what comes of not beginning.
pub(super) fn refuse<P: Platform>(
    ctx: ZoneContext<'_, '_, P>,
    goal: &Goal,
    highest: ZoneKind,
    tuning: &Tuning,
) -> Option<Outcome> {
    // What lies there is free, and counts neither as that nor as blocks.
    ctx.on_cpu.empty_depot();
    let refused = judge(ctx, goal, highest, tuning);
    ctx.trace_judged(goal, false, refused);
    refused
}

/// Whether too little is free to go on for nobody in particular: while a pageblock is emptied, what is free in
/// it and what its pages move to are not there for others, and nobody needs what forms so much that the reserve
/// were for it.
pub(super) fn lacks_free_frames<P: Platform>(
    ctx: ZoneContext<'_, '_, P>,
    goal: &Goal,
    tuning: &Tuning,
) -> bool {
    let zone = ctx.on_cpu.zone;
    let min = ZoneAccess::above(Watermark::Min, zone.kind());
    goal.order.is_none() && !zone.could_compact(Order::PAGEBLOCK, min, 0, &tuning.compact)
}

fn judge<P: Platform>(
    ctx: ZoneContext<'_, '_, P>,
    goal: &Goal,
    highest: ZoneKind,
    tuning: &Tuning,
) -> Option<Outcome> {
    let order = goal.order?;
    let costly = order.get() > COSTLY_ORDER;
    let zone = ctx.on_cpu.zone;
    let min = ZoneAccess::above(Watermark::Min, highest);
    if zone.may_take(order, min) && ctx.has_formed(goal) {
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

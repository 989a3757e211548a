//! Whether to begin: not where a block is there already, nor where too little is free to move pages
//! into, nor where memory is short rather than scattered. Who compacts for nobody in particular asks before
//! each pageblock.

use super::{Goal, Outcome, compactor::Site};
use crate::{
    frame::Order,
    platform::Platform,
    tuning::Tuning,
    zone::{Watermark, ZoneAccess, ZoneKind},
};

/// Orders above this are costly.
const COSTLY_ORDER: u8 = 3;

/// `None`: begin. Else what comes of not beginning.
pub(super) fn refuse<P: Platform>(
    site: Site<'_, '_, P>,
    goal: &Goal,
    highest: ZoneKind,
    tuning: &Tuning,
) -> Option<Outcome> {
    // What lies there is free, and counts neither as that nor as blocks.
    site.at.empty_depot();
    let refused = judge(site, goal, highest, tuning);
    site.trace_judged(goal, false, refused);
    refused
}

/// Whether too little is free to go on for nobody in particular: while a pageblock is emptied, what is free in
/// it and what its pages move to are not there for others, and nobody needs what forms so much that the reserve
/// were for it.
pub(super) fn lacks_room<P: Platform>(site: Site<'_, '_, P>, goal: &Goal, tuning: &Tuning) -> bool {
    let zone = site.at.zone;
    let min = ZoneAccess::above(Watermark::Min, zone.kind());
    goal.order.is_none() && !zone.could_compact(Order::PAGEBLOCK, min, 0, &tuning.compact)
}

fn judge<P: Platform>(
    site: Site<'_, '_, P>,
    goal: &Goal,
    highest: ZoneKind,
    tuning: &Tuning,
) -> Option<Outcome> {
    let order = goal.order?;
    let costly = order.get() > COSTLY_ORDER;
    let zone = site.at.zone;
    let min = ZoneAccess::above(Watermark::Min, highest);
    if zone.may_take(order, min) && site.has_formed(goal) {
        return Some(Outcome::Success);
    }
    let mark = if costly { Watermark::Low } else { Watermark::Min };
    if !zone.could_compact(order, ZoneAccess::above(mark, highest), 0, &tuning.compact) {
        return Some(Outcome::Skipped);
    }
    if costly && zone.is_short(site.at.platform, order, &tuning.compact) {
        return Some(Outcome::NotSuitable);
    }
    None
}

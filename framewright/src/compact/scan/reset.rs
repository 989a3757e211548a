//! Reset of skip hints and cached positions.

use crate::{
    compact::compactor::ZoneContext,
    platform::Platform,
    sync::Ordering,
    types::{MigrateType, PAGEBLOCK_ORDER},
};

/// If the scanners have met in a run for a request since the last reset, clears the skip hints of all
/// pageblocks with pages to move or with target frames, and places the migrate scanner at the lowest
/// one with pages to move, and the free scanner at the highest one with target frames.
pub(in crate::compact) fn reset_hints<P: Platform>(ctx: ZoneContext<'_, '_, P>) {
    if !ctx.hints.scan.flush_hints.swap(false, Ordering::Relaxed) {
        return;
    }
    let blocks = (ctx.on_cpu.zone.spanned() >> PAGEBLOCK_ORDER) as u32;
    let (mut low, mut high) = (None, None);
    for block in 0..blocks {
        let held = ctx.on_cpu.zone.contents(ctx.on_cpu.platform, block);
        let (is_source, is_target) =
            (held.movable > 0, held.free > 0 && held.of == MigrateType::Movable);
        if is_source || is_target {
            ctx.hints.skip.clear(block);
        }
        if is_source {
            low.get_or_insert(block);
        }
        if is_target {
            high = Some(block);
        }
    }
    ctx.hints.counters.compact_headers_scanned.add(u64::from(blocks));
    let (low, high) = (low.unwrap_or(blocks), high.map_or(0, |block| block + 1));
    if low < high {
        ctx.hints.scan.positions.reset(low << PAGEBLOCK_ORDER, high << PAGEBLOCK_ORDER);
    } else {
        ctx.hints.scan.positions.reset(0, blocks << PAGEBLOCK_ORDER);
    }
}

//! What a recorded caller asked for, in our words.

use framewright::{MigrateType, Order, Request, ZoneKind};

use crate::trace::GfpFlags;

/// The highest kind of zone that a recorded caller could use.
pub(super) fn highest(gfp: GfpFlags) -> ZoneKind {
    if gfp.contains(GfpFlags::DMA) {
        ZoneKind::Dma
    } else if gfp.contains(GfpFlags::DMA32) {
        ZoneKind::Dma32
    } else if gfp.contains(GfpFlags::HIGHMEM | GfpFlags::MOVABLE) {
        ZoneKind::Movable
    } else {
        ZoneKind::Normal
    }
}

/// What the recorded caller asked for, in our words.
///
/// `__GFP_NOFAIL` becomes *retry, may fail*: with one thread there is nobody to wait for.
pub(super) fn request(order: Order, migratetype: u8, gfp: GfpFlags) -> Request {
    let of = MigrateType::from_number(migratetype).filter(|of| of.is_requestable());
    let mut request = Request::new(order, of.unwrap_or(MigrateType::Movable));
    let wants = |flag| gfp.contains(flag);
    let waits = wants(GfpFlags::DIRECT_RECLAIM);
    request = match (wants(GfpFlags::HIGH) || wants(GfpFlags::MEMALLOC), waits) {
        (true, false) => request.atomic(),
        (true, true) => request.urgent(),
        (false, false) => request.no_wait(),
        (false, true) => request,
    };
    if wants(GfpFlags::ZERO) {
        request = request.zeroed();
    }
    if wants(GfpFlags::NORETRY) {
        request = request.no_retry();
    }
    if wants(GfpFlags::RETRY_MAYFAIL) || wants(GfpFlags::NOFAIL) {
        request = request.retry_may_fail();
    }
    request
}

//! Trace events and corruption reports.

mod compact;
mod flush;
mod vmscan;

use core::fmt;

pub use compact::{CompactEvent, DeferStep, Scanner};
pub use flush::FlushReason;
pub use vmscan::VmscanEvent;

use crate::types::{FreeError, MigrateType, Order, PAGEBLOCK_ORDER, Pfn, Request};

/// A tracepoint of the kernel's `kmem`, `vmscan`, `compaction` or `tlb` group. `Display` prints the body as
/// ftrace does, without the `page=` field, which is a hashed address there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Event {
    /// A request was served, or failed.
    PageAlloc {
        /// First frame of the block; `None` if the request failed.
        pfn: Option<Pfn>,
        /// The request.
        request: Request,
    },
    /// A block was freed.
    PageFree {
        /// First frame of the block.
        pfn: Pfn,
        /// Order of the block.
        order: Order,
    },
    /// A block left the zone's lists under the zone lock.
    PageAllocZoneLocked {
        /// First frame of the block.
        pfn: Pfn,
        /// Order of the block.
        order: Order,
        /// Type that the request named.
        migratetype: MigrateType,
        /// Whether the block went to a CPU's lists.
        percpu_refill: bool,
    },
    /// A block went back from a CPU's lists to the zone.
    PagePcpuDrain {
        /// First frame of the block.
        pfn: Pfn,
        /// Order of the block.
        order: Order,
        /// Type of the pageblock.
        migratetype: MigrateType,
    },
    /// A request was served from a pageblock of another type.
    PageAllocExtfrag {
        /// First frame of the block.
        pfn: Pfn,
        /// Requested order.
        alloc_order: Order,
        /// Order of the block found.
        fallback_order: Order,
        /// Requested type.
        alloc_migratetype: MigrateType,
        /// Type of the pageblock.
        fallback_migratetype: MigrateType,
        /// Whether the pageblock changed its type.
        change_ownership: bool,
    },
    /// An event of reclaim.
    Vmscan(VmscanEvent),
    /// A CPU flushed its TLB, or requested other CPUs to.
    TlbFlush {
        /// The reason.
        reason: FlushReason,
        /// Number of pages flushed one by one; `None`: a full flush, or a request to other CPUs.
        pages: Option<u32>,
    },
    /// An event of compaction.
    Compaction(CompactEvent),
}

impl Event {
    /// The kernel's name of the event.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Event::PageAlloc { .. } => "mm_page_alloc",
            Event::PageFree { .. } => "mm_page_free",
            Event::PageAllocZoneLocked { .. } => "mm_page_alloc_zone_locked",
            Event::PagePcpuDrain { .. } => "mm_page_pcpu_drain",
            Event::PageAllocExtfrag { .. } => "mm_page_alloc_extfrag",
            Event::Vmscan(event) => event.name(),
            Event::TlbFlush { .. } => "tlb_flush",
            Event::Compaction(event) => event.name(),
        }
    }
}

impl From<VmscanEvent> for Event {
    fn from(event: VmscanEvent) -> Self {
        Event::Vmscan(event)
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Event::Compaction(event) => event.fmt(f),
            Event::PageAlloc { pfn, request } => write!(
                f,
                "pfn={:#x} order={} migratetype={} gfp_flags={request}",
                pfn.map_or(0, Pfn::get),
                request.order(),
                request.migratetype() as u8,
            ),
            Event::PageFree { pfn, order } => write!(f, "pfn={pfn} order={order}"),
            Event::PageAllocZoneLocked { pfn, order, migratetype, percpu_refill } => write!(
                f,
                "pfn={pfn} order={order} migratetype={} percpu_refill={}",
                migratetype as u8,
                u8::from(percpu_refill),
            ),
            Event::PagePcpuDrain { pfn, order, migratetype } => {
                write!(f, "pfn={pfn} order={order} migratetype={}", migratetype as u8)
            }
            Event::PageAllocExtfrag {
                pfn,
                alloc_order,
                fallback_order,
                alloc_migratetype,
                fallback_migratetype,
                change_ownership,
            } => write!(
                f,
                "pfn={pfn} alloc_order={alloc_order} fallback_order={fallback_order} \
                 pageblock_order={PAGEBLOCK_ORDER} alloc_migratetype={} fallback_migratetype={} \
                 fragmenting={} change_ownership={}",
                alloc_migratetype as u8,
                fallback_migratetype as u8,
                u8::from(fallback_order.get() < PAGEBLOCK_ORDER),
                u8::from(change_ownership),
            ),
            Event::Vmscan(event) => event.fmt(f),
            Event::TlbFlush { reason, pages } => write!(
                f,
                "pages:{} reason:{} ({})",
                pages.map_or(-1, i64::from),
                reason.name(),
                reason as u8
            ),
        }
    }
}

/// A bad free or a damaged frame that hardening found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Corruption {
    /// The first frame concerned.
    pub pfn: Pfn,
    /// The order of the block that was freed or is about to be allocated.
    pub order: Order,
    /// The finding.
    pub what: Finding,
    /// Blocks refused in the same batch, damaged frames of the same block, or leaked frames of the
    /// same flush batch, this one included.
    pub count: u32,
}

/// The kind of a [`Corruption`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Finding {
    /// A free that was refused.
    BadFree(FreeError),
    /// The frame was written to while it was free: through a stale pointer, or beyond the end of a
    /// block. It is allocated nevertheless.
    WrittenWhileFree {
        /// The offset of the first byte of the frame that differs from the pattern, as precise as
        /// [`Platform::verify_poison`](crate::Platform::verify_poison) reports it.
        offset: usize,
    },
    /// A flush batch with this frame was dropped. The frame was not flushed, because the caller may not
    /// wait for other CPUs, or it could not be deferred. It is leaked.
    Unflushed,
}

impl fmt::Display for Corruption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pfn, order, what, count } = self;
        let more = count.saturating_sub(1);
        match what {
            Finding::BadFree(error) => {
                write!(f, "bad free of pfn {pfn} order {order}: {error}")?;
                if more > 0 {
                    write!(f, " (and {more} more in the batch)")?;
                }
            }
            Finding::WrittenWhileFree { offset } => {
                write!(f, "pfn {pfn} was written to at byte {offset:#x} while it was free")?;
                if more > 0 {
                    write!(f, " (and {more} more frames of the block of order {order})")?;
                }
            }
            Finding::Unflushed => {
                write!(f, "pfn {pfn} is leaked: its flush batch was dropped unflushed")?;
                if more > 0 {
                    write!(f, " (and {more} more frames of the batch)")?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn corruption_displays_fault_place_and_count() {
        let report =
            |what, count| Corruption { pfn: Pfn::new(0x40), order: Order::ZERO, what, count };
        let text = report(Finding::BadFree(FreeError::AlreadyFree), 3).to_string();
        assert!(text.starts_with("bad free of pfn 0x40 order 0:"), "{text}");
        assert!(text.ends_with("(and 2 more in the batch)"), "{text}");
        let text = report(Finding::WrittenWhileFree { offset: 24 }, 1).to_string();
        assert_eq!(text, "pfn 0x40 was written to at byte 0x18 while it was free");
    }

    #[test]
    fn bodies_read_like_the_kernels() {
        let order = |value| Order::new(value).unwrap();
        let event = Event::PageAlloc {
            pfn: Some(Pfn::new(0x12e0f3)),
            request: Request::new(Order::ZERO, MigrateType::Movable).zeroed(),
        };
        assert_eq!(
            event.to_string(),
            "pfn=0x12e0f3 order=0 migratetype=1 gfp_flags=GFP_HIGHUSER_MOVABLE|__GFP_ZERO"
        );
        let event = Event::PageAllocExtfrag {
            pfn: Pfn::new(0x2ab),
            alloc_order: order(0),
            fallback_order: order(4),
            alloc_migratetype: MigrateType::Unmovable,
            fallback_migratetype: MigrateType::Movable,
            change_ownership: false,
        };
        assert_eq!(
            event.to_string(),
            "pfn=0x2ab alloc_order=0 fallback_order=4 pageblock_order=9 alloc_migratetype=0 \
             fallback_migratetype=1 fragmenting=1 change_ownership=0"
        );
    }
}

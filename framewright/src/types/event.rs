//! Trace events and corruption reports.

mod compact;
mod flush;
mod vmscan;

use core::fmt;

pub use compact::{CompactEvent, DeferStep, Scanner};
pub use flush::FlushReason;
pub use vmscan::VmscanEvent;

use crate::types::{FreeError, MigrateType, Order, PAGEBLOCK_ORDER, Pfn, Request};

/// A tracepoint of the kernel's `kmem`, `vmscan` or `tlb` group. `Display` prints the body as ftrace does, but
/// for the `page=` field, which there is a hashed address and here is left out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Event {
    /// A request was served, or failed (no frame).
    PageAlloc {
        /// First frame of the block.
        pfn: Option<Pfn>,
        /// What was wanted.
        request: Request,
    },
    /// A block was freed.
    PageFree {
        /// Its first frame.
        pfn: Pfn,
        /// Its order.
        order: Order,
    },
    /// A block left the zone's lists under the zone lock.
    PageAllocZoneLocked {
        /// Its first frame.
        pfn: Pfn,
        /// Its order.
        order: Order,
        /// Whom it was taken for.
        migratetype: MigrateType,
        /// Whether it went to a CPU's lists.
        percpu_refill: bool,
    },
    /// A block went back from a CPU's lists to the zone.
    PagePcpuDrain {
        /// Its first frame.
        pfn: Pfn,
        /// Its order.
        order: Order,
        /// Type of its pageblock.
        migratetype: MigrateType,
    },
    /// A request was served from a pageblock of another type.
    PageAllocExtfrag {
        /// First frame of the block.
        pfn: Pfn,
        /// Order wanted.
        alloc_order: Order,
        /// Order of the block found.
        fallback_order: Order,
        /// Type wanted.
        alloc_migratetype: MigrateType,
        /// Type of the pageblock.
        fallback_migratetype: MigrateType,
        /// Whether the pageblock changed its type.
        change_ownership: bool,
    },
    /// Something of reclaim.
    Vmscan(VmscanEvent),
    /// A CPU flushed what it had cached of page tables, or asked others to.
    TlbFlush {
        /// Why.
        reason: FlushReason,
        /// Pages that were flushed one by one; everything, if it does not say.
        pages: Option<u32>,
    },
    /// Of the `compaction` group.
    Compaction(CompactEvent),
}

impl Event {
    /// The kernel's name for it.
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

/// What hardening found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Corruption {
    /// The first frame concerned.
    pub pfn: Pfn,
    /// The order of the block that was freed or is about to be handed out.
    pub order: Order,
    /// What is wrong.
    pub what: Finding,
    /// Blocks refused in the same batch, or damaged frames of the same block, this one included.
    pub count: u32,
}

/// What is wrong with the memory that a [`Corruption`] names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Finding {
    /// It was freed and must not be. The free went no further.
    BadFree(FreeError),
    /// Somebody wrote to the frame while it was free: through a stale pointer, or beyond the end
    /// of a block. It is handed out all the same.
    WrittenWhileFree {
        /// The first byte of the frame that is not what it should be, to the precision of the
        /// machine.
        offset: usize,
    },
    /// A flush batch that named it was dropped where nobody may wait for other CPUs. The frame is
    /// leaked: some CPU may still reach it.
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
    fn corruption_says_what_where_and_how_much() {
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

//! Requests as Linux prints them: the `gfp_flags` of its trace events.
//!
//! Linux has a list of names, of which those that stand for several flags come first. It prints
//! each name whose flags are all set, and removes these flags. So a request is converted to flags,
//! and the flags to names. Linux's values of the flags differ between releases; those below are
//! used in this module only.

use core::fmt;

use super::{Request, flags::*};
use crate::types::{MigrateType, ZoneKind};

const DMA: u32 = 1;
const HIGHMEM: u32 = 1 << 1;
const DMA32: u32 = 1 << 2;
const MOVABLE: u32 = 1 << 3;
const RECLAIMABLE: u32 = 1 << 4;
const HIGH: u32 = 1 << 5;
const IO: u32 = 1 << 6;
const FS: u32 = 1 << 7;
const ZERO: u32 = 1 << 8;
const DIRECT: u32 = 1 << 9;
const KSWAPD: u32 = 1 << 10;
const MAYFAIL: u32 = 1 << 11;
const NOFAIL: u32 = 1 << 12;
const NORETRY: u32 = 1 << 13;
const MEMALLOC: u32 = 1 << 14;
const NOMEMALLOC: u32 = 1 << 15;
const HARDWALL: u32 = 1 << 16;
const THISNODE: u32 = 1 << 17;

const RECLAIM: u32 = DIRECT | KSWAPD;
const KERNEL: u32 = RECLAIM | IO | FS;

/// Names and flags in the order in which Linux matches them.
const NAMES: [(u32, &str); 25] = [
    (KERNEL | HARDWALL | HIGHMEM | MOVABLE, "GFP_HIGHUSER_MOVABLE"),
    (KERNEL, "GFP_KERNEL"),
    (RECLAIM | IO, "GFP_NOFS"),
    (HIGH | KSWAPD, "GFP_ATOMIC"),
    (RECLAIM, "GFP_NOIO"),
    (KSWAPD, "GFP_NOWAIT"),
    (DMA, "GFP_DMA"),
    (HIGHMEM, "__GFP_HIGHMEM"),
    (DMA32, "GFP_DMA32"),
    (HIGH, "__GFP_HIGH"),
    (IO, "__GFP_IO"),
    (FS, "__GFP_FS"),
    (MAYFAIL, "__GFP_RETRY_MAYFAIL"),
    (NOFAIL, "__GFP_NOFAIL"),
    (NORETRY, "__GFP_NORETRY"),
    (ZERO, "__GFP_ZERO"),
    (NOMEMALLOC, "__GFP_NOMEMALLOC"),
    (MEMALLOC, "__GFP_MEMALLOC"),
    (HARDWALL, "__GFP_HARDWALL"),
    (THISNODE, "__GFP_THISNODE"),
    (RECLAIMABLE, "__GFP_RECLAIMABLE"),
    (MOVABLE, "__GFP_MOVABLE"),
    (RECLAIM, "__GFP_RECLAIM"),
    (DIRECT, "__GFP_DIRECT_RECLAIM"),
    (KSWAPD, "__GFP_KSWAPD_RECLAIM"),
];

impl Request {
    fn gfp(self) -> u32 {
        let on = |is: bool, flags: u32| if is { flags } else { 0 };
        let waits = !self.has(NO_WAIT);
        let of = match self.migratetype() {
            MigrateType::Movable => MOVABLE,
            MigrateType::Reclaimable => RECLAIMABLE,
            _ => 0,
        };
        let zone = match self.highest() {
            ZoneKind::Dma => DMA,
            ZoneKind::Dma32 => DMA32,
            ZoneKind::Normal => 0,
            ZoneKind::Movable => HIGHMEM | HARDWALL,
        };
        // Flags about I/O and file systems are set only for requests that may wait.
        of | zone
            | on(waits, DIRECT)
            | on(!self.has(NO_WAKE), KSWAPD)
            | on(waits && !self.has(NO_IO), IO)
            | on(waits && !self.has(NO_FS), FS)
            | on(self.has(URGENT), HIGH)
            | on(self.has(ZEROED), ZERO)
            | on(self.has(RETRY_MAYFAIL), MAYFAIL)
            | on(self.has(NO_FAIL), NOFAIL)
            | on(self.has(NO_RETRY), NORETRY)
            | on(self.has(IGNORING_WATERMARKS | INSIDE_RELIEF), MEMALLOC)
            | on(self.has(WITHOUT_RESERVES), NOMEMALLOC)
            | on(self.has(THIS_NODE), THISNODE)
    }
}

/// The flags as Linux names them (`gfp_flags` of its trace events).
impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut left = self.gfp();
        if left == 0 {
            return f.write_str("none");
        }
        let mut separator = "";
        for (flags, name) in NAMES {
            if left & flags == flags {
                left &= !flags;
                write!(f, "{separator}{name}")?;
                separator = "|";
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Request({:?}, {}, {self})", self.order(), self.migratetype())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::Order;
    use std::string::ToString;

    #[test]
    fn requests_read_like_the_kernels() {
        let page = |of| Request::new(Order::ZERO, of);
        let (movable, kernel) = (page(MigrateType::Movable), page(MigrateType::Unmovable));
        for (request, text) in [
            (movable, "GFP_HIGHUSER_MOVABLE"),
            (kernel, "GFP_KERNEL"),
            (kernel.zeroed().no_retry(), "GFP_KERNEL|__GFP_NORETRY|__GFP_ZERO"),
            (kernel.no_fs(), "GFP_NOFS"),
            (kernel.no_io(), "GFP_NOIO"),
            (kernel.atomic(), "GFP_ATOMIC"),
            (kernel.no_wait(), "GFP_NOWAIT"),
            (kernel.urgent(), "GFP_KERNEL|__GFP_HIGH"),
            (kernel.zone(ZoneKind::Dma32), "GFP_KERNEL|GFP_DMA32"),
            (page(MigrateType::Reclaimable), "GFP_KERNEL|__GFP_RECLAIMABLE"),
            (kernel.no_wait().no_wake(), "none"),
            (kernel.no_wake(), "__GFP_IO|__GFP_FS|__GFP_DIRECT_RECLAIM"),
            (kernel.inside_relief(), "GFP_KERNEL|__GFP_MEMALLOC"),
            (movable.no_fs(), "GFP_NOFS|__GFP_HIGHMEM|__GFP_HARDWALL|__GFP_MOVABLE"),
        ] {
            assert_eq!(request.to_string(), text);
        }
    }
}

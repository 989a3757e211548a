//! Counters of a node, as `/proc/vmstat` names them.

use core::fmt;

use crate::{platform::Throttle, types::ZoneKind};

macro_rules! stats {
    ($($(#[$doc:meta])* $variant:ident = $name:literal,)*) => {
        /// A counter of a node.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
        #[repr(u8)]
        pub enum NodeStat {
            $($(#[$doc])* $variant,)*
        }

        impl NodeStat {
            /// All counters, in order.
            pub const ALL: &[NodeStat] = &[$(NodeStat::$variant,)*];
            /// The number of counters.
            pub const COUNT: usize = Self::ALL.len();

            /// The name in `/proc/vmstat`. Names of counters that the kernel does not have begin
            /// with `fw_`.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(NodeStat::$variant => $name,)*
                }
            }
        }
    };
}

stats! {
    /// Anonymous pages that were read again after an eviction.
    WorkingsetRefaultAnon = "workingset_refault_anon",
    /// File pages that were read again after an eviction.
    WorkingsetRefaultFile = "workingset_refault_file",
    /// Refaulted anonymous pages that became active at once.
    WorkingsetActivateAnon = "workingset_activate_anon",
    /// Refaulted file pages that became active at once.
    WorkingsetActivateFile = "workingset_activate_file",
    /// Refaulted anonymous pages that had been active before their eviction.
    WorkingsetRestoreAnon = "workingset_restore_anon",
    /// Refaulted file pages that had been active before their eviction.
    WorkingsetRestoreFile = "workingset_restore_file",
    /// Pages that reclaim started to write.
    NrVmscanWrite = "nr_vmscan_write",
    /// Dirty pages to be reclaimed as soon as they are written.
    NrVmscanImmediateReclaim = "nr_vmscan_immediate_reclaim",
    /// Pages that were written.
    NrWritten = "nr_written",
    /// Pages that could not be written, and stayed dirty.
    WriteFailed = "fw_write_failed",
    /// Pages scanned by background reclaim.
    PgscanKswapd = "pgscan_kswapd",
    /// Pages scanned by direct reclaim.
    PgscanDirect = "pgscan_direct",
    /// Waits of direct reclaim for background reclaim.
    PgscanDirectThrottle = "pgscan_direct_throttle",
    /// Pauses for writeback that ended before the write did.
    ExpiredWriteBack = "fw_throttle_expired_writeback",
    /// Pauses for isolated pages that ended before enough pages were put back.
    ExpiredIsolated = "fw_throttle_expired_isolated",
    /// Pauses for progress that ended before other tasks had made any.
    ExpiredNoProgress = "fw_throttle_expired_noprogress",
    /// Pauses for a congested store that ended before the store had written anything.
    ExpiredCongested = "fw_throttle_expired_congested",
    /// Waits for background reclaim that ended before background reclaim had freed half of the
    /// reserve or gone to sleep.
    ExpiredReserve = "fw_throttle_expired_reserve",
    /// Anonymous pages scanned on inactive lists.
    PgscanAnon = "pgscan_anon",
    /// File pages scanned on inactive lists.
    PgscanFile = "pgscan_file",
    /// Pages reclaimed by background reclaim.
    PgstealKswapd = "pgsteal_kswapd",
    /// Pages reclaimed by direct reclaim.
    PgstealDirect = "pgsteal_direct",
    /// Anonymous pages reclaimed.
    PgstealAnon = "pgsteal_anon",
    /// File pages reclaimed.
    PgstealFile = "pgsteal_file",
    /// Pages that became active.
    Pgactivate = "pgactivate",
    /// Pages that became inactive.
    Pgdeactivate = "pgdeactivate",
    /// Active pages scanned.
    Pgrefill = "pgrefill",
    /// Pages moved to the tail of the inactive list, where they are reclaimed next.
    Pgrotated = "pgrotated",
    /// Pages skipped because they are in the zone DMA.
    PgskipDma = "pgskip_dma",
    /// Pages skipped because they are in the zone DMA32.
    PgskipDma32 = "pgskip_dma32",
    /// Pages skipped because they are in the zone Normal.
    PgskipNormal = "pgskip_normal",
    /// Pages skipped because they are in the zone Movable.
    PgskipMovable = "pgskip_movable",
    /// Rounds of background reclaim.
    Pageoutrun = "pageoutrun",
    /// The number of times that background reclaim was woken again before it slept.
    KswapdLowWmarkHitQuickly = "kswapd_low_wmark_hit_quickly",
    /// The number of times that memory was short again before background reclaim slept.
    KswapdHighWmarkHitQuickly = "kswapd_high_wmark_hit_quickly",
}

impl NodeStat {
    /// The counter of pages skipped because they are in a zone of this kind.
    pub(crate) const fn skip(kind: ZoneKind) -> Self {
        match kind {
            ZoneKind::Dma => Self::PgskipDma,
            ZoneKind::Dma32 => Self::PgskipDma32,
            ZoneKind::Normal => Self::PgskipNormal,
            ZoneKind::Movable => Self::PgskipMovable,
        }
    }
}

impl Throttle {
    /// The counter of pauses that ended before their condition was met.
    #[must_use]
    pub const fn expired(self) -> NodeStat {
        match self {
            Throttle::WriteBack => NodeStat::ExpiredWriteBack,
            Throttle::Isolated => NodeStat::ExpiredIsolated,
            Throttle::NoProgress => NodeStat::ExpiredNoProgress,
            Throttle::Congested => NodeStat::ExpiredCongested,
            Throttle::Reserve => NodeStat::ExpiredReserve,
        }
    }
}

/// Counters of a node, or the sum over several. All count from construction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NodeStats([u64; NodeStat::COUNT]);

impl Default for NodeStats {
    fn default() -> Self {
        Self([0; NodeStat::COUNT])
    }
}

impl NodeStats {
    pub(crate) fn from_fn(read: impl FnMut(usize) -> u64) -> Self {
        Self(core::array::from_fn(read))
    }

    /// The value of one counter.
    #[must_use]
    pub const fn get(&self, stat: NodeStat) -> u64 {
        self.0[stat as usize]
    }
}

impl core::ops::AddAssign for NodeStats {
    fn add_assign(&mut self, other: Self) {
        for (sum, more) in self.0.iter_mut().zip(other.0) {
            *sum += more;
        }
    }
}

/// One line per counter, as in `/proc/vmstat`.
impl fmt::Display for NodeStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        NodeStat::ALL.iter().try_for_each(|&stat| writeln!(f, "{} {}", stat.name(), self.get(stat)))
    }
}

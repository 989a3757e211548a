//! The registry of settings: path, default, range, meaning, source, and the field behind each.

use super::{Tuning, field::Field};
use crate::types::ZoneKind;

/// One setting.
#[derive(Debug)]
pub struct Key {
    /// The path of the setting, as in `pcp.batch`.
    pub path: &'static str,
    /// Its default, as text.
    pub default: &'static str,
    /// The values that it takes.
    pub range: &'static str,
    /// Its meaning, in a line or two.
    pub meaning: &'static str,
    /// The origin of the setting or of its default.
    pub source: &'static str,
    field: fn(&mut Tuning) -> Field<'_>,
}

impl Key {
    pub(super) fn field<'t>(&self, tuning: &'t mut Tuning) -> Field<'t> {
        (self.field)(tuning)
    }
}

/// All settings.
pub const KEYS: &[Key] = &[
    Key {
        path: "pcp.batch",
        default: "auto",
        range: "auto, or 1 to 1024 frames",
        meaning: "frames moved between a CPU's lists and the zone at once",
        source: "Linux: min(managed/1024, 1 MiB)/4, rounded to 2^n - 1; 63 from 1 GiB on",
        field: |t| Field::auto(&mut t.pcp.batch, 1, 1024),
    },
    Key {
        path: "pcp.high_fraction",
        default: "0",
        range: "0, or 8 to 1000000",
        meaning: "fixes the size of a CPU's lists to managed/N/CPUs; 0 tunes it by itself",
        source: "Linux: vm.percpu_pagelist_high_fraction",
        field: |t| Field::number_or_zero(&mut t.pcp.high_fraction, 8, 1_000_000),
    },
    Key {
        path: "pcp.high_max_divisor",
        default: "8",
        range: "8 to 1000000",
        meaning: "self-tuned lists of a CPU never hold more than managed/N/CPUs frames; a refill with blocks below order 9 \
                  does not enlarge them beyond free/N/CPUs, with the frames that are free in the zone or on these lists",
        source: "Linux 6.7: MIN_PERCPU_PAGELIST_HIGH_FRACTION",
        field: |t| Field::number(&mut t.pcp.high_max_divisor, 8, 1_000_000),
    },
    #[cfg(feature = "compare")]
    Key {
        path: "pcp.refill_ignores_free",
        default: "off",
        range: "on, off",
        meaning: "whether the frames that are free in the zone do not limit refills",
        source: "Framewright; run churn --mix small --types mixed --free-by other --memory 512MiB --occupancy 88 --vs \
                 pcp.refill_ignores_free=on shows what it loses",
        field: |t| Field::Switch(&mut t.pcp.refill_ignores_free),
    },
    Key {
        path: "pcp.high_max_divisor_many",
        default: "50",
        range: "8 to 1000000",
        meaning: "with more CPUs than pcp.high_max_divisor, their number, up to this, is the divisor",
        source: "Framewright; run page-fault --machine one-zone-64 --vs \
                 pcp.high_max_divisor_many=8 shows what it costs: nothing in mapping order, a \
                 quarter of throughput in random order",
        field: |t| Field::number(&mut t.pcp.high_max_divisor_many, 8, 1_000_000),
    },
    Key {
        path: "pcp.scale_max",
        default: "5",
        range: "0 to 6",
        meaning: "a refill or bulk free moves at most batch << N frames",
        source: "Linux 6.7: CONFIG_PCP_BATCH_SCALE_MAX",
        field: |t| Field::number(&mut t.pcp.scale_max, 0, 6),
    },
    Key {
        path: "pcp.max_order",
        default: "4",
        range: "0 to 4",
        meaning: "the largest order with lists; pageblocks have lists anyway",
        source: "Framewright; run churn --vs pcp.max_order=3 shows what order 4 (64 KiB folios) saves; \
                 Linux: 3 (PAGE_ALLOC_COSTLY_ORDER)",
        field: |t| Field::number(&mut t.pcp.max_order, 0, 4),
    },
    Key {
        path: "pcp.ring_batches",
        default: "4",
        range: "1 to 4",
        meaning: "a ring of orders 0 to 4 has space for this many batches of frames, and for at least 16 times as \
                  many blocks; at most 128 blocks",
        source: "Framewright; run churn --mix small --vs pcp.ring_batches=2 shows the latency of frees: p99.9",
        field: |t| Field::number(&mut t.pcp.ring_batches, 1, 4),
    },
    Key {
        path: "pcp.cache_frames",
        default: "0",
        range: "0 to 16777216 frames",
        meaning: "one CPU's share of the last-level cache; if it is above 3 batches, high-order frees \
                  do not drain lists of less than a batch; 0: unknown",
        source: "Linux 6.7: PCPF_FREE_HIGH_BATCH",
        field: |t| Field::number(&mut t.pcp.cache_frames, 0, 1 << 24),
    },
    Key {
        path: "pcp.bulk_free",
        default: "select-before-lock",
        range: if cfg!(feature = "compare") {
            "select-before-lock, select-under-lock"
        } else {
            "select-before-lock"
        },
        meaning: "when the frames of a bulk free are chosen",
        source: "Lu 2018, free_pcppages_bulk: do not hold lock when picking pages to free",
        field: |t| Field::BulkFree(&mut t.pcp.bulk_free),
    },
    Key {
        path: "pcp.high_order_drain",
        default: "second-consecutive",
        range: "second-consecutive, every-free",
        meaning: "which frees of order 1 to 4 drain the lists of their CPU",
        source: "Huang 2023, mm, pcp: avoid to drain PCP when process exit",
        field: |t| Field::HighOrderDrain(&mut t.pcp.high_order_drain),
    },
    #[cfg(feature = "compare")]
    Key {
        path: "pcp.high_order_at_once",
        default: "off",
        range: "on, off",
        meaning: "whether one free returns all frames of a burst of high-order frees, also with second-consecutive",
        source: "Framewright; run churn --mix small --free-by other --vs pcp.high_order_at_once=on shows the latency of \
                 frees: p99.9",
        field: |t| Field::Switch(&mut t.pcp.high_order_at_once),
    },
    Key {
        path: "pcp.high_order_burst",
        default: "auto",
        range: "auto, or 1 to 4294967295 frames",
        meaning: "frames freed in a row before a high-order free may drain; auto: a batch for \
                  every-free; for second-consecutive a batch and half of the least list size, or \
                  half of what one bulk free may move if that is more",
        source: "Linux 5.18 to 6.14 used a batch; Dhama 2025 raised it (6.15)",
        field: |t| Field::auto(&mut t.pcp.high_order_burst, 1, u32::MAX),
    },
    Key {
        path: "pcp.bundle_slots",
        default: "auto",
        range: "auto, or 64 to 65536",
        meaning: "bundles of up to 64 neighbouring frames that one CPU can hold, rounded up to \
                  a power of two; auto: one for every 64 frames of its share, at most 2048",
        source: "Framewright",
        field: |t| Field::auto(&mut t.pcp.bundle_slots, 64, 65536),
    },
    Key {
        path: "pcp.sweep_blocks",
        default: "8",
        range: "0, or 1 to 128 blocks",
        meaning: "a spill looks at one slot of the store for this many blocks that it moves: a bundle there returns to the \
                  zone if its pageblock has become sparse; 0: at none",
        source: "Framewright; replay --vs pcp.sweep_blocks=0 shows what it adds in a recorded compilation: a hundredth",
        field: |t| Field::number_or_zero(&mut t.pcp.sweep_blocks, 1, 128),
    },
    Key {
        path: "pcp.hold_pageblocks",
        default: "auto",
        range: "auto, or 1 to 64",
        meaning: "pageblocks in which frames may return to the zone under one hold of the zone lock, and blocks \
                  that a free moves from a full ring to the store if the CPU has allocated since the last such \
                  move; auto: 16 if at most 8 CPUs share the zone, else 64",
        source: "Framewright; run churn --mix small --vs pcp.hold_pageblocks=64 shows the latency of frees: p99.99",
        field: |t| Field::auto(&mut t.pcp.hold_pageblocks, 1, 64),
    },
    Key {
        path: "pcp.trim_after",
        default: "32",
        range: "0 to 10000",
        meaning: "trims return half of the frames to the zone that a CPU's lists have not needed since the last one; \
                  one that nobody requests follows this many times as many allocated frames; 0: no trims",
        source: "Linux 6.7 decays the limit of the lists instead; the rule is that of TCMalloc's thread caches: half \
                 of the minimum of an interval",
        field: |t| Field::number(&mut t.pcp.trim_after, 0, 10_000),
    },
    Key {
        path: "zone.min_free",
        default: "auto",
        range: "auto, or 0 to 4294967295 frames",
        meaning: "the min watermarks of all zones together, except those of the zones Movable",
        source: "Linux: vm.min_free_kbytes = sqrt(16 * KiB), 128 KiB to 256 MiB",
        field: |t| Field::auto(&mut t.zone.min_free, 0, u32::MAX),
    },
    Key {
        path: "zone.watermark_scale",
        default: "10",
        range: "1 to 3000",
        meaning: "least distance between two watermarks, in 1/10000 of the zone",
        source: "Linux: vm.watermark_scale_factor",
        field: |t| Field::number(&mut t.zone.watermark_scale, 1, 3000),
    },
    Key {
        path: "zone.watermark_boost",
        default: "15000",
        range: "0 to 100000",
        meaning: "how far the watermarks of a zone rise after types were mixed in a pageblock, \
                  in 1/10000 of the high one; 0: not at all",
        source: "Linux: vm.watermark_boost_factor",
        field: |t| Field::number(&mut t.zone.watermark_boost, 0, 100_000),
    },
    Key {
        path: "zone.huge_reserve",
        default: "1000",
        range: "0 to 5000",
        meaning: "how much of a zone may be reserved for huge requests after some of them found no \
                  free block, in 1/10000 of the zone; 0: nothing",
        source: "Framewright; khugepaged raises Linux's min_free_kbytes by up to 5 %, whether \
                 huge pages are requested or not",
        field: |t| Field::number(&mut t.zone.huge_reserve, 0, 5_000),
    },
    Key {
        path: "zone.reserve_ratio.dma",
        default: "256",
        range: "0 to 1000000",
        meaning: "one frame of a DMA zone for every N frames of the higher zones of its node is \
                  reserved against requests that could use those zones; 0: none",
        source: "Linux: vm.lowmem_reserve_ratio",
        field: |t| Field::number(&mut t.zone.reserve_ratios[ZoneKind::Dma as usize], 0, 1_000_000),
    },
    Key {
        path: "zone.reserve_ratio.dma32",
        default: "256",
        range: "0 to 1000000",
        meaning: "one frame of a DMA32 zone for every N frames of the higher zones of its node is \
                  reserved against requests that could use those zones; 0: none",
        source: "Linux: vm.lowmem_reserve_ratio",
        field: |t| {
            Field::number(&mut t.zone.reserve_ratios[ZoneKind::Dma32 as usize], 0, 1_000_000)
        },
    },
    Key {
        path: "zone.reserve_ratio.normal",
        default: "32",
        range: "0 to 1000000",
        meaning: "one frame of a Normal zone for every N frames of the higher zones of its node is \
                  reserved against requests that could use those zones; 0: none",
        source: "Linux: vm.lowmem_reserve_ratio",
        field: |t| {
            Field::number(&mut t.zone.reserve_ratios[ZoneKind::Normal as usize], 0, 1_000_000)
        },
    },
    Key {
        path: "zone.refill_pageblocks",
        default: "16",
        range: "1 to 64",
        meaning: "pageblocks that one refill takes frames from at most, the fullest first",
        source: "Framewright",
        field: |t| Field::number(&mut t.zone.refill_pageblocks, 1, 64),
    },
    Key {
        path: "zone.emptying_above",
        default: "6",
        range: "0 to 512 frames",
        meaning: "frames freed in a pageblock with more than N free frames return to the zone instead of a CPU's lists, \
                  until refills have filled that pageblock; 512: off",
        source: "Framewright; run replace --vs zone.emptying_above=512 shows what it gains",
        field: |t| Field::number_or_zero(&mut t.zone.emptying_above, 1, 512),
    },
    #[cfg(feature = "compare")]
    Key {
        path: "zone.any_refill_ends_emptying",
        default: "off",
        range: "on, off",
        meaning: "whether any refill that takes frames from a sparse pageblock ends its emptying: not only one that leaves \
                  at most zone.emptying_above free frames in it, or the second one in a row",
        source: "Framewright; run churn --mix small --seeds 40 --vs zone.any_refill_ends_emptying=on shows what it loses",
        field: |t| Field::Switch(&mut t.zone.any_refill_ends_emptying),
    },
    #[cfg(feature = "compare")]
    Key {
        path: "zone.rest_breaks_pageblock",
        default: "off",
        range: "on, off",
        meaning: "whether a batch breaks a wholly free pageblock for its last frames, even if it has some already",
        source: "Framewright; run churn --mix small --seeds 40 --vs zone.rest_breaks_pageblock=on shows what it loses",
        field: |t| Field::Switch(&mut t.zone.rest_breaks_pageblock),
    },
    Key {
        path: "zone.bulk_take",
        default: "bulk",
        range: if cfg!(feature = "compare") { "bulk, one-by-one, smallest-first" } else { "bulk" },
        meaning: if cfg!(feature = "compare") {
            "whether a batch is taken from a zone as a whole, block by block under one hold of its \
             lock, or the smallest free blocks first, wherever they lie (slow, the more so the \
             larger memory is)"
        } else {
            "how a batch is taken from a zone: as a whole"
        },
        source: "Framewright; block by block, and the smallest first, is what Linux does",
        field: |t| Field::BulkTake(&mut t.zone.bulk_take),
    },
    #[cfg(feature = "compare")]
    Key {
        path: "zone.watermark_by_order",
        default: "off",
        range: "on, off",
        meaning: "whether a request for a larger block also needs enough free memory in larger blocks: for \
                  each order below its own, the blocks of that order stop to count, and the watermark is \
                  halved; scanners form blocks until the zone passes this test",
        source: "Linux before 4.4",
        field: |t| Field::Switch(&mut t.zone.watermark_by_order),
    },
    Key {
        path: "zone.depot_divisor",
        default: "auto",
        range: "auto, 0, or 8 to 1000000",
        meaning: "one frame in N of a zone may be in its depot, through which frames pass from CPU to \
                  CPU; 0: none; auto: 128 if more than 8 CPUs share the zone, none if one CPU has it, \
                  else 128 but at most 512 frames, and only of CPUs that free the frames of others",
        source: "Framewright, after Bonwick and Adams 2001; run page-fault --machine one-zone-64 \
                 --free-order random --vs zone.depot_divisor=0 shows what it gains",
        field: |t| Field::auto_or_zero(&mut t.zone.depot_divisor, 8, 1_000_000),
    },
    Key {
        path: "alloc.retries",
        default: "16",
        range: "0 to 1000",
        meaning: "rounds of reclaim without progress after which a request counts as out of memory",
        source: "Linux: MAX_RECLAIM_RETRIES",
        field: |t| Field::number(&mut t.alloc.retries, 0, 1000),
    },
    Key {
        path: "alloc.progress_retries",
        default: "256",
        range: "1 to 1000000",
        meaning: "rounds of reclaim that free frames without serving the request, because \
                  other requests take them or the embedder miscounts, before the embedder decides \
                  whether the request fails",
        source: "Framewright; Linux has no bound. In simulated runs on up to 96 CPUs no request took \
                 more than a few",
        field: |t| Field::number(&mut t.alloc.progress_retries, 1, 1_000_000),
    },
    Key {
        path: "alloc.compaction_retries",
        default: "16",
        range: "0 to 1000",
        meaning: "rounds in which compaction forms a block that another request takes, before the \
                  priority of compaction is raised; a quarter of them for costly orders",
        source: "Linux: MAX_COMPACT_RETRIES",
        field: |t| Field::number(&mut t.alloc.compaction_retries, 0, 1000),
    },
    Key {
        path: "alloc.defrag_mode",
        default: "off",
        range: "on, off",
        meaning: "whether types are mixed in a pageblock only after reclaim and compaction were tried, \
                  and background work is woken for whole pageblocks",
        source: "Linux 6.15: vm.defrag_mode",
        field: |t| Field::Switch(&mut t.alloc.defrag_mode),
    },
    Key {
        path: "reclaim.swappiness",
        default: "60",
        range: "0 to 200",
        meaning: "share of anonymous pages in the cost balance of reclaim, out of 200; 0: they are \
                  never reclaimed",
        source: "Linux: vm.swappiness",
        field: |t| Field::number(&mut t.reclaim.swappiness, 0, 200),
    },
    Key {
        path: "reclaim.cluster",
        default: "64",
        range: "1 to 64 pages",
        meaning: "pages taken off an LRU list at once",
        source: "Linux: SWAP_CLUSTER_MAX is 32; with 64, the LRU lock of a node is taken half as often",
        field: |t| Field::number(&mut t.reclaim.cluster, 1, 64),
    },
    Key {
        path: "reclaim.lru_batch",
        default: "63",
        range: "1 to 255 pages",
        meaning: "moves to and between LRU lists that a CPU collects before it takes the lock",
        source: "Linux: PAGEVEC_SIZE, 31 since 6.8 and 15 before; with 63, the lock is taken half as often",
        field: |t| Field::number(&mut t.reclaim.lru_batch, 1, 255),
    },
    Key {
        path: "reclaim.max_failures",
        default: "16",
        range: "1 to 1000",
        meaning: "rounds in a row without progress after which background reclaim leaves a node alone \
                  until another task frees memory of it",
        source: "Linux: MAX_RECLAIM_RETRIES, for kswapd_failures",
        field: |t| Field::number(&mut t.reclaim.max_failures, 1, 1000),
    },
    Key {
        path: "reclaim.referenced_scan_max",
        default: "8192",
        range: "0 to 4294967295 pages",
        meaning: "pages that a request scans without reclaiming them, before it also reclaims clean file \
                  pages that were referenced once since the last scan",
        source: "Framewright; Linux scans the whole list. run mmap-read --memory 1GiB --times 3 --vs \
                 reclaim.referenced_scan_max=4294967295 shows what it gains: stall_max_ns",
        field: |t| Field::number(&mut t.reclaim.referenced_scan_max, 0, u32::MAX),
    },
    Key {
        path: "tlb.batching",
        default: "lazy",
        range: "off, clean-only, all, lazy",
        meaning: "when translations of unmapped pages are flushed. off: page by page; clean-only: dirty \
                  pages one by one, others per batch; all: per batch; lazy: as all, but a batch of clean \
                  pages only when its frames are needed or their contents are about to change",
        source: "Gorman 2015, mm: send one IPI per CPU to TLB flush all entries after unmapping \
                 pages; lazy: Park 2024 (LUF), and Framewright",
        field: |t| Field::FlushBatching(&mut t.tlb.batching),
    },
    Key {
        path: "tlb.batch",
        default: "auto",
        range: "auto, or 1 to 65536 frames",
        meaning: "frames that are flushed at once with tlb.batching=all; smaller batches are deferred \
                  until there are so many; auto: 32 for every CPU, from 64 to a 400th of the memory",
        source: "Linux: SWAP_CLUSTER_MAX, 32, for the batch of one task; here all CPUs fill one batch",
        field: |t| Field::auto(&mut t.tlb.batch, 1, 65536),
    },
    Key {
        path: "tlb.deferred_max",
        default: "auto",
        range: "auto, or 0 to 16777216 frames",
        meaning: "frames that may wait for a flush with tlb.batching=lazy, including those that reclaim is \
                  unmapping; 256, plus 32 for every CPU, are always allowed; auto: a 200th of the memory",
        source: "Framewright",
        field: |t| Field::auto(&mut t.tlb.deferred_max, 0, 1 << 24),
    },
    Key {
        path: "tlb.single_page_flush_ceiling",
        default: "33",
        range: "0 to 512 pages",
        meaning: "neighbouring pages that are flushed one by one; more of them are flushed by a full flush",
        source: "Linux: tlb_single_page_flush_ceiling",
        field: |t| Field::number(&mut t.tlb.single_page_flush_ceiling, 0, 512),
    },
    Key {
        path: "compact.method",
        default: "index",
        range: if cfg!(feature = "compare") { "index, scan, off" } else { "index, off" },
        meaning: "how compaction finds pages to move and frames to move them to. index: by the headers of \
                  pageblocks; scan (feature `compare`): by two scanners that examine frames; off: no \
                  compaction",
        source: "Framewright; scan is what Linux does",
        field: |t| Field::CompactMethod(&mut t.compact.method),
    },
    Key {
        path: "compact.headers_per_piece",
        default: "64",
        range: "1 to 65536",
        meaning: "with compact.method=index: headers examined in one piece of a search, which holds the \
                  zone lock",
        source: "Framewright",
        field: |t| Field::number(&mut t.compact.headers_per_piece, 1, 65536),
    },
    Key {
        path: "compact.migrate_budget",
        default: "512",
        range: "1 to 1048576 frames",
        meaning: "with compact.method=index: frames that may be moved while one request waits, per \
                  pageblock of its size and over all its attempts. Scanning 8 frames counts as moving \
                  one, as does reclaiming one; each flush counts as 16, draining the lists of CPUs as 48",
        source: "Framewright: the frames of a full pageblock; the next request continues unfinished work",
        field: |t| Field::number(&mut t.compact.migrate_budget, 1, 1 << 20),
    },
    Key {
        path: "compact.extfrag_threshold",
        default: "500",
        range: "0 to 1000",
        meaning: "costly orders are left to reclaim if the fragmentation index is not above this, in \
                  thousandths",
        source: "Linux: vm.extfrag_threshold",
        field: |t| Field::number(&mut t.compact.extfrag_threshold, 0, 1000),
    },
    Key {
        path: "compact.proactiveness",
        default: "20",
        range: "0 to 100",
        meaning: "how much background compaction does before any request needs it; 0: nothing",
        source: "Linux 5.9: vm.compaction_proactiveness",
        field: |t| Field::number(&mut t.compact.proactiveness, 0, 100),
    },
    #[cfg(feature = "compare")]
    Key {
        path: "compact.shortcuts",
        default: "on",
        range: "on, off",
        meaning: "with compact.method=scan: scanners search the free lists first, and the formed block \
                  is captured for the request that waits",
        source: "Linux 5.1",
        field: |t| Field::Switch(&mut t.compact.shortcuts),
    },
    #[cfg(feature = "compare")]
    Key {
        path: "compact.repair.reset_before_read",
        default: "on",
        range: "on, off",
        meaning: "with compact.method=scan: cached positions are reset before a run reads them",
        source: "Babka 2013, mm: compaction",
        field: |t| Field::Switch(&mut t.compact.repair.reset_before_read),
    },
    #[cfg(feature = "compare")]
    Key {
        path: "compact.repair.detect_meeting",
        default: "on",
        range: "on, off",
        meaning: "with compact.method=scan: a free scanner that found nothing records its position",
        source: "Babka 2013, mm: compaction",
        field: |t| Field::Switch(&mut t.compact.repair.detect_meeting),
    },
    #[cfg(feature = "compare")]
    Key {
        path: "compact.repair.unmarked_types",
        default: "on",
        range: "on, off",
        meaning: "with compact.method=scan: a pageblock left out because of its type gets no skip hint",
        source: "Babka 2013, mm: compaction",
        field: |t| Field::Switch(&mut t.compact.repair.unmarked_types),
    },
    #[cfg(feature = "compare")]
    Key {
        path: "compact.repair.reset_on_meeting",
        default: "on",
        range: "on, off",
        meaning: "with compact.method=scan: cached positions are reset as soon as scanners meet",
        source: "Babka 2013, mm: compaction",
        field: |t| Field::Switch(&mut t.compact.repair.reset_on_meeting),
    },
    Key {
        path: "hardening",
        default: "checked",
        range: "off, checked, tracked, paranoid",
        meaning: "how frees by frame number are checked. off: not at all; checked: against the zone and \
                  the lists of the caller's CPU; tracked: with a byte per frame, across all CPUs, until \
                  the frame is allocated again; paranoid: as tracked, with poison and without per-CPU \
                  lists",
        source: "Framewright",
        field: |t| Field::Hardening(&mut t.hardening),
    },
    Key {
        path: "hardening.poison",
        default: "on",
        range: "on, off",
        meaning: "at paranoid, whether free frames are filled with a pattern that is checked when they \
                  are allocated again",
        source: "Linux: page_poison=1",
        field: |t| Field::Switch(&mut t.paranoid.poison),
    },
    Key {
        path: "hardening.quarantine",
        default: "256",
        range: "0 to 65536 frames",
        meaning: "at paranoid, frames that each CPU keeps in quarantine for each zone after their \
                  free: they are not allocated again unless memory runs short; larger blocks do not wait",
        source: "Framewright; 256 frames are a megabyte",
        field: |t| Field::number(&mut t.paranoid.quarantine, 0, 65536),
    },
    Key {
        path: "owner_lock",
        default: "auto",
        range: "auto, biased, trylock",
        meaning: "how the owner of per-CPU lists excludes a remote drainer",
        source: "Framewright; trylock is what Linux does since 6.2",
        field: |t| Field::OwnerChoice(&mut t.owner_lock),
    },
];

//! What is recorded: the page allocator's own events, and those that explain them.

/// An event of the kernel, by subsystem and name.
pub(super) struct Wanted {
    /// Its subsystem; the name may be empty for all events of it.
    pub(super) subsystem: &'static str,
    pub(super) name: &'static str,
    /// Without it there is nothing to record; others are left out where a kernel lacks them.
    pub(super) needed: bool,
}

const fn needed(subsystem: &'static str, name: &'static str) -> Wanted {
    Wanted { subsystem, name, needed: true }
}

const fn optional(subsystem: &'static str, name: &'static str) -> Wanted {
    Wanted { subsystem, name, needed: false }
}

/// The events of a recording.
pub(super) const RECORDED: &[Wanted] = &[
    needed("kmem", "mm_page_alloc"),
    needed("kmem", "mm_page_free"),
    optional("kmem", "mm_page_free_batched"),
    optional("kmem", "mm_page_pcpu_drain"),
    optional("kmem", "mm_page_alloc_zone_locked"),
    optional("kmem", "mm_page_alloc_extfrag"),
    optional("compaction", ""),
    optional("tlb", "tlb_flush"),
    optional("vmscan", "mm_vmscan_kswapd_wake"),
    optional("vmscan", "mm_vmscan_kswapd_sleep"),
    optional("vmscan", "mm_vmscan_wakeup_kswapd"),
    optional("vmscan", "mm_vmscan_direct_reclaim_begin"),
    optional("vmscan", "mm_vmscan_direct_reclaim_end"),
];

/// These tell how tasks are called, which other events do not carry. They are not recorded.
pub(super) const NAMING: &[Wanted] =
    &[optional("task", "task_newtask"), optional("task", "task_rename")];

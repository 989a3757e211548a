//! A memory: everything together, as one value.
//!
//! A [`Memory`] owns its platform and, for as long as it lives, the metadata buffer that the
//! embedder gave it. It is shared by reference between CPUs; what a CPU does with it goes
//! through that CPU's [`CpuToken`].

mod balloon;
mod carve;
mod claim;
mod config;
mod counters;
mod cpus;
mod drain;
mod hotplug;
mod info;
mod isolation;
mod layout;
mod mobility;
mod ranges;
mod side_tables;
mod text;
mod translations;
mod withhold;
mod zones;

use core::{mem::MaybeUninit, num::NonZeroUsize};

use side_tables::SideTableArrays;

use crate::{
    alloc::OomLock,
    compact::ZoneCompaction,
    pcp::CpuPages,
    platform::{OwnerLock, Platform},
    reclaim::LruState,
    sync::{AtomicBool, AtomicU32},
    tlb::Tlb,
    tuning::{Hardening, OwnerChoice, Tuning},
    types::{Block, MemoryTag, Pfn},
    zone::{Zone, Zonelists},
};

pub use balloon::OrderTooSmall;
pub(crate) use claim::Claim;
pub use config::{Config, InitError, MemoryRange, Presence};
pub use cpus::CpuError;
pub use info::ZoneInfo;
pub use isolation::{IsolateError, IsolatedBlock};
pub use layout::Layout;
pub use side_tables::SideTables;
pub(crate) use zones::Home;

/// A memory and its allocator.
pub struct Memory<'m, P: Platform> {
    platform: P,
    zones: &'m [Zone<'m, P>],
    /// First frame of the lowest zone.
    start: Pfn,
    zonelists: Zonelists<'m>,
    /// The lists of every CPU for every zone: all CPUs for the first zone, then the next.
    lists: &'m [CpuPages<'m, P>],
    cpus: &'m [cpus::CpuState],
    tuning: Tuning,
    owner_lock: OwnerLock,
    layout: Layout,
    tlb: Tlb<'m, P>,
    compaction: &'m [ZoneCompaction<'m>],
    side_tables: SideTableArrays<'m>,
    /// What reclaim keeps, if the embedder wants it.
    lru: Option<LruState<'m, P>>,
    tag: MemoryTag<'m>,
    /// Counts the times that memory came or went.
    generation: AtomicU32,
    /// The right to ask the embedder for a verdict when relief does not help.
    oom_lock: OomLock,
    /// Whether memory is coming or going.
    changing: AtomicBool,
}

impl<'m, P: Platform> Memory<'m, P> {
    /// A memory over the frames of `config.memory`, all that are present free and movable, all
    /// CPUs online.
    ///
    /// `metadata` must be aligned and sized as [`Layout`] says; what is in it does not matter.
    ///
    /// # Errors
    ///
    /// [`InitError`] names what is wrong with the configuration or the buffer.
    pub fn new(
        platform: P,
        config: &Config<'_>,
        metadata: &'m mut [MaybeUninit<u8>],
    ) -> Result<Self, InitError> {
        let layout = Layout::new::<P>(config)?;
        let tuning = config.tuning;
        let owner_lock = match tuning.owner_lock {
            // The hot path of the biased lock updates no states; the try-lock closes it.
            OwnerChoice::Auto if tuning.hardening == Hardening::Tracked => OwnerLock::Trylock,
            OwnerChoice::Auto => platform.owner_lock(),
            OwnerChoice::Fixed(kind) => kind,
        };
        if owner_lock == OwnerLock::Biased && platform.owner_lock() != OwnerLock::Biased {
            return Err(InitError::NoRemoteBarrier);
        }
        let tag = NonZeroUsize::new(metadata.as_ptr().addr())
            .ok_or(InitError::MetadataTooSmall { needed: layout.bytes(), given: 0 })?;
        let parts = layout::carve(&layout, config, owner_lock, metadata)?;
        let memory = Self {
            platform,
            zones: parts.zones,
            start: parts.zones.iter().map(Zone::base).min().unwrap_or_default(),
            zonelists: parts.zonelists,
            lists: parts.lists,
            cpus: parts.cpus,
            tuning,
            owner_lock,
            layout,
            tlb: parts.tlb,
            compaction: parts.compaction,
            side_tables: parts.side_tables,
            lru: parts.lru,
            tag: MemoryTag::at(tag),
            generation: AtomicU32::new(0),
            oom_lock: OomLock::new(),
            changing: AtomicBool::new(false),
        };
        memory.set_watermarks();
        memory.size_new_lists();
        Ok(memory)
    }

    /// The machine it runs on.
    #[inline(always)]
    #[must_use]
    pub fn platform(&self) -> &P {
        &self.platform
    }

    /// Where its metadata goes.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Its settings.
    #[must_use]
    pub fn tuning(&self) -> &Tuning {
        &self.tuning
    }

    /// How owners of per-CPU lists exclude drainers here.
    #[must_use]
    pub fn owner_lock(&self) -> OwnerLock {
        self.owner_lock
    }

    /// Whether a block belongs to this memory.
    #[must_use]
    pub fn owns(&self, block: &Block<'m>) -> bool {
        block.belongs_to(self.tag)
    }

    /// What each zone remembers of compaction.
    pub(crate) fn compaction(&self) -> &'m [ZoneCompaction<'m>] {
        self.compaction
    }

    pub(crate) fn lru_state(&self) -> Option<&LruState<'m, P>> {
        self.lru.as_ref()
    }

    /// Whether somebody holds the LRU lock of a node just now: a hint.
    #[cfg(feature = "scanners")]
    pub(crate) fn is_lru_contended(&self, node: crate::types::NodeId) -> bool {
        let lists = self.lru.as_ref().map(|state| &state.nodes[node.index()]);
        lists.is_some_and(|node| node.is_contended(&self.platform))
    }

    pub(crate) fn oom_lock(&self) -> &OomLock {
        &self.oom_lock
    }

    #[inline(always)]
    pub(crate) fn tag(&self) -> MemoryTag<'m> {
        self.tag
    }
}

//! The facade: construction of a memory, and the methods that an embedder calls on it.
//!
//! A [`Memory`] owns its platform, and borrows the metadata buffer of the embedder for its
//! lifetime. CPUs share the memory by reference. A CPU allocates and frees through its
//! [`CpuToken`](crate::CpuToken).
//!
//! This module joins the parts of a memory: the [core](crate::core) and the states of TLB flushes,
//! reclaim and compaction. Each of these layers gets the core and its own state.

mod allocation;
mod balloon;
mod carve;
mod compaction;
mod config;
mod counters;
mod cpus;
mod hotplug;
mod in_use;
mod info;
mod isolation;
mod layout;
mod mobility;
mod reclaim;
mod side_tables;
mod text;
mod translations;

use core::{mem::MaybeUninit, num::NonZeroUsize};

use layout::InUse;
use side_tables::SideTableArrays;

use crate::{
    compact::ZoneCompaction,
    core::MemoryCore,
    platform::{OwnerLock, Platform},
    reclaim::LruState,
    sync::{AtomicU8, AtomicU32},
    tlb::Tlb,
    tuning::{Hardening, OwnerChoice, Tuning},
    types::{Block, MemoryTag, Pfn},
};

pub use balloon::OrderTooSmall;
pub use config::{Config, InitError, MemoryRange, Presence};
pub use info::ZoneInfo;
pub use isolation::{IsolateError, IsolatedBlock};
pub use layout::Layout;
pub use side_tables::SideTables;

/// Physical memory and its manager: zones, per-CPU lists, and the states of reclaim, compaction and
/// TLB flushes.
///
/// # Example
///
/// ```
/// use framewright::{Config, CpuId, FrameRange, Layout, Memory, MigrateType, Order, Pfn, Request};
/// # use framewright_fakes::{FakePlatform, Metadata};
///
/// let map = [FrameRange::new(Pfn::new(0), Pfn::new(8192)).unwrap().into()];
/// let config = Config::new(&map, 1);
/// let layout = Layout::new::<FakePlatform>(&config)?;
/// # let mut buffer = Metadata::new(layout.bytes());
/// # let metadata = buffer.as_mut();
/// // `metadata` has the size and the alignment of the layout, and outlives the memory.
/// let memory: Memory<'_, FakePlatform> = Memory::new(FakePlatform::default(), &config, metadata)?;
///
/// let mut cpu = memory.cpu(CpuId::new(0))?;
/// let block = cpu.alloc(Request::new(Order::ZERO, MigrateType::Movable))?;
/// cpu.free(block).expect("a block of this memory");
/// drop(cpu);
/// memory.drain_all();
/// assert_eq!(memory.free(), memory.managed());
/// memory.check()?; // every frame is in exactly one place
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Memory<'m, P: Platform> {
    pub(crate) core: MemoryCore<'m, P>,
    layout: Layout,
    tlb: Tlb<'m, P>,
    /// The state of compaction, by zone.
    compaction: &'m [ZoneCompaction<'m>],
    side_tables: SideTableArrays<'m>,
    /// The ranges that are in use from the start.
    in_use: &'m [InUse],
    /// The state of reclaim; `None` if the configuration does not ask for LRU lists.
    lru: Option<LruState<'m, P>>,
}

impl<'m, P: Platform> Memory<'m, P> {
    /// A memory with the frames of `config.memory`. All present frames are free and movable, except
    /// those in use from the start. All CPUs are online.
    ///
    /// `metadata` must have the size and alignment of the [`Layout`]. Its contents do not matter.
    ///
    /// # Errors
    ///
    /// [`InitError`] names the error in the configuration or the buffer.
    pub fn new(
        platform: P,
        config: &Config<'_>,
        metadata: &'m mut [MaybeUninit<u8>],
    ) -> Result<Self, InitError> {
        let layout = Layout::new::<P>(config)?;
        let tuning = config.tuning;
        let owner_lock = match tuning.owner_lock {
            // The hot path of the biased lock does not update the states of frames. With the
            // try-lock, that path is switched off.
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
        let core = MemoryCore::new(platform, &parts.core, tuning, owner_lock, MemoryTag::at(tag));
        core.set_watermarks();
        core.size_new_lists();
        let memory = Self {
            core,
            layout,
            tlb: parts.tlb,
            compaction: parts.compaction,
            side_tables: parts.side_tables,
            in_use: parts.in_use,
            lru: parts.lru,
        };
        memory.reserve_in_use();
        Ok(memory)
    }

    /// The platform that the memory runs on.
    #[inline(always)]
    #[must_use]
    pub fn platform(&self) -> &P {
        self.core.platform()
    }

    /// The layout of its metadata.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Its settings.
    #[must_use]
    pub fn tuning(&self) -> &Tuning {
        self.core.tuning()
    }

    /// The protocol by which the owner of per-CPU lists and CPUs that drain them exclude each other
    /// in this memory.
    #[must_use]
    pub fn owner_lock(&self) -> OwnerLock {
        self.core.owner_lock()
    }

    /// Whether a block belongs to this memory.
    #[must_use]
    pub fn owns(&self, block: &Block<'m>) -> bool {
        self.core.owns(block)
    }

    /// The flags of a frame, 0 at first; `None` if the memory has no such side table or no such
    /// frame. Callers may use a bit as a lock: the caller that sets it atomically is the owner.
    #[must_use]
    pub fn frame_flags(&self, pfn: Pfn) -> Option<&AtomicU8> {
        self.side_tables.flags.get(self.frame_index(pfn)?)
    }

    /// The owner word of a frame, 0 at first; `None` if the memory has no such side table or no such
    /// frame.
    #[must_use]
    pub fn frame_owner(&self, pfn: Pfn) -> Option<&AtomicU32> {
        self.side_tables.owners.get(self.frame_index(pfn)?)
    }

    #[inline(always)]
    fn frame_index(&self, pfn: Pfn) -> Option<usize> {
        self.core.find_slot(pfn).map(|(_, slot)| slot as usize)
    }
}

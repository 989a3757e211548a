//! A memory: everything together, as one value.
//!
//! A [`Memory`] owns its platform and, for as long as it lives, the metadata buffer that the
//! embedder gave it. It is shared by reference between CPUs; what a CPU does with it goes
//! through that CPU's [`CpuToken`].

mod carve;
mod config;
mod cpus;
mod info;
mod isolation;
mod layout;
mod planes;

use core::{mem::MaybeUninit, num::NonZeroUsize};

use planes::PlaneArrays;

use crate::{
    alloc::FreeError,
    buddy::Buddy,
    frame::{Block, MemoryTag, Order, Pfn},
    pcp::{Cpu, CpuPages},
    platform::{CpuId, OwnerLock, Platform},
    tuning::{Hardening, OwnerChoice, Tuning},
    zone::{Marks, Zone, default_min_free},
};

pub use config::{Config, InitError};
pub use cpus::CpuError;
pub use info::{Violation, ZoneInfo};
pub use isolation::{IsolateError, IsolatedBlock};
pub use layout::Layout;
pub use planes::Planes;

/// A memory and its allocator.
pub struct Memory<'m, P: Platform> {
    platform: P,
    zone: Zone<'m, P>,
    cpus: &'m [CpuPages<'m>],
    tuning: Tuning,
    owner_lock: OwnerLock,
    layout: Layout,
    planes: PlaneArrays<'m>,
    tag: MemoryTag<'m>,
}

impl<'m, P: Platform> Memory<'m, P> {
    /// A memory over the frames of `config.memory`, all free and movable, all CPUs online.
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
        let layout = Layout::new(config)?;
        let address = metadata.as_ptr().addr();
        let parts = layout.carve(config, metadata)?;
        let tag = NonZeroUsize::new(address)
            .ok_or(InitError::MetadataTooSmall { needed: layout.bytes(), given: 0 })?;
        let tuning = config.tuning;
        let owner_lock = match tuning.owner_lock {
            OwnerChoice::Auto => platform.owner_lock(),
            OwnerChoice::Fixed(kind) => kind,
        };
        if owner_lock == OwnerLock::Biased && platform.owner_lock() != OwnerLock::Biased {
            return Err(InitError::NoRemoteBarrier);
        }
        let managed = layout.managed();
        let min = tuning
            .zone
            .min_free
            .or(|| u32::try_from(default_min_free(managed)).unwrap_or(u32::MAX));
        let marks = Marks::new(managed, u64::from(min), tuning.zone.watermark_scale);
        let checked = tuning.hardening == Hardening::Checked;
        let buddy = Buddy::new(
            layout.base(),
            parts.pageblocks,
            parts.gigablocks,
            parts.types,
            parts.ranges,
            parts.sets,
            checked,
        );
        let zone = Zone::new(buddy, parts.types, parts.ranges, layout.base(), managed, marks);
        let planes = parts.planes;
        let cpus = parts.lists.cpus(owner_lock);
        let tag = MemoryTag::at(tag);
        let memory = Self { platform, zone, cpus, tuning, owner_lock, layout, planes, tag };
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

    #[inline(always)]
    pub(crate) fn zone_ref(&self) -> &Zone<'m, P> {
        &self.zone
    }

    #[inline(always)]
    pub(crate) fn tag(&self) -> MemoryTag<'m> {
        self.tag
    }

    pub(crate) fn context<'c>(&'c self, pages: &'c CpuPages<'m>, id: CpuId) -> Cpu<'c, 'm, P> {
        Cpu { platform: &self.platform, zone: &self.zone, pages, tuning: &self.tuning, id }
    }

    /// The zone-relative number of a block named from outside.
    pub(crate) fn locate(&self, pfn: Pfn, order: Order) -> Result<u32, FreeError> {
        if !pfn.is_aligned(order) {
            return Err(FreeError::Misaligned);
        }
        self.zone.locate(pfn, order).ok_or(FreeError::NotOurs)
    }
}

//! Adding and removing pageblocks.
//!
//! A zone has metadata for every pageblock that may ever be present. An absent pageblock has the type [`ABSENT`], no
//! frames, and is on no list. It is added as free frames: as a whole, or in pieces if the zone has a bit per frame
//! ([`Buddy::add_frames`]). It is removed only while it is isolated, so that no frame of it can be allocated, and only
//! if all of it is free.

use super::{ABSENT, Buddy, FRAMES, MigrateType, Pageblock};
use crate::{sync::Ordering, types::PAGEBLOCK_ORDER};

impl Buddy<'_> {
    /// Whether pageblock `index` is absent.
    pub(super) fn is_absent(&self, index: u32) -> bool {
        self.types[index as usize].load(Ordering::Relaxed) == ABSENT
    }

    /// Removes pageblock `index`, which is isolated; `false` if not all of it is free.
    pub(crate) fn remove_pageblock(&mut self, index: u32) -> bool {
        let type_before = self.unisolated_type(index);
        let block = &mut self.blocks[index as usize];
        let isolated = MigrateType::Isolate as u8;
        let number = self.types[index as usize].load(Ordering::Relaxed);
        if number != isolated || !block.is_free() || self.lists.gigablocks.is_folded(index) {
            return false;
        }
        *block = Pageblock::empty();
        self.present.remove(index << PAGEBLOCK_ORDER, (index + 1) << PAGEBLOCK_ORDER);
        self.count_reserved(type_before, MigrateType::Movable);
        self.types[index as usize].store(ABSENT, Ordering::Relaxed);
        self.free[usize::from(isolated)] -= u64::from(FRAMES);
        self.isolated -= 1;
        true
    }
}

//! The fast search that compaction by two scanners begins with.

use crate::{
    buddy::{Buddy, MigrateType, lists::GRADES, pageblock::NIL},
    types::PAGEBLOCK_ORDER,
};

impl Buddy<'_> {
    /// The best pageblock by `better`, of all movable pageblocks that `is_eligible` accepts and
    /// whose largest free block is of order `least` to `order` - 1, below the order of a pageblock.
    /// Examines at most `entries` entries of the lists. Also returns the number of examined
    /// entries.
    pub(crate) fn find_listed(
        &self,
        (least, order): (u8, u8),
        entries: u32,
        is_eligible: impl Fn(u32) -> bool,
        better: impl Fn(u32, u32) -> bool,
    ) -> (Option<u32>, u32) {
        let (mut found, mut seen) = (None, 0);
        for free in (least..order.min(PAGEBLOCK_ORDER)).rev() {
            for grade in 0..GRADES {
                let mut at = self.lists.head_of(MigrateType::Movable, free * GRADES + grade);
                while at != NIL && seen < entries {
                    seen += 1;
                    if is_eligible(at) && found.is_none_or(|before| better(at, before)) {
                        found = Some(at);
                    }
                    at = self.blocks[at as usize].next;
                }
            }
        }
        (found, seen)
    }
}

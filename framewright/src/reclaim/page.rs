//! One page, and the operations on it under the LRU lock of its node.

use crate::{platform::Platform, types::Pfn};

use super::{
    flags::{Flags, Place},
    lists::End,
    node::{LockedLists, LruZone, Node},
};

/// The code that must free the frame of an abandoned page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FreedBy {
    /// The caller.
    Caller,
    /// The code that has isolated the page. If this is reclaim, reclaim frees the frame. For any
    /// other code, [`Lru::put_back`](super::Lru::put_back) returns `false`, and that code must free the frame.
    Isolator,
}

/// A page with its flags, zone and node.
pub(super) struct Page<'s, 'm, P: Platform> {
    pub(super) slot: u32,
    pub(super) flags: &'s Flags,
    pub(super) zone: &'s LruZone,
    pub(super) node: &'s Node<'m, P>,
}

impl<P: Platform> Clone for Page<'_, '_, P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P: Platform> Copy for Page<'_, '_, P> {}

impl<P: Platform> Page<'_, '_, P> {
    pub(super) fn pfn(&self) -> Pfn {
        self.zone.base.offset(u64::from(self.slot - self.zone.slots.start))
    }

    /// Adds the page to the list that its flags select. Under the LRU lock of its node.
    pub(super) fn link(&self, lists: &mut LockedLists<'_, '_, P>, end: End) {
        let list = self.flags.list();
        lists.insert(list, self.slot, end);
        self.zone.count(list, 1);
    }

    /// Removes the page from its list. Under the LRU lock of its node.
    pub(super) fn unlink(&self, lists: &mut LockedLists<'_, '_, P>) {
        let list = self.flags.list();
        lists.remove(list, self.slot);
        self.zone.count(list, -1);
    }

    /// Isolates the page if it is listed or pending. Under the LRU lock of its node. The caller
    /// adds the page to the count of isolated pages.
    pub(super) fn isolate(&self, lists: &mut LockedLists<'_, '_, P>) -> bool {
        let is_listed = self.flags.place() == Place::Listed;
        if is_listed {
            self.unlink(lists);
            self.flags.change_place(Place::Listed, Place::Isolated);
        } else if !self.flags.change_place(Place::Pending, Place::Isolated) {
            return false;
        }
        true
    }

    /// Removes the page from reclaim, or marks it for freeing if it is isolated. Returns who must
    /// free the frame. The caller holds the LRU lock of the node.
    pub(super) fn abandon(&self, lists: &mut LockedLists<'_, '_, P>) -> FreedBy {
        match self.flags.place() {
            Place::Isolated if self.flags.mark_for_freeing() => return FreedBy::Isolator,
            Place::Listed => self.unlink(lists),
            _ => {}
        }
        self.flags.reset();
        FreedBy::Caller
    }

    /// Ends the isolation of the page and adds it to its list. Returns `false` if it was marked for
    /// freeing instead. Under the LRU lock of its node. The caller subtracts it from the count of
    /// isolated pages.
    pub(super) fn put_back(&self, lists: &mut LockedLists<'_, '_, P>, end: End) -> bool {
        let stays = self.flags.end_isolation();
        if stays {
            self.link(lists, end);
        }
        stays
    }
}

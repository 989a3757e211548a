//! The state of a page in reclaim: a byte of flags per frame.
//!
//! Two bits are the place of the page ([`Place`]). The place, and the flags that select the list of
//! the page ([`Flags::list`]), change only under the LRU lock of the node. There are two
//! exceptions. The changes from *unknown* to *pending* and from *isolated* to *unknown* need no lock,
//! because no other code uses the page. The list of an isolated page is changed by the caller that has
//! isolated it. The other flags are hints and can change at any time. Therefore every change is an
//! atomic update of the whole byte.
//!
//! A CPU that moves a page from *listed* to *isolated* has claimed it; other CPUs do not touch the
//! page. A batch may have an entry for a page that was removed since, and perhaps added again. Such
//! a stale entry is harmless, because a page has one place only.

use crate::{
    sync::{AtomicU8, Ordering},
    types::{LruList, PageKind},
};

/// The place of a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(super) enum Place {
    /// Unknown to reclaim.
    Unknown = 0,
    /// In the batch of a CPU, to be added to a list.
    Pending = 1,
    /// On a list.
    Listed = 2,
    /// Removed from its list by a caller that will put it back or free it.
    Isolated = 3,
}

/// The bits of the place.
const PLACE: u8 = 3;

/// The flags of one frame.
#[repr(transparent)]
pub(crate) struct Flags(AtomicU8);

impl Flags {
    /// The page is locked into memory. Such a page is never active, so both flags together have
    /// another meaning: see [`Flags::mark_for_freeing`].
    pub(super) const UNEVICTABLE: u8 = 1 << 2;
    /// The page was used once since it became inactive.
    pub(super) const REFERENCED: u8 = 1 << 3;
    /// The page was active before: it is part of the workingset.
    pub(super) const WORKINGSET: u8 = 1 << 4;
    /// The page is to be reclaimed when its writeback ends.
    pub(super) const RECLAIM: u8 = 1 << 5;
    /// The page belongs on an active list. This flag and the next are the index of the list in
    /// [`LruList::EVICTABLE`].
    pub(super) const ACTIVE: u8 = 1 << 6;
    /// The page belongs to a file.
    pub(super) const FILE: u8 = 1 << 7;

    const FREE_ON_PUT_BACK: u8 = Self::ACTIVE | Self::UNEVICTABLE;

    pub(crate) fn new() -> Self {
        Self(AtomicU8::new(0))
    }

    /// The current flags.
    #[inline(always)]
    pub(super) fn get(&self) -> Snapshot {
        Snapshot(self.0.load(Ordering::Acquire))
    }

    pub(super) fn place(&self) -> Place {
        self.get().place()
    }

    /// Moves the page to another place if it is at `from`. Of several concurrent callers, one
    /// succeeds.
    pub(super) fn change_place(&self, from: Place, to: Place) -> bool {
        self.update(|flags| (flags & PLACE == from as u8).then_some(flags & !PLACE | to as u8))
    }

    #[inline(always)]
    fn update(&self, change: impl FnMut(u8) -> Option<u8>) -> bool {
        self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, change).is_ok()
    }

    /// Makes an unknown page pending, with these flags. Returns `false` if the page is known
    /// already.
    #[inline(always)]
    pub(super) fn begin(&self, flags: u8) -> bool {
        self.update(|old| {
            (old & PLACE == Place::Unknown as u8).then_some(flags | Place::Pending as u8)
        })
    }

    /// Moves a pending page to *listed*. The caller holds the LRU lock of the node and has seen the
    /// page pending, so no other code moves it.
    #[inline(always)]
    pub(super) fn set_listed(&self) {
        self.0.fetch_xor(Place::Pending as u8 ^ Place::Listed as u8, Ordering::AcqRel);
    }

    /// As [`Flags::set_listed`], if the page is pending for the same list as another one with flags
    /// `other`.
    #[inline(always)]
    pub(super) fn set_listed_if_like(&self, other: Snapshot) -> bool {
        let is_like = self.get().is_like(other);
        if is_like {
            self.set_listed();
        }
        is_like
    }

    /// As [`Flags::reset`], if the page is on the same list as another one with flags `other`.
    #[inline(always)]
    pub(super) fn reset_if_like(&self, other: Snapshot) -> bool {
        let is_like = self.get().is_like(other);
        if is_like {
            self.reset();
        }
        is_like
    }

    /// Marks an isolated page as abandoned by its owner: the caller that has isolated it must free
    /// it. Returns `false` if the page is not isolated. Under the LRU lock of its node.
    pub(super) fn mark_for_freeing(&self) -> bool {
        self.update(|flags| {
            let is_isolated = flags & PLACE == Place::Isolated as u8;
            is_isolated.then_some(flags | Self::FREE_ON_PUT_BACK)
        })
    }

    /// Moves an isolated page to *listed*. If it was marked for freeing meanwhile, it becomes
    /// unknown instead, and the method returns `false`.
    pub(super) fn end_isolation(&self) -> bool {
        let mut is_marked = false;
        self.update(|flags| {
            is_marked = flags & Self::FREE_ON_PUT_BACK == Self::FREE_ON_PUT_BACK;
            Some(if is_marked { 0 } else { flags & !PLACE | Place::Listed as u8 })
        });
        !is_marked
    }

    /// Makes the page active, unless it is locked into memory. Returns whether this changed the
    /// page.
    pub(super) fn activate(&self) -> bool {
        self.update(|flags| {
            let is_inactive = flags & Self::FREE_ON_PUT_BACK == 0;
            is_inactive.then_some(flags & !Self::REFERENCED | Self::ACTIVE)
        })
    }

    /// Makes the page inactive. Returns whether this changed the page.
    pub(super) fn deactivate(&self) -> bool {
        self.update(|flags| {
            let is_active = flags & Self::FREE_ON_PUT_BACK == Self::ACTIVE;
            is_active.then_some(flags & !(Self::REFERENCED | Self::ACTIVE))
        })
    }

    /// Sets or clears whether the page is locked into memory.
    pub(super) fn set_unevictable(&self, unevictable: bool) {
        self.update(|flags| {
            let is_marked = flags & Self::FREE_ON_PUT_BACK == Self::FREE_ON_PUT_BACK;
            let inactive = flags & !Self::FREE_ON_PUT_BACK;
            (!is_marked).then_some(if unevictable {
                inactive | Self::UNEVICTABLE
            } else {
                flags & !Self::UNEVICTABLE
            })
        });
    }

    /// Clears all flags: the page is unknown. The caller has claimed the page and frees it.
    #[inline(always)]
    pub(super) fn reset(&self) {
        self.0.store(0, Ordering::Release);
    }

    pub(super) fn has(&self, flag: u8) -> bool {
        self.get().has(flag)
    }

    /// Sets hints.
    pub(super) fn set(&self, hint: u8) {
        self.0.fetch_or(hint, Ordering::AcqRel);
    }

    /// Clears a hint. Returns whether it was set.
    pub(super) fn clear(&self, hint: u8) -> bool {
        self.0.fetch_and(!hint, Ordering::AcqRel) & hint != 0
    }

    /// The kind of the page.
    pub(super) fn kind(&self) -> PageKind {
        if self.has(Self::FILE) { PageKind::File } else { PageKind::Anon }
    }

    /// The list that the page belongs on.
    pub(super) fn list(&self) -> LruList {
        self.get().list()
    }
}

/// The flags of a page at one moment.
#[derive(Clone, Copy)]
pub(super) struct Snapshot(u8);

impl Snapshot {
    #[inline(always)]
    pub(super) fn place(self) -> Place {
        match self.0 & PLACE {
            0 => Place::Unknown,
            1 => Place::Pending,
            2 => Place::Listed,
            _ => Place::Isolated,
        }
    }

    fn has(self, flag: u8) -> bool {
        self.0 & flag != 0
    }

    /// Whether both pages are at the same place and belong on the same list.
    #[inline(always)]
    fn is_like(self, other: Self) -> bool {
        (self.0 ^ other.0) & (PLACE | Flags::UNEVICTABLE | Flags::ACTIVE | Flags::FILE) == 0
    }

    /// The list that the page belongs on.
    #[inline(always)]
    pub(super) fn list(self) -> LruList {
        if self.0 & Flags::UNEVICTABLE != 0 {
            return LruList::Unevictable;
        }
        LruList::EVICTABLE[usize::from(self.0 >> 6)]
    }
}

//! What reclaim knows of a page: a byte of flags per frame.
//!
//! Two bits say where the page is ([`Place`]). That part, and what decides on which list the page
//! is ([`Flags::list`]), changes under the LRU lock of its node only; but for its way from *off* to
//! *pending*, and from *isolated* to *off*, when nobody else knows the page. The other flags are
//! hints, and change at any time: hence every change is an atomic one of the whole byte.
//!
//! Whoever moves a page from *listed* to *isolated* has it to himself: others see that and leave it
//! alone. An entry that some CPU's batch keeps of a page which has gone since, and perhaps come
//! again, is harmless, because the page is where it is only once.

use crate::sync::{AtomicU8, Ordering};

use super::kind::{LruList, PageKind};

/// Where a page is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(super) enum Place {
    /// Unknown to reclaim.
    Unknown = 0,
    /// In some CPU's batch, on its way to a list.
    Pending = 1,
    /// On a list.
    Listed = 2,
    /// Somebody has taken it off its list, and will put it back or free it.
    Isolated = 3,
}

const PLACE: u8 = 3;

/// The flags of one frame.
#[repr(transparent)]
pub(crate) struct Flags(AtomicU8);

impl Flags {
    /// It is locked into memory. Such a page is never active; so together the two mean something
    /// else, see [`Flags::mark_for_freeing`].
    pub(super) const UNEVICTABLE: u8 = 1 << 2;
    /// It was used once since it became inactive.
    pub(super) const REFERENCED: u8 = 1 << 3;
    /// It has been active: it belongs to what is worked with.
    pub(super) const WORKINGSET: u8 = 1 << 4;
    /// It is to be reclaimed as soon as it has been written.
    pub(super) const RECLAIM: u8 = 1 << 5;
    /// It belongs on an active list. This and the next are the number of that list.
    pub(super) const ACTIVE: u8 = 1 << 6;
    /// There is a file behind it.
    pub(super) const FILE: u8 = 1 << 7;

    const FREE_ON_PUT_BACK: u8 = Self::ACTIVE | Self::UNEVICTABLE;

    pub(crate) fn new() -> Self {
        Self(AtomicU8::new(0))
    }

    /// What they are now.
    #[inline(always)]
    pub(super) fn get(&self) -> Snapshot {
        Snapshot(self.0.load(Ordering::Acquire))
    }

    pub(super) fn place(&self) -> Place {
        self.get().place()
    }

    /// Moves the page if it is at `from`; of several who try, one succeeds.
    pub(super) fn change_place(&self, from: Place, to: Place) -> bool {
        self.update(|flags| (flags & PLACE == from as u8).then_some(flags & !PLACE | to as u8))
    }

    #[inline(always)]
    fn update(&self, change: impl FnMut(u8) -> Option<u8>) -> bool {
        self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, change).is_ok()
    }

    /// Begins the life of a page that is unknown; `false` if it is known.
    #[inline(always)]
    pub(super) fn begin(&self, flags: u8) -> bool {
        self.update(|old| {
            (old & PLACE == Place::Unknown as u8).then_some(flags | Place::Pending as u8)
        })
    }

    /// Ends the waiting of a page: it is on a list from now on. For who holds the LRU lock of its node, and
    /// has seen it wait: nobody else ends that.
    #[inline(always)]
    pub(super) fn set_listed(&self) {
        self.0.fetch_xor(Place::Pending as u8 ^ Place::Listed as u8, Ordering::AcqRel);
    }

    /// [`Flags::set_listed`], if the page waits for the same list as another, of which this was seen.
    #[inline(always)]
    pub(super) fn set_listed_if_like(&self, other: Snapshot) -> bool {
        let is_like = self.get().is_like(other);
        if is_like {
            self.set_listed();
        }
        is_like
    }

    /// [`Flags::reset`], if the page is on the same list as another, of which this was seen.
    #[inline(always)]
    pub(super) fn reset_if_like(&self, other: Snapshot) -> bool {
        let is_like = self.get().is_like(other);
        if is_like {
            self.reset();
        }
        is_like
    }

    /// Says of an isolated page that it has no owner any more: who has isolated it is to free it.
    /// `false` if it is not isolated. Under the LRU lock of its node.
    pub(super) fn mark_for_freeing(&self) -> bool {
        self.update(|flags| {
            let is_isolated = flags & PLACE == Place::Isolated as u8;
            is_isolated.then_some(flags | Self::FREE_ON_PUT_BACK)
        })
    }

    /// Ends the isolation of a page by listing it, unless it was is_marked meanwhile: then it is
    /// unknown from now on, and `false`.
    pub(super) fn end_isolation(&self) -> bool {
        let mut is_marked = false;
        self.update(|flags| {
            is_marked = flags & Self::FREE_ON_PUT_BACK == Self::FREE_ON_PUT_BACK;
            Some(if is_marked { 0 } else { flags & !PLACE | Place::Listed as u8 })
        });
        !is_marked
    }

    /// Has it belong on the active list, unless it is locked into memory. Says whether that is new.
    pub(super) fn activate(&self) -> bool {
        self.update(|flags| {
            let apart = flags & Self::FREE_ON_PUT_BACK != 0;
            (!apart).then_some(flags & !Self::REFERENCED | Self::ACTIVE)
        })
    }

    /// Has it belong on the inactive list. Says whether that is new.
    pub(super) fn deactivate(&self) -> bool {
        self.update(|flags| {
            let is_active = flags & Self::FREE_ON_PUT_BACK == Self::ACTIVE;
            is_active.then_some(flags & !(Self::REFERENCED | Self::ACTIVE))
        })
    }

    /// Has it belong on the list of pages that are locked into memory, or no longer.
    pub(super) fn set_unevictable(&self, unevictable: bool) {
        self.update(|flags| {
            let is_marked = flags & Self::FREE_ON_PUT_BACK == Self::FREE_ON_PUT_BACK;
            let free = flags & !Self::FREE_ON_PUT_BACK;
            (!is_marked).then_some(if unevictable {
                free | Self::UNEVICTABLE
            } else {
                flags & !Self::UNEVICTABLE
            })
        });
    }

    /// Forgets the page. For who has claimed it and frees it.
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

    /// Clears a hint; says whether it was set.
    pub(super) fn clear(&self, hint: u8) -> bool {
        self.0.fetch_and(!hint, Ordering::AcqRel) & hint != 0
    }

    /// What is behind the page.
    pub(super) fn kind(&self) -> PageKind {
        if self.has(Self::FILE) { PageKind::File } else { PageKind::Anon }
    }

    /// The list it belongs on.
    pub(super) fn list(&self) -> LruList {
        self.get().list()
    }
}

/// Flags as they were when somebody looked.
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

    /// Whether both are of pages at the same place that belong on the same list.
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

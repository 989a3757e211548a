//! The state of one page of a file: one word, which all threads change atomically.
//!
//! ```text
//!              claim                 publish                choose
//!   ABSENT ─────────────► LOCKED ───────────► RESIDENT ◄───────────► RESIDENT+CHOSEN
//!     ▲ ▲                   ▲ │                  │ fix: pins + 1        │ unmap
//!     │ └─ end_eviction: ───┼─┘                  ▼ release: pins - 1    ▼
//!     │    not read         │ claim (rescued)                       UNMAPPED
//!     │ end_eviction        └────────────────────────────────────────── │
//!     └──────────────────── EVICTING ◄─────── begin_eviction ───────────┘
//! ```
//!
//! On a resident page, one [`PageLock`] owns LOCKED while the page is written. CHOSEN belongs to reclaim. Reclaim
//! identifies pages by their frames, and may be wrong, because any user of the memory can change its LRU lists. So each
//! step of reclaim is one compare-exchange. It succeeds only if the page is in this frame, chosen, and not in use.
//!
//! An UNMAPPED page has no frame any more, but its contents are still in memory. A thread that
//! needs the page before the kernel frees its memory rescues it. While the page is EVICTING, the
//! system call is running, and all other threads that need the page wait for its end.

use std::sync::atomic::{
    AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};

/// The page is in memory, and has a frame.
const RESIDENT: u64 = 1;
/// The page is being read or written.
const LOCKED: u64 = 1 << 1;
/// A thread may have stored to the page since it was read or last written.
const DIRTY: u64 = 1 << 2;
/// The page was used since the last check of its references.
const ACCESSED: u64 = 1 << 3;
/// Reclaim wrote the page, and the end of the write is not yet reported to the library.
const WRITEBACK: u64 = 1 << 4;
/// The last attempt to write the page failed.
const FAILED: u64 = 1 << 5;
/// The page is on a list of pages whose memory the kernel is to free.
const UNMAPPED: u64 = 1 << 6;
/// The kernel is freeing the memory of the page.
const EVICTING: u64 = 1 << 7;
/// Reclaim has chosen the page.
const CHOSEN: u64 = 1 << 8;
/// One user of the page.
const PIN: u64 = 1 << 16;
const PINS: u64 = 0xffff << 16;
/// Maximum number of users at the same time.
pub(super) const PINS_MAX: u32 = (PINS / PIN) as u32;
/// The shift of the frame number. Frames are numbered from the first frame of the machine.
const FRAME: u32 = 32;

/// The state of a page.
#[derive(Default)]
pub(super) struct PageState(AtomicU64);

/// The kind of a use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Access {
    Read,
    /// The use makes the page dirty.
    Store,
}

impl Access {
    const fn marks(self) -> u64 {
        match self {
            Self::Read => ACCESSED,
            Self::Store => ACCESSED | DIRTY,
        }
    }
}

/// The caller of a write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Writer {
    Sync,
    Reclaim,
}

/// The result of trying to use a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fix {
    /// The page stays in memory until it is released. `dirtied`: this use made a clean page dirty.
    Fixed { dirtied: bool },
    /// The page is locked, chosen or being evicted, for a short time.
    Busy,
    /// The page has no frame: it is not in memory, or unmapped.
    Absent,
    /// The page has the maximum number of users. All of them may be this thread, so the caller must
    /// not wait.
    TooMany,
}

/// The result of trying to claim a missing page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Claim {
    /// The page is locked, and the caller must read it.
    Read,
    /// The page is locked, and its contents are still in memory.
    Rescue,
    /// Another thread has claimed the page, or it is no longer missing.
    Taken,
}

/// The state of a page when it was chosen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Chosen {
    pub(super) dirty: bool,
    pub(super) writeback: bool,
}

/// The result of unmapping a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum UnmapResult {
    /// Unmapped: the page no longer has a frame.
    Unmapped,
    /// The page is dirty.
    Dirty,
    /// The page is not in this frame, not chosen any more, or being written.
    Refused,
}

/// A lock of a page. The page is not in use, and cannot be used while this value lives.
#[must_use = "the page is locked only while this value lives"]
pub(super) struct PageLock<'p>(&'p PageState);

impl Drop for PageLock<'_> {
    fn drop(&mut self) {
        self.0.0.fetch_and(!LOCKED, Release);
    }
}

impl PageLock<'_> {
    /// Records that the page was written. If reclaim wrote it, the page stays under writeback until
    /// the end of the write is reported to the library.
    pub(super) fn written(&self, by: Writer) {
        self.0.0.fetch_and(!(DIRTY | FAILED), Release);
        if by == Writer::Reclaim {
            self.0.0.fetch_or(WRITEBACK, Release);
        }
    }

    /// Records that the write failed. The page stays dirty.
    pub(super) fn not_written(&self) {
        self.0.0.fetch_or(FAILED, Release);
    }

    /// Whether this is the lock of that page.
    pub(super) fn is_of(&self, page: &PageState) -> bool {
        std::ptr::eq(self.0, page)
    }
}

impl PageState {
    /// Starts a use of the page.
    #[inline]
    pub(super) fn fix(&self, access: Access) -> Fix {
        let mut now = self.0.load(Relaxed);
        loop {
            if now & PINS == PINS {
                return Fix::TooMany;
            }
            if now & (RESIDENT | LOCKED | CHOSEN) != RESIDENT {
                return if now & !UNMAPPED == 0 { Fix::Absent } else { Fix::Busy };
            }
            match self.0.compare_exchange_weak(now, (now + PIN) | access.marks(), Acquire, Relaxed)
            {
                Ok(_) => {
                    return Fix::Fixed { dirtied: access == Access::Store && now & DIRTY == 0 };
                }
                Err(other) => now = other,
            }
        }
    }

    /// Ends a use of the page.
    #[inline]
    pub(super) fn release(&self) {
        self.0.fetch_sub(PIN, Release);
    }

    /// Claims the page if it is missing. The caller must then read or rescue it.
    pub(super) fn claim(&self) -> Claim {
        let now = self.0.load(Relaxed);
        let claim = match now {
            0 => Claim::Read,
            UNMAPPED => Claim::Rescue,
            _ => return Claim::Taken,
        };
        let claimed = self.0.compare_exchange(now, LOCKED, AcqRel, Relaxed);
        if claimed.is_ok() { claim } else { Claim::Taken }
    }

    /// Makes the claimed page usable in this frame. `fixed`: the caller's use of the page.
    pub(super) fn publish(&self, frame: u32, fixed: Option<Access>) {
        let used = fixed.map_or(0, |access| PIN | access.marks());
        self.0.store(u64::from(frame) << FRAME | RESIDENT | used, Release);
    }

    /// Replaces the word with the result of `next`. Returns the old word, or `None` if `next`
    /// refuses.
    fn change(&self, next: impl FnMut(u64) -> Option<u64>) -> Option<u64> {
        self.0.fetch_update(AcqRel, Acquire, next).ok()
    }

    /// Chooses the page for reclaim if it is in this frame, not in use, not being written, and not chosen.
    pub(super) fn choose(&self, frame: u32) -> Option<Chosen> {
        let is_idle = |now| is_in(now, frame) && now & (LOCKED | CHOSEN | PINS) == 0;
        let before = self.change(|now| is_idle(now).then_some(now | CHOSEN))?;
        let [dirty, writeback] = [DIRTY, WRITEBACK].map(|flag| before & flag != 0);
        Some(Chosen { dirty, writeback })
    }

    /// Ends the choice by reclaim, if the page is in this frame.
    pub(super) fn unchoose(&self, frame: u32) {
        self.change(|now| (is_in(now, frame) && now & CHOSEN != 0).then_some(now & !CHOSEN));
    }

    /// Locks the page if it is in this frame and was chosen.
    pub(super) fn lock_chosen(&self, frame: u32) -> Option<PageLock<'_>> {
        let is_chosen = |now| is_in(now, frame) && now & (LOCKED | CHOSEN | PINS) == CHOSEN;
        self.change(|now| is_chosen(now).then_some(now | LOCKED)).map(|_| PageLock(self))
    }

    /// Locks the page if it is in memory, dirty, not in use, not being written, and not chosen.
    pub(super) fn try_lock_dirty(&self) -> Option<PageLock<'_>> {
        const ALL: u64 = RESIDENT | DIRTY | LOCKED | CHOSEN | PINS;
        let is_idle = |now| now & ALL == RESIDENT | DIRTY;
        self.change(|now| is_idle(now).then_some(now | LOCKED)).map(|_| PageLock(self))
    }

    /// Clears the mark of a use. Returns whether the page is in this frame and was used since the
    /// last call.
    pub(super) fn take_accessed(&self, frame: u32) -> bool {
        let was_used = |now| is_in(now, frame) && now & ACCESSED != 0;
        was_used(self.0.load(Relaxed))
            && self.change(|now| was_used(now).then_some(now & !ACCESSED)).is_some()
    }

    /// Unmaps the page and removes it from its frame, if it is in this frame, chosen and clean.
    pub(super) fn unmap(&self, frame: u32) -> UnmapResult {
        let is_chosen = |now| is_in(now, frame) && now & (LOCKED | CHOSEN | PINS) == CHOSEN;
        let may_leave = |now| is_chosen(now) && now & DIRTY == 0;
        match self.0.fetch_update(AcqRel, Acquire, |now| may_leave(now).then_some(UNMAPPED)) {
            Ok(_) => UnmapResult::Unmapped,
            Err(now) if is_chosen(now) => UnmapResult::Dirty,
            Err(_) => UnmapResult::Refused,
        }
    }

    /// Begins the eviction of an unmapped page. Returns `false` if the page was rescued.
    pub(super) fn begin_eviction(&self) -> bool {
        self.0.compare_exchange(UNMAPPED, EVICTING, AcqRel, Relaxed).is_ok()
    }

    /// Whether the kernel is freeing the memory of the page.
    pub(super) fn is_evicting(&self) -> bool {
        self.0.load(Acquire) == EVICTING
    }

    /// Marks the page as absent: its memory is freed, or the claim on it has ended.
    pub(super) fn end_eviction(&self) {
        self.0.store(0, Release);
    }

    /// Records that the end of the write was reported to the library.
    pub(super) fn end_writeback(&self) {
        self.0.fetch_and(!WRITEBACK, Release);
    }

    pub(super) fn is_dirty(&self) -> bool {
        self.0.load(Acquire) & DIRTY != 0
    }

    /// Whether the page is in use.
    pub(super) fn is_fixed(&self) -> bool {
        self.0.load(Acquire) & PINS != 0
    }

    pub(super) fn is_resident(&self) -> bool {
        self.0.load(Acquire) & RESIDENT != 0
    }

    pub(super) fn has_failed(&self) -> bool {
        self.0.load(Acquire) & FAILED != 0
    }

    /// The number of the page's frame.
    #[cfg(test)]
    pub(super) fn frame(&self) -> Option<u32> {
        let now = self.0.load(Acquire);
        (now & RESIDENT != 0).then_some((now >> FRAME) as u32)
    }
}

/// Whether a page with the word `now` is in this frame.
fn is_in(now: u64, frame: u32) -> bool {
    now & RESIDENT != 0 && now >> FRAME == u64::from(frame)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLEAN: Chosen = Chosen { dirty: false, writeback: false };

    /// A page in frame 7.
    fn resident() -> PageState {
        let page = PageState::default();
        assert_eq!((page.fix(Access::Read), page.claim()), (Fix::Absent, Claim::Read));
        page.publish(7, None);
        page
    }

    #[test]
    fn a_page_in_use_stays_in_its_frame() {
        let page = resident();
        assert_eq!(page.fix(Access::Read), Fix::Fixed { dirtied: false });
        assert_eq!(page.choose(7), None);
        page.release();
        assert_eq!(page.choose(8), None, "the page was chosen although it is in another frame");
        assert_eq!(page.choose(7), Some(CLEAN));
        assert_eq!((page.fix(Access::Read), page.claim()), (Fix::Busy, Claim::Taken));
        page.unchoose(8);
        assert_eq!(page.fix(Access::Read), Fix::Busy);
        page.unchoose(7);
        assert!(page.take_accessed(7) && !page.take_accessed(7));
    }

    #[test]
    fn a_dirty_page_does_not_leave_before_it_is_written() {
        let page = resident();
        assert_eq!(page.fix(Access::Store), Fix::Fixed { dirtied: true });
        assert_eq!(page.fix(Access::Store), Fix::Fixed { dirtied: false });
        page.release();
        page.release();
        assert_eq!(page.choose(7), Some(Chosen { dirty: true, writeback: false }));
        assert_eq!(page.unmap(7), UnmapResult::Dirty);
        page.lock_chosen(7).unwrap().not_written();
        assert!(page.has_failed() && page.is_dirty());
        page.lock_chosen(7).unwrap().written(Writer::Reclaim);
        assert!(!page.has_failed());
        assert_eq!(page.unmap(7), UnmapResult::Unmapped);
    }

    #[test]
    fn nothing_is_done_to_a_page_that_is_in_use_or_not_chosen() {
        let page = resident();
        for chosen in [false, true] {
            assert_eq!(page.fix(Access::Store), Fix::Fixed { dirtied: !chosen });
            assert_eq!(page.choose(7), None);
            page.unchoose(7);
            assert_eq!(page.unmap(7), UnmapResult::Refused);
            assert!(page.lock_chosen(7).is_none() && page.try_lock_dirty().is_none());
            page.release();
            assert!(
                page.lock_chosen(7).is_none(),
                "the page was locked although it is neither in use nor chosen"
            );
            assert_eq!(page.unmap(7), UnmapResult::Refused);
            assert!(page.choose(7).is_some());
            assert!(page.lock_chosen(8).is_none() && page.try_lock_dirty().is_none());
            page.unchoose(7);
        }
    }

    #[test]
    fn reclaim_cannot_unlock_a_page_that_is_being_written() {
        let page = resident();
        assert_eq!(page.fix(Access::Store), Fix::Fixed { dirtied: true });
        page.release();
        page.choose(7).unwrap();
        let lock = page.lock_chosen(7).unwrap();
        page.unchoose(7);
        assert_eq!((page.fix(Access::Store), page.choose(7)), (Fix::Busy, None));
        assert_eq!(page.unmap(7), UnmapResult::Refused);
        lock.written(Writer::Sync);
        drop(lock);
        assert_eq!(page.fix(Access::Read), Fix::Fixed { dirtied: false });
    }

    #[test]
    fn an_unmapped_page_is_rescued_until_its_eviction() {
        let page = resident();
        page.choose(7).unwrap();
        assert_eq!(page.unmap(7), UnmapResult::Unmapped);
        assert_eq!((page.fix(Access::Read), page.claim()), (Fix::Absent, Claim::Rescue));
        assert!(!page.begin_eviction(), "the eviction of a rescued page began");
        page.publish(u32::MAX, Some(Access::Read));
        page.release();
        page.choose(u32::MAX).unwrap();
        assert_eq!(page.unmap(u32::MAX), UnmapResult::Unmapped);
        assert!(page.begin_eviction());
        assert_eq!((page.fix(Access::Read), page.claim()), (Fix::Busy, Claim::Taken));
        assert!(page.is_evicting() && !page.begin_eviction());
        page.end_eviction();
        assert_eq!(page.claim(), Claim::Read);
    }
}

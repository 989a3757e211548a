//! What is known of one page of a file: a word that everybody changes by compare-exchange.
//!
//! ```text
//!              claim                 publish               try_lock
//!   ABSENT ─────────────► LOCKED ───────────► RESIDENT ◄───────────► RESIDENT+LOCKED
//!     ▲ ▲                   ▲ │                  │ fix: pins + 1        │ leave
//!     │ └─ end_giving: not ─┼─┘                  ▼ release: pins - 1    ▼
//!     │    brought in       │ claim (rescued)                        LEAVING
//!     │ end_giving          └────────────────────────────────────────── │
//!     └──────────────────── GIVING ◄──────── begin_giving ──────────────┘
//! ```
//!
//! A page that is LEAVING has no frame any more, but its contents are still where they were: who
//! wants it before the kernel is told takes it back. While it is GIVING the kernel is being told,
//! and everybody waits for that.

use framewright::Pfn;
use std::sync::atomic::{
    AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};

/// It is in memory, and has a frame.
const RESIDENT: u64 = 1;
/// Somebody is bringing it in, writing it, or about to take it out.
const LOCKED: u64 = 1 << 1;
/// Stored to since it was read, or last written.
const DIRTY: u64 = 1 << 2;
/// Used since somebody asked last.
const ACCESSED: u64 = 1 << 3;
/// Written, and reclaim is to be told.
const WRITEBACK: u64 = 1 << 4;
/// The last attempt to write it failed.
const FAILED: u64 = 1 << 5;
/// On a list of pages that the kernel is to take back.
const LEAVING: u64 = 1 << 6;
/// The kernel is taking it back.
const GIVING: u64 = 1 << 7;
/// One who uses it.
const PIN: u64 = 1 << 16;
const PINS: u64 = 0xffff << 16;
/// Those who can use it at once.
pub(super) const PINS_MAX: u32 = (PINS / PIN) as u32;
/// Where the number of the frame begins.
const FRAME: u32 = 32;

/// See the module.
#[derive(Default)]
pub(super) struct PageState(AtomicU64);

/// What came of trying to use a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fix {
    /// It stays where it is until it is released; whether it has become dirty by that.
    Fixed { dirtied: bool },
    /// Somebody has locked it: for a moment.
    Busy,
    /// It is not in memory.
    Absent,
    /// As many use it as can be counted. Perhaps one thread: it would wait for itself.
    TooMany,
}

/// What came of trying to bring a page in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Claim {
    /// It is the caller's to bring in: locked.
    Read,
    /// It is the caller's, locked, and its contents are still there.
    Rescue,
    /// Somebody else is at it, or was.
    Taken,
}

/// What a page that was locked is like.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Locked {
    pub(super) dirty: bool,
    pub(super) writeback: bool,
}

impl PageState {
    /// Uses the page, to store to it if `stores`.
    #[inline]
    pub(super) fn fix(&self, stores: bool) -> Fix {
        let mut now = self.0.load(Relaxed);
        loop {
            if now & PINS == PINS {
                return Fix::TooMany;
            }
            if now & (RESIDENT | LOCKED) != RESIDENT {
                return if now & !LEAVING == 0 { Fix::Absent } else { Fix::Busy };
            }
            let marks = if stores { ACCESSED | DIRTY } else { ACCESSED };
            match self.0.compare_exchange_weak(now, (now + PIN) | marks, Acquire, Relaxed) {
                Ok(_) => return Fix::Fixed { dirtied: stores && now & DIRTY == 0 },
                Err(other) => now = other,
            }
        }
    }

    /// Uses it no longer.
    #[inline]
    pub(super) fn release(&self) {
        self.0.fetch_sub(PIN, Release);
    }

    /// Takes on to bring the page in.
    pub(super) fn claim(&self) -> Claim {
        let now = self.0.load(Relaxed);
        let claim = match now {
            0 => Claim::Read,
            LEAVING => Claim::Rescue,
            _ => return Claim::Taken,
        };
        let claimed = self.0.compare_exchange(now, LOCKED, AcqRel, Relaxed);
        if claimed.is_ok() { claim } else { Claim::Taken }
    }

    /// The page that was claimed is in memory, and has this frame; the caller has fixed it if it
    /// says what for.
    pub(super) fn publish(&self, frame: Pfn, fixed: Option<bool>) {
        let used = match fixed {
            None => 0,
            Some(false) => PIN | ACCESSED,
            Some(true) => PIN | ACCESSED | DIRTY,
        };
        self.0.store(frame.get() << FRAME | RESIDENT | used, Release);
    }

    /// Locks the page if it is in this frame, and nobody uses it or has locked it.
    pub(super) fn try_lock(&self, frame: Pfn) -> Option<Locked> {
        let mut now = self.0.load(Relaxed);
        loop {
            let here = now & RESIDENT != 0 && now >> FRAME == frame.get();
            if !here || now & (LOCKED | PINS) != 0 {
                return None;
            }
            match self.0.compare_exchange_weak(now, now | LOCKED, Acquire, Relaxed) {
                Ok(_) => {
                    let [dirty, writeback] = [DIRTY, WRITEBACK].map(|flag| now & flag != 0);
                    return Some(Locked { dirty, writeback });
                }
                Err(other) => now = other,
            }
        }
    }

    /// Unlocks it.
    pub(super) fn unlock(&self) {
        self.0.fetch_and(!LOCKED, Release);
    }

    /// Whether it was used since this was asked last, if it is in this frame.
    pub(super) fn take_accessed(&self, frame: Pfn) -> bool {
        let now = self.0.load(Relaxed);
        let here = now & RESIDENT != 0 && now >> FRAME == frame.get();
        here && now & ACCESSED != 0 && self.0.fetch_and(!ACCESSED, Relaxed) & ACCESSED != 0
    }

    /// The locked page, which is clean, loses its frame. Whether it did: not if it is dirty.
    pub(super) fn leave(&self) -> bool {
        if self.is_dirty() {
            return false;
        }
        self.0.store(LEAVING, Release);
        true
    }

    /// The kernel is about to take a page back that was leaving. Not if somebody has rescued it.
    pub(super) fn begin_giving(&self) -> bool {
        self.0.compare_exchange(LEAVING, GIVING, AcqRel, Relaxed).is_ok()
    }

    /// Whether somebody else is having the kernel take it back.
    pub(super) fn is_giving(&self) -> bool {
        self.0.load(Acquire) == GIVING
    }

    /// The kernel has taken it back, or what there was of a page that was claimed.
    pub(super) fn end_giving(&self) {
        self.0.store(0, Release);
    }

    /// The locked page was written. If reclaim began that, it is to be told, and the page is under
    /// write-back until then.
    pub(super) fn written(&self, by_reclaim: bool) {
        self.0.fetch_and(!(DIRTY | FAILED), Release);
        if by_reclaim {
            self.0.fetch_or(WRITEBACK, Release);
        }
    }

    /// The locked page could not be written: it stays dirty.
    pub(super) fn not_written(&self) {
        self.0.fetch_or(FAILED, Release);
    }

    /// Reclaim was told.
    pub(super) fn end_writeback(&self) {
        self.0.fetch_and(!WRITEBACK, Release);
    }

    pub(super) fn is_dirty(&self) -> bool {
        self.0.load(Acquire) & DIRTY != 0
    }

    /// Whether somebody uses it.
    pub(super) fn is_fixed(&self) -> bool {
        self.0.load(Acquire) & PINS != 0
    }

    pub(super) fn is_resident(&self) -> bool {
        self.0.load(Acquire) & RESIDENT != 0
    }

    pub(super) fn has_failed(&self) -> bool {
        self.0.load(Acquire) & FAILED != 0
    }

    /// The frame that it is in.
    pub(super) fn frame(&self) -> Option<Pfn> {
        let now = self.0.load(Acquire);
        (now & RESIDENT != 0).then(|| Pfn::new(now >> FRAME))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAME_7: Pfn = Pfn::new(7);

    fn resident() -> PageState {
        let page = PageState::default();
        assert_eq!((page.fix(false), page.claim()), (Fix::Absent, Claim::Read));
        page.publish(FRAME_7, None);
        page
    }

    #[test]
    fn who_uses_a_page_keeps_it_where_it_is() {
        let page = resident();
        assert_eq!(page.fix(false), Fix::Fixed { dirtied: false });
        assert_eq!(page.try_lock(FRAME_7), None);
        page.release();
        assert_eq!(page.try_lock(Pfn::new(8)), None, "it is in another frame");
        assert_eq!(page.try_lock(FRAME_7), Some(Locked { dirty: false, writeback: false }));
        assert_eq!((page.fix(false), page.claim()), (Fix::Busy, Claim::Taken));
        page.unlock();
        assert!(page.take_accessed(FRAME_7) && !page.take_accessed(FRAME_7));
    }

    #[test]
    fn a_dirty_page_does_not_leave_before_it_is_written() {
        let page = resident();
        assert_eq!(page.fix(true), Fix::Fixed { dirtied: true });
        assert_eq!(page.fix(true), Fix::Fixed { dirtied: false });
        page.release();
        page.release();
        assert_eq!(page.try_lock(FRAME_7), Some(Locked { dirty: true, writeback: false }));
        assert!(!page.leave());
        page.not_written();
        assert!(page.has_failed() && page.is_dirty());
        page.written(true);
        assert!(!page.has_failed() && page.leave());
    }

    #[test]
    fn what_leaves_is_rescued_until_the_kernel_is_told() {
        let page = resident();
        page.try_lock(FRAME_7).unwrap();
        assert!(page.leave());
        assert_eq!((page.fix(false), page.claim()), (Fix::Absent, Claim::Rescue));
        assert!(!page.begin_giving(), "somebody has it");
        page.publish(Pfn::new(9), Some(false));
        page.release();
        page.try_lock(Pfn::new(9)).unwrap();
        assert!(page.leave() && page.begin_giving());
        assert_eq!((page.fix(false), page.claim()), (Fix::Busy, Claim::Taken));
        assert!(page.is_giving() && !page.begin_giving());
        page.end_giving();
        assert_eq!(page.claim(), Claim::Read);
    }
}

//! The requests to background reclaim of a node, and its findings.

use crate::{
    sync::{AtomicBool, AtomicU32, Ordering},
    types::{Order, ZoneKind},
};

/// The requests to background reclaim of a node, and its findings.
pub(crate) struct KswapdState {
    /// The highest order requested, plus 1; 0 if nothing is requested.
    order: AtomicU32,
    /// The highest kind of zone requested.
    highest: AtomicU32,
    /// Whether background reclaim was woken and has not begun yet.
    pub(super) woken: AtomicBool,
    /// Whether background reclaim is working.
    pub(super) awake: AtomicBool,
    /// Rounds in a row without progress.
    failures: AtomicU32,
    /// Whether all pages of a pass were under writeback.
    writing_back: AtomicBool,
    /// Whether all pages of a pass were dirty and not under writeback.
    dirty: AtomicBool,
}

impl KswapdState {
    pub(crate) fn new() -> Self {
        Self {
            order: AtomicU32::new(0),
            highest: AtomicU32::new(0),
            woken: AtomicBool::new(false),
            awake: AtomicBool::new(false),
            failures: AtomicU32::new(0),
            writing_back: AtomicBool::new(false),
            dirty: AtomicBool::new(false),
        }
    }

    /// Adds a request. Background reclaim works for the highest order and the highest zone of all
    /// requests.
    pub(super) fn request(&self, order: Order, highest: ZoneKind) {
        self.highest.fetch_max(highest as u32, Ordering::AcqRel);
        self.order.fetch_max(u32::from(order.get()) + 1, Ordering::AcqRel);
    }

    /// Removes and returns the requests.
    pub(super) fn take(&self) -> Option<(Order, ZoneKind)> {
        let order = self.order.swap(0, Ordering::AcqRel).checked_sub(1)?;
        let highest = self.highest.swap(0, Ordering::AcqRel) as usize;
        let order = Order::new(order as u8).unwrap_or_default();
        Some((order, ZoneKind::ALL[highest.min(ZoneKind::COUNT - 1)]))
    }

    pub(super) fn is_requested(&self) -> bool {
        self.order.load(Ordering::Acquire) != 0
    }

    /// Background reclaim starts to work.
    pub(super) fn begin(&self) {
        self.awake.store(true, Ordering::Release);
        self.woken.store(false, Ordering::Release);
    }

    /// Background reclaim sleeps, and can be woken again.
    pub(super) fn sleep(&self) {
        self.woken.store(false, Ordering::Release);
        self.awake.store(false, Ordering::SeqCst);
    }

    /// Whether background reclaim works or was woken.
    pub(super) fn is_running(&self) -> bool {
        // The order matters: `begin` sets `awake` before it clears `woken`, so one of them is seen
        // set.
        self.woken.load(Ordering::Acquire) || self.awake.load(Ordering::Acquire)
    }

    pub(super) fn failures(&self) -> u32 {
        self.failures.load(Ordering::Relaxed)
    }

    pub(super) fn set_failures(&self, failures: u32) {
        self.failures.store(failures, Ordering::Relaxed);
    }

    pub(super) fn is_writing_back(&self) -> bool {
        self.writing_back.load(Ordering::Relaxed)
    }

    pub(super) fn set_writing_back(&self, is: bool) {
        self.writing_back.store(is, Ordering::Relaxed);
    }

    pub(super) fn is_dirty(&self) -> bool {
        self.dirty.load(Ordering::Relaxed)
    }

    pub(super) fn set_dirty(&self, is: bool) {
        self.dirty.store(is, Ordering::Relaxed);
    }
}

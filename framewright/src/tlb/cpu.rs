//! What one CPU was asked to forget, and has forgotten.
//!
//! # Theory of operation
//!
//! A request is a word with one of few states, and, while it is for pages, which. Who finds a
//! request there already that has not been taken up widens it to *everything* and sends no
//! interrupt of its own: the one on its way will do, for the CPU takes a request up, and only then
//! reads the epoch and flushes.
//!
//! ```text
//!  IDLE ── post pages ──► WRITING ──────► PAGES ── take ──► READING ──► IDLE
//!   │                        │ post         │ post            │ post
//!   │ post everything        ▼              ▼                 ▼
//!   │                      WIDENED ──► EVERYTHING ◄───────────┘
//!   └─────────────────────────────────►     │ take
//!                                           ▼
//!                                         IDLE
//! ```
//!
//! Whoever leaves IDLE sends the interrupt, and has the pages to itself until it has written them. A
//! CPU that looks meanwhile finds nothing yet: its interrupt is still to come. Every step is an
//! atomic exchange, so that the CPU, when it takes a request up, sees what all who posted did
//! before.

use super::Scope;
use crate::{
    observe::TlbCounters,
    platform::{Platform, Site},
    sync::{AtomicU32, AtomicU64, Ordering, RawWord},
};

const IDLE: u32 = 0;
const WRITING: u32 = 1;
const WIDENED: u32 = 2;
const PAGES: u32 = 3;
const READING: u32 = 4;
const EVERYTHING: u32 = 5;

/// Which pages a request is for. Written by who leaves IDLE, read by the CPU before it is IDLE
/// again: the words need no order of their own.
struct Pages {
    space: AtomicU64,
    first: AtomicU64,
    pages: AtomicU32,
}

impl Pages {
    fn get(&self) -> Scope {
        Scope::Pages {
            space: self.space.load(Ordering::Relaxed),
            first: self.first.load(Ordering::Relaxed),
            pages: self.pages.load(Ordering::Relaxed),
        }
    }
}

/// See the module.
#[repr(align(64))]
pub(crate) struct CpuFlushes<P: Platform> {
    request: AtomicU32,
    asked: Pages,
    /// The epoch that the CPU read before it last served a request.
    served: AtomicU64,
    /// The epoch that it read before it last forgot everything it could reach.
    forgotten: AtomicU64,
    /// Changes with `served`: what who waits for that looks at.
    bell: P::Word,
    pub(super) counters: TlbCounters,
}

impl<P: Platform> CpuFlushes<P> {
    pub(crate) fn new() -> Self {
        Self {
            request: AtomicU32::new(IDLE),
            asked: Pages {
                space: AtomicU64::new(0),
                first: AtomicU64::new(0),
                pages: AtomicU32::new(0),
            },
            served: AtomicU64::new(0),
            forgotten: AtomicU64::new(0),
            bell: P::Word::new(0),
            counters: TlbCounters::new(),
        }
    }

    /// Asks the CPU to forget `scope`; whether it has to be interrupted for that, because nobody
    /// else is about to.
    pub(super) fn post(&self, platform: &P, scope: Scope) -> bool {
        platform.point(Site::Flush);
        let mut state = self.request.load(Ordering::Relaxed);
        loop {
            let next = match (state, scope) {
                (IDLE, Scope::Pages { .. }) => WRITING,
                (WRITING | WIDENED, _) => WIDENED,
                _ => EVERYTHING,
            };
            match self.turn(state, next) {
                Ok(_) if next == WRITING => break self.write(platform, scope),
                Ok(_) => break,
                Err(found) => state = found,
            }
        }
        state == IDLE
    }

    /// Says which pages, having left IDLE for that.
    fn write(&self, platform: &P, scope: Scope) {
        if let Scope::Pages { space, first, pages } = scope {
            self.asked.space.store(space, Ordering::Relaxed);
            self.asked.first.store(first, Ordering::Relaxed);
            self.asked.pages.store(pages, Ordering::Relaxed);
        }
        platform.point(Site::Flush);
        if self.turn(WRITING, PAGES).is_err() {
            let _ = self.turn(WIDENED, EVERYTHING);
        }
    }

    /// Takes up what this CPU was asked to forget.
    pub(super) fn take(&self, platform: &P) -> Option<Scope> {
        platform.point(Site::Flush);
        if self.turn(PAGES, READING).is_ok() {
            let pages = self.asked.get();
            platform.point(Site::Flush);
            if self.turn(READING, IDLE).is_ok() {
                return Some(pages);
            }
        }
        self.turn(EVERYTHING, IDLE).ok().map(|_| Scope::Everything)
    }

    fn turn(&self, from: u32, to: u32) -> Result<u32, u32> {
        self.request.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed)
    }

    /// The CPU has served a request since it read `epoch`.
    pub(super) fn set_served(&self, platform: &P, epoch: u64) {
        self.served.fetch_max(epoch, Ordering::AcqRel);
        platform.point(Site::Flush);
        self.bell.store(platform, epoch as u32, Ordering::Release);
    }

    /// Whether the CPU has served a request since `epoch`.
    pub(super) fn has_served(&self, platform: &P, epoch: u64) -> bool {
        // Looked at first: if it changes after what counts was read, waiting for it ends at once.
        self.bell.load(platform, Ordering::Acquire);
        self.served.load(Ordering::Acquire) >= epoch
    }

    /// The CPU has forgotten everything it could reach since it read `epoch`.
    pub(super) fn set_forgotten(&self, epoch: u64) {
        self.forgotten.fetch_max(epoch, Ordering::AcqRel);
    }

    /// Whether it has since `epoch`.
    pub(super) fn has_forgotten(&self, epoch: u64) -> bool {
        self.forgotten.load(Ordering::Acquire) >= epoch
    }
}

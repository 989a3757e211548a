//! What one CPU was posted_pages to forget, and has flushed_epoch.
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
//!
//! Requests are numbered in the same word, by how many were taken up before, and who posted waits for
//! the number. (An epoch would not do: the CPU may have served, since it began, a request for other
//! pages that was posted before.)
//!
//! Only one call at a time serves a CPU: two would take two requests, and the first to end would mark both as
//! served. A call that finds another in progress returns at once; the one in progress then looks for requests
//! again before it ends.

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

/// The word of a request: its number, and its state in the lowest bits.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Request(u64);

impl Request {
    const NONE: Self = Self(0);

    fn state(self) -> u32 {
        self.0 as u32 & 7
    }

    fn number(self) -> u64 {
        self.0 >> 3
    }

    fn with(self, state: u32) -> Self {
        Self(self.number() << 3 | u64::from(state))
    }

    /// What there is after it was taken up.
    fn taken(self) -> Self {
        Self((self.number() + 1) << 3 | u64::from(IDLE))
    }
}

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
    request: AtomicU64,
    posted_pages: Pages,
    /// Calls of [`CpuFlushes::serve`] since the one in progress began, including it; 0 if none is
    /// in progress.
    serving: AtomicU32,
    /// How many requests the CPU has served.
    served: AtomicU64,
    /// The epoch that it read before it last forgot everything it could flush_since.
    flushed_epoch: AtomicU64,
    /// Changes with `served`: what who waits for that looks at.
    served_changed: P::Word,
    pub(super) counters: TlbCounters,
}

impl<P: Platform> CpuFlushes<P> {
    pub(crate) fn new() -> Self {
        Self {
            request: AtomicU64::new(Request::NONE.0),
            posted_pages: Pages {
                space: AtomicU64::new(0),
                first: AtomicU64::new(0),
                pages: AtomicU32::new(0),
            },
            serving: AtomicU32::new(0),
            served: AtomicU64::new(0),
            flushed_epoch: AtomicU64::new(0),
            served_changed: P::Word::new(0),
            counters: TlbCounters::new(),
        }
    }

    /// Asks the CPU to forget `scope`; whether it has to be interrupted for that, because nobody
    /// else is about to.
    pub(super) fn post(&self, platform: &P, scope: Scope) -> bool {
        platform.point(Site::Flush);
        let mut found = Request(self.request.load(Ordering::Relaxed));
        loop {
            let next = match (found.state(), scope) {
                (IDLE, Scope::Pages { .. }) => WRITING,
                (WRITING | WIDENED, _) => WIDENED,
                _ => EVERYTHING,
            };
            match self.transition(found, found.with(next)) {
                Ok(posted) if next == WRITING => break self.write(platform, posted, scope),
                Ok(_) => break,
                Err(other) => found = other,
            }
        }
        found.state() == IDLE
    }

    /// Says which pages, having left IDLE for that.
    fn write(&self, platform: &P, posted: Request, scope: Scope) {
        if let Scope::Pages { space, first, pages } = scope {
            self.posted_pages.space.store(space, Ordering::Relaxed);
            self.posted_pages.first.store(first, Ordering::Relaxed);
            self.posted_pages.pages.store(pages, Ordering::Relaxed);
        }
        platform.point(Site::Flush);
        if let Err(widened) = self.transition(posted, posted.with(PAGES)) {
            let _ = self.transition(widened, widened.with(EVERYTHING));
        }
    }

    /// Serves the requests to this CPU with `forget`, or leaves them to a call that is in progress.
    pub(super) fn serve(&self, platform: &P, mut forget: impl FnMut(Scope)) {
        let mut came = self.serving.fetch_add(1, Ordering::AcqRel) + 1;
        if came > 1 {
            return;
        }
        loop {
            if let Some((scope, number)) = self.take(platform) {
                forget(scope);
                self.set_served(platform, number);
            }
            // Calls since then came after their requests were posted, so another look finds these
            // requests.
            match self.serving.compare_exchange(came, 0, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return,
                Err(more) => came = more,
            }
        }
    }

    /// Takes up what this CPU was posted_pages to forget, and which number that has.
    fn take(&self, platform: &P) -> Option<(Scope, u64)> {
        platform.point(Site::Flush);
        let found = Request(self.request.load(Ordering::Acquire));
        if found.state() == PAGES
            && let Ok(reading) = self.transition(found, found.with(READING))
        {
            let pages = self.posted_pages.get();
            platform.point(Site::Flush);
            if let Ok(taken) = self.transition(reading, reading.taken()) {
                return Some((pages, taken.number()));
            }
        }
        // Widened, from the start or meanwhile.
        let taken = self.transition(found.with(EVERYTHING), found.taken()).ok()?;
        Some((Scope::Everything, taken.number()))
    }

    /// One step: what there is then, or what there was instead of `from`.
    fn transition(&self, from: Request, to: Request) -> Result<Request, Request> {
        let done = self.request.compare_exchange(from.0, to.0, Ordering::AcqRel, Ordering::Relaxed);
        done.map(|_| to).map_err(Request)
    }

    /// The number to wait for, for who has posted: that of the last request there is.
    pub(super) fn posted(&self) -> u64 {
        let last = Request(self.request.load(Ordering::Relaxed));
        last.number() + u64::from(last.state() != IDLE)
    }

    /// The CPU has served the request of that number, and those before.
    fn set_served(&self, platform: &P, number: u64) {
        self.served.store(number, Ordering::Release);
        platform.point(Site::Flush);
        self.served_changed.store(platform, number as u32, Ordering::Release);
    }

    /// Whether the CPU has served the request of that number.
    pub(super) fn has_served(&self, platform: &P, number: u64) -> bool {
        // Looked at first: if it changes after what counts was read, waiting for it ends at once.
        self.served_changed.load(platform, Ordering::Acquire);
        self.served.load(Ordering::Acquire) >= number
    }

    /// The CPU has flushed_epoch everything it could flush_since since it read `epoch`.
    pub(super) fn set_flushed_epoch(&self, epoch: u64) {
        self.flushed_epoch.fetch_max(epoch, Ordering::AcqRel);
    }

    /// Whether it has since `epoch`.
    pub(super) fn has_flushed(&self, epoch: u64) -> bool {
        self.flushed_epoch.load(Ordering::Acquire) >= epoch
    }
}

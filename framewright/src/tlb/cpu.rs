//! The flush requests to one CPU, and the epoch of its last full flush.
//!
//! # Theory of operation
//!
//! A request is one word with a state. A request for pages also names the pages. If a sender finds
//! a request that the CPU has not taken yet, it widens the request to *everything* and sends no
//! interrupt. The interrupt of the first sender is enough, because the CPU takes the request before
//! it reads the epoch and flushes.
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
//! The sender that moves the word out of IDLE sends the interrupt, and is the only writer of the
//! pages until they are written. If the CPU reads the word before that, it finds nothing to do; the
//! sender's interrupt comes later. Every transition is an atomic exchange. So a CPU that takes a
//! request sees everything that its senders did before.
//!
//! The same word contains the number of the request, which counts the requests taken before.
//! Senders wait for this number. (An epoch would not suffice: since that epoch began, the CPU may
//! have served an earlier request, for other pages.)
//!
//! Only one call at a time serves a CPU. Two calls would take two requests, and the first to end
//! would mark both as served. A call that finds another in progress returns at once; the call in
//! progress then looks for requests again before it ends.
//!
//! If the embedder panics during a flush, the request counts as taken, not as served. The next call flushes everything,
//! and thereby also serves that request.

use super::Scope;
use crate::{
    observe::TlbCounters,
    platform::{Platform, Site},
    sync::{AtomicBool, AtomicU32, AtomicU64, Ordering, RawWord},
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

    /// The word after the request was taken.
    fn taken(self) -> Self {
        Self((self.number() + 1) << 3 | u64::from(IDLE))
    }
}

/// The pages of a request. Written by the sender that left IDLE, and read by the CPU before the
/// word is IDLE again, so these words need no ordering of their own.
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

/// The requests to one CPU, its last full flush, and its counters.
#[repr(align(64))]
pub(crate) struct CpuFlushes<P: Platform> {
    request: AtomicU64,
    posted_pages: Pages,
    /// Calls of [`CpuFlushes::serve`] since the one in progress began, including it; 0 if none is
    /// in progress.
    serving: AtomicU32,
    /// Whether a request was taken and not served, because the embedder panicked. Read and written only by the call in
    /// progress.
    is_behind: AtomicBool,
    /// The number of requests that the CPU has served.
    served: AtomicU64,
    /// The epoch that the CPU read before its last full flush.
    flushed_epoch: AtomicU64,
    /// Changes with `served`. Senders wait for a change of this word.
    served_changed: P::Word,
    pub(super) counters: TlbCounters,
}

/// A call that serves a CPU. If the embedder panics during the call, dropping this value leaves all posted requests to
/// the next call. Otherwise requests whose interrupts arrived during this call would never be served.
struct Serving<'c, P: Platform> {
    cpu: &'c CpuFlushes<P>,
    platform: &'c P,
    /// The value of [`CpuFlushes::serving`] that this call has seen. If the value has grown since,
    /// this call searches for requests again.
    came: u32,
}

impl<P: Platform> Serving<'_, P> {
    /// Ends the call, unless other calls were made meanwhile. Returns whether it has ended. The
    /// requests of those other calls were posted before them, so another search finds the requests.
    fn ends(&mut self) -> bool {
        let serving = &self.cpu.serving;
        match serving.compare_exchange(self.came, 0, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => true,
            Err(more) => {
                self.came = more;
                false
            }
        }
    }
}

impl<P: Platform> Drop for Serving<'_, P> {
    fn drop(&mut self) {
        self.cpu.is_behind.store(true, Ordering::Relaxed);
        loop {
            let _ = self.cpu.take(self.platform);
            if self.ends() {
                break;
            }
        }
    }
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
            is_behind: AtomicBool::new(false),
            served: AtomicU64::new(0),
            flushed_epoch: AtomicU64::new(0),
            served_changed: P::Word::new(0),
            counters: TlbCounters::new(),
        }
    }

    /// Asks the CPU to invalidate `scope`. Returns whether the caller must interrupt the CPU; if
    /// not, another sender does.
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

    /// Writes the pages of a request whose word the caller moved out of IDLE.
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

    /// Serves the requests to this CPU with `invalidate`, or leaves them to a call that is in
    /// progress.
    pub(super) fn serve(&self, platform: &P, mut invalidate: impl FnMut(Scope)) {
        let came = self.serving.fetch_add(1, Ordering::AcqRel) + 1;
        if came > 1 {
            return;
        }
        let mut call = Serving { cpu: self, platform, came };
        loop {
            if let Some((scope, number)) = self.next(platform) {
                invalidate(scope);
                self.is_behind.store(false, Ordering::Relaxed);
                self.set_served(platform, number);
            }
            if call.ends() {
                break;
            }
        }
        core::mem::forget(call);
    }

    /// The scope of the pending flush, and the number of the last request that the flush serves.
    fn next(&self, platform: &P) -> Option<(Scope, u64)> {
        let taken = self.take(platform);
        if !self.is_behind.load(Ordering::Relaxed) {
            return taken;
        }
        let number = || Request(self.request.load(Ordering::Relaxed)).number();
        Some((Scope::Everything, taken.map_or_else(number, |(_, number)| number)))
    }

    /// Takes the request to this CPU. Returns its scope and its number.
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
        // The request was widened, before this call or during it.
        let taken = self.transition(found.with(EVERYTHING), found.taken()).ok()?;
        Some((Scope::Everything, taken.number()))
    }

    /// One transition. Returns the new word, or the found word if it is not `from`.
    fn transition(&self, from: Request, to: Request) -> Result<Request, Request> {
        let done = self.request.compare_exchange(from.0, to.0, Ordering::AcqRel, Ordering::Relaxed);
        done.map(|_| to).map_err(Request)
    }

    /// The number that a sender waits for: the number of the latest request.
    pub(super) fn posted(&self) -> u64 {
        let last = Request(self.request.load(Ordering::Relaxed));
        last.number() + u64::from(last.state() != IDLE)
    }

    /// Records that the CPU has served the request with this number, and all requests before.
    fn set_served(&self, platform: &P, number: u64) {
        self.served.store(number, Ordering::Release);
        platform.point(Site::Flush);
        self.served_changed.store(platform, number as u32, Ordering::Release);
    }

    /// Whether the CPU has served the request with this number.
    pub(super) fn has_served(&self, platform: &P, number: u64) -> bool {
        // The wait word is read first. If it changes after `served` was read, a wait on it ends at
        // once.
        self.served_changed.load(platform, Ordering::Acquire);
        self.served.load(Ordering::Acquire) >= number
    }

    /// Records that the CPU has flushed everything since it read `epoch`.
    pub(super) fn set_flushed_epoch(&self, epoch: u64) {
        self.flushed_epoch.fetch_max(epoch, Ordering::AcqRel);
    }

    /// Whether the CPU has flushed everything since `epoch`.
    pub(super) fn has_flushed(&self, epoch: u64) -> bool {
        self.flushed_epoch.load(Ordering::Acquire) >= epoch
    }
}

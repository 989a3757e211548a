//! The owner protocol decides who may use a CPU's lists: the owner, which executes no atomic
//! read-modify-write, or a remote drainer.
//!
//! The owner uses its lists millions of times a second; drains are rare. So the cost is on the
//! drainer's side ([`OwnerLock::Biased`]):
//!
//! ```text
//!  owner                            drainer
//!  busy = 1                         request = 1        (compare-exchange: one drainer at a time)
//!  compiler fence                   remote barrier on the owner's CPU
//!  request != 0 ? give way          wait until busy == 0
//!  use the lists                    use the lists
//!  busy = 0                         request = 0
//! ```
//!
//! This is Dekker's protocol with one fence moved to the other side. Without the remote barrier the
//! owner's store could stay in its store buffer while both proceed.
//!
//! The argument holds for any processor. The remote barrier is a full barrier at some point B in the program
//! order of the owner's CPU, after the drainer's store to `request` and before its load of `busy`. The
//! owner's load of `request` is before or after B:
//!
//! * *after B*, the load reads the drainer's 1 or a later value. After a 1 the owner gives way. A
//!   later 0 is from a drainer's release: the acquire load then sees all work of this drainer and of
//!   earlier ones;
//! * *before B*, the owner's `busy = 1` is earlier still in program order, so that store is visible
//!   when the barrier returns. The drainer reads this 1 or a later value. After a 1 it waits. A later
//!   0 is from the end of this or a later critical section of the owner: the acquire load sees all
//!   work of that section.
//!
//! The order in which the processor performs the owner's store and load does not matter. Their program order
//! does, hence the compiler fence: if the load came first, B could fall between the two.
//!
//! Four orderings carry the data across: acquire in `enter` and `take_over`, release in `leave` and
//! `release`. A refused entry stores its 0 with release as well: the drainer may read this 0 instead of the 0
//! of the critical section before, and in C11 only a release store then publishes the work of that section.
//!
//! C11 has no remote barrier, so no single tool checks all of this. `owner_loom` shows under C11 that the
//! orderings suffice where both sides execute a fence. `owner_tso` runs this code on store buffers, and
//! `owner_weak` performs its steps out of order, as ARMv8 and RISC-V may. Both use the barrier on the
//! drainer's side, and both fail without it. Processors that show stores to some CPUs earlier than to others
//! (POWER) are not modelled.
//!
//! An owner that finds a request does not wait: it goes to the zone instead. So an owner never
//! blocks on a drainer, and a drainer waits only for as long as an owner is inside. There is one owner, and
//! it is never inside twice: to enter, it needs an [`Owned`](super::Owned). (Code that may run on top of a
//! busy owner, an interrupt handler, has no token and takes the zone path.)
//!
//! On a platform without a remote barrier ([`OwnerLock::Trylock`]), `request` has a constant value
//! that makes the owner take its cold path, where both sides compete for `lock`.

use crate::{
    platform::{OwnerLock, Platform, Site, Wait},
    sync::{Ordering, RawWord, compiler_fence},
    types::cold_path,
};

/// `request`: no drainer.
const NONE: u32 = 0;
/// `request`: a drainer is inside or about to enter.
const DRAINER: u32 = 1;
/// `request`: the biased protocol is not used on this machine.
const UNBIASED: u32 = 2;

/// The words of the protocol. They share a cache line with the lengths of the lists.
pub(crate) struct Owner<P: Platform> {
    busy: P::Word,
    request: P::Word,
    lock: P::Word,
}

impl<P: Platform> Owner<P> {
    pub(crate) fn new(kind: OwnerLock) -> Self {
        let request = match kind {
            OwnerLock::Biased => NONE,
            OwnerLock::Trylock => UNBIASED,
        };
        Self { busy: P::Word::new(0), request: P::Word::new(request), lock: P::Word::new(0) }
    }

    fn kind(&self, platform: &P) -> OwnerLock {
        if self.request.load(platform, Ordering::Relaxed) == UNBIASED {
            OwnerLock::Trylock
        } else {
            OwnerLock::Biased
        }
    }

    /// The owner's fast entry. `false`: a drainer is inside or about to enter, or the protocol is
    /// not biased; in the latter case [`Owner::enter_slowly`] may still succeed.
    #[inline(always)]
    pub(crate) fn enter(&self, platform: &P) -> bool {
        self.busy.store(platform, 1, Ordering::Relaxed);
        // Keeps the compiler from moving the load before the store. The processor may reorder them:
        // the remote barrier makes that harmless.
        compiler_fence(Ordering::SeqCst);
        if self.request.load(platform, Ordering::Acquire) == NONE {
            return true;
        }
        cold_path();
        self.busy.store(platform, 0, Ordering::Release);
        false
    }

    /// Leaves after [`Owner::enter`] succeeded.
    #[inline(always)]
    pub(crate) fn leave(&self, platform: &P) {
        self.busy.store(platform, 0, Ordering::Release);
    }

    /// The owner's entry on machines without a remote barrier: one try, never a wait.
    pub(crate) fn enter_slowly(&self, platform: &P) -> bool {
        let taken = |lock: &P::Word| {
            lock.compare_exchange(platform, 0, 1, Ordering::Acquire, Ordering::Relaxed).is_ok()
        };
        self.kind(platform) == OwnerLock::Trylock && taken(&self.lock)
    }

    /// Leaves after [`Owner::enter_slowly`] succeeded.
    pub(crate) fn leave_slowly(&self, platform: &P) {
        self.lock.store(platform, 0, Ordering::Release);
    }

    /// Leaves after [`Owner::enter`], or else after [`Owner::enter_slowly`].
    #[inline(always)]
    pub(crate) fn leave_after(&self, platform: &P, is_biased: bool) {
        if is_biased {
            self.leave(platform);
        } else {
            self.leave_slowly(platform);
        }
    }

    /// First step of a drainer: announces the drain and waits for other drainers. The remote
    /// barrier comes next (one for any number of announced CPUs), then [`Owner::take_over`].
    pub(crate) fn announce(&self, platform: &P) {
        platform.point(Site::Drain);
        if self.kind(platform) == OwnerLock::Biased {
            acquire(platform, &self.request, DRAINER);
        }
    }

    /// Last wait of a drainer: after the return only this drainer may use the lists, until
    /// [`Owner::release`].
    pub(crate) fn take_over(&self, platform: &P) {
        match self.kind(platform) {
            OwnerLock::Trylock => acquire(platform, &self.lock, 1),
            OwnerLock::Biased => {
                let mut spins = 0;
                while self.busy.load(platform, Ordering::Acquire) != 0 {
                    platform.wait(Wait::Owner, spins);
                    spins = spins.saturating_add(1);
                }
            }
        }
    }

    /// Ends a drain.
    pub(crate) fn release(&self, platform: &P) {
        match self.kind(platform) {
            OwnerLock::Trylock => self.lock.store(platform, 0, Ordering::Release),
            OwnerLock::Biased => self.request.store(platform, NONE, Ordering::Release),
        }
    }
}

/// Changes `word` from 0 to `value`, waiting until it is 0.
fn acquire<P: Platform>(platform: &P, word: &P::Word, value: u32) {
    let mut spins = 0;
    while word.compare_exchange(platform, 0, value, Ordering::AcqRel, Ordering::Relaxed).is_err() {
        platform.wait(Wait::Owner, spins);
        spins = spins.saturating_add(1);
    }
}

//! What the embedder's machine provides: forgetting, here and elsewhere.

use super::CpuMask;
use crate::platform::CpuId;

/// What a CPU is to forget.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scope {
    /// Neighbouring pages of one address space.
    Pages {
        /// The embedder's number for the address space.
        space: u64,
        /// Number of the first page in it.
        first: u64,
        /// How many.
        pages: u32,
    },
    /// All it could flush_since before: whatever its page-table root says now is what it goes by.
    /// Address spaces that it has not loaded do not matter, as long as it compares their
    /// generations when it loads them.
    Everything,
}

impl Scope {
    /// One page.
    #[must_use]
    pub const fn page(space: u64, page: u64) -> Self {
        Self::Pages { space, first: page, pages: 1 }
    }

    /// `pages` pages from `first`, or everything if these are more than `most`.
    #[must_use]
    pub const fn pages(space: u64, first: u64, pages: u64, most: u32) -> Self {
        if pages <= most as u64 {
            Self::Pages { space, first, pages: pages as u32 }
        } else {
            Self::Everything
        }
    }

    /// The least that covers both: pages of one address space and those between them, if these are
    /// not more than `most`; else everything.
    #[must_use]
    pub fn cover(self, other: Self, most: u32) -> Self {
        match (self, other) {
            (
                Self::Pages { space, first: a, pages: n },
                Self::Pages { space: same, first: b, pages: m },
            ) if space == same => {
                let first = a.min(b);
                let end = a.saturating_add(u64::from(n)).max(b.saturating_add(u64::from(m)));
                Self::pages(space, first, end - first, most)
            }
            _ => Self::Everything,
        }
    }
}

/// How a machine flushes: implemented by the embedder, which owns page tables and address spaces.
///
/// # What the library relies on
///
/// * An address space has a *generation*. Whoever removes or restricts a translation changes the
///   page table, then advances the generation with a full barrier, and only then reads which CPUs
///   have the address space loaded. Whoever loads it says so first, with a full barrier, and then
///   compares the generation with what this CPU knows; if it is not_flushed, it flushes. So one of the
///   two sees the other.
/// * [`Shootdown::invalidate`] makes the CPU forget before it returns, and nothing after it uses what was
///   cached before.
pub trait Shootdown {
    /// Whether a store through a cached translation that is writable but was never stored
    /// through looks at the page-table entry again, and faults if that is gone. It does on x86.
    /// Where it does not, a translation that was writable counts as dirty. A constant of the machine.
    fn clean_stores_fault(&self) -> bool {
        false
    }

    /// Invalidates `scope` in the TLB of `cpu`, which is the calling CPU. Where a CPU can only flush its own
    /// TLB, the method must check that it runs on `cpu`, and panic otherwise, because safe code can name any
    /// CPU. Called by [`Flusher`](super::Flusher), on the CPU that is to flush itself, or in the handler of
    /// an interrupt from another CPU.
    fn invalidate(&self, cpu: CpuId, scope: Scope);

    /// Interrupts `targets`, each of which then calls [`Flusher::serve`](super::Flusher::serve).
    /// May return before they have, or after. Called by `from`, which is not among them.
    fn interrupt(&self, from: CpuId, targets: &CpuMask);

    /// Whether `cpu` runs nothing of what it has loaded (it is idle, offline, or runs a kernel
    /// thread) and will, before it does again, say so first, with a full barrier, and then compare
    /// generations. Such a CPU is not interrupted.
    ///
    /// A CPU goes offline lazy, and calls [`Flusher::serve`](super::Flusher::serve) when it is back
    /// before it is not lazy any more: an interrupt may have been lost meanwhile.
    fn is_lazy(&self, cpu: CpuId) -> bool {
        let _ = cpu;
        false
    }

    /// Whether a CPU that forgets on its own account costs no other CPU anything, as with a flush
    /// instruction. Where it takes a call that interrupts all the others, no CPU does in passing what
    /// one flush would do for all ([`Flusher::tick`](super::Flusher::tick)). A constant of the machine.
    fn has_local_flush(&self) -> bool {
        true
    }

    /// Whether a batch that is dropped unflushed may be flushed then and there. Where it is `false`
    /// its frames are leaked, and reported.
    fn may_wait(&self) -> bool {
        true
    }
}

/// A machine whose CPUs cache nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoShootdown;

impl Shootdown for NoShootdown {
    fn clean_stores_fault(&self) -> bool {
        true
    }

    fn invalidate(&self, _cpu: CpuId, _scope: Scope) {}

    fn interrupt(&self, _from: CpuId, _targets: &CpuMask) {}

    fn is_lazy(&self, _cpu: CpuId) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbouring_pages_of_one_space_stay_pages() {
        let both = Scope::page(1, 10).cover(Scope::page(1, 12), 33);
        assert_eq!(both, Scope::Pages { space: 1, first: 10, pages: 3 });
        assert_eq!(
            both.cover(Scope::page(1, 42), 33),
            Scope::Pages { space: 1, first: 10, pages: 33 }
        );
        assert_eq!(both.cover(Scope::page(1, 43), 33), Scope::Everything);
        assert_eq!(both.cover(Scope::page(2, 11), 33), Scope::Everything);
        assert_eq!(both.cover(Scope::Everything, 33), Scope::Everything);
        assert_eq!(Scope::page(1, u64::MAX).cover(Scope::page(1, 0), 33), Scope::Everything);
    }
}

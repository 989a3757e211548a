//! The embedder's side of TLB flushes: invalidating entries on this CPU, and interrupting others.

use super::CpuMask;
use crate::types::CpuId;

/// The TLB entries that a CPU is to invalidate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scope {
    /// Consecutive pages of one address space.
    Pages {
        /// The embedder's number for the address space.
        space: u64,
        /// Number of the first page in it.
        first: u64,
        /// Number of pages.
        pages: u32,
    },
    /// All entries of the address space that the CPU has loaded: afterwards it walks the current
    /// page tables. Other address spaces need no flush, because the CPU compares their generations
    /// when it loads them.
    Everything,
}

impl Scope {
    /// One page of an address space.
    #[must_use]
    pub const fn page(space: u64, page: u64) -> Self {
        Self::Pages { space, first: page, pages: 1 }
    }

    /// `pages` pages from page `first`, or everything if there are more than `most` pages.
    #[must_use]
    pub const fn pages(space: u64, first: u64, pages: u64, most: u32) -> Self {
        if pages <= most as u64 {
            Self::Pages { space, first, pages: pages as u32 }
        } else {
            Self::Everything
        }
    }

    /// The smallest scope that covers both: the pages of one address space from the first to the
    /// last, if there are at most `most` pages; otherwise everything.
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

/// TLB flushes of a machine, implemented by the embedder, which owns page tables and address
/// spaces.
///
/// # What the library relies on
///
/// * An address space has a *generation*. Code that removes or restricts a translation changes the
///   page table, then advances the generation with a full barrier, and only then reads which CPUs
///   have the address space loaded. A CPU that loads the address space first publishes the load
///   with a full barrier. Then it compares the generation with that of its last flush. If the
///   generation is newer, the CPU flushes. So at least one of the two sides sees the other.
/// * When [`Shootdown::invalidate`] returns, the entries are invalid: no later access uses them.
pub trait Shootdown {
    /// Whether a store through a cached translation that is writable and clean reads the page-table
    /// entry again, and faults if the entry is gone. This is so on x86. If not, a translation that
    /// was writable counts as dirty. The answer must not change.
    fn clean_stores_fault(&self) -> bool {
        false
    }

    /// Invalidates `scope` in the TLB of `cpu`, which is the calling CPU. If a CPU can only flush its own TLB, the
    /// method must check that it runs on `cpu`, and panic otherwise, because safe code can name any CPU. Called by
    /// [`Flusher`](super::Flusher), on the CPU that is to flush itself, or in the handler of an interrupt from another
    /// CPU.
    ///
    /// Should not panic. If it does, nothing counts as flushed. This CPU then flushes everything at its next call of
    /// [`Flusher::serve`](super::Flusher::serve), and other CPUs wait for their requests until then.
    fn invalidate(&self, cpu: CpuId, scope: Scope);

    /// Interrupts `targets`, each of which then calls [`Flusher::serve`](super::Flusher::serve).
    /// May return before or after these calls. The caller runs on CPU `from`, which is not in
    /// `targets`.
    ///
    /// Should not panic. If it does, the targets without an interrupt must serve nevertheless, because other CPUs wait
    /// for these targets and send no second interrupt.
    fn interrupt(&self, from: CpuId, targets: &CpuMask);

    /// Whether `cpu` uses no entries of the address space that it has loaded (it is idle, offline,
    /// or runs a kernel thread). Before it uses such entries again, it publishes that it is no
    /// longer lazy, with a full barrier, and then compares generations. A lazy CPU is not
    /// interrupted.
    ///
    /// A CPU that goes offline is lazy. When it is back, it calls
    /// [`Flusher::serve`](super::Flusher::serve) before it stops being lazy, because an interrupt
    /// may have been lost meanwhile.
    fn is_lazy(&self, cpu: CpuId) -> bool {
        let _ = cpu;
        false
    }

    /// Whether a CPU can flush its own TLB without a cost to other CPUs, as with a flush
    /// instruction. If a flush interrupts all other CPUs instead,
    /// [`Flusher::tick`](super::Flusher::tick) does nothing: one flush for all deferred frames is
    /// cheaper. The answer must not change.
    fn has_local_flush(&self) -> bool {
        true
    }

    /// Whether the destructor of an unflushed batch may flush it. The destructor then waits for
    /// other CPUs. If not, the batch defers its frames without a flush; frames that cannot be
    /// deferred are leaked and reported.
    fn may_wait(&self) -> bool {
        true
    }
}

/// A machine without TLBs.
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
    fn pages_near_each_other_in_one_space_stay_pages() {
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

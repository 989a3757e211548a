//! Allocation by page faults: frames come from the library, and are put on its LRU lists.

use framewright::{
    CpuToken, MigrateType, Order, Pfn, Request,
    reclaim::{PageKind, Shadow},
};

use super::{FileId, KernelState, Supply};
use crate::{engine::Cpu, platform::Simulated};

/// The frames of the library for the page faults of one CPU.
pub(super) struct FaultAllocator<'s, 'k, 'm> {
    pub(super) kernel: &'s KernelState<'k, 'm>,
    pub(super) token: CpuToken<'k, 'm, Simulated>,
}

impl FaultAllocator<'_, '_, '_> {
    fn take(&mut self, cpu: Cpu<'_>, request: Request) -> Option<u32> {
        let block = self.token.alloc(request).ok()?;
        let frame = block.into_raw().0.get() as u32;
        self.kernel.cache.taken(cpu, frame);
        Some(frame)
    }
}

impl Supply for FaultAllocator<'_, '_, '_> {
    fn entered(&mut self, cpu: Cpu<'_>) {
        self.kernel.reclaim.tick(cpu.id());
    }

    fn page(&mut self, cpu: Cpu<'_>, cleared: bool, may_retry: bool) -> Option<u32> {
        const PAGE: Request = Request::new(Order::ZERO, MigrateType::Movable);
        let request = if cleared { PAGE.zeroed() } else { PAGE };
        self.take(cpu, if may_retry { request } else { request.no_retry() })
    }

    fn table(&mut self, cpu: Cpu<'_>) -> Option<u32> {
        const TABLE: Request = Request::new(Order::ZERO, MigrateType::Unmovable);
        self.take(cpu, TABLE.zeroed())
    }

    #[allow(unsafe_code)]
    fn give(&mut self, cpu: Cpu<'_>, frames: &[u32]) {
        if let Some(oracle) = self.kernel.cache.mmu().oracle() {
            frames.iter().for_each(|&frame| oracle.freed(cpu, frame));
        }
        for &frame in frames {
            // SAFETY: `take` got this frame from a block of order 0, and the cache no longer uses
            // it.
            let freed = unsafe { self.token.free_raw(Pfn::new(frame.into()), Order::ZERO) };
            debug_assert_eq!(freed, Ok(()), "frame {frame}");
        }
    }

    fn cached(&mut self, cpu: Cpu<'_>, frame: u32, shadow: Option<u64>) {
        let (lru, pfn) = (self.kernel.reclaim.lru(), Pfn::new(frame.into()));
        match shadow {
            None => lru.add(cpu.id(), pfn, PageKind::File),
            Some(shadow) => {
                let shadow = Shadow::from_raw(shadow);
                lru.add_refaulted(cpu.id(), pfn, PageKind::File, shadow)
            }
        };
    }

    fn becomes_writable(&mut self, cpu: Cpu<'_>, file: FileId) {
        self.kernel.flusher(cpu.id()).flush_deferred(self.kernel.cache.deferred_flush(file));
    }
}

//! The list design as a [`Peer`].

use super::{ListBuddy, MAX_ORDER, Machine, MigrateType, Threads, Tuning};
use crate::{Metadata, Peer, Worker};

/// The handle of one CPU. It allocates movable frames, as a page fault does.
pub struct ListWorker<'a, M: Machine = Threads> {
    buddy: &'a ListBuddy<M>,
    cpu: usize,
}

impl Peer for ListBuddy {
    const NAME: &'static str = "list-buddy";
    const MERGES: bool = true;
    const MAX_ORDER: u8 = MAX_ORDER;
    type Worker<'a> = ListWorker<'a>;

    fn new(frames: u64, cpus: usize) -> Self {
        Self::with_tuning(frames, cpus, &Tuning::default())
    }

    fn worker(&self, cpu: usize) -> ListWorker<'_> {
        assert!(cpu < self.cpu_count(), "no CPU {cpu}");
        ListWorker { buddy: self, cpu }
    }

    fn metadata(&self) -> Metadata {
        self.metadata_size()
    }

    fn cpu_list_bytes(&self) -> usize {
        self.list_bytes()
    }

    fn drain(&self) -> bool {
        self.drain_all();
        true
    }
}

#[allow(unsafe_code)] // The method is declared unsafe; nothing here is.
impl<M: Machine> Worker for ListWorker<'_, M> {
    #[inline]
    fn alloc(&mut self, order: u8) -> Option<u64> {
        self.alloc_typed(order, MigrateType::Movable)
    }

    #[inline]
    fn alloc_typed(&mut self, order: u8, migratetype: MigrateType) -> Option<u64> {
        self.buddy.alloc(self.cpu, order, migratetype)
    }

    #[inline]
    unsafe fn free(&mut self, frame: u64, order: u8) {
        // A refused free concerns a frame that the caller does not own. The caller excludes that.
        let _ = self.buddy.free(self.cpu, frame, order);
    }
}

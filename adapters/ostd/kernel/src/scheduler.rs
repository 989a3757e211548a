//! A scheduler with a queue for each CPU: a task runs on the CPU that its data names.
//!
//! OSTD frees unmapped pages only after every CPU has switched tasks. OSTD's own scheduler runs tasks on one CPU only,
//! so with it these pages would never be freed.

use alloc::{collections::VecDeque, sync::Arc, vec::Vec};

use ostd::{
    cpu::{CpuId, PinCurrentCpu, num_cpus},
    sync::SpinLock,
    task::{
        Task, disable_preempt,
        scheduler::{EnqueueFlags, LocalRunQueue, Scheduler, UpdateFlags, info::CommonSchedInfo},
    },
};

pub(crate) struct PerCpu(Vec<SpinLock<Queue>>);

#[derive(Default)]
struct Queue {
    current: Option<Arc<Task>>,
    waiting: VecDeque<Arc<Task>>,
}

impl PerCpu {
    pub(crate) fn new() -> Self {
        Self((0..num_cpus()).map(|_| SpinLock::new(Queue::default())).collect())
    }

    fn local(&self) -> &SpinLock<Queue> {
        &self.0[u32::from(disable_preempt().current_cpu()) as usize]
    }
}

impl Scheduler for PerCpu {
    fn enqueue(&self, task: Arc<Task>, _: EnqueueFlags) -> Option<CpuId> {
        let cpu = *task.data().downcast_ref::<usize>()?;
        task.cpu().set_anyway(CpuId::try_from(cpu).ok()?);
        self.0[cpu].disable_irq().lock().waiting.push_back(task);
        None
    }

    fn local_rq_with(&self, f: &mut dyn FnMut(&dyn LocalRunQueue)) {
        f(&*self.local().disable_irq().lock());
    }

    fn mut_local_rq_with(&self, f: &mut dyn FnMut(&mut dyn LocalRunQueue)) {
        f(&mut *self.local().disable_irq().lock());
    }
}

impl LocalRunQueue for Queue {
    fn current(&self) -> Option<&Arc<Task>> {
        self.current.as_ref()
    }

    fn update_current(&mut self, why: UpdateFlags) -> bool {
        why != UpdateFlags::Tick && !self.waiting.is_empty()
    }

    fn try_pick_next(&mut self) -> Option<&Arc<Task>> {
        let next = self.waiting.pop_front()?;
        self.waiting.extend(self.current.replace(next));
        self.current.as_ref()
    }

    fn dequeue_current(&mut self) -> Option<Arc<Task>> {
        self.current.take().inspect(|task| task.cpu().set_to_none())
    }
}

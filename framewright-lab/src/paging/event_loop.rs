//! The event loop of one CPU: programs and kernel work in turn.

use std::cell::Cell;

use framewright::{MigrateType, Order, Request, frame::PAGEBLOCK_FRAMES};
use framewright_sim::{
    engine::Cpu,
    file::{AreaId, CpuContext, FileAccessError, Touched},
};

use super::{
    kept::{Kept, KernelBlocks},
    timeline::{Blocks, Timeline},
};
use crate::workloads::{
    cdn::{Next, PER_PAGE, Server},
    mmap_read::Reader,
};

/// A program that a CPU runs.
pub(super) enum Program {
    Reader(Reader),
    Server(Server),
}

impl Program {
    fn next(&mut self) -> Option<Next> {
        match self {
            Self::Reader(reader) => reader.next(),
            Self::Server(server) => Some(server.next()),
        }
    }

    /// Whether it has a request for a large object now.
    fn takes_huge(&mut self) -> bool {
        match self {
            Self::Reader(_) => false,
            Self::Server(server) => server.take_huge(),
        }
    }

    /// The order of a block of the kernel that it needs now.
    fn takes_kernel(&mut self) -> Option<u8> {
        match self {
            Self::Reader(_) => None,
            Self::Server(server) => server.take_kernel(),
        }
    }
}

/// A program, and its state.
pub(super) struct Thread {
    program: Program,
    /// The access that the thread waits for, and the start of the wait; `None` if it does not wait.
    wants: Option<(Next, u64)>,
    /// The time of the next try.
    ready: u64,
    ended: bool,
}

impl Thread {
    pub(super) fn new(program: Program) -> Self {
        Self { program, wants: None, ready: 0, ended: false }
    }
}

/// Cycles of a CPU outside the kernel.
#[derive(Default)]
pub(super) struct Spent {
    /// Cycles in which programs use resident pages.
    pub(super) user: Cell<u64>,
    /// Idle cycles.
    pub(super) idle: Cell<u64>,
    /// Cycles before the CPU began to work.
    pub(super) late: Cell<u64>,
    /// The clock at the end: all cycles.
    pub(super) ended: Cell<u64>,
}

/// The event loop of one CPU.
pub(super) struct EventLoop<'d, 'k, 'm> {
    pub(super) cpu_context: CpuContext<'d, 'k, 'm>,
    pub(super) timeline: &'d Timeline<'d>,
    pub(super) areas: &'d [AreaId],
    pub(super) spent: &'d Spent,
    pub(super) threads: Vec<Thread>,
    /// Large objects, each in a huge page.
    pub(super) large: Kept<'m>,
    /// Blocks of the kernel.
    pub(super) kernel: Kept<'m>,
    /// The blocks of the kernel of all CPUs.
    pub(super) kernel_blocks: &'d KernelBlocks,
    /// The thread that is next in turn.
    pub(super) turn: usize,
    /// The blocks of memory.
    pub(super) blocks: &'d dyn Fn() -> Blocks,
    /// Gets the time after each use of a page, in cycles.
    pub(super) sample: &'d dyn Fn(u64),
}

/// Maximum time of programs between two checks for kernel work, in cycles: about 1 ms.
const SLICE: u64 = 2_500_000;
/// Sleep of a CPU whose threads have all ended, in cycles. Events wake it earlier.
const NAP: u64 = 25_000_000;

/// The next thread among those that can continue: the one with the longest wait for an access, or
/// the next in turn if no access waits. Schedulers, too, prefer threads that have slept. If threads
/// only took turns, an access that pauses several times would wait for all other threads of its CPU
/// each time.
fn next_thread(threads: &[Thread], turn: usize, now: u64) -> Option<usize> {
    let in_turn = (turn..threads.len()).chain(0..turn);
    let can_continue = |&thread: &usize| !threads[thread].ended && threads[thread].ready <= now;
    let waits_since = |&thread: &usize| threads[thread].wants.as_ref().map_or(u64::MAX, |it| it.1);
    in_turn.filter(can_continue).min_by_key(waits_since)
}

impl<'m> EventLoop<'_, '_, 'm> {
    /// Works until the run has ended.
    ///
    /// # Errors
    ///
    /// The reason why a program could not continue.
    pub(super) fn work(&mut self, cpu: Cpu<'_>, late: u64) -> Result<(), FileAccessError> {
        cpu.work(late);
        self.spent.late.set(late);
        let mut kernel = 0;
        while !self.timeline.is_over() {
            let began = cpu.now();
            if self.cpu_context.do_kernel_work(cpu) {
                kernel += cpu.now() - began;
            }
            // Programs get as much time as the kernel work took, within limits.
            let until = cpu.now() + SLICE.min(kernel.max(SLICE / 10));
            kernel = 0;
            self.run_programs(cpu, until)?;
            // The uses of resident pages so far affected no other CPU; the next access may.
            cpu.step();
        }
        self.spent.ended.set(cpu.now());
        self.expire(u64::MAX);
        // Another CPU may sleep until the end.
        self.cpu_context.wake_all(cpu);
        Ok(())
    }

    fn run_programs(&mut self, cpu: Cpu<'_>, until: u64) -> Result<(), FileAccessError> {
        loop {
            let Some(thread) = self.ready_thread(cpu.now()) else {
                self.idle(cpu);
                return Ok(());
            };
            self.run_thread(cpu, thread, until)?;
            if cpu.now() >= until || self.timeline.is_over() {
                return Ok(());
            }
        }
    }

    /// The next thread to run, if one can continue.
    fn ready_thread(&mut self, now: u64) -> Option<usize> {
        let thread = next_thread(&self.threads, self.turn, now)?;
        self.turn = (thread + 1) % self.threads.len();
        Some(thread)
    }

    /// Runs a thread until it waits, ends, or its time slice is over.
    fn run_thread(
        &mut self,
        cpu: Cpu<'_>,
        thread: usize,
        until: u64,
    ) -> Result<(), FileAccessError> {
        loop {
            let Thread { program, wants, ready, ended } = &mut self.threads[thread];
            let wanted = wants.take().or_else(|| Some((program.next()?, cpu.now())));
            let Some((next, since)) = wanted else {
                *ended = true;
                self.timeline.ends(cpu.now());
                return Ok(());
            };
            match self.cpu_context.touch(cpu, self.areas[next.mapping], next.page, next.access)? {
                Touched::Done(_) => {}
                Touched::Wait(time) => {
                    (*wants, *ready) = (Some((next, since)), time);
                    return Ok(());
                }
            }
            self.timeline.used(cpu.now() - since);
            if self.threads[thread].program.takes_huge() {
                self.serve_large(cpu);
            }
            if let Some(order) = self.threads[thread].program.takes_kernel() {
                self.allocate_for_kernel(cpu, order);
            }
            cpu.work(next.then);
            self.spent.user.set(self.spent.user.get() + next.then);
            self.timeline.advance(self.cpu_context.pages_cached(), cpu.now(), self.blocks);
            (self.sample)(cpu.now());
            if cpu.now() >= until || self.cpu_context.has_kernel_work(cpu) {
                return Ok(());
            }
        }
    }

    /// Serves a request for a large object, which is kept in a huge page if one can be allocated.
    fn serve_large(&mut self, cpu: Cpu<'_>) {
        const HUGE: Request = Request::new(Order::PAGEBLOCK, MigrateType::Movable).zeroed();
        let used = self.timeline.pages();
        self.expire(used);
        let asked = cpu.now();
        let (block, stalled) = self.cpu_context.block(cpu, HUGE);
        self.timeline.record_huge_request(block.is_some(), stalled, cpu.now() - asked);
        self.large.keep(block, used);
        let sent = PAGEBLOCK_FRAMES as u64 * PER_PAGE;
        cpu.work(sent);
        self.spent.user.set(self.spent.user.get() + sent);
    }

    /// Allocates a block of the kernel, and frees those that have expired.
    fn allocate_for_kernel(&mut self, cpu: Cpu<'_>, order: u8) {
        let used = self.timeline.pages();
        self.expire(used);
        let Some(order) = Order::new(order) else { return };
        let (block, _) = self.cpu_context.block(cpu, Request::new(order, MigrateType::Unmovable));
        if let Some(block) = &block {
            self.kernel_blocks.add(block.pfn());
        }
        self.kernel.keep(block, used);
    }

    /// Frees the large objects and the blocks of the kernel that have expired after `used` used pages.
    fn expire(&mut self, used: u64) {
        while let Some(block) = self.large.expired(used) {
            self.cpu_context.free_block(block);
        }
        while let Some(block) = self.kernel.expired(used) {
            self.kernel_blocks.remove(block.pfn());
            self.cpu_context.free_block(block);
        }
    }

    /// Sleeps until a thread can continue, or there is kernel work on this CPU.
    fn idle(&mut self, cpu: Cpu<'_>) {
        let waiting = self.threads.iter().filter(|thread| !thread.ended);
        let ready = waiting.map(|thread| thread.ready).min();
        let began = cpu.now();
        self.cpu_context.idle(cpu, ready.unwrap_or(began + NAP));
        self.spent.idle.set(self.spent.idle.get() + (cpu.now() - began));
    }
}

#[cfg(test)]
mod tests {
    use framewright_sim::process::Access;

    use super::*;
    use crate::workloads::mmap_read::{MmapRead, Readers};

    /// A thread that can continue at `ready`. Its access, if any, has waited since the given time.
    fn thread(waits_since: Option<u64>, ready: u64) -> Thread {
        let reader = Reader::new(&MmapRead::new(Readers::Processes), 0, 1);
        let next = Next { mapping: 0, page: 0, access: Access::Load, then: 0 };
        let wants = waits_since.map(|since| (next, since));
        Thread { wants, ready, ..Thread::new(Program::Reader(reader)) }
    }

    #[test]
    fn the_access_that_has_waited_longest_continues_first() {
        let threads =
            [thread(None, 0), thread(Some(30), 40), thread(Some(20), 60), thread(None, 0)];
        let order = |turn, now| next_thread(&threads, turn, now);
        assert_eq!(
            [order(0, 50), order(2, 50)],
            [Some(1); 2],
            "the access since 20 cannot continue yet"
        );
        assert_eq!(order(0, 60), Some(2));
        assert_eq!([order(0, 10), order(1, 10)], [Some(0), Some(3)], "in turn");
        assert_eq!(next_thread(&[thread(Some(1), 5)], 0, 4), None);
    }
}

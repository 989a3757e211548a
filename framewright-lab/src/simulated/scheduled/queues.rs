//! The run queues of all CPUs, and the CPU of a woken task.
//!
//! The rule is an assumption: it is Linux's wake-up placement in plain terms, for wake-ups by a
//! waker that is likely to block soon (synchronous wake-ups, which sockets make).
//!
//! 1. The *target* is the waker's CPU or the task's previous CPU, whichever has fewer tasks
//!    (wake-affine). The waker does not count, and with equal numbers its CPU is the target.
//! 2. The task gets its previous CPU if that is idle and on the target's socket;
//! 3. otherwise an idle CPU of the target's socket, the first one from the target on;
//! 4. otherwise any idle CPU, in place of load balancing, which is absent;
//! 5. otherwise the target, where it waits behind the tasks that wait already.
//!
//! Invariants: a task is in one queue, or runs on one CPU, or is blocked, or has ended. A CPU runs
//! at most one task. Tasks of a queue run in the order in which they were put there.

use std::collections::VecDeque;

/// The state of a task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Waiting,
    Running,
    Blocked,
    Ended,
}

#[derive(Clone, Copy, Debug)]
struct Task {
    /// The CPU on which it runs or waits, or ran last.
    cpu: u16,
    state: State,
}

#[derive(Clone, Default, Debug)]
struct RunQueue {
    running: Option<usize>,
    waiting: VecDeque<usize>,
}

/// The tasks of all CPUs. Tasks have numbers from 0.
#[derive(Debug)]
pub(super) struct Queues {
    tasks: Vec<Task>,
    cpus: Vec<RunQueue>,
    /// Per CPU, its socket.
    socket_of: Vec<u8>,
    /// Tasks that have not ended.
    alive: usize,
}

impl Queues {
    /// `tasks` tasks that can run, in random order and as evenly as possible on random CPUs.
    pub(super) fn new(tasks: usize, socket_of: Vec<u8>, seed: u64) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut order: Vec<usize> = (0..tasks).collect();
        random.shuffle(&mut order);
        let mut on: Vec<u16> = (0..socket_of.len() as u16).collect();
        random.shuffle(&mut on);
        let mut cpus = vec![RunQueue::default(); socket_of.len()];
        let mut placed = vec![Task { cpu: 0, state: State::Waiting }; tasks];
        for (task, &cpu) in order.into_iter().zip(on.iter().cycle()) {
            cpus[usize::from(cpu)].waiting.push_back(task);
            placed[task].cpu = cpu;
        }
        Self { tasks: placed, cpus, socket_of, alive: tasks }
    }

    /// Whether a task has not ended.
    pub(super) fn is_alive(&self) -> bool {
        self.alive > 0
    }

    pub(super) fn is_blocked(&self, task: usize) -> bool {
        self.tasks[task].state == State::Blocked
    }

    /// The next task of a CPU, which runs from now on; `None` if none waits there.
    pub(super) fn next(&mut self, cpu: u16) -> Option<usize> {
        let queue = &mut self.cpus[usize::from(cpu)];
        assert_eq!(queue.running, None, "CPU {cpu} runs two tasks");
        let task = queue.waiting.pop_front()?;
        queue.running = Some(task);
        self.tasks[task].state = State::Running;
        Some(task)
    }

    /// The task that runs on a CPU blocks.
    pub(super) fn block(&mut self, cpu: u16) {
        self.stop(cpu, State::Blocked);
    }

    /// The task that runs on a CPU ends.
    pub(super) fn end(&mut self, cpu: u16) {
        self.stop(cpu, State::Ended);
        self.alive -= 1;
    }

    /// The task that runs on a CPU has used its time slice: if others wait, it waits behind them.
    /// Returns whether it does.
    pub(super) fn give_way(&mut self, cpu: u16) -> bool {
        if self.is_alone(cpu) {
            return false;
        }
        let task = self.stop(cpu, State::Waiting);
        self.cpus[usize::from(cpu)].waiting.push_back(task);
        true
    }

    /// Wakes a blocked task, for a task that runs on CPU `by`. Returns the CPU that it gets.
    pub(super) fn wake(&mut self, task: usize, by: u16) -> u16 {
        assert!(self.is_blocked(task), "task {task} is woken twice");
        let cpu = self.place(self.tasks[task].cpu, by);
        self.tasks[task] = Task { cpu, state: State::Waiting };
        self.cpus[usize::from(cpu)].waiting.push_back(task);
        cpu
    }

    /// The CPU for a task that ran on `previous` and is woken on `by`.
    fn place(&self, previous: u16, by: u16) -> u16 {
        let others = self.cpus[usize::from(by)].waiting.len();
        let target = if others <= self.load(previous) { by } else { previous };
        let is_near = |cpu: u16| self.socket(cpu) == self.socket(target);
        if self.is_idle(previous) && is_near(previous) {
            return previous;
        }
        let from_target = || (target..self.cpus.len() as u16).chain(0..target);
        let idle = || from_target().filter(|&cpu| self.is_idle(cpu));
        idle().find(|&cpu| is_near(cpu)).or_else(|| idle().next()).unwrap_or(target)
    }

    fn stop(&mut self, cpu: u16, state: State) -> usize {
        let task = self.cpus[usize::from(cpu)].running.take().expect("a task runs here");
        self.tasks[task].state = state;
        task
    }

    fn socket(&self, cpu: u16) -> u8 {
        self.socket_of[usize::from(cpu)]
    }

    /// Tasks that run or wait on a CPU.
    fn load(&self, cpu: u16) -> usize {
        let queue = &self.cpus[usize::from(cpu)];
        queue.waiting.len() + usize::from(queue.running.is_some())
    }

    /// Whether no task waits for a CPU.
    fn is_alone(&self, cpu: u16) -> bool {
        self.cpus[usize::from(cpu)].waiting.is_empty()
    }

    fn is_idle(&self, cpu: u16) -> bool {
        self.load(cpu) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Task `n` runs on CPU `cpus[n]`; the other CPUs are idle.
    fn running(cpus: &[u16], socket_of: &[u8]) -> Queues {
        let mut queues = Queues::new(0, socket_of.to_vec(), 1);
        for (task, &cpu) in cpus.iter().enumerate() {
            queues.tasks.push(Task { cpu, state: State::Waiting });
            queues.cpus[usize::from(cpu)].waiting.push_back(task);
            queues.alive += 1;
        }
        for cpu in 0..socket_of.len() as u16 {
            queues.next(cpu);
        }
        queues
    }

    const TWO_SOCKETS: [u8; 4] = [0, 0, 1, 1];

    #[test]
    fn tasks_start_evenly_and_in_an_order_that_depends_on_the_seed() {
        let place = |seed| Queues::new(10, vec![0; 4], seed);
        let lengths: Vec<usize> = place(1).cpus.iter().map(|queue| queue.waiting.len()).collect();
        assert_eq!(lengths.iter().sum::<usize>(), 10);
        assert!(lengths.iter().all(|length| (2..=3).contains(length)), "{lengths:?}");
        let cpus = |seed| place(seed).tasks.iter().map(|task| task.cpu).collect::<Vec<_>>();
        assert_eq!(cpus(1), cpus(1));
        assert!((2..10).any(|seed| cpus(seed) != cpus(1)));
    }

    #[test]
    fn a_woken_task_returns_to_its_cpu_if_that_is_idle_and_near() {
        // CPU 1 is idle, too, and nearer to the waker's.
        let mut queues = running(&[0, 2], &[0, 0, 0, 1]);
        queues.block(2);
        assert_eq!(queues.wake(1, 0), 2);
    }

    #[test]
    fn a_waker_without_a_queue_attracts_the_task_to_its_socket() {
        let mut queues = running(&[0, 2], &TWO_SOCKETS);
        queues.block(2);
        assert_eq!(queues.wake(1, 0), 1);
    }

    #[test]
    fn a_waker_with_a_queue_leaves_the_task_on_its_socket() {
        // Task 2 waits on CPU 0, whose task wakes task 1.
        let mut queues = running(&[0, 2, 0], &TWO_SOCKETS);
        queues.block(2);
        assert_eq!(queues.wake(1, 0), 2);
    }

    #[test]
    fn without_an_idle_cpu_nearby_a_task_gets_one_elsewhere() {
        let mut queues = running(&[0, 1, 2, 1], &TWO_SOCKETS);
        queues.block(1);
        queues.next(1);
        assert_eq!(queues.wake(1, 0), 3);
    }

    #[test]
    fn without_any_idle_cpu_a_task_waits_where_fewer_tasks_are() {
        // Task 1 ran on CPU 1, task 0 wakes it on CPU 0, and the others are on these CPUs.
        let placed = |others: &[u16]| {
            let mut queues = running(&[&[0, 1], others].concat(), &[0, 0]);
            queues.block(1);
            queues.next(1);
            queues.wake(1, 0)
        };
        assert_eq!(placed(&[1]), 0);
        assert_eq!(placed(&[1, 0]), 0);
        assert_eq!(placed(&[1, 0, 0]), 1);
    }

    #[test]
    fn a_task_gives_way_only_to_others() {
        let mut queues = running(&[0, 0], &[0]);
        assert!(queues.give_way(0));
        assert_eq!(queues.next(0), Some(1));
        queues.block(0);
        assert_eq!(queues.next(0), Some(0));
        assert!(!queues.give_way(0));
    }

    proptest! {
        /// Any order of blocking, waking, giving way and ending: each task is in one place, and
        /// runs after those that waited before it.
        #[test]
        fn no_task_is_lost_or_passed(
            cpus in 1u16..9,
            tasks in 1usize..20,
            seed: u64,
            steps in prop::collection::vec((any::<u16>(), 0u8..4, any::<prop::sample::Index>()), 0..200),
        ) {
            let socket_of = (0..cpus).map(|cpu| (cpu % 2) as u8).collect();
            let mut queues = Queues::new(tasks, socket_of, seed);
            let mut ended = 0;
            for (cpu, step, at) in steps {
                let cpu = cpu % cpus;
                let first = queues.cpus[usize::from(cpu)].waiting.front().copied();
                if queues.cpus[usize::from(cpu)].running.is_none() {
                    prop_assert_eq!(queues.next(cpu), first);
                    continue;
                }
                let blocked = at.index(tasks);
                match step {
                    0 => queues.block(cpu),
                    1 if queues.is_blocked(blocked) => {
                        let length: Vec<usize> =
                            queues.cpus.iter().map(|queue| queue.waiting.len()).collect();
                        let to = usize::from(queues.wake(blocked, cpu));
                        prop_assert_eq!(queues.cpus[to].waiting.len(), length[to] + 1);
                        prop_assert_eq!(queues.cpus[to].waiting.back(), Some(&blocked));
                    }
                    2 => {
                        queues.end(cpu);
                        ended += 1;
                    }
                    _ => drop(queues.give_way(cpu)),
                }
                prop_assert_eq!(queues.is_alive(), ended < tasks);
            }
            for (task, &Task { cpu, state }) in queues.tasks.iter().enumerate() {
                let waits = |queue: &RunQueue| queue.waiting.iter().filter(|it| **it == task).count();
                let waiting: usize = queues.cpus.iter().map(waits).sum();
                let running = queues.cpus.iter().filter(|it| it.running == Some(task)).count();
                let own = &queues.cpus[usize::from(cpu)];
                let expected = match state {
                    State::Waiting => (1, 0, waits(own) == 1),
                    State::Running => (0, 1, own.running == Some(task)),
                    State::Blocked | State::Ended => (0, 0, true),
                };
                prop_assert_eq!((waiting, running, true), expected);
            }
        }
    }
}

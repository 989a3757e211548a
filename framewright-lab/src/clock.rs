//! Properties of the machine that measurements need: CPU time of a thread, pinning, real-time
//! priority, waits for another thread.

use rustix::{
    thread::{CpuSet, sched_getaffinity, sched_setaffinity},
    time::{ClockId, clock_gettime},
};
use std::{collections::HashSet, fs, time::Duration};

/// CPU time that this thread has used.
pub(crate) fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// CPUs that this process may use, as many as wanted, on different cores as far as possible.
/// `None`: it may use fewer.
pub(crate) fn cpus(count: usize) -> Option<Vec<usize>> {
    let allowed = sched_getaffinity(None).ok()?;
    let mut cores = HashSet::new();
    let allowed = (0..CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu));
    let (mut cpus, siblings): (Vec<usize>, Vec<usize>) =
        allowed.partition(|cpu| cores.insert(core(*cpu)));
    cpus.extend(siblings);
    cpus.truncate(count);
    (cpus.len() == count).then_some(cpus)
}

/// Two CPUs that this process may use, on different cores if possible.
pub(crate) fn two_cpus() -> Option<[usize; 2]> {
    cpus(2)?.try_into().ok()
}

/// The core of a CPU.
fn core(cpu: usize) -> String {
    let siblings = format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
    fs::read_to_string(siblings).unwrap_or_else(|_| cpu.to_string())
}

/// Pins this thread to a CPU and requests real-time priority. If either fails, the run continues:
/// figures are noisier, but not wrong.
pub(crate) fn settle(cpu: usize) {
    let mut only = CpuSet::new();
    only.set(cpu);
    let _ = sched_setaffinity(None, &only);
    let _ = real_time();
}

/// Puts this thread into `SCHED_FIFO` at the lowest priority. Returns whether that is permitted.
fn real_time() -> bool {
    let priority = libc::sched_param { sched_priority: 1 };
    // SAFETY: a valid parameter block, borrowed for the call; 0 is the calling thread.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const priority) == 0 }
}

/// The wait of a thread for the other one: the thread spins, and after a while yields the CPU.
/// Otherwise two parallel measurements could wait for each other for ever: under `SCHED_FIFO`, no
/// other thread of the same priority runs on the CPU of a spinning thread.
pub(crate) struct SpinWait(u32);

impl SpinWait {
    /// Spins before the first yield: about a hundred microseconds, far longer than a running
    /// partner takes.
    const SPINS: u32 = 10_000;

    pub(crate) fn new() -> Self {
        Self(Self::SPINS)
    }

    #[inline]
    pub(crate) fn wait(&mut self) {
        match self.0.checked_sub(1) {
            Some(left) => {
                self.0 = left;
                std::hint::spin_loop();
            }
            None => std::thread::yield_now(),
        }
    }
}

/// Describes how measurements with two threads run on this machine.
pub(crate) fn describe_two_threads(cpus: Option<[usize; 2]>) -> String {
    let Some([first, second]) = cpus else {
        return "left out: this process may use one CPU only".to_owned();
    };
    format!("wall time, pinned to CPUs {first} and {second}, {}", policy())
}

/// Describes how `count` threads run on this machine, each pinned if there are enough CPUs.
pub(crate) fn describe_threads(count: usize) -> String {
    match cpus(count) {
        Some(_) => format!("each pinned to a CPU of its own, {}", policy()),
        None => "not pinned: this process may use fewer CPUs than threads".to_owned(),
    }
}

/// The scheduling policy of threads that request real-time priority.
fn policy() -> &'static str {
    // Another thread tries it, because this one must keep its priority.
    let permitted = std::thread::spawn(real_time).join().unwrap_or(false);
    if permitted { "SCHED_FIFO" } else { "normal priority, SCHED_FIFO not permitted" }
}

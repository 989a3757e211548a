//! Processes and threads of the real kernel that map memory, touch each page, and unmap it.

#![allow(unsafe_code)]

use rustix::{
    io::{Errno, read, retry_on_intr, write},
    pipe::{PipeFlags, pipe_with},
};
use std::{
    fs::File,
    io::Read,
    os::fd::{AsFd, OwnedFd},
    sync::Barrier,
    thread,
    time::{Duration, Instant},
};

use crate::anonymous::Anonymous;
use crate::clock::{settle, thread_time};

/// Whether tasks share an address space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Processes,
    Threads,
}

impl Kind {
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Processes => "processes",
            Self::Threads => "threads",
        }
    }
}

/// The times of one task, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Times {
    /// Start and end, since a moment before all starts.
    start: u64,
    end: u64,
    /// CPU time.
    cpu: u64,
    /// Time for which the task was runnable and waited for its CPU.
    delay: u64,
}

/// The times of all tasks of a round.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Round {
    /// Page faults of all tasks.
    pub(super) faults: u64,
    /// Time from the first start to the last end.
    pub(super) wall: Duration,
    /// CPU time of all tasks.
    pub(super) cpu: Duration,
    /// The share of its time for which other programs kept a task from running, the greatest of all
    /// tasks.
    pub(super) delayed: f64,
}

/// The work of a task: `times` mappings of `pages` pages each.
#[derive(Clone, Copy, Debug)]
pub(super) struct Work {
    pub(super) pages: usize,
    pub(super) times: u32,
}

impl Work {
    fn run(self) -> Result<(), Errno> {
        for _ in 0..self.times {
            Anonymous::new(self.pages)?.touch();
        }
        Ok(())
    }

    /// Runs on CPU `cpu`, once to warm up; then, after `wait`, timed. Allocates no heap memory, and
    /// does not panic: it is also called in a forked child.
    fn task(
        self,
        cpu: usize,
        origin: Instant,
        wait: impl FnOnce() -> Result<(), Errno>,
    ) -> Result<Times, Errno> {
        settle(cpu);
        let warm = Self { times: 1, ..self }.run();
        // A task that cannot map memory must not block the others.
        wait()?;
        warm?;
        let delay = run_delay();
        let (start, cpu) = (origin.elapsed(), thread_time());
        self.run()?;
        let (cpu, end) = (thread_time().saturating_sub(cpu), origin.elapsed());
        let delay = run_delay().zip(delay).map(|(after, before)| after.saturating_sub(before));
        let [start, end, cpu] = [start, end, cpu].map(|time| time.as_nanos() as u64);
        // A kernel without these statistics: a task that does not run counts as delayed.
        let delay = delay.unwrap_or((end - start).saturating_sub(cpu));
        Ok(Times { start, end, cpu, delay })
    }
}

/// Runs a task on each of `cpus`.
///
/// # Errors
///
/// The kernel's reason.
pub(super) fn round(kind: Kind, work: Work, cpus: &[usize]) -> Result<Round, String> {
    let times = match kind {
        Kind::Threads => threads(work, cpus),
        Kind::Processes => processes(work, cpus),
    };
    let times =
        times.map_err(|errno| format!("the kernel refused the {}: {errno}", kind.word()))?;
    let start = times.iter().map(|times| times.start).min().unwrap_or(0);
    let end = times.iter().map(|times| times.end).max().unwrap_or(0);
    let delayed = |times: &Times| times.delay as f64 / (times.end - times.start).max(1) as f64;
    Ok(Round {
        faults: times.len() as u64 * u64::from(work.times) * work.pages as u64,
        wall: Duration::from_nanos((end - start).max(1)),
        cpu: Duration::from_nanos(times.iter().map(|times| times.cpu).sum()),
        delayed: times.iter().map(delayed).fold(0.0, f64::max).min(1.0),
    })
}

/// Nanoseconds for which this thread has been runnable and waited for its CPU so far. `None`: the kernel does
/// not count them.
fn run_delay() -> Option<u64> {
    let mut text = [0; 64];
    let length = File::open("/proc/thread-self/schedstat").ok()?.read(&mut text).ok()?;
    let delay = text[..length].split(u8::is_ascii_whitespace).nth(1)?;
    std::str::from_utf8(delay).ok()?.parse().ok()
}

fn threads(work: Work, cpus: &[usize]) -> Result<Vec<Times>, Errno> {
    let (origin, ready) = (Instant::now(), Barrier::new(cpus.len()));
    let wait = || {
        ready.wait();
        Ok(())
    };
    thread::scope(|scope| {
        let spawn = |&cpu: &usize| scope.spawn(move || work.task(cpu, origin, wait));
        let tasks: Vec<_> = cpus.iter().map(spawn).collect();
        tasks.into_iter().map(|task| task.join().unwrap_or(Err(Errno::CANCELED))).collect()
    })
}

/// A child that works, and sends its times.
struct Child {
    pid: libc::pid_t,
    from: OwnedFd,
}

impl Drop for Child {
    fn drop(&mut self) {
        // SAFETY: `pid` is a child of this process that nobody else waits for: its number is not
        // reused before this wait. Killing a child that has ended has no effect.
        unsafe {
            libc::kill(self.pid, libc::SIGKILL);
            libc::waitpid(self.pid, std::ptr::null_mut(), 0);
        }
    }
}

/// Children wait for one byte each of a pipe. They sleep there: a real-time task that spins would
/// keep others, which are still starting on its CPU, from running.
fn processes(work: Work, cpus: &[usize]) -> Result<Vec<Times>, Errno> {
    let origin = Instant::now();
    let (go, start) = pipe_with(PipeFlags::CLOEXEC)?;
    let fork = |&cpu: &usize| Child::fork(work, cpu, origin, &go);
    let children: Vec<Child> = cpus.iter().map(fork).collect::<Result<_, _>>()?;
    for child in &children {
        receive::<1>(&child.from)?;
    }
    send(&start, &vec![0; children.len()])?;
    children.iter().map(Child::times).collect()
}

impl Child {
    fn fork(work: Work, cpu: usize, origin: Instant, go: &OwnedFd) -> Result<Self, Errno> {
        let (from, to) = pipe_with(PipeFlags::CLOEXEC)?;
        // SAFETY: the child has one thread, and the locks of the parent's other threads may be held
        // for ever. Until it exits it only makes system calls: `task`, `send` and `receive` neither
        // allocate nor take locks (a short path needs no allocation).
        match unsafe { libc::fork() } {
            -1 => Err(Errno::from_raw_os_error(
                std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EAGAIN),
            )),
            0 => {
                // SAFETY: a number as argument. A child must not outlive the parent's measurement.
                unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
                let wait = || {
                    send(&to, &[0])?;
                    receive::<1>(go).map(drop)
                };
                let sent = work.task(cpu, origin, wait).and_then(|times| {
                    let Times { start, end, cpu, delay } = times;
                    let numbers = [start, end, cpu, delay];
                    numbers.iter().try_for_each(|number| send(&to, &number.to_ne_bytes()))
                });
                // SAFETY: ends this process at once, without running destructors of the parent.
                unsafe { libc::_exit(i32::from(sent.is_err())) }
            }
            pid => Ok(Self { pid, from }),
        }
    }

    fn times(&self) -> Result<Times, Errno> {
        let number = || receive::<8>(&self.from).map(u64::from_ne_bytes);
        Ok(Times { start: number()?, end: number()?, cpu: number()?, delay: number()? })
    }
}

/// Writes all `bytes`: fewer than a pipe holds.
fn send(to: impl AsFd, bytes: &[u8]) -> Result<(), Errno> {
    let written = retry_on_intr(|| write(&to, bytes))?;
    if written == bytes.len() { Ok(()) } else { Err(Errno::PIPE) }
}

/// Reads `N` bytes, which are written at once and are the first in the pipe.
///
/// # Errors
///
/// [`Errno::CHILD`]: the writer has ended.
fn receive<const N: usize>(from: impl AsFd) -> Result<[u8; N], Errno> {
    let mut bytes = [0; N];
    let read = retry_on_intr(|| read(&from, &mut bytes))?;
    if read == N { Ok(bytes) } else { Err(Errno::CHILD) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_tasks_work_and_are_timed() {
        let work = Work { pages: 600, times: 2 };
        for kind in [Kind::Processes, Kind::Threads] {
            // Tasks may share a CPU.
            let round = round(kind, work, &[0, 0, 0]).unwrap();
            assert_eq!(round.faults, 3600, "{kind:?}");
            assert!(round.cpu > Duration::ZERO && round.wall > Duration::ZERO, "{round:?}");
            assert!((0.0..=1.0).contains(&round.delayed), "{round:?}");
        }
    }

    #[test]
    fn a_refused_mapping_is_an_error_and_blocks_nobody() {
        let work = Work { pages: usize::MAX >> 13, times: 1 };
        for kind in [Kind::Processes, Kind::Threads] {
            let error = round(kind, work, &[0, 0]).unwrap_err();
            assert!(error.contains(kind.word()), "{error}");
        }
    }
}

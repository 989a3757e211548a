//! A task on each CPU, and a barrier for all of them.

use std::{io, ptr};

use crate::{Failure, machine};

/// Whether tasks share an address space.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Tasks {
    /// Separate address spaces.
    Processes,
    /// One address space.
    Threads,
}

/// A barrier for all tasks, in memory that processes share.
pub(crate) struct Meeting(*mut libc::pthread_barrier_t);

// SAFETY: a barrier may be used by several threads, and this one is never freed.
unsafe impl Send for Meeting {}
// SAFETY: as above.
unsafe impl Sync for Meeting {}

impl Meeting {
    fn of(tasks: usize) -> Result<Self, Failure> {
        let bytes = size_of::<libc::pthread_barrier_t>();
        let at: *mut libc::pthread_barrier_t = map(bytes, libc::MAP_SHARED, -1)?.cast();
        // SAFETY: the memory was mapped above, is zeroed and large enough; all arguments live
        // during the calls.
        let made = unsafe {
            let mut shared: libc::pthread_barrierattr_t = std::mem::zeroed();
            libc::pthread_barrierattr_init(&mut shared);
            libc::pthread_barrierattr_setpshared(&mut shared, libc::PTHREAD_PROCESS_SHARED);
            libc::pthread_barrier_init(at, &shared, tasks as u32)
        };
        if made == 0 { Ok(Self(at)) } else { Err(io::Error::from_raw_os_error(made).into()) }
    }

    /// Waits until all tasks have called this.
    pub(crate) fn meet(&self) {
        // SAFETY: initialised, and never destroyed.
        unsafe { libc::pthread_barrier_wait(self.0) };
    }
}

/// The number of CPUs.
pub(crate) fn cpus() -> usize {
    // SAFETY: the call only returns a number.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) }).unwrap_or(1)
}

/// Runs a task on every CPU at once. Returns the result of the task on the first CPU, which the
/// caller runs.
pub(crate) fn run<R>(
    tasks: Tasks,
    task: impl Fn(usize, &Meeting) -> R + Sync,
) -> Result<R, Failure> {
    let meeting = Meeting::of(cpus())?;
    match tasks {
        Tasks::Threads => Ok(std::thread::scope(|scope| {
            for cpu in 1..cpus() {
                let (task, meeting) = (&task, &meeting);
                scope.spawn(move || {
                    stay_on(cpu);
                    task(cpu, meeting);
                });
            }
            stay_on(0);
            task(0, &meeting)
        })),
        Tasks::Processes => {
            let handler = child_ended as extern "C" fn(libc::c_int) as libc::sighandler_t;
            // SAFETY: the handler is valid forever, and makes only system calls that are allowed in
            // handlers.
            unsafe { libc::signal(libc::SIGCHLD, handler) };
            for cpu in 1..cpus() {
                // SAFETY: this process has one thread, so the child may call any function.
                match unsafe { libc::fork() } {
                    0 => {
                        stay_on(cpu);
                        task(cpu, &meeting);
                        // SAFETY: ends the process.
                        unsafe { libc::_exit(0) };
                    }
                    -1 => return Err(io::Error::last_os_error().into()),
                    _ => {}
                }
            }
            stay_on(0);
            Ok(task(0, &meeting))
        }
    }
}

/// The handler for the end of a child. If the child failed (the kernel may have killed it for lack
/// of memory), the handler ends the machine, because the other tasks would wait for the child.
extern "C" fn child_ended(_: libc::c_int) {
    let mut status = 0;
    // SAFETY: system calls that a handler may make, with a local word.
    unsafe {
        while libc::waitpid(-1, &raw mut status, libc::WNOHANG) > 0 {
            if status != 0 {
                let said =
                    b"error: a task failed, or the kernel killed it: is there enough memory?\n";
                libc::write(1, said.as_ptr().cast(), said.len());
                machine::end(false);
            }
        }
    }
}

fn stay_on(cpu: usize) {
    // SAFETY: `cpu_set_t` is a plain bit mask, so zeroes are a valid value; pid 0 is the calling
    // thread.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        libc::sched_setaffinity(0, size_of_val(&set), &set);
    }
}

/// Maps `bytes` bytes of anonymous memory to be read and written, or of a file to be read.
pub(crate) fn map(bytes: usize, flags: i32, file: i32) -> Result<*mut u8, Failure> {
    let (flags, rights) = match file {
        -1 => (flags | libc::MAP_ANONYMOUS, libc::PROT_READ | libc::PROT_WRITE),
        _ => (flags, libc::PROT_READ),
    };
    // SAFETY: the kernel selects a free address range.
    let at = unsafe { libc::mmap(ptr::null_mut(), bytes, rights, flags, file, 0) };
    if at == libc::MAP_FAILED { Err(io::Error::last_os_error().into()) } else { Ok(at.cast()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

    #[test]
    fn threads_meet_on_all_cpus_and_the_result_of_the_first_is_returned() {
        let (come, gone) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let told = run(Tasks::Threads, |cpu, meeting| {
            come.fetch_add(1, SeqCst);
            meeting.meet();
            let all = come.load(SeqCst);
            gone.fetch_add(1, SeqCst);
            (cpu, all)
        });
        assert_eq!((told.unwrap(), gone.load(SeqCst)), ((0, cpus()), cpus()));
    }

    #[test]
    fn anonymous_memory_is_zero_and_writable() {
        let at = map(8192, libc::MAP_PRIVATE, -1).unwrap();
        // SAFETY: the range was mapped above.
        unsafe {
            assert_eq!(at.add(8191).read(), 0);
            at.write(7);
        }
        assert!(map(0, libc::MAP_PRIVATE, -1).is_err());
    }
}

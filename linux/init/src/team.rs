//! A task on each CPU, which meet.

use std::{io, ptr};

use crate::{Failure, machine};

/// Whether tasks share an address space.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Tasks {
    /// They do not.
    Processes,
    /// They do.
    Threads,
}

/// Where all tasks meet: in memory that processes share.
pub(crate) struct Meeting(*mut libc::pthread_barrier_t);

// SAFETY: the barrier is made for being used by many, and never freed.
unsafe impl Send for Meeting {}
// SAFETY: as above.
unsafe impl Sync for Meeting {}

impl Meeting {
    fn of(tasks: usize) -> Result<Self, Failure> {
        let bytes = size_of::<libc::pthread_barrier_t>();
        let at: *mut libc::pthread_barrier_t = map(bytes, libc::MAP_SHARED, -1)?.cast();
        // SAFETY: the memory is ours, zeroed, and large enough; all arguments live that long.
        let made = unsafe {
            let mut shared: libc::pthread_barrierattr_t = std::mem::zeroed();
            libc::pthread_barrierattr_init(&mut shared);
            libc::pthread_barrierattr_setpshared(&mut shared, libc::PTHREAD_PROCESS_SHARED);
            libc::pthread_barrier_init(at, &shared, tasks as u32)
        };
        if made == 0 { Ok(Self(at)) } else { Err(io::Error::from_raw_os_error(made).into()) }
    }

    /// Waits until all tasks have come.
    pub(crate) fn meet(&self) {
        // SAFETY: initialised, and never destroyed.
        unsafe { libc::pthread_barrier_wait(self.0) };
    }
}

/// CPUs of this machine.
pub(crate) fn cpus() -> usize {
    // SAFETY: asks for a number.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) }).unwrap_or(1)
}

/// Runs a task on every CPU at once; what the one on the first CPU, which is the caller, returns.
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
            // SAFETY: the handler is there for ever, and does what handlers may.
            unsafe { libc::signal(libc::SIGCHLD, handler) };
            for cpu in 1..cpus() {
                // SAFETY: this process has one thread, so that the child may do what it likes.
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

/// A task has ended: if not by itself (the kernel may have killed it for its memory), the machine ends, for
/// the others would wait for it.
extern "C" fn child_ended(_: libc::c_int) {
    let mut status = 0;
    // SAFETY: system calls that a handler may make, with a word of ours.
    unsafe {
        while libc::waitpid(-1, &raw mut status, libc::WNOHANG) > 0 {
            if status != 0 {
                let said =
                    b"error: the kernel ended a task before its end: is there enough memory?\n";
                libc::write(1, said.as_ptr().cast(), said.len());
                machine::end(false);
            }
        }
    }
}

fn stay_on(cpu: usize) {
    // SAFETY: a set of CPUs is bits, and 0 means this thread.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        libc::sched_setaffinity(0, size_of_val(&set), &set);
    }
}

/// Maps memory of this many bytes, anonymous or of a file, to be read, and written if anonymous.
pub(crate) fn map(bytes: usize, flags: i32, file: i32) -> Result<*mut u8, Failure> {
    let (flags, rights) = match file {
        -1 => (flags | libc::MAP_ANONYMOUS, libc::PROT_READ | libc::PROT_WRITE),
        _ => (flags, libc::PROT_READ),
    };
    // SAFETY: maps where nothing is.
    let at = unsafe { libc::mmap(ptr::null_mut(), bytes, rights, flags, file, 0) };
    if at == libc::MAP_FAILED { Err(io::Error::last_os_error().into()) } else { Ok(at.cast()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

    #[test]
    fn threads_meet_on_all_cpus_and_the_first_tells() {
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
    fn what_is_mapped_is_zero_and_can_be_written_if_it_is_no_file() {
        let at = map(8192, libc::MAP_PRIVATE, -1).unwrap();
        // SAFETY: what was just mapped.
        unsafe {
            assert_eq!(at.add(8191).read(), 0);
            at.write(7);
        }
        assert!(map(0, libc::MAP_PRIVATE, -1).is_err());
    }
}

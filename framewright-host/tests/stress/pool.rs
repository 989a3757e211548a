//! A pool of workers with a time limit, and one more thread.

use framewright::Memory;
use framewright_host::HostMachine;
use std::{
    any::Any,
    env,
    io::{self, Write},
    process::exit,
    sync::{
        atomic::{AtomicBool, Ordering::Relaxed},
        mpsc,
    },
    thread,
    time::Duration,
};

use super::worker::Worker;

/// The time after the time limit at which workers count as stuck.
const GRACE: Duration = Duration::from_secs(60);

/// Runs workers on the first `workers` CPUs for `time`. `beside` runs on another thread until its
/// stop flag is set.
pub(crate) fn run_workers<R: Send>(
    time: Duration,
    memory: &Memory<'_, HostMachine>,
    workers: u16,
    seed: u64,
    beside: impl FnOnce(&AtomicBool) -> R + Send,
) -> R {
    let stop = AtomicBool::new(false);
    let (senders, receivers): (Vec<_>, Vec<_>) = (0..workers).map(|_| mpsc::channel()).unzip();
    let (finished, unfinished) = mpsc::channel::<()>();
    thread::scope(|scope| {
        for (number, inbox) in receivers.into_iter().enumerate() {
            let worker = Worker::new(memory, number as u16, seed, senders.clone(), inbox);
            let (stop, finished) = (&stop, finished.clone());
            scope.spawn(move || {
                worker.work(stop);
                drop(finished);
            });
        }
        drop((senders, finished));
        let beside = scope.spawn(|| beside(&stop));
        thread::sleep(time);
        stop.store(true, Relaxed);
        if unfinished.recv_timeout(GRACE) == Err(mpsc::RecvTimeoutError::Timeout) {
            let panic = if beside.is_finished() { beside.join().err() } else { None };
            abort(panic.as_deref());
        }
        beside.join().expect("the thread next to the workers found something wrong")
    })
}

/// Aborts the process, because stuck workers cannot be joined. Prints the panic of the other thread
/// directly, because the test harness would capture the output.
fn abort(panic: Option<&(dyn Any + Send)>) -> ! {
    let mut stderr = io::stderr();
    let _ = writeln!(stderr, "stuck: some workers have not ended {GRACE:?} after the time limit");
    if let Some(panic) = panic {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("(no message)");
        let _ = writeln!(stderr, "the thread beside them had panicked: {text}");
    }
    exit(1);
}

/// The number in an environment variable, if it is set.
pub(crate) fn number(variable: &str) -> Option<u64> {
    let text = env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} is a number, not '{text}'")))
}

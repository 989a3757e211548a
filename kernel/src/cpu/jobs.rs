//! Jobs: the first CPU makes all CPUs run a function, and waits until they have run it.

use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering, fence};

use super::{Cpu, all, control, online, this_cpu};
use crate::{
    apic,
    interrupts::Vector,
    kthread,
    wait::{self, Event},
};

/// A function that all CPUs run. It is on the stack of the first CPU, which waits until all have
/// run it.
struct Job<'j> {
    run: &'j (dyn Fn(&'static Cpu) + Sync),
    left: AtomicUsize,
}

/// The current job, and the number of all jobs so far.
static JOB: AtomicPtr<()> = AtomicPtr::new(core::ptr::null_mut());
static JOBS: AtomicUsize = AtomicUsize::new(0);

/// Runs a function on all CPUs at once. Called by the first CPU, outside of any job.
pub(crate) fn run_on_all(run: &(dyn Fn(&'static Cpu) + Sync)) {
    let job = Job { run, left: AtomicUsize::new(online()) };
    JOB.store((&raw const job).cast_mut().cast(), Ordering::Relaxed);
    JOBS.fetch_add(1, Ordering::SeqCst);
    let me = this_cpu();
    all().filter(|cpu| cpu.id != me.id).for_each(|cpu| apic::send(cpu.apic, Vector::Wake));
    do_job(&job);
    wait::until(Event::SERVED, || job.left.load(Ordering::Acquire) == 0);
}

fn do_job(job: &Job<'_>) {
    let cpu = this_cpu();
    (job.run)(cpu);
    // The job ends as soon as the last CPU has reported.
    job.left.fetch_sub(1, Ordering::AcqRel);
    wait::wake(Event::SERVED);
}

/// The loop of CPUs other than the first: jobs, threads of the kernel, and halting.
pub(crate) fn work_for_others() -> ! {
    let mut done = 0;
    loop {
        if kthread::run() {
            continue;
        }
        control::disable_interrupts();
        if JOBS.load(Ordering::SeqCst) == done {
            control::halt_once();
            control::enable_interrupts();
            continue;
        }
        control::enable_interrupts();
        done += 1;
        fence(Ordering::Acquire);
        // SAFETY: the first CPU keeps the job until every CPU has run it, and posts no other job
        // before. This is therefore the job with this number.
        let job = unsafe { &*JOB.load(Ordering::Relaxed).cast::<Job<'static>>() };
        do_job(job);
    }
}

//! Jobs on several threads.

use std::{
    panic::resume_unwind,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    thread,
};

/// The results of all jobs, in their order. Up to `threads` jobs run at the same time. A job reports counts of finished
/// parts of its work, and `progress` gets each count.
///
/// # Panics
///
/// If a job panics, with its message.
pub(crate) fn map<J: Sync, R: Send>(
    jobs: &[J],
    threads: usize,
    run: impl Fn(&J, &(dyn Fn(u64) + Sync)) -> R + Sync,
    progress: &mut (dyn FnMut(u64) + Send),
) -> Vec<R> {
    let progress = Mutex::new(progress);
    let done = |parts| progress.lock().unwrap_or_else(PoisonError::into_inner)(parts);
    if threads.min(jobs.len()) <= 1 {
        // A caller that measures the CPU time of its thread sees that of the jobs.
        return jobs.iter().map(|job| run(job, &done)).collect();
    }
    let next = AtomicUsize::new(0);
    let work = || {
        let jobs = std::iter::from_fn(|| {
            let at = next.fetch_add(1, Relaxed);
            Some((at, jobs.get(at)?))
        });
        jobs.map(|(at, job)| (at, run(job, &done))).collect::<Vec<_>>()
    };
    let mut results: Vec<(usize, R)> = thread::scope(|scope| {
        let workers: Vec<_> = (0..threads.min(jobs.len())).map(|_| scope.spawn(work)).collect();
        let results =
            workers.into_iter().map(|worker| worker.join().unwrap_or_else(|it| resume_unwind(it)));
        results.flatten().collect()
    });
    results.sort_by_key(|(at, _)| *at);
    results.into_iter().map(|(_, result)| result).collect()
}

/// The number of processors that this program may use.
pub(crate) fn processors() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_have_the_order_of_jobs_and_all_parts_are_reported() {
        for threads in [0, 1, 3, 100] {
            let jobs: Vec<u64> = (0..20).collect();
            let mut parts = 0;
            let run = |job: &u64, done: &(dyn Fn(u64) + Sync)| {
                done(*job);
                done(1);
                job * 2
            };
            let results = map(&jobs, threads, run, &mut |number| parts += number);
            assert!(results.into_iter().eq(jobs.iter().map(|job| job * 2)), "{threads} threads");
            assert_eq!(parts, 190 + 20);
        }
        assert!(map(&[(); 0], 4, |(), _| (), &mut |_| ()).is_empty());
    }

    #[test]
    #[should_panic(expected = "job 3")]
    fn the_panic_of_a_job_reaches_the_caller() {
        map(&[1, 2, 3, 4], 2, |job, _| assert_ne!(*job, 3, "job 3"), &mut |_| ());
    }
}

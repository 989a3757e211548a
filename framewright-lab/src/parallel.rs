//! Jobs on several threads.

use std::{
    panic::resume_unwind,
    sync::{
        atomic::{AtomicUsize, Ordering::Relaxed},
        mpsc,
    },
    thread,
};

/// The results of all jobs, in their order. As many jobs run at the same time as there are processors. A job reports
/// finished parts of its work, and `progress` gets their numbers on the thread of the caller.
///
/// # Panics
///
/// If a job panics, with its message.
pub(crate) fn map<J: Sync, R: Send>(
    jobs: &[J],
    run: impl Fn(&J, &dyn Fn(u64)) -> R + Sync,
    progress: &mut dyn FnMut(u64),
) -> Vec<R> {
    let threads = thread::available_parallelism().map_or(1, usize::from).min(jobs.len());
    let next = AtomicUsize::new(0);
    let work = |parts: mpsc::Sender<u64>| {
        let done = |number| parts.send(number).unwrap_or_default();
        let jobs = std::iter::from_fn(|| {
            let at = next.fetch_add(1, Relaxed);
            Some((at, jobs.get(at)?))
        });
        jobs.map(|(at, job)| (at, run(job, &done))).collect::<Vec<_>>()
    };
    let (sender, parts) = mpsc::channel();
    let mut results: Vec<(usize, R)> = thread::scope(|scope| {
        let start = |_| {
            let sender = sender.clone();
            scope.spawn(|| work(sender))
        };
        let workers: Vec<_> = (0..threads).map(start).collect();
        drop(sender);
        parts.iter().for_each(progress);
        let results =
            workers.into_iter().map(|worker| worker.join().unwrap_or_else(|it| resume_unwind(it)));
        results.flatten().collect()
    });
    results.sort_by_key(|(at, _)| *at);
    results.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_have_the_order_of_jobs_and_all_parts_are_reported() {
        let jobs: Vec<u64> = (0..20).collect();
        let mut parts = 0;
        let run = |job: &u64, done: &dyn Fn(u64)| {
            done(*job);
            done(1);
            job * 2
        };
        let results = map(&jobs, run, &mut |number| parts += number);
        assert!(results.into_iter().eq(jobs.iter().map(|job| job * 2)));
        assert_eq!(parts, 190 + 20);
        assert!(map(&[(); 0], |(), _| (), &mut |_| ()).is_empty());
    }

    #[test]
    #[should_panic(expected = "job 3")]
    fn the_panic_of_a_job_reaches_the_caller() {
        map(&[1, 2, 3, 4], |job, _| assert_ne!(*job, 3, "job 3"), &mut |_| ());
    }
}

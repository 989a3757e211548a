//! What has to hold besides agreement.

use super::trials::{ALL, DEFAULT, DISKS, EQUAL, FOUR, LARGE, OFF, Outcome, PROCESSES, Trial};
use crate::{
    report::{Check, Run, decimal},
    reproduce::Results,
};

/// Of a trial that has goals.
pub(super) fn goals(trial: &Trial, outcome: &Outcome) -> Vec<Check> {
    let of = |setting| outcome.median(setting, "ipis_per_reclaimed_page");
    let (Some(off), Some(all), Some(equal), Some(lazy)) =
        (of(OFF), of(ALL), of(EQUAL), of(DEFAULT))
    else {
        return Vec::new();
    };
    let check = |what: &str, passed: bool, detail: String| Check {
        name: format!("{}: {what}", trial.name()),
        passed,
        detail,
    };
    let figure = |value: f64| decimal(value, 4);
    let mut checks = Vec::new();
    if trial.paging.spec.name() == FOUR {
        // What kernels with batches received per page; the highest of three.
        let most = if trial.workload == PROCESSES { 0.036 } else { 0.129 };
        checks.extend([
            check(
                "there is something to save",
                off >= 0.5,
                format!("{} interrupts per page one by one (at least 0.5)", figure(off)),
            ),
            check(
                "batches save as much as Linux's",
                all <= most,
                format!("{} interrupts per page (at most {most})", figure(all)),
            ),
        ]);
    }
    if trial.paging.spec.name() == LARGE {
        let share = off / all.max(f64::MIN_POSITIVE);
        checks.push(check(
            "batches save nearly all",
            share >= 16.0,
            format!(
                "{} and {}: {} times fewer (at least 16)",
                figure(off),
                figure(all),
                decimal(share, 1)
            ),
        ));
    }
    let times = |value: f64| all / value.max(f64::MIN_POSITIVE);
    checks.extend([
        check(
            "lazy with the same bound",
            times(equal) >= 4.0,
            format!(
                "{} and {}: {} times fewer (at least 4); frames unflushed at once {} and {}",
                figure(all),
                figure(equal),
                in_words(times(equal)),
                unflushed(outcome, ALL),
                unflushed(outcome, EQUAL),
            ),
        ),
        check(
            "lazy with its default bound",
            times(lazy) >= 10.0,
            format!(
                "{} and {}: {} times fewer (at least 10); frames unflushed at once {}, {} % of memory",
                figure(all),
                figure(lazy),
                in_words(times(lazy)),
                unflushed(outcome, DEFAULT),
                decimal(100.0 * bound(outcome) / trial.paging.frames as f64, 2),
            ),
        ),
    ]);
    checks
}

/// How many times, where it may be that nothing is left to divide by.
fn in_words(times: f64) -> String {
    if times > 1e6 { "countless".to_owned() } else { decimal(times, 1) }
}

/// Of readers that a store feeds.
pub(super) fn sustained(run: &Run) -> Check {
    let of = |name: &str| run.metrics.get(name).map_or(f64::NAN, |metric| metric.median);
    let bandwidth = f64::from(DISKS) * 500e6 / 4096.0;
    let (busy, share) = (of("flush_and_lock_pct"), 100.0 * of("pages_per_s") / bandwidth);
    Check {
        name: run.label.clone(),
        passed: busy < 5.0,
        detail: format!(
            "{} % of busy cycles in flushes, zone locks and LRU locks (less than 5): {} % + {} % + \
             {} %; readers get {} % of what the disks deliver",
            decimal(busy, 2),
            decimal(of("flush_pct"), 2),
            decimal(of("zone_lock_pct"), 2),
            decimal(of("lru_lock_pct"), 2),
            decimal(share, 0),
        ),
    }
}

fn bound(outcome: &Outcome) -> f64 {
    outcome.median(DEFAULT, "unflushed_frames_max").unwrap_or_default()
}

fn unflushed(outcome: &Outcome, setting: usize) -> String {
    decimal(outcome.median(setting, "unflushed_frames_max").unwrap_or_default(), 0)
}

/// What the figures say.
pub(super) fn findings(results: &Results) -> Vec<String> {
    let row = results.rows.iter().find(|row| {
        (&*row.machine, &*row.metric, &*row.subject) == (LARGE, "elapsed_s", super::BATCHED)
    });
    let change = row.and_then(|row| row.modelled.as_ref()?.change_pct.as_ref());
    let Some(change) = change else { return Vec::new() };
    vec![format!(
        "levels of time are not judged: a published reader took 35 us of system time per page, and \
         the model knows what faults, reclaim and flushes take, not the file system below; with \
         batches the model's readers take {} % less time",
        decimal(-change.median, 1)
    )]
}

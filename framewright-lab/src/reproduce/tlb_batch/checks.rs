//! The checks besides agreement: interrupts saved, and reclaim that keeps up with storage.

use framewright_sim::file::StoreSpec;

use super::trials::{ALL, DEFAULT, DISKS, FOUR, LARGE, LAZY_SAME_BOUND, OFF, PROCESSES, Trial};
use crate::{
    report::{Check, Run, decimal},
    reproduce::settings::BySetting,
};

/// The checks of a trial.
pub(super) fn goals(trial: &Trial, outcome: &BySetting) -> Vec<Check> {
    let of = |setting| outcome.median(setting, "ipis_per_reclaimed_page");
    let (Some(off), Some(all), Some(equal), Some(lazy)) =
        (of(OFF), of(ALL), of(LAZY_SAME_BOUND), of(DEFAULT))
    else {
        return Vec::new();
    };
    let check = |what: &str, passed: bool, detail: String| {
        Check::new(format!("{}: {what}", trial.name()), passed, detail)
    };
    let figure = |value: f64| decimal(value, 4);
    let mut checks = Vec::new();
    if trial.paging.spec.name() == FOUR {
        // Interrupts per page of kernels with batches; the maximum of three.
        let most = if trial.workload == PROCESSES { 0.036 } else { 0.129 };
        checks.extend([
            check(
                "interrupts without batches",
                off >= 0.5,
                format!("{} interrupts per page without batching (at least 0.5)", figure(off)),
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
                "{} and {}: {} times fewer (at least 4); most unflushed frames {} and {}",
                figure(all),
                figure(equal),
                ratio_text(times(equal)),
                unflushed(outcome, ALL),
                unflushed(outcome, LAZY_SAME_BOUND),
            ),
        ),
        check(
            "lazy with its default bound",
            times(lazy) >= 10.0,
            format!(
                "{} and {}: {} times fewer (at least 10); most unflushed frames {}, {} % of memory",
                figure(all),
                figure(lazy),
                ratio_text(times(lazy)),
                unflushed(outcome, DEFAULT),
                decimal(100.0 * bound(outcome) / trial.paging.frames as f64, 2),
            ),
        ),
    ]);
    checks
}

/// A ratio as text, also with a divisor of zero.
fn ratio_text(times: f64) -> String {
    if times > 1e6 { "infinitely many".to_owned() } else { decimal(times, 1) }
}

/// The check that reclaim keeps up with storage.
pub(super) fn sustained(run: &Run) -> Check {
    let of = |name: &str| run.metrics.get(name).map_or(f64::NAN, |metric| metric.median);
    let bandwidth = StoreSpec::ssds(DISKS).mb_per_s as f64 * 1e6 / 4096.0;
    let (busy, share) = (of("flush_and_lock_pct"), 100.0 * of("pages_per_s") / bandwidth);
    Check::new(
        run.label.clone(),
        busy < 5.0,
        format!(
            "{} % of busy cycles in flushes, zone locks and LRU locks (less than 5): {} % + {} % + \
             {} %; readers get {} % of the disks' bandwidth",
            decimal(busy, 2),
            decimal(of("flush_pct"), 2),
            decimal(of("zone_lock_pct"), 2),
            decimal(of("lru_lock_pct"), 2),
            decimal(share, 0),
        ),
    )
}

fn bound(outcome: &BySetting) -> f64 {
    outcome.median(DEFAULT, "unflushed_frames_max").unwrap_or_default()
}

fn unflushed(outcome: &BySetting, setting: usize) -> String {
    decimal(outcome.median(setting, "unflushed_frames_max").unwrap_or_default(), 0)
}

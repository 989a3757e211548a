//! A progress bar on standard error, shown on a terminal.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::output;

/// Work that ends sooner shows no bar.
const SHOWN_AFTER: Duration = Duration::from_millis(700);

const TEMPLATE: &str = "{msg} [{bar:40}] {percent:>3}%  {eta} left";
const SPINNER: &str = "{spinner} {msg} ({elapsed})";
const TICK: Duration = Duration::from_millis(120);

/// Calls `work`, and shows a progress bar called `name`. `work` reports the number of finished
/// steps and of all steps.
pub(crate) fn during<R>(
    name: &str,
    work: impl FnOnce(&mut (dyn FnMut(u64, u64) + Send)) -> R,
) -> R {
    let mut progress = Progress::new(name);
    work(&mut |done, total| progress.update(done, total))
}

/// A bar that appears when the work takes long, and is removed when it is dropped.
pub(crate) struct Progress {
    bar: ProgressBar,
    started: Instant,
    shown: bool,
}

impl Progress {
    /// A bar that is not shown yet.
    pub(crate) fn new(what: &str) -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
        if let Ok(style) = ProgressStyle::with_template(TEMPLATE) {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.set_message(what.to_owned());
        Self { bar, started: Instant::now(), shown: false }
    }

    /// A spinner, for work of unknown length; shown at once.
    pub(crate) fn spinner(what: &str) -> Self {
        let mut progress = Self::new(what);
        if let Ok(style) = ProgressStyle::with_template(SPINNER) {
            progress.bar.set_style(style);
        }
        progress.bar.set_draw_target(ProgressDrawTarget::stderr());
        progress.bar.enable_steady_tick(TICK);
        progress.shown = true;
        progress
    }

    /// Shows that `done` of `total` steps are finished.
    pub(crate) fn update(&mut self, done: u64, total: u64) {
        if !self.shown && self.started.elapsed() >= SHOWN_AFTER {
            // indicatif draws nothing unless standard error is a terminal.
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
            self.shown = true;
        }
        self.bar.set_length(total);
        self.bar.set_position(done);
    }

    /// Shows that `step` of `steps` equal steps are finished, and `part` (0 to 1) of the next one.
    pub(crate) fn step(&mut self, step: usize, steps: usize, part: f64) {
        const FINE: f64 = 1000.0;
        self.update((FINE * (step as f64 + part)) as u64, (FINE * steps as f64) as u64);
    }

    /// Prints a warning on standard error without breaking the bar.
    pub(crate) fn warn(&self, message: impl std::fmt::Display) {
        self.bar.suspend(|| output::warn(message));
    }

    /// Changes the text next to the bar.
    pub(crate) fn set_message(&self, what: &str) {
        self.bar.set_message(what.to_owned());
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

//! A progress bar on standard error, for people who wait at a terminal.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::output;

/// Work that ends sooner shows no bar.
const SHOWN_AFTER: Duration = Duration::from_millis(700);

const TEMPLATE: &str = "{msg} [{bar:40}] {percent:>3}%  {eta} left";
const SPINNER: &str = "{spinner} {msg} ({elapsed})";
const TICK: Duration = Duration::from_millis(120);

/// Does `work`, which tells how many of how many steps are done, under a bar of that name.
pub(crate) fn during<R>(
    name: &str,
    work: impl FnOnce(&mut (dyn FnMut(u64, u64) + Send)) -> R,
) -> R {
    let mut progress = Progress::new(name);
    work(&mut |done, total| progress.update(done, total))
}

/// A bar that appears when the work turns out to be long, and is gone when it is dropped.
pub(crate) struct Progress {
    bar: ProgressBar,
    started: Instant,
    shown: bool,
}

impl Progress {
    /// A bar that nobody sees yet.
    pub(crate) fn new(what: &str) -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
        if let Ok(style) = ProgressStyle::with_template(TEMPLATE) {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.set_message(what.to_owned());
        Self { bar, started: Instant::now(), shown: false }
    }

    /// Work of which nobody knows how much is left: shown at once.
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

    /// `done` of `total` is done.
    pub(crate) fn update(&mut self, done: u64, total: u64) {
        if !self.shown && self.started.elapsed() >= SHOWN_AFTER {
            // Draws nothing unless standard error is a terminal.
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
            self.shown = true;
        }
        self.bar.set_length(total);
        self.bar.set_position(done);
    }

    /// Of `steps` equal steps, all before `step` are done, and of that one this `part`, 0 to 1.
    pub(crate) fn step(&mut self, step: usize, steps: usize, part: f64) {
        const FINE: f64 = 1000.0;
        self.update((FINE * (step as f64 + part)) as u64, (FINE * steps as f64) as u64);
    }

    /// Says something on standard error without writing into the bar.
    pub(crate) fn warn(&self, message: impl std::fmt::Display) {
        self.bar.suspend(|| output::warn(message));
    }

    /// What is being done now.
    pub(crate) fn say(&self, what: &str) {
        self.bar.set_message(what.to_owned());
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

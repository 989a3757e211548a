//! A kernel on OSTD that checks and measures its frame allocator: Framewright, or OSTD's own with the feature `stock`.
//!
//! Every line of output that starts with `figure` has a name and a number. Numbers from the cycle
//! counter are instructions if the machine runs with `-icount shift=0`. The last line is `passed`
//! or the reason for a failure.

#![no_std]
#![deny(unsafe_code)]

extern crate alloc;

mod cpus;
#[cfg(feature = "reclaim")]
mod files;
mod held;
mod measure;
mod scheduler;
mod stock_or_ours;
mod user;
mod verify;

use ostd::{
    boot::EarlyCmdline,
    log::LevelFilter,
    mm::PAGE_SIZE,
    power::{ExitCode, poweroff},
    prelude::*,
};

/// Only errors are logged: output costs instructions.
#[ostd::early_cmdline_parser]
const fn parse_early(_: &str) -> EarlyCmdline {
    EarlyCmdline { log_level: LevelFilter::Error, has_early_console: true }
}

#[ostd::main]
fn kernel_main() {
    println!("figure boot {}", ostd::arch::read_tsc());
    println!("figure cpus {}", ostd::cpu::num_cpus());
    cpus::start(work);
}

fn work() {
    match run() {
        Ok(()) => {
            println!("passed");
            poweroff(ExitCode::Success);
        }
        Err(why) => {
            println!("failed: {}", why);
            poweroff(ExitCode::Failure);
        }
    }
}

fn run() -> core::result::Result<(), &'static str> {
    // The first round fills caches of the heap and the page tables of the kernel.
    let mut in_use = 0;
    for round in 0..3 {
        cpus::run(verify::frames_and_segments)?;
        cpus::run(verify::user_pages)?;
        let now = settled_in_use();
        println!("figure frames_in_use_after_round_{} {}", round, now);
        if round > 0 && now != in_use {
            return Err("not every frame was returned");
        }
        in_use = now;
    }
    println!("figure verified_words {}", verify::words());
    stock_or_ours::check()?;
    if is_told("count") {
        count()?;
    }
    #[cfg(feature = "reclaim")]
    if is_told("files") {
        files::run()?;
    }
    Ok(())
}

/// The frames in use, when their number no longer changes. On a busy host, a virtual CPU may pause for long before it
/// frees the pages that were unmapped.
fn settled_in_use() -> usize {
    let mut last = stock_or_ours::in_use();
    let mut unchanged = 0;
    while unchanged < 100 {
        cpus::settle();
        let now = stock_or_ours::in_use();
        unchanged = if now == last { unchanged + 1 } else { 0 };
        last = now;
    }
    last
}

/// Whether the command line has this word.
fn is_told(word: &str) -> bool {
    ostd::boot::boot_info().kernel_cmdline.split(' ').any(|told| told == word)
}

fn count() -> core::result::Result<(), &'static str> {
    let mut held = held::Held::new();
    measure::all("empty")?;
    let before = stock_or_ours::in_use();
    for (percent, name) in [(90, "90"), (50, "50")] {
        held.fill_to(percent);
        println!("figure frames_in_use_at_{} {}", name, stock_or_ours::in_use());
        measure::all(name)?;
    }
    held.clear();
    println!("figure frames_total {}", held::usable() / PAGE_SIZE);
    if settled_in_use() != before {
        return Err("not every frame was returned after the measurements");
    }
    stock_or_ours::check()
}

//! Compares the instructions that the simulator charges for the library's work (its parameters `library.*`) with
//! those that valgrind's callgrind counts in the real code, and fits new ones.
//!
//! Each workload runs twice with the same requests: natively, on a machine that sums the [`Cost`]s that the library
//! reports, and under callgrind, on a machine that ignores them. Allocations and frees are compared apart, each
//! outside and inside holds of the zone lock, because holds delay other CPUs.
//!
//! Usage: `prices check` prints a table, and fails where the model is too far off. `prices fit` prints the parameters
//! that fit the counts best, for `framewright-sim/src/machine/presets/common.toml`. Both need valgrind and x86-64.
//! Exit codes: 0 done, 1 the model is too far off, 2 bad arguments, or valgrind cannot be run.

mod count;
mod fit;
mod machine;
mod work;

use std::process::ExitCode;

use framewright::platform::Cost;
use framewright_sim::{
    machine::{Library, Spec},
    platform::tenths,
};

use machine::Part;
use work::WORKLOADS;

/// The allocations or the frees of a workload, outside or inside holds of the zone lock: the work that the library
/// reported, and the instructions that callgrind counted.
pub(crate) struct Sample {
    workload: &'static str,
    /// Units of work, as the library reported them.
    reported: Vec<(Cost, u64)>,
    /// Instructions, as callgrind counted them.
    counted: u64,
}

impl Sample {
    /// Instructions by the model.
    fn modelled(&self, prices: &Library) -> f64 {
        let of = |&(cost, units): &(Cost, u64)| tenths(prices, cost) as f64 / 10.0 * units as f64;
        self.reported.iter().map(of).sum()
    }
}

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    let done = match arguments.as_slice() {
        ["check"] => samples().map(|samples| check(&samples)),
        ["fit"] => samples().map(|samples| {
            print!("{}", fit::parameters(&samples, &prices()));
            true
        }),
        // The program starts itself with these arguments, under callgrind.
        ["count", workload, part] => count::work_of(workload, part).map(|()| true),
        _ => Err("usage: prices check|fit".to_owned()),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(why) => {
            eprintln!("error: {why}");
            ExitCode::from(2)
        }
    }
}

/// The prices of all machines whose files do not state others.
fn prices() -> Library {
    Spec::uniform(1).expect("a machine of one CPU").costs().library
}

fn samples() -> Result<Vec<Sample>, String> {
    let counting = count::counting()?;
    let mut samples = Vec::new();
    for workload in WORKLOADS {
        eprintln!("counting instructions: {}", workload.name);
        let mut reported = count::reported(workload);
        for part in Part::ALL {
            let reported = reported.remove(&part).unwrap_or_default();
            let counted = count::counted(workload, part, &reported, counting)?;
            samples.push(Sample { workload: workload.name, reported, counted });
        }
    }
    Ok(samples)
}

/// A part matters if it has at least this share of the instructions of its workload.
const SHARE: f64 = 0.05;
/// Greatest distance of the model from the count: of a whole workload, and of a part that matters.
const OFF: (f64, f64) = (0.15, 0.4);

/// Prints a line for each workload. Returns whether the model is near enough everywhere.
fn check(samples: &[Sample]) -> bool {
    let prices = prices();
    println!("instructions by the model, relative to those that callgrind counts");
    println!("*: less than {:.0} % of the workload, not judged\n", SHARE * 100.0);
    print!("{:<16}{:>9}", "workload", "whole");
    Part::ALL.iter().for_each(|part| print!("{:>18}", part.name()));
    println!();
    let mut near = true;
    for parts in samples.chunks(Part::ALL.len()) {
        let whole: u64 = parts.iter().map(|part| part.counted).sum();
        let modelled: f64 = parts.iter().map(|part| part.modelled(&prices)).sum();
        let mut judge = |ratio: f64, off: f64| near &= (ratio - 1.0).abs() <= off;
        judge(modelled / whole as f64, OFF.0);
        print!("{:<16}{:>9.2}", parts[0].workload, modelled / whole as f64);
        for part in parts {
            let ratio = part.modelled(&prices) / part.counted as f64;
            let matters = part.counted as f64 >= SHARE * whole as f64;
            if matters {
                judge(ratio, OFF.1);
            }
            let text = if part.counted == 0 { "-".into() } else { format!("{ratio:.2}") };
            print!("{text:>17}{}", if matters || part.counted == 0 { ' ' } else { '*' });
        }
        println!();
    }
    if !near {
        let (whole, part) = (OFF.0 * 100.0, OFF.1 * 100.0);
        println!(
            "\nthe model is off by more than {whole:.0} % of a workload, or {part:.0} % of a part: prices fit"
        );
    }
    near
}

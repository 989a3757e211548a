//! Speed of the simulator: CPU seconds of this host per second of a simulated machine's time, and
//! the constant cost of a run (ageing, start, end).
//!
//! ```sh
//! cargo run --release -p framewright-lab --example simulator_speed -- skx-4s-224 50 150 3
//! ```
//!
//! Arguments: the machine; two windows of page-fault, in virtual milliseconds; the number of
//! repetitions; optionally one allocator (`framewright` or `list-buddy`), otherwise both. For each
//! allocator, runs with the two windows alternate. The difference of their medians, divided by the
//! difference of the windows, is the cost of a virtual second. The rest of the shorter run is the
//! constant cost.

use framewright::Tuning;
use framewright_lab::{
    simulated::{Column, Plan, Simulation},
    workloads::{Side, Workload, page_fault::PageFault},
};
use framewright_sim::machine::Spec;
use rustix::time::{ClockId, clock_gettime};

const MS: u64 = 1_000_000;
/// Virtual milliseconds of warm-up before the window.
const WARM_UP: u64 = 20;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |nth: usize, default: u64| {
        arguments.get(nth).map_or(default, |text| text.parse().expect("a number"))
    };
    let name = arguments.first().map_or("skx-4s-224", String::as_str);
    let spec = match name.strip_prefix("uniform:") {
        Some(cpus) => Spec::uniform(cpus.parse().expect("a number of CPUs")),
        None => Spec::preset(name),
    };
    let spec = spec.unwrap_or_else(|error| panic!("{error}"));
    let (short, long, times) = (number(1, 50), number(2, 150), number(3, 3));
    assert!(
        short < long && times > 0,
        "the first window must be shorter than the second, and a run must be repeated at least once"
    );

    let side =
        Side { label: String::new(), tuning: Tuning::default(), settings: Default::default() };
    let designs = [Column::framewright(&side), Column::list_buddy("list-buddy", &side)];
    println!("{name}, page-fault: CPU seconds of this host");
    for (label, contender) in ["framewright", "list-buddy"].into_iter().zip(&designs) {
        if arguments.get(4).is_some_and(|only| only != label) {
            continue;
        }
        let runs = |window| cpu_seconds(&spec, contender, window);
        let (shorter, longer): (Vec<f64>, Vec<f64>) =
            (0..times).map(|_| (runs(short), runs(long))).unzip();
        let (shorter, longer) = (median(shorter), median(longer));
        let slope = (longer - shorter) * 1000.0 / (long - short) as f64;
        let fixed = shorter - slope * (short + WARM_UP) as f64 / 1000.0;
        println!("{label:12} {slope:6.2} per virtual second, and {fixed:.2} per run");
    }
}

/// One run, with one seed.
fn cpu_seconds(spec: &Spec, contender: &Column, window: u64) -> f64 {
    let simulation = Simulation {
        work: Workload::PageFault(PageFault::new(1)),
        spec: spec.clone(),
        frames: None,
        plan: Plan { warm_up: WARM_UP * MS, window: window * MS, steady: false },
    };
    let before = now();
    simulation
        .run(std::slice::from_ref(contender), &[1], &mut |_, _| {})
        .unwrap_or_else(|error| panic!("{error}"));
    now() - before
}

fn now() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

//! Readings of this machine, and machines made from readings.

use framewright_sim::machine::Spec;
use rustix::thread::{CpuSet, sched_setaffinity};
use std::thread;

use super::{Calibrated, Means, Quantity, Reading, Readings};
use crate::report::{Metric, Unit};

fn common() -> Spec {
    Spec::from_toml("common", "name = \"x\"\n[topology]\nsockets = 1\ncores_per_socket = 1\nthreads_per_core = 1\nnodes = [{ socket = 0, memory = \"64MiB\" }]\nbasis = \"estimated\"\n").unwrap()
}

fn calibrated(means: &Means, readings: &Readings) -> (Calibrated, Spec) {
    let calibrated = Calibrated::of(means, readings, common().costs());
    let (text, spec) = calibrated.to_toml("mine", "a \"test\"").unwrap();
    assert_eq!(Spec::from_toml("mine.toml", &text).unwrap(), spec);
    for key in calibrated.measured.iter().map(|value| value.key) {
        assert!(!calibrated.taken_over.iter().any(|taken| taken.key == key), "{key}");
    }
    (calibrated, spec)
}

/// Readings of one round with these values; a reason where there is none.
fn readings(values: &[(&'static str, Result<f64, &str>)]) -> Readings {
    let reading = |(name, value): &(&'static str, Result<f64, &str>)| {
        let (unit, how) = (Unit::Nanos, "in a test");
        let quantity: &'static Quantity = Box::leak(Box::new(Quantity { name, unit, how }));
        let value = value.map(|value| Metric::once(value, unit, None)).map_err(str::to_owned);
        Reading { quantity, value }
    };
    Readings(values.iter().map(reading).collect())
}

fn means(second: Result<usize, String>) -> Means {
    Means {
        cpus: vec![0],
        first: 0,
        second,
        remote: Err("one socket".into()),
        membarrier: Ok(()),
        caches: [None, Some(1 << 20), None],
    }
}

/// Plausible readings of a machine at 2 GHz.
const PLAUSIBLE: [(&str, Result<f64, &str>); 25] = [
    ("cycle_ns", Ok(0.5)),
    ("l1_ns", Ok(2.0)),
    ("l2_ns", Ok(7.0)),
    ("llc_ns", Ok(30.0)),
    ("dram_ns", Ok(100.0)),
    ("dram_parallel_ns", Ok(19.0)),
    ("loaded_percent", Ok(120.0)),
    ("line_transfer_ns", Ok(50.0)),
    ("line_transfer_remote_ns", Err("one socket")),
    ("dram_remote_ns", Err("one socket")),
    ("bandwidth_bytes_per_s", Ok(2e10)),
    ("atomic_ns", Ok(5.0)),
    ("syscall_ns", Ok(100.0)),
    ("clear_ns", Ok(200.0)),
    ("clear_hot_ns", Ok(60.0)),
    ("copy_ns", Ok(400.0)),
    ("copy_hot_ns", Ok(90.0)),
    ("page_fault_ns", Ok(600.0)),
    ("unmap_ns", Ok(80.0)),
    ("lock_handover_ns", Ok(90.0)),
    ("interrupt_round_trip_ns", Ok(1500.0)),
    ("interrupt_loss_ns", Ok(700.0)),
    ("shootdown_ns", Ok(1600.0)),
    ("shootdown_64_ns", Ok(1400.0)),
    ("tick_period_ns", Ok(1_000_000.0)),
];

#[test]
fn readings_become_parameters_in_their_units() {
    let (calibrated, spec) = calibrated(&means(Ok(1)), &readings(&PLAUSIBLE));
    let costs = spec.costs();
    assert_eq!(costs.clock.frequency_mhz, 2000);
    assert_eq!((costs.latency.l1, costs.latency.dram_local), (4, 200));
    assert_eq!((costs.latency.parallel_misses, costs.latency.loaded_percent), (5, 120));
    assert_eq!(costs.memory.bandwidth_mb_per_s, 20_000);
    // A hand-over of 180 cycles, 20 of them fixed, with lines of 100.
    assert_eq!((costs.lock.handoff_line_percent, costs.lock.handoff_fixed), (160, 20));
    assert_eq!(costs.interrupt.entry, 1380);
    // A round trip of 3000 cycles, without the target's 1400 and a line of 100.
    assert_eq!(costs.interrupt.send + costs.interrupt.latency_local, 1500);
    assert_eq!(costs.tlb.invalidate_page, 200);
    // A fault of 1200 cycles, without clearing a hot frame and the LRU list.
    assert_eq!((costs.fault.service, costs.fault.clear), (1200 - 120 - 100, 400));
    assert_eq!((costs.tick.period_us, costs.cache.l2_kib), (1000, 1024));
    // Two sockets are not there: in proportion to the near ones.
    assert_eq!((costs.latency.modified_remote, costs.latency.dram_remote), (250, 313));
    let reason = |key: &str| {
        calibrated.taken_over.iter().find(|taken| taken.key == key).unwrap().note.clone()
    };
    assert!(reason("latency.dram_remote").contains("360/230 as in common: one socket"));
    assert!(reason("tlb.flush_all").contains("not above"), "{}", reason("tlb.flush_all"));
}

#[test]
fn what_is_missing_is_taken_over_with_its_reason() {
    let missing = PLAUSIBLE.map(|(name, value)| match name {
        "line_transfer_ns" | "lock_handover_ns" | "interrupt_round_trip_ns" => {
            (name, Err("one CPU"))
        }
        "interrupt_loss_ns" | "shootdown_ns" => (name, Err("no permission")),
        _ => (name, value),
    });
    let (calibrated, spec) = calibrated(&means(Err("one CPU".into())), &readings(&missing));
    let common = common();
    assert_eq!(spec.costs().interrupt, common.costs().interrupt);
    assert_eq!(spec.costs().latency.modified_same_socket, 120);
    for (key, reason) in [
        ("latency.modified_same_socket", "from common: one CPU"),
        ("lock.handoff_line", "from common: one CPU"),
        ("interrupt.entry", "from common: no permission"),
        ("tlb.invalidate_page", "from common: no permission"),
    ] {
        let taken = calibrated.taken_over.iter().find(|taken| taken.key == key).unwrap();
        assert_eq!(taken.note, reason, "{key}");
        let figure = spec.parameters().find(|figure| figure.parameter.key == key).unwrap();
        assert_eq!(figure.provenance.note, reason, "{key}");
    }
}

#[test]
fn a_machine_without_any_reading_is_the_common_one() {
    let (calibrated, spec) = calibrated(&means(Err("x".into())), &readings(&[]));
    assert_eq!(calibrated.measured.len(), 1, "the size of a cache needs no reading");
    assert_eq!(spec.costs(), common().costs());
}

#[test]
fn noise_makes_no_machine_with_nearer_memory_that_is_slower() {
    let noisy = PLAUSIBLE.map(|(name, value)| match name {
        "l1_ns" => (name, Ok(10.0)),
        "line_transfer_ns" => (name, Ok(1.0)),
        _ => (name, value),
    });
    let (_, spec) = calibrated(&means(Ok(1)), &readings(&noisy));
    assert_eq!((spec.costs().latency.l2, spec.costs().latency.modified_same_socket), (20, 20));
}

#[test]
fn this_machine_is_measured() {
    let means = Means::detect();
    let mut told = Vec::new();
    let readings = Readings::take(&means, 2, &mut |done, total| told.push((done, total)));
    assert_eq!(told.last().map(|(done, total)| done == total), Some(true));
    for Reading { quantity, value } in &readings.0 {
        match value {
            Ok(metric) => assert!((1..=2).contains(&metric.n), "{}", quantity.name),
            Err(reason) => assert!(!reason.is_empty(), "{}", quantity.name),
        }
    }
    // No bounds: a machine under other load may be slow by any factor.
    for name in ["timer_read_ns", "atomic_ns", "syscall_ns", "dram_ns", "clear_ns", "page_fault_ns"]
    {
        let value = readings.median(name).unwrap();
        assert!(value.is_finite() && value > 0.0, "{name}: {value}");
    }
    calibrated(&means, &readings);
}

#[test]
fn on_one_cpu_what_needs_two_is_missing() {
    // Affinity is per thread: this does not limit the other tests.
    thread::spawn(|| {
        let first = Means::detect().first;
        let mut only = CpuSet::new();
        only.set(first);
        sched_setaffinity(None, &only).unwrap();
        let means = Means::detect();
        assert_eq!((means.cpus.len(), means.second.is_err()), (1, true));
        let readings = Readings::take(&means, 1, &mut |_, _| {});
        for name in
            ["line_transfer_ns", "interrupt_round_trip_ns", "shootdown_ns", "loaded_percent"]
        {
            assert_eq!(readings.median(name).unwrap_err(), "this process may use one CPU only");
        }
        let (calibrated, spec) = calibrated(&means, &readings);
        assert!(calibrated.taken_over.iter().any(|taken| taken.key == "interrupt.entry"));
        assert_eq!(spec.cpus(), 1);
    })
    .join()
    .unwrap();
}

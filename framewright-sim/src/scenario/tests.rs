use super::*;
use crate::engine::Program;
use crate::engine::{Options, Schedule};

fn random(scenario: &Scenario, bug: Option<Bug>, seed: u64) -> Verdict {
    let options = Options {
        schedule: Schedule::Random(seed),
        store_buffers: true,
        late_interrupts: true,
        ..Options::default()
    };
    let machine = Machine::new(scenario.cpus, options);
    let v = scenario.run(&machine, bug);
    STEPS.fetch_add(machine.steps(), std::sync::atomic::Ordering::Relaxed);
    v
}

static STEPS: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
#[test]
fn look() {
    for s in &SCENARIOS {
        let t = std::time::Instant::now();
        STEPS.store(0, std::sync::atomic::Ordering::Relaxed);
        for seed in 0..10_000 {
            assert_eq!(random(s, None, seed), Verdict::Clean, "{} {seed}", s.name);
        }
        println!(
            "{}: {:?} per run, {} steps",
            s.name,
            t.elapsed() / 10000,
            STEPS.load(std::sync::atomic::Ordering::Relaxed) / 10000
        );
        for &bug in s.bugs {
            let mut found = 0;
            let mut other = std::collections::BTreeMap::<String, u32>::new();
            for seed in 0..10_000 {
                match random(s, Some(bug), seed) {
                    Verdict::Clean => {}
                    Verdict::Seen { symptom, .. } => {
                        if bug.symptoms().contains(&symptom) {
                            found += 1
                        };
                        *other.entry(format!("{symptom:?}")).or_default() += 1;
                    }
                    Verdict::Failed(f) => *other.entry(f.to_string()).or_default() += 1,
                }
            }
            println!("{} {bug}: {found} of 10000 {other:?}", s.name);
        }
    }
}

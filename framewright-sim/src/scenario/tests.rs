use super::*;
use crate::engine::Program;
use crate::engine::{Options, Schedule};

fn random(scenario: &Scenario, bug: Option<Bug>, seed: u64) -> Verdict {
    let options = Options { schedule: Schedule::Random(seed), ..Options::default() };
    scenario.run(&Machine::new(scenario.cpus, options), bug)
}

#[test]
fn look() {
    for s in &SCENARIOS {
        for seed in 0..10_000 {
            assert_eq!(random(s, None, seed), Verdict::Clean, "{} {seed}", s.name);
        }
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

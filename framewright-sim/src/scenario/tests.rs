use super::*;

#[test]
fn look() {
    let n: u64 = std::env::var("N").map_or(20_000, |n| n.parse().unwrap());
    let kinds = std::env::var("K")
        .unwrap_or("random".into())
        .split(',')
        .map(|k| k.parse().unwrap())
        .collect();
    let only = std::env::var("S").ok();
    let scenarios = SCENARIOS
        .iter()
        .filter(|s| only.as_deref().is_none_or(|o| o.split(',').any(|o| o == s.name)))
        .collect();
    let controls = std::env::var("C").is_ok();
    let mut campaign = Campaign {
        kinds,
        schedules: n,
        control: n,
        control_exhaustive: n,
        seeds: 10,
        controls,
        scenarios,
        ..Campaign::default()
    };
    if std::env::var("CO").is_ok() {
        campaign.bugs.clear();
    }
    let start = std::time::Instant::now();
    for row in campaign.run(&mut |_, _| {}) {
        let bug = row.bug.map_or("-", Bug::name);
        println!(
            "ROW {:12} {bug:24} {:14} {:>2}/{:<2} median {:?} fastest {:?} tried {} strays {} exhausted {} steps {}",
            row.scenario.name,
            row.kind.to_string(),
            row.found(),
            row.bags.len(),
            row.median(),
            row.fastest(),
            row.tried(),
            row.strays(),
            row.is_exhausted(),
            row.bags[0].steps
        );
        if let Some(f) = row.bags.iter().find_map(|b| b.stray.as_ref()) {
            println!("ROW   stray {f:?}");
        }
        if row.bug.is_none()
            && let Some(f) = row.bags.iter().find_map(|b| b.found.as_ref())
        {
            println!("ROW   BROKEN {f:?}");
        }
    }
    println!("ROW {:?}", start.elapsed());
}

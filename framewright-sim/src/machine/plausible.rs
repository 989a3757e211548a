//! Refuses combinations of costs that are implausible although each cost is in its range. With such
//! costs, simulated time would not advance, or ticks would take all simulated time, and a run would
//! never end.

use super::costs::Costs;
use super::parameter::find;

/// Figures that do not fit together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Implausible {
    /// Their keys. The error is about the first one that the file gives.
    pub(super) keys: &'static [&'static str],
    pub(super) reason: String,
}

/// Latencies in ascending order. Caches of other cores are a separate list, because on some
/// machines they are slower than memory.
const FARTHER: [&[&str]; 2] = [
    &["latency.l1", "latency.l2", "latency.llc", "latency.dram_local", "latency.dram_remote"],
    &["latency.l2", "latency.modified_same_socket", "latency.modified_remote"],
];

/// The parameters of an allocation and a free with all lines cached, for each of the two designs,
/// and how many of their units are an instruction: the library's costs are in tenths.
const ROUNDS: [(&[&str], u64); 2] = [
    (&["library.hot_alloc", "library.hot_free", "code.cycles_per_100_instructions"], 10),
    (&["code.list_buddy_take", "code.list_buddy_give", "code.cycles_per_100_instructions"], 1),
];
/// The smallest plausible number of cycles for both operations together. Every processor needs far
/// more.
const LEAST_ROUND: u64 = 10;

/// The reciprocal of the largest share of all cycles that ticks may take.
const TICK_SHARE: u64 = 2;

/// Returns the first implausible combination in `costs`.
pub(super) fn check(costs: &Costs) -> Result<(), Implausible> {
    check_latencies(costs)?;
    check_tick(costs)?;
    check_rounds(costs)
}

fn value(costs: &Costs, key: &str) -> u64 {
    find(key).map_or(0, |(_, parameter)| parameter.get(costs))
}

fn check_latencies(costs: &Costs) -> Result<(), Implausible> {
    if costs.latency.l1 == 0 {
        let reason = "an access takes at least 1 cycle, or time would not pass".to_owned();
        return Err(Implausible { keys: &["latency.l1"], reason });
    }
    for pair in FARTHER.iter().flat_map(|chain| chain.windows(2)) {
        let (near, far) = (value(costs, pair[0]), value(costs, pair[1]));
        if near > far {
            let reason = format!("{} takes {near} cycles and {} {far}", pair[0], pair[1]);
            let reason = format!("{reason}: farther memory takes at least as long");
            return Err(Implausible { keys: pair, reason });
        }
    }
    Ok(())
}

fn check_tick(costs: &Costs) -> Result<(), Implausible> {
    let period = costs.cycles_of_nanos(costs.tick.period_us * 1000);
    if costs.tick.cost * TICK_SHARE <= period {
        return Ok(());
    }
    let reason = format!(
        "a tick takes {} cycles and comes every {period} (tick.period, clock.frequency): more than \
         half of all time",
        costs.tick.cost
    );
    Err(Implausible { keys: &["tick.cost", "tick.period", "clock.frequency"], reason })
}

fn check_rounds(costs: &Costs) -> Result<(), Implausible> {
    for (keys, per_instruction) in ROUNDS {
        let instructions = (value(costs, keys[0]) + value(costs, keys[1])) / per_instruction;
        let cycles = costs.instructions(instructions);
        if cycles < LEAST_ROUND {
            let reason = format!(
                "{}, {} and {} make {cycles} cycles for an allocation and a free: time would \
                 hardly pass; at least {LEAST_ROUND}",
                keys[0], keys[1], keys[2]
            );
            return Err(Implausible { keys, reason });
        }
    }
    Ok(())
}

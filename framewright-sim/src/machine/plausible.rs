//! What no machine is like, though every figure alone could be: on such a one time would not pass,
//! or nothing but ticks would have any of it, and a run would never end.

use super::costs::Costs;
use super::parameter::find;

/// Figures that do not go together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Implausible {
    /// Their keys; the error is about the first of them that a file gives.
    pub(super) keys: &'static [&'static str],
    pub(super) reason: String,
}

/// Latencies of which none is shorter than the one before it. Caches of other cores stand apart: on
/// some machines they are farther than memory.
const FARTHER: [&[&str]; 2] = [
    &["latency.l1", "latency.l2", "latency.llc", "latency.dram_local", "latency.dram_remote"],
    &["latency.l2", "latency.modified_same_socket", "latency.modified_remote"],
];

/// What a design takes of instructions for a frame that comes and goes, all of it at hand.
const ROUNDS: [(&[&str], u64); 2] = [
    (&["library.hot_alloc", "library.hot_free", "code.cycles_per_100_instructions"], 10),
    (&["code.list_buddy_take", "code.list_buddy_give", "code.cycles_per_100_instructions"], 1),
];
/// The least cycles of such a round, far below those of any processor.
const LEAST_ROUND: u64 = 10;

/// Ticks may take one cycle in so many.
const TICK_SHARE: u64 = 2;

/// Says what of `costs` cannot be.
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
        let reason = "a cache that takes no time: time would not pass; at least 1".to_owned();
        return Err(Implausible { keys: &["latency.l1"], reason });
    }
    for pair in FARTHER.iter().flat_map(|chain| chain.windows(2)) {
        let (near, far) = (value(costs, pair[0]), value(costs, pair[1]));
        if near > far {
            let reason = format!("{} takes {near} cycles and {} {far}", pair[0], pair[1]);
            let reason = format!("{reason}: what is farther away takes at least as long");
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
                "{}, {} and {} make {cycles} cycles for a frame that comes and goes: time would \
                 hardly pass; at least {LEAST_ROUND}",
                keys[0], keys[1], keys[2]
            );
            return Err(Implausible { keys, reason });
        }
    }
    Ok(())
}

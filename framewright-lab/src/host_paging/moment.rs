//! Everything that is counted, at a moment, and between two.

use std::{
    fs,
    time::{Duration, Instant},
};

use framewright::{Memory, observe::NodeStat};
use framewright_host::{
    HostMachine,
    paging::{PageCache, PagingStats, shootdowns},
};

use crate::record::Shootdowns;

/// See the module.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    at: Instant,
    system: Duration,
    /// Interrupts that were received by the whole system.
    ipis: Option<u64>,
    /// By threads of this process.
    shootdowns: Option<u64>,
    paging: PagingStats,
    stolen: [u64; 2],
    scanned: u64,
    /// Frames that were unmapped and not given up at a time, at the most, so far.
    unflushed: u64,
}

/// What happened between two moments.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Interval {
    pub(super) seconds: f64,
    pub(super) system: f64,
    pub(super) pages: u64,
    pub(super) ipis: Option<u64>,
    pub(super) shootdowns: Option<u64>,
    pub(super) unmapped: u64,
    pub(super) evicted: u64,
    pub(super) flushes: u64,
    pub(super) calls: u64,
    pub(super) call_nanos: u64,
    pub(super) rescued: u64,
    pub(super) misses: u64,
    /// By background reclaim, and by who needed memory.
    pub(super) stolen: [u64; 2],
    pub(super) scanned: u64,
    pub(super) unflushed: u64,
    pub(super) stalls: u64,
}

impl Moment {
    pub(super) fn now(
        memory: &Memory<'_, HostMachine>,
        cache: &PageCache,
        counter: Option<&Shootdowns>,
    ) -> Self {
        let stats = memory.lru().map(|lru| lru.stats()).unwrap_or_default();
        let of = |stat| stats.get(stat);
        Self {
            at: Instant::now(),
            system: system_time(),
            ipis: shootdowns(),
            shootdowns: counter.and_then(|counter| counter.so_far().ok()),
            paging: cache.stats(),
            stolen: [of(NodeStat::PgstealKswapd), of(NodeStat::PgstealDirect)],
            scanned: of(NodeStat::PgscanKswapd) + of(NodeStat::PgscanDirect),
            unflushed: memory.tlb().stats().unflushed_frames_max,
        }
    }

    /// From `before` until now, in which readers read `pages` pages, and had to reclaim themselves for
    /// `stalls` of them.
    pub(super) fn since(&self, before: &Self, pages: u64, stalls: u64) -> Interval {
        let change = |of: fn(&PagingStats) -> u64| of(&self.paging) - of(&before.paging);
        let both = |now: Option<u64>, then: Option<u64>| Some(now?.saturating_sub(then?));
        Interval {
            seconds: (self.at - before.at).as_secs_f64(),
            system: self.system.saturating_sub(before.system).as_secs_f64(),
            pages,
            ipis: both(self.ipis, before.ipis),
            shootdowns: both(self.shootdowns, before.shootdowns),
            unmapped: change(|stats| stats.unmapped),
            evicted: change(|stats| stats.evicted),
            flushes: change(|stats| stats.flushes),
            calls: change(|stats| stats.calls),
            call_nanos: change(|stats| stats.call_nanos),
            rescued: change(|stats| stats.rescued),
            misses: change(|stats| stats.misses),
            stolen: [0, 1].map(|by| self.stolen[by] - before.stolen[by]),
            scanned: self.scanned - before.scanned,
            unflushed: self.unflushed,
            stalls,
        }
    }
}

/// What the kernel spent on this process, to the hundredth of a second.
fn system_time() -> Duration {
    const TICK: Duration = Duration::from_millis(10);
    let text = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    stime(&text).map_or(Duration::ZERO, |ticks| TICK * u32::try_from(ticks).unwrap_or(u32::MAX))
}

/// Field 15; the second, the name of the program, is in parentheses and may contain blanks.
fn stime(stat: &str) -> Option<u64> {
    stat.rsplit_once(')')?.1.split_whitespace().nth(12)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn system_time_is_the_fifteenth_field() {
        let stat = "7 (a) b) R 3 4 5 6 7 8 9 10 11 12 140 155 16 17";
        assert_eq!(stime(stat), Some(155));
        assert_eq!(stime("what"), None);
    }
}

//! Readings to the parameters of a machine.

use framewright_sim::machine::{Costs, PARAMETERS, Parameter};

use super::{Means, Readings, topology::Topology};

/// A parameter with a measured value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Value {
    /// The parameter.
    pub key: &'static str,
    /// Its value, in its unit.
    pub value: u64,
    /// The method of the measurement.
    pub note: String,
}

/// A parameter that could not be measured, with the value of the common machine or one derived from
/// it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TakenOver {
    /// The parameter.
    pub key: &'static str,
    /// Its value, in its unit.
    pub value: u64,
    /// The source of the value, and the reason why it was not measured.
    pub note: String,
}

/// The parameters of a measured machine.
#[derive(Clone, Debug)]
pub struct Calibrated {
    pub(super) topology: Topology,
    /// Measured parameters.
    pub measured: Vec<Value>,
    /// Parameters that could not be measured here.
    pub taken_over: Vec<TakenOver>,
}

/// Parameters of which each is at least as large as the one before: farther memory takes at least as
/// long.
const ASCENDING: [&[&str]; 2] = [
    &["latency.l1", "latency.l2", "latency.llc", "latency.dram_local", "latency.dram_remote"],
    &["latency.l2", "latency.modified_same_socket", "latency.modified_remote"],
];
/// The least plausible cycles of 100 instructions: 5 instructions per cycle.
const LEAST_CYCLES: u64 = 20;

impl Calibrated {
    /// Derives the parameters of the machine with these `means` from `readings`. `common` has the
    /// costs to take over.
    #[must_use]
    pub fn of(means: &Means, readings: &Readings, common: &Costs) -> Self {
        let mut deriving = Deriving {
            readings,
            common,
            mhz: readings.median("cycle_ns").map(|nanos| (1000.0 / nanos).round()),
            measured: Vec::new(),
            taken_over: Vec::new(),
        };
        deriving.all(means);
        let Deriving { measured, taken_over, .. } = deriving;
        Self { topology: Topology::of(&means.cpus), measured, taken_over }
    }

    /// The value of a parameter, if it was measured or taken over.
    #[must_use]
    pub fn value(&self, key: &str) -> Option<u64> {
        let measured = self.measured.iter().find(|value| value.key == key).map(|value| value.value);
        let taken = || self.taken_over.iter().find(|taken| taken.key == key);
        measured.or_else(|| taken().map(|taken| taken.value))
    }
}

struct Deriving<'r> {
    readings: &'r Readings,
    common: &'r Costs,
    /// The clock, or the reason why it is unknown.
    mhz: Result<f64, String>,
    measured: Vec<Value>,
    taken_over: Vec<TakenOver>,
}

/// The parameter called `key`.
fn parameter(key: &str) -> &'static Parameter {
    PARAMETERS.iter().find(|parameter| parameter.key == key).expect("a parameter of this name")
}

impl Deriving<'_> {
    fn all(&mut self, means: &Means) {
        let frequency = self.mhz.clone();
        self.set("clock.frequency", frequency, "cycle_ns");
        self.latencies();
        self.locks();
        self.interrupts();
        self.faults();
        let kib = means.caches[1].map(|bytes| (bytes >> 10) as f64);
        let kib = kib.ok_or("the kernel does not say how large cache 2 is".to_owned());
        self.set_with("cache.l2", kib, "as the kernel says".to_owned());
        let bandwidth = self.readings.median("bandwidth_bytes_per_s").map(|bytes| bytes / 1e6);
        self.set("memory.bandwidth", bandwidth, "bandwidth_bytes_per_s");
        self.set_cycles("syscall.entry", "syscall_ns");
        let library = &self.common.library;
        let instructions = (library.hot_alloc + library.hot_free) as f64 / 10.0;
        let per_100 = self.cycles("hot_pair_ns").map(|cycles| 100.0 * cycles / instructions);
        let per_100 = per_100.map(|cycles| cycles.max(LEAST_CYCLES as f64));
        self.set("code.cycles_per_100_instructions", per_100, "hot_pair_ns");
        self.ascend();
    }

    fn latencies(&mut self) {
        for (key, name) in [
            ("latency.l1", "l1_ns"),
            ("latency.l2", "l2_ns"),
            ("latency.llc", "llc_ns"),
            ("latency.modified_same_socket", "line_transfer_ns"),
            ("latency.dram_local", "dram_ns"),
        ] {
            self.set_cycles(key, name);
        }
        let far = self.cycles("line_transfer_remote_ns");
        self.set_or_scale("latency.modified_remote", far, "latency.modified_same_socket");
        let far = self.cycles("dram_remote_ns");
        self.set_or_scale("latency.dram_remote", far, "latency.dram_local");
        // Less than 100 is noise.
        let loaded = self.readings.median("loaded_percent").map(|percent| percent.max(100.0));
        self.set("latency.loaded", loaded, "loaded_percent");
        let [one, many] = ["dram_ns", "dram_parallel_ns"].map(|name| self.readings.median(name));
        let misses = one.and_then(|one| Ok((one / many?).max(1.0)));
        self.set("latency.parallel_misses", misses, "dram_parallel_ns");
    }

    fn locks(&mut self) {
        self.set_cycles("lock.atomic", "atomic_ns");
        let fixed = self.common.lock.handoff_fixed as f64;
        let [handover, line] =
            ["lock_handover_ns", "line_transfer_ns"].map(|name| self.cycles(name));
        let percent = handover.and_then(|handover| Ok(100.0 * (handover - fixed) / line?));
        self.set("lock.handoff_line", percent, "lock_handover_ns");
        self.keep("lock.handoff_fixed", "only a whole hand-over can be measured");
    }

    fn interrupts(&mut self) {
        let common = self.common.interrupt;
        let round = self.cycles("interrupt_round_trip_ns");
        let loss = self.cycles("interrupt_loss_ns");
        let entry = loss.clone().map(|loss| loss - common.acknowledge as f64);
        self.set("interrupt.entry", entry, "interrupt_loss_ns");
        self.keep("interrupt.acknowledge", "it is a part of the time that the target loses");
        let line = self.cycles("line_transfer_ns");
        let way = round.clone().and_then(|round| Ok((round - loss? - line?).max(0.0)));
        let both = (common.send + common.latency_local) as f64;
        let note = "interrupt_round_trip_ns without the target's time and a line; divided among send \
                    and latency_local as in common";
        for (key, part) in
            [("interrupt.send", common.send), ("interrupt.latency_local", common.latency_local)]
        {
            let share = way.clone().map(|way| way * part as f64 / both);
            self.set_with(key, share, note.to_owned());
        }
        let unknown = Err("interrupts to another socket are not measured".to_owned());
        self.set_or_scale("interrupt.latency_remote", unknown, "interrupt.latency_local");
        for (key, name) in
            [("tlb.invalidate_page", "shootdown_ns"), ("tlb.flush_all", "shootdown_64_ns")]
        {
            let more = self.cycles(name).and_then(|cycles| Ok(cycles - round.clone()?));
            let more = more.and_then(|more| match more > 0.0 {
                true => Ok(more),
                false => Err(format!("{name} was not above interrupt_round_trip_ns")),
            });
            self.set_with(key, more, format!("{name} minus interrupt_round_trip_ns"));
        }
        self.set_cycles("tick.cost", "tick_ns");
        let period = self.readings.median("tick_period_ns").map(|nanos| nanos / 1000.0);
        self.set("tick.period", period, "tick_period_ns");
    }

    fn faults(&mut self) {
        self.keep("fault.lru_add", "a program can measure only whole page faults");
        let hot = self.cycles("clear_hot_ns");
        let lru = self.common.fault.lru_add as f64;
        let service = self.cycles("page_fault_ns");
        let service = service.and_then(|fault| Ok(fault - hot? - lru));
        let note = "page_fault_ns minus clear_hot_ns and lru_add".to_owned();
        self.set_with("fault.service", service, note);
        for (key, name) in [
            ("fault.unmap", "unmap_ns"),
            ("fault.clear", "clear_ns"),
            ("fault.copy", "copy_ns"),
            ("fault.copy_hot", "copy_hot_ns"),
        ] {
            self.set_cycles(key, name);
        }
        self.keep("fault.look", "a program cannot make the kernel examine one page");
    }

    /// A quantity in cycles.
    fn cycles(&self, name: &str) -> Result<f64, String> {
        Ok(self.readings.median(name)? * self.mhz.clone()? / 1000.0)
    }

    fn set_cycles(&mut self, key: &'static str, name: &str) {
        self.set(key, self.cycles(name), name);
    }

    /// Sets a parameter to `value`, derived from the quantity `name`.
    fn set(&mut self, key: &'static str, value: Result<f64, String>, name: &str) {
        let note = match self.readings.how(name) {
            how if how.is_empty() => name.to_owned(),
            how => format!("{name}: {how}"),
        };
        self.set_with(key, value, note);
    }

    fn set_with(&mut self, key: &'static str, value: Result<f64, String>, note: String) {
        match value {
            Ok(value) if value.is_finite() => {
                let range = parameter(key).unit.range();
                let value = (value.round().max(0.0) as u64).clamp(*range.start(), *range.end());
                self.measured.push(Value { key, value, note });
            }
            Ok(_) => self.keep(key, "its measurement gave no number"),
            Err(reason) => self.keep(key, &reason),
        }
    }

    /// Sets a parameter, or takes it over in the proportion that it has to `near` in the common
    /// machine.
    fn set_or_scale(&mut self, key: &'static str, value: Result<f64, String>, near: &str) {
        let reason = match value {
            Ok(value) => {
                return self.set_with(key, Ok(value), "as the local one, from afar".to_owned());
            }
            Err(reason) => reason,
        };
        let [common, common_near] = [key, near].map(|key| parameter(key).get(self.common));
        let measured = self.measured.iter().find(|value| value.key == near);
        let (value, from) = match measured {
            Some(local) => (
                local.value * common / common_near.max(1),
                format!("{near} times {common}/{common_near} as in common"),
            ),
            None => (common, "common".to_owned()),
        };
        self.taken_over.push(TakenOver { key, value, note: format!("from {from}: {reason}") });
    }

    /// Takes a parameter over from the common machine.
    fn keep(&mut self, key: &'static str, reason: &str) {
        let value = parameter(key).get(self.common);
        self.taken_over.push(TakenOver { key, value, note: format!("from common: {reason}") });
    }

    /// Raises parameters that are smaller than those of nearer memory.
    fn ascend(&mut self) {
        for pair in ASCENDING.iter().flat_map(|chain| chain.windows(2)) {
            let [near, far] = [pair[0], pair[1]].map(|key| self.value(key));
            if let (Some(near), Some(far)) = (near, far)
                && near > far
            {
                self.raise(pair[1], near, pair[0]);
            }
        }
    }

    fn value(&self, key: &str) -> Option<u64> {
        let measured = self.measured.iter().find(|value| value.key == key).map(|value| value.value);
        measured.or_else(|| self.taken_over.iter().find(|t| t.key == key).map(|t| t.value))
    }

    fn raise(&mut self, key: &str, to: u64, nearer: &str) {
        let measured =
            self.measured.iter_mut().map(|value| (value.key, &mut value.value, &mut value.note));
        let taken =
            self.taken_over.iter_mut().map(|taken| (taken.key, &mut taken.value, &mut taken.note));
        for (_, value, note) in measured.chain(taken).filter(|(found, ..)| *found == key) {
            note.push_str(&format!("; {value} was raised to {nearer}"));
            *value = to;
        }
    }
}

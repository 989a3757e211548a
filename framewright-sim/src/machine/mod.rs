//! The description of a simulated machine: its CPUs, its memory, and the costs of operations.
//!
//! A machine is a TOML file, or one of the [`presets`]. Every figure states its source: *measured*
//! (where), *fitted* (to what), or *estimated* ([`Basis`]). This distinguishes results that depend
//! on estimates from others. [`Spec::scaled`] changes a figure to compute a sensitivity band.
//!
//! | module      | job                                                                    |
//! |-------------|------------------------------------------------------------------------|
//! | `spec`      | [`Spec`]: a whole machine as plain data                                |
//! | `topology`  | [`Topology`]: sockets, cores, threads, nodes, distances                |
//! | `costs`     | [`Costs`] and [`PARAMETERS`]: the costs of operations, and their list  |
//! | `parameter` | [`Parameter`]: the name, unit, range and meaning of a cost             |
//! | `basis`     | [`Basis`] and [`Provenance`]: the source of a figure                   |
//! | `presets`   | the built-in machines, and `uniform:N`                                 |
//! | `read`      | TOML to a [`Spec`]; errors name file, line, key and value              |
//! | `write`     | a [`Spec`] to TOML, as a template for other machines                   |
//! | `plausible` | checks that refuse costs with which a run would never end              |
//!
//! The format in brief:
//!
//! ```toml
//! name = "my-server"
//! description = "two sockets of something"
//! base = "skx-2s-112"            # the source of all missing figures; "common" if left out
//!
//! [topology]                     # all of it, or none
//! sockets = 2
//! cores_per_socket = 24          # or one number per socket: [24, 20]
//! threads_per_core = 2
//! nodes = [{ socket = 0, memory = "64GiB" }, { socket = 1, memory = "0" }]   # 0: only CPUs
//! distances = [[10, 21], [21, 10]]
//! basis = "measured"
//! note = "lscpu and numactl --hardware"
//!
//! [latency]
//! dram_local = { cycles = 215, basis = "measured", note = "mlc, idle" }
//! ```

mod basis;
mod costs;
mod parameter;
mod plausible;
mod presets;
mod read;
mod spec;
#[cfg(test)]
mod tests;
mod topology;
mod write;

pub use basis::{Basis, Provenance};
pub use costs::{
    Cache, Clock, Code, Costs, Fault, Interrupt, Latency, Library, Lock, Memory, PARAMETERS,
    Syscall, Tick, Tlb,
};
pub use parameter::{Parameter, Unit};
pub use presets::presets;
pub use spec::{Figure, Inherited, Relation, Spec};
pub use topology::{MOST_CPUS, Node, Topology};

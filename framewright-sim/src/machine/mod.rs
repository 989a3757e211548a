//! What a simulated machine is: where its CPUs and its memory are, and what things cost on it.
//!
//! A machine is a TOML file, or one of the [`presets`]. Every figure in it says where it comes
//! from: *measured* (where), *fitted* (to what), or *guessed* ([`Basis`]); a result that hangs on
//! a guess can then be told from one that does not, and [`Spec::scaled`] turns a figure up and
//! down to draw a sensitivity band.
//!
//! | module      | job                                                                    |
//! |-------------|------------------------------------------------------------------------|
//! | `spec`      | [`Spec`]: a whole machine, plain data; what the engine asks            |
//! | `topology`  | [`Topology`]: sockets, cores, threads, nodes, distances                |
//! | `costs`     | [`Costs`]: what things cost, one field per parameter                   |
//! | `parameter` | [`PARAMETERS`]: the name, unit, range and meaning of every field       |
//! | `basis`     | [`Basis`] and [`Provenance`]: where a figure comes from                |
//! | `presets`   | the machines that are compiled in, and `uniform:N`                     |
//! | `read`      | TOML to a [`Spec`]: what is wrong is named with file, line, key, value |
//! | `write`     | a [`Spec`] to TOML: a start for a file of one's own                    |
//! | `plausible` | what no machine is like: a run on it would never end                   |
//! | `error`     | [`MachineError`], and what somebody may have meant                     |
//!
//! The format in brief:
//!
//! ```toml
//! name = "my-server"
//! description = "two sockets of something"
//! base = "skx-2s-112"            # what is not said here is as there; "common" if left out
//!
//! [topology]                     # all of it, or none
//! sockets = 2
//! cores_per_socket = 24          # or one number per socket: [24, 20]
//! threads_per_core = 2
//! nodes = [{ socket = 0, memory = "64GiB" }, { socket = 1, memory = "64GiB" }]
//! distances = [[10, 21], [21, 10]]
//! basis = "measured"
//! note = "lscpu and numactl --hardware"
//!
//! [latency]
//! dram_local = { cycles = 215, basis = "measured", note = "mlc, idle" }
//! ```

mod basis;
mod costs;
mod error;
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
    Cache, Clock, Code, Costs, Fault, Interrupt, Latency, Library, Lock, Memory, Syscall, Tick, Tlb,
};
pub use error::MachineError;
pub use parameter::{PARAMETERS, Parameter, Unit};
pub use presets::{nearest_name, presets};
pub use spec::{Figure, Inherited, Relation, Spec};
pub use topology::{MOST_CPUS, Node, Topology};

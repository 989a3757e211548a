//! A whole machine, in the form that the engine and the workloads use.

use super::basis::Provenance;
use super::costs::{Costs, PARAMETERS};
use super::parameter::{Parameter, find};
use super::topology::{Node, Parts, Topology};
use crate::toml_file::{TomlError, hint};

/// Bytes of a frame.
const FRAME: u64 = 4096;

/// A machine: plain data, checked at its construction.
///
/// # Example
///
/// ```
/// use framewright_sim::machine::Spec;
///
/// let spec = Spec::preset("skx-2s-112")?;
/// assert_eq!((spec.cpus(), spec.nodes()), (112, 2));
/// // The same machine with locks that cost twice as much, as a file to edit.
/// let slow = spec.scaled("lock.atomic", 2.0)?;
/// println!("{}", slow.to_toml());
/// # Ok::<(), framewright_sim::toml_file::TomlError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spec {
    pub(super) name: String,
    pub(super) description: String,
    pub(super) topology: Topology,
    pub(super) costs: Costs,
    /// The source of every parameter, in the order of [`PARAMETERS`].
    pub(super) provenance: Vec<Provenance>,
    pub(super) inherited: Option<Inherited>,
}

/// The parts of a machine that its file does not give and that come from another machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inherited {
    /// The base machine of the file.
    pub base: String,
    /// Whether the topology is inherited.
    pub topology: bool,
    /// The inherited parameters, in the order of [`PARAMETERS`].
    pub parameters: Vec<&'static str>,
}

/// A parameter of one machine.
#[derive(Clone, Copy, Debug)]
pub struct Figure<'s> {
    /// The parameter.
    pub parameter: &'static Parameter,
    /// Its value, in the parameter's unit.
    pub value: u64,
    /// Its source.
    pub provenance: &'s Provenance,
}

/// The distance of two CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Relation {
    /// The same CPU.
    Same,
    /// Two threads of a core: they share its caches.
    Core,
    /// Two cores of a socket.
    Socket,
    /// Two sockets.
    Remote,
}

impl Spec {
    /// The parts that its file inherits; `None` if it inherits nothing, and for machines without a
    /// file.
    #[must_use]
    pub fn inherited(&self) -> Option<&Inherited> {
        self.inherited.as_ref()
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its description, in one line.
    #[must_use]
    pub fn description(&self) -> &str {
        &self.description
    }

    /// Its CPUs and memory.
    #[must_use]
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// The costs of its operations.
    #[must_use]
    pub fn costs(&self) -> &Costs {
        &self.costs
    }

    /// The number of CPUs.
    #[must_use]
    pub fn cpus(&self) -> u16 {
        self.topology.cpus()
    }

    /// The number of nodes.
    #[must_use]
    pub fn nodes(&self) -> u8 {
        self.topology.nodes().len() as u8
    }

    /// The number of sockets.
    #[must_use]
    pub fn sockets(&self) -> u8 {
        self.topology.cores_per_socket().len() as u8
    }

    /// The node of `cpu`.
    #[must_use]
    pub fn node_of(&self, cpu: u16) -> u8 {
        self.topology.node_of(cpu)
    }

    /// The socket of `cpu`.
    #[must_use]
    pub fn socket_of(&self, cpu: u16) -> u8 {
        self.topology.socket_of(cpu)
    }

    /// The core of `cpu`.
    #[must_use]
    pub fn core_of(&self, cpu: u16) -> u16 {
        self.topology.core_of(cpu)
    }

    /// The distance of two CPUs.
    #[must_use]
    pub fn relation(&self, a: u16, b: u16) -> Relation {
        match () {
            () if a == b => Relation::Same,
            () if self.core_of(a) == self.core_of(b) => Relation::Core,
            () if self.socket_of(a) == self.socket_of(b) => Relation::Socket,
            () => Relation::Remote,
        }
    }

    /// The memory of `node` in frames of 4 KiB.
    ///
    /// # Panics
    ///
    /// If there is no such node.
    #[must_use]
    pub fn node_frames(&self, node: u8) -> u64 {
        self.topology.nodes()[usize::from(node)].memory / FRAME
    }

    /// All memory in frames of 4 KiB.
    #[must_use]
    pub fn frames(&self) -> u64 {
        self.topology.nodes().iter().map(|node| node.memory / FRAME).sum()
    }

    /// Every parameter with its value and source.
    pub fn parameters(&self) -> impl Iterator<Item = Figure<'_>> {
        PARAMETERS.iter().zip(&self.provenance).map(|(parameter, provenance)| Figure {
            parameter,
            value: parameter.get(&self.costs),
            provenance,
        })
    }

    /// The same machine with `cpus` CPUs, for measurements that do not use all. If that is not the
    /// number of its CPUs, they are cores of one socket and node, which has all memory.
    ///
    /// # Errors
    ///
    /// If a machine cannot have this number of CPUs.
    pub fn with_cpus(&self, cpus: u16) -> Result<Self, TomlError> {
        if cpus == self.cpus() {
            return Ok(self.clone());
        }
        let memory = self.topology.nodes().iter().map(|node| node.memory).sum();
        let parts = Parts {
            cores_per_socket: vec![cpus],
            threads_per_core: 1,
            nodes: vec![Node { socket: 0, memory }],
            distances: Vec::new(),
            provenance: self.topology.provenance.clone(),
        };
        let topology = Topology::new(parts);
        let topology =
            topology.map_err(|impossible| TomlError::about(&self.name, impossible.reason))?;
        Ok(Self { topology, ..self.clone() })
    }

    /// The same machine with the parameter `key` multiplied by `factor`, rounded and clamped to its
    /// range: for the sensitivity of results.
    ///
    /// # Errors
    ///
    /// If there is no such parameter. The error names the nearest one, or all if none is near.
    pub fn scaled(&self, key: &str, factor: f64) -> Result<Self, TomlError> {
        let Some((_, parameter)) = find(key) else {
            let keys = PARAMETERS.iter().map(|parameter| parameter.key);
            let reason = format!("there is no parameter '{key}'{}", hint(key, keys));
            return Err(TomlError::about(&self.name, reason));
        };
        let range = parameter.unit.range();
        let scaled = (parameter.get(&self.costs) as f64 * factor).round() as u64;
        let mut spec = self.clone();
        parameter.set(&mut spec.costs, scaled.clamp(*range.start(), *range.end()));
        Ok(spec)
    }
}

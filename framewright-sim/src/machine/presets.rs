//! The built-in machines, and uniform ones of a given size.

use super::basis::{Basis, Provenance};
use super::read::{Draft, read};
use super::spec::Spec;
use super::topology::{MOST_CPUS, Node, Parts, Topology};
use crate::toml_file::{TomlError, hint};

/// The base of every description that names no other.
pub(super) const COMMON: &str = "common";

/// Name and text of each preset.
const FILES: &[(&str, &str)] = &[
    ("bdw-2s-88", include_str!("presets/bdw-2s-88.toml")),
    ("bdw-4s-192", include_str!("presets/bdw-4s-192.toml")),
    ("skx-2s-112", include_str!("presets/skx-2s-112.toml")),
    ("skx-4s-224", include_str!("presets/skx-4s-224.toml")),
    ("icx-2s-128", include_str!("presets/icx-2s-128.toml")),
    ("spr-2s-224", include_str!("presets/spr-2s-224.toml")),
    ("laptop-8", include_str!("presets/laptop-8.toml")),
    ("one-zone-64", include_str!("presets/one-zone-64.toml")),
    ("numa-4n-48", include_str!("presets/numa-4n-48.toml")),
    ("desk-1n-8", include_str!("presets/desk-1n-8.toml")),
    ("web-2n-24", include_str!("presets/web-2n-24.toml")),
];

/// CPUs per socket and node of a uniform machine.
const UNIFORM_SOCKET: u16 = 28;
/// Memory per CPU of a uniform machine: four times the demand of page-fault.
const UNIFORM_MEMORY: u64 = 512 << 20;

/// The names of the built-in machines.
pub fn presets() -> impl ExactSizeIterator<Item = &'static str> + Clone {
    FILES.iter().map(|(name, _)| *name)
}

/// The machine called `name` that needs no file.
pub(super) fn built_in(name: &str) -> Option<Spec> {
    match name.strip_prefix("uniform:") {
        Some(cpus) => Spec::uniform(cpus.parse().ok()?).ok(),
        None if presets().any(|preset| preset == name) => Spec::preset(name).ok(),
        None => None,
    }
}

/// The draft of the base machine `base`; `None` if there is no such machine.
pub(super) fn base(base: &str) -> Option<Result<Draft, TomlError>> {
    if base == COMMON {
        let text = include_str!("presets/common.toml");
        return Some(read("common.toml", text, Some(Draft::default())));
    }
    let (name, text) = FILES.iter().find(|(name, _)| *name == base)?;
    Some(read(&format!("{name}.toml"), text, None))
}

impl Spec {
    /// The preset called `name`.
    ///
    /// # Errors
    ///
    /// If there is no such preset. The error names the nearest one, or all if none is near.
    pub fn preset(name: &str) -> Result<Self, TomlError> {
        if !presets().any(|preset| preset == name) {
            let reason = format!("there is no such machine{}", hint(name, presets()));
            return Err(TomlError::about(name, reason));
        }
        match base(name) {
            Some(draft) => draft?.finish(name),
            None => Err(TomlError::about(name, "there is no such machine")),
        }
    }

    /// A machine of `cpus` CPUs, one thread per core. It has the least number of sockets with at
    /// most 28 CPUs each, one node per socket, and evenly distributed CPUs. Its costs are the
    /// common ones.
    ///
    /// # Errors
    ///
    /// If `cpus` is zero or more than [`MOST_CPUS`].
    pub fn uniform(cpus: u16) -> Result<Self, TomlError> {
        let name = format!("uniform:{cpus}");
        if !(1..=MOST_CPUS).contains(&cpus) {
            let reason = format!("uniform:N takes 1 to {MOST_CPUS} CPUs, as in uniform:64");
            return Err(TomlError::about(&name, reason));
        }
        let sockets = cpus.div_ceil(UNIFORM_SOCKET);
        let on_socket = |socket| cpus / sockets + u16::from(socket < cpus % sockets);
        let cores_per_socket: Vec<u16> = (0..sockets).map(on_socket).collect();
        let node = |(socket, &cores): (usize, &u16)| Node {
            socket: socket as u8,
            memory: u64::from(cores) * UNIFORM_MEMORY,
        };
        let parts = Parts {
            nodes: cores_per_socket.iter().enumerate().map(node).collect(),
            cores_per_socket,
            threads_per_core: 1,
            distances: Vec::new(),
            provenance: Provenance {
                basis: Basis::Estimated,
                note: "512 MiB per CPU, one thread per core".into(),
            },
        };
        let topology = Topology::new(parts)
            .map_err(|impossible| TomlError::about(&name, impossible.reason))?;
        let mut draft = base(COMMON).unwrap_or_else(|| Ok(Draft::default()))?;
        draft.name = Some(name);
        draft.description = Some("a uniform machine: one socket and node per 28 CPUs".into());
        draft.topology = Some(topology);
        draft.finish("uniform")
    }
}

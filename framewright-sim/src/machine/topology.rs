//! The CPUs and memory of a machine.
//!
//! CPUs are numbered as by x86 firmware and Linux: the first thread of every core, socket by
//! socket, then the second threads in the same order. The cores of a socket are divided among its
//! nodes in order.

use super::basis::Provenance;

/// The greatest number of CPUs.
pub const MOST_CPUS: u16 = 512;
/// The greatest number of nodes.
pub(super) const MOST_NODES: usize = 64;
/// The greatest number of sockets: each has at least one node.
const MOST_SOCKETS: usize = MOST_NODES;
/// The greatest memory of all nodes, in bytes: a memory spans less than 2^32 frames.
const MOST_MEMORY: u64 = 1 << 43;
/// Memory comes in pageblocks of 2 MiB.
const PAGEBLOCK: u64 = 2 << 20;
/// The least memory of a node that has memory, in bytes: less would be below the watermarks.
const LEAST_MEMORY: u64 = 16 << 20;
/// The distance of a node to itself, as in firmware tables.
pub(super) const NEAR: u8 = 10;
/// The default distance between nodes of one socket.
pub(super) const SAME_SOCKET: u8 = 12;
/// The default distance between nodes of two sockets.
pub(super) const FAR: u8 = 21;

/// A node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its socket.
    pub socket: u8,
    /// Its memory in bytes: whole pageblocks, or 0 for a node that has only CPUs.
    pub memory: u64,
}

/// Sockets, cores, threads and nodes, checked for consistency.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    cores_per_socket: Vec<u16>,
    threads_per_core: u16,
    nodes: Vec<Node>,
    distances: Vec<Vec<u8>>,
    /// The place of every core.
    places: Vec<Place>,
    /// The source of this description.
    pub provenance: Provenance,
}

/// The socket and node of a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    socket: u8,
    node: u8,
}

/// The parts of a topology, unchecked.
#[derive(Clone, Debug)]
pub(super) struct Parts {
    pub(super) cores_per_socket: Vec<u16>,
    pub(super) threads_per_core: u16,
    pub(super) nodes: Vec<Node>,
    /// Empty for the default distances.
    pub(super) distances: Vec<Vec<u8>>,
    pub(super) provenance: Provenance,
}

/// An error with its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Impossible {
    pub(super) key: &'static str,
    /// The index of the node, if the value is a list of nodes.
    pub(super) node: Option<usize>,
    pub(super) reason: String,
}

fn refuse<T>(key: &'static str, reason: String) -> Result<T, Impossible> {
    Err(Impossible { key, node: None, reason })
}

/// An error of a node.
fn refuse_node(node: usize, reason: String) -> Result<(), Impossible> {
    Err(Impossible { key: "nodes", node: Some(node), reason })
}

impl Topology {
    /// A topology of `parts`, if they are consistent.
    pub(super) fn new(parts: Parts) -> Result<Self, Impossible> {
        check_cores(&parts)?;
        check_nodes(&parts)?;
        let distances = distances(&parts)?;
        let places = places(&parts)?;
        let Parts { cores_per_socket, threads_per_core, nodes, provenance, .. } = parts;
        Ok(Self { cores_per_socket, threads_per_core, nodes, distances, places, provenance })
    }

    /// The number of CPUs.
    #[must_use]
    pub fn cpus(&self) -> u16 {
        self.cores() * self.threads_per_core
    }

    /// The number of cores.
    #[must_use]
    pub fn cores(&self) -> u16 {
        self.places.len() as u16
    }

    /// The number of cores of each socket.
    #[must_use]
    pub fn cores_per_socket(&self) -> &[u16] {
        &self.cores_per_socket
    }

    /// The number of CPUs of each core.
    #[must_use]
    pub fn threads_per_core(&self) -> u16 {
        self.threads_per_core
    }

    /// The nodes, by number.
    #[must_use]
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Whether CPUs, nodes and distances are the same, regardless of the source.
    pub(super) fn is_laid_out_like(&self, other: &Self) -> bool {
        let provenance = self.provenance.clone();
        *self == Self { provenance, ..other.clone() }
    }

    /// The core of `cpu`.
    ///
    /// # Panics
    ///
    /// In debug builds, if there is no such CPU. So do [`Topology::socket_of`] and
    /// [`Topology::node_of`].
    #[must_use]
    pub fn core_of(&self, cpu: u16) -> u16 {
        debug_assert!(cpu < self.cpus(), "there is no CPU {cpu}");
        cpu % self.cores()
    }

    /// The socket of `cpu`.
    #[must_use]
    pub fn socket_of(&self, cpu: u16) -> u8 {
        self.places[usize::from(self.core_of(cpu))].socket
    }

    /// The node of `cpu`.
    #[must_use]
    pub fn node_of(&self, cpu: u16) -> u8 {
        self.places[usize::from(self.core_of(cpu))].node
    }

    /// The distance from node `from` to node `to`, in the unit of firmware tables: 10 is the node
    /// itself.
    ///
    /// # Panics
    ///
    /// If there is no such node.
    #[must_use]
    pub fn distance(&self, from: u8, to: u8) -> u8 {
        self.distances[usize::from(from)][usize::from(to)]
    }
}

fn check_cores(parts: &Parts) -> Result<(), Impossible> {
    if parts.cores_per_socket.is_empty() {
        return refuse("sockets", "a machine has at least one socket".into());
    }
    if parts.cores_per_socket.len() > MOST_SOCKETS {
        let reason = format!("{} sockets", parts.cores_per_socket.len());
        return refuse("sockets", format!("{reason}; a machine has at most {MOST_SOCKETS}"));
    }
    if let Some(socket) = parts.cores_per_socket.iter().position(|&cores| cores == 0) {
        return refuse("cores_per_socket", format!("socket {socket} has no core"));
    }
    if parts.threads_per_core == 0 {
        return refuse("threads_per_core", "a core is at least one CPU".into());
    }
    let cores: u64 = parts.cores_per_socket.iter().copied().map(u64::from).sum();
    let cpus = cores * u64::from(parts.threads_per_core);
    if cpus > u64::from(MOST_CPUS) {
        let reason = match parts.threads_per_core {
            1 => format!("{cpus} CPUs"),
            threads => format!("{cores} cores of {threads} CPUs each are {cpus}"),
        };
        return refuse("cores_per_socket", format!("{reason}; a machine has at most {MOST_CPUS}"));
    }
    Ok(())
}

fn check_nodes(parts: &Parts) -> Result<(), Impossible> {
    let sockets = parts.cores_per_socket.len();
    if parts.nodes.len() > MOST_NODES {
        let reason = format!("{} nodes; a machine has at most {MOST_NODES}", parts.nodes.len());
        return refuse("nodes", reason);
    }
    for (number, node) in parts.nodes.iter().enumerate() {
        if usize::from(node.socket) >= sockets {
            let last = format!("the last socket is {}", sockets - 1);
            let reason = format!("node {number} is on socket {}; {last}", node.socket);
            return refuse_node(number, reason);
        }
        if node.memory != 0 && !(LEAST_MEMORY..=MOST_MEMORY).contains(&node.memory) {
            let reason = format!("node {number} has {} bytes of memory", node.memory);
            let rule = "a node has 16MiB to 8TiB, or 0 if it has only CPUs";
            return refuse_node(number, format!("{reason}; {rule}"));
        }
        if !node.memory.is_multiple_of(PAGEBLOCK) {
            let reason = format!("the memory of node {number} is not a multiple of 2MiB");
            return refuse_node(number, reason);
        }
    }
    let total: u64 = parts.nodes.iter().map(|node| node.memory).sum();
    if total == 0 {
        return refuse("nodes", "no node has memory".into());
    }
    if total > MOST_MEMORY {
        return refuse("nodes", "all nodes together have more than 8TiB of memory".into());
    }
    Ok(())
}

/// The given distances, if they are valid, or the default ones.
fn distances(parts: &Parts) -> Result<Vec<Vec<u8>>, Impossible> {
    let nodes = &parts.nodes;
    if parts.distances.is_empty() {
        let distance = |a: usize, b: usize| match (a == b, nodes[a].socket == nodes[b].socket) {
            (true, _) => NEAR,
            (false, true) => SAME_SOCKET,
            (false, false) => FAR,
        };
        let row = |a| (0..nodes.len()).map(|b| distance(a, b)).collect();
        return Ok((0..nodes.len()).map(row).collect());
    }
    let table = &parts.distances;
    if table.len() != nodes.len() || table.iter().any(|row| row.len() != nodes.len()) {
        let nodes = nodes.len();
        return refuse("distances", format!("{nodes} nodes need {nodes} rows of {nodes}"));
    }
    for (from, row) in table.iter().enumerate() {
        for (to, &distance) in row.iter().enumerate() {
            if (from == to) != (distance == NEAR) || distance < NEAR {
                let rule = "a node is 10 from itself and more from others";
                return refuse(
                    "distances",
                    format!("node {to} is {distance} from node {from}; {rule}"),
                );
            }
            if distance != table[to][from] {
                let back = table[to][from];
                let reason = format!("{distance} from node {from} to node {to}, and {back} back");
                return refuse("distances", format!("{reason}: distances are symmetric"));
            }
        }
    }
    Ok(table.clone())
}

/// The place of every core: the cores of a socket are divided evenly among its nodes.
fn places(parts: &Parts) -> Result<Vec<Place>, Impossible> {
    let mut places = Vec::new();
    for (socket, &cores) in parts.cores_per_socket.iter().enumerate() {
        let on_socket = |node: &&(usize, &Node)| usize::from(node.1.socket) == socket;
        let nodes: Vec<_> = parts.nodes.iter().enumerate().collect();
        let nodes: Vec<u8> =
            nodes.iter().filter(on_socket).map(|(number, _)| *number as u8).collect();
        if nodes.is_empty() {
            let reason = format!("socket {socket} has no node: its CPUs would have no memory");
            return refuse("nodes", reason);
        }
        let each = usize::from(cores) / nodes.len();
        if each * nodes.len() != usize::from(cores) {
            let reason = format!("the {cores} cores of socket {socket} cannot be divided evenly");
            return refuse("nodes", format!("{reason} among its {} nodes", nodes.len()));
        }
        let socket = socket as u8;
        places.extend(
            nodes.iter().flat_map(|&node| std::iter::repeat_n(Place { socket, node }, each)),
        );
    }
    Ok(places)
}

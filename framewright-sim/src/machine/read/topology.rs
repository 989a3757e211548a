//! The section `[topology]`.

use parse_size::Config;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::super::topology::{Impossible, Node, Parts, Topology};
use super::{Fault, Sourcing, string, unknown_key, whole};

const KEYS: [&str; 6] =
    ["sockets", "cores_per_socket", "threads_per_core", "cpus", "nodes", "distances"];
const NODE_KEYS: [&str; 2] = ["socket", "memory"];

/// Reads the section, which must be complete.
pub(super) fn read(value: &Spanned<DeValue<'_>>) -> Result<Topology, Fault> {
    let Some(table) = value.get_ref().as_table() else {
        return Err(Fault::at(value, "topology", "is a section: write [topology]".into()));
    };
    for (key, _) in table {
        let name = key.get_ref().as_ref();
        if !KEYS.contains(&name) && !Sourcing::KEYS.contains(&name) {
            let known = KEYS.into_iter().chain(Sourcing::KEYS);
            return Err(unknown_key(key.span(), "topology", name, known));
        }
    }
    let section = Section { value, table };
    let parts = Parts {
        cores_per_socket: section.cores_per_socket()?,
        threads_per_core: section.number("threads_per_core", Some(1))?,
        nodes: section.nodes()?,
        distances: section.distances()?,
        provenance: Sourcing::of("topology", table)?.provenance("topology", value)?,
    };
    let topology = Topology::new(parts).map_err(|impossible| section.impossible(impossible))?;
    section.check_cpus(&topology)?;
    Ok(topology)
}

struct Section<'t, 'i> {
    value: &'t Spanned<DeValue<'i>>,
    table: &'t DeTable<'i>,
}

impl<'t, 'i> Section<'t, 'i> {
    /// An error at the value of `key`, or at the section if it has no such key.
    fn fault(&self, key: &str, reason: String) -> Fault {
        Fault::at(self.table.get(key).unwrap_or(self.value), &format!("topology.{key}"), reason)
    }

    /// An error at the node that causes it, or at the key.
    fn impossible(&self, impossible: Impossible) -> Fault {
        let Impossible { key, node, reason } = impossible;
        let list = self.table.get(key).and_then(|value| value.get_ref().as_array());
        match node.zip(list).and_then(|(node, list)| list.get(node)) {
            Some(node) => Fault::at(node, &format!("topology.{key}"), reason),
            None => self.fault(key, reason),
        }
    }

    fn get(&self, key: &str) -> Result<&'t Spanned<DeValue<'i>>, Fault> {
        self.table.get(key).ok_or_else(|| self.fault(key, "is missing".into()))
    }

    fn number(&self, key: &str, default: Option<u16>) -> Result<u16, Fault> {
        match (self.table.get(key), default) {
            (None, Some(default)) => Ok(default),
            _ => small(&format!("topology.{key}"), self.get(key)?),
        }
    }

    /// One number for all sockets, or one for each.
    fn cores_per_socket(&self) -> Result<Vec<u16>, Fault> {
        let key = "topology.cores_per_socket";
        let sockets = self.number("sockets", None)?;
        let value = self.get("cores_per_socket")?;
        let Some(list) = value.get_ref().as_array() else {
            return Ok(vec![small(key, value)?; usize::from(sockets)]);
        };
        if list.len() != usize::from(sockets) {
            let reason = format!("has {} numbers for {sockets} sockets", list.len());
            return Err(Fault::at(value, key, reason));
        }
        list.iter().map(|cores| small(key, cores)).collect()
    }

    fn nodes(&self) -> Result<Vec<Node>, Fault> {
        let value = self.get("nodes")?;
        let Some(list) = value.get_ref().as_array() else {
            let reason = "is a list: [{ socket = 0, memory = \"64GiB\" }]";
            return Err(Fault::at(value, "topology.nodes", reason.into()));
        };
        list.iter().map(node).collect()
    }

    fn distances(&self) -> Result<Vec<Vec<u8>>, Fault> {
        const KEY: &str = "topology.distances";
        let Some(value) = self.table.get("distances") else { return Ok(Vec::new()) };
        let is_list = || Fault::at(value, KEY, "is a list of rows: [[10, 21], [21, 10]]".into());
        let distance = |cell: &Spanned<DeValue<'_>>| {
            u8::try_from(whole(KEY, cell)?)
                .map_err(|_| Fault::at(cell, KEY, "a distance is 10 to 255".into()))
        };
        let rows = value.get_ref().as_array().ok_or_else(is_list)?;
        let rows = rows.iter().map(|row| {
            let cells = row.get_ref().as_array().ok_or_else(is_list)?;
            cells.iter().map(distance).collect()
        });
        let rows: Vec<Vec<u8>> = rows.collect::<Result<_, _>>()?;
        if rows.is_empty() { Err(is_list()) } else { Ok(rows) }
    }

    /// Checks the number of CPUs, which is optional.
    fn check_cpus(&self, topology: &Topology) -> Result<(), Fault> {
        if self.table.get("cpus").is_none() {
            return Ok(());
        }
        let (cpus, cores) = (self.number("cpus", None)?, topology.cores());
        if cpus == topology.cpus() {
            return Ok(());
        }
        let (sockets, threads) = (topology.cores_per_socket().len(), topology.threads_per_core());
        let reason = format!(
            "{sockets} sockets with {cores} cores in all, of {threads} CPUs each, have {}",
            topology.cpus()
        );
        Err(self.fault("cpus", reason))
    }
}

/// Reads a node, as in `{ socket = 0, memory = "64GiB" }`.
fn node(value: &Spanned<DeValue<'_>>) -> Result<Node, Fault> {
    const KEY: &str = "topology.nodes";
    let fault = |reason: &str| Fault::at(value, KEY, reason.into());
    let table = value.get_ref().as_table();
    let table = table.ok_or_else(|| fault("a node is { socket = 0, memory = \"64GiB\" }"))?;
    for (key, _) in table {
        let name = key.get_ref().as_ref();
        if !NODE_KEYS.contains(&name) {
            return Err(unknown_key(key.span(), KEY, name, NODE_KEYS.into_iter()));
        }
    }
    let socket = table.get("socket").ok_or_else(|| fault("does not say its socket"))?;
    let memory = table.get("memory").ok_or_else(|| fault("does not say its memory"))?;
    let text = string("topology.nodes.memory", memory)?;
    let bytes = Config::new().with_binary().parse_size(&text).map_err(|_| {
        let reason = "a size is a number and a unit up to TiB, as in \"64GiB\"";
        Fault::at(memory, "topology.nodes.memory", reason.into())
    })?;
    let number = whole("topology.nodes.socket", socket)?;
    let socket = u8::try_from(number).map_err(|_| {
        Fault::at(socket, "topology.nodes.socket", format!("there is no socket {number}"))
    })?;
    Ok(Node { socket, memory: bytes })
}

fn small(key: &str, value: &Spanned<DeValue<'_>>) -> Result<u16, Fault> {
    let number = whole(key, value)?;
    u16::try_from(number).map_err(|_| Fault::at(value, key, format!("{number} is too many")))
}

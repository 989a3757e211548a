//! Presets are complete, errors are named, and no text makes the reader panic.

use std::{fs, path::Path};

use proptest::prelude::*;

use super::*;

/// A small machine, followed by `more`.
fn text(more: &str) -> String {
    format!(
        "name = \"mine\"\n\
         [topology]\n\
         sockets = 2\n\
         cores_per_socket = 2\n\
         threads_per_core = 2\n\
         nodes = [{{ socket = 0, memory = \"1GiB\" }}, {{ socket = 1, memory = \"2GiB\" }}]\n\
         basis = \"estimated\"\n{more}"
    )
}

/// The error of `text`.
fn refused(text: &str) -> String {
    Spec::from_toml("mine.toml", text).unwrap_err().to_string()
}

#[test]
fn every_preset_is_whole_and_has_the_cpus_of_its_name() {
    for name in presets() {
        let spec = Spec::preset(name).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(spec.name(), name);
        assert!(!spec.description().is_empty(), "{name}");
        let cpus: u16 = name.rsplit('-').next().unwrap().parse().unwrap();
        assert_eq!(spec.cpus(), cpus, "{name}");
        assert_eq!(spec.parameters().count(), PARAMETERS.len());
        for figure in spec.parameters() {
            assert!(figure.parameter.unit.range().contains(&figure.value), "{name}: {figure:?}");
        }
    }
}

#[test]
fn written_and_read_again_a_machine_is_the_same() {
    let uniform = [1, 5, 28, 29, 100, 512].map(|cpus| Spec::uniform(cpus).unwrap());
    let all = presets().map(|name| Spec::preset(name).unwrap()).chain(uniform);
    for spec in all {
        let text = spec.to_toml();
        assert_eq!(Spec::from_toml("again.toml", &text).unwrap(), spec, "{text}");
    }
}

#[test]
fn inherited_parts_of_a_machine_are_named() {
    let inherited = |text: &str| Spec::from_toml("mine.toml", text).unwrap().inherited().cloned();
    let all: Vec<_> = PARAMETERS.iter().map(|parameter| parameter.key).collect();

    let alone = Spec::uniform(2).unwrap().to_toml();
    assert_eq!(inherited(&alone), None);
    let at = alone.find("frequency = ").unwrap();
    let line = &alone[at..=at + alone[at..].find('\n').unwrap()];
    let without = inherited(&alone.replacen(line, "", 1).replacen("uniform:2", "mine", 1)).unwrap();
    assert_eq!((without.base.as_str(), without.topology), ("common", false));
    assert_eq!(without.parameters, ["clock.frequency"]);

    let base = "name = \"mine\"\nbase = \"laptop-8\"\n";
    let l1 = "[latency]\nl1 = { cycles = 5, basis = \"estimated\" }\n";
    let below = inherited(&format!("{base}{l1}")).unwrap();
    assert_eq!((below.base.as_str(), below.topology), ("laptop-8", true));
    let but_one: Vec<_> = all.into_iter().filter(|key| *key != "latency.l1").collect();
    assert_eq!(below.parameters, but_one);
    assert_eq!(Spec::preset("laptop-8").unwrap().inherited(), None);
}

#[test]
fn cpus_are_numbered_core_by_core_then_thread_by_thread() {
    let spec = Spec::from_toml("mine.toml", &text("")).unwrap();
    assert_eq!((spec.cpus(), spec.nodes(), spec.sockets()), (8, 2, 2));
    let cores: Vec<u16> = (0..8).map(|cpu| spec.core_of(cpu)).collect();
    assert_eq!(cores, [0, 1, 2, 3, 0, 1, 2, 3]);
    let nodes: Vec<u8> = (0..8).map(|cpu| spec.node_of(cpu)).collect();
    assert_eq!(nodes, [0, 0, 1, 1, 0, 0, 1, 1]);
    let relations = [0, 4, 1, 2].map(|cpu| spec.relation(0, cpu));
    assert_eq!(relations, [Relation::Same, Relation::Core, Relation::Socket, Relation::Remote]);
    assert_eq!(
        (spec.node_frames(0), spec.node_frames(1), spec.frames()),
        (1 << 18, 1 << 19, 3 << 18)
    );
    assert_eq!((spec.topology().distance(0, 0), spec.topology().distance(0, 1)), (10, 21));
}

#[test]
fn a_node_may_have_only_cpus() {
    let memoryless = text("").replace("\"2GiB\"", "\"0\"");
    let spec = Spec::from_toml("mine.toml", &memoryless).unwrap();
    assert_eq!((spec.nodes(), spec.node_of(2), spec.node_frames(1)), (2, 1, 0));
    assert_eq!(spec.frames(), 1 << 18);
    assert_eq!(Spec::from_toml("again.toml", &spec.to_toml()).unwrap().topology(), spec.topology());
    let error = refused(&memoryless.replace("\"1GiB\"", "\"0\""));
    assert!(error.contains("no node has memory"), "{error}");
}

#[test]
fn the_cores_of_a_socket_are_divided_among_its_nodes() {
    let node = |socket| format!("{{ socket = {socket}, memory = \"1GiB\" }}");
    let nodes = [node(0), node(0)].join(", ");
    let spec = Spec::from_toml(
        "mine.toml",
        &format!(
            "name = \"snc\"\n[topology]\nsockets = 1\ncores_per_socket = 4\nnodes = [{nodes}]\n\
             basis = \"estimated\""
        ),
    );
    let spec = spec.unwrap();
    assert_eq!([0, 1, 2, 3].map(|cpu| spec.node_of(cpu)), [0, 0, 1, 1]);
    assert_eq!(spec.topology().distance(0, 1), 12);
}

#[test]
fn a_uniform_machine_spreads_its_cpus_evenly() {
    for (cpus, cores) in [(1, vec![1]), (28, vec![28]), (64, vec![22, 21, 21])] {
        let spec = Spec::uniform(cpus).unwrap();
        assert_eq!((spec.cpus(), spec.topology().cores_per_socket()), (cpus, &*cores));
    }
    let largest = Spec::uniform(512).unwrap();
    assert_eq!((largest.cpus(), largest.nodes()), (512, 19));
    for cpus in [0, 513] {
        let error = Spec::uniform(cpus).unwrap_err().to_string();
        assert!(error.contains("1 to 512"), "{error}");
    }
}

#[test]
fn missing_keys_are_inherited_from_the_base() {
    let changed = "[latency]\nl1 = { cycles = 7, basis = \"measured\", note = \"here\" }";
    let spec = Spec::from_toml("mine.toml", &text(changed)).unwrap();
    assert_eq!((spec.costs().latency.l1, spec.costs().latency.l2), (7, 14));
    let l1 = spec.parameters().find(|figure| figure.parameter.key == "latency.l1").unwrap();
    assert_eq!((l1.provenance.basis, &*l1.provenance.note), (Basis::Measured, "here"));
    let spec = Spec::from_toml("mine.toml", "name = \"m\"\nbase = \"bdw-2s-88\"").unwrap();
    assert_eq!((spec.cpus(), spec.costs().latency.l1, spec.description()), (88, 4, ""));
}

#[test]
fn basis_and_note_of_a_section_apply_to_figures_without_any() {
    let section = "[fault]\nbasis = \"fitted\"\nnote = \"all\"\n\
                   clear = { cycles = 1 }\n\
                   copy = { cycles = 2, note = \"this\" }\n\
                   unmap = { cycles = 3, basis = \"estimated\" }";
    let spec = Spec::from_toml("mine.toml", &text(section)).unwrap();
    let provenance = |key: &str| {
        let figure = spec.parameters().find(|figure| figure.parameter.key == key).unwrap();
        (figure.value, figure.provenance.basis, figure.provenance.note.as_str())
    };
    assert_eq!(provenance("fault.clear"), (1, Basis::Fitted, "all"));
    assert_eq!(provenance("fault.copy"), (2, Basis::Fitted, "this"));
    assert_eq!(provenance("fault.unmap"), (3, Basis::Estimated, ""));
}

#[test]
fn one_parameter_can_be_scaled() {
    let spec = Spec::preset("skx-2s-112").unwrap();
    let less = spec.scaled("latency.modified_remote", 0.75).unwrap();
    assert_eq!(less.costs().latency.modified_remote, 225);
    assert_eq!(Spec { costs: *spec.costs(), ..less }, spec);
    assert_eq!(
        spec.scaled("latency.parallel_misses", 0.0).unwrap().costs().latency.parallel_misses,
        1
    );
    let error = spec.scaled("latency.modified_remot", 2.0).unwrap_err().to_string();
    assert!(error.contains("'latency.modified_remote'"), "{error}");
}

#[test]
fn a_machine_with_fewer_cpus_has_the_same_costs_and_memory() {
    let spec = Spec::preset("skx-2s-112").unwrap();
    let few = spec.with_cpus(3).unwrap();
    assert_eq!((few.cpus(), few.sockets(), few.nodes()), (3, 1, 1));
    assert_eq!((few.frames(), few.costs()), (spec.frames(), spec.costs()));
    assert_eq!(spec.with_cpus(112).unwrap(), spec);
    assert!(spec.with_cpus(0).unwrap_err().to_string().contains("has no core"));
    assert!(spec.with_cpus(513).unwrap_err().to_string().contains("at most 512"));
}

#[test]
fn costs_derived_from_parameters() {
    let costs = *Spec::preset("skx-2s-112").unwrap().costs();
    assert_eq!(costs.loaded(120), 124);
    assert_eq!(costs.handoff(200), 320);
    assert_eq!((costs.cycles_of_nanos(4_000), costs.nanos_of_cycles(10_000)), (10_000, 4_000));
    assert_eq!(costs.instructions(222), 222);
}

#[test]
fn a_fault_is_named_with_file_line_key_and_value() {
    for (more, expected) in [
        ("[latency]\nl1 = 5", "mine.toml:9: latency.l1 = 5: says neither its unit nor"),
        (
            "[latency]\nl1 = { cycles = \"5\", basis = \"estimated\" }",
            "mine.toml:9: latency.l1.cycles = \"5\": takes a whole number",
        ),
        (
            "[latency]\nl1 = { cycles = -5, basis = \"estimated\" }",
            "latency.l1.cycles = -5: takes a whole number",
        ),
        (
            "[latency]\nl1 = { cycles = 99999999999, basis = \"estimated\" }",
            "latency.l1.cycles = 99999999999: takes 0 to 10000000",
        ),
        (
            "[latency]\nl1 = { ns = 5, basis = \"estimated\" }",
            "mine.toml:9: latency.l1: has no 'ns'; it takes cycles",
        ),
        (
            "[latency]\nl1 = { basis = \"estimated\" }",
            "does not say how many: cycles = N is missing",
        ),
        ("[latency]\nl1 = { cycles = 5 }", "does not say where it comes from: basis is missing"),
        (
            "[latency]\nl1 = { cycles = 5, basis = \"measurd\" }",
            "latency.l1.basis = \"measurd\": there is no such basis; the nearest is 'measured'",
        ),
        (
            "[latency]\nl1 = { cycles = 5, basis = \"measured\" }",
            "is measured, and note does not say where",
        ),
        (
            "[latency]\nl1 = { cycles = 5, basis = \"fitted\" }",
            "is fitted, and note does not say to what",
        ),
        (
            "[latency]\nL1 = { cycles = 5, basis = \"estimated\" }",
            "mine.toml:9: latency.L1: there is no such key; the nearest is 'l1'",
        ),
        ("[latecy]\n", "mine.toml:8: latecy: there is no such key; the nearest is 'latency'"),
        ("cpu = 3", "mine.toml:8: topology.cpu: there is no such key; the nearest is 'cpus'"),
        (
            "[clock]\nfrequency = { mhz = 0, basis = \"estimated\" }",
            "clock.frequency.mhz = 0: takes 1 to 100000",
        ),
        (
            "cpus = 9",
            "mine.toml:8: topology.cpus = 9: 2 sockets with 4 cores in all, of 2 CPUs each, have 8",
        ),
        ("distances = [[10, 21]]", "topology.distances = [[10, 21]]: 2 nodes need 2 rows of 2"),
        (
            "distances = [[10, 21], [22, 10]]",
            "21 from node 0 to node 1, and 22 back: distances are symmetric",
        ),
        ("distances = [[9, 21], [21, 10]]", "node 0 is 9 from node 0; a node is 10 from itself"),
        ("distances = [[10, 300], [300, 10]]", "topology.distances = 300: a distance is 10 to 255"),
        ("distances = []", "is a list of rows"),
        ("name = 3", "mine.toml:8: topology.name"),
        ("[latency", "mine.toml:8: "),
        // Names without a near one are answered with all names.
        ("weird = 3", "mine.toml:8: topology.weird: there is no such key; valid: sockets, "),
        (
            "[clock]\nfoo = 3",
            "mine.toml:9: clock.foo: there is no such key; valid: frequency, basis, note",
        ),
        (
            "[latency]\nl1 = { cycles = 5, basis = \"sure\" }",
            "\"sure\": there is no such basis; valid: measured, fitted, estimated",
        ),
    ] {
        let error = refused(&text(more));
        assert!(error.contains(expected), "{more}: {error}");
    }
}

#[test]
fn impossible_topologies_are_refused() {
    let socket = "sockets = 2";
    let cores = "cores_per_socket = 2";
    let memory = "memory = \"1GiB\"";
    for (from, to, expected) in [
        (socket, "sockets = 0", "mine.toml:3: topology.sockets = 0: a machine has at least one"),
        (socket, "sockets = 3", "topology.nodes = [{ socket = 0, memory = \"1GiB\" }"),
        (socket, "sockets = 3", "socket 2 has no node"),
        (socket, "sockets = 1", "node 1 is on socket 1; the last socket is 0"),
        (socket, "sockets = 65", "65 sockets; a machine has at most 64"),
        (socket, "sockets = 70000", "70000 is too many"),
        (socket, "", "mine.toml:2: topology.sockets: is missing"),
        (
            cores,
            "cores_per_socket = 0",
            "mine.toml:4: topology.cores_per_socket = 0: socket 0 has no core",
        ),
        (cores, "cores_per_socket = [2]", "has 1 numbers for 2 sockets"),
        (cores, "cores_per_socket = [2, 0]", "socket 1 has no core"),
        (
            cores,
            "cores_per_socket = 129",
            "258 cores of 2 CPUs each are 516; a machine has at most 512",
        ),
        ("threads_per_core = 2", "threads_per_core = 0", "a core is at least one CPU"),
        (memory, "memory = \"8MiB\"", "node 0 has 8388608 bytes of memory; a node has 16MiB to"),
        (
            memory,
            "memory = \"much\"",
            "topology.nodes.memory = \"much\": a size is a number and a unit",
        ),
        (memory, "memory = \"17MiB\"", "is not a multiple of 2MiB"),
        (memory, "memory = \"8TiB\"", "all nodes together have more than 8TiB"),
        (memory, "size = \"8TiB\"", "topology.nodes.size: there is no such key"),
        ("basis = \"estimated\"", "", "mine.toml:2: topology: does not say where it comes from"),
    ] {
        let error = refused(&text("").replace(from, to));
        assert!(error.contains(expected), "{to}: {error}");
    }
    let single = text("").replace("threads_per_core = 2", "threads_per_core = 1");
    let error = refused(&single.replace(cores, "cores_per_socket = 300"));
    assert!(error.contains("= 300: 600 CPUs; a machine has at most 512"), "{error}");
    let uneven = text("").replace("socket = 1,", "socket = 0,").replace(socket, "sockets = 1");
    let error = refused(&uneven.replace(cores, "cores_per_socket = 3"));
    assert!(
        error.contains("the 3 cores of socket 0 cannot be divided evenly among its 2"),
        "{error}"
    );
}

#[test]
fn a_fault_of_a_node_is_in_its_line() {
    let nodes = "nodes = [\n{ socket = 0, memory = \"1GiB\" },\n{ socket = 1, memory = \"2GiB\" }]";
    let own = text("").replace("}, {", "},\n{").replace("nodes = [", "nodes = [\n");
    assert!(own.contains(nodes), "{own}");
    for (to, expected) in [
        ("socket = 7, memory = \"2GiB\"", "mine.toml:8: topology.nodes = { socket = 7, memory"),
        ("socket = 1, memory = \"1MiB\"", "mine.toml:8: topology.nodes = { socket = 1, memory"),
        ("socket = 1, memory = \"17MiB\"", "mine.toml:8: topology.nodes = { socket = 1, memory"),
    ] {
        let error = refused(&own.replace("socket = 1, memory = \"2GiB\"", to));
        assert!(error.contains(expected), "{to}: {error}");
    }
}

/// A run on such a machine would not end.
#[test]
fn machines_on_which_time_does_not_pass_are_refused() {
    let estimated =
        |key: &str, figure: &str| format!("{key} = {{ {figure}, basis = \"estimated\" }}\n");
    let tick = |key: &str, figure: &str| format!("[tick]\n{}", estimated(key, figure));
    let none = |section: &str, keys: [&str; 2], unit: &str| {
        let zero = format!("{unit} = 0");
        format!("[{section}]\n{}{}", estimated(keys[0], &zero), estimated(keys[1], &zero))
    };
    for (more, expected) in [
        (
            tick("period", "us = 1"),
            "mine.toml:9: tick.period = { us = 1, basis = \"estimated\" }: a tick takes 2500 cycles and comes every 2500 (tick.period, clock.frequency): more than half of all time",
        ),
        (tick("cost", "cycles = 6000000"), "mine.toml:9: tick.cost = { cycles = 6000000"),
        (
            format!("[clock]\n{}", estimated("frequency", "mhz = 1")),
            "mine.toml:9: clock.frequency = { mhz = 1, basis = \"estimated\" }: a tick takes 2500 cycles and comes every 4000",
        ),
        (
            format!("[code]\n{}", estimated("cycles_per_100_instructions", "cycles = 0")),
            "mine.toml:9: code.cycles_per_100_instructions = { cycles = 0, basis = \"estimated\" }: library.hot_alloc, library.hot_free and code.cycles_per_100_instructions make 0 cycles for an allocation and a free: time would hardly pass; at least 10",
        ),
        (
            none("library", ["hot_alloc", "hot_free"], "tenths"),
            "mine.toml:9: library.hot_alloc = { tenths = 0",
        ),
        (
            none("code", ["list_buddy_take", "list_buddy_give"], "instructions"),
            "mine.toml:9: code.list_buddy_take = { instructions = 0",
        ),
        (
            format!("[latency]\n{}", estimated("l1", "cycles = 0")),
            "mine.toml:9: latency.l1 = { cycles = 0, basis = \"estimated\" }: an access takes at least 1 cycle",
        ),
        (
            format!("[latency]\n{}", estimated("l1", "cycles = 50000")),
            "mine.toml:9: latency.l1 = { cycles = 50000, basis = \"estimated\" }: latency.l1 takes 50000 cycles and latency.l2 14: farther memory takes at least as long",
        ),
        (
            format!("[latency]\n{}", estimated("modified_remote", "cycles = 100")),
            "mine.toml:9: latency.modified_remote = { cycles = 100, basis = \"estimated\" }: latency.modified_same_socket takes 120 cycles",
        ),
    ] {
        let error = refused(&text(&more));
        assert!(error.contains(expected), "{more}: {error}");
    }
    for fine in [tick("period", "us = 2"), none("fault", ["service", "unmap"], "cycles")] {
        assert!(Spec::from_toml("mine.toml", &text(&fine)).is_ok(), "{fine}");
    }
}

#[test]
fn a_changed_built_in_machine_needs_another_name() {
    let base = "name = \"skx-2s-112\"\nbase = \"skx-2s-112\"\n";
    assert!(Spec::from_toml("mine.toml", base).is_ok(), "it is that machine");
    for (text, expected) in [
        (
            format!("{base}[latency]\nl1 = {{ cycles = 6, basis = \"estimated\" }}"),
            "mine.toml:1: name = \"skx-2s-112\": the built-in machine of this name has another latency.l1: choose",
        ),
        (
            text("").replace("\"mine\"", "\"laptop-8\""),
            "mine.toml:1: name = \"laptop-8\": the built-in machine of this name has another topology",
        ),
        (text("").replace("\"mine\"", "\"uniform:4\""), "mine.toml:1: name = \"uniform:4\""),
    ] {
        let error = refused(&text);
        assert!(error.contains(expected), "{text}: {error}");
    }
}

#[test]
fn names_and_bases_are_checked() {
    for (text, expected) in [
        ("", "mine.toml: there is no [topology]"),
        ("base = \"skx-2s-112\"", "mine.toml: there is no name"),
        (
            "base = \"skx-2s-113\"",
            "mine.toml:1: base = \"skx-2s-113\": there is no such machine; the nearest is 'skx-2s-112'",
        ),
        ("name = \"a b\"", "mine.toml:1: name = \"a b\": a name is letters"),
        ("name = 3", "mine.toml:1: name = 3: takes a string in quotes"),
        ("latency = 3", "mine.toml:1: latency = 3: is a section: write [latency]"),
        ("topology = 3", "mine.toml:1: topology = 3: is a section"),
    ] {
        let error = refused(text);
        assert!(error.contains(expected), "{text}: {error}");
    }
    let error = Spec::preset("spr-2s-225").unwrap_err().to_string();
    assert_eq!(error, "spr-2s-225: there is no such machine; the nearest is 'spr-2s-224'");
}

proptest! {
    #[test]
    fn no_text_makes_the_reader_panic(text in "\\PC{0,200}") {
        let _ = Spec::from_toml("any.toml", &text);
    }

    /// A damaged file that is nearly correct exercises more of the reader than arbitrary text.
    #[test]
    fn no_damage_makes_the_reader_panic(
        preset in 0..presets().len(),
        at in any::<prop::sample::Index>(),
        length in 0..40_usize,
        with in "[\\[\\]{}=\"a-z0-9 ,.\n-]{0,12}",
    ) {
        let text = presets().nth(preset).map(|name| Spec::preset(name).unwrap().to_toml()).unwrap();
        let mut damaged: Vec<char> = text.chars().collect();
        let start = at.index(damaged.len());
        let end = (start + length).min(damaged.len());
        damaged.splice(start..end, with.chars());
        let damaged: String = damaged.into_iter().collect();
        if let Ok(spec) = Spec::from_toml("damaged.toml", &damaged) {
            prop_assert!((1..=MOST_CPUS).contains(&spec.cpus()));
            // A written file is self-contained.
            let alone = Spec { inherited: None, ..spec };
            prop_assert_eq!(Spec::from_toml("again.toml", &alone.to_toml()).unwrap(), alone);
        }
    }
}

#[test]
fn seeds_of_the_fuzzer_give_a_machine_or_an_error() {
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/seeds/machines");
    let mut machines = 0;
    for entry in fs::read_dir(&seeds).expect("the seeds are in the repository") {
        let text = fs::read_to_string(entry.unwrap().path()).unwrap();
        let Ok(spec) = Spec::from_toml("seed.toml", &text) else { continue };
        machines += 1;
        // The fuzzer's own assertions.
        let written = spec.to_toml();
        let again = Spec::from_toml("again.toml", &written).unwrap();
        assert_eq!(again.inherited(), None);
        assert_eq!(again.to_toml(), written);
    }
    assert!(machines > 0, "no machine in {}", seeds.display());
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let error = |path: &str| Spec::from_file(Path::new(path)).unwrap_err().to_string();
    assert!(error("nowhere.toml").starts_with("nowhere.toml: No such file"));
    let folder = env!("CARGO_MANIFEST_DIR");
    assert!(error(folder).starts_with(&format!("{folder}: ")));
    #[cfg(unix)]
    assert!(error("/dev/zero").contains("too large"));
}

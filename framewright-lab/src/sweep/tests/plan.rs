//! Good plans, and each bad one with its message.

use super::*;

fn refused(text: &str) -> String {
    Plan::from_toml("plan.toml", text, &Known).unwrap_err().to_string()
}

#[test]
fn a_matrix_has_all_combinations_and_the_seed_changes_first() {
    let plan = plan(MATRIX);
    assert_eq!(plan.len(), 3 * 3 * 4 * 2);
    let commands = [0, 1, 3, 6, 71].map(|index| plan.entry(index).command());
    let expected = [
        "--machine=m0 --size=7 --set=a.x=1 --set=a.y=auto --seed=1",
        "--machine=m0 --size=7 --set=a.x=1 --set=a.y=auto --seed=2",
        "--machine=m0 --size=7 --set=a.x=1 --set=a.y=31 --seed=1",
        "--machine=m0 --size=7 --set=a.x=2 --set=a.y=auto --seed=1",
        "--machine=m2 --size=7 --set=a.x=8 --set=a.y=31 --seed=3",
    ];
    assert_eq!(commands, expected.map(|args| format!("framewright run work {args}")));
    let columns: Vec<_> = plan.columns().iter().map(|it| (it.name.as_str(), it.is_whole)).collect();
    assert_eq!(columns, [("a.x", true), ("a.y", false)], "settings that differ, and their types");
}

#[test]
fn a_list_of_blocks_takes_what_it_does_not_say_from_above() {
    let plan = plan(
        "workloads = \"work\"\nmachines = \"m0\"\n[settings]\na.x = 1\n\
         [[runs]]\nseeds = [1, 2]\n[runs.settings]\na.x = 2\na.y = 3\n\
         [[runs]]\nmachines = \"m1\"\n[runs.options]\nquick = true\n",
    );
    let commands: Vec<_> = (0..plan.len()).map(|index| plan.entry(index).command()).collect();
    let expected = [
        "--machine=m0 --set=a.x=2 --set=a.y=3 --seed=1",
        "--machine=m0 --set=a.x=2 --set=a.y=3 --seed=2",
        "--machine=m1 --quick --set=a.x=1 --seed=1",
    ];
    assert_eq!(commands, expected.map(|args| format!("framewright run work {args}")));
    let names: Vec<_> = plan.columns().iter().map(|column| column.name.as_str()).collect();
    assert_eq!(names, ["quick", "a.x", "a.y"]);
    assert_eq!(plan.entry(2).cells(plan.columns()), [Some("true"), Some("1"), None]);
}

#[test]
fn a_bad_plan_is_refused_with_line_key_and_value() {
    let head = "workloads = \"work\"\nmachines = [\"m0\"]\n";
    for (text, expected) in [
        ("", "plan.toml: workloads: is missing: write workloads = [\"NAME\", ...]"),
        ("workloads = \"work\"", "plan.toml: machines: is missing: write machines = "),
        ("[[runs]]\nworkloads = \"work\"", "plan.toml:1: machines: is missing"),
        ("machines = [\n", "plan.toml:1: unclosed array"),
        (
            "workload = \"work\"",
            "plan.toml:1: workload: there is no such key; the nearest is 'workloads'",
        ),
        (
            "workloads = [\"work\",\n \"wrok\"]\nmachines = \"m0\"",
            "plan.toml:2: workloads = wrok: there is no such workload",
        ),
        (
            "workloads = \"work\"\nmachines = [\"m0\", \"host\"]",
            "plan.toml:2: machines = host: there is no such machine",
        ),
        (
            "workloads = \"work\"\nmachines = [\"m1\", \"pair\"]",
            "plan.toml:2: machines = pair: a machine called m1 is in the list twice",
        ),
        ("workloads = []\nmachines = \"m0\"", "plan.toml:1: workloads = []: has no values"),
        ("workloads = 2020-01-01", "plan.toml:1: workloads = 2020-01-01: takes a text of one line"),
        ("runs = 3", "plan.toml:1: runs = 3: is a list of tables: write [[runs]] above each"),
        ("settings = 3", "plan.toml:1: settings = 3: is a section: write [settings]"),
    ] {
        let error = refused(text);
        assert!(error.starts_with(expected), "{text}: {error}");
    }
    for (text, expected) in [
        ("seeds = [1, -2]", "plan.toml:3: seeds = -2: a seed is a whole number"),
        ("seeds = [1, 1]", "plan.toml:3: seeds = 1: is in the list twice"),
        ("seeds = { from = 3, to = 1 }", "plan.toml:3: seeds = { from = 3, to = 1 }: a range is {"),
        ("seeds = { from = 0, to = 9, times = 2 }", "plan.toml:3: seeds = { from = 0, "),
        ("seeds = { from = 1, to = 9, step = 0 }", "plan.toml:3: seeds = { from = 1, "),
        (
            "seeds = { from = 1, until = 9 }",
            "plan.toml:3: seeds = { from = 1, until = 9 }: a range",
        ),
        (
            "seeds = { from = 0, to = 9000000 }",
            "plan.toml:3: seeds = { from = 0, to = 9000000 }: has more",
        ),
        ("[options]\nsize = \"big\"", "plan.toml:4: options.size = big: takes a number"),
        ("[options]\nsizes = 4", "plan.toml:4: options.sizes = 4: there is no such option"),
        ("[settings]\nb.x = 4", "plan.toml:4: settings.b.x = 4: there is no such setting"),
        (
            "[settings]\na.x = [1,\n  \"bad\"]",
            "plan.toml:5: settings.a.x = bad: there is no such value",
        ),
        ("[settings]\na.x = [[1]]", "plan.toml:4: settings.a.x = [1]: takes a text of one line"),
    ] {
        let error = refused(&format!("{head}{text}"));
        assert!(error.starts_with(expected), "{text}: {error}");
    }
    let axis = "{ from = 1, to = 1000000 }";
    let many =
        format!("{head}seeds = {axis}\n[settings]\na.x = {axis}\na.y = {axis}\na.z = {axis}");
    assert!(refused(&many).starts_with("plan.toml: has more than 100000000 runs"));
    let missing = Plan::open(Path::new("nowhere/plan.toml"), &Known).unwrap_err().to_string();
    assert!(missing.starts_with("nowhere/plan.toml: No such file"), "{missing}");
}

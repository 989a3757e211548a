//! Tests of the snapshot parser.

use super::*;

const GOOD: &str = "\
# zoneinfo
Node 0, zone      DMA
  per-node stats
      nr_free_pages 999999
      present  77
  pages free     3840
        boost    0
        min      21
        low      26
        high     31
        spanned  4095
        managed  3840
        protection: (0, 3019, 11723)
      nr_free_pages 3840
  pagesets
    cpu: 0
              count:    0
              high:     0
              batch:    1
              high_min: 13
  vm stats threshold: 4
  start_pfn:           1
Node 0, zone   Normal
  pages free     1000
        managed  4000
    cpu: 0
              count: 10
              high:  111
              batch: 63
    cpu: 1
              count: 20
  start_pfn:           1048576
# buddyinfo
Node 0, zone      DMA      0      0      3 \nNode 0, zone   Normal      4      0      2 \n\
# pagetypeinfo
Page block order: 9
Pages per block:  512

Free pages count per migrate type at order       0      1      2 \n\
Node    0, zone   Normal, type    Unmovable      1      0      2 \n\
Node    0, zone   Normal, type      Movable      3 >100000      0 

Number of blocks type     Unmovable      Movable
Node 0, zone      DMA            1            7
Node 0, zone   Normal          262         3740
# something new
whatever this is
# vmstat
nr_free_pages 1980772
nr_unstable 0
";

fn parse(text: &str) -> Result<Snapshot, TraceError> {
    Snapshot::parse("t.before", text.as_bytes())
}

#[test]
fn every_table_is_read_by_key() {
    let snapshot = parse(GOOD).unwrap();
    let normal = &snapshot.zones[1];
    assert_eq!(snapshot.zones[0].present, 0, "the node's statistics are not the zone's");
    assert_eq!((normal.name.as_str(), normal.start_pfn), ("Normal", Some(1_048_576)));
    let lists = CpuLists { cpu: 0, count: 10, high: 111, batch: 63, ..CpuLists::default() };
    assert_eq!(normal.cpus[0], lists);
    assert_eq!(snapshot.zones[0].cpus[0].high_min, Some(13));
    assert_eq!(snapshot.zones[0].cpus[0].threshold, Some(4));
    assert_eq!(snapshot.zones[0].protection, [0, 3019, 11_723]);
    let stat = |name: &str, value| Stat { name: name.into(), value };
    assert_eq!(snapshot.zones[0].stats, [stat("nr_free_pages", 3840)]);
    let node = [stat("nr_free_pages", 999_999), stat("present", 77)];
    assert_eq!(snapshot.zones[0].node_stats.as_deref(), Some(&node[..]));
    assert_eq!(normal.cpus[1].count, 20);
    assert_eq!((snapshot.managed(), snapshot.free()), (7840, 4840));
    assert_eq!((snapshot.held_by_cpus(), snapshot.in_use()), (30, 2970));
    assert_eq!(snapshot.free_blocks(), [4, 0, 5]);
    assert_eq!(snapshot.free_blocks_of("Movable"), [3, 100_000, 0]);
    assert!(normal.types[1].capped && !normal.types[0].capped);
    assert_eq!(snapshot.pageblocks_of("Movable"), 3747);
    assert_eq!(snapshot.pageblock_order, Some(9));
    assert_eq!(snapshot.vmstat["nr_free_pages"], 1_980_772);
}

#[test]
fn only_zoneinfo_is_needed() {
    let snapshot = parse(GOOD.split("# buddyinfo").next().unwrap()).unwrap();
    assert_eq!(snapshot.in_use(), 2970);
    assert!(snapshot.free_blocks().is_empty() && snapshot.vmstat.is_empty());
}

#[test]
fn bad_lines_are_named() {
    let cases = [
        ("managed  4000", "managed  many", "25: managed `many`"),
        ("managed  4000", "managed", "25: managed is missing"),
        ("managed  4000", "managed  99999999999999999999", "25: managed `99999999999999999999`"),
        ("managed  4000", "managed  900", "only 900 managed"),
        ("cpu: 1", "cpu: 4096", "30: CPU `4096`"),
        ("(0, 3019, 11723)", "(0, 3019", "13: protection `"),
        ("(0, 3019, 11723)", "(0, -1, 11723)", "13: protection `-1`"),
        ("nr_free_pages 3840", "nr_free_pages", "14: statistic is missing"),
        ("threshold: 4", "threshold:", "21: vm stats threshold is missing"),
        ("    cpu: 0\n              count: 10", "count: 10", "26: pagesets"),
        ("Node 0, zone   Normal\n", "Node 0, zone   DMA\n", "23: zone"),
        ("Node 0, zone   Normal      4", "Node 1, zone   Normal      4", "35: zone `Normal`"),
        ("      4      0      2 ", "      4      x      2 ", "35: count `x`"),
        ("      4      0      2 ", "", "35: counts is missing"),
        (
            "      4      0      2 ",
            " 4 0",
            "35: counts `Node 0, zone   Normal 4 0`: expected as many",
        ),
        ("      4      0      2 ", " 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15", "35: counts `"),
        ("          262         3740", "          262", "46: pageblocks `          262`"),
        ("order: 9", "order: 99", "37: Page block order `99`"),
        ("nr_unstable 0", "nr_unstable", "51: vmstat is missing"),
        ("nr_unstable 0", "nr_unstable 0 1", "51: vmstat"),
        ("# zoneinfo\n", "", "1: snapshot"),
        ("zone      DMA\n", "\n", "2: zone"),
    ];
    for (from, to, expected) in cases {
        assert!(GOOD.contains(from), "{from}");
        let error = parse(&GOOD.replacen(from, to, 1)).expect_err(to).to_string();
        assert!(error.contains(expected), "{to}: {error}");
    }
}

#[test]
fn shootdowns_are_summed_over_cpus() {
    let with =
        |row: &str| parse(&format!("{GOOD}# interrupts\n  CPU0 CPU1\n  0: 4 5 timer\n{row}\n"));
    assert_eq!(parse(GOOD).unwrap().tlb_shootdowns, None);
    assert_eq!(with("TLB:    40    2   TLB shootdowns").unwrap().tlb_shootdowns, Some(42));
    assert_eq!(with("RES: 1 2 Rescheduling").unwrap().tlb_shootdowns, None);
    let error = with("TLB:   many").unwrap_err().to_string();
    assert!(error.ends_with("55: TLB `many`: expected a number of interrupts per CPU"), "{error}");
}

#[test]
fn tables_in_files_of_their_own_make_the_same_snapshot() {
    let table = |name| (name, format!("dir/{name}"), section(GOOD, name).as_bytes().to_vec());
    let tables = ["zoneinfo", "buddyinfo", "pagetypeinfo", "vmstat"].map(table);
    assert_eq!(Snapshot::of_tables(&tables).unwrap(), parse(GOOD).unwrap());
    let mut bad = tables;
    bad[1].2 = b"\nNode 0, zone DMA 1 x 2\n".to_vec();
    let error = Snapshot::of_tables(&bad).unwrap_err().to_string();
    assert!(error.starts_with("dir/buddyinfo:2: count `x`"), "{error}");
    let error = Snapshot::of_tables(&bad[..0]).unwrap_err().to_string();
    assert!(error.contains("no zone with memory"), "{error}");
}

#[test]
fn a_table_of_mixed_blocks_is_left_out() {
    let mixed = "Number of mixed blocks    Unmovable      Movable\n\
                 Node 0, zone   Normal            5            6\n# something new\n";
    let snapshot = parse(&GOOD.replacen("# something new\n", mixed, 1)).unwrap();
    assert_eq!(snapshot, parse(GOOD).unwrap());
}

#[test]
fn missing_tables_are_named() {
    let gaps = |text: &str| -> Vec<String> {
        parse(text).unwrap().gaps().iter().map(ToString::to_string).collect()
    };
    let good = gaps(GOOD);
    assert_eq!(good.len(), 1, "{good:?}");
    assert!(good[0].contains("pagetypeinfo") && good[0].contains("zone DMA "), "{good:?}");
    for section in ["buddyinfo", "pagetypeinfo", "vmstat"] {
        let cut = gaps(GOOD.split(&format!("# {section}")).next().unwrap());
        let named = format!("section `# {section}` is missing");
        assert!(cut.iter().any(|gap| gap.starts_with(&named)), "{cut:?}");
        assert!(cut.iter().all(|gap| !gap.contains("zoneinfo")), "{cut:?}");
    }
    for (cut, expected) in [
        (
            "  start_pfn:           1048576\n",
            "zoneinfo`: first frame (start_pfn) of node 0, zone N",
        ),
        (
            "Node 0, zone   Normal      4      0      2 \n",
            "buddyinfo`: free blocks of node 0, zone N",
        ),
        (
            "Node 0, zone   Normal          262         3740\n",
            "pagetypeinfo`: pageblocks of node 0",
        ),
    ] {
        assert!(GOOD.contains(cut), "{cut}");
        let gaps = gaps(&GOOD.replacen(cut, "", 1));
        assert!(gaps.iter().any(|gap| gap.contains(expected)), "{cut}: {gaps:?}");
    }
}

/// The section after `# NAME` in a file of tables.
fn section<'t>(text: &'t str, name: &str) -> &'t str {
    let start = text.find(&format!("# {name}\n")).unwrap() + name.len() + 3;
    text[start..].split("# ").next().unwrap()
}

#[test]
fn recorded_tables_are_written_as_the_kernel_wrote_them() {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../recordings"));
    // Further tables can be named, of machines that are not shipped.
    let more = std::env::var_os("FRAMEWRIGHT_SNAPSHOTS");
    let more: Vec<PathBuf> = more.iter().flat_map(std::env::split_paths).collect();
    for path in [&[folder.join("sockets.before")], &more[..]].concat() {
        let file = path.display();
        let text = std::fs::read_to_string(&path).unwrap();
        let snapshot = Snapshot::open(&path).unwrap();
        assert_eq!(snapshot.gaps(), [], "{file}");
        let mut written = String::new();
        snapshot.write_zoneinfo(&mut written).unwrap();
        assert_eq!(written, section(&text, "zoneinfo"), "{file}");
        written.clear();
        snapshot.write_buddyinfo(&mut written).unwrap();
        assert_eq!(written, section(&text, "buddyinfo"), "{file}");
        written.clear();
        snapshot.write_pagetypeinfo(&mut written).unwrap();
        assert_eq!(written, section(&text, "pagetypeinfo"), "{file}");
    }
}

#[test]
fn every_node_has_its_own_headings() {
    let text = "\
# zoneinfo
Node 0, zone   Normal
pages free 1
managed 8
Node 1, zone   Normal
pages free 0
managed 9
# pagetypeinfo
";
    let node = |node: u16, blocks: u16| {
        format!(
            "Page block order: 9
Pages per block:  512

Free pages count per migrate type at order       0      1 \n\
Node    {node}, zone   Normal, type    Unmovable      1 >100000 \n\
Node    {node}, zone   Normal, type          CMA      7      0 \n
Number of blocks type     Unmovable          CMA \n\
Node {node}, zone   Normal            {blocks}            0 \n"
        )
    };
    let tables = format!("{}{}", node(0, 1), node(1, 2));
    let mut written = String::new();
    parse(&format!("{text}{tables}")).unwrap().write_pagetypeinfo(&mut written).unwrap();
    assert_eq!(written, tables);
}

#[test]
fn the_indices_come_from_buddyinfo() {
    let snapshot = parse(GOOD).unwrap();
    let mut written = String::new();
    snapshot.write_extfrag_index(&mut written).unwrap();
    snapshot.write_unusable_index(&mut written).unwrap();
    let expected = "Node 0, zone      DMA -1.000 -1.000 -1.000 \n\
                    Node 0, zone   Normal -1.000 -1.000 -1.000 \n\
                    Node 0, zone      DMA 0.000 0.000 0.000 \n\
                    Node 0, zone   Normal 0.000 0.333 0.333 \n";
    assert_eq!(written, expected);
}

#[test]
fn a_file_that_is_no_snapshot_is_refused() {
    for (text, expected) in
        [("", "no zone with memory"), ("# zoneinfo\n", "no zone"), ("\0\0", "binary")]
    {
        let error = parse(text).expect_err(text).to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn snapshots_are_found_beside_recordings() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name| folder.path().join(name);
    let found = |name, which| beside(&path(name), which).map_err(|error| error.to_string());
    std::fs::write(path("a.before"), GOOD).unwrap();
    for name in ["a.txt.zst", "a.txt", "a.zst", "a"] {
        assert_eq!(found(name, "before"), Ok(Some(path("a.before"))), "{name}");
    }
    assert_eq!(found("a.txt", "after"), Ok(None));
    assert_eq!(found("b.txt.zst", "before"), Ok(None));
    assert_eq!(found("a.log", "before"), Ok(None));
    for target in ["/dev/zero", "nowhere"] {
        std::os::unix::fs::symlink(target, path("a.after")).unwrap();
        let error = found("a.txt.zst", "after").unwrap_err();
        assert!(error.contains("a.after: ") && error.contains("no regular file"), "{error}");
        std::fs::remove_file(path("a.after")).unwrap();
    }
}

#[test]
fn a_file_that_is_too_large_for_a_snapshot_is_refused() {
    let file = tempfile::NamedTempFile::new().unwrap();
    file.as_file().set_len((64 << 20) + 1).unwrap();
    let error = Snapshot::open(file.path()).unwrap_err().to_string();
    assert!(error.contains("more than 64 MiB"), "{error}");
}

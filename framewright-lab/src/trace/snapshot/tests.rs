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
    assert_eq!((normal.name.as_str(), normal.start_pfn), ("Normal", 1_048_576));
    assert_eq!(normal.cpus[0], CpuLists { cpu: 0, count: 10, high: 111, batch: 63 });
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
        ("    cpu: 0\n              count: 10", "count: 10", "26: pagesets"),
        ("Node 0, zone   Normal\n", "Node 0, zone   DMA\n", "23: zone"),
        ("Node 0, zone   Normal      4", "Node 1, zone   Normal      4", "35: zone `Normal`"),
        ("      4      0      2 ", "      4      x      2 ", "35: count `x`"),
        ("      4      0      2 ", "", "35: counts is missing"),
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
fn what_is_no_snapshot_is_refused() {
    for (text, expected) in
        [("", "no zone with memory"), ("# zoneinfo\n", "no zone"), ("\0\0", "binary")]
    {
        let error = parse(text).expect_err(text).to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn snapshots_are_found_beside_recordings() {
    let folder = std::env::temp_dir().join(format!("framewright-beside-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("a.before"), GOOD).unwrap();
    for name in ["a.txt.zst", "a.txt", "a.zst", "a"] {
        assert_eq!(beside(&folder.join(name)), Some(folder.join("a.before")), "{name}");
    }
    assert_eq!(beside(&folder.join("b.txt.zst")), None);
    assert_eq!(beside(&folder.join("a.log")), None);
    std::fs::remove_dir_all(&folder).unwrap();
}

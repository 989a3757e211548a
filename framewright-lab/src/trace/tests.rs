//! Tests of whole recordings.

use proptest::prelude::*;

use super::*;
use std::path::Path;

const HEADER: &str = "# tracer: nop\n#\n# entries-in-buffer/entries-written: 3/3   #P:2\n#\n";
const EVENTS: &str = "\
    bash-15296   [000] .....  5401.000001: mm_page_alloc: page=1 pfn=0x40 order=1 migratetype=0 gfp_flags=GFP_KERNEL
    bash-15296   [001] d..2.  5401.000002: tlb_flush: pages:1 reason:local MM shootdown (3)
    bash-15296   [001] .....  5401.000003: mm_page_free: page=1 pfn=0x40 order=1
";

type Outcome = (Vec<Record>, Vec<Warning>);

fn read(bytes: impl Into<Vec<u8>>) -> Result<Outcome, TraceError> {
    let mut reader = TraceReader::from_bytes("t.txt", bytes.into())?;
    let mut records = Vec::new();
    while let Some(record) = reader.next_record()? {
        records.push(record);
    }
    Ok((records, reader.warnings()))
}

fn events(bytes: impl Into<Vec<u8>>) -> Vec<Event> {
    read(bytes).unwrap().0.into_iter().map(|record| record.event).collect()
}

const EXPECTED: [Event; 3] = [
    Event::Alloc { pfn: 0x40, order: 1, migratetype: 0, gfp: GfpFlags::DIRECT_RECLAIM },
    Event::Other,
    Event::Free { pfn: 0x40, order: 1 },
];

#[test]
fn a_complete_recording_has_no_warnings() {
    let mut reader =
        TraceReader::from_bytes("t.txt", format!("{HEADER}{EVENTS}").into_bytes()).unwrap();
    let first = reader.next_record().unwrap().unwrap();
    assert_eq!(first, Record { line: 5, cpu: 0, nanos: 5_401_000_001_000, event: EXPECTED[0] });
    assert_eq!(reader.header().cpus, Some(2));
    while reader.next_record().unwrap().is_some() {}
    assert_eq!(reader.warnings(), []);
    assert_eq!(reader.events(), 3);
    assert_eq!(reader.other_events().collect::<Vec<_>>(), [("tlb_flush", 1)]);
    assert_eq!(reader.fraction(), Some(1.0));
}

#[test]
fn zstd_and_perf_give_the_same_events() {
    let ftrace = format!("{HEADER}{EVENTS}");
    assert_eq!(events(ftrace.clone()), EXPECTED);
    assert_eq!(events(zstd::compress(ftrace.as_bytes())), EXPECTED);
    let perf = "\
bash 15296 [000]  5401.000001: kmem:mm_page_alloc: page=0x40 pfn=64 order=1 migratetype=0 gfp_flags=GFP_KERNEL
Web Content 12/15 [001]  5401.000002: tlb:tlb_flush: pages:1 reason:local mm shootdown (3)
\tffffffff81234567 flush_tlb_mm_range ([kernel.kallsyms])

bash 15296 [001]  5401.000003: kmem:mm_page_free: page=0x40 pfn=0x40 order=1
";
    assert_eq!(events(perf), EXPECTED);
}

#[test]
fn missing_parts_are_warnings() {
    let announced = |n: u64| HEADER.replace("3/3", &format!("{n}/{n}"));
    let cases = [
        (
            format!("{}{EVENTS}", announced(7)),
            3,
            vec![Warning::Shortened { announced: 7, found: 3 }],
        ),
        (
            format!("{}{EVENTS}", HEADER.replace("3/3", "3/10")),
            3,
            vec![Warning::Overrun { written: 10, kept: 3 }],
        ),
        (
            format!("{EVENTS}    bash-15296   [001] .....  5401.0000"),
            3,
            vec![Warning::CutLine { line: 4, used: false }],
        ),
        (
            format!("{EVENTS}    bash-1 [001] ..... 5401.000009: mm_page_free: page=1 pf"),
            3,
            vec![Warning::CutLine { line: 4, used: false }],
        ),
        (
            format!("{EVENTS}CPU:1 [LOST 123 EVENTS]\nCPU:0 [LOST EVENTS]\n{EVENTS}"),
            6,
            vec![
                Warning::Lost { events: 124, notes: 2, line: 4 },
                Warning::OutOfOrder { lines: 1, line: 6 },
            ],
        ),
        (
            format!("{EVENTS}x 1 [001] 5401.000004: PERF_RECORD_LOST lost 9\n"),
            3,
            vec![Warning::Lost { events: 9, notes: 1, line: 4 }],
        ),
        (EVENTS.trim_end().to_owned(), 3, vec![Warning::CutLine { line: 3, used: true }]),
    ];
    for (text, count, expected) in cases {
        let (records, warnings) = read(text.clone()).expect(&text);
        assert_eq!((records.len(), warnings), (count, expected), "{text}");
    }
}

#[test]
fn warnings_count_one_thing_in_the_singular() {
    for (warning, words) in [
        (Warning::Shortened { announced: 1, found: 0 }, "announces 1 event,"),
        (Warning::Lost { events: 1, notes: 1, line: 4 }, "lost 1 event in 1 place, first"),
        (
            Warning::OutOfOrder { lines: 1, line: 6 },
            "1 line with an earlier time than the line before, first",
        ),
    ] {
        assert!(warning.to_string().contains(words), "{warning}");
    }
}

#[test]
fn a_cut_zstd_stream_is_used_up_to_the_cut() {
    let mut state = 1u64;
    let text: String = (0..50_000)
        .map(|n| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1);
            format!("b-1 [000] ..... 1.{n:06}: mm_page_free: page={state:x} pfn={n} order=0\n")
        })
        .collect();
    let packed = zstd::compress(text.as_bytes());
    let (records, warnings) = read(&packed[..packed.len() / 2]).unwrap();
    assert!(records.len() > 1_000 && records.len() < 49_000, "{}", records.len());
    assert_eq!(warnings[0], Warning::CutStream);
}

#[test]
fn errors_name_file_line_value_and_reason() {
    let line = |body: &str| format!("{EVENTS}b-1 [000] ..... 5401.000009: {body}\n{EVENTS}");
    let cases = [
        (line("mm_page_free: page=1 pfn=0x1 order=99"), "t.txt:4: order `99`: expected an order"),
        (
            line("mm_page_free: page=1 pfn=0x123456789abcdef01 order=0"),
            "t.txt:4: pfn `0x123456789abcdef01`",
        ),
        (line("mm_page_free: page=1 pfn=0x1"), "t.txt:4: order is missing"),
        (
            format!("{EVENTS}b-1 [9999] ..... 1.000009: mm_page_free: pfn=1 order=0\n"),
            "t.txt:4: CPU `9999`: expected a number below 4096",
        ),
        (
            format!("{EVENTS}b-1 [000] ..... never: mm_page_free: pfn=1 order=0\n"),
            "t.txt:4: timestamp `never:`",
        ),
        (format!("{EVENTS}garbage in between\n{EVENTS}"), "t.txt:4: line `garbage in between`"),
        // A cut is accepted only at the end of the file.
        (format!("{EVENTS}b-1 [000] ...\n{EVENTS}"), "t.txt:4: timestamp"),
        ("# entries-in-buffer/entries-written: lots   #P:2\n".into(), "t.txt:1: header `lots"),
        (HEADER.replace("3/3", "99999999999999999999999/3"), "t.txt:3: entries-in-buffer `9999"),
        (HEADER.into(), "t.txt: has no events"),
        ("b-1 [000] .....  5401.0000".into(), "t.txt:1: timestamp"),
        (String::new(), "t.txt: the file is empty"),
        ("A README, perhaps.\n".into(), "t.txt:1: line `A README, perhaps.`"),
    ];
    for (text, expected) in cases {
        let error = read(text.clone()).expect_err(&text).to_string();
        assert!(error.contains(expected), "{error}");
    }
}

/// Changes valid text, so that the parser is tested more deeply than by random bytes.
fn damaged() -> impl Strategy<Value = Vec<u8>> {
    let edits = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..3u8), 0..12);
    edits.prop_map(|edits| {
        let mut bytes = format!("{HEADER}{EVENTS}").into_bytes();
        for (at, byte, edit) in edits {
            let at = at.index(bytes.len());
            match edit {
                0 => bytes[at] = byte,
                1 => bytes.insert(at, byte),
                _ => bytes.truncate(at.max(1)),
            }
        }
        bytes
    })
}

#[test]
fn the_seeds_of_the_fuzzer_are_read_without_a_panic() {
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/seeds/recordings");
    let mut events = 0;
    for entry in seeds.read_dir().expect("the seeds are in the repository") {
        events += fuzz::read_everything(&std::fs::read(entry.unwrap().path()).unwrap());
    }
    assert!(events > 0);
}

/// The text of `/proc` files that `record` stores with a recording (`zoneinfo` etc.), shortened, with
/// some bytes changed.
fn damaged_tables() -> impl Strategy<Value = Vec<u8>> {
    let good = include_bytes!("../../../fuzz/seeds/recordings/snapshot.before");
    let edits = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6);
    (edits, any::<prop::sample::Index>(), any::<bool>()).prop_map(|(edits, end, cut)| {
        let mut bytes = good.to_vec();
        for (at, byte) in edits {
            // Mostly bytes with a meaning.
            let at = at.index(bytes.len());
            bytes[at] = *b" \t\n0159,:#>-_xN".get(usize::from(byte) % 16).unwrap_or(&byte);
        }
        if cut {
            bytes.truncate(end.index(bytes.len()));
        }
        bytes
    })
}

proptest! {
    #[test]
    fn damaged_tables_never_panic(bytes in damaged_tables()) {
        fuzz::read_everything(&bytes);
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..2048)) {
        fuzz::read_everything(&bytes);
    }

    #[test]
    fn damaged_recordings_never_panic(bytes in damaged()) {
        fuzz::read_everything(&bytes);
        fuzz::read_everything(&zstd::compress(&bytes));
    }

    #[test]
    fn damaged_compression_never_panics(
        at in any::<prop::sample::Index>(), byte in any::<u8>(), keep in any::<prop::sample::Index>()
    ) {
        let mut packed = zstd::compress(format!("{HEADER}{EVENTS}").as_bytes());
        let index = at.index(packed.len());
        packed[index] = byte;
        fuzz::read_everything(&packed[..keep.index(packed.len())]);
    }
}

/// Names are stored, so both their length and their number are limited.
#[test]
fn names_of_events_are_limited_in_length_and_number() {
    let line = |name: &str| format!("bash-1 [000] ..... 1.0: {name}: x\n");
    let named =
        |count: usize| -> String { (0..count).map(|n| line(&format!("event{n}"))).collect() };
    assert_eq!(read(named(1 << 16)).unwrap().0.len(), 1 << 16);
    let error = read(named((1 << 16) + 1)).unwrap_err().to_string();
    assert!(error.contains("t.txt:65537: event name `event65536`"), "{error}");
    assert!(error.contains("at most 65536 different names"), "{error}");
    assert_eq!(read(line(&"n".repeat(256))).unwrap().0.len(), 1);
    let error = read(line(&"n".repeat(257))).unwrap_err().to_string();
    assert!(error.contains("up to 256 bytes"), "{error}");
}

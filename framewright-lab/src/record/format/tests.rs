use super::*;

/// Formats of Linux 6.18, as it prints them, with a shorter list of flags.
pub(in crate::record) const PAGE_ALLOC: &str = r#"name: mm_page_alloc
ID: 653
format:
	field:unsigned short common_type;	offset:0;	size:2;	signed:0;
	field:unsigned char common_flags;	offset:2;	size:1;	signed:0;
	field:unsigned char common_preempt_count;	offset:3;	size:1;	signed:0;
	field:int common_pid;	offset:4;	size:4;	signed:1;

	field:unsigned long pfn;	offset:8;	size:8;	signed:0;
	field:unsigned int order;	offset:16;	size:4;	signed:0;
	field:unsigned long gfp_flags;	offset:24;	size:8;	signed:0;
	field:int migratetype;	offset:32;	size:4;	signed:1;

print fmt: "page=%p pfn=0x%lx order=%d migratetype=%d gfp_flags=%s", REC->pfn != -1UL ? (((struct page *)vmemmap_base) + (REC->pfn)) : ((void *)0), REC->pfn != -1UL ? REC->pfn : 0, REC->order, REC->migratetype, (REC->gfp_flags) ? __print_flags(REC->gfp_flags, "|", {( unsigned long)(((( gfp_t)(((((1UL))) << (10))|((((1UL))) << (11)))) | (( gfp_t)((((1UL))) << (6))) | (( gfp_t)((((1UL))) << (7)))) & ~(( gfp_t)(0x40))), "GFP_ODD"}, {( unsigned long)(( gfp_t)(((((1UL))) << (10))|((((1UL))) << (11)))), "__GFP_RECLAIM"}, {( unsigned long)(( gfp_t)((((1UL))) << (8))), "__GFP_ZERO"}, { 0, ((void *)0) } ) : "none"
"#;

pub(in crate::record) const COMPACTION: &str = r#"name: mm_compaction_deferred
ID: 665
format:
	field:unsigned short common_type;	offset:0;	size:2;	signed:0;
	field:int nid;	offset:8;	size:4;	signed:1;
	field:enum zone_type idx;	offset:12;	size:4;	signed:0;
	field:unsigned int defer_shift;	offset:24;	size:4;	signed:0;
	field:bool sync;	offset:28;	size:1;	signed:0;

print fmt: "node=%d zone=%-8s limit=%lu mode=%s 100%%", REC->nid, __print_symbolic(REC->idx, {0, "DMA"}, {1, "DMA32"}, { 2, "Normal" }), 1UL << REC->defer_shift, REC->sync ? "sync" : "async"
"#;

/// The bytes of an event: numbers at offsets.
pub(in crate::record) fn event(fields: &[(usize, &[u8])]) -> Vec<u8> {
    let mut event = vec![0; 40];
    for (at, bytes) in fields {
        event[*at..at + bytes.len()].copy_from_slice(bytes);
    }
    event
}

pub(in crate::record) fn alloc(pid: i32, pfn: u64, order: u32, gfp: u64) -> Vec<u8> {
    event(&[
        (0, &653u16.to_ne_bytes()),
        (4, &pid.to_ne_bytes()),
        (8, &pfn.to_ne_bytes()),
        (16, &order.to_ne_bytes()),
        (24, &gfp.to_ne_bytes()),
        (32, &1i32.to_ne_bytes()),
    ])
}

fn text(format: &Format, event: &[u8]) -> String {
    let mut out = Vec::new();
    format.print(event, &mut out);
    String::from_utf8(out).unwrap()
}

#[test]
fn an_allocation_is_printed_as_the_kernel_does() {
    let format = Format::parse(PAGE_ALLOC).unwrap();
    assert_eq!((format.id, format.name.as_str()), (653, "mm_page_alloc"));
    assert!(format.print.is_some());
    assert_eq!(
        text(&format, &alloc(7, 0x12_e0f3, 2, 0xc80 | 0x100 | 1 << 30)),
        "page=(____ptrval____) pfn=0x12e0f3 order=2 migratetype=1 \
         gfp_flags=GFP_ODD|__GFP_ZERO|0x40000000"
    );
    assert_eq!(
        text(&format, &alloc(7, 0x1000, 0, 0xc00)),
        "page=(____ptrval____) pfn=0x1000 order=0 migratetype=1 gfp_flags=__GFP_RECLAIM"
    );
    assert_eq!(
        text(&format, &alloc(7, u64::MAX, 9, 0)),
        "page=0000000000000000 pfn=0x0 order=9 migratetype=1 gfp_flags=none"
    );
}

#[test]
fn names_conditions_shifts_and_widths() {
    let format = Format::parse(COMPACTION).unwrap();
    let mut bytes =
        event(&[(8, &(-1i32).to_ne_bytes()), (12, &2u32.to_ne_bytes()), (24, &6u32.to_ne_bytes())]);
    assert_eq!(text(&format, &bytes), "node=-1 zone=Normal   limit=64 mode=async 100%");
    bytes[12..16].copy_from_slice(&9u32.to_ne_bytes());
    bytes[28] = 1;
    assert_eq!(text(&format, &bytes), "node=-1 zone=0x9      limit=64 mode=sync 100%");
}

#[test]
fn unsupported_formats_are_listed_by_field() {
    for print in [
        r#""%s", __get_str(name)"#,
        r#""%d""#,
        r#""%d", REC->nowhere"#,
        r#""%d %d", REC->pfn"#,
        r#""%d", REC->pfn, REC->order"#,
        r#""%q", REC->pfn"#,
        r#""%99999999d", REC->pfn"#,
        r#""%d", ({ int x; x; })"#,
        "",
    ] {
        let head = PAGE_ALLOC.split("print fmt:").next().unwrap();
        let format = Format::parse(&format!("{head}print fmt: {print}\n")).unwrap();
        assert!(format.print.is_none(), "{print}");
        assert_eq!(
            text(&format, &alloc(7, 16, 2, 0xc0)),
            "pfn=16 order=2 gfp_flags=192 migratetype=1"
        );
    }
    for deep in [
        format!("{}1{}", "(".repeat(9999), ")".repeat(9999)),
        format!("{}1", "-".repeat(99_999)),
        format!("{}1", "(int)".repeat(99_999)),
    ] {
        let text = format!("name: x\nID: 1\nprint fmt: \"%d\", {deep}\n");
        assert!(Format::parse(&text).unwrap().print.is_none());
    }
    assert!(Format::parse("name: x\n").is_none());
}

#[test]
fn events_that_are_too_short_do_no_harm() {
    let format = Format::parse(PAGE_ALLOC).unwrap();
    assert!(text(&format, &[]).contains("pfn=0x0"));
    assert!(text(&format, &alloc(7, 16, 2, 0)[..18]).contains("pfn=0x10 order=0"));
}

#[test]
fn division_by_zero_and_wide_shifts_have_no_value() {
    let format = Format::parse(&format!(
        "{}print fmt: \"%d %d\", 8 / REC->order, 1 << REC->pfn\n",
        PAGE_ALLOC.split("print fmt:").next().unwrap()
    ))
    .unwrap();
    assert_eq!(text(&format, &alloc(7, 99, 0, 0)), "(____ptrval____) (____ptrval____)");
    assert_eq!(text(&format, &alloc(7, 3, 2, 0)), "4 8");
}

const CONTENTION: &str = r#"name: contention_begin
ID: 408
format:
	field:unsigned short common_type;	offset:0;	size:2;	signed:0;
	field:int common_pid;	offset:4;	size:4;	signed:1;

	field:void * lock_addr;	offset:8;	size:8;	signed:0;
	field:unsigned int flags;	offset:16;	size:4;	signed:0;

print fmt: "%p (flags=%s)", REC->lock_addr, __print_flags(REC->flags, "|", { (1U << 0), "SPIN" }, { (1U << 1), "READ" }, { (1U << 2), "WRITE" }, { (1U << 3), "RT" }, { (1U << 4), "PERCPU" }, { (1U << 5), "MUTEX" } )
"#;

/// A recording must tell locks apart, and not where the kernel is in memory.
#[test]
fn the_addresses_of_locks_are_hashed() {
    let format = Format::parse(CONTENTION).unwrap();
    assert!(format.is_understood());
    let of = |address: u64| {
        let flags = 1_u32.to_ne_bytes();
        text(&format, &event(&[(8, &address.to_ne_bytes()), (16, &flags)]))
    };
    let (one, other) = (of(0xffff_8881_0000_1000), of(0xffff_8881_0000_2000));
    assert!(one.ends_with(" (flags=SPIN)") && one.len() == other.len(), "{one}");
    assert_ne!(one, other);
    assert_eq!(one, of(0xffff_8881_0000_1000));
    assert!(!one.contains("ffff8881"), "{one}");
}

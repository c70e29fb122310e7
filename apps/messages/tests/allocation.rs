//! What decoding and encoding allocate. The counter is per thread, so tests may run together.
#![allow(unsafe_code, clippy::unwrap_used)]

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
};

use lidar_messages::{Datatype, Header, Packets, PointCloud2, PointField, Time, VelodyneScan};

thread_local! {
    /// Allocations of this thread and the bytes of the largest.
    static COUNT: Cell<(usize, usize)> = const { Cell::new((0, 0)) };
}

struct Counting;

// SAFETY: every call is passed on to the system allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.set({
            let (count, largest) = COUNT.get();
            (count + 1, largest.max(layout.size()))
        });
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn allocations<T>(work: impl FnOnce() -> T) -> (T, usize, usize) {
    COUNT.set((0, 0));
    let value = work();
    let (count, largest) = COUNT.get();
    (value, count, largest)
}

fn scan() -> VelodyneScan {
    let mut packets = Packets::builder(151);
    for _ in 0..151 {
        packets.push(Time::default(), &[0; 1206]);
    }
    VelodyneScan {
        header: Header {
            frame_id: "velodyne".into(),
            ..Header::default()
        },
        packets: packets.build(),
    }
}

#[test]
fn scan_encodes_with_one_allocation() {
    let scan = scan();
    let (wire, count, largest) = allocations(|| scan.encode());
    assert_eq!((count, largest), (1, wire.len()));
}

#[test]
fn scan_decodes_without_copying() {
    let wire = scan().encode();
    let (scan, _, largest) = allocations(|| VelodyneScan::decode(wire).unwrap());
    assert_eq!(scan.packets.len(), 151);
    // The first split of an unshared buffer creates its reference count, nothing more.
    assert!(largest < 100, "{largest} B");
}

#[test]
fn foreign_lengths_allocate_nothing() {
    let mut wire = scan().encode().to_vec();
    wire[24..28].fill(0xff);
    let wire = bytes::Bytes::from(wire);
    let (_, _, largest) = allocations(|| VelodyneScan::decode(wire).unwrap_err());
    assert!(largest < 100, "{largest} B");

    let mut wire = PointCloud2::default().encode().to_vec();
    wire[24..28].copy_from_slice(&1_000_000u32.to_le_bytes());
    let wire = bytes::Bytes::from(wire);
    let (_, _, largest) = allocations(|| PointCloud2::decode(wire).unwrap_err());
    assert!(largest < 100, "{largest} B");
}

#[test]
fn reading_points_allocates_nothing() {
    let float = |name: &'static str, offset| PointField {
        name: name.into(),
        offset,
        datatype: Datatype::Float32,
        count: 1,
    };
    let cloud = PointCloud2 {
        height: 1,
        width: 10_000,
        fields: vec![float("x", 0), float("y", 4), float("z", 8)],
        point_step: 12,
        row_step: 120_000,
        data: vec![0; 120_000].into(),
        ..PointCloud2::default()
    };
    let (points, count, _) = allocations(|| cloud.points().unwrap().count());
    assert_eq!((points, count), (10_000, 0));
}

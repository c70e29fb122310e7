//! What converting allocates. The counter is per thread, so tests may run together.
#![allow(unsafe_code, clippy::unwrap_used)]

mod capture_file;

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
};

use capture_file::{CaptureFile, STEP_600_RPM};
use lidar_messages::{Header, Packets, Time, VelodyneScan};
use lidar_sensor::{
    Capture, CaptureError, Content, Convention, Converter, Layout as CloudLayout, Model,
    PacketView, ReturnMode, TurnAssembler,
};

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

/// A turn in which every slot has a return.
fn scan(packets: usize) -> VelodyneScan {
    scan_of(Model::Vlp32c, packets)
}

fn scan_of(model: Model, packets: usize) -> VelodyneScan {
    let mut builder = Packets::builder(packets);
    for data in capture_file::packets_of(model, ReturnMode::Strongest, 19.87, packets) {
        builder.push(Time::default(), &data);
    }
    VelodyneScan {
        header: Header::default(),
        packets: builder.build(),
    }
}

#[test]
fn allocations_do_not_grow_with_the_points() {
    for layout in [CloudLayout::Returns, CloudLayout::Organised] {
        for model in Model::ALL {
            let count = |packets| {
                let scan = scan_of(model, packets);
                let mut converter = Converter::new(Convention::Precise).with_layout(layout);
                allocations(|| converter.convert(&scan).unwrap()).1
            };
            assert_eq!(count(1), count(151), "{model}");
            assert!(count(151) <= 3, "{model}: {} allocations", count(151));
        }
    }
}

#[test]
fn memory_of_a_dropped_cloud_is_used_again() {
    let scan = scan(151);
    let mut converter = Converter::new(Convention::RosCompat);
    drop(converter.convert(&scan).unwrap());
    for _ in 0..3 {
        let (cloud, _, largest) = allocations(|| converter.convert(&scan).unwrap());
        assert_eq!(cloud.width, 57_984);
        // The list of fields, nothing of the size of the points.
        assert!(largest < 1_000, "{largest} B");
    }
}

#[test]
fn a_cloud_that_is_kept_is_not_overwritten() {
    let mut converter = Converter::new(Convention::RosCompat);
    let kept = converter.convert(&scan(3)).unwrap();
    let copy = kept.data.to_vec();
    let other = converter.convert(&scan(2)).unwrap();
    assert_eq!(kept.data, copy);
    assert_ne!(kept.data.len(), other.data.len());
}

#[test]
fn points_fill_a_vector_that_is_large_enough_without_allocation() {
    let scan = scan(151);
    let converter = Converter::new(Convention::Precise);
    let mut points = Vec::with_capacity(57_984);
    let (_, count, _) = allocations(|| converter.points(&scan, &mut points).unwrap());
    assert_eq!((points.len(), count), (57_984, 0));
}

/// From a file to a turn: what is allocated is for the turn, not for the packets.
#[test]
fn packets_on_their_way_into_a_turn_allocate_nothing() {
    let mut file = CaptureFile::new();
    for data in capture_file::packets(ReturnMode::Strongest, STEP_600_RPM, 140) {
        file.data(&data);
    }
    let mut capture = Capture::new(&file.bytes[..]).unwrap();
    let mut turns = TurnAssembler::new(0);
    let mut step = || {
        let Ok(Some(frame)) = capture.next_frame() else {
            panic!("as many frames as were written")
        };
        let Content::Udp { payload, .. } = frame.content else {
            panic!("{:?}", frame.content)
        };
        let data: &[u8; 1206] = payload.try_into().unwrap();
        let view = PacketView::new(data).unwrap();
        turns.push(frame.stamp, data, &view)
    };
    // The first ones fill the buffers.
    for _ in 0..60 {
        step();
    }
    let ((), count, _) = allocations(|| {
        for _ in 0..60 {
            assert_eq!(step(), None);
        }
    });
    assert_eq!(count, 0);
}

#[test]
fn a_frame_of_a_foreign_length_allocates_what_is_there() {
    let mut file = CaptureFile::new();
    file.data(&[0; 1206]);
    file.bytes[24 + 8..24 + 12].copy_from_slice(&262_144u32.to_le_bytes());
    let mut capture = Capture::new(&file.bytes[..]).unwrap();
    let (error, _, largest) = allocations(|| capture.next_frame().unwrap_err());
    assert!(matches!(error, CaptureError::Truncated { .. }));
    assert!(largest < 8_192, "{largest} B");
}

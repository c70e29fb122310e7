//! What in-band metadata costs per message.

use std::hint::black_box;

use bytes::BytesMut;
use criterion::{Criterion, criterion_group, criterion_main};
use transport_api::envelope::{Decoder, Encoder, MAX_BLOCK};
use transport_api::{MessageId, Metadata, SchemaId, Stamp};

fn envelope(criterion: &mut Criterion) {
    let mut meta = Metadata {
        id: Some(MessageId { source: 1, seq: 2 }),
        correlation: Some(MessageId { source: 3, seq: 4 }),
        schema: Some(SchemaId::new("sensor_msgs/PointCloud2", [7; 16])),
        ..Metadata::default()
    };
    for _ in 0..6 {
        meta.stamps.push(Stamp::default());
    }
    let mut group = criterion.benchmark_group("envelope");
    let mut out = BytesMut::with_capacity(MAX_BLOCK);
    group.bench_function("encode", |bencher| {
        bencher.iter(|| {
            out.clear();
            Encoder::new(black_box(&meta)).prefix(&mut out);
            black_box(out.len())
        });
    });
    out.clear();
    Encoder::new(&meta).prefix(&mut out);
    let mut decoder = Decoder::default();
    group.bench_function("decode", |bencher| {
        bencher.iter(|| decoder.whole(black_box(&out)).expect("valid"));
    });
    group.finish();
}

criterion_group!(benches, envelope);
criterion_main!(benches);

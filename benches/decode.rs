//! Benchmark of decoding a line of a watch. The target is below 15 µs for a pod of 4 kB, so that
//! 10,000 pods that all change at once cost 150 ms of one core.
#![allow(missing_docs, reason = "criterion's macros define what needs none")]

use std::hint::black_box;
use std::sync::Arc;

use boatswain::kubernetes::calls::read_pod_line;
use boatswain::kubernetes::{LabelScheme, PodReader};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};

fn decode(c: &mut Criterion) {
    let pod = include_str!("fixtures/pod.json").trim_end();
    let line = format!(r#"{{"type":"MODIFIED","object":{pod}}}"#);
    let reader = PodReader {
        app_id: "etl-7f3a".into(),
        prefix: Arc::from("etl"),
        record: Arc::from("etl-app"),
        labels: LabelScheme::Boatswain,
        container: Arc::from("executor"),
        check_all_containers: false,
        of_sets: false,
    };
    let mut group = c.benchmark_group("decode");
    group.throughput(Throughput::Bytes(line.len() as u64));
    group.bench_function("watch_line_4kB", |b| {
        b.iter(|| read_pod_line(black_box(line.as_bytes()), "watch", &reader));
    });
    group.bench_function("pod_4kB", |b| b.iter(|| reader.read(black_box(pod))));
    group.finish();
}

criterion_group!(benches, decode);
criterion_main!(benches);

#!/bin/sh
# The samples of all trainings: make_samples.sh FOLDER. Run after
# `cargo build --release -p lidar-detector --example dataset`.
set -eu
folder=$1
mkdir -p "$folder"
for file in $(seq 0 47); do
    name=$(printf '%s/%02d.bin' "$folder" "$file")
    target/release/examples/dataset $((file * 500)) 500 "$name.part"
    # Training may wait for it.
    mv "$name.part" "$name"
done

"""Trains the network; README.md has the commands."""

import argparse
import math
import random
import time

import numpy as np
import torch
from torch.utils.data import DataLoader, IterableDataset

from network import CLASSES, Network
from samples import dense, load, targets

SEED = 20
BATCH = 4
PEAK_RATE = 2.5e-3
WEIGHT_DECAY = 1e-2
# Length of the running mean of the weights, in steps.
AVERAGE = 400
# One thread: sums then have one order, and the result does not depend on the machine's cores.
THREADS = 1


class Stream(IterableDataset):
    """Endless samples, shuffled anew each time around, mirrored at random."""

    def __init__(self, samples):
        self.samples = samples

    def __iter__(self):
        torch.set_num_threads(1)
        chance = random.Random(SEED)
        order = list(range(len(self.samples)))
        while True:
            chance.shuffle(order)
            for index in order:
                features, boxes = dense(
                    self.samples[index], chance.random() < 0.5, chance.random() < 0.5
                )
                yield features, *targets(boxes)


def losses(emphasis, heat_logits, boxes, heat, heat_weight, box, box_weight):
    """Penalty-reduced focal loss of the heat, and L1 of the boxes."""
    score = torch.sigmoid(heat_logits).clamp(1e-4, 1 - 1e-4)
    peak = (heat == 1).float()
    hit = torch.log(score) * (1 - score) ** 2 * peak
    miss = torch.log(1 - score) * score**2 * (1 - heat) ** 4 * (1 - peak) * heat_weight
    heat_loss = -((hit + miss) * emphasis).sum() / peak.sum().clamp(min=1)
    # The sense of the heading matters less than its axis.
    scale = torch.tensor([1, 1, 1, 1, 1, 1, 0.5, 0.5, 1, 1.0]).view(1, -1, 1, 1)
    error = (boxes - box).abs() * scale * box_weight[:, None]
    return heat_loss, error.sum() / box_weight.sum().clamp(min=1)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--start", help="checkpoint to go on from")
    parser.add_argument(
        "--emphasis",
        type=float,
        nargs=CLASSES,
        default=[1.0] * CLASSES,
        help="how much the heat of each class counts",
    )
    parser.add_argument("--checkpoint", required=True, help="file to write")
    parser.add_argument("data", nargs="+", help="files of the data generator")
    arguments = parser.parse_args()
    steps = arguments.steps
    torch.set_num_threads(THREADS)
    torch.manual_seed(SEED)
    emphasis = torch.tensor(arguments.emphasis).view(1, -1, 1, 1)
    samples = [sample for file in arguments.data for sample in load(file)]
    print(f"{len(samples)} samples", flush=True)
    network = Network().to(memory_format=torch.channels_last)
    if arguments.start:
        network.load_state_dict(torch.load(arguments.start))
    optimizer = torch.optim.AdamW(network.parameters(), lr=PEAK_RATE, weight_decay=WEIGHT_DECAY)
    average = {name: value.clone() for name, value in network.state_dict().items()}
    # One worker: several would make the order of batches a race.
    batches = iter(DataLoader(Stream(samples), BATCH, num_workers=1, prefetch_factor=4))
    start = time.monotonic()
    log = []
    for step in range(steps):
        done = step / steps
        rate = PEAK_RATE * min(1, done / 0.03 + 0.02) * (0.5 + 0.5 * math.cos(math.pi * done) + 3e-3)
        for group in optimizer.param_groups:
            group["lr"] = rate
        features, *truth = next(batches)
        features = features.to(memory_format=torch.channels_last)
        with torch.autocast("cpu", torch.bfloat16):
            heat, boxes = network(features)
        heat_loss, box_loss = losses(emphasis, heat.float(), boxes.float(), *truth)
        optimizer.zero_grad()
        (heat_loss + box_loss).backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), 10.0)
        optimizer.step()
        share = max(1 / AVERAGE, 9 / (step + 10))
        for name, value in network.state_dict().items():
            if value.dtype.is_floating_point:
                average[name].lerp_(value, share)
            else:
                average[name].copy_(value)
        log.append((heat_loss.item(), box_loss.item()))
        if (step + 1) % 100 == 0 or step + 1 == steps:
            heat_mean, box_mean = np.mean(log, axis=0)
            seconds = time.monotonic() - start
            print(f"{step + 1} heat {heat_mean:.3f} box {box_mean:.3f} {seconds:.0f} s", flush=True)
            log.clear()
            torch.save(average, arguments.checkpoint)


if __name__ == "__main__":
    main()

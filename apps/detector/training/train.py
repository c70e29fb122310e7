"""Trains the network; README.md has the commands."""

import argparse
import math
import random
import time
from pathlib import Path

import numpy as np
import torch
from torch.nn import functional
from torch.utils.data import DataLoader, IterableDataset

from network import CLASSES, Network
from samples import dense, load, targets

SEED = 20
BATCH = 8
PEAK_RATE = 3e-3
WEIGHT_DECAY = 1e-2
# Length of the running mean of the weights, in steps.
AVERAGE = 400
# Samples that are shuffled with one another.
SHUFFLED = 1500
# How much the heat of each class counts: car, truck, pedestrian, cyclist.
EMPHASIS = (1.0, 1.5, 1.0, 1.5)
# How much each regressed number counts: the middle most, and the sense of the heading less than
# its axis.
SCALE = (1.5, 1.5, 1, 1, 1, 1, 0.5, 0.5, 1, 1)
# One thread: sums then have one order, and the result does not depend on the machine's cores.
THREADS = 1


class Stream(IterableDataset):
    """Endless samples of all files, one after the other and from the start again, shuffled with
    those of the files before, mirrored and turned at random.

    Waits for files that are not there yet: they may be made while the training runs."""

    def __init__(self, files):
        self.files = files

    def read(self):
        while True:
            for file in self.files:
                while not file.exists():
                    time.sleep(1)
                yield from load(file)

    def __iter__(self):
        torch.set_num_threads(1)
        chance = random.Random(SEED)
        samples = self.read()
        waiting = []
        for sample in samples:
            waiting.append(sample)
            if len(waiting) < SHUFFLED:
                continue
            sample = waiting.pop(chance.randrange(len(waiting)))
            turn = [chance.random() < 0.5 for _ in range(3)]
            features, boxes = dense(sample, *turn)
            yield features, *targets(boxes)


def losses(heat_logits, boxes, peaks, cold, box, box_weight):
    """Penalty-reduced focal loss of the heat, and L1 of the boxes."""
    emphasis = torch.tensor(EMPHASIS).view(1, -1, 1, 1)
    score = torch.sigmoid(heat_logits)
    miss = functional.softplus(heat_logits) * score.square() * cold * emphasis
    peak = peaks.nonzero(as_tuple=True)
    hit = functional.softplus(-heat_logits[peak]) * (1 - score[peak]).square()
    hit = hit * emphasis.flatten()[peak[1]]
    heat_loss = (miss.sum() + hit.sum()) / max(1, len(hit))
    batch, row, column = box_weight.nonzero(as_tuple=True)
    error = (boxes[batch, :, row, column] - box[batch, :, row, column]).abs()
    weight = box_weight[batch, row, column]
    box_loss = (error * torch.tensor(SCALE) * weight[:, None]).sum()
    return heat_loss, box_loss / weight.sum().clamp(min=1)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--rate", type=float, default=PEAK_RATE)
    parser.add_argument("--start", help="checkpoint to go on from")
    parser.add_argument("--checkpoint", required=True, help="file to write")
    parser.add_argument("data", nargs="+", type=Path, help="files of the data generator")
    arguments = parser.parse_args()
    steps = arguments.steps
    torch.set_num_threads(THREADS)
    torch.manual_seed(SEED)
    network = Network().to(memory_format=torch.channels_last)
    if arguments.start:
        network.load_state_dict(torch.load(arguments.start))
    optimizer = torch.optim.AdamW(
        network.parameters(), lr=arguments.rate, weight_decay=WEIGHT_DECAY
    )
    state = network.state_dict()
    weights = [value for value in state.values() if value.dtype.is_floating_point]
    average = [value.clone() for value in weights]
    # One worker: several would make the order of batches a race.
    batches = iter(DataLoader(Stream(arguments.data), BATCH, num_workers=1, prefetch_factor=4))
    start = time.monotonic()
    log = []
    for step in range(steps):
        done = step / steps
        rise = min(1, (step + 10) / 200)
        rate = arguments.rate * rise * (0.5 + 0.5 * math.cos(math.pi * done) + 3e-3)
        for group in optimizer.param_groups:
            group["lr"] = rate
        features, *truth = next(batches)
        features = features.to(memory_format=torch.channels_last)
        with torch.autocast("cpu", torch.bfloat16):
            heat, boxes = network(features)
        heat_loss, box_loss = losses(heat.float(), boxes.float(), *truth)
        optimizer.zero_grad()
        (heat_loss + box_loss).backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), 10.0)
        optimizer.step()
        with torch.no_grad():
            torch._foreach_lerp_(average, weights, max(1 / AVERAGE, 9 / (step + 10)))
        log.append((heat_loss.item(), box_loss.item()))
        if (step + 1) % 100 == 0 or step + 1 == steps:
            heat_mean, box_mean = np.mean(log, axis=0)
            seconds = time.monotonic() - start
            print(f"{step + 1} heat {heat_mean:.3f} box {box_mean:.3f} {seconds:.0f} s", flush=True)
            log.clear()
            names = [name for name, value in state.items() if value.dtype.is_floating_point]
            torch.save({**state, **dict(zip(names, average))}, arguments.checkpoint)


if __name__ == "__main__":
    main()

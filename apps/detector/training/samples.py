"""Samples from the files of the data generator (format: dataset.rs), as network input and targets."""

import math

import numpy as np

from network import CELL, CHANNELS, CLASSES, GRID, OUT, OUT_CELL, REACH, REGRESSION

SCALE = 1 / 8192
# With fewer points an object is neither to be found nor to be left out.
LEAST_POINTS = 5
# Width of the heat around a middle, in output cells, per class.
SPREAD = (1.0, 1.4, 0.6, 0.8)

_middles = (np.arange(GRID) + 0.5) * CELL - REACH
_DISTANCE = (np.hypot(_middles[None], _middles[:, None]) / REACH).astype(np.float32)


def load(path):
    """All samples of a file: (cell indices, 15 channels of those cells, boxes)."""
    data = np.memmap(path, np.uint8, "r")
    at = 0
    samples = []
    while at < len(data):
        cells, boxes = (int(count) for count in data[at : at + 8].view("<u4"))
        at += 8
        index = data[at : at + 2 * cells].view("<u2")
        at += 2 * cells
        size = 2 * cells * (CHANNELS - 1)
        values = data[at : at + size].view("<i2").reshape(CHANNELS - 1, cells)
        at += size
        box = data[at : at + 36 * boxes].view("<f4").reshape(boxes, 9)
        at += 36 * boxes
        samples.append((index, values, box))
    return samples


def dense(sample, flip_x, flip_y, swap):
    """Features and boxes of a sample, on request mirrored, and with x and y swapped."""
    index, values, boxes = sample
    row, column = index.astype(np.int64) // GRID, index.astype(np.int64) % GRID
    values = values.astype(np.float32) * SCALE
    boxes = boxes.copy()
    if flip_x:
        column = GRID - 1 - column
        values[12] *= -1
        boxes[:, 0] *= -1
        boxes[:, 6] = math.pi - boxes[:, 6]
    if flip_y:
        row = GRID - 1 - row
        values[13] *= -1
        boxes[:, 1] *= -1
        boxes[:, 6] *= -1
    if swap:
        row, column = column, row
        values[[12, 13]] = values[[13, 12]]
        boxes[:, [0, 1]] = boxes[:, [1, 0]]
        boxes[:, 6] = math.pi / 2 - boxes[:, 6]
    features = np.zeros((CHANNELS, GRID, GRID), np.float32)
    features[: CHANNELS - 1, row, column] = values
    features[CHANNELS - 1] = _DISTANCE
    return features, boxes


def targets(boxes):
    """Where the middles are, how much heat elsewhere costs, regression, and how much each output cell
    counts for it."""
    heat = np.zeros((CLASSES, OUT, OUT), np.float32)
    heat_weight = np.ones((CLASSES, OUT, OUT), np.float32)
    box = np.zeros((REGRESSION, OUT, OUT), np.float32)
    box_weight = np.zeros((OUT, OUT), np.float32)
    for x, y, z, length, width, height, yaw, label, points in boxes:
        if abs(x) > REACH - 1 or abs(y) > REACH - 1:
            continue
        at_x, at_y = (x + REACH) / OUT_CELL, (y + REACH) / OUT_CELL
        column, row = int(at_x), int(at_y)
        label = int(label)
        spread = SPREAD[label]
        radius = math.ceil(3 * spread)
        columns = slice(max(0, column - radius), min(OUT, column + radius + 1))
        rows = slice(max(0, row - radius), min(OUT, row + radius + 1))
        off_x = np.arange(columns.start, columns.stop) + 0.5 - at_x
        off_y = np.arange(rows.start, rows.stop) + 0.5 - at_y
        bump = np.exp(-(off_x[None] ** 2 + off_y[:, None] ** 2) / (2 * spread**2))
        if points < LEAST_POINTS:
            weight = heat_weight[label, rows, columns]
            np.minimum(weight, 1 - bump, out=weight)
            continue
        region = heat[label, rows, columns]
        np.maximum(region, bump, out=region)
        heat[label, row, column] = 1
        values = [0, 0, z, math.log(length), math.log(width), math.log(height)]
        values += [math.sin(yaw), math.cos(yaw), math.sin(2 * yaw), math.cos(2 * yaw)]
        for r in range(max(0, row - 1), min(OUT, row + 2)):
            for c in range(max(0, column - 1), min(OUT, column + 2)):
                # Neighbours learn the box too: the peak may be one cell off.
                weight = 1.0 if (r, c) == (row, column) else 0.2
                if weight > box_weight[r, c]:
                    values[:2] = at_x - c, at_y - r
                    box_weight[r, c] = weight
                    box[:, r, c] = values
    peaks = heat == 1
    cold = np.where(peaks, 0, (1 - heat) ** 4 * heat_weight)
    return peaks, cold, box, box_weight

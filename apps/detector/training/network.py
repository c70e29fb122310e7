"""The network: a small feature pyramid over the bird's-eye view, with CenterPoint heads."""

import torch
from torch import nn
from torch.nn import functional

GRID = 256
CELL = 0.4
REACH = GRID * CELL / 2
CHANNELS = 16

CLASSES = 4
STRIDE = 2
OUT = GRID // STRIDE
OUT_CELL = CELL * STRIDE

# Offset x and y in output cells, z, log of length, width and height, sin and cos of yaw and of
# twice yaw.
REGRESSION = 10


def block(inputs, outputs, kernel=3, stride=1):
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU(inplace=True),
    )


class Network(nn.Module):
    """176 thousand weights, 0.65 billion multiplications."""

    def __init__(self, widths=(24, 48, 64), depths=(1, 2, 2), head=24):
        super().__init__()
        inputs = CHANNELS
        self.stages = nn.ModuleList()
        self.laterals = nn.ModuleList()
        for width, depth in zip(widths, depths):
            layers = [block(inputs, width, stride=2)] + [block(width, width) for _ in range(depth)]
            self.stages.append(nn.Sequential(*layers))
            self.laterals.append(block(width, head, kernel=1))
            inputs = width
        self.neck = nn.Sequential(block(head, head), block(head, head))
        self.heat = nn.Conv2d(head, CLASSES, 1)
        self.box = nn.Conv2d(head, REGRESSION, 1)
        # Objects are rare: start from a heat of 0.02 everywhere.
        nn.init.constant_(self.heat.bias, -4.0)

    def forward(self, features):
        levels = []
        for stage in self.stages:
            features = stage(features)
            levels.append(features)
        merged = self.laterals[-1](levels[-1])
        for lateral, level in zip(self.laterals[-2::-1], levels[-2::-1]):
            merged = lateral(level) + functional.interpolate(merged, scale_factor=2.0, mode="nearest")
        merged = self.neck(merged)
        return self.heat(merged), self.box(merged)

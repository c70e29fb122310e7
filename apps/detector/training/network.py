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


def chain(inputs, outputs, depth):
    """Halves the resolution, and looks further around at the new one."""
    layers = [block(inputs, outputs, stride=2)]
    layers += [block(outputs, outputs) for _ in range(depth)]
    return nn.Sequential(*layers)


class Network(nn.Module):
    """Most of the work is done on few cells: at 0.8 m there is one convolution on the way in, and on
    the way out only sums and the heads."""

    def __init__(self, fine=24, middle=48, coarse=64):
        super().__init__()
        self.fine = block(CHANNELS, fine, stride=2)
        self.middle = chain(fine, middle, 1)
        self.coarse = chain(middle, coarse, 3)
        self.context = nn.Conv2d(coarse, middle, 1)
        self.neck = block(middle, middle)
        # Four fine cells for each middle one.
        self.detail = nn.Conv2d(middle, 4 * fine, 1)
        self.heat = nn.Conv2d(fine, CLASSES, 1)
        self.box = nn.Conv2d(fine, REGRESSION, 1)
        # Objects are rare: start from a heat of 0.02 everywhere.
        nn.init.constant_(self.heat.bias, -4.0)

    def forward(self, features):
        fine = self.fine(features)
        middle = self.middle(fine)
        context = self.context(self.coarse(middle))
        context = functional.interpolate(context, scale_factor=2.0, mode="nearest")
        middle = self.neck(functional.relu(middle + context))
        fine = functional.relu(fine + functional.pixel_shuffle(self.detail(middle), 2))
        return self.heat(fine), self.box(fine)

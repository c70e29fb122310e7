"""Writes a checkpoint as ONNX: export.py CHECKPOINT FILE [THRESHOLD for each class]

The default threshold of the program is 0.5. So the logits of each class are shifted by that of its
threshold: what scored the threshold scores 0.5 then. The order of scores in a class stays."""

import hashlib
import sys

import onnx
import torch
from torch import nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from network import CHANNELS, GRID, Network

OPSET = 17


def fuse(module):
    """Folds batch normalisation into the convolutions before it."""
    for name, child in module.named_children():
        if isinstance(child, nn.Sequential) and isinstance(child[0], nn.Conv2d):
            setattr(module, name, nn.Sequential(fuse_conv_bn_eval(child[0], child[1]), nn.ReLU()))
        else:
            fuse(child)


class Inference(nn.Module):
    def __init__(self, network):
        super().__init__()
        self.network = network

    def forward(self, features):
        heat, boxes = self.network(features)
        return torch.sigmoid(heat), boxes


def main():
    checkpoint, file, *thresholds = sys.argv[1:]
    network = Network()
    network.load_state_dict(torch.load(checkpoint))
    network.eval()
    fuse(network)
    if thresholds:
        network.heat.bias.data -= torch.logit(torch.tensor([float(value) for value in thresholds]))
    torch.onnx.export(
        Inference(network).eval(),
        (torch.zeros(1, CHANNELS, GRID, GRID),),
        file,
        opset_version=OPSET,
        input_names=["features"],
        output_names=["heat", "boxes"],
        dynamo=False,
    )
    model = onnx.load(file)
    onnx.checker.check_model(model)
    parameters = sum(weight.numel() for weight in network.parameters())
    with open(file, "rb") as data:
        digest = hashlib.sha256(data.read()).hexdigest()
    print(f"{parameters} parameters, sha256 {digest}")


if __name__ == "__main__":
    main()

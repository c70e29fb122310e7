"""Makes fixture.json: random boxes, and what the nuScenes devkit computes for them.

    pip install nuscenes-devkit==1.2.0
    python make.py > fixture.json

The numbers are the devkit's own: `accumulate`, `calc_ap` and `calc_tp` with its minimum recall and
precision of 0.1, and the errors at 2 m.
"""

import json
import math
import random

from nuscenes.eval.common.data_classes import EvalBoxes
from nuscenes.eval.common.utils import center_distance
from nuscenes.eval.detection.algo import accumulate, calc_ap, calc_tp
from nuscenes.eval.detection.data_classes import DetectionBox

DISTANCES = [0.5, 1.0, 2.0, 4.0]
ERRORS = ["trans_err", "scale_err", "orient_err"]


def draw(rng, scans, most, spread, kept, extra, coarse):
    """Scans of objects, and detections near most of them and anywhere. Boxes are x, y, length,
    width, height, yaw; a detection has its score behind them."""
    made = []
    for _ in range(scans):
        truth, found = [], []
        for _ in range(rng.randint(0, most)):
            box = [rng.uniform(-40, 40), rng.uniform(-40, 40), rng.uniform(3, 6), rng.uniform(1.5, 2.2),
                   rng.uniform(1.2, 2.5), rng.uniform(-math.pi, math.pi)]
            truth.append(box)
            if rng.random() < kept:
                near = [value + rng.gauss(0, spread) for value in box[:2]]
                near += [value * rng.uniform(0.8, 1.25) for value in box[2:5]]
                near += [box[5] + rng.gauss(0, 0.5)]
                found.append(near + [rng.betavariate(4, 2)])
        for _ in range(rng.randint(0, extra)):
            box = [rng.uniform(-40, 40), rng.uniform(-40, 40), 4.0, 1.8, 1.5, rng.uniform(-math.pi, math.pi)]
            found.append(box + [rng.betavariate(2, 4)])
        rng.shuffle(found)
        if coarse:
            found = [box[:6] + [round(box[6], 1)] for box in found]
        made.append({"truth": truth, "found": found})
    return made


def boxes(scans, kind):
    every = EvalBoxes()
    for number, scan in enumerate(scans):
        token = str(number)
        listed = []
        for x, y, length, width, height, yaw, *score in scan[kind]:
            listed.append(DetectionBox(
                sample_token=token,
                translation=(x, y, 0.0),
                size=(width, length, height),
                rotation=(math.cos(yaw / 2), 0.0, 0.0, math.sin(yaw / 2)),
                velocity=(0.0, 0.0),
                num_pts=1,
                detection_name="car",
                detection_score=score[0] if score else -1.0,
                attribute_name="vehicle.parked",
            ))
        every.add_boxes(token, listed)
    return every


def judge(scans):
    truth, found = boxes(scans, "truth"), boxes(scans, "found")
    curves = [accumulate(truth, found, "car", center_distance, distance) for distance in DISTANCES]
    return {
        "average_precisions": [calc_ap(curve, 0.1, 0.1) for curve in curves],
        "errors": [calc_tp(curves[2], 0.1, error) for error in ERRORS],
    }


def main():
    rng = random.Random(3)
    cases = []
    for name, arguments in {
        "good": (20, 8, 0.2, 0.95, 1, False),
        "middling": (20, 8, 0.8, 0.7, 4, False),
        "poor": (20, 8, 2.5, 0.4, 10, False),
        "hopeless": (20, 8, 8.0, 0.1, 5, False),
        "equal scores": (20, 8, 0.8, 0.8, 4, True),
        "nothing found": (5, 8, 1.0, 0.0, 0, False),
        "one object": (1, 1, 0.1, 1.0, 2, False),
        "crowded": (4, 60, 0.6, 0.9, 20, False),
    }.items():
        scans = draw(rng, *arguments)
        while not any(scan["truth"] for scan in scans):
            scans = draw(rng, *arguments)
        cases.append({"name": name, "scans": scans, "expected": judge(scans)})
    print(json.dumps(cases, separators=(",", ":")))


main()

"""Records what the Python package velodyne-decoder makes of synthetic packets.

Run from this directory with velodyne-decoder installed (3.1.0 was used); it writes oracle/*.bin:

    u32 packets, u32 points, packets x 1206 B, points x (f32 x, y, z, intensity; u32 ring)

little-endian, points ordered by ring, x, y. The rotor turns evenly: on azimuth jumps inside a
packet velodyne-decoder is no reference.
"""

import pathlib
import struct

import numpy
import velodyne_decoder

DUAL = 0x39
VLP_32C, VLP_16, HDL_32E = 0x28, 0x22, 0x21
# Seconds of a block.
CYCLE = {VLP_32C: 55.296e-6, VLP_16: 110.592e-6, HDL_32E: 46.08e-6}


def packet(random, azimuth, step, mode):
    blocks = []
    for number in range(12):
        firing = number // 2 if mode == DUAL else number
        distance = random.integers(100, 25_000, 32)
        distance[random.random(32) < 0.15] = 0
        reflectivity = random.integers(0, 256, 32)
        if mode == DUAL and number % 2 == 1:
            # The sensor reports one surface twice: same distance, same reflectivity.
            same = random.random(32) < 0.5
            distance = numpy.where(same, blocks[-1][1], distance)
            reflectivity = numpy.where(same, blocks[-1][2], reflectivity)
        blocks.append((round(azimuth + step * firing) % 36_000, distance, reflectivity))
    data = bytearray()
    for angle, distance, reflectivity in blocks:
        data += struct.pack("<HH", 0xEEFF, angle)
        for pair in zip(distance, reflectivity):
            data += struct.pack("<HB", *map(int, pair))
    return bytes(data)


def record(name, mode, rpm, packets, product=VLP_32C):
    random = numpy.random.default_rng(7)
    cycle = CYCLE[product]
    step = cycle * rpm / 60 * 36_000
    firings = 6 if mode == DUAL else 12
    azimuth = 35_900.0
    recorded = []
    vector = velodyne_decoder.PacketVector()
    for number in range(packets):
        seconds = number * firings * cycle
        data = packet(random, azimuth, step, mode)
        data += struct.pack("<IBB", 1_000_000 + round(seconds * 1e6), mode, product)
        recorded.append(data)
        vector.append(velodyne_decoder.VelodynePacket(seconds, list(data)))
        # With a rotor that stands still within a packet nothing is interpolated.
        azimuth += step * firings or 777
    config = velodyne_decoder.Config(min_range=1e-4, max_range=1e3)
    _, points = velodyne_decoder.ScanDecoder(config).decode(vector, True)
    points = points[numpy.lexsort((points["y"], points["x"], points["ring"]))]
    with open(pathlib.Path(__file__).parent / "oracle" / name, "wb") as file:
        file.write(struct.pack("<II", packets, len(points)))
        file.write(b"".join(recorded))
        for point in points:
            values = [float(point[field]) for field in ("x", "y", "z", "intensity")]
            file.write(struct.pack("<ffffI", *values, int(point["ring"])))


record("strongest-600rpm.bin", 0x37, 600, 3)
record("last-1200rpm.bin", 0x38, 1_200, 2)
record("dual-300rpm.bin", DUAL, 300, 3)
record("strongest-still.bin", 0x37, 0, 3)
record("vlp16-600rpm.bin", 0x37, 600, 2, VLP_16)
record("vlp16-dual-1200rpm.bin", DUAL, 1_200, 2, VLP_16)
record("hdl32e-600rpm.bin", 0x38, 600, 2, HDL_32E)
record("hdl32e-dual-300rpm.bin", DUAL, 300, 2, HDL_32E)

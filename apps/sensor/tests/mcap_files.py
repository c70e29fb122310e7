"""Records MCAP files with the Python package mcap, by others (1.6.0 was used).

Run from this directory with mcap installed; it writes oracle/*.mcap: twelve clouds of two points on
/points and twelve strings on /chatter, encoded as ROS 2 and as ROS 1 does, the later half first.
"""

import pathlib
import struct

from mcap.writer import CompressionType, Writer


def padded(data, size=4):
    return data + bytes(-len(data) % size)


def string(text):
    return struct.pack("<I", len(text) + 1) + text.encode() + b"\0"


def cloud_cdr(number):
    data = struct.pack("<II", number, 0) + string("velodyne")
    data = padded(data) + struct.pack("<III", 1, 2, 3)
    for index, name in enumerate("xyz"):
        data = padded(data) + string(name)
        data = padded(data) + struct.pack("<IB", 4 * index, 7)
        data = padded(data) + struct.pack("<I", 1)
    data = padded(data + b"\0") + struct.pack("<III", 12, 24, 24)
    data += struct.pack("<6f", *range(number, number + 6)) + b"\1"
    return b"\0\1\0\0" + data


def cloud_ros1(number):
    data = struct.pack("<IIII", 0, number, 0, 8) + b"velodyne" + struct.pack("<III", 1, 2, 3)
    for index, name in enumerate("xyz"):
        data += struct.pack("<I", 1) + name.encode() + struct.pack("<IBI", 4 * index, 7, 1)
    data += b"\0" + struct.pack("<III", 12, 24, 24)
    return data + struct.pack("<6f", *range(number, number + 6)) + b"\1"


def record(name, compression, chunking, ros2):
    with open(pathlib.Path(__file__).parent / "oracle" / name, "wb") as file:
        writer = Writer(file, chunk_size=300, compression=compression, use_chunking=chunking)
        writer.start("ros2" if ros2 else "ros1")
        infix = "msg/" if ros2 else ""
        kind = ("ros2msg", "cdr") if ros2 else ("ros1msg", "ros1")
        channels = []
        for topic, schema in [("/points", "sensor_msgs/%sPointCloud2"), ("/chatter", "std_msgs/%sString")]:
            number = writer.register_schema(schema % infix, kind[0], b"")
            channels.append(writer.register_channel(topic, kind[1], number))
        for number in [*range(6, 12), *range(6)]:
            time = number * 1_000_000_000
            cloud = cloud_cdr(number) if ros2 else cloud_ros1(number)
            writer.add_message(channels[0], time, cloud, time)
            writer.add_message(channels[1], time, b"\0\1\0\0" + string("a"), time)
        writer.finish()


record("ros2-zstd.mcap", CompressionType.ZSTD, True, True)
record("ros2-plain.mcap", CompressionType.NONE, False, True)
record("ros1-lz4.mcap", CompressionType.LZ4, True, False)

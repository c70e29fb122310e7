#!/usr/bin/python3
"""Prints every sensor_msgs/PointCloud2 of /points, a line of JSON each, until its input ends."""
import itertools
import json
import sys

import rospy
from sensor_msgs import point_cloud2
from sensor_msgs.msg import PointCloud2


def receive(cloud):
    points = point_cloud2.read_points(cloud, ("x", "y", "z", "intensity"))
    first = [list(point) for point in itertools.islice(points, 5)]
    facts = {
        "seq": cloud.header.seq,
        "fields": [[f.name, f.offset, f.datatype, f.count] for f in cloud.fields],
        "count": len(first) + sum(1 for _ in points),
        "first": first,
    }
    print(json.dumps(facts), flush=True)


rospy.init_node("clouds_py", anonymous=True, disable_signals=True)
rospy.Subscriber("/points", PointCloud2, receive, buff_size=1 << 25)
sys.stdin.read()

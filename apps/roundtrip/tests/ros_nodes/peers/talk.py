#!/usr/bin/python3
"""Publishes the sensor_msgs/PointCloud2 in a file on /points until its input ends: FILE."""
import sys
import threading

import rospy
from sensor_msgs.msg import PointCloud2

with open(sys.argv[1], "rb") as file:
    cloud = PointCloud2().deserialize(file.read())
rospy.init_node("talk_py", disable_signals=True)
points = rospy.Publisher("/points", PointCloud2, queue_size=10)
ended = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
while not ended.wait(0.1):
    cloud.header.stamp = rospy.Time.now()
    points.publish(cloud)

#!/usr/bin/python3
"""Prints topic, type and text of every message of a bag."""
import sys

import rosbag

with rosbag.Bag(sys.argv[1]) as bag:
    for topic, message, _ in bag.read_messages():
        print(topic, message._type, message.data)

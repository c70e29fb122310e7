#!/usr/bin/python3
"""Tells of every message of a bag: BAG FOLDER."""
import sys

import rosbag

import facts

bag, folder = sys.argv[1:]
with rosbag.Bag(bag) as bag:
    definitions = {c.topic: c.msg_def for c in bag._get_connections()}
    for n, (topic, (kind, raw, md5, _, _), _) in enumerate(bag.read_messages(raw=True)):
        facts.tell(f"{folder}/bag.{n}", topic, kind, md5, definitions[topic], raw)

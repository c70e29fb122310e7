#!/usr/bin/python3
"""Tells of every message of a topic, whatever its type, until its input ends: TOPIC FOLDER."""
import sys

import rospy

import facts

topic, folder = sys.argv[1:]
count = 0


def receive(message):
    global count
    count += 1
    header = message._connection_header
    path = f"{folder}/{topic.strip('/')}.{count}"
    facts.tell(
        path, topic, header["type"], header["md5sum"], header["message_definition"], message._buff
    )


rospy.init_node("listen_py", anonymous=True, disable_signals=True)
rospy.Subscriber(topic, rospy.AnyMsg, receive)
sys.stdin.read()

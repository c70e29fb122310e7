#!/usr/bin/python3
"""Prints the text of every std_msgs/String of /chatter; says "ready" once subscribed."""
import sys

import rospy
from std_msgs.msg import String

rospy.init_node("count_py", anonymous=True, disable_signals=True)
rospy.Subscriber("/chatter", String, lambda message: print(message.data, flush=True))
print("ready", flush=True)
sys.stdin.read()

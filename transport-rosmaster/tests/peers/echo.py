#!/usr/bin/python3
"""Sends every message of /in back on /out; says "ready" once both directions are connected."""
import sys

import rospy
from std_msgs.msg import UInt8MultiArray

rospy.init_node("echo_py", anonymous=True, disable_signals=True)
out = rospy.Publisher("/out", UInt8MultiArray, queue_size=20, tcp_nodelay=True)
rospy.Subscriber("/in", UInt8MultiArray, out.publish, buff_size=1 << 25, tcp_nodelay=True)
while out.get_num_connections() == 0:
    rospy.rostime.wallsleep(0.01)
print("ready", flush=True)
sys.stdin.read()

#!/usr/bin/python3
"""Publishes std_msgs/String and std_msgs/Header messages until its input ends."""
import sys
import threading

import rospy
from std_msgs.msg import Header, String

rospy.init_node("talk_py", anonymous=True, disable_signals=True)
chatter = rospy.Publisher("/chatter", String, queue_size=10)
stamps = rospy.Publisher("/stamps", Header, queue_size=10)
print("ready", flush=True)
ended = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
while not ended.wait(0.02):
    chatter.publish("from rospy")
    stamps.publish(Header(frame_id="velodyne"))

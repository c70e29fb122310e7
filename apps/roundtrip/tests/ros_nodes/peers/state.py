#!/usr/bin/python3
"""Prints who is registered at the master, one name a line."""
import os
import xmlrpc.client

master = xmlrpc.client.ServerProxy(os.environ["ROS_MASTER_URI"])
code, _, state = master.getSystemState("/state_py")
assert code == 1
print(*sorted({node for role in state for _, nodes in role for node in nodes}), sep="\n")

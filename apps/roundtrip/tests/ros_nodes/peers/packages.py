#!/usr/bin/python3
"""Makes Python packages of the types that travel with a topic and are not installed: TOPIC FOLDER."""
import importlib.util
import os
import sys

import genpy.generate_initpy
import genpy.generator
import rospy

topic, folder = sys.argv[1:]
rospy.init_node("packages_py", anonymous=True, disable_signals=True)
header = rospy.wait_for_message(topic, rospy.AnyMsg)._connection_header
first, *others = header["message_definition"].split("\n" + "=" * 80 + "\n")
texts = {header["type"]: first}
for text in others:
    name, body = text.split("\n", 1)
    texts[name.removeprefix("MSG: ")] = body

files, search = {}, {}
for name, text in texts.items():
    package, kind = name.split("/")
    sources = os.path.join(folder, "definitions", package)
    os.makedirs(sources, exist_ok=True)
    path = os.path.join(sources, kind + ".msg")
    with open(path, "w") as file:
        file.write(text)
    files.setdefault(package, []).append(path)
    search[package] = [sources]
for package, paths in files.items():
    if importlib.util.find_spec(package):
        continue
    output = os.path.join(folder, package, "msg")
    code = genpy.generator.MsgGenerator().generate_messages(package, paths, output, search)
    if code:
        sys.exit(f"{package}: {code}")
    genpy.generate_initpy.write_modules(output)
    genpy.generate_initpy.write_modules(os.path.dirname(output))

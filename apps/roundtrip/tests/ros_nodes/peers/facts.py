"""What a message is, decoded by nothing but the definition that came with it."""
import io
import json

import genpy.dynamic


def tell(path, topic, kind, md5, definition, raw):
    """Writes the bytes of a message to path and prints what they are as a line of JSON."""
    classes = genpy.dynamic.generate_dynamic(kind, definition)
    message = classes[kind]().deserialize(raw)
    again = io.BytesIO()
    message.serialize(again)
    with open(path, "wb") as file:
        file.write(raw)
    facts = {
        "topic": topic,
        "type": kind,
        "md5": md5,
        # Computed from the definition, as every node that has it does.
        "computed_md5": message._md5sum,
        "path": path,
        "decoded": len(again.getvalue()) if raw.startswith(again.getvalue()) else 0,
        "seq": message.header.seq,
        "packets": len(getattr(message, "packets", [])),
        "detections": len(getattr(message, "detections", [])),
    }
    print(json.dumps(facts), flush=True)

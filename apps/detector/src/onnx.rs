/// Field number of the graph in ONNX's `ModelProto`.
const GRAPH: u64 = 7;

/// Whether `bytes` are, outermost, a protobuf message with one ONNX graph: the loader does not
/// return from some files that are none.
pub(crate) fn is_model(bytes: &[u8]) -> bool {
    let mut rest = bytes;
    let mut graphs = 0;
    while !rest.is_empty() {
        let Some((tag, after)) = varint(rest) else {
            return false;
        };
        // The lowest three bits are the wire type.
        let value = match tag & 7 {
            0 => varint(after).map(|(_, rest)| rest),
            1 => after.get(8..),
            2 => varint(after).and_then(|(length, rest)| rest.get(usize::try_from(length).ok()?..)),
            5 => after.get(4..),
            _ => None,
        };
        let Some(next) = value else { return false };
        graphs += u32::from(tag == GRAPH << 3 | 2);
        rest = next;
    }
    graphs == 1
}

/// A number of 1 to 10 bytes with 7 bits each, and what follows it.
fn varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut value = 0;
    for (index, &byte) in bytes.iter().enumerate().take(10) {
        value |= u64::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            return Some((value, &bytes[index + 1..]));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tells_models_from_other_bytes() {
        // ir_version 8, graph of 3 bytes.
        let model = [0x08, 8, 0x3a, 3, 1, 2, 3];
        assert!(is_model(&model));
        assert!(!is_model(&model[..6]), "cut");
        assert!(!is_model(&model[..2]), "no graph");
        assert!(!is_model(&[model, model].concat()), "two graphs");
        for bytes in [
            &b""[..],
            b"ONNX",
            &[0xff; 64],
            &[0x3a, 0xff, 0xff, 0xff, 0xff, 0x0f],
        ] {
            assert!(!is_model(bytes), "{bytes:?}");
        }
    }
}

//! XML-RPC as ROS speaks it: calls, and answers of the form `[code, status, value]`.

use dxr::{Fault, FaultResponse, MethodCall, MethodResponse, Value};

/// Deepest nesting accepted. Parameters nest a few levels; the parser recurses, so a foreign
/// document must not choose the depth of our stack.
const DEPTH: usize = 64;

/// Code of a call that succeeded; 0 is a failure, -1 an error of the caller.
const SUCCESS: i32 = 1;
const FAILURE: i32 = 0;
const ERROR: i32 = -1;

/// What a ROS API method answers.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Reply {
    code: i32,
    status: String,
    value: Value,
}

impl Reply {
    pub(crate) fn success(status: impl Into<String>, value: Value) -> Self {
        Self {
            code: SUCCESS,
            status: status.into(),
            value,
        }
    }

    /// The call was understood and cannot be served.
    pub(crate) fn failure(status: impl Into<String>) -> Self {
        Self {
            code: FAILURE,
            status: status.into(),
            value: Value::Integer(0),
        }
    }

    /// The call was wrong.
    pub(crate) fn error(status: impl Into<String>) -> Self {
        Self {
            code: ERROR,
            status: status.into(),
            value: Value::Integer(0),
        }
    }

    fn into_value(self) -> Value {
        Value::Array(vec![
            Value::Integer(self.code),
            Value::String(self.status),
            self.value,
        ])
    }
}

/// A call that was received.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) method: String,
    pub(crate) params: Vec<Value>,
}

/// Encodes a call.
pub(crate) fn encode_call(method: &str, params: Vec<Value>) -> Result<String, String> {
    let call = MethodCall {
        name: method.into(),
        params,
    };
    call.to_xml().map_err(|error| error.to_string())
}

/// Decodes a call.
pub(crate) fn decode_call(body: &[u8]) -> Result<Call, String> {
    let text = checked(body)?;
    let call = MethodCall::from_xml(text).map_err(|_| "not an XML-RPC call".to_owned())?;
    Ok(Call {
        method: call.name.into_owned(),
        params: call.params,
    })
}

/// Encodes an answer. roscpp finds its way by matching text, so an empty array has to be
/// `<data></data>`, and the root element must have no attributes.
pub(crate) fn encode_reply(reply: Reply) -> Result<String, String> {
    let response = MethodResponse {
        value: reply.into_value(),
    };
    response.to_xml().map_err(|error| error.to_string())
}

/// Encodes a fault.
pub(crate) fn encode_fault(text: &str) -> String {
    let response = FaultResponse {
        fault: Fault::new(-1, text.to_owned()),
    };
    // A fault holds a number and a text; neither can fail to encode, and there is nothing better.
    response.to_xml().unwrap_or_default()
}

/// Decodes an answer into its value.
///
/// Answers are read leniently, since slaves that answer 0 everywhere work all the same with real
/// masters: a value of unexpected type is the caller's to judge.
pub(crate) fn decode_reply(body: &[u8]) -> Result<Value, String> {
    let text = checked(body)?;
    let value = match MethodResponse::from_xml(text) {
        Ok(response) => response.value,
        Err(_) => {
            let fault = FaultResponse::from_xml(text).map_err(|_| {
                let head: String = text.chars().take(80).collect();
                format!("not an XML-RPC answer: `{}`", head.escape_debug())
            })?;
            return Err(format!("fault: {}", fault.fault.string()));
        }
    };
    let Value::Array(items) = value else {
        return Err("the answer is not [code, status, value]".to_owned());
    };
    let mut items = items.into_iter();
    match (items.next(), items.next()) {
        (Some(Value::Integer(SUCCESS)), _) => Ok(items.next().unwrap_or(Value::Integer(0))),
        (Some(Value::Integer(code)), Some(Value::String(status))) => {
            Err(format!("refused (code {code}): {status}"))
        }
        _ => Err("the answer is not [code, status, value]".to_owned()),
    }
}

fn checked(body: &[u8]) -> Result<&str, String> {
    let text = std::str::from_utf8(body).map_err(|_| "not UTF-8".to_owned())?;
    let mut depth = 0usize;
    for (at, _) in text.match_indices('<') {
        let tag = &text[at + 1..];
        if tag.starts_with("array") || tag.starts_with("struct") {
            depth += 1;
        } else if tag.starts_with("/array") || tag.starts_with("/struct") {
            depth = depth.saturating_sub(1);
        }
        if depth > DEPTH {
            return Err(format!("nested deeper than {DEPTH} levels"));
        }
    }
    Ok(text)
}

/// The text of a parameter.
pub(crate) fn text(value: Option<&Value>) -> Option<&str> {
    match value {
        Some(Value::String(text)) => Some(text),
        _ => None,
    }
}

/// The texts of an array; other items are skipped.
pub(crate) fn texts(value: &Value) -> Vec<String> {
    items(value)
        .iter()
        .filter_map(|item| text(Some(item)).map(str::to_owned))
        .collect()
}

/// The items of an array; none for anything else.
pub(crate) fn items(value: &Value) -> &[Value] {
    match value {
        Value::Array(items) => items,
        _ => &[],
    }
}

/// An array of texts.
pub(crate) fn array<'a>(texts: impl IntoIterator<Item = &'a str>) -> Value {
    Value::Array(
        texts
            .into_iter()
            .map(|text| Value::String(text.to_owned()))
            .collect(),
    )
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;
    use proptest::sample::Index;

    use super::*;

    #[test]
    fn answers_have_the_form_that_text_matching_parsers_expect() {
        let reply = Reply::success("", Value::Array(Vec::new()));
        let xml = encode_reply(reply).unwrap();
        assert!(xml.contains("<methodResponse>"), "{xml}");
        assert!(xml.contains("<array><data></data></array>"), "{xml}");
        assert!(!xml.contains("/>"), "{xml}");
    }

    #[test]
    fn untyped_values_are_text_and_spaces_are_kept() {
        let call = decode_call(
            b"<?xml version=\"1.0\"?>\r\n<methodCall><methodName>m</methodName>\r\n<params>\
              <param><value>/a</value></param><param><value></value></param>\
              <param><value><string> b </string></value></param>\
              <param><value/></param></params></methodCall>",
        )
        .unwrap();
        let expected = ["/a", "", " b ", ""].map(|text| Value::String(text.to_owned()));
        assert_eq!(call.params, expected);
    }

    #[test]
    fn odd_answers_are_errors_and_never_panic() {
        for body in [
            "",
            "<",
            "<methodResponse/>",
            "<methodResponse><params><param><value>x</value></param></params></methodResponse>",
            "\u{0}",
        ] {
            assert!(decode_reply(body.as_bytes()).is_err(), "{body}");
        }
        let deep = format!(
            "<methodCall><methodName>m</methodName><params><param>{}",
            "<value><array><data>".repeat(100_000)
        );
        assert!(decode_call(deep.as_bytes()).unwrap_err().contains("nested"));
        let fault = encode_fault("no such method");
        assert!(
            decode_reply(fault.as_bytes())
                .unwrap_err()
                .contains("no such method")
        );
    }

    proptest! {
        #[test]
        fn any_text_is_a_document_or_an_error(
            text in ".{0,200}",
            tags in vec(prop::sample::select(TAGS), 0..40),
        ) {
            for body in [text, tags.concat()] {
                let _ = decode_call(body.as_bytes());
                let _ = decode_reply(body.as_bytes());
            }
        }

        #[test]
        fn a_cut_or_damaged_document_is_no_panic(
            texts in vec(".{0,20}", 0..5),
            cut in any::<Index>(),
            byte in any::<u8>(),
        ) {
            let values = texts.iter().map(String::as_str);
            let call = encode_call("method", vec![array(values)]).unwrap();
            let read = decode_call(call.as_bytes()).unwrap();
            prop_assert_eq!(read.method, "method");
            let at = cut.index(call.len());
            prop_assert!(decode_call(&call.as_bytes()[..at]).is_err());
            let mut damaged = call.into_bytes();
            damaged[at] = byte;
            let _ = decode_call(&damaged);
            let _ = decode_reply(&damaged);
        }
    }

    /// Pieces that come near to documents.
    const TAGS: &[&str] = &[
        "<?xml version=\"1.0\"?>",
        "<methodCall>",
        "<methodName>a</methodName>",
        "<methodResponse>",
        "<fault>",
        "<params>",
        "<param>",
        "<value>",
        "<array>",
        "<data>",
        "<struct>",
        "<i4>1</i4>",
        "<int>99999999999</int>",
        "<string>&amp;&#x0;</string>",
        "</value>",
        "</data>",
        "</array>",
        "</param>",
        "</params>",
        "</methodCall>",
        "</methodResponse>",
    ];
}

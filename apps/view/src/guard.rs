//! Who may ask: the page that this server gave out, and whoever types its address.
//!
//! A page of somebody else in the same browser could point a name of its own at this address ("DNS
//! rebinding") and read what is here as if it were its own. It cannot do so with an address instead
//! of a name, so names are refused.

use std::net::IpAddr;

use hyper::header::{HOST, ORIGIN};
use hyper::http::uri::Authority;
use hyper::{HeaderMap, Method, StatusCode};

/// Lets a request pass, or says with which status and reason it is refused.
pub(crate) fn check(
    method: &Method,
    headers: &HeaderMap,
) -> Result<(), (StatusCode, &'static str)> {
    if method != Method::GET {
        return Err((StatusCode::METHOD_NOT_ALLOWED, "only GET is served"));
    }
    let mut hosts = headers.get_all(HOST).iter();
    let host = match (hosts.next(), hosts.next()) {
        (Some(host), None) => host.to_str().unwrap_or_default(),
        _ => return Err((StatusCode::BAD_REQUEST, "one Host is needed")),
    };
    if !is_address(host) {
        return Err((
            StatusCode::MISDIRECTED_REQUEST,
            "use the address of this server, such as 127.0.0.1, not a name",
        ));
    }
    let same_origin = |origin: &hyper::header::HeaderValue| {
        origin.to_str().ok().and_then(|o| o.strip_prefix("http://")) == Some(host)
    };
    if headers
        .get_all(ORIGIN)
        .iter()
        .any(|origin| !same_origin(origin))
    {
        return Err((StatusCode::FORBIDDEN, "another page's request"));
    }
    // Browsers say by themselves who asks: this page, the user (`none`), or a link elsewhere, which may
    // open the page but nothing in it.
    let site = headers.get("sec-fetch-site").map(|site| site.as_bytes());
    let navigates = headers
        .get("sec-fetch-mode")
        .is_some_and(|mode| mode == "navigate");
    match site {
        None | Some(b"same-origin" | b"none") => Ok(()),
        Some(_) if navigates => Ok(()),
        Some(_) => Err((StatusCode::FORBIDDEN, "another page's request")),
    }
}

fn is_address(host: &str) -> bool {
    let Ok(authority) = host.parse::<Authority>() else {
        return false;
    };
    if authority.as_str().contains('@') {
        return false;
    }
    let name = authority.host();
    let bare = name
        .strip_prefix('[')
        .and_then(|name| name.strip_suffix(']'))
        .unwrap_or(name);
    bare.eq_ignore_ascii_case("localhost") || bare.parse::<IpAddr>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(method: Method, headers: &[(&'static str, &str)]) -> Result<(), StatusCode> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, value.parse().unwrap());
        }
        check(&method, &map).map_err(|(status, _)| status)
    }

    #[test]
    fn only_addresses_are_hosts() {
        for good in [
            "127.0.0.1:7878",
            "localhost",
            "LOCALHOST:1",
            "[::1]:7878",
            "192.168.1.5:7878",
        ] {
            assert_eq!(ask(Method::GET, &[("host", good)]), Ok(()), "{good}");
        }
        for bad in [
            "evil.example:7878",
            "127.0.0.1.evil.example",
            "localhost.evil.example",
            "user@127.0.0.1",
            "",
            "127.0.0.1 evil",
        ] {
            let status = ask(Method::GET, &[("host", bad)]).unwrap_err();
            assert_eq!(status, StatusCode::MISDIRECTED_REQUEST, "{bad}");
        }
        assert_eq!(ask(Method::GET, &[]), Err(StatusCode::BAD_REQUEST));
        let two = [("host", "127.0.0.1"), ("host", "evil.example")];
        assert_eq!(ask(Method::GET, &two), Err(StatusCode::BAD_REQUEST));
    }

    #[test]
    fn other_pages_and_other_methods_are_refused() {
        let host = ("host", "127.0.0.1:7878");
        let refused = Err(StatusCode::FORBIDDEN);
        for (header, outcome) in [
            (("origin", "http://127.0.0.1:7878"), Ok(())),
            (("origin", "http://evil.example"), refused),
            (("origin", "http://127.0.0.1:1"), refused),
            (("origin", "null"), refused),
            (("sec-fetch-site", "same-origin"), Ok(())),
            (("sec-fetch-site", "none"), Ok(())),
            (("sec-fetch-site", "cross-site"), refused),
            (("sec-fetch-site", "same-site"), refused),
        ] {
            assert_eq!(ask(Method::GET, &[host, header]), outcome, "{header:?}");
        }
        let link = [
            host,
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-mode", "navigate"),
        ];
        assert_eq!(ask(Method::GET, &link), Ok(()));
        for method in [Method::POST, Method::PUT, Method::DELETE, Method::OPTIONS] {
            let status = ask(method, &[host]).unwrap_err();
            assert_eq!(status, StatusCode::METHOD_NOT_ALLOWED);
        }
    }
}

//! `roundtrip transports`.

use std::process::ExitCode;

use serde_json::json;
use transport_api::config::COMMON_OPTIONS;
use transport_api::{AckScope, Capabilities, Registry};

use crate::failure::Failure;
use crate::output::say;

pub(crate) fn print(registry: &Registry, as_json: bool) -> Result<ExitCode, Failure> {
    let transports = registry.transports();
    if as_json {
        let list: Vec<_> = transports
            .iter()
            .map(|(schemes, about)| json!({ "schemes": schemes, "about": about }))
            .collect();
        let missing: Vec<_> = registry
            .missing()
            .filter(|(scheme, _)| {
                !transports
                    .iter()
                    .any(|(schemes, _)| schemes.contains(scheme))
            })
            .map(|(scheme, feature)| json!({ "scheme": scheme, "feature": feature }))
            .collect();
        let value =
            json!({ "transports": list, "not-compiled-in": missing, "common": COMMON_OPTIONS });
        let text = serde_json::to_string_pretty(&value)
            .map_err(|error| Failure::new("print JSON", error))?;
        say!("{text}");
        return Ok(ExitCode::SUCCESS);
    }
    for (schemes, about) in &transports {
        say!(
            "{} ({})  {}",
            about.name,
            schemes.join(", "),
            about.implementation
        );
        say!("  {}", about.summary);
        say!("  default   {}", about.default_url);
        for example in about.examples {
            say!("  example   {example}");
        }
        for (name, value) in capabilities(&about.capabilities) {
            say!("  {name:24} {value}");
        }
        for option in about.options {
            say!(
                "  ?{:23} {} (default {})",
                option.key,
                option.help,
                option.default
            );
        }
        say!("");
    }
    say!("every transport");
    for option in COMMON_OPTIONS {
        say!(
            "  ?{:23} {} (default {})",
            option.key,
            option.help,
            option.default
        );
    }
    for (scheme, feature) in registry.missing() {
        if !transports
            .iter()
            .any(|(schemes, _)| schemes.contains(&scheme))
        {
            say!("not compiled in: {scheme} (build with --features {feature})");
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn capabilities(can: &Capabilities) -> Vec<(&'static str, String)> {
    let yes = |value: bool| if value { "yes" } else { "no" }.to_owned();
    let acks = |scope: Option<AckScope>| match scope {
        None => "no".to_owned(),
        Some(AckScope::Nothing) => "yes, without acknowledgement".to_owned(),
        Some(AckScope::NextHop) => "acknowledged by the next hop".to_owned(),
        Some(AckScope::EndToEnd) => "acknowledged end to end".to_owned(),
    };
    let metadata = match (can.metadata, can.native_metadata) {
        (false, _) => "no",
        (true, true) => "by means of the protocol",
        (true, false) => "in the payload",
    };
    vec![
        ("at least once", acks(can.at_least_once)),
        ("exactly once", acks(can.exactly_once)),
        ("metadata", metadata.to_owned()),
        ("wildcards", yes(can.wildcards)),
        ("priority", yes(can.priority)),
        ("last message retained", yes(can.retained)),
        ("liveliness", yes(can.liveliness)),
        ("blocking subscribers", yes(can.block_on_receive)),
        ("schema check", yes(can.schema_check)),
        ("reconnects", yes(can.reconnects)),
        ("across processes", yes(can.cross_process)),
        (
            "largest payload",
            can.max_payload
                .map_or("memory".to_owned(), |bytes| format!("{bytes} B")),
        ),
    ]
}

//! Configuration, descriptions and addresses.

use std::collections::BTreeSet;

use transport_api::config::COMMON_OPTIONS;
use transport_api::{Capabilities, ErrorKind, TransportConfig};

use super::check::{Check, check};
use super::need;
use crate::fixture::FIRST;
use crate::scene::{CLOSE, Failure, Outcome, Scene, ensure, full, wait};
use crate::server::free_port;

pub(super) const CHECKS: &[Check] = &[
    check!(unknown_option_is_config_error, need::always),
    check!(every_documented_option_is_known, need::always),
    check!(about_matches_open, need::always),
    check!(info_names_what_runs, need::always),
    check!(secrets_absent_from_debug, need::address),
    check!(closed_port_is_connect_error, need::address),
    check!(unresolvable_host_is_connect_error, need::address),
];

/// Opens a configuration that is wrong; returns the error.
async fn fails(scene: &Scene, config: &TransportConfig) -> Outcome<transport_api::Error> {
    let what = format!("an error for {config}");
    match wait(&what, scene.factory.open(config)).await? {
        Err(error) => Ok(error),
        Ok(transport) => Err(Failure(format!("{config} was opened: {transport:?}"))),
    }
}

async fn unknown(scene: &Scene) -> Outcome<String> {
    let config = scene.config(FIRST).with_option("no_such_option", "1");
    let error = fails(scene, &config).await?;
    ensure!(
        error.kind() == ErrorKind::Config && error.to_string().contains("no_such_option"),
        "expected a `Config` error naming the option, got: {}",
        full(&error)
    );
    let checked = scene.factory.check(&config);
    ensure!(
        checked
            .as_ref()
            .is_err_and(|found| found.to_string() == error.to_string()),
        "`open` refuses {config} with `{error}`, but `check` gives {checked:?}"
    );
    Ok(error.to_string())
}

async fn unknown_option_is_config_error(scene: &Scene) -> Outcome {
    unknown(scene).await.map(drop)
}

async fn every_documented_option_is_known(scene: &Scene) -> Outcome {
    let text = unknown(scene).await?;
    let (_, list) = text
        .split_once("known: ")
        .ok_or_else(|| Failure(format!("no list of the known options in `{text}`")))?;
    let list = list.split(" (in the URL").next().unwrap_or_default();
    let known: BTreeSet<&str> = list.split(", ").collect();
    let about = scene.factory.about();
    let keys = about.options.iter().chain(COMMON_OPTIONS).map(|o| o.key);
    let documented: BTreeSet<&str> = keys.collect();
    ensure!(
        known == documented,
        "accepted but not documented: {:?}; documented but not accepted: {:?}",
        known.difference(&documented).collect::<Vec<_>>(),
        documented.difference(&known).collect::<Vec<_>>()
    );
    for option in about.options {
        ensure!(
            !option.help.is_empty() && !option.default.is_empty(),
            "option `{}` has no help or no default",
            option.key
        );
    }
    Ok(())
}

async fn about_matches_open(scene: &Scene) -> Outcome {
    let about = scene.factory.about();
    let schemes = scene.factory.schemes();
    for text in about.examples.iter().chain([&about.default_url]) {
        let config = TransportConfig::parse(text)?;
        ensure!(
            schemes.contains(&config.url().scheme()),
            "the example {text} is for none of {schemes:?}"
        );
        scene.factory.check(&config)?;
    }
    ensure!(
        !about.name.is_empty() && !about.summary.is_empty(),
        "{about:?} has no name or summary"
    );
    scene.factory.check(&scene.config(FIRST))?;
    let first = scene.open(FIRST).await?;
    let open = Capabilities {
        max_payload: about.capabilities.max_payload,
        ..first.capabilities()
    };
    // A fixture that chooses options may well change what is offered.
    ensure!(
        open == about.capabilities || !scene.config(FIRST).options().is_empty(),
        "announced {:?}, opened {:?}",
        about.capabilities,
        first.capabilities()
    );
    Ok(())
}

async fn info_names_what_runs(scene: &Scene) -> Outcome {
    let first = scene.open(FIRST).await?;
    let info = first.info();
    ensure!(
        info.scheme == scene.config(FIRST).url().scheme()
            && info.implementation == scene.factory.about().implementation
            && info.implementation.contains(|c: char| c.is_ascii_digit())
            && !info.endpoint.is_empty(),
        "{info:?}"
    );
    let limit = first.capabilities().max_payload;
    let shown = info
        .settings
        .iter()
        .find(|(key, _)| key == "max_payload")
        .map(|(_, value)| value.as_str());
    ensure!(
        shown == limit.map(|limit| limit.to_string()).as_deref(),
        "the limit is {limit:?} and the settings show {shown:?}"
    );
    Ok(())
}

async fn secrets_absent_from_debug(scene: &Scene) -> Outcome {
    const SECRET: &str = "hunter2";
    let first = scene.open(FIRST).await?;
    let config = scene.config("second");
    let mut url = config.url().clone();
    let written = url.set_username("somebody").is_ok() && url.set_password(Some(SECRET)).is_ok();
    ensure!(written, "{config} has no place for a password");
    let secret = config.with_url(url);
    // The other side may take it or not; either way the secret stays out of every text.
    let mut texts = vec![format!("{secret:?} {secret}")];
    match wait("an answer", scene.factory.open(&secret)).await? {
        Ok(transport) => {
            texts.push(format!("{transport:?} {:?}", transport.info()));
            wait("a close", transport.close(CLOSE)).await?;
        }
        Err(error) => texts.push(format!("{error:?} {}", full(&error))),
    }
    let mut url = secret.url().clone();
    let written = url.set_port(Some(free_port())).is_ok();
    ensure!(written, "{secret} has no place for a port");
    let error = fails(scene, &secret.with_url(url)).await?;
    texts.push(format!("{error:?} {}", full(&error)));
    for text in texts {
        ensure!(!text.contains(SECRET), "the password is in: {text}");
    }
    drop(first);
    Ok(())
}

async fn closed_port_is_connect_error(scene: &Scene) -> Outcome {
    let _first = scene.open(FIRST).await?;
    let config = scene.config("second");
    let mut url = config.url().clone();
    let port = free_port();
    let written = url.set_port(Some(port)).is_ok();
    ensure!(written, "{config} has no place for a port");
    let error = fails(scene, &config.with_url(url)).await?;
    ensure!(
        error.kind() == ErrorKind::Connect && full(&error).contains(&port.to_string()),
        "expected a `Connect` error naming port {port}, got: {}",
        full(&error)
    );
    Ok(())
}

async fn unresolvable_host_is_connect_error(scene: &Scene) -> Outcome {
    // Reserved: no resolver knows it.
    const HOST: &str = "no-such-host.invalid";
    let _first = scene.open(FIRST).await?;
    let config = scene.config("second");
    let mut url = config.url().clone();
    let written = url.set_host(Some(HOST)).is_ok();
    ensure!(written, "{config} has no place for a host");
    let error = fails(scene, &config.with_url(url)).await?;
    ensure!(
        error.kind() == ErrorKind::Connect && full(&error).contains(HOST),
        "expected a `Connect` error naming {HOST}, got: {}",
        full(&error)
    );
    Ok(())
}

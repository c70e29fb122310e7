//! TLS of the connections to a broker.

use std::error::Error as StdError;
use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use transport_api::{Error, ErrorKind, Result};

use crate::settings::Files;

/// Reads the files. Blocking: they are small and read once, before connecting.
pub(crate) fn config(files: &Files) -> Result<Arc<ClientConfig>> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::config("TLS protocol versions").with_source(error))?
        .with_root_certificates(roots(files.ca.as_deref())?);
    let mut config = match &files.identity {
        None => builder.with_no_client_auth(),
        Some((cert, key)) => {
            let chain = certificates("cert", cert)?;
            builder
                .with_client_auth_cert(chain, private_key(key)?)
                .map_err(|error| {
                    Error::config(format!(
                        "options `cert` = `{}` and `key` = `{}` do not fit together: {error}",
                        cert.display(),
                        key.display()
                    ))
                    .with_source(error)
                })?
        }
    };
    config.alpn_protocols = files
        .alpn
        .iter()
        .map(|name| name.as_bytes().to_vec())
        .collect();
    Ok(Arc::new(config))
}

fn roots(ca: Option<&Path>) -> Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    match ca {
        Some(path) => {
            for certificate in certificates("ca", path)? {
                roots.add(certificate).map_err(|error| {
                    Error::config(format!("option `ca` = `{}`: {error}", path.display()))
                        .with_source(error)
                })?;
            }
        }
        None => {
            let found = rustls_native_certs::load_native_certs();
            roots.add_parsable_certificates(found.certs);
            if roots.is_empty() {
                return Err(Error::config(
                    "this system has no root certificates; name a file with option `ca`",
                ));
            }
        }
    }
    Ok(roots)
}

fn read(option: &str, path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path).map_err(|error| {
        Error::config(format!("option `{option}` = `{}`: {error}", path.display()))
            .with_source(error)
    })
}

fn certificates(option: &str, path: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let pem = read(option, path)?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    match found {
        Ok(found) if !found.is_empty() => Ok(found),
        Ok(_) => Err(Error::config(format!(
            "option `{option}` = `{}` holds no certificate (PEM, `BEGIN CERTIFICATE`)",
            path.display()
        ))),
        Err(error) => Err(Error::config(format!(
            "option `{option}` = `{}`: {error}",
            path.display()
        ))
        .with_source(error)),
    }
}

fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>> {
    let pem = read("key", path)?;
    let text = String::from_utf8_lossy(&pem);
    if text.contains("BEGIN ENCRYPTED PRIVATE KEY") || text.contains("Proc-Type: 4,ENCRYPTED") {
        return Err(Error::config(format!(
            "option `key` = `{}` is encrypted, which is not supported; decrypt it, for example \
             with `openssl pkey`",
            path.display()
        )));
    }
    PrivateKeyDer::from_pem_slice(&pem).map_err(|error| {
        Error::config(format!(
            "option `key` = `{}` holds no private key (PEM; PKCS#8, PKCS#1 or SEC1): {error}",
            path.display()
        ))
        .with_source(error)
    })
}

/// The TLS error in a chain of causes.
pub(crate) fn cause(error: &(dyn StdError + 'static)) -> Option<String> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(error) = error.downcast_ref::<rustls::Error>() {
            return Some(error.to_string());
        }
        // An I/O error keeps what it wraps to itself; `source` would skip it.
        if let Some(inner) = error
            .downcast_ref::<std::io::Error>()
            .and_then(std::io::Error::get_ref)
        {
            next = Some(inner);
            continue;
        }
        next = error.source();
    }
    None
}

/// Whether `host` can be the name of a TLS server.
pub(crate) fn check_name(host: &str) -> Result<()> {
    rustls::pki_types::ServerName::try_from(host.to_owned())
        .map(drop)
        .map_err(|error| {
            Error::new(
                ErrorKind::Config,
                "connect",
                format!("host `{host}` cannot be a TLS server name: {error}"),
            )
        })
}

//! Which transports there are: an explicit list, without globals.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use serde::Serialize;

use crate::capability::Capabilities;
use crate::config::{OptionHelp, TransportConfig};
use crate::error::{Error, Result};
use crate::meeting::Meeting;
use crate::transport::Transport;

/// What a transport says of itself without being opened.
#[derive(Clone, Debug, Serialize)]
pub struct About {
    /// Name, such as `MQTT`.
    pub name: &'static str,
    /// Name and version of the library below.
    pub implementation: String,
    /// What it is, in one line.
    pub summary: &'static str,
    /// URL that works without anything else installed; the default of a demonstration.
    pub default_url: &'static str,
    /// Example URLs.
    pub examples: &'static [&'static str],
    /// What it can do when opened with defaults.
    pub capabilities: Capabilities,
    /// Its options, besides the common ones ([`crate::config::COMMON_OPTIONS`]).
    pub options: &'static [OptionHelp],
}

/// Opens transports of one or more URL schemes.
#[async_trait]
pub trait TransportFactory: Send + Sync + 'static {
    /// The URL schemes it serves.
    fn schemes(&self) -> &'static [&'static str];

    /// What it says of itself.
    fn about(&self) -> About;

    /// Looks for mistakes in the URL and the options. Touches no network; files that
    /// options name may be read.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Config`] naming the option and its value.
    fn check(&self, config: &TransportConfig) -> Result<()>;

    /// Opens a transport and resolves once it is connected. Not cancel-safe.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Config`] for what [`TransportFactory::check`] refuses, [`crate::ErrorKind::Connect`] or
    /// [`crate::ErrorKind::Auth`] if the other side cannot be reached or refuses.
    async fn open(&self, config: &TransportConfig) -> Result<Arc<dyn Transport>>;

    /// Addresses for two sides that want to meet by `config`; starts what they need if the URL asks
    /// for an embedded one. Not cancel-safe.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Config`], or the embedded part could not start.
    async fn meet(&self, config: &TransportConfig) -> Result<Meeting>;
}

/// The transports of a program, by URL scheme.
#[derive(Clone, Default)]
pub struct Registry {
    factories: BTreeMap<&'static str, Arc<dyn TransportFactory>>,
    absent: BTreeMap<&'static str, &'static str>,
}

impl Registry {
    /// Adds a transport.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Config`] if one of its schemes is taken; nothing is replaced.
    pub fn register(&mut self, factory: impl TransportFactory) -> Result<&mut Self> {
        let factory: Arc<dyn TransportFactory> = Arc::new(factory);
        if let Some(taken) = factory
            .schemes()
            .iter()
            .find(|s| self.factories.contains_key(*s))
        {
            return Err(Error::config(format!(
                "scheme `{taken}` is registered twice"
            )));
        }
        for &scheme in factory.schemes() {
            self.factories.insert(scheme, Arc::clone(&factory));
        }
        Ok(self)
    }

    /// Notes that `scheme` would come with the Cargo feature `feature`, for error texts.
    pub fn absent(&mut self, scheme: &'static str, feature: &'static str) -> &mut Self {
        self.absent.insert(scheme, feature);
        self
    }

    /// The factory for the scheme of `config`.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Config`] naming the schemes that are compiled in, and the feature that
    /// would bring the missing one.
    pub fn factory(&self, config: &TransportConfig) -> Result<&Arc<dyn TransportFactory>> {
        let scheme = config.url().scheme();
        self.factories.get(scheme).ok_or_else(|| {
            let built = self
                .factories
                .keys()
                .copied()
                .collect::<Vec<_>>()
                .join(", ");
            let hint = match self.absent.get(scheme) {
                Some(feature) => format!("; build with `--features {feature}` to get it"),
                None => String::new(),
            };
            Error::config(format!(
                "no transport for scheme `{scheme}`; built in: {built}{hint}"
            ))
        })
    }

    /// Looks for mistakes in a URL and its options.
    ///
    /// # Errors
    /// As [`Registry::factory`] and [`TransportFactory::check`].
    pub fn check(&self, config: &TransportConfig) -> Result<()> {
        self.factory(config)?.check(config)
    }

    /// Opens a transport.
    ///
    /// # Errors
    /// As [`Registry::factory`] and [`TransportFactory::open`].
    pub async fn open(&self, config: &TransportConfig) -> Result<Arc<dyn Transport>> {
        self.factory(config)?.open(config).await
    }

    /// Arranges a meeting.
    ///
    /// # Errors
    /// As [`Registry::factory`] and [`TransportFactory::meet`].
    pub async fn meet(&self, config: &TransportConfig) -> Result<Meeting> {
        self.factory(config)?.meet(config).await
    }

    /// The transports, each once, with their schemes.
    pub fn transports(&self) -> Vec<(&'static [&'static str], About)> {
        let mut seen = Vec::new();
        for (scheme, factory) in &self.factories {
            if factory.schemes().first() == Some(scheme) {
                seen.push((factory.schemes(), factory.about()));
            }
        }
        seen
    }

    /// Schemes that are not compiled in, with the feature that would bring each.
    pub fn missing(&self) -> impl Iterator<Item = (&'static str, &'static str)> + '_ {
        self.absent
            .iter()
            .map(|(scheme, feature)| (*scheme, *feature))
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.factories.keys()).finish()
    }
}

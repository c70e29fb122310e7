//! Opening transports by URL.

use std::sync::Arc;

use async_trait::async_trait;
use transport_api::config::DEFAULT_MAX_PAYLOAD;
use transport_api::{
    About, AckScope, Capabilities, Meeting, Result, Transport, TransportConfig, TransportFactory,
};

use crate::settings::{self, Settings};
use crate::transport::{IMPLEMENTATION, Mqtt};

/// Opens `mqtt://host:1883`, `mqtts://host:8883` and `mqtt:embedded`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Factory;

#[async_trait]
impl TransportFactory for Factory {
    fn schemes(&self) -> &'static [&'static str] {
        &["mqtt", "mqtts"]
    }

    fn about(&self) -> About {
        About {
            name: "MQTT",
            implementation: IMPLEMENTATION.to_owned(),
            summary: "MQTT 5 or 3.1.1 through a broker, embedded or elsewhere, with or without TLS",
            default_url: if cfg!(feature = "embedded-broker") {
                "mqtt:embedded"
            } else {
                "mqtt://127.0.0.1:1883"
            },
            examples: &[
                "mqtt:embedded",
                "mqtt:embedded?port=1883",
                "mqtt://user:password@host:1883?version=3.1.1",
                "mqtts://host:8883?ca=ca.pem&cert=client.pem&key=client.key",
            ],
            capabilities: Capabilities {
                at_least_once: Some(AckScope::NextHop),
                exactly_once: Some(AckScope::NextHop),
                native_metadata: true,
                metadata: true,
                wildcards: true,
                priority: false,
                retained: true,
                liveliness: true,
                block_on_receive: false,
                schema_check: true,
                reconnects: true,
                cross_process: true,
                max_payload: Some(DEFAULT_MAX_PAYLOAD),
            },
            options: settings::OPTIONS,
        }
    }

    fn check(&self, config: &TransportConfig) -> Result<()> {
        if settings::is_embedded(config) {
            settings::embedded(config)?;
            Settings::read(&settings::client(config, 1)?)?;
        } else {
            Settings::read(config)?;
        }
        Ok(())
    }

    async fn open(&self, config: &TransportConfig) -> Result<Arc<dyn Transport>> {
        if !settings::is_embedded(config) {
            let transport = Mqtt::open(Settings::read(config)?, None).await?;
            return Ok(Arc::new(transport));
        }
        let meeting = self.meet(config).await?;
        // The name was given to this transport, not to a meeting.
        let client = meeting.first.with_peer(config.peer().clone());
        let transport = Mqtt::open(Settings::read(&client)?, meeting.host).await?;
        Ok(Arc::new(transport))
    }

    #[cfg(feature = "embedded-broker")]
    async fn meet(&self, config: &TransportConfig) -> Result<Meeting> {
        if !settings::is_embedded(config) {
            return Ok(Meeting::external(config));
        }
        // What the clients will refuse is refused before anything runs.
        self.check(config)?;
        let options = settings::embedded(config)?;
        let broker = crate::broker::Broker::start(options).await?;
        let client = settings::client(config, broker.port())?;
        Ok(Meeting {
            first: client.clone(),
            second: client,
            placement: transport_api::Placement::Anywhere,
            host: Some(Box::new(broker)),
        })
    }

    #[cfg(not(feature = "embedded-broker"))]
    async fn meet(&self, config: &TransportConfig) -> Result<Meeting> {
        if settings::is_embedded(config) {
            return Err(transport_api::Error::config(
                "`mqtt:embedded` is not built in; build transport-mqtt with feature \
                 `embedded-broker`, or name a broker: `mqtt://host:1883`",
            ));
        }
        Ok(Meeting::external(config))
    }
}

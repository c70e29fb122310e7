//! What the client library reports, in terms of the contract.

use std::error::Error as StdError;

use rumqttc::v5::mqttbytes::v5::{ConnectReturnCode as Code5, DisconnectReasonCode};
use rumqttc::{ConnectReturnCode as Code3, v5};
use transport_api::{Error, ErrorKind};

use crate::settings::Settings;

/// Why a connection could not be made or ended.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) error: Error,
    /// Another client took our place.
    pub(crate) contested: bool,
    /// The broker sent a packet that is larger than we take; it would send it again.
    pub(crate) oversize: bool,
    /// The broker acknowledged a message with a reason that the client library does not know, for
    /// which it ends the connection.
    pub(crate) reason: Option<u8>,
}

impl Fault {
    pub(crate) fn new(kind: ErrorKind, settings: &Settings, what: impl std::fmt::Display) -> Self {
        let address = settings.address();
        Self {
            error: Error::new(kind, "connect", format!("broker {address}: {what}")),
            contested: false,
            oversize: false,
            reason: None,
        }
    }

    /// Of a connection or an attempt at one.
    pub(crate) fn of_v5(error: v5::ConnectionError, settings: &Settings) -> Self {
        use v5::mqttbytes::Error as Wire;
        use v5::{ConnectionError, StateError};
        let mut fault = match &error {
            ConnectionError::ConnectionRefused(code) => refused5(*code, settings),
            ConnectionError::MqttState(StateError::ServerDisconnect {
                reason_code: DisconnectReasonCode::SessionTakenOver,
                ..
            }) => {
                let mut fault = Self::new(
                    ErrorKind::Disconnected,
                    settings,
                    format!(
                        "client id `{}` is in use elsewhere; give each client an id of its own",
                        settings.client_id
                    ),
                );
                fault.contested = true;
                fault
            }
            ConnectionError::MqttState(StateError::Deserialization(
                Wire::PayloadSizeLimitExceeded { pkt_size, max },
            )) => too_large(*pkt_size, *max as usize, settings),
            ConnectionError::MqttState(StateError::Deserialization(
                Wire::InvalidConnectReturnCode(code),
            )) => {
                let mut fault = Self::new(
                    ErrorKind::Backend,
                    settings,
                    format!("acknowledged a message with reason 0x{code:02x}"),
                );
                fault.reason = Some(*code);
                fault
            }
            // The library does not name the cause of these as such.
            ConnectionError::MqttState(StateError::Deserialization(Wire::Io(cause))) => {
                of_cause(cause, settings)
            }
            other => of_cause(other, settings),
        };
        fault.error = fault.error.with_source(error);
        fault
    }

    /// Of a connection or an attempt at one.
    pub(crate) fn of_v3(error: rumqttc::ConnectionError, settings: &Settings) -> Self {
        use rumqttc::mqttbytes::Error as Wire;
        use rumqttc::{ConnectionError, StateError};
        let mut fault = match &error {
            ConnectionError::ConnectionRefused(code) => refused3(*code, settings),
            ConnectionError::MqttState(StateError::Deserialization(
                Wire::PayloadSizeLimitExceeded(size),
            )) => too_large(*size, settings.max_packet(), settings),
            ConnectionError::MqttState(StateError::Deserialization(Wire::Io(cause))) => {
                of_cause(cause, settings)
            }
            other => of_cause(other, settings),
        };
        fault.error = fault.error.with_source(error);
        fault
    }

    /// The connection was made and lost again, several times, without a word from the broker.
    pub(crate) fn perhaps_contested(mut self, settings: &Settings, times: u32) -> Self {
        let message = format!(
            "{}; the {times} last connections ended right after they were made: client id `{}` may \
             be in use elsewhere",
            self.error.message(),
            settings.client_id
        );
        self.error = Error::new(self.error.kind(), "connect", message).with_source(self.error);
        self
    }
}

fn refused5(code: Code5, settings: &Settings) -> Fault {
    match code {
        Code5::BadUserNamePassword
        | Code5::NotAuthorized
        | Code5::Banned
        | Code5::BadAuthenticationMethod => login(format!("{code:?}"), settings),
        Code5::RefusedProtocolVersion | Code5::UnsupportedProtocolVersion => Fault::new(
            ErrorKind::Unsupported,
            settings,
            "it does not speak MQTT 5; use `version=3.1.1`",
        ),
        _ => Fault::new(ErrorKind::Connect, settings, format!("refused: {code:?}")),
    }
}

fn refused3(code: Code3, settings: &Settings) -> Fault {
    match code {
        Code3::BadUserNamePassword | Code3::NotAuthorized => login(format!("{code:?}"), settings),
        _ => Fault::new(ErrorKind::Connect, settings, format!("refused: {code:?}")),
    }
}

fn login(code: String, settings: &Settings) -> Fault {
    let user = match &settings.login {
        Some((user, _)) => format!("user `{user}`"),
        None => "a client without user name".to_owned(),
    };
    Fault::new(ErrorKind::Auth, settings, format!("refuses {user}: {code}"))
}

fn too_large(size: usize, limit: usize, settings: &Settings) -> Fault {
    let mut fault = Fault::new(
        ErrorKind::TooLarge,
        settings,
        format!("sent a packet of {size} B, above the limit of {limit} B; raise `max_payload`"),
    );
    fault.oversize = true;
    fault
}

/// A fault that only its chain of causes tells.
fn of_cause(error: &(dyn StdError + 'static), settings: &Settings) -> Fault {
    #[cfg(feature = "tls")]
    if let Some(cause) = crate::tls::cause(error) {
        return Fault::new(ErrorKind::Auth, settings, format!("TLS: {cause}"));
    }
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let inner_text = inner.to_string();
        if !text.contains(&inner_text) {
            text = format!("{text}: {inner_text}");
        }
        cause = inner.source();
    }
    Fault::new(ErrorKind::Connect, settings, text)
}

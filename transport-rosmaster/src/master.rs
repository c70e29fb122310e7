//! The master, as a node sees it.

use std::collections::BTreeMap;
use std::time::Duration;

use dxr::Value;

use crate::address::Endpoint;
use crate::http::{CallError, Caller};
use crate::xmlrpc::{items, text, texts};

/// Publishing or subscribing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Role {
    Publisher,
    Subscriber,
}

/// What the master knows: the nodes of each topic and service.
#[derive(Clone, Debug, Default)]
pub(crate) struct SystemState {
    pub(crate) publishers: BTreeMap<String, Vec<String>>,
    pub(crate) subscribers: BTreeMap<String, Vec<String>>,
    pub(crate) services: BTreeMap<String, Vec<String>>,
}

impl SystemState {
    /// The nodes in `role` for `topic`.
    pub(crate) fn nodes(&self, role: Role, topic: &str) -> &[String] {
        let topics = match role {
            Role::Publisher => &self.publishers,
            Role::Subscriber => &self.subscribers,
        };
        topics.get(topic).map_or(&[], Vec::as_slice)
    }

    fn read(value: &Value) -> Self {
        let mut lists = items(value).iter().map(|list| {
            let entry = |entry: &Value| {
                let parts = items(entry);
                let name = text(parts.first())?.to_owned();
                Some((name, parts.get(1).map(texts).unwrap_or_default()))
            };
            items(list).iter().filter_map(entry).collect()
        });
        let mut next = || lists.next().unwrap_or_default();
        Self {
            publishers: next(),
            subscribers: next(),
            services: next(),
        }
    }
}

/// The master's API, called in the name of one node.
#[derive(Debug)]
pub(crate) struct Master {
    caller: Caller,
    node: String,
}

impl Master {
    pub(crate) fn new(endpoint: Endpoint, node: &str, timeout: Duration) -> Self {
        Self {
            caller: Caller::new(endpoint, timeout),
            node: node.to_owned(),
        }
    }

    pub(crate) fn endpoint(&self) -> &Endpoint {
        self.caller.endpoint()
    }

    async fn call(&self, method: &str, params: &[&str]) -> Result<Value, CallError> {
        let params = [self.node.as_str()]
            .iter()
            .chain(params)
            .map(|text| Value::String((*text).to_owned()))
            .collect();
        self.caller.call(method, params).await
    }

    /// Registers the node, which is called at `uri`, for a topic. Returns the addresses of the
    /// nodes in the other role.
    pub(crate) async fn register(
        &self,
        role: Role,
        topic: &str,
        kind: &str,
        uri: &str,
    ) -> Result<Vec<String>, CallError> {
        let method = match role {
            Role::Publisher => "registerPublisher",
            Role::Subscriber => "registerSubscriber",
        };
        let others = self.call(method, &[topic, kind, uri]).await?;
        Ok(texts(&others))
    }

    pub(crate) async fn unregister(
        &self,
        role: Role,
        topic: &str,
        uri: &str,
    ) -> Result<(), CallError> {
        let method = match role {
            Role::Publisher => "unregisterPublisher",
            Role::Subscriber => "unregisterSubscriber",
        };
        self.call(method, &[topic, uri]).await.map(|_| ())
    }

    pub(crate) async fn system_state(&self) -> Result<SystemState, CallError> {
        let state = self.call("getSystemState", &[]).await?;
        Ok(SystemState::read(&state))
    }

    /// The address of a node.
    pub(crate) async fn lookup_node(&self, node: &str) -> Result<String, CallError> {
        let uri = self.call("lookupNode", &[node]).await?;
        text(Some(&uri))
            .map(str::to_owned)
            .ok_or_else(|| CallError::Answer(format!("no address of node {node}")))
    }
}

//! The API that a node offers to the master and to other nodes.

use std::sync::{Arc, Weak};

use dxr::Value;

use crate::http::Responder;
use crate::name;
use crate::node::Node;
use crate::subscription::Stage;
use crate::xmlrpc::{Reply, items, text, texts};

/// Answers for one node.
#[derive(Debug)]
pub(crate) struct Slave {
    /// The node owns the server that owns this.
    node: Weak<Node>,
}

impl Slave {
    pub(crate) fn new(node: &Arc<Node>) -> Self {
        Self {
            node: Arc::downgrade(node),
        }
    }
}

impl Responder for Slave {
    async fn respond(&self, method: &str, params: Vec<Value>) -> Option<Reply> {
        let Some(node) = self.node.upgrade() else {
            return Some(Reply::failure("the node is closed"));
        };
        let param = |at: usize| text(params.get(at));
        let reply = match method {
            "getPid" => Reply::success("", Value::Integer(std::process::id() as i32)),
            "getMasterUri" => Reply::success("", Value::String(node.master().endpoint().uri())),
            "getBusStats" => Reply::success("", bus_stats(&node)),
            "getBusInfo" => Reply::success("bus info", bus_info(&node)),
            "getSubscriptions" => {
                let topics = node.subscriptions();
                let pairs = topics.iter().map(|subscription| {
                    pair(&name::topic(&subscription.topic), &subscription.kind)
                });
                Reply::success("subscriptions", Value::Array(pairs.collect()))
            }
            "getPublications" => {
                let topics = node.publications();
                let pairs = topics.iter().map(|publication| {
                    pair(&name::topic(&publication.topic), &publication.kind.name)
                });
                Reply::success("publications", Value::Array(pairs.collect()))
            }
            // We read no parameters, so there is nothing to update.
            "paramUpdate" => Reply::success("", Value::Integer(0)),
            "publisherUpdate" => match (param(1), params.get(2)) {
                (Some(topic), Some(uris)) => {
                    if let Some(subscription) = node.subscription(topic) {
                        subscription.update(&node, &texts(uris));
                    }
                    Reply::success("", Value::Integer(0))
                }
                _ => Reply::error("publisherUpdate takes caller_id, topic, publishers"),
            },
            "requestTopic" => match (param(1), params.get(2)) {
                (Some(topic), Some(protocols)) => request_topic(&node, topic, protocols),
                _ => Reply::error("requestTopic takes caller_id, topic, protocols"),
            },
            "shutdown" => {
                // Also what the master tells a node whose name another one has taken: registering
                // again would start a fight.
                let reason = param(1).unwrap_or("no reason given");
                tracing::warn!(node = node.name(), reason, "told to shut down");
                node.shut_down(reason);
                Reply::success("shutdown", Value::Integer(0))
            }
            _ => return None,
        };
        Some(reply)
    }
}

fn request_topic(node: &Node, topic: &str, protocols: &Value) -> Reply {
    if node.publication(topic).is_none() {
        return Reply::failure(format!("{topic} is not published by {}", node.name()));
    }
    let offered = items(protocols);
    if !offered
        .iter()
        .any(|offer| text(items(offer).first()) == Some("TCPROS"))
    {
        return Reply::failure("only TCPROS is offered");
    }
    let (host, port) = node.data();
    let protocol = vec![
        Value::String("TCPROS".to_owned()),
        Value::String(host.to_owned()),
        Value::Integer(i32::from(port)),
    ];
    Reply::success(format!("ready on {host}:{port}"), Value::Array(protocol))
}

fn pair(topic: &str, kind: &str) -> Value {
    Value::Array(vec![
        Value::String(topic.to_owned()),
        Value::String(kind.to_owned()),
    ])
}

/// Connections: id, other side, direction, protocol, topic, whether it is connected.
fn bus_info(node: &Node) -> Value {
    let mut rows = Vec::new();
    let mut row = |other: &str, direction: &str, topic: &str, connected: bool| {
        rows.push(Value::Array(vec![
            Value::Integer(rows.len() as i32),
            Value::String(other.to_owned()),
            Value::String(direction.to_owned()),
            Value::String("TCPROS".to_owned()),
            Value::String(topic.to_owned()),
            Value::Boolean(connected),
        ]));
    };
    for publication in node.publications() {
        for subscriber in publication.subscribers() {
            row(&subscriber, "o", &name::topic(&publication.topic), true);
        }
    }
    for subscription in node.subscriptions() {
        for (publisher, stage) in subscription.stages() {
            let connected = stage == Stage::Connected;
            row(
                &publisher,
                "i",
                &name::topic(&subscription.topic),
                connected,
            );
        }
    }
    Value::Array(rows)
}

/// Topics without counts per connection: what we count, we count per publisher and subscriber.
fn bus_stats(node: &Node) -> Value {
    let empty = || Value::Array(Vec::new());
    let publish = node.publications().into_iter().map(|publication| {
        let topic = Value::String(name::topic(&publication.topic));
        Value::Array(vec![topic, Value::Integer(0), empty()])
    });
    let subscribe = node.subscriptions().into_iter().map(|subscription| {
        let topic = Value::String(name::topic(&subscription.topic));
        Value::Array(vec![topic, empty()])
    });
    Value::Array(vec![
        Value::Array(publish.collect()),
        Value::Array(subscribe.collect()),
        empty(),
    ])
}

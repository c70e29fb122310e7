//! What the embedded master knows, and what it tells whom when that changes.

use std::collections::BTreeMap;

use dxr::Value;

use crate::parameters::{Parameters, namespace, resolve};
use crate::xmlrpc::{Reply, array, text};

/// Most topics, services and watched parameters together; more are refused.
const NAMES: usize = 1 << 14;

/// Most nodes per topic.
const NODES: usize = 1 << 10;

/// Something to tell a node.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Notice {
    /// The node's address.
    pub(crate) api: String,
    pub(crate) method: &'static str,
    /// Topic or parameter; a newer notice about the same thing replaces an older one.
    pub(crate) subject: String,
    pub(crate) value: Value,
}

/// Nodes by name, with their address, of each topic or parameter.
type Members = BTreeMap<String, BTreeMap<String, String>>;

/// The state of a master.
#[derive(Debug)]
pub(crate) struct Registry {
    uri: String,
    publishers: Members,
    subscribers: Members,
    watchers: Members,
    services: BTreeMap<String, Service>,
    /// Of each topic that has a member.
    types: BTreeMap<String, String>,
    parameters: Parameters,
    notices: Vec<Notice>,
}

#[derive(Debug)]
struct Service {
    node: String,
    node_api: String,
    api: String,
}

/// A call whose parameters are texts.
struct Texts<'a>(&'a [Value]);

impl<'a> Texts<'a> {
    fn take<const N: usize>(&self) -> Result<[&'a str; N], Reply> {
        let mut texts = [""; N];
        for (at, slot) in texts.iter_mut().enumerate() {
            *slot = text(self.0.get(at))
                .ok_or_else(|| Reply::error(format!("parameter {at} is missing or not a text")))?;
        }
        Ok(texts)
    }
}

impl Registry {
    pub(crate) fn new(uri: String) -> Self {
        Self {
            uri,
            publishers: Members::new(),
            subscribers: Members::new(),
            watchers: Members::new(),
            services: BTreeMap::new(),
            types: BTreeMap::new(),
            parameters: Parameters::new(),
            notices: Vec::new(),
        }
    }

    /// Answers a call; `None` if there is no such method. What follows from it for other nodes is
    /// added to `notices`.
    pub(crate) fn call(
        &mut self,
        method: &str,
        params: &[Value],
        notices: &mut Vec<Notice>,
    ) -> Option<Reply> {
        let reply = self.dispatch(method, params)?;
        notices.append(&mut self.notices);
        Some(reply.unwrap_or_else(|refusal| refusal))
    }

    fn dispatch(&mut self, method: &str, params: &[Value]) -> Option<Result<Reply, Reply>> {
        let texts = Texts(params);
        Some(match method {
            "registerPublisher" => texts.take().map(|call| self.register_publisher(call)),
            "registerSubscriber" => texts.take().map(|call| self.register_subscriber(call)),
            "registerService" => texts.take().map(|call| self.register_service(call)),
            "unregisterPublisher" => texts.take().map(|[caller, topic, api]| {
                let topic = absolute(caller, topic);
                let left = leave(&mut self.publishers, &topic, caller, api);
                if left {
                    self.tell_subscribers(&topic);
                    self.forget_type(&topic);
                }
                count(left)
            }),
            "unregisterSubscriber" => texts.take().map(|[caller, topic, api]| {
                let topic = absolute(caller, topic);
                let left = leave(&mut self.subscribers, &topic, caller, api);
                if left {
                    self.forget_type(&topic);
                }
                count(left)
            }),
            "unregisterService" => texts.take().map(|[caller, service, api]| {
                let service = absolute(caller, service);
                let known = self
                    .services
                    .get(&service)
                    .is_some_and(|known| known.api == api);
                if known {
                    self.services.remove(&service);
                }
                count(known)
            }),
            "lookupNode" => {
                texts
                    .take()
                    .map(|[caller, node]| match self.node(&absolute(caller, node)) {
                        Some(api) => Reply::success("node api", Value::String(api)),
                        None => Reply::error(format!("unknown node {node}")),
                    })
            }
            "lookupService" => texts.take().map(|[caller, service]| {
                match self.services.get(&absolute(caller, service)) {
                    Some(known) => Reply::success("rosrpc uri", Value::String(known.api.clone())),
                    None => Reply::error(format!("unknown service {service}")),
                }
            }),
            "getSystemState" => Ok(Reply::success("current system state", self.system_state())),
            "getTopicTypes" => Ok(Reply::success("current topics", self.topic_types(|_| true))),
            "getPublishedTopics" => texts.take().map(|[_, subgraph]| {
                let prefix = format!("{}/", subgraph.trim_end_matches('/'));
                let published =
                    |topic: &str| topic.starts_with(&prefix) && self.publishers.contains_key(topic);
                Reply::success("current topics", self.topic_types(published))
            }),
            "getUri" => Ok(Reply::success("", Value::String(self.uri.clone()))),
            "getPid" => Ok(Reply::success(
                "",
                Value::Integer(std::process::id() as i32),
            )),
            _ => return self.parameter_call(method, params),
        })
    }

    fn parameter_call(&mut self, method: &str, params: &[Value]) -> Option<Result<Reply, Reply>> {
        let texts = Texts(params);
        let missing = |key: &str| Reply::error(format!("parameter [/{key}] is not set"));
        Some(match method {
            "getParam" => texts.take().map(|[caller, key]| {
                let key = resolve(caller, key);
                match self.parameters.get(&key) {
                    Some(value) => Reply::success(format!("parameter [/{key}]"), value),
                    None => missing(&key),
                }
            }),
            "hasParam" => texts.take().map(|[caller, key]| {
                let key = resolve(caller, key);
                let known = self.parameters.get(&key).is_some();
                Reply::success(format!("/{key}"), Value::Boolean(known))
            }),
            "setParam" => texts.take().map(|[caller, key]| {
                let key = resolve(caller, key);
                let Some(value) = params.get(2) else {
                    return Reply::error("parameter 2, the value, is missing");
                };
                if !self.parameters.set(&key, value.clone()) {
                    return Reply::error(format!("parameter [/{key}] cannot be set so"));
                }
                self.tell_watchers(&key);
                Reply::success(format!("parameter /{key} set"), Value::Integer(0))
            }),
            "deleteParam" => texts.take().map(|[caller, key]| {
                let key = resolve(caller, key);
                if !self.parameters.delete(&key) {
                    return missing(&key);
                }
                self.tell_watchers(&key);
                Reply::success(format!("parameter /{key} deleted"), Value::Integer(0))
            }),
            "searchParam" => {
                texts
                    .take()
                    .map(|[caller, key]| match self.parameters.search(caller, key) {
                        Some(found) => Reply::success("found", Value::String(found)),
                        None => Reply::error(format!("cannot find parameter [{key}]")),
                    })
            }
            "subscribeParam" => texts.take().map(|[caller, api, key]| {
                let key = resolve(caller, key);
                if !self.join(|registry| &mut registry.watchers, &key, caller, api) {
                    return full();
                }
                let empty = || Value::Struct(BTreeMap::new());
                let value = self.parameters.get(&key).unwrap_or_else(empty);
                Reply::success(format!("subscribed to parameter [/{key}]"), value)
            }),
            "unsubscribeParam" => texts.take().map(|[caller, api, key]| {
                count(leave(
                    &mut self.watchers,
                    &resolve(caller, key),
                    caller,
                    api,
                ))
            }),
            "getParamNames" => {
                let names = self.parameters.names();
                Ok(Reply::success(
                    "parameter names",
                    array(names.iter().map(String::as_str)),
                ))
            }
            _ => return None,
        })
    }

    fn register_publisher(&mut self, [caller, topic, kind, api]: [&str; 4]) -> Reply {
        let topic = absolute(caller, topic);
        if !self.join(|registry| &mut registry.publishers, &topic, caller, api) {
            return full();
        }
        if kind != "*" || !self.types.contains_key(&topic) {
            self.types.insert(topic.clone(), kind.to_owned());
        }
        self.tell_subscribers(&topic);
        let subscribers = members(&self.subscribers, &topic);
        Reply::success(
            format!("registered {caller} as publisher of {topic}"),
            subscribers,
        )
    }

    fn register_subscriber(&mut self, [caller, topic, kind, api]: [&str; 4]) -> Reply {
        let topic = absolute(caller, topic);
        if !self.join(|registry| &mut registry.subscribers, &topic, caller, api) {
            return full();
        }
        if kind != "*" {
            self.types
                .entry(topic.clone())
                .or_insert_with(|| kind.to_owned());
        }
        let publishers = members(&self.publishers, &topic);
        Reply::success(format!("subscribed to {topic}"), publishers)
    }

    fn register_service(&mut self, [caller, service, api, node_api]: [&str; 4]) -> Reply {
        let service = absolute(caller, service);
        self.displace(caller, node_api);
        if self.names() >= NAMES {
            return full();
        }
        let entry = Service {
            node: caller.to_owned(),
            node_api: node_api.to_owned(),
            api: api.to_owned(),
        };
        self.services.insert(service.clone(), entry);
        Reply::success(
            format!("registered {caller} as provider of {service}"),
            Value::Integer(1),
        )
    }

    fn names(&self) -> usize {
        let members = [&self.publishers, &self.subscribers, &self.watchers];
        let names: usize = members.iter().map(|members| members.len()).sum();
        names + self.services.len()
    }

    /// Adds a node; `false` if there is no room.
    fn join(
        &mut self,
        members: impl Fn(&mut Self) -> &mut Members,
        subject: &str,
        node: &str,
        api: &str,
    ) -> bool {
        self.displace(node, api);
        let names = self.names();
        let members = members(self);
        if names >= NAMES && !members.contains_key(subject) {
            return false;
        }
        let nodes = members.entry(subject.to_owned()).or_default();
        if nodes.len() >= NODES && !nodes.contains_key(node) {
            return false;
        }
        nodes.insert(node.to_owned(), api.to_owned());
        true
    }

    /// A node that registers from a new address takes the name over: the old one is told to end.
    fn displace(&mut self, node: &str, api: &str) {
        if let Some(old) = self.node(node).filter(|old| old != api) {
            self.remove(node);
            self.notices.push(Notice {
                api: old,
                method: "shutdown",
                subject: format!("[{node}] Reason: new node registered with same name"),
                value: Value::Integer(0),
            });
        }
    }

    /// The address of a node.
    fn node(&self, node: &str) -> Option<String> {
        let members = [&self.publishers, &self.subscribers, &self.watchers];
        let found = members
            .iter()
            .flat_map(|members| members.values())
            .find_map(|nodes| nodes.get(node));
        let serving = || self.services.values().find(|service| service.node == node);
        found
            .cloned()
            .or_else(|| serving().map(|service| service.node_api.clone()))
    }

    /// All nodes and their addresses.
    pub(crate) fn nodes(&self) -> BTreeMap<String, String> {
        let members = [&self.publishers, &self.subscribers, &self.watchers];
        let registered = members
            .into_iter()
            .flat_map(|members| members.values().flatten())
            .map(|(node, api)| (node.clone(), api.clone()));
        let serving = self.services.values();
        let serving = serving.map(|service| (service.node.clone(), service.node_api.clone()));
        registered.chain(serving).collect()
    }

    /// Removes a node that is gone, if it still has the address `api`.
    pub(crate) fn bury(&mut self, node: &str, api: &str, notices: &mut Vec<Notice>) {
        if self.node(node).as_deref() == Some(api) {
            self.remove(node);
            notices.append(&mut self.notices);
        }
    }

    fn remove(&mut self, node: &str) {
        let published: Vec<String> = self
            .publishers
            .iter()
            .filter(|(_, nodes)| nodes.contains_key(node))
            .map(|(topic, _)| topic.clone())
            .collect();
        for members in [
            &mut self.publishers,
            &mut self.subscribers,
            &mut self.watchers,
        ] {
            members.retain(|_, nodes| {
                nodes.remove(node);
                !nodes.is_empty()
            });
        }
        self.services.retain(|_, service| service.node != node);
        let (publishers, subscribers) = (&self.publishers, &self.subscribers);
        self.types
            .retain(|topic, _| publishers.contains_key(topic) || subscribers.contains_key(topic));
        for topic in published {
            self.tell_subscribers(&topic);
        }
    }

    /// A type goes with the last member of its topic.
    fn forget_type(&mut self, topic: &str) {
        if !self.publishers.contains_key(topic) && !self.subscribers.contains_key(topic) {
            self.types.remove(topic);
        }
    }

    fn tell_subscribers(&mut self, topic: &str) {
        let publishers = members(&self.publishers, topic);
        for api in self
            .subscribers
            .get(topic)
            .into_iter()
            .flat_map(BTreeMap::values)
        {
            self.notices.push(Notice {
                api: api.clone(),
                method: "publisherUpdate",
                subject: topic.to_owned(),
                value: publishers.clone(),
            });
        }
    }

    fn tell_watchers(&mut self, key: &str) {
        let empty = || Value::Struct(BTreeMap::new());
        for (watched, nodes) in &self.watchers {
            let (outer, inner) = (format!("{watched}/"), format!("{key}/"));
            if !inner.starts_with(&outer) && !outer.starts_with(&inner) {
                continue;
            }
            for api in nodes.values() {
                self.notices.push(Notice {
                    api: api.clone(),
                    method: "paramUpdate",
                    subject: format!("/{watched}"),
                    value: self.parameters.get(watched).unwrap_or_else(empty),
                });
            }
        }
    }

    fn system_state(&self) -> Value {
        let list = |members: &Members| {
            let entries = members.iter().map(|(name, nodes)| {
                let nodes = array(nodes.keys().map(String::as_str));
                Value::Array(vec![Value::String(name.clone()), nodes])
            });
            Value::Array(entries.collect())
        };
        let services = self.services.iter().map(|(name, service)| {
            let node = array([service.node.as_str()]);
            Value::Array(vec![Value::String(name.clone()), node])
        });
        Value::Array(vec![
            list(&self.publishers),
            list(&self.subscribers),
            Value::Array(services.collect()),
        ])
    }

    fn topic_types(&self, chosen: impl Fn(&str) -> bool) -> Value {
        let entries = self
            .types
            .iter()
            .filter(|(topic, _)| chosen(topic))
            .map(|(topic, kind)| array([topic.as_str(), kind.as_str()]));
        Value::Array(entries.collect())
    }
}

/// The absolute name that `name` means in a call of node `caller`.
fn absolute(caller: &str, name: &str) -> String {
    if name.starts_with('/') {
        return name.to_owned();
    }
    format!("{}/{name}", namespace(caller))
}

fn members(members: &Members, subject: &str) -> Value {
    array(
        members
            .get(subject)
            .into_iter()
            .flat_map(BTreeMap::values)
            .map(String::as_str),
    )
}

/// Takes a node away, if it is there with this address.
fn leave(members: &mut Members, subject: &str, node: &str, api: &str) -> bool {
    let Some(nodes) = members.get_mut(subject) else {
        return false;
    };
    let known = nodes.get(node).is_some_and(|known| known == api);
    if known {
        nodes.remove(node);
        if nodes.is_empty() {
            members.remove(subject);
        }
    }
    known
}

/// The answer of calls that take something away.
fn count(removed: bool) -> Reply {
    Reply::success("", Value::Integer(i32::from(removed)))
}

fn full() -> Reply {
    Reply::failure(format!(
        "the embedded master holds {NAMES} names of {NODES} nodes at most"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(registry: &mut Registry, method: &str, params: &[&str]) -> (Reply, Vec<Notice>) {
        let params: Vec<Value> = params
            .iter()
            .map(|p| Value::String((*p).to_owned()))
            .collect();
        let mut notices = Vec::new();
        let reply = registry.call(method, &params, &mut notices);
        (reply.unwrap(), notices)
    }

    #[test]
    fn subscribers_are_told_of_publishers_that_come_and_go() {
        let mut registry = Registry::new("http://m:1/".to_owned());
        let (reply, notices) = call(
            &mut registry,
            "registerSubscriber",
            &["/s", "/t", "a/B", "http://s:1/"],
        );
        assert_eq!(reply, Reply::success("subscribed to /t", array([])));
        assert!(notices.is_empty());
        let publish = ["/p", "/t", "a/B", "http://p:1/"];
        let (_, notices) = call(&mut registry, "registerPublisher", &publish);
        assert_eq!(notices[0].api, "http://s:1/");
        assert_eq!(notices[0].value, array(["http://p:1/"]));
        let (_, notices) = call(
            &mut registry,
            "unregisterPublisher",
            &["/p", "/t", "http://other:1/"],
        );
        assert!(notices.is_empty(), "another address is another node");
        let (_, notices) = call(
            &mut registry,
            "unregisterPublisher",
            &["/p", "/t", "http://p:1/"],
        );
        assert_eq!(notices[0].value, array([]));
    }

    #[test]
    fn a_node_that_returns_from_a_new_address_replaces_its_old_self() {
        let mut registry = Registry::new("http://m:1/".to_owned());
        call(
            &mut registry,
            "registerPublisher",
            &["/p", "/old", "a/B", "http://p:1/"],
        );
        let (_, notices) = call(
            &mut registry,
            "registerPublisher",
            &["/p", "/new", "a/B", "http://p:2/"],
        );
        assert_eq!(
            (notices[0].method, notices[0].api.as_str()),
            ("shutdown", "http://p:1/")
        );
        assert_eq!(registry.nodes().len(), 1);
        assert!(!registry.publishers.contains_key("/old"));
    }

    #[test]
    fn wrong_calls_are_answered_and_change_nothing() {
        let mut registry = Registry::new("http://m:1/".to_owned());
        let mut notices = Vec::new();
        assert_eq!(registry.call("noSuchMethod", &[], &mut notices), None);
        for method in [
            "registerPublisher",
            "getParam",
            "setParam",
            "subscribeParam",
        ] {
            for params in [&[][..], &[Value::Integer(1)][..]] {
                assert!(registry.call(method, params, &mut notices).is_some());
            }
        }
        assert!(notices.is_empty() && registry.nodes().is_empty());
    }

    #[test]
    fn the_number_of_names_is_limited() {
        let mut registry = Registry::new("http://m:1/".to_owned());
        for n in 0..NAMES {
            let topic = format!("/t{n}");
            let (_, kept) = call(
                &mut registry,
                "registerPublisher",
                &["/p", &topic, "a/B", "http://p:1/"],
            );
            assert!(kept.is_empty());
        }
        let (reply, _) = call(
            &mut registry,
            "registerPublisher",
            &["/p", "/more", "a/B", "http://p:1/"],
        );
        assert_eq!(reply, full());
    }

    #[test]
    fn topics_that_come_and_go_leave_nothing_behind() {
        let mut registry = Registry::new("http://m:1/".to_owned());
        let api = "http://n:1/";
        for n in 0..100 {
            let topic = format!("/t{n}");
            for role in ["Publisher", "Subscriber"] {
                let register = format!("register{role}");
                call(&mut registry, &register, &["/n", &topic, "a/B", api]);
            }
            assert_eq!(registry.types.len(), 1);
            for role in ["Publisher", "Subscriber"] {
                let unregister = format!("unregister{role}");
                call(&mut registry, &unregister, &["/n", &topic, api]);
            }
            assert!(registry.types.is_empty());
            // So do those of a node that ends without a word.
            call(
                &mut registry,
                "registerPublisher",
                &["/n", &topic, "a/B", api],
            );
            registry.bury("/n", api, &mut Vec::new());
            assert!(registry.types.is_empty());
        }
    }
}

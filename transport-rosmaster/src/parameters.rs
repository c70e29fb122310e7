//! The parameter tree of the embedded master.

use std::collections::BTreeMap;

use dxr::Value;

/// Deepest key, in segments.
const DEPTH: usize = 32;

/// A tree of named values; structs are its inner nodes.
#[derive(Debug)]
pub(crate) struct Parameters(BTreeMap<String, Value>);

/// The absolute key that `key` means in a call of node `caller`, without slashes at the ends.
pub(crate) fn resolve(caller: &str, key: &str) -> String {
    let absolute = match key.chars().next() {
        Some('/') => key.to_owned(),
        Some('~') => format!("{caller}/{}", &key[1..]),
        _ => format!("{}/{key}", namespace(caller)),
    };
    let segments: Vec<&str> = absolute.split('/').filter(|s| !s.is_empty()).collect();
    segments.join("/")
}

/// The namespace that holds `name`.
pub(crate) fn namespace(name: &str) -> &str {
    name.trim_end_matches('/')
        .rsplit_once('/')
        .map_or("", |(parent, _)| parent)
}

fn segments(key: &str) -> Vec<&str> {
    key.split('/')
        .filter(|segment| !segment.is_empty())
        .collect()
}

impl Parameters {
    /// What `roscore` sets before the first node comes.
    pub(crate) fn new() -> Self {
        let text = |text: &str| Value::String(text.to_owned());
        Self(BTreeMap::from([
            ("rosdistro".to_owned(), text("noetic\n")),
            ("rosversion".to_owned(), text("1.15.15\n")),
        ]))
    }

    /// The value at an absolute key; the root is the whole tree.
    pub(crate) fn get(&self, key: &str) -> Option<Value> {
        let mut at = &self.0;
        let path = segments(key);
        let Some((last, parents)) = path.split_last() else {
            return Some(Value::Struct(self.0.clone()));
        };
        for segment in parents {
            match at.get(*segment) {
                Some(Value::Struct(inner)) => at = inner,
                _ => return None,
            }
        }
        at.get(*last).cloned()
    }

    /// Sets a value; whatever is in the way gives way. `false` if the key is too deep, or the root
    /// would not be a tree.
    pub(crate) fn set(&mut self, key: &str, value: Value) -> bool {
        let path = segments(key);
        let Some((last, parents)) = path.split_last() else {
            let Value::Struct(tree) = value else {
                return false;
            };
            self.0 = tree;
            return true;
        };
        if path.len() > DEPTH {
            return false;
        }
        let mut at = &mut self.0;
        for segment in parents {
            let inner = at
                .entry((*segment).to_owned())
                .or_insert_with(|| Value::Struct(BTreeMap::new()));
            if !matches!(inner, Value::Struct(_)) {
                *inner = Value::Struct(BTreeMap::new());
            }
            let Value::Struct(next) = inner else {
                return false;
            };
            at = next;
        }
        at.insert((*last).to_owned(), value);
        true
    }

    /// Deletes a value and says whether there was one.
    pub(crate) fn delete(&mut self, key: &str) -> bool {
        let mut at = &mut self.0;
        let path = segments(key);
        let Some((last, parents)) = path.split_last() else {
            self.0.clear();
            return true;
        };
        for segment in parents {
            match at.get_mut(*segment) {
                Some(Value::Struct(inner)) => at = inner,
                _ => return false,
            }
        }
        at.remove(*last).is_some()
    }

    /// The nearest key on the way from `from` to the root under which the first segment of `key`
    /// exists, with the rest of `key` behind it.
    pub(crate) fn search(&self, from: &str, key: &str) -> Option<String> {
        let path = segments(key);
        let first = path.first()?;
        let mut place = from.trim_end_matches('/').to_owned();
        loop {
            if self.get(&format!("{place}/{first}")).is_some() {
                return Some(format!("{place}/{}", path.join("/")));
            }
            if place.is_empty() {
                return None;
            }
            place = namespace(&place).to_owned();
        }
    }

    /// The keys of all leaves.
    pub(crate) fn names(&self) -> Vec<String> {
        fn walk(prefix: &str, tree: &BTreeMap<String, Value>, names: &mut Vec<String>) {
            for (key, value) in tree {
                let name = format!("{prefix}/{key}");
                match value {
                    Value::Struct(inner) if !inner.is_empty() => walk(&name, inner, names),
                    _ => names.push(name),
                }
            }
        }
        let mut names = Vec::new();
        walk("", &self.0, &mut names);
        names
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_resolved_as_nodes_mean_them() {
        for (caller, key, expected) in [
            ("/ns/node", "/a", "a"),
            ("/ns/node", "a/b", "ns/a/b"),
            ("/ns/node", "~a", "ns/node/a"),
            ("/node", "a", "a"),
            ("", "//a//b/", "a/b"),
        ] {
            assert_eq!(resolve(caller, key), expected, "{caller} {key}");
        }
    }

    #[test]
    fn the_tree_behaves_as_that_of_a_master() {
        let mut tree = Parameters::new();
        assert!(tree.set("a/b/c", Value::Integer(1)));
        assert!(tree.set("a/d", Value::String(String::new())));
        assert_eq!(tree.get("a/b/c"), Some(Value::Integer(1)));
        assert_eq!(
            tree.names(),
            ["/a/b/c", "/a/d", "/rosdistro", "/rosversion"]
        );
        assert!(tree.set("a/b", Value::Integer(2)));
        assert_eq!(tree.get("a/b/c"), None);
        assert_eq!(tree.search("/a/x/y", "b/z"), Some("/a/b/z".to_owned()));
        assert_eq!(tree.search("/q", "b"), None);
        assert!(tree.delete("a/b") && !tree.delete("a/b") && !tree.delete("x/y"));
        assert!(!tree.set("", Value::Integer(1)));
        assert!(!tree.set(&"k/".repeat(DEPTH + 1), Value::Integer(1)));
    }
}

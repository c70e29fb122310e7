//! Settings from a TOML file and from the environment, read as strictly as the command line.
//!
//! A key of the file becomes the default of the option of the same name, so the command line and
//! the environment win over it.

use std::any::TypeId;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use clap::builder::ValueParser;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ArgAction, Command, CommandFactory};
use toml::Spanned;
use toml::de::{DeTable, DeValue};
use transport_api::config::suggest;

use crate::cli::Cli;
use crate::failure::Failure;

/// What the names of our environment variables begin with.
pub(crate) const PREFIX: &str = "ROUNDTRIP_";

/// Variables under our prefix that belong to the tests and not to an option.
const FOREIGN: [&str; 5] = [
    "ROUNDTRIP_CHROMIUM",
    "ROUNDTRIP_DATA",
    "ROUNDTRIP_MOSQUITTO",
    "ROUNDTRIP_ROSMASTER",
    "ROUNDTRIP_ZENOHD",
];

/// The command line with the settings file's values as defaults and `arguments` to parse.
///
/// # Errors
/// The file cannot be read, or it or the environment has an unknown or wrong setting.
pub(crate) fn configured_command(arguments: Vec<OsString>) -> Result<Configured, Failure> {
    let command = Cli::command();
    check_environment(&command, std::env::vars_os().map(|(name, _)| name))?;
    let path = file_argument(&arguments).or_else(|| {
        std::env::var_os("ROUNDTRIP_CONFIG")
            .filter(|path| !path.is_empty())
            .map(PathBuf::from)
    });
    let command = match path {
        None => command,
        Some(path) => {
            let text = std::fs::read_to_string(&path).map_err(|error| {
                Failure::usage(format!("settings file {}: {error}", path.display()))
            })?;
            with_file(command, &path, &text)?
        }
    };
    Ok(Configured { command, arguments })
}

/// A command line ready to be parsed.
pub(crate) struct Configured {
    command: Command,
    arguments: Vec<OsString>,
}

impl Configured {
    pub(crate) fn try_get_matches(self) -> Result<clap::ArgMatches, clap::Error> {
        self.command.try_get_matches_from(self.arguments)
    }
}

/// The value of `--config`, before the command line is parsed: the file decides about defaults.
fn file_argument(arguments: &[OsString]) -> Option<PathBuf> {
    let mut arguments = arguments.iter().map(OsString::as_os_str);
    while let Some(argument) = arguments.next() {
        if argument == OsStr::new("--config") {
            return arguments.next().map(PathBuf::from);
        }
        if let Some(path) = argument
            .to_str()
            .and_then(|text| text.strip_prefix("--config="))
        {
            return Some(PathBuf::from(path));
        }
    }
    None
}

fn check_environment(
    command: &Command,
    names: impl Iterator<Item = OsString>,
) -> Result<(), Failure> {
    let scopes = std::iter::once(command).chain(command.get_subcommands());
    let known: Vec<&str> = scopes
        .flat_map(Command::get_arguments)
        .filter_map(|arg| arg.get_env()?.to_str())
        .chain(FOREIGN)
        .collect();
    for name in names {
        let name = name.to_string_lossy();
        if name.starts_with(PREFIX) && !known.contains(&&*name) {
            let suggestion = suggest(&name, known);
            return Err(Failure::usage(format!(
                "environment variable {name} is unknown; {suggestion}"
            )));
        }
    }
    Ok(())
}

/// The environment variable that an error of the command line is about, if the option was not given
/// on it: the error's own text names the option only.
pub(crate) fn blamed_variable(error: &clap::Error) -> Option<String> {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text),
        _ => None,
    };
    let option = text(ContextKind::InvalidArg)?.split([' ', '=']).next()?;
    let value = text(ContextKind::InvalidValue)?;
    let given = |argument: OsString| {
        argument
            .to_string_lossy()
            .split('=')
            .next()
            .is_some_and(|name| name == option)
    };
    if std::env::args_os().any(given) {
        return None;
    }
    let command = Cli::command();
    let mut arguments = std::iter::once(&command)
        .chain(command.get_subcommands())
        .flat_map(Command::get_arguments);
    let name = option.strip_prefix("--")?;
    let variable = arguments
        .find(|arg| arg.get_long() == Some(name))?
        .get_env()?;
    (std::env::var_os(variable)? == OsStr::new(value))
        .then(|| variable.to_string_lossy().into_owned())
}

fn with_file(mut command: Command, path: &Path, text: &str) -> Result<Command, Failure> {
    let at = |offset: usize| {
        let line = text
            .as_bytes()
            .iter()
            .take(offset)
            .filter(|byte| **byte == b'\n')
            .count()
            + 1;
        format!("{}:{line}", path.display())
    };
    let table = DeTable::parse(text).map_err(|error| {
        let place = error
            .span()
            .map_or(path.display().to_string(), |span| at(span.start));
        Failure::usage(format!("{place}: {}", error.message()))
    })?;
    let names: Vec<String> = command
        .get_subcommands()
        .map(|c| c.get_name().to_owned())
        .collect();
    for (key, value) in table.into_inner() {
        let place = at(key.span().start);
        match value.get_ref() {
            DeValue::Table(inner) => {
                let scope = key.get_ref().as_ref();
                if !names.iter().any(|name| name == scope) {
                    let suggestion = suggest(scope, names.iter().map(String::as_str));
                    return Err(Failure::usage(format!(
                        "{place}: no command `{scope}`; {suggestion}"
                    )));
                }
                for (key, value) in inner {
                    let place = at(key.span().start);
                    command = set(command, &[scope], key.get_ref(), value, &place)?;
                }
            }
            _ => {
                let scopes: Vec<&str> = names.iter().map(String::as_str).collect();
                command = set(command, &scopes, key.get_ref(), &value, &place)?;
            }
        }
    }
    Ok(command)
}

/// Makes `value` the default of option `key` in every command of `scopes` that has it.
fn set(
    mut command: Command,
    scopes: &[&str],
    key: &str,
    value: &Spanned<DeValue<'_>>,
    place: &str,
) -> Result<Command, Failure> {
    let arg = |scope: &str| {
        command
            .find_subcommand(scope)
            .and_then(|scope| option(scope, key))
    };
    let takes_list =
        |scope: &&str| arg(scope).is_some_and(|arg| matches!(arg.get_action(), ArgAction::Append));
    let is_list = matches!(value.get_ref(), DeValue::Array(_));
    let mut owners: Vec<&str> = scopes
        .iter()
        .copied()
        .filter(|s| arg(s).is_some())
        .collect();
    if is_list && owners.iter().any(takes_list) {
        // A list of transports is for the command that compares several.
        owners.retain(takes_list);
    }
    if owners.is_empty() {
        let inside = scopes
            .iter()
            .filter_map(|scope| command.find_subcommand(scope));
        let known = inside
            .flat_map(Command::get_arguments)
            .filter(|arg| !arg.is_hide_set());
        let suggestion = suggest(key, known.filter_map(Arg::get_long));
        return Err(Failure::usage(format!(
            "{place}: unknown key `{key}`; {suggestion}"
        )));
    }
    for scope in owners {
        let target = command
            .find_subcommand(scope)
            .and_then(|scope| option(scope, key));
        let Some(target) = target else { continue };
        let id = target.get_id().clone();
        let values = texts(target, value.get_ref())
            .map_err(|wanted| Failure::usage(format!("{place}: key `{key}`: give {wanted}")))?;
        check(&command, scope, key, target, &values)
            .map_err(|error| Failure::usage(format!("{place}: key `{key}`: {error}")))?;
        let defaults = move |arg: Arg| arg.default_values(values.clone());
        if scope == "run" {
            command = command.mut_arg(&id, &defaults);
        }
        command = command.mut_subcommand(scope, |scope| scope.mut_arg(&id, defaults));
    }
    Ok(command)
}

fn option<'a>(command: &'a Command, key: &str) -> Option<&'a Arg> {
    command
        .get_arguments()
        .find(|arg| arg.get_long() == Some(key) && !arg.is_hide_set())
}

/// The file's value as the command line would write it; the error says which type is wanted.
fn texts(arg: &Arg, value: &DeValue<'_>) -> Result<Vec<String>, &'static str> {
    let many = matches!(arg.get_action(), ArgAction::Append);
    match (arg.get_action(), value) {
        (ArgAction::SetTrue, DeValue::Boolean(flag)) => Ok(vec![flag.to_string()]),
        (ArgAction::SetTrue, _) => Err("`true` or `false`"),
        (_, DeValue::Array(values)) if many => {
            let texts = values.iter().map(|value| scalar(arg, value.get_ref()));
            texts.collect()
        }
        _ => scalar(arg, value).map(|text| vec![text]),
    }
}

fn scalar(arg: &Arg, value: &DeValue<'_>) -> Result<String, &'static str> {
    let is = |types: &[TypeId]| {
        let parser: &ValueParser = arg.get_value_parser();
        types.iter().any(|id| parser.type_id() == *id)
    };
    let whole = [
        TypeId::of::<u64>(),
        TypeId::of::<i64>(),
        TypeId::of::<usize>(),
        TypeId::of::<u8>(),
    ];
    match value {
        DeValue::Integer(number) if is(&whole) || is(&[TypeId::of::<f64>()]) => {
            Ok(number.as_str().to_owned())
        }
        DeValue::Float(number) if is(&[TypeId::of::<f64>()]) => Ok(number.as_str().to_owned()),
        DeValue::String(text) if !is(&whole) && !is(&[TypeId::of::<f64>()]) => {
            Ok(text.as_ref().to_owned())
        }
        _ if is(&whole) => Err("a whole number"),
        _ if is(&[TypeId::of::<f64>()]) => Err("a number"),
        _ => Err("a text in quotes"),
    }
}

/// Lets clap judge the values as it would on the command line.
fn check(
    command: &Command,
    scope: &str,
    key: &str,
    arg: &Arg,
    values: &[String],
) -> Result<(), String> {
    if matches!(arg.get_action(), ArgAction::SetTrue) {
        return Ok(());
    }
    let options = values.iter().map(|value| format!("--{key}={value}"));
    let line = ["roundtrip".to_owned(), scope.to_owned()]
        .into_iter()
        .chain(options);
    match command.clone().try_get_matches_from(line) {
        Err(error)
            if matches!(
                error.kind(),
                ErrorKind::InvalidValue | ErrorKind::ValueValidation
            ) =>
        {
            let text = error.to_string();
            let first = text.lines().next().unwrap_or_default();
            Err(first.trim_start_matches("error: ").to_owned())
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{self, Cli};
    use clap::FromArgMatches;

    fn parse(text: &str, line: &[&str]) -> Result<Cli, String> {
        let command = with_file(Cli::command(), Path::new("rt.toml"), text)
            .map_err(|failure| failure.to_string())?;
        let line = std::iter::once("roundtrip").chain(line.iter().copied());
        let matches = command
            .try_get_matches_from(line)
            .map_err(|error| error.to_string())?;
        Cli::from_arg_matches(&matches).map_err(|error| error.to_string())
    }

    #[test]
    fn the_command_line_beats_the_file() {
        let text = "rate = 20\ntransport = [\"local:a\", \"local:b\"]\n[vehicle]\nrate = 5.5\n";
        let cli = parse(text, &[]).unwrap();
        assert_eq!((cli.run.load.rate(), cli.run.transports.len()), (20.0, 2));
        let Some(cli::Command::Vehicle(vehicle)) =
            parse("rate = 20\n[vehicle]\nrate = 5.5\n", &["vehicle"])
                .unwrap()
                .command
        else {
            panic!("not the vehicle");
        };
        assert_eq!(vehicle.load.rate(), 5.5);
        assert_eq!(parse(text, &["--rate", "7"]).unwrap().run.load.rate(), 7.0);
    }

    #[test]
    fn every_mistake_names_file_line_and_key() {
        for (text, expected) in [
            (
                "\nrat = 20",
                "rt.toml:2: unknown key `rat`; did you mean `rate`?",
            ),
            (
                "[vehicel]\nrate = 1",
                "rt.toml:1: no command `vehicel`; did you mean `vehicle`?",
            ),
            ("[edge]\nrate = 1", "rt.toml:2: unknown key `rate`"),
            ("rate = \"20\"", "rt.toml:1: key `rate`: give a number"),
            (
                "source = 42",
                "rt.toml:1: key `source`: give a text in quotes",
            ),
            ("full = 1", "rt.toml:1: key `full`: give `true` or `false`"),
            (
                "samples = -1",
                "rt.toml:1: key `samples`: invalid value '-1'",
            ),
            (
                "qos = \"best\"",
                "rt.toml:1: key `qos`: invalid value 'best'",
            ),
            ("size = 101", "rt.toml:1: key `size`: invalid value '101'"),
            ("rate = 1\nrate = 2", "rt.toml:2: duplicate key"),
            ("rate = ", "rt.toml:1: "),
            ("supervised = true", "rt.toml:1: unknown key `supervised`"),
        ] {
            let error = parse(text, &[]).unwrap_err();
            assert!(error.contains(expected), "{text:?}: {error}");
        }
    }

    #[test]
    fn no_text_brings_the_reader_down() {
        let seed = "rate = 20\n[vehicle]\ntransport = [\"local:a\"]\nsize = 5 # \u{e4}\n";
        let mut state = 1u64;
        for _ in 0..2_000 {
            let mut bytes = seed.as_bytes().to_vec();
            for _ in 0..4 {
                state = state
                    .wrapping_mul(6364136223846793005)
                    .wrapping_add(1442695040888963407);
                let at = (state >> 33) as usize % bytes.len();
                match state >> 62 {
                    0 => bytes[at] = (state >> 20) as u8,
                    1 => bytes.truncate(at.max(1)),
                    2 => bytes.insert(at, (state >> 24) as u8),
                    _ => drop(bytes.remove(at.min(bytes.len() - 2))),
                }
                if bytes.len() < 2 {
                    bytes.extend_from_slice(b"a = 1");
                }
            }
            // Either it is read or the error names the file.
            let text = String::from_utf8_lossy(&bytes);
            if let Err(failure) = with_file(Cli::command(), Path::new("rt.toml"), &text) {
                assert!(failure.to_string().starts_with("rt.toml"), "{failure}");
            }
        }
    }

    #[test]
    fn a_misspelt_variable_under_our_prefix_is_refused() {
        let command = Cli::command();
        let check = |name: &str| check_environment(&command, std::iter::once(name.into()));
        assert!(check("ROUNDTRIP_RATE").is_ok());
        assert!(check("ROUNDTRIP_DATA").is_ok());
        assert!(check("RATE").is_ok());
        let error = check("ROUNDTRIP_RAET").unwrap_err().to_string();
        assert!(error.contains("did you mean `ROUNDTRIP_RATE`?"), "{error}");
    }

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}

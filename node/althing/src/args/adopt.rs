//! `althing adopt`

use std::ffi::OsString;
use std::path::PathBuf;

use althing_fetch::Url;
use althing_td::Egress;
use clap::error::ErrorKind;
use clap::{CommandFactory as _, Parser as _};

use super::{Args, Command};

/// `althing adopt`
#[derive(Debug, Clone, clap::Args)]
pub struct Adopt {
    /// The address (http://…), or a program that speaks MCP on its standard input and output, with its arguments.
    #[arg(
        required_unless_present = "accept",
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "URL | COMMAND"
    )]
    pub what: Vec<String>,
    /// Adopt this agent again as it is now, and with what --read, --write, --reach and --sandbox say beside what its file says:
    /// shows what changed, and asks. With the digest that was shown (NAME@DIGEST) it does not ask.
    #[arg(
        long,
        value_name = "AGENT[@DIGEST]",
        conflicts_with_all = [
            "what", "as", "callers", "secret", "env", "allow", "thing", "all", "dry_run", "yes",
        ]
    )]
    pub accept: Option<String>,
    /// The agent's name here [default: from its card, its title, its address or its program].
    // An id of its own: the global `--name` would take the value.
    #[arg(long = "as", id = "as", value_name = "NAME")]
    pub agent: Option<String>,
    /// Who may call it and sees it: this-node, own, trusted or anyone.
    #[arg(long, default_value = "this-node", value_parser = ["this-node", "own", "trusted", "anyone"])]
    pub callers: String,
    /// The node's secret that is sent to the address: as a bearer token, or as the Thing's security says.
    #[arg(long, value_name = "NAME")]
    pub secret: Option<String>,
    /// A variable that the program is given: NAME=VALUE, or NAME with the value that it has here, which then stands in no list of
    /// processes; may be given more than once. The node stores the value as a secret.
    #[arg(long, value_name = "NAME[=VALUE]")]
    pub env: Vec<String>,
    /// A file or folder that the program may read, beside the folder in which this is run; may be given more than once.
    #[arg(long, value_name = "PATH")]
    pub read: Vec<PathBuf>,
    /// A file or folder that the program may write too, such as . for the folder in which this is run; may be given more than
    /// once.
    #[arg(long, value_name = "PATH")]
    pub write: Vec<PathBuf>,
    /// A host that the program may reach, such as api.example.org, api.example.org:8443 or *.example.org; may be given more than
    /// once.
    #[arg(long, value_name = "HOST")]
    pub reach: Vec<Egress>,
    /// Whether the program is contained: none, or required, so that it does not start where this machine cannot contain it
    /// [default: as well as this machine can].
    #[arg(long, value_name = "none | required", value_parser = ["none", "required"])]
    pub sandbox: Option<String>,
    /// Agree to what the program is found to need beyond that: it is started, granted what is offered of what it was refused, and
    /// started again, eight times at most. What was granted is shown.
    #[arg(long, conflicts_with = "yes")]
    pub grant_needs: bool,
    /// Ask nothing, and grant the program no more than this command line does.
    #[arg(long)]
    pub yes: bool,
    /// Another address that the forms of a Thing may lead to, such as http://192.0.2.7:8080; may be given more than once.
    #[arg(long, value_name = "ORIGIN", value_parser = origin)]
    pub allow: Vec<String>,
    /// Which Thing of a directory, by its id; may be given more than once.
    #[arg(long, value_name = "ID", conflicts_with = "all")]
    pub thing: Vec<String>,
    /// All Things of a directory, 64 at most.
    #[arg(long)]
    pub all: bool,
    /// Only show what was found, what would be published, and what the program needs beyond what it is granted.
    #[arg(long)]
    pub dry_run: bool,
    /// Whether an address came first, and other words after it.
    #[arg(skip)]
    pub address_first: bool,
}

impl Args {
    /// Reads the command line. Flags of `adopt` may stand after an address too; what follows a command is the command's.
    pub fn read(words: &[OsString]) -> Result<Args, clap::Error> {
        let args = Args::try_parse_from(words)?;
        if let Some(option) = misplaced(&args, words) {
            let message = format!(
                "{option}: options of `althing adopt` stand before the program; write -- before the program if its own \
                 option is meant"
            );
            return Err(Args::command().error(ErrorKind::ArgumentConflict, message));
        }
        let Some(words) = rearranged(&args, words) else { return Ok(args) };
        let mut args = Args::try_parse_from(words)?;
        if let Command::Adopt(adopt) = &mut args.command {
            adopt.address_first = true;
        }
        Ok(args)
    }

    /// Whether words that are no command line ask for JSON.
    pub fn want_json(words: &[OsString]) -> bool {
        words.iter().take_while(|word| *word != "--").any(|word| word == "--json")
    }
}

/// An option of `adopt` among the arguments of a program; none where `--` says that they are the program's own.
fn misplaced<T: PartialEq<str>>(args: &Args, words: &[T]) -> Option<String> {
    let Command::Adopt(Adopt { what, .. }) = &args.command else { return None };
    let (_, rest) = what.split_first().filter(|(first, _)| !is_address(first))?;
    let before = words.len().checked_sub(what.len() + 1)?;
    if words[before] == *"--" {
        return None;
    }
    let command = Args::command();
    let own = command.find_subcommand("adopt")?.get_arguments().filter_map(clap::Arg::get_long);
    // Programs have that option too, as in `npx --yes`.
    let own: Vec<&str> = own.filter(|option| *option != "yes").collect();
    let is_own = |word: &&String| {
        let option = word.strip_prefix("--").unwrap_or_default();
        own.contains(&option.split('=').next().unwrap_or_default())
    };
    rest.iter().take_while(|word| *word != "--").find(is_own).cloned()
}

/// The words with the address last, where flags stand after it.
fn rearranged<T: Clone + From<String>>(args: &Args, words: &[T]) -> Option<Vec<T>> {
    let Command::Adopt(Adopt { what, .. }) = &args.command else { return None };
    let (first, rest) = what.split_first().filter(|(first, rest)| is_address(first) && !rest.is_empty())?;
    let before = words.len().checked_sub(what.len())?;
    let rest = rest.iter().map(|word| T::from(word.clone()));
    Some(words[..before].iter().cloned().chain(rest).chain([T::from(first.clone())]).collect())
}

/// Whether a word is an address, and no program.
pub fn is_address(word: &str) -> bool {
    word.starts_with("http://") || word.starts_with("https://")
}

fn origin(text: &str) -> Result<String, String> {
    let url: Url = text.parse().map_err(|_| "write it like http://192.0.2.7:8080".to_owned())?;
    let plain = url.path() == "/" && url.query().is_none() && url.username().is_empty() && url.password().is_none();
    match url.scheme() {
        "http" | "https" if plain => Ok(url.origin().ascii_serialization()),
        _ => Err("write scheme, host and port, like http://192.0.2.7:8080".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn adopt(words: &str) -> Adopt {
        let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
        let args = Args::try_parse_from(&words).expect("words");
        let args = rearranged(&args, &words).map_or(args, |words| Args::try_parse_from(words).expect("words"));
        let Command::Adopt(adopt) = args.command else { panic!("adopt") };
        adopt
    }

    #[test]
    fn flags_may_stand_after_an_address_but_are_those_of_a_command() {
        let after = adopt("althing adopt --as lamp http://127.0.0.1:8080/lamp --dry-run --allow http://192.0.2.7:80/");
        assert_eq!((after.what.as_slice(), after.dry_run), (&["http://127.0.0.1:8080/lamp".to_owned()][..], true));
        assert_eq!(
            (after.agent.as_deref(), after.allow.as_slice()),
            (Some("lamp"), &["http://192.0.2.7".to_owned()][..])
        );
        let command = adopt("althing adopt server --dry-run http://192.0.2.7");
        assert!(command.what.len() == 3 && !command.dry_run);
        assert_eq!(adopt("althing adopt http://192.0.2.7 more").what, ["more", "http://192.0.2.7"]);
    }

    #[test]
    fn an_option_of_adopt_after_a_program_is_refused() {
        let misplaced = |words: &str| {
            let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
            super::misplaced(&Args::try_parse_from(&words).expect("words"), &words)
        };
        for option in
            ["--dry-run", "--callers own", "--callers=own", "--as x", "--secret k", "--env A=b", "--thing t", "--all"]
                .into_iter()
                .chain(["--read x", "--write x", "--reach a.b", "--sandbox none", "--grant-needs"])
        {
            let found = misplaced(&format!("althing adopt server arg {option}"));
            assert_eq!(found.as_deref(), option.split(' ').next(), "{option}");
            assert_eq!(misplaced(&format!("althing adopt -- server arg {option}")), None, "{option}");
        }
        for fine in [
            "--dry-run server --verbose",
            "server --config x -a",
            "npx --yes x",
            "server -- --all",
            "http://192.0.2.7 --dry-run",
        ] {
            assert_eq!(misplaced(&format!("althing adopt {fine}")), None, "{fine}");
        }
    }

    #[test]
    fn words_that_are_no_command_line_may_ask_for_json() {
        let asked = |words: &str| {
            let words: Vec<OsString> = words.split(' ').map(OsString::from).collect();
            (Args::read(&words).is_err(), Args::want_json(&words))
        };
        assert_eq!(asked("althing --json fnid"), (true, true));
        assert_eq!(asked("althing find --json --limit 0"), (true, true));
        assert_eq!(asked("althing --json adopt server --dry-run"), (true, true));
        assert_eq!(asked("althing fnid"), (true, false));
        assert_eq!(asked("althing adopt -- server --json"), (false, false));
    }

    #[test]
    fn what_a_program_may_reach_stands_before_it() {
        let flags = "--read . --read /srv --write ~/x --reach *.a.b:8443 --sandbox required";
        let adopt = adopt(&format!("althing adopt {flags} server arg"));
        assert_eq!((adopt.read.len(), adopt.write.len(), adopt.what.len()), (2, 1, 2));
        assert_eq!(adopt.reach[0].host, "*.a.b:8443");
        assert_eq!(adopt.sandbox.as_deref(), Some("required"));
        for wrong in ["--reach https://a.b server", "--reach * server", "--sandbox best server", "--accept x --yes"] {
            let words = format!("althing adopt {wrong}");
            assert!(Args::try_parse_from(words.split(' ')).is_err(), "{wrong}");
        }
        let again = "althing adopt --accept x --read y --write z --reach a.b --sandbox required --grant-needs";
        assert!(Args::try_parse_from(again.split(' ')).is_ok(), "it may be granted more later");
    }

    #[test]
    fn an_origin_has_no_path() {
        assert_eq!(origin("HTTP://Example.org:80"), Ok("http://example.org".to_owned()));
        for text in ["example.org", "http://a/b", "http://a?b", "http://u@a", "ftp://a"] {
            assert!(origin(text).is_err(), "{text}");
        }
    }
}

//! How commands fail: a sentence for people, a stable exit code for scripts.

use std::error::Error as _;
use std::num::{IntErrorKind, ParseIntError};
use std::path::Path;
use std::process::ExitCode;

use althing_api::{Kind, OutcomeDoubt, Problem};
use althing_client::{ClientError, InputError, NodeProcessError, plain};
use althing_contract_bench::BenchError;
use althing_demo::DemoError;
use althing_node::{NodeError, OwnerError};
use althing_operations::network_key::NetworkKeyFileError;
use althing_operations::{SecretError, TokenError};
use serde::Serialize;
use serde_json::{Value, json};

use crate::words;

/// Exit codes; they do not change.
pub mod code {
    use althing_api::Kind;

    /// The operation failed.
    pub const FAILED: u8 = Kind::Failed.exit_code();
    /// The command line or a file is wrong (clap's own code too).
    pub const USAGE: u8 = Kind::Invalid.exit_code();
    /// No node of that name runs.
    pub const NO_NODE: u8 = 3;
    /// No such agent, task or peer.
    pub const NOT_FOUND: u8 = Kind::NotFound.exit_code();
    /// The other side refused.
    pub const REFUSED: u8 = Kind::Refused.exit_code();
    /// The other side cannot be reached, or did not answer in time.
    pub const UNREACHABLE: u8 = Kind::Unreachable.exit_code();
    /// A measured goal was missed.
    pub const GOAL_MISSED: u8 = 8;
    /// A test is undecided.
    pub const UNDECIDED: u8 = althing_verification::machine::report::UNDECIDED_EXIT;
    /// Interrupted with Ctrl-C.
    pub const INTERRUPTED: u8 = 130;
}

/// Why a command failed.
#[derive(Debug)]
pub struct Failure {
    pub code: u8,
    pub message: String,
    /// What somebody was to agree to, as the node sent it; only scripts are given it.
    pub offer: Option<Box<Value>>,
    /// What may have been accepted all the same; the message says so too.
    pub unknown: Option<OutcomeDoubt>,
}

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Failure {
        let message = words::with_step(&problem.message, problem.remedy.as_deref());
        Failure { unknown: problem.unknown, ..Failure::new(problem.kind.exit_code(), message) }
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Failure {
        let code = match &error {
            ClientError::Problem(problem) => return problem.clone().into(),
            ClientError::NoNode { .. } | ClientError::Lost { .. } | ClientError::StreamLost(_) => code::NO_NODE,
            ClientError::TimedOut(_) => code::UNREACHABLE,
            ClientError::Status(_) | ClientError::Http(_) | ClientError::LineTooLong(_) | ClientError::Line(_) => {
                code::FAILED
            }
        };
        Failure::new(code, error.to_string())
    }
}

impl From<InputError> for Failure {
    fn from(error: InputError) -> Failure {
        Failure::usage(error.to_string())
    }
}

impl From<NodeProcessError> for Failure {
    fn from(error: NodeProcessError) -> Failure {
        Failure::failed(error.to_string())
    }
}

impl From<DemoError> for Failure {
    fn from(error: DemoError) -> Failure {
        match error {
            DemoError::NoChapter(_) | DemoError::Docs { .. } => Failure::usage(error.to_string()),
            DemoError::Interrupted => Failure::new(code::INTERRUPTED, error.to_string()),
            DemoError::Client(error) => error.into(),
            DemoError::Input(error) => error.into(),
            DemoError::Node(error) => error.into(),
            DemoError::Step { .. }
            | DemoError::Folder(_)
            | DemoError::Write { .. }
            | DemoError::Registry { .. }
            | DemoError::Unexpected(_) => Failure::failed(error.to_string()),
        }
    }
}

impl From<BenchError> for Failure {
    fn from(error: BenchError) -> Failure {
        match error {
            BenchError::GoalsMissed(_) => Failure::new(code::GOAL_MISSED, error.to_string()),
            BenchError::Client(error) => error.into(),
            BenchError::Input(error) => error.into(),
            BenchError::Node(error) => error.into(),
            BenchError::Write { .. } | BenchError::NotMeasured(_) => Failure::failed(error.to_string()),
        }
    }
}

impl From<NodeError> for Failure {
    fn from(error: NodeError) -> Failure {
        Problem::new(error.kind(), error.to_string()).with_remedy(error.remedy()).into()
    }
}

impl From<OwnerError> for Failure {
    fn from(error: OwnerError) -> Failure {
        Problem::new(error.kind(), error.to_string()).with_remedy(error.remedy()).into()
    }
}

impl From<SecretError> for Failure {
    fn from(error: SecretError) -> Failure {
        Problem::new(error.kind(), error.to_string()).with_remedy(error.remedy()).into()
    }
}

impl From<TokenError> for Failure {
    /// What the command line says is wrong with it, also what is missing or in the way: scripts know these by one code.
    fn from(error: TokenError) -> Failure {
        let code = if error.kind() == Kind::Failed { code::FAILED } else { code::USAGE };
        Failure { code, ..Problem::new(error.kind(), error.to_string()).with_remedy(error.remedy()).into() }
    }
}

impl From<NetworkKeyFileError> for Failure {
    fn from(error: NetworkKeyFileError) -> Failure {
        Problem::new(error.kind(), error.to_string()).with_remedy(error.remedy()).into()
    }
}

impl Failure {
    pub fn new(code: u8, message: impl Into<String>) -> Failure {
        Failure { code, message: message.into(), offer: None, unknown: None }
    }

    pub fn failed(message: impl Into<String>) -> Failure {
        Failure::new(code::FAILED, message)
    }

    pub fn usage(message: impl Into<String>) -> Failure {
        Failure::new(code::USAGE, message)
    }

    /// The same, with the file that is wrong, if one is.
    pub fn in_file(mut self, file: &Path) -> Failure {
        if self.code == code::USAGE {
            self.message = format!("{}: {}", file.display(), self.message);
        }
        self
    }

    /// The same, where that may have been accepted in the group of that id or name.
    pub fn with_unknown(mut self, group: &str, unknown: OutcomeDoubt) -> Failure {
        let sentence = format!("{}. {}", self.message, unknown.sentence());
        self.message = words::with_step(&sentence, Some(&unknown.remedy(group)));
        self.unknown = Some(unknown);
        self
    }

    /// The same, with what somebody was to agree to.
    pub fn offering(mut self, offer: &impl Serialize) -> Failure {
        self.offer = serde_json::to_value(offer).ok().map(Box::new);
        self
    }

    /// An outcome that was printed already: only the exit code is added.
    pub fn shown(code: u8) -> Failure {
        Failure::new(code, "")
    }

    /// Prints it to standard error, as JSON if requested; prints nothing if the outcome was printed already.
    pub fn print(&self, as_json: bool) {
        if self.message.is_empty() {
            return;
        }
        if as_json {
            let mut error = json!({ "exitCode": self.code, "message": self.message });
            if let Some(offer) = &self.offer {
                error["offer"] = (**offer).clone();
            }
            if let Some((what, id)) = self.unknown.as_ref().map(OutcomeDoubt::named) {
                error[what] = json!(id);
            }
            eprintln!("{}", json!({ "error": error }));
        } else {
            // It may contain text of a peer.
            eprintln!("althing: {}", plain(&self.message, &std::io::stderr()));
        }
    }
}

/// Says why a command line cannot be read, as JSON if requested. Help and versions, which clap takes for errors too, are
/// printed as they are.
pub fn misread(error: &clap::Error, as_json: bool) -> ExitCode {
    let of_number = no_number(error);
    if !error.use_stderr() || (!as_json && of_number.is_none()) {
        error.exit();
    }
    let said = of_number.unwrap_or_else(|| error.to_string().trim().to_owned());
    if !as_json {
        eprintln!("{said}");
        return ExitCode::from(code::USAGE);
    }
    let failure = Failure::usage(said.strip_prefix("error: ").unwrap_or(&said));
    failure.print(true);
    ExitCode::from(failure.code)
}

/// What is said of a command line where what should be a whole number is none; nothing where it fails otherwise.
fn no_number(error: &clap::Error) -> Option<String> {
    let cause = error.source()?.downcast_ref::<ParseIntError>()?;
    let wanted = match cause.kind() {
        IntErrorKind::PosOverflow => "a smaller number is wanted",
        IntErrorKind::NegOverflow => "a larger number is wanted",
        _ => "a whole number is wanted",
    };
    Some(error.to_string().trim().replace(&format!(": {cause}"), &format!(": {wanted}")))
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::args::Args;

    #[test]
    fn what_is_no_number_is_told_in_the_words_of_this_program() {
        for (line, told) in [
            ("althing test echo --cases f --runs x", "'x' for '--runs <N>': a whole number is wanted"),
            ("althing session resume 01a2 --again x", "'x' for '--again <N>': a whole number is wanted"),
            ("althing test echo --cases f --runs 99999999999999999999", "'--runs <N>': a smaller number is wanted"),
        ] {
            let error = Args::try_parse_from(line.split(' ')).expect_err("it is no number");
            assert!(no_number(&error).is_some_and(|said| said.contains(told)), "{error}");
        }
        for line in ["althing test echo --cases f --runs 0", "althing no-such-command"] {
            let error = Args::try_parse_from(line.split(' ')).expect_err("it is another mistake");
            assert_eq!(no_number(&error), None, "{error}");
        }
    }

    #[test]
    fn tokens_fail_with_the_codes_that_they_always_had() {
        let taken = Failure::from(TokenError::Exists("maria".to_owned()));
        let words = "there is a token of maria already; remove it first: `althing token remove maria`";
        assert_eq!((taken.code, taken.message.as_str()), (code::USAGE, words));
        let none = TokenError::None { name: "maria".to_owned(), there: Vec::new() };
        assert_eq!(Failure::from(none).code, code::USAGE);
        assert_eq!(Failure::from(TokenError::NoFolder).code, code::FAILED);
    }

    #[test]
    fn exit_codes_are_those_that_they_always_were() {
        let table = [
            (Kind::Failed, code::FAILED, 1),
            (Kind::Invalid, code::USAGE, 2),
            (Kind::NotFound, code::NOT_FOUND, 4),
            (Kind::Refused, code::REFUSED, 5),
            (Kind::Conflict, code::FAILED, 1),
            (Kind::Unreachable, code::UNREACHABLE, 6),
            (Kind::Busy, code::UNREACHABLE, 6),
            (Kind::NotYet, 7, 7),
        ];
        for (kind, named, wanted) in table {
            let problem = Problem::new(kind, "no");
            assert_eq!((Failure::from(problem).code, named), (wanted, wanted), "{kind:?}");
        }
        assert_eq!((code::NO_NODE, code::GOAL_MISSED, code::UNDECIDED, code::INTERRUPTED), (3, 8, 9, 130));
    }

    #[test]
    fn errors_of_leaves_have_their_exit_codes() {
        let code = |failure: Failure| failure.code;
        assert_eq!(code(BenchError::GoalsMissed(2).into()), 8);
        assert_eq!(code(DemoError::Interrupted.into()), 130);
        assert_eq!(code(DemoError::NoChapter("x".to_owned()).into()), 2);
        assert_eq!(code(ClientError::from(Problem::new(Kind::Refused, "no")).into()), 5);
        let unknown = OutcomeDoubt::Task("0a".to_owned());
        let unsure = Problem::new(Kind::Unreachable, "lost").with_unknown("team", unknown.clone());
        let unsure = Failure::from(ClientError::from(unsure));
        let told = "lost. The task 0a may have been accepted: `althing task show team 0a`";
        assert_eq!((unsure.code, unsure.message.as_str()), (6, told));
        assert_eq!(unsure.unknown, Some(unknown.clone()), "its id is not lost");
        assert_eq!(Failure::new(6, "lost").with_unknown("team", unknown).message, told, "as the node says it");
        let failed = Failure::from(BenchError::GoalsMissed(2));
        assert_eq!(failed.message, "goals that were missed: 2");
    }
}

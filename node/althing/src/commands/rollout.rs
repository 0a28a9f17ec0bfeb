//! `althing rollout`

use althing_api::{
    RolloutCases, RolloutLeftOut, RolloutOrder, RolloutRequest, RolloutShadow, RolloutSide, RolloutSignal,
    RolloutState, RolloutStatus, RolloutUnit, VersionStatus,
};
use althing_client::{ClientError, agent_file};
use althing_verification::machine::rollout::Plan;

use crate::args::{Rollout, RolloutArgs, RolloutBy, RolloutWork};
use crate::commands::agent::{changed, compared, escape};
use crate::commands::{Out, one_line, table, trial};
use crate::exit::{Failure, code};
use crate::paths::Paths;

/// Digits of a digest that are shown; `--json` has all.
const DIGEST_CHARS: usize = 12;
/// Behaviour that is less probable than this where a version fails as often heard as unheard is told.
const ALIKE_MIN: f64 = 0.01;

/// Begins a rollout, shows one, or ends it.
pub async fn run(at: &Paths, rollout: &Rollout, out: &Out) -> Result<(), Failure> {
    match &rollout.work {
        None => begin(at, &rollout.begin, out).await,
        Some(RolloutWork::Show { agent }) => {
            let status: RolloutStatus = at.connect().await?.read(&path(agent)).await?;
            out.show(&status, shown);
            Ok(())
        }
        Some(RolloutWork::Promote { agent }) => end(at, agent, RolloutSide::New, out).await,
        Some(RolloutWork::Abort { agent }) => end(at, agent, RolloutSide::Stable, out).await,
    }
}

async fn begin(at: &Paths, args: &RolloutArgs, out: &Out) -> Result<(), Failure> {
    let RolloutArgs { agent: Some(agent), to: Some(file), steps, by, shadow, with_cases, yes } = args else {
        let how = "name the agent, and the file of its new version: `althing rollout AGENT --to FILE`";
        return Err(Failure::usage(how));
    };
    // Before anybody is asked to agree to anything.
    Plan::check_steps(steps, *shadow).map_err(|error| Failure::usage(error.to_string()))?;
    let mut to = agent_file::read(file)?;
    let cases = with_cases.as_deref().map(trial::read_cases).transpose()?;
    let (client, path) = (at.connect().await?, path(agent));
    let changes = compared(&client, &format!("{path}/changes"), &mut to, (*yes, "begin"), out).await?;
    let by = match by {
        RolloutBy::Call => RolloutUnit::Call,
        RolloutBy::Caller => RolloutUnit::Caller,
        RolloutBy::Group => RolloutUnit::Group,
        RolloutBy::Channel => RolloutUnit::Channel,
    };
    let request = RolloutRequest { to, steps: steps.clone(), by, shadow: *shadow, cases };
    let status = begun(client.ask(&path, &request), tokio::signal::ctrl_c(), agent).await?;
    out.show(&status, |status| {
        let changed = changed(&changes);
        let changed = if changed.is_empty() { changed } else { format!("{changed}\n") };
        format!("{changed}{}\n`althing rollout show {}` tells how it goes", shown(status), status.agent)
    });
    Ok(())
}

/// What the node answers once it has begun a rollout of that agent, and both versions were given the cases: unless somebody does not
/// wait for that, which ends nothing.
async fn begun<T>(
    work: impl Future<Output = Result<RolloutStatus, ClientError>>,
    interrupted: impl Future<Output = T>,
    agent: &str,
) -> Result<RolloutStatus, Failure> {
    tokio::select! {
        status = work => Ok(status?),
        _ = interrupted => {
            let why = format!(
                "interrupted; the node goes on with the rollout, and with its cases: `althing rollout show {agent}` tells \
                 how it goes, and `althing rollout abort {agent}` ends it"
            );
            Err(Failure::new(code::INTERRUPTED, why))
        }
    }
}

async fn end(at: &Paths, agent: &str, keep: RolloutSide, out: &Out) -> Result<(), Failure> {
    let path = format!("{}/end", path(agent));
    let status: RolloutStatus = at.connect().await?.ask(&path, &RolloutOrder { keep }).await?;
    out.show(&status, shown);
    Ok(())
}

fn path(agent: &str) -> String {
    format!("/rollouts/{}", escape(agent))
}

/// A rollout, for people.
fn shown(status: &RolloutStatus) -> String {
    let mut told = format!("{}: the new version {}\n", status.agent, state(status));
    if let Some(reason) = &status.reason {
        told += &format!("why: {}\n", one_line(reason));
    }
    if let Some(release) = &status.release {
        told += &format!("release: {}, which this node began to try by itself\n", one_line(release));
    }
    told += &versions(status);
    if status.state == RolloutState::Running {
        let steps: Vec<String> = status.steps.iter().map(u8::to_string).collect();
        told += &format!(
            "\nsteps: {} % of the {}; {} calls of the new version ended at this one and could be judged, of {} at \
             least that it needs\n",
            steps.join(", "),
            status.by.words(),
            status.calls,
            status.calls_min
        );
    }
    let cells = |signal: &RolloutSignal| {
        let of = |bad: u64, calls: u64| format!("{bad} of {calls}");
        let RolloutSignal { what, stable_calls, stable_bad, new_calls, new_bad } = signal;
        vec![what.clone(), of(*stable_bad, *stable_calls), of(*new_bad, *new_calls)]
    };
    let rows: Vec<Vec<String>> = status.signals.iter().map(cells).collect();
    told += &format!("\n{}", table(&["calls that", "stable", "new"], &rows));
    told += &left_out(status);
    if let Some(shadow) = &status.shadow {
        told += &format!("\n{}\n", shadow_words(shadow));
    }
    if let Some(RolloutCases { stable, stable_wrong, new, new_wrong }) = &status.cases {
        told += &format!(
            "\ncases: {stable_wrong} of {stable} wrong with the stable version, {new_wrong} of {new} with the new one\n"
        );
    }
    told += &effects(status);
    told + &format!("\nevidence that it is worse: {:.1}; at {:.0} it goes back", status.one_in, status.limit)
}

/// How many calls were not counted, and why.
fn left_out(status: &RolloutStatus) -> String {
    let Some(RolloutLeftOut { stable_of_owners, stable_of_conversations, new_of_owners, new_of_conversations }) =
        status.left_out
    else {
        return String::new();
    };
    let line = |bound: &str, stable: u64, new: u64| match (stable, new) {
        (0, 0) => String::new(),
        _ => format!("{stable} with the stable version and {new} with the new one, since {bound} of a step's calls\n"),
    };
    let of_owners = line("one other owner, or user, is at most a fifth", stable_of_owners, new_of_owners);
    let of_talks = line("one conversation is at most a tenth", stable_of_conversations, new_of_conversations);
    format!("\ncalls that were left out:\n{of_owners}{of_talks}")
}

/// What came of the copies of calls.
fn shadow_words(shadow: &RolloutShadow) -> String {
    let RolloutShadow { calls, bad, differing, denied, live_calls, live_bad, alike, running } = shadow;
    let mut told = format!(
        "copies that nobody heard: {calls}, of which {bad} failed and {differing} were answered in another way than by \
         the stable version"
    );
    if *denied > 0 {
        told += &format!("\ncopies that count as nothing, since a call was denied to the new version there: {denied}");
        if *running {
            told += "; where that is so of nearly all, no evidence ends this step, and you promote or abort it";
        }
    }
    match alike {
        // So rarely chance looks like this that it is worth a look.
        Some(alike) if *alike < ALIKE_MIN => format!(
            "{told}\nit behaves in another way where it is heard: {live_bad} of its {live_calls} own calls failed, \
             which chance makes of the same behaviour once in {:.0} rollouts",
            1.0 / (*alike).max(f64::MIN_POSITIVE)
        ),
        _ => told,
    }
}

/// By which tools the new version may have changed something.
fn effects(status: &RolloutStatus) -> String {
    if status.effects.is_empty() {
        return String::new();
    }
    let rows: Vec<Vec<String>> =
        status.effects.iter().map(|effect| vec![effect.tool.clone(), effect.calls.to_string()]).collect();
    format!("\n{}", table(&["it may have changed something by", "calls"], &rows))
}

fn state(status: &RolloutStatus) -> String {
    match status.state {
        RolloutState::Running if status.shadow.as_ref().is_some_and(|shadow| shadow.running) => {
            "is given copies of all calls, and nobody hears what it answers".to_owned()
        }
        // Those that gave it work before are divided too.
        RolloutState::Running if matches!(status.by, RolloutUnit::Group | RolloutUnit::Channel) => {
            format!("has {} % of the {}", status.new.share_percent, status.by.words())
        }
        RolloutState::Running => format!("has {} % of new {}", status.new.share_percent, status.by.words()),
        RolloutState::WentBack => "went back, and is not tried again".to_owned(),
        state => format!("was {}", state.words()),
    }
}

fn versions(status: &RolloutStatus) -> String {
    let cells = |role: &str, version: &VersionStatus| {
        vec![
            role.to_owned(),
            version.version.clone().unwrap_or_default(),
            version.digest.chars().take(DIGEST_CHARS).collect(),
            format!("{} %", version.share_percent),
            version.why.clone().unwrap_or_default(),
        ]
    };
    let mut rows = vec![cells("stable", &status.stable)];
    if status.new.digest != status.stable.digest {
        rows.push(cells("new", &status.new));
    }
    table(&["", "version", "digest", "share", "why it does not run"], &rows)
}

#[cfg(test)]
mod tests {
    use althing_api::RolloutEffect;
    use clap::Parser as _;

    use super::*;
    use crate::args::{Args, Command};

    fn read(words: &[&str]) -> Result<Rollout, String> {
        let words = ["althing", "rollout"].iter().chain(words);
        let args = Args::try_parse_from(words).map_err(|error| error.to_string())?;
        match args.command {
            Command::Rollout(rollout) => Ok(rollout),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_agent_and_a_file_begin_a_rollout_and_a_word_before_an_agent_asks_for_one() {
        let Rollout { work: None, begin } = read(&["shop", "--to", "shop-2.yaml"]).expect("it is read") else {
            panic!("it begins one")
        };
        assert_eq!((begin.agent.as_deref(), begin.steps.as_slice()), (Some("shop"), &[5, 25, 50, 100][..]));
        assert_eq!((begin.by, begin.shadow, begin.yes), (RolloutBy::Call, false, false));
        assert!(read(&["shop", "--to", "f", "--shadow"]).expect("it is read").begin.shadow);
        let begin = read(&["shop", "--to", "f", "--steps", "50,100", "--by", "caller"]).expect("it is read").begin;
        assert_eq!((begin.steps.as_slice(), begin.by), (&[50, 100][..], RolloutBy::Caller));
        let by = read(&["shop", "--to", "f", "--by", "group"]).expect("it is read").begin.by;
        assert_eq!(by, RolloutBy::Group);
        let shown = read(&["show", "shop"]).expect("it is read").work;
        assert!(matches!(shown, Some(RolloutWork::Show { agent }) if agent == "shop"));
        for words in [&["shop"][..], &["--to", "f"], &["shop", "--to", "f", "--steps", "0,100"], &["show"]] {
            assert!(read(words).is_err(), "{words:?}");
        }
    }

    #[tokio::test]
    async fn steps_that_cannot_be_followed_are_refused_before_anything_is_asked() {
        let folder = tempfile::TempDir::new().expect("a folder");
        let at = Paths::within(folder.path());
        let refused = async |steps: &str, more: &[&str]| {
            let words = [&["shop", "--to", "no such file", "--steps", steps][..], more].concat();
            let begin = read(&words).expect("it is read");
            run(&at, &begin, &Out { json: true }).await.expect_err("there is no such file")
        };
        for (steps, why) in [("100,50", "the steps of a rollout rise"), ("100", "compares nothing")] {
            let refused = refused(steps, &[]).await;
            assert!(refused.code == code::USAGE && refused.message.contains(why), "{refused:?}");
        }
        let message = refused("100", &["--shadow"]).await.message;
        assert!(message.contains("no such file"), "the steps can be followed: {message}");
    }

    #[tokio::test]
    async fn who_does_not_wait_for_the_cases_is_told_that_the_rollout_goes_on() {
        let (work, interrupted) = (std::future::pending(), std::future::ready(()));
        let told = begun(work, interrupted, "shop").await.expect_err("it was interrupted");
        let words = "`althing rollout abort shop` ends it";
        assert!(told.code == code::INTERRUPTED && told.message.ends_with(words), "{told:?}");
    }

    #[test]
    fn copies_that_count_as_nothing_are_told_with_what_follows() {
        let none = RolloutShadow {
            running: true,
            calls: 3,
            bad: 0,
            differing: 0,
            denied: 0,
            live_calls: 0,
            live_bad: 0,
            alike: None,
        };
        assert!(!shadow_words(&none).contains("denied"), "{}", shadow_words(&none));
        let held = shadow_words(&RolloutShadow { denied: 40, ..none.clone() });
        let says = "\ncopies that count as nothing, since a call was denied to the new version there: 40";
        assert!(held.contains(says) && held.ends_with("and you promote or abort it"), "{held}");
        let over = shadow_words(&RolloutShadow { running: false, denied: 40, ..none });
        assert!(over.ends_with(says), "nothing waits for it any more: {over}");
    }

    #[test]
    fn what_went_back_is_told_with_the_reason_and_what_was_counted() {
        let version = |version: &str, share_percent| VersionStatus {
            version: Some(version.to_owned()),
            digest: format!("0123456789abcdef{share_percent}"),
            share_percent,
            why: None,
        };
        let what = "ended with an error".to_owned();
        let mut status = RolloutStatus {
            agent: "shop".to_owned(),
            state: RolloutState::WentBack,
            reason: Some("it is worse: 9 of its 9 calls".to_owned()),
            stable: version("1.0.0", 100),
            new: version("1.1.0", 0),
            steps: vec![5, 100],
            by: RolloutUnit::Call,
            calls: 9,
            calls_min: 50,
            one_in: 31.7,
            limit: 20.0,
            signals: vec![RolloutSignal { what, stable_calls: 171, stable_bad: 0, new_calls: 9, new_bad: 9 }],
            left_out: None,
            shadow: None,
            cases: Some(RolloutCases { stable: 9, stable_wrong: 1, new: 9, new_wrong: 4 }),
            effects: vec![RolloutEffect { tool: "mail/send".to_owned(), calls: 4_711 }],
            went_back: Vec::new(),
            release: Some("urn:althing:z1:shop 1.1.0".to_owned()),
        };
        let told = shown(&status);
        for words in [
            "shop: the new version went back, and is not tried again\n",
            "why: it is worse: 9 of its 9 calls\n",
            "release: urn:althing:z1:shop 1.1.0, which",
            "1.0.0",
            "0123456789ab",
            "0 of 171",
            "9 of 9",
            "worse: 31.7; at 20 it goes back",
            "cases: 1 of 9 wrong with the stable version, 4 of 9 with the new one",
            "IT MAY HAVE CHANGED SOMETHING BY",
            "mail/send",
            "4711",
        ] {
            assert!(told.contains(words), "{words} in {told}");
        }
        assert!(!told.contains("0123456789abc") && !told.contains("steps: "), "{told}");
        let reason = Some("it is worse\nrelease: none".to_owned());
        let told = shown(&RolloutStatus { reason, ..status.clone() });
        assert_eq!(told.lines().filter(|line| line.starts_with("release: ")).count(), 1, "{told}");
        (status.state, status.reason, status.new.share_percent) = (RolloutState::Running, None, 5);
        let told = shown(&status);
        assert!(told.starts_with("shop: the new version has 5 % of new conversations\n"), "{told}");
        let by_group = shown(&RolloutStatus { by: RolloutUnit::Group, ..status.clone() });
        assert!(by_group.starts_with("shop: the new version has 5 % of the groups\n"), "{by_group}");
        assert!(by_group.contains("steps: 5, 100 % of the groups; 9 calls"), "{by_group}");
        let by_channel = shown(&RolloutStatus { by: RolloutUnit::Channel, ..status.clone() });
        assert!(by_channel.starts_with("shop: the new version has 5 % of the channels\n"), "{by_channel}");
        assert!(told.contains("steps: 5, 100 % of the conversations; 9 calls"), "{told}");
        assert!(!told.contains("left out"), "{told}");
        status.left_out = Some(RolloutLeftOut {
            stable_of_owners: 41,
            stable_of_conversations: 0,
            new_of_owners: 3,
            new_of_conversations: 0,
        });
        let told = shown(&status);
        let line = "left out:\n41 with the stable version and 3 with the new one, since one other owner, or user, is at most a fifth of";
        assert!(told.contains(line) && !told.contains("one conversation"), "{told}");
        let shadow = RolloutShadow {
            running: true,
            calls: 70,
            bad: 0,
            differing: 6,
            denied: 0,
            live_calls: 9,
            live_bad: 9,
            alike: Some(0.001),
        };
        status.shadow = Some(shadow.clone());
        let told = shown(&status);
        assert!(told.starts_with("shop: the new version is given copies of all calls"), "{told}");
        assert!(told.contains("copies that nobody heard: 70, of which 0 failed and 6 were answered"), "{told}");
        assert!(told.contains("9 of its 9 own calls failed") && told.contains("once in 1000 rollouts"), "{told}");
        status.shadow = Some(RolloutShadow { running: false, alike: Some(0.4), ..shadow });
        let told = shown(&status);
        assert!(told.starts_with("shop: the new version has 5 %") && !told.contains("where it is heard"), "{told}");
        status.state = RolloutState::PromotedElsewhere;
        status.reason = Some("it was promoted on did:key:z1".to_owned());
        let told = shown(&status);
        let says =
            "shop: the new version was promoted, as on another node of its owner\nwhy: it was promoted on did:key:z1\n";
        assert!(told.starts_with(says), "{told}");
    }
}

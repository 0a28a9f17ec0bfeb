//! `althing people`

use althing_api::{PeopleReport, PeopleText, PersonEntry, SignOffNeed};
use althing_store::file::read_text;

use crate::args::PeopleWork;
use crate::commands::{Out, table};
use crate::exit::Failure;
use crate::paths::Paths;

/// Bytes of the file that are read; the node says how many it takes.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Shows whom the node asks, or takes others.
pub async fn run(at: &Paths, people: &PeopleWork, out: &Out) -> Result<(), Failure> {
    let client = at.connect().await?;
    let report: PeopleReport = match people {
        PeopleWork::Show => client.read("/people").await?,
        PeopleWork::Load { file } => {
            let read = read_text(file, FILE_BYTES_MAX);
            let text = read.map_err(|error| Failure::usage(format!("{}: {error}", file.display())))?;
            let asked = client.ask("/people", &PeopleText { text }).await;
            asked.map_err(|error| Failure::from(error).in_file(file))?
        }
    };
    out.show(&report, known);
    Ok(())
}

fn known(report: &PeopleReport) -> String {
    let owner = format!("{} uses this machine, and answers without a key\n", report.owner);
    if report.people.is_empty() {
        return format!("{owner}nobody else is asked: `althing people load FILE` names others");
    }
    let cells = |person: &PersonEntry| {
        let PersonEntry { name, keys, roles, users, reach } = person;
        let lists = [roles, users, reach, keys].map(|list| list.join(", "));
        std::iter::once(name.clone()).chain(lists).collect::<Vec<String>>()
    };
    let rows: Vec<Vec<String>> = report.people.iter().map(cells).collect();
    let prune = report.prune.as_ref().map(|need| {
        let SignOffNeed { role, count } = need;
        format!("{count} with the role {role} must sign before bodies of the audit log are pruned\n")
    });
    owner + &prune.unwrap_or_default() + &table(&["name", "roles", "users", "reached by", "keys"], &rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_are_shown_with_their_roles_and_how_they_are_reached() {
        let alone = PeopleReport { owner: "grace".to_owned(), people: Vec::new(), prune: None };
        assert!(known(&alone).contains("grace uses this machine") && known(&alone).contains("people load"));
        let ada = PersonEntry {
            name: "ada".to_owned(),
            keys: vec!["SHA256:x".to_owned()],
            roles: vec!["auditor".to_owned(), "treasurer".to_owned()],
            users: Vec::new(),
            reach: vec!["agent secretary".to_owned()],
        };
        let prune = Some(SignOffNeed { role: "auditor".to_owned(), count: 2 });
        let told = known(&PeopleReport { people: vec![ada], prune, ..alone });
        for words in ["2 with the role auditor", "NAME", "ada", "auditor, treasurer", "agent secretary", "SHA256:x"] {
            assert!(told.contains(words), "{words} in {told}");
        }
    }
}

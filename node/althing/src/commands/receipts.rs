//! `althing release receipt`.

use althing_api::{ReceiptEntry, ReceiptList, ReceiptProof};

use crate::args::ReceiptArgs;
use crate::commands::agent::escape;
use crate::commands::{Out, date_time, table};
use crate::exit::Failure;
use crate::paths::Paths;

/// Shows receipts, each whole where some are named, else a list. Exits with 1 if one does not hold.
pub async fn run(at: &Paths, args: &ReceiptArgs, out: &Out) -> Result<(), Failure> {
    let ReceiptArgs { release, entry, registry } = args.clone();
    let is_whole = release.is_some() || entry.is_some();
    let given = [("release", release), ("entry", entry.map(|entry| entry.to_string())), ("registry", registry)];
    let given = given.into_iter().filter_map(|(name, value)| Some(format!("{name}={}", escape(&value?))));
    let path = format!("/releases/receipts?{}", given.collect::<Vec<_>>().join("&"));
    let list: ReceiptList = at.connect().await?.read(&path).await?;
    out.show(&list, |list| if is_whole { whole(list) } else { listed(list) });
    if list.receipts.iter().any(|entry| matches!(entry, ReceiptEntry::Fault(_))) {
        return Err(Failure::failed("a receipt that is kept here does not hold; see above"));
    }
    Ok(())
}

fn listed(list: &ReceiptList) -> String {
    let cells = |entry: &ReceiptEntry| match entry {
        ReceiptEntry::Proof(proof) => vec![
            proof.entry.to_string(),
            date_time(proof.accepted_ms),
            proof.what.clone(),
            proof.about.clone(),
            proof.detail.clone(),
        ],
        ReceiptEntry::Fault(fault) => {
            vec![fault.entry.to_string(), String::new(), "WRONG".to_owned(), String::new(), fault.why.clone()]
        }
    };
    if list.receipts.is_empty() {
        return format!("no receipts of {} are kept: `althing publish` keeps them", list.registry);
    }
    let all: Vec<Vec<String>> = list.receipts.iter().map(cells).collect();
    table(&["entry", "at", "what", "about", "detail"], &all)
}

fn whole(list: &ReceiptList) -> String {
    let one = |entry: &ReceiptEntry| match entry {
        ReceiptEntry::Proof(proof) => proved(&list.key, proof),
        ReceiptEntry::Fault(fault) => format!("receipt   entry {}, WRONG: {}", fault.entry, fault.why),
    };
    list.receipts.iter().map(one).collect::<Vec<_>>().join("\n\n")
}

/// One receipt: what it proves and by what, and after an empty line the proof itself.
fn proved(key: &str, proof: &ReceiptProof) -> String {
    let salt = proof.salt.as_ref().map_or_else(String::new, |salt| format!("\nsalt      {salt}"));
    format!(
        "receipt   {} {} {}\nproves    the log {} had it as entry {} when it had {} entries; it was accepted at {}\nby        the \
         log's key {key}, without asking the registry; {} of the witnesses that you want cosigned\nnot       that the \
         registry shows it: `althing release show` and `althing org watch` ask\nleaf      {}\nstatement {}{salt}\n\n{}",
        proof.what,
        proof.about,
        proof.detail,
        key.split('+').next().unwrap_or_default(),
        proof.entry,
        proof.entries,
        date_time(proof.accepted_ms),
        proof.cosigned,
        proof.leaf,
        proof.statement,
        proof.proof.trim_end(),
    )
}

#[cfg(test)]
mod tests {
    use althing_api::ReceiptFault;

    use super::*;

    #[test]
    fn a_receipt_ends_with_the_proof_as_others_read_it() {
        let own = |text: &str| text.to_owned();
        let proof = ReceiptProof {
            entry: 1,
            what: own("release"),
            about: own("urn:a:echo"),
            detail: own("1.0.0"),
            accepted_ms: 0,
            entries: 2,
            cosigned: 0,
            leaf: own("a3"),
            statement: own("d2"),
            salt: None,
            proof: own("c2sp.org/tlog-proof@v1\nindex 1\n\nr\n2\n"),
        };
        let of = |entry| ReceiptList { registry: own("http://r/"), key: own("r+1+A"), receipts: vec![entry] };
        let plain = of(ReceiptEntry::Proof(Box::new(proof.clone())));
        let shown = whole(&plain);
        assert!(
            shown.starts_with("receipt   release urn:a:echo 1.0.0\nproves    the log r had it as entry 1"),
            "{shown}"
        );
        assert!(shown.ends_with("\n\nc2sp.org/tlog-proof@v1\nindex 1\n\nr\n2"), "{shown}");
        assert!(listed(&plain).contains("1970-01-01T00:00:00Z  release  urn:a:echo  1.0.0"));
        let salted = ReceiptProof { salt: Some(own("09")), ..proof };
        assert!(whole(&of(ReceiptEntry::Proof(Box::new(salted)))).contains("\nsalt      09\n"));
        let wrong = of(ReceiptEntry::Fault(ReceiptFault { entry: 7, why: own("it was changed") }));
        assert!(whole(&wrong).contains("entry 7, WRONG: it was changed"));
        assert!(listed(&wrong).contains("WRONG"));
    }
}

//! `althing release receipt`.

use serde_json::Value;

use crate::args::ReceiptArgs;
use crate::commands::agent::escape;
use crate::commands::{Out, rows, table, text, time};
use crate::exit::Failure;
use crate::paths::Paths;

/// Shows receipts, each whole where some are named, else a list. Exits with 1 if one does not hold.
pub async fn run(at: &Paths, args: &ReceiptArgs, out: &Out) -> Result<(), Failure> {
    let ReceiptArgs { release, entry, registry } = args.clone();
    let is_whole = release.is_some() || entry.is_some();
    let given = [("release", release), ("entry", entry.map(|entry| entry.to_string())), ("registry", registry)];
    let given = given.into_iter().filter_map(|(name, value)| Some(format!("{name}={}", escape(&value?))));
    let path = format!("/releases/receipts?{}", given.collect::<Vec<_>>().join("&"));
    let list = at.connect().await?.get(&path).await?;
    out.show(&list, |list| if is_whole { whole(list) } else { listed(list) });
    if rows(&list, "receipts").iter().any(|row| row["why"].is_string()) {
        return Err(Failure::failed("a receipt that is kept here does not hold; see above"));
    }
    Ok(())
}

fn listed(list: &Value) -> String {
    let cells = |row: &Value| {
        let (what, detail) = match row["why"].as_str() {
            Some(why) => ("WRONG".to_owned(), why.to_owned()),
            None => (text(row, "what"), text(row, "detail")),
        };
        vec![row["entry"].to_string(), time(&row["acceptedMs"]), what, text(row, "about"), detail]
    };
    match rows(list, "receipts") {
        [] => format!("no receipts of {} are kept: `althing publish` keeps them", text(list, "registry")),
        all => table(&["entry", "at", "what", "about", "detail"], &all.iter().map(cells).collect::<Vec<_>>()),
    }
}

fn whole(list: &Value) -> String {
    rows(list, "receipts").iter().map(|row| one(list, row)).collect::<Vec<_>>().join("\n\n")
}

/// One receipt: what it proves and by what, and after an empty line the proof itself.
fn one(list: &Value, row: &Value) -> String {
    if let Some(why) = row["why"].as_str() {
        return format!("receipt   entry {}, WRONG: {why}", row["entry"]);
    }
    let key = text(list, "key");
    let salt = row["salt"].as_str().map_or_else(String::new, |salt| format!("\nsalt      {salt}"));
    format!(
        "receipt   {} {} {}\nproves    the log {} had it as entry {} when it had {} entries; it was accepted at {}\nby        the \
         log's key {key}, without asking the registry; {} of the witnesses that you want cosigned\nnot       that the \
         registry shows it: `althing release show` and `althing org watch` ask\nleaf      {}\nstatement {}{salt}\n\n{}",
        text(row, "what"),
        text(row, "about"),
        text(row, "detail"),
        key.split('+').next().unwrap_or_default(),
        row["entry"],
        row["entries"],
        time(&row["acceptedMs"]),
        row["cosigned"],
        text(row, "leaf"),
        text(row, "statement"),
        text(row, "proof").trim_end(),
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_receipt_ends_with_the_proof_as_others_read_it() {
        let mut row = json!({
            "entry": 1, "what": "release", "about": "urn:a:echo", "detail": "1.0.0", "acceptedMs": 0, "entries": 2,
            "cosigned": 0, "leaf": "a3", "statement": "d2", "salt": null,
            "proof": "c2sp.org/tlog-proof@v1\nindex 1\n\nr\n2\n",
        });
        let of = |row: &Value| json!({ "registry": "http://r/", "key": "r+1+A", "receipts": [row] });
        let shown = whole(&of(&row));
        assert!(
            shown.starts_with("receipt   release urn:a:echo 1.0.0\nproves    the log r had it as entry 1"),
            "{shown}"
        );
        assert!(shown.ends_with("\n\nc2sp.org/tlog-proof@v1\nindex 1\n\nr\n2"), "{shown}");
        assert!(listed(&of(&row)).contains("1970-01-01T00:00:00Z  release  urn:a:echo  1.0.0"));
        row["salt"] = json!("09");
        assert!(whole(&of(&row)).contains("\nsalt      09\n"));
        let wrong = json!({ "entry": 7, "why": "it was changed" });
        assert!(whole(&of(&wrong)).contains("entry 7, WRONG: it was changed"));
        assert!(listed(&of(&wrong)).contains("WRONG"));
    }
}

//! Random agent files that are good.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use althing_td::{
    AgentFile, AsksAs, Callers, Demand, Egress, Exposure, OwnFolder, ProgramPort, RuntimeSpec, Sandbox, SessionSpec,
    Skill,
};
use proptest::collection::{btree_map, btree_set, vec};
use proptest::option;
use proptest::prelude::*;

fn text() -> impl Strategy<Value = String> {
    "[a-zA-Zäß漢😀\"\\\\/{}<>&' .,:#-]{0,40}[a-zé1]"
}

fn version() -> impl Strategy<Value = String> {
    "(0|[1-9][0-9]{0,3})\\.(0|[1-9][0-9]?)\\.(0|[1-9][0-9]?)(-[a-z]{1,5}(\\.[1-9])?)?(\\+[0-9a-z]{1,5})?"
}

fn skill(id: String) -> impl Strategy<Value = Skill> {
    let words = (option::of(text()), option::of(text()), vec(text(), 0..4), vec(text(), 0..4));
    (text(), text(), words, option::of(version())).prop_map(move |(name, description, words, version)| {
        let (action, target, tags, examples) = words;
        Skill { id: id.clone(), name, description, action, target, tags, examples, version }
    })
}

fn skills() -> impl Strategy<Value = Vec<Skill>> {
    btree_set("[a-z0-9._:-]{1,20}", 0..5)
        .prop_flat_map(|ids| ids.into_iter().map(|id| skill(id).boxed()).collect::<Vec<_>>())
}

fn egress(n: usize) -> impl Strategy<Value = Egress> {
    let host = "[a-z][a-z0-9]{0,8}\\.[a-z]{2,5}(:[1-9][0-9]{0,3})?";
    let headers = btree_map("[A-Z][a-z-]{0,8}", "[a-z]{1,5}( \\{[A-Z_]{1,9}\\})?", 0..3);
    let headers = headers.prop_map(|mut headers: BTreeMap<String, String>| {
        headers.retain(|name, _| !["Expect", "Host", "Te", "Trailer", "Upgrade"].contains(&name.as_str()));
        headers
    });
    let told = (Just(format!("URL_OF_{n}")), option::of("/[a-z0-9]{0,5}"), headers);
    (host, option::of(told)).prop_map(|(host, told)| match told {
        None => Egress { host, variable: None, path: None, headers: BTreeMap::new() },
        Some((variable, path, headers)) => Egress { host, variable: Some(variable), path, headers },
    })
}

fn listed(written: BTreeSet<String>) -> Vec<PathBuf> {
    written.into_iter().map(PathBuf::from).collect()
}

fn sandbox() -> impl Strategy<Value = Sandbox> {
    let paths = || btree_set("(/|~/)?[a-z][a-z0-9]{0,10}", 0..3).prop_map(listed);
    let demand = prop_oneof![Just(Demand::Best), Just(Demand::Required)];
    let folder = prop_oneof![Just(OwnFolder::Read), Just(OwnFolder::Write)];
    let rules = (demand, folder, paths(), paths(), egress(1), egress(2), 0_usize..=2);
    let rules = rules.prop_map(|(demand, folder, read, write, one, two, hosts)| {
        let egress = [one, two].into_iter().take(hosts).collect();
        Sandbox { demand, folder, read, write, egress }
    });
    prop_oneof![Just(Sandbox { demand: Demand::None, ..Sandbox::default() }), rules]
}

fn runtime() -> impl Strategy<Value = RuntimeSpec> {
    let native = ("[a-z]{1,10}", any::<i32>())
        .prop_map(|(builtin, n)| RuntimeSpec::Native { builtin, config: serde_json::json!({ "n": [n, null, "x"] }) });
    let env = btree_map("[A-OQ-Z_][A-Z0-9_]{0,8}", "[ -~ä漢]{0,10}", 0..3);
    let process = (vec("[a-z./{}-]{1,12}", 1..4), option::of("[a-z/.]{1,10}"), env, 100_u64..=600_000);
    let process = (process, option::of(Just(ProgramPort::Tcp)), sandbox());
    let process = process.prop_map(|((command, cwd, env, startup_timeout_ms), port, sandbox)| RuntimeSpec::Process {
        command,
        cwd: cwd.map(PathBuf::from),
        env: env as BTreeMap<String, String>,
        startup_timeout_ms,
        port,
        sandbox,
    });
    let remote = (
        "https://[a-z]{1,10}(:[1-9][0-9]{0,3})?(/[a-z]{0,5})?",
        option::of("[A-Za-z0-9_.-]{1,20}"),
        option::of("[0-9a-f]{64}"),
    )
        .prop_map(|(url, secret, card)| RuntimeSpec::Remote {
            url,
            secret,
            card,
            signed_by: None,
            leads_to: Vec::new(),
        });
    prop_oneof![native, process, remote]
}

fn callers() -> impl Strategy<Value = Callers> {
    let did = "did:key:z6MkiTBz1ymuepAQ4HEHYSF1H8quG5GLVVQR3djdX3mDooWp".to_owned();
    prop_oneof![
        Just(Callers::ThisNode),
        Just(Callers::Own),
        Just(Callers::Trusted),
        Just(Callers::Anyone),
        Just(Callers::Listed(vec![did])),
    ]
}

/// An agent file that `AgentFile::check` accepts.
pub fn agent_file() -> impl Strategy<Value = AgentFile> {
    let exposure =
        prop_oneof![Just(Exposure::Public), Just(Exposure::Trusted), Just(Exposure::Own), Just(Exposure::Hidden)];
    let modes = || vec(prop_oneof![Just("text/plain".to_owned()), Just("application/a2a+json".to_owned())], 1..3);
    let head = ("[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", text(), text(), version(), skills());
    (head, runtime(), callers(), exposure, modes(), modes()).prop_map(
        |((name, title, description, version, skills), runtime, callers, exposure, input_modes, output_modes)| {
            AgentFile {
                name,
                title,
                description,
                version,
                skills,
                runtime,
                tools: std::collections::BTreeMap::new(),
                effects: std::collections::BTreeMap::new(),
                profiles: std::collections::BTreeMap::new(),
                expose: Vec::new(),
                embeddings: None,
                role: None,
                requested: None,
                contract: None,
                contract_file: None,
                callers,
                exposure,
                asks_as: AsksAs::default(),
                handoff_signers: Vec::new(),
                session: SessionSpec::default(),
                input_modes,
                output_modes,
            }
        },
    )
}

//! Starts agents: from an agent file and a contract to a runtime and its system calls.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use althing_protocol::Contract;
use althing_protocol::contract::{self, Class};
use althing_td::{AgentFile, RuntimeSpec, ToolServerSpec};

use super::{Builtins, Loaded, RunningAgent, Scheduling, ServerOf, StartError};
use crate::agent_runtime::Runtime;
use crate::bindable::{chosen, read_module};
use crate::binding::Bound;
use crate::control::Control;
use crate::cost_budget::CostBudget;
use crate::finding_counts::FindingCounts;
use crate::grants::{
    Errand, Grant, ask_for_runtime, ask_for_server, asked_secrets, errands_of_models, errands_of_runtime,
    errands_of_server,
};
use crate::kernel::AdmitError;
use crate::memory::{self, Embedder, Memory, MemoryServer};
use crate::model::Model;
use crate::ports::Ports;
use crate::process::remote::{Agreed, RemoteAgent};
use crate::process::{ProcessAgent, ProcessConfig, asked_hosts, memory_kib};
use crate::running::RunningAgents;
use crate::secrets::{SecretLookup, SecretLookupError, granted, with_secrets};
use crate::syscalls::SystemCalls;
use crate::tools::ToolServer;

/// One start of an agent, or a look at what it would be bound to: its file in a folder, its contract, and what its host makes
/// agents with.
pub(super) struct AgentStart<'a> {
    pub(super) builtins: &'a Builtins,
    pub(super) process: &'a ProcessConfig,
    pub(super) ports: &'a Ports,
    pub(super) scheduling: Option<&'a Scheduling>,
    pub(super) running: &'a RunningAgents<Arc<RunningAgent>>,
    pub(super) file: &'a AgentFile,
    pub(super) folder: &'a Path,
    pub(super) contract: &'a Contract,
}

impl AgentStart<'_> {
    /// The tool servers that an agent file names.
    pub(super) fn servers(&self) -> Result<BTreeMap<String, Arc<dyn ToolServer>>, StartError> {
        let AgentStart { file, folder, contract, .. } = *self;
        let failed = |reason| StartError::Secret { name: file.name.clone(), reason };
        // Of a module it is the module's own.
        let memory_kib = if matches!(file.runtime, RuntimeSpec::Wasm { .. }) { 0 } else { memory_kib(contract) };
        let server = |(name, spec): (&String, &ToolServerSpec)| {
            let asked = ask_for_server(&self.ports.grants, &file.name, (name.as_str(), spec));
            asked.map_err(|reason| StartError::Forbidden { name: file.name.clone(), reason })?;
            let secrets = self.secrets_for(errands_of_server(spec));
            let granted = |secret: &str| granted(contract, &secrets, secret);
            let (spec, secrets) = with_secrets(spec, granted).map_err(failed)?;
            let of = ServerOf { agent: &file.name, server: name, folder, memory_kib };
            Ok((name.clone(), (self.ports.connect)(of, &spec, secrets)))
        };
        file.tools.iter().map(server).collect()
    }

    /// The node's secrets for an agent, for these errands.
    fn secrets_for(&self, errands: Vec<Errand>) -> SecretLookup {
        asked_secrets(&self.ports.grants, &self.ports.secrets, &self.file.name, errands)
    }

    /// The system calls of an agent file, as far as the contract allows them.
    pub(super) fn calls(&self) -> Result<SystemCalls, StartError> {
        let AgentStart { file, contract, .. } = *self;
        let mut servers = self.servers()?;
        let memory = contract.memory.as_ref().map(|terms| self.memory(terms)).transpose()?;
        if let Some(memory) = &memory {
            servers.insert(memory::SERVER.to_owned(), Arc::new(MemoryServer(memory.clone())));
        }
        servers.extend(self.ports.own_servers(file, contract));
        Ok(SystemCalls {
            tools: Arc::new(self.ports.tools(file, contract, servers)?),
            memory,
            budget: Arc::new(CostBudget::of(contract)),
        })
    }

    fn memory(&self, terms: &contract::Memory) -> Result<Memory, StartError> {
        let AgentStart { file, contract, .. } = *self;
        let failed = |reason| StartError::Embeddings { name: file.name.clone(), reason };
        let secrets = self.secrets_for(errands_of_models(file.embeddings.iter()));
        let embedder = Embedder::of(file.embeddings.as_ref(), contract, &secrets).map_err(failed)?;
        if let Some(secret) = &terms.encryption_secret {
            let asked = (self.ports.grants)(&file.name, Grant::Secret { name: secret, host: None });
            let refused = |why| SecretLookupError::Refused { name: secret.clone(), why };
            asked.map_err(|why| StartError::Secret { name: file.name.clone(), reason: refused(why) })?;
        }
        let none = || StartError::Config { name: file.name.clone(), reason: "this node keeps no memory".to_owned() };
        let memories = self.ports.memories.as_ref().ok_or_else(none)?;
        let opened = memories.open(&file.name, terms, Arc::new(embedder));
        opened.map_err(|reason| StartError::Memory { name: file.name.clone(), reason })
    }

    pub(super) fn runtime(
        &self,
        calls: &SystemCalls,
        bound: &Bound,
        findings: &Arc<FindingCounts>,
    ) -> Result<Runtime, StartError> {
        let AgentStart { file, folder, contract, .. } = *self;
        let class = |why| StartError::Class { name: file.name.clone(), class: contract.class.name(), why };
        let without = |reason| StartError::Secret { name: file.name.clone(), reason };
        let chosen = chosen(file, &self.ports.models, bound);
        let secrets = self.secrets_for(errands_of_runtime(&chosen));
        let known = |secret: &str| granted(contract, &secrets, secret);
        let is_hard = matches!(contract.class, Class::Hrt(_));
        let asked = ask_for_runtime(&self.ports.grants, &file.name, &chosen);
        asked.map_err(|reason| StartError::Forbidden { name: file.name.clone(), reason })?;
        match &file.runtime {
            RuntimeSpec::Native { .. }
            | RuntimeSpec::Process { .. }
            | RuntimeSpec::Model { .. }
            | RuntimeSpec::Remote { .. }
                if is_hard =>
            {
                Err(class("only a WebAssembly module (runtime.wasm) can be stopped in time"))
            }
            RuntimeSpec::Native { builtin, config } => {
                let build = self.builtins.get(builtin.as_str()).ok_or_else(|| StartError::UnknownBuiltin {
                    name: builtin.clone(),
                    known: self.builtins.keys().copied().collect::<Vec<_>>().join(", "),
                })?;
                let refused = |reason| StartError::Config { name: file.name.clone(), reason };
                Ok(Runtime::Native(build(config, folder, calls).map_err(refused)?))
            }
            RuntimeSpec::Process { sandbox, .. } => {
                let asked = asked_hosts(sandbox, known).map_err(without)?;
                let offered = self.ports.program_calls(&calls.tools, contract);
                let soft = self.scheduling.map(|scheduling| scheduling.kernel.runtimes.soft());
                let offered = offered.map(|(serve, calls)| (serve.beside_turns(&contract.class, soft), calls));
                let program = ProcessAgent::start(file, folder, contract, self.process, offered, asked)?;
                Ok(Runtime::Process(Arc::new(program)))
            }
            RuntimeSpec::Remote { url, secret, card, signed_by, leads_to } => {
                let secret = secret.as_deref().map(known).transpose().map_err(without)?;
                let refused = |reason| StartError::Config { name: file.name.clone(), reason };
                let key = signed_by.as_ref().map(|key| key.parse()).transpose();
                let key = key.map_err(|error: althing_td::NoSignerKey| refused(error.to_string()))?;
                let agreed = Agreed { digest: card.clone(), key, leads_to: leads_to.clone() };
                let remote = RemoteAgent::start(&file.name, url, secret.as_deref(), agreed, self.process.check);
                remote.map(|remote| Runtime::Remote(Arc::new(remote))).map_err(refused)
            }
            RuntimeSpec::Model { .. } => {
                let failed = |reason| StartError::Model { name: file.name.clone(), reason };
                let model = Model::new(&chosen, contract, &secrets, calls.clone()).map_err(failed)?;
                Ok(Runtime::Model(Arc::new(model)))
            }
            RuntimeSpec::Wasm { module } => {
                let scheduling = self.scheduling.ok_or_else(|| class("this node has no scheduler"))?;
                self.wasm(scheduling, &folder.join(module), calls, findings)
            }
        }
    }

    fn wasm(
        &self,
        scheduling: &Scheduling,
        module: &Path,
        calls: &SystemCalls,
        findings: &Arc<FindingCounts>,
    ) -> Result<Runtime, StartError> {
        let contract = self.contract;
        // Promises and signals are of jobs, each of which has a name of its own.
        let (name, job) = (&self.file.name, self.running.job_name(calls.tools.decisions().agent()));
        let failed = |reason| StartError::Module { name: name.clone(), module: module.display().to_string(), reason };
        let code = read_module(module).map_err(failed)?;
        let Class::Hrt(hrt) = &contract.class else {
            return match scheduling.soft.load(&code, contract, calls).map_err(failed)? {
                Loaded::Agent(agent) => Ok(Runtime::Wasm(agent)),
                Loaded::Control(template) => {
                    let signals = scheduling.kernel.signals();
                    let budget = contract.compute.cpu_ms_per_turn.map(Duration::from_millis);
                    let findings = findings.clone();
                    let control = Control::new(&job, &contract.signals, signals, template, budget, findings);
                    let control = control.map_err(|error| failed(error.to_string()))?;
                    Ok(Runtime::Wasm(Arc::new(control)))
                }
            };
        };
        let refused = |reason| match reason {
            AdmitError::Code(reason) => failed(reason),
            reason => StartError::Admission { name: name.clone(), reason },
        };
        let hard = scheduling.kernel.run_hard(&job, contract, hrt, &code).map_err(refused)?;
        Ok(Runtime::Hard(Arc::new(hard)))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;
    use std::path::PathBuf;

    use althing_td::AgentFile;

    use crate::process::ProcessConfig;
    use crate::{Builtins, Host, StartError};

    #[test]
    fn a_module_that_is_no_regular_file_is_refused_and_the_next_agent_starts() {
        let folder = tempfile::tempdir().expect("a folder");
        let pipe = folder.path().join("pipe.wasm");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).expect("a pipe");
        let socket = folder.path().join("socket.wasm");
        let _listener = UnixListener::bind(&socket).expect("a socket");
        let linked = folder.path().join("link.wasm");
        std::os::unix::fs::symlink(&pipe, &linked).expect("a link");
        let host = Host::new(Builtins::new(), ProcessConfig::default());
        for module in [pipe, socket, linked, folder.path().to_owned(), PathBuf::from("/dev/zero")] {
            let text = format!(
                "name: guest\ndescription: Runs it.\nruntime: {{ wasm: {{ module: {} }} }}\n\
                 contract: {{ class: {{ latency: srt }} }}\n",
                module.display()
            );
            let file = AgentFile::parse(&text).expect("an agent file");
            for refused in [host.start(&file, folder.path()).err(), host.bind(&file, folder.path()).err()] {
                let Some(StartError::Module { reason, .. }) = refused else { panic!("{refused:?}") };
                assert!(reason.contains("only regular files are read"), "{}: {reason}", module.display());
            }
        }
        assert!(host.status().is_empty());
    }
}

//! `make image` and `docker-compose.yml`, as docs/containers.md has them: nodes of a private network and a registry, in
//! containers. Runs where docker or podman does; CI has neither (tests/testing/exceptions.txt).

use std::net::TcpListener;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use althing_e2e::documents::{commands, is_for_the_reader};
use althing_e2e::{COMMAND_MAX, Outcome, Running, binary, http, text, until};
use althing_testing::exception;

/// The base may have to be made from packages first.
const IMAGE_MAX: Duration = Duration::from_secs(300);
/// From starting the containers to a call's answer.
const PATIENCE: Duration = Duration::from_secs(60);
/// What `scripts/containers.sh` and `scripts/image.sh` exit with where no containers run.
const NOT_HERE: i32 = 3;
const SERVICES: [&str; 4] = ["one", "two", "three", "registry"];
/// What CI may skip.
const TEST: &str = "containers::an_agent_of_one_container_is_found_and_called_from_the_others";

/// Asked at run time: checkouts may share a build.
fn root() -> PathBuf {
    let here = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo says where this is"));
    here.ancestors().nth(2).expect("tests/e2e lies two levels below the top").to_owned()
}

/// A command of bash in the checkout.
fn bash(script: &str, limit: Duration) -> Outcome {
    let mut shell = Command::new("bash");
    shell.args(["-c", script]).current_dir(root()).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    Running::start(shell.process_group(0)).end(limit)
}

/// Variables of `docker-compose.yml` with ports that are free.
fn ports() -> String {
    // All are held until all are known.
    let free: Vec<_> = SERVICES.iter().map(|_| TcpListener::bind("127.0.0.1:0").expect("a port")).collect();
    let of = |listener: &TcpListener| listener.local_addr().expect("an address").port();
    let each = SERVICES.iter().zip(&free);
    each.map(|(service, listener)| format!("ALTHING_{}={} ", service.to_uppercase(), of(listener))).collect()
}

/// The containers of one run; gone when it ends.
struct Project {
    name: String,
    /// Of bash: assigns `engine` and `compose`, and what `docker-compose.yml` reads.
    assignments: String,
}

impl Project {
    /// Starts them; `None`, with the reason printed, where this machine runs no containers.
    fn up() -> Option<Project> {
        let asked = bash("scripts/containers.sh", COMMAND_MAX);
        if asked.code == NOT_HERE {
            exception(TEST, asked.stderr.trim());
            return None;
        }
        assert_eq!(asked.code, 0, "{asked:?}");
        if bash(&format!("{}\n[ -n \"$compose\" ]", asked.stdout), COMMAND_MAX).code != 0 {
            exception(TEST, "neither docker compose nor podman-compose is installed");
            return None;
        }
        let name = format!("althing-e2e-{}", std::process::id());
        let programs = binary().parent().expect("a folder").display().to_string();
        let built = bash(&format!("scripts/image.sh '{programs}' localhost/{name}"), IMAGE_MAX);
        if built.code == NOT_HERE {
            exception(TEST, built.stderr.trim());
            return None;
        }
        assert_eq!(built.code, 0, "{built:?}");
        let assignments = format!("{}\nexport ALTHING_IMAGE=localhost/{name} {}\n", asked.stdout, ports());
        let project = Project { name, assignments };
        // What came up is looked at below: podman-compose of Debian ends with 0 whatever happened.
        println!("{:?}", project.reader("docker compose up -d"));
        Some(project)
    }

    fn run(&self, script: &str) -> Outcome {
        bash(&format!("{}{script}", self.assignments), PATIENCE)
    }

    /// The container of a service, for bash.
    fn container(&self, service: &str) -> String {
        let of = |label: &str, value: &str| format!("--filter label=com.docker.compose.{label}={value}");
        format!("$(\"$engine\" ps -aq {} {})", of("project", &self.name), of("service", service))
    }

    /// What a page tells its reader to type, for these containers. Inside a container the engine is asked: podman-compose of
    /// Debian prints the command too, and loses its exit code.
    fn reader(&self, command: &str) -> Outcome {
        let mut command = command.to_owned();
        for service in SERVICES {
            let container = self.container(service);
            for verb in ["exec", "logs"] {
                let typed = format!("docker compose {verb} {service}");
                command = command.replace(&typed, &format!("\"$engine\" {verb} {container}"));
            }
        }
        self.run(&command.replace("docker compose", &format!("$compose -p {}", self.name)))
    }

    /// Asks the engine for something with the container of a service; must succeed.
    fn engine(&self, verb: &str, service: &str, rest: &str) -> String {
        let outcome = self.run(&format!("\"$engine\" {verb} {} {rest}", self.container(service)));
        assert_eq!(outcome.code, 0, "{verb} {service} {rest}: {outcome:?}");
        outcome.stdout
    }

    /// `althing` in the container of a service; must succeed; the JSON that it prints.
    fn json(&self, service: &str, arguments: &str) -> serde_json::Value {
        let said = self.engine("exec", service, &format!("althing --json {arguments}"));
        serde_json::from_str(&said).unwrap_or_else(|error| panic!("{arguments}: {error}: {said}"))
    }

    /// Runs a command until it does what it should, since its effect may take a moment to get about.
    fn eventually(&self, command: &str, expected: &str) {
        until(PATIENCE, command, || {
            let outcome = self.reader(command);
            let done = outcome.code == 0 && outcome.stdout.contains(expected);
            if !done {
                println!("{command}: {outcome:?}");
            }
            done
        });
    }
}

impl Drop for Project {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for service in SERVICES {
                println!("{service}: {:?}", self.run(&format!("\"$engine\" logs {}", self.container(service))));
            }
        }
        let down = self.reader("docker compose down -v -t 5");
        // podman-compose of Debian leaves the network.
        let network = format!("{}_default", self.name);
        self.run(&format!("\"$engine\" network inspect {network} && \"$engine\" network rm {network}"));
        let image = self.run(&format!("\"$engine\" rmi localhost/{}", self.name));
        if !std::thread::panicking() {
            assert_eq!((down.code, image.code), (0, 0), "{down:?} {image:?}");
        }
    }
}

#[test]
fn an_agent_of_one_container_is_found_and_called_from_the_others() {
    let Some(project) = Project::up() else { return };
    for service in SERVICES {
        project.eventually(&format!("docker compose exec {service} start healthy"), "");
    }
    does_what_the_page_says(&project);
    keeps_its_identity(&project);
    is_open_to_this_machine_only(&project);
}

fn does_what_the_page_says(project: &Project) {
    let page = std::fs::read_to_string(root().join("docs/containers.md")).expect("the page");
    let mut called = 0;
    for command in commands(&page).iter().filter(|command| !is_for_the_reader(command)) {
        let command = command.split(" #").next().unwrap_or_default().trim();
        // These were done, or would end what follows.
        if ["up", "down"].iter().any(|word| command.starts_with(&format!("docker compose {word}"))) {
            continue;
        }
        println!("{command}");
        let expected = match command {
            command if command.contains(" find ") => "echo",
            command if command.contains(" call ") => "Hello",
            command if command.ends_with("release list") => "good",
            _ => "",
        };
        project.eventually(command, expected);
        called += usize::from(expected == "Hello");
    }
    assert!(called > 0, "the page calls an agent");
}

fn keeps_its_identity(project: &Project) {
    assert_eq!(project.engine("exec", "one", "id -u").trim(), "10001", "an ordinary user");
    let before = project.json("two", "id");
    assert_eq!(before["owner"], project.json("three", "id")["owner"], "one owner");
    project.engine("restart -t 10", "two", "");
    project.eventually("docker compose exec two althing call echo again", "again");
    assert_eq!(project.json("two", "id"), before);
}

fn is_open_to_this_machine_only(project: &Project) {
    for service in SERVICES {
        let ports = project.engine("port", service, "");
        let published: Vec<&str> = ports.lines().filter_map(|line| Some(line.split_once(" -> ")?.1)).collect();
        assert!(!published.is_empty() && published.iter().all(|at| at.starts_with("127.0.0.1:")), "{ports}");
    }
    let port = project.engine("port", "one", "7420");
    let gateway = format!("http://{}", port.trim());
    let token = text(&project.json("one", "token add reader --scope read")["token"]);
    let ask = |headers: &[(&str, &str)]| http::raw(&gateway, &http::request(&gateway, "GET", "/agents", headers, b""));
    assert_eq!(ask(&[]).status, 401);
    assert_eq!(ask(&[("Authorization", &format!("Bearer {token}"))]).status, 200);
}

//! PostgreSQL with the same Things: a row for each, as `jsonb` under a GIN index for JSONPath. A cluster of its own in a
//! temporary folder, over its socket, with the settings of its distribution: it syncs each transaction.

use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::process::{Child, Command};
use tokio_postgres::{Client, Config, NoTls, Statement};

use super::data::{id, thing};

/// Rows that are loaded with one statement.
const LOADED_AT_ONCE: usize = 500;
/// Users that a superuser, whom PostgreSQL refuses, runs it as.
const USERS: [&str; 2] = ["postgres", "nobody"];

/// A running cluster; it is killed when this is dropped.
pub struct Postgres {
    folder: tempfile::TempDir,
    _child: Child,
}

/// A connection with its prepared statements.
pub struct Connection {
    client: Client,
    get: Statement,
    create: Statement,
    list: Statement,
    search: Statement,
}

/// Where its programs are.
fn programs() -> Option<PathBuf> {
    let debian = Path::new("/usr/lib/postgresql");
    let versions = std::fs::read_dir(debian).into_iter().flatten().flatten().map(|entry| entry.path().join("bin"));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found: Vec<PathBuf> =
        versions.chain(std::env::split_paths(&path)).filter(|folder| folder.join("initdb").exists()).collect();
    found.into_iter().max()
}

/// The ids of a user and its group.
fn user() -> Option<(u32, u32)> {
    let users = std::fs::read_to_string("/etc/passwd").ok()?;
    let of = |name: &&str| {
        let line = users.lines().find(|line| line.split(':').next() == Some(name))?;
        let mut words = line.split(':').skip(2);
        Some((words.next()?.parse().ok()?, words.next()?.parse().ok()?))
    };
    USERS.iter().find_map(of)
}

impl Postgres {
    /// Starts it.
    ///
    /// # Errors
    /// It is not here, or does not start.
    pub async fn start() -> Result<Postgres, String> {
        let bin = programs().ok_or("PostgreSQL is not installed (Debian: apt-get install postgresql)")?;
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        let data = folder.path().join("data");
        let is_superuser = std::os::unix::fs::MetadataExt::uid(&folder.path().metadata().expect("a folder")) == 0;
        let user = if is_superuser { Some(user().ok_or("there is no user to run PostgreSQL as")?) } else { None };
        if let Some((uid, gid)) = user {
            chown(folder.path(), Some(uid), Some(gid)).map_err(|error| error.to_string())?;
        }
        let command = |program: &str| {
            let mut command = Command::new(bin.join(program));
            command.current_dir(folder.path()).stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
            if let Some((uid, gid)) = user {
                command.uid(uid).gid(gid);
            }
            command
        };
        let made = command("initdb").arg("-D").arg(&data).args(["-U", "bench", "--auth=trust", "-E", "UTF8"]).status();
        let made = made.await.map_err(|error| error.to_string())?;
        if !made.success() {
            return Err(format!("initdb: {made}"));
        }
        let sockets = folder.path().display().to_string();
        let child = command("postgres")
            .arg("-D")
            .arg(&data)
            .args(["-c", "listen_addresses=", "-c", "fsync=on", "-c", &format!("unix_socket_directories={sockets}")])
            .spawn()
            .map_err(|error| error.to_string())?;
        let postgres = Postgres { folder, _child: child };
        for _ in 0..200 {
            match postgres.client().await {
                Ok(_) => return Ok(postgres),
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        }
        Err("it does not answer within 10 s".to_owned())
    }

    async fn client(&self) -> Result<Client, tokio_postgres::Error> {
        let config = Config::new().host_path(self.folder.path()).user("bench").dbname("postgres").to_owned();
        let (client, connection) = config.connect(NoTls).await?;
        tokio::spawn(connection);
        Ok(client)
    }

    /// Fills it, and gives its version.
    pub async fn load(&self, things: usize) -> String {
        let client = self.client().await.expect("a connection");
        let made = "CREATE TABLE things (id text PRIMARY KEY, td jsonb NOT NULL)";
        client.batch_execute(made).await.expect("a table");
        let insert = "INSERT INTO things SELECT * FROM unnest($1::text[], $2::text[]::jsonb[])";
        let insert = client.prepare(insert).await.expect("a statement");
        for from in (0..things).step_by(LOADED_AT_ONCE) {
            let numbers = from..things.min(from + LOADED_AT_ONCE);
            let ids: Vec<String> = numbers.clone().map(id).collect();
            let bodies: Vec<String> = numbers.map(|number| thing(number, things)).collect();
            client.execute(&insert, &[&ids, &bodies]).await.expect("rows");
        }
        let index = "CREATE INDEX ON things USING gin (td jsonb_path_ops)";
        client.batch_execute(index).await.expect("an index");
        client.batch_execute("VACUUM ANALYZE things").await.expect("statistics");
        let row = client.query_one("SHOW server_version", &[]).await.expect("a version");
        row.get(0)
    }

    /// A connection.
    pub async fn connect(&self) -> Connection {
        let client = self.client().await.expect("a connection");
        let prepare = async |text: &str| client.prepare(text).await.expect("a statement");
        Connection {
            get: prepare("SELECT td::text FROM things WHERE id = $1").await,
            create: prepare("INSERT INTO things VALUES ($1, $2::text::jsonb)").await,
            list: prepare("SELECT td::text FROM things WHERE id > $1 ORDER BY id LIMIT 100").await,
            search: prepare("SELECT td::text FROM things WHERE td @@ $1::text::jsonpath").await,
            client,
        }
    }
}

impl Connection {
    async fn texts(&self, statement: &Statement, word: &str) -> Vec<String> {
        let rows = self.client.query(statement, &[&word]).await.expect("rows");
        rows.iter().map(|row| row.get(0)).collect()
    }

    /// A Thing.
    pub async fn get(&self, id: &str) -> Vec<String> {
        self.texts(&self.get, id).await
    }

    /// A hundred Things after an id.
    pub async fn list(&self, after: &str) -> Vec<String> {
        self.texts(&self.list, after).await
    }

    /// The Things in which a predicate of SQL/JSON's path language holds.
    pub async fn search(&self, path: &str) -> Vec<String> {
        self.texts(&self.search, path).await
    }

    /// Adds a Thing.
    pub async fn create(&self, id: &str, td: &str) {
        self.client.execute(&self.create, &[&id, &td]).await.expect("a row");
    }
}

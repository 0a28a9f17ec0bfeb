//! Tables of what may be offered to be read, and that nothing else ever is.

use proptest::prelude::*;

use super::super::tests::{Tree, tree};
use super::*;

const HOME: &str = "/home/me";

/// Arguments, variables, and a path that is refused.
type Case<'a> = (&'a [&'a str], &'a [(&'a str, &'a str)], &'a str);

/// What is offered for a path, by a program with these arguments and variables.
fn offered(
    files: &Tree,
    home: &str,
    (arguments, variables): (&[&str], &[(&str, &str)]),
    path: &str,
) -> Result<PathBuf, &'static str> {
    let command: Vec<String> = ["server"].iter().chain(arguments).map(|word| (*word).to_owned()).collect();
    let environment: BTreeMap<String, String> =
        variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let home = PathBuf::from(home);
    let hidden = [home.join(".local/share/althing")];
    let scope = Scope::new(files, std::slice::from_ref(&home), &hidden);
    let (data, named) = (data_of(Some(&home), &environment), named_by(&command, &environment));
    Offers::new(&scope, Some(&home), &data, &named).of(&scope, Path::new(path))
}

#[test]
fn offered_is_an_entry_of_known_data_or_what_the_command_line_names() {
    let files = tree(&[
        ("/home/me/.cache/huggingface/hub/models--a/blobs/1", ""),
        ("/home/me/.cache/huggingface/hub/version.txt", ""),
        ("/home/me/.cache/ms-playwright/chromium-1/chrome", ""),
        ("/home/me/maps/north/a.map", ""),
        ("/home/me/north", "-> maps/north"),
        ("/srv/maps/a.map", ""),
        ("/srv/hf/hub/models--b/blobs/1", ""),
        ("/srv/hf/other/x", ""),
    ]);
    let hub = "/home/me/.cache/huggingface/hub";
    let cases: [(Case<'_>, &str); 10] = [
        ((&[], &[], "/home/me/.cache/huggingface/hub/models--a/blobs/1"), "/home/me/.cache/huggingface/hub/models--a"),
        ((&[], &[], "/home/me/.cache/huggingface/hub/version.txt"), "/home/me/.cache/huggingface/hub/version.txt"),
        ((&[], &[], hub), hub),
        ((&[], &[], "/home/me/.cache/ms-playwright/chromium-1/chrome"), "/home/me/.cache/ms-playwright/chromium-1"),
        ((&[], &[("HF_HOME", "/srv/hf")], "/srv/hf/hub/models--b/blobs/1"), "/srv/hf/hub/models--b"),
        ((&["/srv/maps"], &[], "/srv/maps/a.map"), "/srv/maps"),
        ((&["/srv/maps", "/srv/maps/a.map"], &[], "/srv/maps/a.map"), "/srv/maps/a.map"),
        ((&["--maps=/srv/maps/"], &[], "/srv/maps/a.map"), "/srv/maps"),
        ((&[], &[("MAPS", "/home/me/maps")], "/home/me/maps/north/a.map"), "/home/me/maps"),
        // By where it leads.
        ((&["/home/me/north"], &[], "/home/me/maps/north/a.map"), "/home/me/maps/north"),
    ];
    for ((arguments, variables, path), offer) in cases {
        assert_eq!(offered(&files, HOME, (arguments, variables), path), Ok(PathBuf::from(offer)), "{path}");
    }
    let cases: [Case<'_>; 8] = [
        (&[], &[], "/srv/maps/a.map"),
        (&["maps"], &[], "/home/me/maps/north/a.map"),
        (&["/srv/maps/../hf"], &[], "/srv/hf/other/x"),
        (&["/srv/maps/a.map"], &[], "/srv/maps"),
        (&[], &[], "/srv/hf/hub/models--b/blobs/1"),
        (&[], &[("HF_HUB_CACHE", "hub")], "/srv/hf/hub/models--b/blobs/1"),
        (&[], &[], "/home/me/.cache/huggingface"),
        (&[], &[], "/home/me/.cache/huggingface/hub/.locks/x"),
    ];
    for (arguments, variables, path) in cases {
        let refused = offered(&files, HOME, (arguments, variables), path);
        assert!(refused.as_ref().is_err_and(|why| why.contains("--read PATH")), "{arguments:?} {path}: {refused:?}");
    }
}

#[test]
fn no_home_no_system_and_no_folder_with_a_dot_is_offered_whoever_names_it() {
    let files = tree(&[
        ("/home/me/.bash_aliases", ""),
        ("/home/me/.config/environment.d/a.conf", ""),
        ("/home/me/.cargo/bin/tool", ""),
        ("/home/me/.claude/x", ""),
        ("/home/me/.vault-token", ""),
        ("/home/me/.mozilla/firefox/p/x", ""),
        ("/home/me/repo/.git/hooks/x", ""),
        ("/home/me/keys", "-> .ssh"),
        ("/home/you/notes/a", ""),
        ("/root/notes/a", ""),
        ("/etc/letsencrypt/live/a", ""),
        ("/var/lib/app/x", ""),
        ("/srv/pipe", "device"),
        ("/srv/.hidden/x", ""),
        ("/srv/app/x", ""),
        ("/home/me/.local/share/althing/node/node.key", ""),
    ]);
    for (named, path) in [
        ("/", "/srv/app/x"),
        ("/home", "/home/you/notes/a"),
        ("/home/me", "/home/me/repo"),
        ("/srv", "/srv/app/x"),
        ("/home/me/.bash_aliases", "/home/me/.bash_aliases"),
        ("/home/me/.config/environment.d", "/home/me/.config/environment.d/a.conf"),
        ("/home/me/.cargo/bin", "/home/me/.cargo/bin/tool"),
        ("/home/me/.claude", "/home/me/.claude/x"),
        ("/home/me/.vault-token", "/home/me/.vault-token"),
        ("/home/me/.mozilla/firefox", "/home/me/.mozilla/firefox/p/x"),
        ("/home/me/repo/.git/hooks", "/home/me/repo/.git/hooks/x"),
        ("/home/me/keys", "/home/me/.ssh/id"),
        ("/home/you/notes", "/home/you/notes/a"),
        ("/root/notes", "/root/notes/a"),
        ("/etc/letsencrypt", "/etc/letsencrypt/live/a"),
        ("/var/lib/app", "/var/lib/app/x"),
        ("/srv/pipe", "/srv/pipe"),
        ("/srv/.hidden", "/srv/.hidden/x"),
        ("/home/me/.local/share", "/home/me/.local/share/althing/node/node.key"),
    ] {
        let cases: [Case<'_>; 3] =
            [(&[named], &[], path), (&[], &[("X", named)], path), (&[], &[("HF_HUB_CACHE", named)], path)];
        for (arguments, variables, path) in cases {
            let found = offered(&files, HOME, (arguments, variables), path);
            assert!(found.is_err(), "{named}: {found:?}");
        }
    }
    // The account's own home may be anywhere.
    let at = |home: &str, path: &str| offered(&files, home, (&[path], &[]), path).is_ok();
    assert_eq!((at("/root", "/root/notes/a"), at("/root", "/home/me/repo")), (true, false));
    assert_eq!((at("/var/lib/app", "/var/lib/app/x"), at("/", "/etc/letsencrypt/live/a")), (true, false));
}

#[test]
fn what_is_named_as_a_credential_is_not_offered_nor_what_holds_it() {
    let files = tree(&[
        ("/home/me/.cache/huggingface/token", ""),
        ("/home/me/.cache/huggingface/hub/models--a/blobs/1", ""),
        ("/home/me/.cache/huggingface/hub/models--b/.netrc", ""),
        ("/home/me/.cache/huggingface/hub/models--b/blobs/1", ""),
        ("/srv/app/data/x", ""),
        ("/srv/app/config/deep/.npmrc", ""),
        ("/srv/site/cert.PEM", ""),
        ("/srv/site/index.html", ""),
        ("/srv/tokens/x", ""),
        ("/srv/credentials/x", ""),
    ]);
    let is_offered = |named: &str, path: &str| offered(&files, HOME, (&[named], &[]), path).is_ok();
    for (named, path, expected) in [
        ("-", "/home/me/.cache/huggingface/token", false),
        ("-", "/home/me/.cache/huggingface/hub/models--a/blobs/1", true),
        ("-", "/home/me/.cache/huggingface/hub/models--b/blobs/1", false),
        ("-", "/home/me/.cache/huggingface/hub", false),
        ("/srv/app", "/srv/app/data/x", false),
        ("/srv/app/data", "/srv/app/data/x", true),
        ("/srv/app/config/deep/.npmrc", "/srv/app/config/deep/.npmrc", false),
        ("/srv/site", "/srv/site/index.html", false),
        ("/srv/site/index.html", "/srv/site/index.html", true),
        ("/srv/site/cert.PEM", "/srv/site/cert.PEM", false),
        ("/srv/tokens", "/srv/tokens/x", true),
        ("/srv/credentials", "/srv/credentials/x", false),
    ] {
        assert_eq!(is_offered(named, path), expected, "{named} for {path}");
    }
    for name in ["Login Data", "id_ed25519", ".pypirc", ".env.local", "Cookies", "server.key", ".git-credentials"] {
        assert!(is_credential(name), "{name}");
    }
    for name in [
        "my-credentials.txt",
        "gcp-Service-Account.json",
        "service_account_prod.json",
        "client_secret_1.json",
        "kubeconfig-prod.yaml",
        "passwords.csv",
        "private_key.txt",
        "id_work",
        "id_ed25519_sk",
        "AuthKey.p8",
    ] {
        assert!(is_credential(name), "{name}");
    }
    for name in ["tokenizer.json", "idea.md", "grid_1.bin", "monkey", "keyboard.map", "envelope", "cookies.md"] {
        assert!(!is_credential(name), "{name}");
    }
}

/// Absolute paths of words that mean something here.
fn path() -> impl Strategy<Value = String> {
    let words = "home me you root etc srv var lib run .ssh .cache .npm huggingface hub token maps a .. . .local share";
    let word = proptest::sample::select(words.split(' ').collect::<Vec<_>>());
    proptest::collection::vec(word, 0..6).prop_map(|parts| format!("/{}", parts.join("/")))
}

proptest! {
    /// Whatever a program is told, asks for and finds, an offer lies in the allow list, and in none of the places that are never
    /// offered.
    #[test]
    fn an_offer_is_always_within_the_allow_list(
        named in proptest::collection::vec(path(), 0..3),
        variable in proptest::sample::select(vec!["HF_HOME", "HF_HUB_CACHE", "XDG_CACHE_HOME", "HOME", "X"]),
        value in path(),
        asked in path(),
        home in proptest::sample::select(vec!["/home/me", "/root", "/srv/me", "/"]),
    ) {
        // All of it is there.
        let asked: PathBuf = Path::new(&asked).components().filter(|part| *part != Component::ParentDir).collect();
        let asked = asked.display().to_string();
        let inside: &'static str = Box::leak(format!("{asked}/x").into_boxed_str());
        let files = tree(&[(inside, "")]);
        let words: Vec<&str> = named.iter().map(String::as_str).collect();
        if let Ok(offer) = offered(&files, home, (words.as_slice(), &[(variable, value.as_str())]), &asked) {
            let at_home = Path::new(home).parent().and_then(|_| offer.strip_prefix(home).ok());
            let is_named = words.iter().any(|word| Path::new(word).components().eq(offer.components()));
            let is_data = offer.components().any(|part| part.as_os_str() == "hub") || variable == "HF_HUB_CACHE";
            prop_assert!(is_named || is_data || Path::new(&value) == offer, "{}", offer.display());
            prop_assert!(Path::new(&asked).starts_with(&offer), "no more than around what was asked for");
            prop_assert!(!Path::new(home).starts_with(&offer), "neither a home nor what lies above it");
            for place in ["/etc", "/var", "/run", "/lib", "/home", "/root"] {
                prop_assert!(at_home.is_some() || !offer.starts_with(place), "{}", offer.display());
            }
            let known = Path::new(home).join(".cache/huggingface/hub");
            let below = offer.strip_prefix(&known).unwrap_or(at_home.unwrap_or(&offer));
            let is_dotted = below.components().any(|part| part.as_os_str().to_string_lossy().starts_with('.'));
            prop_assert!(!is_dotted, "{}", offer.display());
            prop_assert!(!offer.components().any(|part| part.as_os_str() == "token"), "{}", offer.display());
        }
    }
}

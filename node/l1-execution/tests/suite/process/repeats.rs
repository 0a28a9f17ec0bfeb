//! Programs that may be given a message again.

use super::*;

#[tokio::test]
async fn only_a_program_whose_file_says_so_is_given_a_message_again() {
    provide();
    let folder = tempfile::tempdir().expect("a folder");
    for repeats in [false, true] {
        let host = Host::new(Builtins::new(), ProcessConfig::default());
        let mut file = file(folder.path(), "honest", 20_000);
        file.session.resume = repeats.then_some(althing_td::Resume::Repeat);
        host.start(&file, folder.path()).expect("it starts");
        let agent = host.agent("program").expect("it runs");
        assert_eq!((agent.is_resumable(), agent.calls_in_order()), (repeats, false));
        host.stop_all().await;
    }
}

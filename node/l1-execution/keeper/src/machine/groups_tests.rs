//! Texts of machines as they are.

use super::*;

fn one(own: &str, controllers: &[Controller]) -> Hierarchy {
    Hierarchy::One { own: own.into(), controllers: controllers.iter().copied().collect() }
}

fn two(own: &str) -> Hierarchy {
    Hierarchy::Two { own: own.into() }
}

#[test]
fn of_a_session_of_systemd_it_is_the_scope_in_the_one_hierarchy() {
    let groups = "0::/user.slice/user-1000.slice/user@1000.service/app.slice/app-gnome-term\\x2d2.scope\n";
    let mounts = "26 22 0:24 / /sys rw,nosuid,nodev,noexec,relatime shared:2 - sysfs sysfs rw\n\
                  33 26 0:29 / /sys/fs/cgroup rw,nosuid,nodev,noexec,relatime shared:4 - cgroup2 cgroup2 rw,nsdelegate,memory_recursiveprot\n";
    let own = "/sys/fs/cgroup/user.slice/user-1000.slice/user@1000.service/app.slice/app-gnome-term\\x2d2.scope";
    assert_eq!(hierarchies(groups, mounts), [two(own)]);
}

#[test]
fn of_a_container_it_is_what_it_sees_of_the_hierarchy() {
    let mounts = "1025 1024 0:29 / /sys/fs/cgroup ro,nosuid,nodev,noexec,relatime - cgroup2 cgroup rw,nsdelegate\n";
    assert_eq!(hierarchies("0::/\n", mounts), [two("/sys/fs/cgroup")]);
    assert!(hierarchies("0::/../other\n", mounts).is_empty(), "it is not in what it sees");
    // Without a namespace of groups, of version 1: the mount begins at the container's own.
    let groups = "5:pids:/docker/4f\n3:cpu,cpuacct:/docker/4f\n2:memory:/docker/4f\n1:name=systemd:/docker/4f\n";
    let mounts = "811 800 0:27 /docker/4f /sys/fs/cgroup/cpu,cpuacct ro - cgroup cgroup rw,cpu,cpuacct\n\
                  812 800 0:28 /docker/4f /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n\
                  813 800 0:30 /docker/4f /sys/fs/cgroup/pids ro master:14 - cgroup cgroup rw,pids\n";
    let pids = one("/sys/fs/cgroup/pids", &[Controller::Processes]);
    let processor = one("/sys/fs/cgroup/cpu,cpuacct", &[Controller::Processor]);
    assert_eq!(hierarchies(groups, mounts), [pids, processor]);
}

#[test]
fn both_versions_may_be_there() {
    let groups = "9:name=systemd:/\n8:pids:/a\n4:memory:/a/b\n3:cpuset:/\n2:cpuacct:/\n1:cpu:/\n0::/c\n";
    let mounts = "31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n\
                  32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu\n\
                  33 31 0:30 / /sys/fs/cgroup/cpuacct rw,relatime - cgroup cgroup rw,cpuacct\n\
                  35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n\
                  39 31 0:36 / /sys/fs/cgroup/pids rw,relatime - cgroup cgroup rw,pids\n\
                  41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n";
    let pids = one("/sys/fs/cgroup/pids/a", &[Controller::Processes]);
    let processor = one("/sys/fs/cgroup/cpu", &[Controller::Processor]);
    assert_eq!(hierarchies(groups, mounts), [pids, processor, two("/sys/fs/cgroup/unified/c")]);
}

#[test]
fn what_is_not_mounted_or_no_text_of_the_kernel_is_nothing() {
    assert!(hierarchies("0::/\n1:pids:/\n", "").is_empty());
    assert!(hierarchies("", "1 2 3\nx - y").is_empty());
    assert!(hierarchies("x\n0::\n::\n", "1 2 0:1 / /a rw - cgroup2 cgroup2 rw\n").is_empty());
    let mounts = "1 2 0:1 / /with\\040a\\040space rw - cgroup2 cgroup2 rw\n";
    assert_eq!(hierarchies("0::/x", mounts), [two("/with a space/x")]);
}

#[test]
fn a_group_is_made_where_nobody_else_is() {
    let own = Path::new("/g/althing.service");
    let here = |moved: Option<&str>| Some(Home { at: own.to_owned(), moved: moved.map(PathBuf::from) });
    assert_eq!(home(own, false, true), here(Some("/g/althing.service/althing-node")));
    assert_eq!(home(own, false, false), None, "whose they are decides who else may");
    assert_eq!(home(own, true, false), here(None), "the root has processes and groups");
    assert_eq!(
        home(&own.join(NODE), false, false),
        here(None),
        "it was made by a keeper, or by systemd (DelegateSubgroup)"
    );
}

#[test]
fn a_group_is_its_keepers() {
    assert_eq!(keeper_of(&name(41)), Some(41));
    for other in [NODE, "althing-", "althing-041", "althing-+41", "althing-0", "althing--3", "althing-4-1", "41", ""] {
        assert_eq!(keeper_of(other), None, "{other}");
    }
}

#[test]
fn what_is_written_is_what_the_job_says() {
    let written = |is_second, limits: &Limits| -> Vec<String> {
        settings(is_second, limits).iter().map(|setting| format!("{} {}", setting.file, setting.value)).collect()
    };
    assert_eq!(written(true, &Limits::default()), [""; 0]);
    let limits = Limits { memory_kib: 2, processes: 7, idle: true, ..Limits::default() };
    let second = ["cpu.weight 1", "cpu.idle 1", "memory.max 2048", "memory.oom.group 1", "pids.max 7"];
    assert_eq!(written(true, &limits), second);
    assert_eq!(written(false, &limits)[..2], ["cpu.shares 2", "cpu.idle 1"]);
}

#[test]
fn the_machines_root_is_exempt_and_that_of_others_namespaces_is_not() {
    assert!(is_exempt(true, "         0          0 4294967295\n"));
    assert!(is_exempt(true, "0 0 1\n") && is_exempt(true, ""));
    assert!(!is_exempt(true, "0 1000 1\n1 100000 65536\n"));
    assert!(!is_exempt(false, "0 0 4294967295\n"));
}

#[test]
fn who_was_killed_for_memory_is_counted_where_the_kernel_counts() {
    let events = "low 0\nhigh 0\nmax 7\noom 1\noom_kill 3\noom_group_kill 1\n";
    assert_eq!(killed_for_memory(events), 3);
    assert_eq!((killed_for_memory("oom 1\n"), killed_for_memory(""), killed_for_memory("oom_kill x")), (0, 0, 0));
}

"""What a program tries to get out of its sandbox, each by its name: files and processes. The rest is in attempts_beyond.py.

An attempt that returns something reached what it should not; one that returns nothing, or fails, did not. Each runs in a
process of its own, and harms nobody where it succeeds: what it makes outside it removes, and to others it sends only signals
that they ignore. What they aim at comes in the variable ESCAPE, as JSON."""

import ctypes
import errno
import json
import os
import platform
import resource
import signal
import stat
import struct
import sys
import time

AIMS = json.loads(os.environ.get("ESCAPE", "{}"))
# What it was started with, before anything of its own is open.
KEEPER = os.getppid()
OPEN = [int(name) for name in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{name}")]
ATTEMPTS = {}
# Whoever outlives its agent is seen, but does not stay for ever.
OUTLIVES_SECONDS = 120
FORKS = 64
# More watchers of files than one program is given, and fewer than an account has.
WATCHERS = 80
# What a folder of a program's own holds at most, bytes.
ROOM = 512 << 20

libc = ctypes.CDLL(None, use_errno=True)
# Numbers of system calls that the C library does not offer.
NUMBERS = {
    "x86_64": {"clone": 56, "keyctl": 250, "bpf": 321, "perf_event_open": 298, "userfaultfd": 323,
               "fanotify_init": 300, "finit_module": 313, "ioprio_set": 251, "ioprio_get": 252, "sched_setattr": 314,
               "sched_getattr": 315},
    "aarch64": {"clone": 220, "keyctl": 219, "bpf": 280, "perf_event_open": 241, "userfaultfd": 282,
                "fanotify_init": 262, "finit_module": 273, "ioprio_set": 30, "ioprio_get": 31, "sched_setattr": 274,
                "sched_getattr": 275},
}.get(platform.machine(), {}) | {"io_uring_setup": 425, "clone3": 435, "pidfd_getfd": 438}


class Judged(Exception):
    """Whether it succeeded shows later, and elsewhere."""


def attempt(name):
    def named(does):
        ATTEMPTS[name] = does
        return does

    return named


def call(function, *arguments):
    ctypes.set_errno(0)
    result = function(*arguments)
    if result == -1:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def system(name, *arguments):
    libc.syscall.restype = ctypes.c_long
    whole = [ctypes.c_long(it) if isinstance(it, int) else it for it in (NUMBERS[name], *arguments)]
    return call(libc.syscall, *whole)


def reads(path, **options):
    descriptor = os.open(path, os.O_RDONLY, **options)
    got = os.read(descriptor, 4096)
    os.close(descriptor)
    return f"{len(got)} bytes of {path}" if got else None


def lists(path, but=frozenset()):
    return ", ".join(sorted(set(os.listdir(path)) - but)[:5])


def opens_one_of(folder):
    """Their names are numbers, and say nothing."""
    return any_of(lambda name: reads(f"{folder}/{name}") or os.readlink(f"{folder}/{name}"), sorted(os.listdir(folder)))


def appends(path):
    """To what is there: a file of that name in a folder of its own is nobody's loss."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND)
    os.write(descriptor, b"# escaped\n")
    os.close(descriptor)
    return f"wrote to {path}"


def makes(folder):
    path = os.path.join(folder, f".althing-escape-{os.getpid()}")
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    os.unlink(path)
    return f"made {path}"


def opens(path, flags):
    os.close(os.open(path, flags | os.O_NONBLOCK))
    return f"opened {path}"


def any_of(does, these):
    """What the first does that succeeds; else why the last did not."""
    failed = None
    for one in these:
        try:
            if done := does(one):
                return done
        except OSError as error:
            failed = error
    if failed:
        raise failed
    return None


def of_another(pid):
    """The process of that number, unless the number is one of this program's own here."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            is_own = AIMS["mark"].encode() in file.read()
    except OSError:
        is_own = False
    if is_own or pid == 1:
        raise ProcessLookupError(f"{pid} is a process of its own here")
    return pid


def node():
    return of_another(AIMS["node"])


def other():
    return of_another(AIMS["other"]["pid"])


def key():
    return os.path.join(AIMS["data"], "node.key")


def beside_key(way):
    """What lies where the key does, for one way to it: each way is named by itself."""
    return os.path.join(AIMS["data"], "ways", way)


# The node's files, by every way.

for name in ["owner.key", "owner-next.key", "owner-after-next.key", "owner.log"]:
    ATTEMPTS[f"paths: {name}"] = lambda name=name: reads(os.path.join(AIMS["config"], name))
ATTEMPTS["paths: node.key"] = lambda: reads(key())
ATTEMPTS["the size of node.key"] = lambda: f"{os.stat(key()).st_size} bytes"
ATTEMPTS["the node's configuration, to write"] = lambda: appends(os.path.join(AIMS["config"], "althing.toml"))
ATTEMPTS["the secrets' folder"] = lambda: any_of(
    lambda name: reads(os.path.join(AIMS["data"], "secrets", name)), os.listdir(os.path.join(AIMS["data"], "secrets")))
ATTEMPTS["the store"] = lambda: reads(os.path.join(AIMS["data"], "store", "db", "CURRENT"))
# The way to its own socket leads through it: `run`, in which there is nobody else's.
ATTEMPTS["the node's data folder"] = lambda: lists(AIMS["data"], but={"run"})
ATTEMPTS["paths: /proc/self/root"] = lambda: reads("/proc/self/root" + beside_key("root"))
ATTEMPTS["paths: /proc/self/cwd/.."] = lambda: reads("/proc/self/cwd/" + os.path.relpath(beside_key("cwd")))
ATTEMPTS["paths: .. from an open folder"] = lambda: reads(
    os.path.relpath(beside_key("folder")), dir_fd=os.open(".", os.O_PATH | os.O_DIRECTORY))
ATTEMPTS["another agent's folder"] = lambda: reads(os.path.join(AIMS["other"]["folder"], "notes"))
ATTEMPTS["another agent's folder, to write"] = lambda: appends(os.path.join(AIMS["other"]["folder"], "notes"))


def linked(make, to, name):
    if os.path.lexists(name):
        os.unlink(name)
    make(to, name)
    return reads(name)


ATTEMPTS["links: one to node.key"] = lambda: linked(os.symlink, beside_key("symbolic"), "symbolic")
ATTEMPTS["hard links: one to node.key"] = lambda: linked(os.link, key(), "hard")


@attempt("a file by its handle")
def by_handle():
    handle, mount = ctypes.create_string_buffer(struct.pack("Ii", 128, 0) + bytes(128)), ctypes.c_int()
    call(libc.name_to_handle_at, -100, b".", handle, ctypes.byref(mount), 0)
    call(libc.open_by_handle_at, os.open(".", os.O_RDONLY), handle, os.O_RDONLY)
    return "opened"


# The account's files, and the machine's.

for name in [".bashrc", ".ssh/authorized_keys"]:
    ATTEMPTS[f"the account's ~/{name}"] = lambda name=name: reads(os.path.join(AIMS["home"], name))
    ATTEMPTS[f"the account's ~/{name}, to write"] = lambda name=name: appends(os.path.join(AIMS["home"], name))


@attempt("the mode of the account's ~/.bashrc")
def changes_mode():
    """To what it is."""
    path = os.path.join(AIMS["home"], ".bashrc")
    os.chmod(path, stat.S_IMODE(os.stat(path).st_mode))
    return "changed"


@attempt("the mode of the machine's /dev/null")
def changes_device():
    """To what it is. Whoever makes it another one takes it from every account."""
    os.chmod("/dev/null", stat.S_IMODE(os.stat("/dev/null").st_mode))
    return "changed"


ATTEMPTS["the machine's /var/tmp"] = lambda: reads(AIMS["temporary"])
ATTEMPTS["the machine's /var/tmp, to write"] = lambda: appends(AIMS["temporary"])
ATTEMPTS["the machine's shared memory"] = lambda: reads(AIMS["shared"])
for name in ["/", "/etc", "/usr", "/usr/local", "/bin"]:
    ATTEMPTS[f"a file in {name}"] = lambda name=name: makes(name)
ATTEMPTS["a crontab"] = lambda: any_of(makes, ["/etc/cron.d", "/var/spool/cron/crontabs", "/var/spool/cron"])
ATTEMPTS["the interpreter's folder, to write"] = lambda: any_of(
    makes, [sys.base_prefix, os.path.dirname(os.path.realpath(sys.executable)), os.path.dirname(os.__file__)])
ATTEMPTS["the account's passwords"] = lambda: reads("/etc/shadow")


@attempt("a filled disk: /tmp is the machine's")
def filled():
    """Or it has one of its own, which may grow until the machine has no more memory."""
    path = f"/tmp/.althing-escape-{os.getpid()}"
    with open(path, "xb") as file:
        file.write(bytes(1 << 20))
        is_machine_s = os.fstat(file.fileno()).st_dev == AIMS["tmp_device"]
    os.unlink(path)
    if is_machine_s:
        return f"a mebibyte in {path}"
    there = os.statvfs("/tmp")
    # A file system without a bound says 0.
    room = there.f_blocks * there.f_frsize
    return None if 0 < room <= ROOM else f"{room} bytes in /tmp"


# Processes.

@attempt("the machine's list of processes")
def processes():
    def names_the_node(pid):
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return pid if AIMS["data"].encode() in file.read() else None

    return any_of(names_the_node, [name for name in os.listdir("/proc") if name.isdigit()])


def memory(pid):
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb") as mem:
        begins = next(int(line.split("-")[0], 16) for line in maps if " r" in line)
        mem.seek(begins)
        return f"{len(mem.read(16))} bytes at {begins:x}"


for name, whom in [("the node", node), ("other agents", other)]:
    ATTEMPTS[f"/proc of {name}: environ"] = lambda whom=whom: reads(f"/proc/{whom()}/environ")
    ATTEMPTS[f"/proc of {name}: mem"] = lambda whom=whom: memory(whom())
    ATTEMPTS[f"/proc of {name}: fd"] = lambda whom=whom: opens_one_of(f"/proc/{whom()}/fd")
    ATTEMPTS[f"/proc of {name}: root"] = lambda whom=whom: lists(f"/proc/{whom()}/root")
    ATTEMPTS[f"signals to others: {name}"] = lambda whom=whom: signals(whom())
    ATTEMPTS[f"ptrace of {name}"] = lambda whom=whom: traces(whom())
ATTEMPTS["/proc of its keeper: mem"] = lambda: memory(KEEPER)
ATTEMPTS["/proc of its keeper: fd"] = lambda: opens_one_of(f"/proc/{KEEPER}/fd")
ATTEMPTS["ptrace of its keeper"] = lambda: traces(KEEPER)
ATTEMPTS["/proc/1/root"] = lambda: reads("/proc/1/root" + key())


def signals(pid):
    """None that anybody notices: 0 only asks whether it may, and SIGWINCH is ignored."""
    os.kill(pid, 0)
    os.kill(pid, signal.SIGWINCH)
    signal.pidfd_send_signal(os.pidfd_open(pid), 0)
    return f"{pid} took it"


def traces(pid):
    """By PTRACE_SEIZE, which does not stop it; it ends with this process."""
    call(libc.ptrace, ctypes.c_long(0x4206), ctypes.c_long(pid), None, None)
    return f"{pid} is traced"


@attempt("process_vm_readv of the node")
def read_memory():
    """From where nothing is: that fault comes after the check."""
    class Piece(ctypes.Structure):
        _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]

    own, there = ctypes.create_string_buffer(16), Piece(0x1000, 16)
    here = Piece(ctypes.addressof(own), 16)
    whole = (ctypes.c_long(1), ctypes.byref(there), ctypes.c_long(1), ctypes.c_long(0))
    try:
        call(libc.process_vm_readv, ctypes.c_long(node()), ctypes.byref(here), *whole)
    except OSError as error:
        if error.errno != errno.EFAULT:
            raise
    return "it may"


ATTEMPTS["a descriptor of the node"] = lambda: f"{system('pidfd_getfd', os.pidfd_open(node()), 0, 0)}"
ATTEMPTS["the limits of the node"] = lambda: f"{resource.prlimit(node(), resource.RLIMIT_NOFILE)}"


@attempt("the processors of the node")
def gives_processors():
    """Those that it has."""
    os.sched_setaffinity(node(), os.sched_getaffinity(node()))
    return "given"


@attempt("the priority of the node")
def gives_priority():
    """That which it has."""
    os.setpriority(os.PRIO_PROCESS, node(), os.getpriority(os.PRIO_PROCESS, node()))
    return "given"


@attempt("the scheduling of the node")
def schedules():
    """As it is scheduled."""
    def by_attributes(pid):
        attributes = ctypes.create_string_buffer(48)
        system("sched_getattr", pid, attributes, len(attributes), 0)
        system("sched_setattr", pid, attributes, 0)

    ways = {
        "its policy": lambda pid: os.sched_setscheduler(pid, os.sched_getscheduler(pid), os.sched_getparam(pid)),
        "its parameters": lambda pid: os.sched_setparam(pid, os.sched_getparam(pid)),
        "its attributes": by_attributes,
        "its disk": lambda pid: system("ioprio_set", 1, pid, system("ioprio_get", 1, pid)),
    }
    return any_of(lambda way: [ways[way](node()), f"{way} were set"][1], ways)


@attempt("a class of real time")
def real_time():
    """For itself, or a place before others: what an account may whose node does hard real-time work."""
    ways = {
        "first in, first out": lambda: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1)),
        "in turn": lambda: os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1)),
        "before others": lambda: os.setpriority(os.PRIO_PROCESS, 0, os.getpriority(os.PRIO_PROCESS, 0) - 1),
    }
    return any_of(lambda way: [ways[way](), way][1], ways)


@attempt("the account's watches of files")
def watches():
    """Some; they are gone with this process."""
    for _ in range(WATCHERS):
        call(libc.inotify_init1, 0)
    return f"{WATCHERS} watch"


@attempt("the machine's shared memory, by its number")
def shared_by_number():
    call(libc.shmctl, AIMS["outside"]["segment"], 2, ctypes.create_string_buffer(256))
    return "it says what it is"


@attempt("inherited descriptors")
def inherited():
    """Standard input, output and error, and an agent's socket, which is said to be handed over."""
    meant = 3 + int(os.environ.get("LISTEN_FDS", "0"))
    more = [f"{it} is {os.readlink(f'/proc/self/fd/{it}')}" for it in OPEN if it >= meant]
    return "; ".join(more)


def daemon(does):
    """In a session of its own, with no open files, child of nobody."""
    begun = os.fork()
    if begun:
        os.waitpid(begun, 0)
        return
    os.setsid()
    if os.fork():
        os._exit(0)
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    os.closerange(0, 1024)
    does()
    os._exit(0)


@attempt("a child that outlives")
def outlives():
    daemon(lambda: time.sleep(OUTLIVES_SECONDS))
    raise Judged("it runs")


@attempt("a fork bomb")
def forks():
    for _ in range(FORKS):
        daemon(lambda: time.sleep(OUTLIVES_SECONDS))
    raise Judged(f"{FORKS} run")


@attempt("memfd and re-exec")
def re_executed():
    """A program that is no file reads what this one may not."""
    with open("/bin/cat", "rb") as file:
        program = file.read()
    memory_file = os.memfd_create("escape")
    os.write(memory_file, program)
    read, write = os.pipe()
    if os.fork() == 0:
        os.dup2(write, 1)
        os.execve(memory_file, ["cat", beside_key("re-executed")], {})
    os.close(write)
    got = os.read(read, 4096)
    return f"{len(got)} bytes" if got else None

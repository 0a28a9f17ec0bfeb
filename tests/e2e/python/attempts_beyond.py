"""What a program tries to get out of its sandbox, as in attempts.py: sockets, networks, privileges, the kernel, devices."""

import base64
import ctypes
import errno
import fcntl
import os
import signal
import socket
import stat
import struct
import termios
import urllib.parse

from attempts import AIMS, ATTEMPTS, any_of, attempt, call, key, libc, node, opens, system

NEW_USER, NEW_MOUNTS = 0x10000000, 0x20000

# Sockets of the machine.

def unix(address, request=b""):
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(1)
        connection.connect(address)
        if request:
            connection.sendall(request)
        return f"connected to {address!r}"


ATTEMPTS["the control socket"] = lambda: unix(
    os.path.join(AIMS["data"], "control.sock"), b"GET /status HTTP/1.0\r\n\r\n")
ATTEMPTS["another agent's socket"] = lambda: unix(AIMS["other"]["socket"], b"GET / HTTP/1.0\r\n\r\n")
ATTEMPTS["abstract sockets"] = lambda: unix("\0" + AIMS["outside"]["abstract"])
ATTEMPTS["D-Bus: that of the session"] = lambda: unix(os.environ["DBUS_SESSION_BUS_ADDRESS"].removeprefix("unix:path="))
ATTEMPTS["D-Bus and others of the system"] = lambda: any_of(unix, [
    "/run/dbus/system_bus_socket", "/run/docker.sock", "/run/podman/podman.sock", "/run/containerd/containerd.sock",
    "/run/systemd/private", "/run/systemd/journal/socket", "/dev/log", "/tmp/.X11-unix/X0"])


# Networks.

def says_its_word(connection):
    """Only who listens outside knows the word: another one that listens at this address here is not reached."""
    connection.settimeout(1)
    got = connection.recv(4096)
    return f"was told {got!r}" if AIMS["outside"]["token"].encode() in got else None


def connects(host, port):
    with socket.create_connection((host, port), timeout=1) as connection:
        return says_its_word(connection)


def asks(host, port, question):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as connection:
        connection.connect((host, port))
        connection.send(question)
        return says_its_word(connection)


ATTEMPTS["TCP to the machine's loopback"] = lambda: connects("127.0.0.1", AIMS["outside"]["tcp"])
ATTEMPTS["UDP to the machine's loopback"] = lambda: asks("127.0.0.1", AIMS["outside"]["udp"], b"hello")
ATTEMPTS["name servers"] = lambda: asks(
    "127.0.0.1", AIMS["outside"]["udp"],
    struct.pack(">6H", 7, 0x100, 1, 0, 0, 0) + b"\x06escape\x07invalid\x00" + struct.pack(">2H", 1, 1))


@attempt("the node's gateway")
def gateway():
    with socket.create_connection(("127.0.0.1", AIMS["gateway"]), timeout=1) as connection:
        connection.sendall(b"GET /things HTTP/1.0\r\n\r\n")
        return f"was told {connection.recv(32)!r}"


@attempt("IPv6")
def ipv6():
    port = AIMS["outside"]["ipv6"]
    return connects("::1", port) if port else None


@attempt("a port of the machine, to listen at")
def listens():
    """One that is given to whoever listens without having asked for one. In a network of its own nobody else comes there."""
    with socket.socket() as listener:
        listener.listen()
        port = listener.getsockname()[1]
    is_machine_s = os.stat("/proc/self/ns/net").st_ino == AIMS["network"]
    return f"listened at {port}" if port and is_machine_s else None


@attempt("link-local and metadata addresses")
def metadata():
    """Whether somebody answers is another question: what leaves the machine is not refused at once."""
    try:
        socket.create_connection(("169.254.169.254", 80), timeout=0.3).close()
    except OSError as error:
        if error.errno in (errno.ENETUNREACH, errno.EHOSTUNREACH, errno.EACCES, errno.EPERM):
            raise
    return "it left"


@attempt("the machine's loopback by the node's proxy")
def by_proxy():
    proxies = {os.environ[it] for it in os.environ if it.upper() in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")}
    there = f"127.0.0.1:{AIMS['outside']['proxied']}"
    questions = [f"{what}\r\nHost: {there}\r\n\r\n"
                 for what in (f"CONNECT {there} HTTP/1.1", f"GET http://{there}/ HTTP/1.0")]

    def asked(of):
        proxy, question = of
        url = urllib.parse.urlsplit(proxy)
        login = base64.b64encode(f"{url.username}:{url.password}".encode()).decode()
        question = question.replace("\r\n\r\n", f"\r\nProxy-Authorization: Basic {login}\r\n\r\n")
        with socket.create_connection((url.hostname, url.port), timeout=1) as connection:
            connection.sendall(question.encode())
            return says_its_word(connection) or says_its_word(connection)

    return any_of(asked, [(proxy, question) for proxy in proxies for question in questions])


def made(*of):
    socket.socket(*of).close()
    return "made"


ATTEMPTS["raw sockets"] = lambda: made(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
ATTEMPTS["packet sockets"] = lambda: made(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
ATTEMPTS["sockets of the machine's host (vsock)"] = lambda: made(40, socket.SOCK_STREAM)


@attempt("routes of the machine")
def routes():
    """One to an address of nobody, made and removed."""
    address = bytes([240, 0, 0, os.getpid() % 250 + 1])
    route = struct.pack("=8BI", socket.AF_INET, 32, 0, 0, 254, 4, 253, 1, 0)
    route += struct.pack("=2H4s", 8, 1, address) + struct.pack("=2HI", 8, 4, socket.if_nametoindex("lo"))

    def asked(kind, flags):
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as kernel:
            kernel.settimeout(1)
            kernel.send(struct.pack("=I2H2I", 16 + len(route), kind, flags, 1, 0) + route)
            failed = -struct.unpack_from("=i", kernel.recv(4096), 16)[0]
        if failed:
            raise OSError(failed, os.strerror(failed))

    asked(24, 0x605)
    asked(25, 0x5)
    return "made"


# Privileges, and what only they may ask of the kernel.

@attempt("privileges")
def privileges():
    """By a program that takes another account's, such as sudo; or those that it has."""
    with open("/proc/self/status") as file:
        status = {name: value.strip() for name, _, value in (line.partition(":") for line in file)}
    sets = ("CapEff", "CapPrm", "CapInh", "CapBnd", "CapAmb")
    has = [f"{name} {status[name]}" for name in sets if int(status[name], 16)]
    return "; ".join(has + (["new ones"] if status["NoNewPrivs"] == "0" else []))


@attempt("chroot")
def changes_root():
    os.chroot(".")
    return "changed"


def mounts(*arguments):
    """In a list of mounts of its own, if it may make one."""
    try:
        call(libc.unshare, NEW_MOUNTS)
        call(libc.mount, b"none", b"/", None, ctypes.c_ulong(0x44000), None)
    except OSError:
        pass
    os.makedirs("mounted", exist_ok=True)
    source, target, kind, flags = arguments
    call(libc.mount, source, target, kind, ctypes.c_ulong(flags), None)
    if target == b"mounted":
        libc.umount2(target, 2)
    return "mounted"


ATTEMPTS["mount"] = lambda: mounts(b"none", b"mounted", b"tmpfs", 0)
ATTEMPTS["mount of another /proc"] = lambda: mounts(b"proc", b"mounted", b"proc", 0)
ATTEMPTS["mount of the root, to write"] = lambda: mounts(b"none", b"/", None, 0x1020)
ATTEMPTS["mount of the machine's folders elsewhere"] = lambda: mounts(b"/", b"mounted", None, 0x5000)


@attempt("what covers the account's home")
def uncovers():
    call(libc.umount2, AIMS["home"].encode(), 2)
    return "taken away"


@attempt("unshare")
def unshares():
    call(libc.unshare, NEW_USER)
    return "it has all privileges in namespaces of its own"


@attempt("clone with a namespace")
def clones():
    begun = system("clone", NEW_USER | signal.SIGCHLD, 0, 0, 0, 0)
    if begun == 0:
        os._exit(0)
    os.waitpid(begun, 0)
    return "begun"


@attempt("clone3 with a namespace")
def clones_anew():
    begun = system("clone3", struct.pack("8Q", NEW_USER, 0, 0, 0, signal.SIGCHLD, 0, 0, 0), 64)
    if begun == 0:
        os._exit(0)
    os.waitpid(begun, 0)
    return "begun"


@attempt("setns to the node's network")
def enters():
    call(libc.setns, os.open(f"/proc/{node()}/ns/net", os.O_RDONLY), 0)
    return "entered"


ATTEMPTS["keyctl"] = lambda: f"keyring {system('keyctl', 0, -3, 0)}"
ATTEMPTS["bpf"] = lambda: f"map {system('bpf', 0, struct.pack('4I', 2, 4, 4, 1) + bytes(112), 128)}"
ATTEMPTS["perf_event_open"] = lambda: "event {}".format(
    system("perf_event_open", struct.pack("IIQ24xQ", 1, 112, 0, 0x60) + bytes(64), 0, -1, -1, 0))
ATTEMPTS["userfaultfd"] = lambda: f"descriptor {system('userfaultfd', 1)}"
ATTEMPTS["io_uring_setup"] = lambda: f"ring {system('io_uring_setup', 1, bytes(120))}"
ATTEMPTS["fanotify_init"] = lambda: f"descriptor {system('fanotify_init', 0x200, 0)}"
ATTEMPTS["the kernel's log"] = lambda: f"{call(libc.klogctl, 10, None, 0)} bytes"
ATTEMPTS["the machine's name"] = lambda: [socket.sethostname(socket.gethostname()), "set"][1]


@attempt("a module of the kernel")
def module():
    """From no file: that is noticed after the check."""
    try:
        system("finit_module", -1, b"", 0)
    except OSError as error:
        if error.errno != errno.EBADF:
            raise
    return "it may"


@attempt("TIOCSTI")
def types():
    _, terminal = os.openpty()
    os.setsid()
    fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)
    fcntl.ioctl(terminal, termios.TIOCSTI, b"x")
    return "typed"


# Devices, and files of the kernel that are opened only.

for name in ["/dev/mem", "/dev/kmsg"]:
    ATTEMPTS[name] = lambda name=name: opens(name, os.O_RDONLY)
ATTEMPTS["block devices"] = lambda: any_of(
    lambda name: opens(f"/dev/{name}", os.O_RDONLY) if stat.S_ISBLK(os.stat(f"/dev/{name}").st_mode) else None,
    os.listdir("/dev"))
ATTEMPTS["other devices"] = lambda: any_of(
    lambda name: opens(f"/dev/{name}", os.O_RDWR),
    ["fuse", "kvm", "net/tun", "vsock", "vhost-net", "loop-control", "uinput"])
for name in ["/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger", "/sys/kernel/mm/transparent_hugepage/enabled"]:
    ATTEMPTS[f"{name}, to write"] = lambda name=name: opens(name, os.O_WRONLY)
ATTEMPTS["/proc/kcore"] = lambda: opens("/proc/kcore", os.O_RDONLY)


@attempt("a device of its own")
def makes_device():
    path = f"device-{os.getpid()}"
    os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 1))
    os.unlink(path)
    return "made"


@attempt("setuid files")
def sets_id():
    """Who executes one acts as the account, outside of the sandbox too."""
    path = f"setuid-{os.getpid()}"
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    try:
        os.chmod(path, 0o4755)
        return "made"
    finally:
        os.unlink(path)


@attempt("a control group")
def makes_group():
    path = f"/sys/fs/cgroup/althing-escape-{os.getpid()}"
    os.mkdir(path)
    os.rmdir(path)
    return "made"

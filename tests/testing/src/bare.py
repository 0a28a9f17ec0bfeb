"""Executes its arguments where nobody makes namespaces of users, and the kernel has no Landlock: a filter of calls
(seccomp(2)) answers as such a machine does."""
import ctypes
import os
import struct
import sys

LOAD, EQUAL, HAS, RETURN = 0x20, 0x15, 0x45, 0x06
ALLOW, ERRNO = 0x7FFF0000, 0x00050000
EPERM, ENOSYS = 1, 38
NEW_USER = 0x10000000
# clone and unshare; the other two have one number everywhere.
CLONE, UNSHARE = {"x86_64": (56, 272), "aarch64": (220, 97)}[os.uname().machine]
CLONE3, LANDLOCK = 435, 444

STEPS = [
    (LOAD, 0, 0, 0),
    (EQUAL, 4, 0, LANDLOCK),
    # Whose flags a filter cannot see; clone is used in its place.
    (EQUAL, 3, 0, CLONE3),
    (EQUAL, 3, 0, CLONE),
    (EQUAL, 2, 0, UNSHARE),
    (RETURN, 0, 0, ALLOW),
    (RETURN, 0, 0, ERRNO | ENOSYS),
    # The lower half of the first argument.
    (LOAD, 0, 0, 16),
    (HAS, 0, 1, NEW_USER),
    (RETURN, 0, 0, ERRNO | EPERM),
    (RETURN, 0, 0, ALLOW),
]


class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("steps", ctypes.c_void_p)]


steps = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *step) for step in STEPS))
program = Program(len(STEPS), ctypes.addressof(steps))
libc = ctypes.CDLL(None, use_errno=True)
# PR_SET_SECCOMP with SECCOMP_MODE_FILTER
if libc.prctl(22, 2, ctypes.byref(program), 0, 0):
    sys.exit(f"no filter can be installed: {os.strerror(ctypes.get_errno())}")
os.execvp(sys.argv[1], sys.argv[1:])

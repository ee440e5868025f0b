"""A kernel of Debian and the small file system that it starts with, in a directory of ours; nothing is installed.

The newest kernel of a suite is fetched once and kept. Of its modules those are taken that the guest loads, with all that they
depend on; the guest loads them in the order in which they are listed, so that it needs neither modprobe nor depmod.
"""

import lzma
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import debian  # noqa: E402

# A kernel's files are spread over packages of these names; before Linux 7 all were in the first.
PACKAGES = re.compile(r"linux-(image|binary|modules)-\d\S*")
# Where the guest's modules are; what is elsewhere stays packed.
PLACES = re.compile(r"/kernel/(net|lib|fs/(9p|netfs|fscache)|drivers/(virtio|net))/")
# What the guest starts with, and what lanes use.
LOADED = ("virtio_pci", "virtio_net", "9pnet_virtio", "9p", "veth", "tun", "sch_mqprio", "sch_htb", "sch_tbf", "sch_fq", "sch_fq_codel",
          "sch_ingress", "cls_flower", "cls_bpf", "cls_u32", "act_skbedit", "act_mirred")
APPLETS = ("sh", "mount", "insmod", "cat", "ip", "reboot")

INIT = """#!/busybox/sh
export PATH=/busybox
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
for module in $(cat /modules/order); do insmod /modules/$module.ko; done
mount -t 9p -o trans=virtio,version=9p2000.L,ro,cache=loose,msize=262144 usr /usr
mount -t 9p -o trans=virtio,version=9p2000.L,msize=262144 share /share
for place in /tmp /run /var; do mount -t tmpfs tmpfs $place; done
mount -t cgroup2 cgroup /sys/fs/cgroup
ip link set lo up
ip link set eth0 name CARD
ip addr add ADDRESS/24 dev CARD
ip link set CARD up
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin
/usr/bin/python3 -B /share/guest.py >/dev/ttyS1 2>&1
/busybox/reboot -f
"""


def prepare(directory, suite, busybox, values):
    """The paths of kernel and initial file system, and the release's name."""
    unpacked = pathlib.Path(directory) / suite
    if not (unpacked / "whole").exists():
        _unpack(_fetch(unpacked / "apt", suite), unpacked)
        (unpacked / "whole").touch()
    image = next(unpacked.glob("vmlinuz-*"))
    init = INIT
    for name, value in values.items():
        init = init.replace(name, value)
    return image, _initial(unpacked, busybox, init), image.name.removeprefix("vmlinuz-")


def _fetch(directory, suite):
    """Downloads the packages of the newest kernel; their paths."""
    archive = debian.Archive(directory, [("Debian", suite)])
    archive.ask("apt-get", "update")
    names = _dependencies(archive, "linux-image-amd64")
    if not names:
        raise debian.Unavailable(f"{suite} has no linux-image-amd64: try another one with --suite")
    archive.ask("apt-get", "download", *names)
    return [path for name in names for path in directory.glob(f"{name}_*.deb")]


def _dependencies(archive, package):
    """Packages of the kernel that this one leads to."""
    found, left = [], [package]
    while left:
        shown = archive.ask("apt-cache", "depends", "--important", left.pop())
        for name in re.findall(r"Depends: (\S+)", shown):
            if PACKAGES.fullmatch(name) and name not in found:
                found.append(name)
                left.append(name)
    return found


def _unpack(packages, directory):
    """The kernel, and modules from PLACES, each by its name alone, as they are packed."""
    modules = directory / "packed"
    shutil.rmtree(modules, ignore_errors=True)
    modules.mkdir(parents=True)
    for package in packages:
        with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", package], stdout=subprocess.PIPE) as process:
            with tarfile.open(fileobj=process.stdout, mode="r|") as archive:
                for member in archive:
                    path = pathlib.PurePosixPath(member.name)
                    # /boot/vmlinuz-RELEASE, since Linux 7 /usr/lib/modules/RELEASE/vmlinuz.
                    is_kernel = path.name.startswith("vmlinuz")
                    if not member.isfile() or not (is_kernel or PLACES.search(member.name)):
                        continue
                    name = f"vmlinuz-{path.parent.name}" if path.name == "vmlinuz" else path.name
                    with archive.extractfile(member) as packed, open((directory if is_kernel else modules) / name, "wb") as file:
                        shutil.copyfileobj(packed, file)
        if process.returncode:
            raise debian.Unavailable(f"{package} could not be unpacked: remove {directory}, and try again")


def _initial(directory, busybox, init):
    """The initial file system as a cpio archive; its path."""
    root = directory / "initial"
    shutil.rmtree(root, ignore_errors=True)
    for place in ("busybox", "dev", "etc", "modules", "proc", "run", "share", "sys", "tmp", "usr", "var"):
        (root / place).mkdir(parents=True)
    shutil.copy(busybox, root / "busybox/busybox")
    for applet in APPLETS:
        (root / "busybox" / applet).symlink_to("busybox")
    # What is below /usr comes from the machine that the guest runs on.
    for place in ("bin", "sbin", "lib", "lib64"):
        (root / place).symlink_to(f"usr/{place}")
    order = Modules(directory).copy(root / "modules")
    (root / "modules/order").write_text("\n".join(order) + "\n")
    (root / "init").write_text(init)
    (root / "init").chmod(0o755)
    image = directory / "initial.cpio"
    names = "\n".join(str(path.relative_to(root)) for path in sorted(root.rglob("*"))) + "\n"
    with open(image, "wb") as file:
        subprocess.run([busybox, "cpio", "-o", "-H", "newc"], cwd=root, input=names.encode(), stdout=file, stderr=subprocess.PIPE,
                       check=True)
    return image


class Modules:
    """A kernel's modules, by name; in names `-` is `_`, as the kernel has it."""

    def __init__(self, directory):
        name = lambda path: path.name.partition(".ko")[0].replace("-", "_")  # noqa: E731
        self.packed = {name(path): path for path in (directory / "packed").iterdir()}
        self.plain = {}

    def copy(self, target):
        """Unpacks what the guest loads; names, each behind those that it depends on. What is no module is built in, or not had."""
        order = []
        for name in filter(self.packed.get, LOADED):
            self._add(name, order)
        for name in order:
            (target / f"{name}.ko").write_bytes(self.plain[name])
        return order

    def _add(self, name, order):
        if name in order:
            return
        path = self.packed.get(name)
        if path is None:
            raise debian.Unavailable(f"the module {name}, which others depend on, is not below {PLACES.pattern}")
        if path.suffix not in (".ko", ".xz"):
            raise debian.Unavailable(f"{path.name} is packed in a way that is not known here")
        self.plain[name] = lzma.decompress(path.read_bytes()) if path.suffix == ".xz" else path.read_bytes()
        # The kernel's own description of a module: `name=value`, each with a zero behind.
        depends = re.search(rb"\0depends=([^\0]*)\0", self.plain[name])
        for other in filter(None, depends.group(1).decode().split(",") if depends else ()):
            self._add(other.replace("-", "_"), order)
        order.append(name)

# SPDX-License-Identifier: Apache-2.0
"""What a machine is booted from, below build/vm: roots and Python packages, which are kept, and the tree, which is made anew.

    root-SUITE-KEY/     a root of Debian with its kernel; KEY is a digest of make-root and the agent
    wheels-VERSION-KEY/ packages of tests/requirements.txt for that Python; KEY is a digest of the list
    tree-SUITE.img      /root/main: this tree, the package's programs in build/, the two packages in build/vm-debs, the wheels in build/site
"""

import hashlib
import pathlib
import re
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PLACE = ROOT / "build/vm"
SUITES = {"12": "bookworm", "13": "trixie"}
PYTHONS = {"12": "3.11", "13": "3.13"}
PAGE_ONLY = ("playwright", "axe-playwright-python")  # a browser is not in the machine
PLATFORMS = ("manylinux1_x86_64", "manylinux2014_x86_64", "manylinux_2_17_x86_64", "manylinux_2_28_x86_64")
TREE_MB = 1024


def run(command, **options):
    """Says what a command printed only if it failed."""
    done = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)
    if done.returncode:
        sys.stderr.write(done.stdout[-4000:])
        raise RuntimeError(f"{pathlib.Path(command[0]).name}: exit {done.returncode}")
    return done.stdout


def digest(*paths):
    return hashlib.sha256(b"".join(p.read_bytes() for p in paths)).hexdigest()[:12]


def kept(path, make):
    """path, named WHAT-KEY, made by make(unfinished) if it is missing; a half-made one never has its name.

    Once it is made, those of the same WHAT with other keys are removed. A machine that still runs from one keeps its open files.
    """
    if not path.exists():
        unfinished = path.with_name(path.name + ".new")
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(parents=True)
        make(unfinished)
        unfinished.rename(path)
        for old in path.parent.glob(path.name.rpartition("-")[0] + "-*"):
            if old != path:
                shutil.rmtree(old)
    return path


def root(release):
    suite = SUITES[release]
    path = PLACE / f"root-{suite}-{digest(HERE / 'make-root', HERE / 'agent', HERE / 'agent.service')}"
    return kept(path, lambda to: run([HERE / "make-root", suite, to]))


def wheels(release):
    wanted = ROOT / "tests/requirements.txt"
    lines = [line for line in wanted.read_text().splitlines() if line.split("==")[0] not in PAGE_ONLY]
    pip = [ROOT / "build/venv/bin/pip"] if (ROOT / "build/venv/bin/pip").exists() else ["python3", "-m", "pip"]
    platforms = [word for p in PLATFORMS for word in ("--platform", p)]
    return kept(PLACE / f"wheels-{PYTHONS[release]}-{digest(wanted)}", lambda to: run(
        [*pip, "install", "--quiet", "--disable-pip-version-check", "--no-compile", "--only-binary=:all:", "--implementation", "cp",
         "--python-version", PYTHONS[release], *platforms, "--target", to, *lines]))


def next_deb(deb, to):
    """The same package with a later version, to upgrade to."""
    unpacked = to / "unpacked"
    run(["dpkg-deb", "-R", deb, unpacked])
    control = unpacked / "DEBIAN/control"
    control.write_text(re.sub(r"^Version: (.*)$", r"Version: \1+next", control.read_text(), flags=re.M))
    run(["dpkg-deb", "--root-owner-group", "-Zgzip", "-z1", "-b", unpacked, to / "next.deb"])
    shutil.rmtree(unpacked)


def tree(release, deb):
    staged = PLACE / f"tree-{SUITES[release]}"
    shutil.rmtree(staged, ignore_errors=True)
    debs = staged / "build/vm-debs"
    debs.mkdir(parents=True)
    files = run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT).split("\0")
    for name in filter(lambda n: n and (ROOT / n).is_file(), files):
        (staged / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, staged / name, follow_symlinks=False)
    shutil.copy(deb, debs / "cay.deb")
    next_deb(deb, debs)
    programs = staged / "build/package"
    run(["dpkg-deb", "-x", deb, programs])
    for program in (programs / "usr/bin/cay", *(programs / "usr/libexec/cay").iterdir()):
        shutil.move(program, staged / "build" / program.name)
    shutil.rmtree(programs)
    shutil.copytree(wheels(release), staged / "build/site", symlinks=True)
    image = PLACE / f"tree-{SUITES[release]}.img"
    image.unlink(missing_ok=True)
    with open(image, "wb") as f:
        f.truncate(TREE_MB << 20)
    run(["mkfs.ext4", "-q", "-F", "-L", "tree", "-d", staged, image])
    shutil.rmtree(staged)
    return image

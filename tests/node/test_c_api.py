"""The library for C programs: built and installed as a C project, found by pkg-config, its example
run; its times are those of the experiments' bench."""

import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

from pagewire.lab.buffer import buffers_of_one_gigabyte
from pagewire.lab.nodes import INITIATOR, TARGET, Nodes
from pagewire.native import lib
from pagewire.run.settings import platform
from pagewire.run.settings.config import load

ROOT = pathlib.Path(__file__).resolve().parents[2]
NUM_BYTES = 65536
STRICT = ["-Wall", "-Wextra", "-Werror", "-pedantic"]


def run(*command: str | pathlib.Path, cwd: pathlib.Path | None = None) -> str:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


def tool(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"there is no {name} here")
    return found


@pytest.fixture(scope="module")
def prefix(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Where `meson install` put the library; Python's headers and cffi are not needed for it."""
    folder = tmp_path_factory.mktemp("c")
    meson = (sys.executable, "-m", "mesonbuild.mesonmain")
    build, installed = folder / "build", folder / "prefix"
    words = ("--prefix", installed, "--libdir=lib", "-Dbuildtype=plain", "-Dfabric=disabled")
    run(*meson, "setup", build, ROOT, *words)
    run(*meson, "compile", "-C", build, "pagewire")
    run(*meson, "install", "-C", build, "--no-rebuild")
    return installed


@pytest.fixture
def flags(prefix: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What a compiler needs to know, from pkg-config."""
    monkeypatch.setenv("PKG_CONFIG_PATH", str(prefix / "lib" / "pkgconfig"))
    return run(tool("pkg-config"), "--cflags", "--libs", "pagewire").split()


def build(
    compiler: str, options: list[str], source: pathlib.Path, flags: list[str], prefix: pathlib.Path
) -> pathlib.Path:
    program = source.with_suffix("").name
    made = prefix / program
    path = f"-Wl,-rpath,{prefix / 'lib'}"
    run(tool(compiler), *options, *STRICT, source, *flags, path, "-o", made)
    return made


def expected_ns(*settings: str) -> tuple[int, int]:
    """Ends of the example's write and read, of the same transfers on the experiments' bench."""
    config = load(["run.compute=none", *settings], environ={})
    machine = platform.load(config.run.platform)
    nodes = Nodes(config, machine)
    source, there, back = buffers_of_one_gigabyte(3, NUM_BYTES)
    source.touch()
    nodes.write(source, there, NUM_BYTES, 0)
    write_ns = nodes.times()[INITIATOR, lib.PW_HOST_WRITE_DONE]
    seen_ns = write_ns + machine.costs.core_register_read_ns
    nodes.read(there, back, NUM_BYTES, seen_ns)
    assert nodes.target == TARGET
    return write_ns, nodes.times()[INITIATOR, lib.PW_HOST_FETCH_DONE]


@pytest.fixture
def example(flags: list[str], prefix: pathlib.Path) -> pathlib.Path:
    return build("cc", ["-std=gnu11"], ROOT / "examples" / "two_nodes.c", flags, prefix)


@pytest.mark.parametrize(
    "settings",
    [
        (),
        ("run.policy=all",),
        ("run.policy=block", "firmware.window_blocks=4"),
        ("run.platform=exanest-10g",),
        ("driver.page_in=touch-a-page", "run.timeout=2ms"),
    ],
)
def test_example_shows_the_times_of_the_bench(
    example: pathlib.Path, settings: tuple[str, ...]
) -> None:
    said = run(tool("setarch"), "-R", example, *settings)  # the same addresses in every run
    times = [int(each) for each in re.findall(r"complete at +(\d+) ns: ok", said)]
    assert tuple(times) == expected_ns(*settings)
    assert "bytes are the same" in said
    assert said.count("paged in 16 pages") == 2
    assert re.search(r"read, wrong key +complete at +\d+ ns: the protection domain, key", said)


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("run.policy=al", "run.policy = 'al': allowed is one of page, block, all\n"),
        ("network.topology=torus:1", "topology 'torus:1' has 1 places for 2 nodes; take a larger"),
        ("network.model=links", "network.model = 'links': only nodes of one process can share"),
        ("run.ranks_per_node=2", "run.ranks_per_node = 2: only ranks of one process can share a"),
    ],
)
def test_example_says_which_setting_is_wrong(
    example: pathlib.Path, setting: str, said: str
) -> None:
    done = subprocess.run([example, setting], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith(said)


@pytest.mark.parametrize(
    "compiler,options",
    [
        ("cc", ["-std=c99"]),
        ("cc", ["-std=c11"]),
        ("g++", ["-std=c++11", "-x", "c++"]),
        ("g++", ["-std=c++20", "-x", "c++"]),
    ],
)
def test_header_is_clean_c_and_cpp(
    flags: list[str], prefix: pathlib.Path, compiler: str, options: list[str]
) -> None:
    source = prefix / "version.c"
    source.write_text(
        "#include <pagewire.h>\n#include <stdio.h>\n#include <string.h>\n"
        "int main(void)\n{\n"
        "    pagewire_options options;\n    pagewire_transfer_options how;\n"
        "    pagewire_node *node = NULL;\n    memset(&how, 0, sizeof how);\n"
        "    how.struct_size = sizeof how;\n    pagewire_options_default(&options);\n"
        "    if (pagewire_node_create(&options, &node) < 0) return 1;\n"
        "    pagewire_node_destroy(node);\n"
        '    return printf("%s", pagewire_version()) < 0;\n}\n',
        encoding="utf-8",
    )
    language = ["-x", "none"] if "c++" in options else []
    made = build(compiler, options, source, [*language, *flags], prefix)
    assert run(made) == run(tool("pkg-config"), "--modversion", "pagewire").strip()


def test_library_shows_its_own_functions_alone(prefix: pathlib.Path) -> None:
    library = prefix / "lib" / "libpagewire.so"
    assert (prefix / "lib" / "libpagewire.so.0").exists()
    listed = run(tool("nm"), "-D", "--defined-only", library).splitlines()
    symbols = {line.split()[-1].partition("@")[0] for line in listed} - {"PAGEWIRE_0"}
    headers = (prefix / "include" / name for name in ("pagewire.h", "unimem.h", "atomic.h"))
    text = "".join(header.read_text(encoding="utf-8") for header in headers)
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    text = re.sub(r"\(\*callback\)\([^)]*\)", "callback", text)
    declared = set(re.findall(r"\b((?:pagewire|unimem|unim)_\w+)\([^)]*\);", text))
    assert symbols == declared
    assert "Python" not in run(tool("ldd"), library)


def test_prefix_holds_the_library_and_nothing_of_python(prefix: pathlib.Path) -> None:
    files = {str(path.relative_to(prefix)) for path in prefix.rglob("*") if path.is_file()}
    assert {
        *(f"include/{name}.h" for name in ("pagewire", "unimem", "atomic")),
        "lib/pkgconfig/pagewire.pc",
    } <= files
    assert not [name for name in files if name.endswith((".py", ".pyi", ".abi3.so"))]


def test_core_of_the_library_never_aborts() -> None:
    listed = (ROOT / "rooms.txt").read_text(encoding="utf-8")
    rooms = {*re.findall(r"^(\w+):", listed, re.MULTILINE), "include"} - {"apps", "cli"}
    found = [path for room in rooms for path in (ROOT / room).rglob("*.[ch]")]
    # The preloaded marks end a program whose MPI lacks a function, as the dynamic linker would; the
    # agent of sockets is a program; D3.6's names end one that uses an invalid pointer; and a remote
    # fork's child that cannot start its file is no part of the library any more.
    sources = [path for path in found if path.parent.name not in ("marks", "agent")]
    sources.remove(ROOT / "include" / "atomic.h")
    sources.remove(ROOT / "unimem" / "program.c")
    assert len(sources) > 80
    guilty = [
        os.fspath(path.relative_to(ROOT))
        for path in sources
        if re.search(r"\b(abort|_?exit|assert)\s*\(", path.read_text(encoding="utf-8"))
    ]
    assert guilty == []

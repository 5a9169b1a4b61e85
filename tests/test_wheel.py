"""The wheel, tested without the source tree: what is in it, and that it works from where it was unpacked."""

from __future__ import annotations

import json
import subprocess
import sys
import sysconfig
import zipfile
from configparser import ConfigParser
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out), str(ROOT)]
    done = subprocess.run(build, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    (path,) = out.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def unpacked(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("site")
    zipfile.ZipFile(wheel).extractall(place)
    return place


def run_against(unpacked: Path, code: str) -> str:
    """Run code with the unpacked wheel and the installed dependencies alone.

    -I and -S leave out the environment, the working directory and the .pth files: through those an editable install
    of the source tree would be found. The dependencies' folder is added by hand, behind the wheel.
    """
    path = f"import sys; sys.path.insert(0, {str(unpacked)!r}); sys.path.append({sysconfig.get_path('purelib')!r})\n"
    command = [sys.executable, "-I", "-S", "-c", path + code]
    done = subprocess.run(command, cwd=unpacked, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_holds_both_packages_whole(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    wanted = {
        path.relative_to(source).as_posix()
        for source in (ROOT / "supervisor", ROOT / "tools")
        for path in source.rglob("*")
        if path.suffix == ".py" or path.name == "py.typed"
    }
    page = ROOT / "supervisor" / "watchkeeper" / "service" / "page"
    wanted |= {path.relative_to(ROOT / "supervisor").as_posix() for path in page.rglob("*") if path.is_file()}
    assert "watchkeeper/service/page/vendor/NOTICE" in wanted
    assert {"watchkeeper/py.typed", "watchkeeper_tools/py.typed"} <= wanted
    assert wanted <= names
    assert {name.partition("/")[0] for name in names if ".dist-info/" not in name} == {
        "watchkeeper",
        "watchkeeper_tools",
        "watchkeeper_benchmarks",
    }
    scripts = {f"watchkeeper_benchmarks/{path.name}" for path in (ROOT / "benchmarks").glob("*.py")}
    assert scripts <= names


def test_carries_its_license_and_entry_points(unpacked: Path) -> None:
    (info,) = unpacked.glob("watchkeeper-*.dist-info")
    assert "Apache License" in (info / "licenses" / "LICENSE").read_text(encoding="utf-8")
    entries = ConfigParser()
    entries.read(info / "entry_points.txt", encoding="utf-8")
    assert entries["console_scripts"]["watchkeeper"] == "watchkeeper.cli:main"
    assert set(entries["watchkeeper.tools"]) == {"files", "shell", "http", "clock", "calc"}


def test_is_imported_from_the_wheel(unpacked: Path) -> None:
    code = "import watchkeeper, watchkeeper_tools; print(watchkeeper.__file__); print(watchkeeper_tools.__file__)"
    for line in run_against(unpacked, code).splitlines():
        assert Path(line).is_relative_to(unpacked)


def test_every_public_name_is_there(unpacked: Path) -> None:
    code = "import watchkeeper as w; print(len([getattr(w, name) for name in w.__all__]))"
    assert int(run_against(unpacked, code)) > 10


def test_every_entry_point_loads(unpacked: Path) -> None:
    code = f"""
import json
from importlib.metadata import distributions
(ours,) = [found for found in distributions(path=[{str(unpacked)!r}]) if found.name == "watchkeeper"]
print(json.dumps({{e.name: callable(e.load()) or e.group == "pytest11" for e in ours.entry_points}}))
"""
    names = ("watchkeeper", "files", "shell", "http", "clock", "calc", "watchkeeper.testing.plugin")
    loaded = json.loads(run_against(unpacked, code))
    assert loaded == dict.fromkeys(names, True)

"""Loading a user's page-in policy, what is wrong with a bad one, and the check for authors."""

import random
import sys
import textwrap

import pytest
from engine_pair import Buffer, Pair
from page_in_policies import twin

from pagewire.cli.main import main
from pagewire.driver import conformance
from pagewire.driver.policy import (
    REGISTRY,
    After,
    By,
    Err,
    ErrPolicy,
    PageFault,
    PageInPolicy,
)
from pagewire.driver.policy_host import PolicyError
from pagewire.native import lib
from pagewire.native.settings import ConfigError
from pagewire.run.settings.config import load

MODULE = """
    import random

    from pagewire.driver.policy import PageInPolicy

    class Good(PageInPolicy):
        def pages(self, *, fault):
            return fault.block

    class Raises(PageInPolicy):
        def pages(self, *, fault):
            raise KeyError("lost")

    class Needs(PageInPolicy):
        def __init__(self, num_pages):
            self.num_pages = num_pages

        def pages(self, *, fault):
            return range(fault.page, fault.page + self.num_pages)

    class Unfinished(PageInPolicy):
        pass

    class NoPolicy:
        pass
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The working directory, with modules in it that no other test has loaded."""
    (tmp_path / "own_policies.py").write_text(textwrap.dedent(MODULE))
    (tmp_path / "lacks_import.py").write_text("import nothing_at_all\n")
    (tmp_path / "breaks.py").write_text("raise OSError('no luck')\n")
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    for name in ("own_policies", "lacks_import", "breaks", "elsewhere"):
        sys.modules.pop(name, None)


def test_class_is_found_in_the_working_directory_and_in_given_folders(folder):
    path = list(sys.path)
    assert type(REGISTRY.create("own_policies:Good")).__name__ == "Good"
    beside = folder / "beside"
    beside.mkdir()
    (beside / "elsewhere.py").write_text("from own_policies import Good\n")
    assert isinstance(REGISTRY.create("elsewhere:Good", folders=[str(beside)]), PageInPolicy)
    assert sys.path == path


@pytest.mark.parametrize(
    "name,texts",
    [
        ("no_such_module:X", ["no module named 'no_such_module'", "PYTHONPATH"]),
        ("own_policies.sub:X", ["'own_policies"]),
        ("lacks_import:X", ["'lacks_import' imports 'nothing_at_all'"]),
        ("breaks:X", ["importing 'breaks' raised OSError: no luck"]),
        (
            "own_policies:Goood",
            ["has no 'Goood'", "did you mean 'Good'", "Raises", "own_policies.py"],
        ),
        ("own_policies:NoPolicy", ["not a subclass", "derive it"]),
        ("own_policies:random", ["not a subclass"]),
        ("own_policies:Unfinished", ["does not define pages", "def pages(self, *, fault)"]),
        ("own_policies:Needs", ["TypeError", "num_pages", "made without arguments"]),
        ("json:JSONDecoder", ["not a subclass"]),
        ("sys:Nothing", ["has no 'Nothing'", "no PageInPolicy"]),
    ],
)
def test_class_that_cannot_be_used_is_refused_with_the_reason(folder, name, texts):
    with pytest.raises(ConfigError) as caught:
        REGISTRY.create(name)
    assert f"run.policy = '{name}'" in str(caught.value)
    for text in texts:
        assert text in str(caught.value)


def test_setting_takes_built_in_names_and_classes():
    for name in REGISTRY.names():
        number = getattr(lib, f"PW_POLICY_{name.upper()}")
        assert load([f"run.policy={name}"], environ={}).engine_settings()["policy"] == number
    for name in ("a:B", "a.b_c.d1:Ef", "_x:_Y"):
        loaded = load([f"run.policy={name}"], environ={})
        assert loaded.run.policy == name
        assert loaded.engine_settings()["policy"] == lib.PW_POLICY_HOST
    assert load(environ={"PAGEWIRE_RUN_POLICY": "a:B"}).run.policy == "a:B"


@pytest.mark.parametrize(
    "name", ["a:", ":B", "a:B:C", "a b:C", "1a:B", "a:1", "a/b:C", "a.:B", "pag"]
)
def test_other_texts_are_refused_with_what_is_allowed(name):
    with pytest.raises(ConfigError, match="one of page, block, all, or a class .* module:Class"):
        load([f"run.policy={name}"], environ={})


def test_stall_mode_refuses_a_class():
    with pytest.raises(ConfigError, match="smmu.mode = 'stall'.*take one of page, block, all"):
        load(["run.policy=a:B", "smmu.mode=stall"], environ={})
    with pytest.raises(ConfigError, match="driver.err_by = 'a:B'.*take one of library, kernel"):
        load(["driver.err_by=a:B", "smmu.mode=stall"], environ={})


def test_check_of_err_policies_passes_what_the_settings_do_and_finds_a_bad_one():
    class Alternates(ErrPolicy):
        def err(self, *, fault: PageFault, pages: range) -> Err:
            return Err(By.KERNEL, After.PAGE if len(pages) > len(fault.block) else After.RUN)

    class Late(ErrPolicy):
        def err(self, *, fault: PageFault, pages: range) -> Err:
            return Err(By.KERNEL, len(pages) > 100)

    assert conformance.check_err_policy(Alternates) > 50
    with pytest.raises(AssertionError, match="`after` one of After"):
        conformance.check_err_policy(Late)


@pytest.mark.parametrize("error", [SystemExit(0), KeyboardInterrupt(), GeneratorExit()])
def test_anything_a_policy_raises_ends_the_run_with_its_name(error):
    class Exits(PageInPolicy):
        def pages(self, *, fault: PageFault) -> range:
            raise error

    pair = Pair(own_policy=Exits)
    source, destination = Buffer(4096), Buffer(4096)
    pair.write(source, destination)
    with pytest.raises(PolicyError, match=f"raised {type(error).__name__}"):
        pair.run()


def test_view_of_a_fault_cannot_be_changed():
    fault = next(conformance.faults())
    with pytest.raises(AttributeError):
        fault.page = 3
    assert fault.resident(fault.page, 2) == (False, False)


def test_made_up_faults_are_possible_ones():
    seen = list(conformance.faults())
    for fault in seen:
        assert fault.page in fault.block
        assert fault.transfer.start <= fault.block.start < fault.block.stop <= fault.transfer.stop
        assert len(fault.block) <= lib.PW_BLOCK_PAGES
    assert {fault.at_destination for fault in seen} == {True, False}
    assert max(len(fault.transfer) for fault in seen) * lib.PW_PAGE_BYTES == 1 << 32
    assert seen == list(conformance.faults())


@pytest.mark.parametrize("number", [0, 1, 2])
def test_check_passes_what_the_engine_does_itself(number):
    assert conformance.check_policy(twin(number, 4)) > 100


def test_check_passes_a_policy_that_learns():
    class Doubling(PageInPolicy):
        def __init__(self) -> None:
            self.num_pages = 1

        def pages(self, *, fault: PageFault) -> range:
            absent = not all(fault.resident(fault.page, 4))
            self.num_pages = min(2 * self.num_pages, 64) if absent else 1
            return range(fault.page, fault.page + self.num_pages)

    conformance.check_policy(Doubling)


class Raising(PageInPolicy):
    def pages(self, *, fault: PageFault) -> range:
        return range(fault.page, fault.page + 1 + 9 // abs(len(fault.transfer) - 257))


class Late(PageInPolicy):
    def pages(self, *, fault: PageFault) -> range:
        return range(fault.page + (fault.page == fault.transfer.stop - 1), fault.transfer.stop + 1)


class Random(PageInPolicy):
    def pages(self, *, fault: PageFault) -> range:
        return range(fault.page, fault.page + random.randint(1, 100))


class Shared(PageInPolicy):
    total = 0

    def pages(self, *, fault: PageFault) -> range:
        type(self).total += 1
        return range(fault.page, fault.page + 1 + self.total // 300)


class Listing(PageInPolicy):
    def pages(self, *, fault: PageFault) -> range:
        return [fault.page]


@pytest.mark.parametrize(
    "bad,text",
    [
        (Raising, "raised ZeroDivisionError"),
        (Late, "must be in it"),
        (Random, "in a second run of the same questions"),
        (Shared, "nothing that outlives the object"),
        (Listing, "a list"),
    ],
)
def test_check_finds_a_bad_policy(bad, text):
    with pytest.raises(AssertionError, match=text):
        conformance.check_policy(bad)


def test_info_lists_the_policies(folder, capsys):
    assert main(["info"]) == 0
    output = capsys.readouterr().out
    assert "PageInPolicy (run.policy)" in output and "module:Class" in output
    assert all(each.help in output for each in REGISTRY.entries().values())
    assert main(["info", "--set", "run.policy=own_policies:Good"]) == 0
    assert "own_policies:Good" in capsys.readouterr().out
    assert main(["info", "--set", "run.policy=own_policies:God"]) == 2
    assert "did you mean 'Good'" in capsys.readouterr().err

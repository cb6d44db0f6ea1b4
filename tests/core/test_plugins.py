"""Plug-ins: what they register is known, nothing else is loaded, and errors say where."""

import subprocess
import sys
import warnings
from importlib.metadata import EntryPoint

import pytest

from recombine.core import plugins
from recombine.core.catalogue import Catalogue
from recombine.core.errors import InputError
from recombine.core.plugins import PluginError, PluginState, PluginWarning
from recombine.core.registry import Family, Parameters

FAMILY = Family("gadget")
THINGS = Catalogue[object]("thing")


@FAMILY.register("usual")
class Usual:
    pass


FAMILY.origin.clear()  # as if it were built in


@pytest.fixture(autouse=True)
def only_ours(monkeypatch):
    """No plug-in that is installed here counts, and none of a test stays."""
    monkeypatch.setattr(plugins.importlib.metadata, "entry_points", lambda group: [])
    yield
    for plugin in list(plugins._loaded.values()):
        plugins._unload(plugin)


def written(tmp_path, text, name="mine.py"):
    path = tmp_path / name
    path.write_text(f"from {__name__} import FAMILY, THINGS\n{text}")
    return path


GADGET = "@FAMILY.register('round')\nclass Round:\n    def __init__(self, size: int = 1):\n        self.size = size\n"


def test_what_a_file_registers_is_known_and_attributed(tmp_path):
    used = plugins.use(written(tmp_path, GADGET))
    assert FAMILY.build({"kind": "round", "size": 3}).size == 3
    assert FAMILY.origin == {"round": "mine"}
    assert used.kinds == [("gadget", "round")]
    assert [plugin.name for plugin in plugins.loaded()] == ["mine"]


def test_a_plug_in_is_loaded_once_and_again_when_it_changed(tmp_path):
    path = written(tmp_path, GADGET)
    first = plugins.use(path)
    assert plugins.use(path) is first
    written(tmp_path, GADGET.replace("round", "square"))
    second = plugins.use(str(path))
    assert second.sha256 != first.sha256
    assert not FAMILY.has("round")
    assert FAMILY.has("square")


def test_two_files_of_one_name_are_refused(tmp_path):
    (tmp_path / "other").mkdir()
    plugins.use(written(tmp_path, GADGET))
    with pytest.raises(PluginError, match="already loaded"):
        plugins.use(written(tmp_path / "other", GADGET.replace("round", "square")))
    assert FAMILY.has("round")


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("\n1 / 0", 3, "ZeroDivisionError"),
        ("def f(:", 2, "SyntaxError"),
        (f"{GADGET}\nimport sys\nsys.exit(3)", 8, "SystemExit"),
        ("FAMILY.register('usual')(type('Other', (), {}))", 2, "'usual', built in"),
        ("@FAMILY.register('round')\nclass Round:\n    def __init__(self, size=1): ...", 2, "needs a type"),
        ("FAMILY.register('a b')(type('Other', (), {}))", 2, "'a b'"),
        (f"{GADGET}FAMILY.register('round')(Round)", 6, "already a"),
    ],
)
def test_a_broken_plug_in_is_told_with_file_and_line_and_leaves_nothing(tmp_path, text, line, message):
    path = written(tmp_path, text)
    with pytest.raises(PluginError) as caught:
        plugins.use(path)
    assert f"{path}, line {line}: " in str(caught.value)
    assert message in str(caught.value)
    assert caught.value.states == {"mine": PluginState.BROKEN}
    assert caught.value.exit_code == 2
    assert FAMILY.origin == {}
    assert not FAMILY.has("round")
    assert FAMILY.has("usual")
    assert plugins.loaded() == []


def test_a_file_does_not_see_its_neighbours_and_says_so(tmp_path):
    (tmp_path / "neighbour.py").write_text("x = 1")
    with pytest.raises(PluginError, match=r"Move the code of neighbour\.py"):
        plugins.use(written(tmp_path, "import neighbour"))


@pytest.mark.parametrize(
    "name", ["nowhere.py", "folder.py", "a b.py", "mine.txt/", "no_such_module", "recombine.core", ""]
)
def test_what_is_no_plug_in_is_refused(tmp_path, name, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder.py").mkdir()
    with pytest.raises(PluginError) as caught:
        plugins.use(name)
    assert set(caught.value.states.values()) == {PluginState.MISSING}


def test_a_module_is_a_plug_in_also_if_it_was_imported_before(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    written(tmp_path, GADGET, "module_of_mine.py")
    import module_of_mine  # type: ignore[import-not-found]  # noqa: F401

    assert FAMILY.origin == {"round": "module_of_mine"}
    used = plugins.use("module_of_mine")
    assert used.kinds == [("gadget", "round")]
    assert used.sha256 == plugins.hashlib.sha256((tmp_path / "module_of_mine.py").read_bytes()).hexdigest()


def test_a_packages_hash_covers_all_its_files(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    hashes = []
    for name, content in (("pack_a", "x = 1"), ("pack_b", "x = 2")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("")
        (tmp_path / name / "part.py").write_text(content)
        hashes.append(plugins.use(name).sha256)
    assert hashes[0] != hashes[1]


def test_installed_entry_points_are_loaded_when_first_needed(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    written(tmp_path, GADGET.replace("round", "oval"), "installed_plugin.py")
    (tmp_path / "broken_plugin.py").write_text("1 / 0")
    entries = [EntryPoint(name, name, plugins.GROUP) for name in ("broken_plugin", "installed_plugin")]
    monkeypatch.setattr(plugins.importlib.metadata, "entry_points", lambda group: entries)
    monkeypatch.setattr(plugins, "_installed", [False])
    with pytest.warns(PluginWarning, match="broken_plugin"):
        built = FAMILY.build({"kind": "oval"})
    assert built.size == 1
    assert FAMILY.origin["oval"] == "installed_plugin"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert [p.name for p in plugins.loaded()] == ["installed_plugin"]


def test_what_is_registered_elsewhere_may_be_registered_again_there():
    for _ in range(2):  # as a cell of a notebook that is run twice
        FAMILY.register("passing")(type("Passing", (), {}))
    assert "passing" in FAMILY.origin
    FAMILY.remove("passing")
    del FAMILY.origin["passing"]


def test_catalogues_are_open_to_plug_ins(tmp_path):
    plugins.use(written(tmp_path, "class Thing:\n    name = 'third'\nTHINGS.register(Thing)\nTHINGS.add('fourth', 4)"))
    assert list(THINGS) == ["third", "fourth"]
    assert THINGS["fourth"] == 4
    assert THINGS.origin == {"third": "mine", "fourth": "mine"}
    with pytest.raises(InputError, match="did you mean 'third'"):
        THINGS["thirt"]


def test_a_catalogue_finds_the_modules_of_its_home_in_a_fixed_order(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    home = tmp_path / "home_of_things"
    home.mkdir()
    (home / "__init__.py").write_text("")
    for module, order in (("a", 3), ("b", 1), ("c", 2)):
        (home / f"{module}.py").write_text(
            f"from {__name__} import FOUND\nFOUND.add('{module}', type('Member', (), {{'order': {order}}}))\n"
        )
    found = Catalogue[type]("member", "home_of_things")
    monkeypatch.setattr(sys.modules[__name__], "FOUND", found, raising=False)
    found.origin = _Nothing()
    assert list(found) == ["b", "c", "a"]


class _Nothing(dict):
    """Origins that forget: members count as built in."""

    def __setitem__(self, key, value):
        pass


def test_a_recipe_is_a_set_of_settings():
    recipes = Family("recipe")

    @recipes.register("quick")
    class Quick(Parameters):
        steps: int = 3

    assert recipes.validate({"kind": "quick"}).model_dump() == {"steps": 3, "kind": "quick"}
    assert Quick(steps=4).kind == "quick"  # type: ignore[attr-defined]


def test_uses_are_recorded_and_compared(tmp_path):
    plugins.use(written(tmp_path, GADGET))
    with plugins.recording() as names:
        FAMILY.build({"kind": "usual"})
        assert names == set()
        FAMILY.build({"kind": "round"})
    assert names == {"mine"}
    needed = plugins.hashes(names)
    assert plugins.states(needed) == {"mine": PluginState.LOADED}
    plugins.require(needed, "run 1")
    changed = {"mine": "0" * 64, "yours": "1" * 64}
    assert plugins.states(changed) == {"mine": PluginState.CHANGED, "yours": PluginState.MISSING}
    with pytest.raises(PluginError) as caught:
        plugins.require(changed, "run 1")
    assert caught.value.states == plugins.states(changed)


def test_recorded_plug_ins_are_required_where_missing_and_warned_about_where_changed(tmp_path):
    plugins.use(written(tmp_path, GADGET))
    recorded = plugins.recorded({"plugins": {"mine": "0" * 64, "\x1b[2J": "1", "odd": 3, 4: "5"}})
    assert recorded == {"mine": "0" * 64}
    with pytest.warns(PluginWarning, match="'mine' was changed"):
        plugins.require_present(recorded, "run 1")
    with pytest.raises(PluginError) as caught:
        plugins.require_present({"yours": "1" * 64}, "run 1")
    assert caught.value.states == {"yours": PluginState.MISSING}
    for odd in (None, [], 3, {"plugins": None}, {"plugins": [1]}):
        assert plugins.recorded(odd if isinstance(odd, dict) else {"plugins": odd}) == {}


def test_workers_get_the_content_that_the_driver_loaded(tmp_path):
    path = written(tmp_path, "FAMILY.register('sent')(type('Sent', (), {}))")
    plugins.use(path)
    shipped = plugins.shipped()
    path.write_text("raise RuntimeError('the file has changed since')")
    for plugin in list(plugins._loaded.values()):
        plugins._unload(plugin)
    plugins.receive(shipped)
    assert FAMILY.has("sent")
    plugins.receive(shipped)  # a worker lives for many jobs
    path.unlink()
    plugins.receive(shipped)


def test_a_module_that_differs_on_the_workers_machine_is_refused(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "same_everywhere.py").write_text("")
    plugins.use("same_everywhere")
    [sent] = plugins.shipped()
    plugins.receive([sent])
    with pytest.raises(PluginError) as caught:
        plugins.receive([{**sent, "sha256": "0"}])
    assert caught.value.states == {"same_everywhere": PluginState.CHANGED}


def test_importing_the_package_loads_no_plug_in():
    code = "import recombine, sys; assert 'recombine.core.plugins' not in sys.modules; recombine.use"
    subprocess.run([sys.executable, "-c", code], check=True)

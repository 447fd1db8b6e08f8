"""The gate of the package's structure: what it counts as an import, and what it holds."""

import pytest

from benchmarks import architecture

FILES = {
    "__init__.py": "import lazy_loader\nlazy_loader.attach_stub(__name__, __file__)\n",
    "__init__.pyi": "from .a import one\n",
    "a.py": "def one():\n    from smcpn.b import two\n",
    "b.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from smcpn import c\n",
    "c.py": "TABLE = {'plot': 'smcpn.sub.d:draw', 'no module': 'smcpn.identify'}\n",
    "sub/__init__.py": "import lazy_loader\nlazy_loader.attach(__name__, ['d'])\n",
    "sub/d.py": "from ..a import one\n",
    "sub/e.py": "from importlib import import_module\nimport_module(f'smcpn.sub.{name}')\n",
}
EXPECTED = {
    ("smcpn", "smcpn.a"),
    ("smcpn.a", "smcpn.b"),
    ("smcpn.b", "smcpn.c"),
    ("smcpn.c", "smcpn.sub.d"),
    ("smcpn.sub", "smcpn.sub.d"),
    ("smcpn.sub.d", "smcpn.a"),
    ("smcpn.sub.e", "smcpn.sub.d"),
}
CACHED = (architecture.modules, architecture.trees, architecture.imports, architecture.defined)


@pytest.fixture
def package(tmp_path, monkeypatch):
    for name, text in FILES.items():
        path = tmp_path / "smcpn" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    monkeypatch.setattr(architecture, "ROOT", tmp_path)
    for cached in CACHED:
        cached.cache_clear()
    yield
    for cached in CACHED:
        cached.cache_clear()


@pytest.mark.usefixtures("package")
def test_every_way_to_import_counts():
    assert set(architecture.imports()) == EXPECTED
    assert architecture.circles() == [["smcpn.a", "smcpn.b", "smcpn.c", "smcpn.sub.d"]]


@pytest.mark.usefixtures("package")
def test_another_owner_of_a_mechanism_and_a_name_that_was_deleted_are_found(monkeypatch):
    mechanism = architecture.Mechanism(
        owners=("smcpn.a",),
        names=frozenset({"TABLE"}),
        deleted=frozenset({"smcpn.sub", "smcpn.a:one", "smcpn.b:one"}),
    )
    assert architecture.owners(mechanism) == ["smcpn.a", "smcpn.c"]
    monkeypatch.setattr(architecture, "MECHANISMS", {"any": mechanism})
    assert architecture.deleted_names() == [
        "smcpn.a has smcpn.a:one",
        *(f"smcpn.{name} has smcpn.sub" for name in ("sub", "sub.d", "sub.e")),
    ]
    with pytest.raises(ValueError, match="no such module"):
        architecture.owners(architecture.Mechanism(owners=("smcpn.gone",)))

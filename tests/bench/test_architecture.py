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
CACHED = (architecture.modules, architecture.trees, architecture.imports)


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


def test_there_are_no_circles_and_no_imports_upward():
    assert architecture.circles() == []
    assert architecture.upward_imports() == []

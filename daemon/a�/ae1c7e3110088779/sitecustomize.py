# Python runs this when it starts, because `ringscope run` has put its folder first in PYTHONPATH. It waits for one module of
# PyTorch's, so that communicators can be shown by the names of the groups that they serve, and gives the program its own
# sitecustomize. It must work in every Python, 2 too, print nothing, and let no error of its own out. RINGSCOPE_GROUP_NAMES=0
# switches it off.
import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))
_WAITED_FOR = ("torch.distributed.distributed_c10d", "torch.distributed.device_mesh")


class _Finder(object):
    """Says nothing of any module but those that are waited for, whose own loader it lets do all."""

    def __init__(self):
        self._is_asking = False

    def find_spec(self, name, path=None, target=None):
        if name not in _WAITED_FOR or self._is_asking:
            return None
        self._is_asking = True
        try:
            for finder in sys.meta_path:
                find = getattr(finder, "find_spec", None) if finder is not self else None
                spec = find(name, path, target) if find is not None else None
                if spec is not None:
                    if hasattr(spec.loader, "exec_module"):
                        spec.loader = _Loader(spec.loader)
                    return spec
            return None
        finally:
            self._is_asking = False


class _Loader(object):
    """Loads as the loader does that it stands for, and is gone by then."""

    def __init__(self, loader):
        self._loader = loader

    def __getattr__(self, name):
        return getattr(self._loader, name)

    def create_module(self, spec):
        return self._loader.create_module(spec)

    def exec_module(self, module):
        try:
            module.__spec__.loader = module.__loader__ = self._loader
        except Exception:
            pass
        self._loader.exec_module(module)
        try:
            _groups().install(module)
        except Exception:
            pass


def _groups():
    known = sys.modules.get("_ringscope_groups")
    if known is None:
        # By now PyTorch has loaded it.
        import importlib.util

        spec = importlib.util.spec_from_file_location("_ringscope_groups", os.path.join(_HERE, "ringscope_groups.py"))
        known = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(known)
        sys.modules["_ringscope_groups"] = known
    return known


def _is_ours(folder):
    try:
        return os.path.abspath(folder) == _HERE
    except Exception:
        return False


def _give_way():
    """Runs the program's own sitecustomize in place of this one, if it has one: what goes wrong in it is its own affair."""
    if sys.version_info < (3, 5):
        # There the module itself cannot be exchanged while it is being imported.
        import imp

        try:
            found = imp.find_module("sitecustomize", sys.path)
        except ImportError:
            return
        imp.load_module("sitecustomize", *found)
        return
    try:
        # What CPython itself imports by: importlib.util would take some milliseconds to load.
        from _frozen_importlib import module_from_spec
        from _frozen_importlib_external import PathFinder
    except ImportError:
        from importlib.machinery import PathFinder
        from importlib.util import module_from_spec
    spec = PathFinder.find_spec("sitecustomize", sys.path)
    if spec is None or spec.loader is None:
        return
    module = module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


try:
    sys.path[:] = [_folder for _folder in sys.path if not _is_ours(_folder)]
    if sys.version_info >= (3, 7) and os.environ.get("RINGSCOPE_GROUP_NAMES") != "0":
        sys.meta_path.insert(0, _Finder())
except Exception:
    pass
_give_way()

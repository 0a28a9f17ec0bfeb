"""Stands in for the SDKs of models' vendors, and for what only prints: AgentDojo imports them, and what is used of it here calls
none. So it is installed without them."""

import importlib.machinery
import sys
import types

ABSENT = ("anthropic", "click", "cohere", "google", "langchain", "openai", "requests", "rich", "tenacity", "torch", "transformers",
          "vertexai")


class Stand(type):
    """A class for any name: it may be a base, a type of an argument, an error, and a decorator with arguments."""

    def __new__(mcs, name):
        return super().__new__(mcs, name, (), {})

    def __init__(cls, name):
        super().__init__(name, (), {})

    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Stand(name)

    def __call__(cls, *_, **__):
        return lambda decorated=None, *_, **__: decorated

    def __getitem__(cls, _):
        return cls

    def __or__(cls, _):
        return cls

    __ror__ = __or__


class Module(types.ModuleType):
    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Stand(name)


class Finder:
    def find_spec(self, name, path=None, target=None):
        absent = name.split(".")[0] in ABSENT
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if absent else None

    def create_module(self, spec):
        return Module(spec.name)

    def exec_module(self, module):
        module.__path__ = []


# Last: what is installed for other reasons is itself.
sys.meta_path.append(Finder())

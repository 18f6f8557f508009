"""Calls a parhelion daemon: its routes and its methods of JSON-RPC."""

from . import types
from .api import Parhelion, Rpc
from .client import ParhelionError

__all__ = ["Parhelion", "ParhelionError", "Rpc", "types"]

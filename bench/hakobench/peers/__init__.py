"""The allocators to compare with: what they are, where they come from, and how they are built.

recipes.toml is the table; recipes, fetch, build, probe and cache each do one step of it; store puts them together.
"""

from hakobench.peers.errors import PeerError
from hakobench.peers.store import GLIBC, Peer, Status, choose, ensure, inspect, installed

__all__ = ["GLIBC", "Peer", "PeerError", "Status", "choose", "ensure", "inspect", "installed"]

"""The allocators to compare with: which they are, where they come from, and how they are built.

recipes.toml lists them. recipes, fetch, build, probe and cache do one step each; store puts the steps together.
"""

from hakobench.peers.errors import PeerError
from hakobench.peers.store import GLIBC, Peer, Status, choose, ensure, inspect, installed

__all__ = ["GLIBC", "Peer", "PeerError", "Status", "choose", "ensure", "inspect", "installed"]

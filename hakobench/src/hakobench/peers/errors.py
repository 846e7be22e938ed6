"""The one error of this package."""


class PeerError(Exception):
    """Why a peer is unavailable, in one line for the user."""

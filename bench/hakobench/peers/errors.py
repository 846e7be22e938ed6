"""The one error of this package."""


class PeerError(Exception):
    """Why a peer cannot be had, in one line for the user."""

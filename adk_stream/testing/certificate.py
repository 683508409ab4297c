"""A certificate for a server on this machine, made when it starts and gone when it stops.

google-genai speaks to the Live API over TLS only, whatever the scheme of its base URL, so a local server needs
one. ``SSL_CERT_FILE`` makes most clients trust it; one that takes an ``ssl.SSLContext`` takes ``client_context``.
"""

from __future__ import annotations

import ssl
import tempfile
from pathlib import Path

import trustme

__all__ = ["Certificate"]


class Certificate:
    """One certificate authority, and one certificate of it for this machine.

    Args:
        host: An address or name that it is for, beside those of the loopback.

    Attributes:
        ca_file: The authority's certificate (PEM), in a folder of its own.
        server_context: What the server serves with.
        client_context: What a client trusts it with; it trusts nothing else.
    """

    def __init__(self, host: str = "127.0.0.1") -> None:
        authority = trustme.CA()
        names = dict.fromkeys(("127.0.0.1", "::1", "localhost", host))
        self._folder = tempfile.TemporaryDirectory(prefix="adk-stream-")
        self.ca_file = Path(self._folder.name, "ca.pem")
        authority.cert_pem.write_to_path(str(self.ca_file))
        self.server_context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert(*names).configure_cert(self.server_context)
        self.client_context = ssl.create_default_context(cafile=str(self.ca_file))

    def remove(self) -> None:
        """Delete the file."""
        self._folder.cleanup()

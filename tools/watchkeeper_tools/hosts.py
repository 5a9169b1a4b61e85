"""Which hosts may be reached, and at which addresses."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Awaitable, Callable, Iterable
from typing import NamedTuple

import anyio

from watchkeeper import ToolError, Transient

DEFAULT_PORTS = {"http": 80, "https": 443}
_NOT_PUBLIC = (ipaddress.ip_network("168.63.129.16/32"), ipaddress.ip_network("192.0.0.0/24"))
"""Cloud platforms' own services that lie among the public addresses (Azure's, Oracle's; others are link-local)."""
_NAT64 = ipaddress.ip_network("64:ff9b::/96")

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Resolve = Callable[[str, int], Awaitable[list[str]]]


class _Entry(NamedTuple):
    host: str
    port: int | None

    def covers(self, host: str, port: int, scheme: str) -> bool:
        if self.host == "*":
            return self.port in (None, port)
        if (self.port or DEFAULT_PORTS[scheme]) != port:
            return False
        return host.endswith(self.host[1:]) if self.host.startswith("*.") else host == self.host


class Hosts:
    """An allow-list of hosts.

    An entry is ``example.com`` (the scheme's own port), ``example.com:8080``, ``*.example.com`` (all names below it,
    not itself) or ``*``; IPv6 addresses stand in brackets. Whatever the list says, only public addresses are reached
    unless ``allow_private``. Raises ``ValueError`` for an entry that is none of these.
    """

    def __init__(
        self, entries: Iterable[str] = (), *, allow_private: bool = False, resolve: Resolve | None = None
    ) -> None:
        if isinstance(entries, str):
            entries = entries.split(",")
        self._entries = tuple(_entry(text) for text in entries)
        self._allow_private = allow_private
        self._resolve = resolve or _resolve

    def require(self, scheme: str, host: str, port: int) -> None:
        """Raise :class:`ToolError` unless the list has the host."""
        if not self._entries:
            raise ToolError(
                "no host may be reached: the list of allowed hosts is empty",
                hint="the person who runs this can allow hosts with the option hosts=['example.com']",
            )
        if not any(entry.covers(host, port, scheme) for entry in self._entries):
            allowed = ", ".join(entry.host + (f":{entry.port}" if entry.port else "") for entry in self._entries[:20])
            raise ToolError(f"{host}:{port} is not among the allowed hosts", hint=f"allowed are: {allowed}")

    async def addresses(self, host: str, port: int) -> list[str]:
        """Addresses to connect to: looked up once and checked, so that what is checked is what is connected to.

        Raises :class:`ToolError` if any of them is not public (or there is none), :class:`Transient` if the name
        service does not answer.
        """
        found = await self._resolve(host, port)
        for text in found:
            if not self._allow_private and not _is_public(text):
                raise ToolError(
                    f"{host} is at {text}, which is not a public address",
                    hint="the person who runs this can allow it with the option allow_private",
                )
        if not found:
            raise ToolError(f"{host} has no address")
        return found


def _entry(text: str) -> _Entry:
    text = text.strip().lower()
    host, separator, port = text.rpartition(":")
    if not separator or text.endswith("]"):
        host, port = text, ""
    host = host.removeprefix("[").removesuffix("]").rstrip(".")
    if not host or "/" in host or "@" in host or "*" in host.removeprefix("*") or (port and not port.isdecimal()):
        raise ValueError(f"{text!r} is not a host: give 'example.com', 'example.com:8080', '*.example.com' or '*'")
    if host.startswith("*") and host != "*" and not host.startswith("*."):
        raise ValueError(f"{text!r}: '*' stands for whole names, as in '*.example.com'")
    return _Entry(host, int(port) if port else None)


async def _resolve(host: str, port: int) -> list[str]:
    try:
        found = await anyio.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except socket.gaierror as error:
        if error.errno == socket.EAI_AGAIN:
            raise Transient(f"the name service does not answer for {host}") from error
        raise ToolError(f"there is no host {host}") from error
    except (OSError, UnicodeError) as error:
        raise ToolError(f"{host} cannot be looked up") from error
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


def _is_public(text: str) -> bool:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return False
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return _is_public_itself(address.ipv4_mapped)
        return _is_public_itself(address) and all(_is_public_itself(each) for each in _embedded(address))
    return _is_public_itself(address)


def _is_public_itself(address: Address) -> bool:
    if any(address in network for network in _NOT_PUBLIC) or getattr(address, "scope_id", None):
        return False
    special = (address.is_private, address.is_loopback, address.is_link_local, address.is_multicast)
    return address.is_global and not any(special) and not address.is_unspecified and not address.is_reserved


def _embedded(address: ipaddress.IPv6Address) -> list[ipaddress.IPv4Address]:
    """IPv4 addresses that an IPv6 address leads to."""
    inner = [address.sixtofour, *(address.teredo or ())]
    if address in _NAT64 or int(address) >> 32 == 0:
        inner.append(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
    return [each for each in inner if each is not None]

from __future__ import annotations

import pytest

from watchkeeper import ToolError
from watchkeeper_tools.hosts import Hosts

pytestmark = pytest.mark.anyio


def allowed(entries: list[str], url: str) -> bool:
    scheme, _, place = url.partition("://")
    host, _, port = place.rpartition(":")
    try:
        Hosts(entries).require(scheme, host, int(port))
    except ToolError:
        return False
    return True


@pytest.mark.parametrize(
    ("entry", "url", "expected"),
    [
        ("example.com", "https://example.com:443", True),
        ("example.com", "http://example.com:80", True),
        ("Example.COM.", "http://example.com:80", True),
        ("example.com", "http://example.com:443", False),
        ("example.com", "https://example.com:8443", False),
        ("example.com", "https://evil-example.com:443", False),
        ("example.com", "https://example.com.evil.org:443", False),
        ("example.com", "https://a.example.com:443", False),
        ("*.example.com", "https://a.b.example.com:443", True),
        ("*.example.com", "https://example.com:443", False),
        ("*.example.com", "https://evilexample.com:443", False),
        ("example.com:8080", "http://example.com:8080", True),
        ("example.com:8080", "http://example.com:80", False),
        ("[::1]:8080", "http://::1:8080", True),
        ("[::1]", "http://::1:80", True),
        ("*", "http://anything:1234", True),
    ],
)
def test_the_list(entry: str, url: str, expected: bool) -> None:
    assert allowed([entry], url) is expected


def test_an_empty_list_says_how_to_allow() -> None:
    with pytest.raises(ToolError, match="empty") as raised:
        Hosts().require("http", "example.com", 80)
    assert "hosts=" in (raised.value.hint or "")


def test_the_list_may_be_one_text() -> None:
    assert allowed("a.com, b.com:81", "http://b.com:81")  # type: ignore[arg-type]  # a text is a list of one entry or more


@pytest.mark.parametrize("entry", ["", "http://example.com", "a@b", "*x.com", "a.*.com", "x:y", ":80"])
def test_bad_entries(entry: str) -> None:
    with pytest.raises(ValueError, match=r"is not a host|whole names"):
        Hosts([entry])


async def check(address: str, *, allow_private: bool = False) -> list[str]:
    async def resolve(host: str, port: int) -> list[str]:
        return ["93.184.215.14", address]

    return await Hosts(["*"], allow_private=allow_private, resolve=resolve).addresses("name.example", 80)


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "127.255.0.1",
        "0.0.0.0",
        "10.1.2.3",
        "172.16.0.1",
        "192.168.1.1",
        "100.64.0.1",
        "100.100.100.200",
        "169.254.169.254",
        "168.63.129.16",
        "192.0.0.192",
        "198.18.0.1",
        "224.0.0.1",
        "240.0.0.1",
        "255.255.255.255",
        "::1",
        "::",
        "fe80::1",
        "fe80::1%eth0",
        "2606:4700::1%eth0",
        "fc00::1",
        "fd00:ec2::254",
        "ff02::1",
        "2001:db8::1",
        "::ffff:127.0.0.1",
        "::ffff:169.254.169.254",
        "::127.0.0.1",
        "64:ff9b::10.0.0.1",
        "2002:7f00:1::",
        "2002:a9fe:a9fe::1",
        "nonsense",
    ],
)
async def test_addresses_that_are_not_public(address: str) -> None:
    with pytest.raises(ToolError, match="not a public address"):
        await check(address)
    assert await check(address, allow_private=True) == ["93.184.215.14", address]


@pytest.mark.parametrize("address", ["8.8.8.8", "2606:4700:4700::1111", "::ffff:8.8.8.8"])
async def test_public_addresses(address: str) -> None:
    assert await check(address) == ["93.184.215.14", address]


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1", "2130706433", "0x7f000001", "017700000001", "::1", "localhost"])
async def test_every_way_to_write_this_machine(host: str) -> None:
    with pytest.raises(ToolError):
        await Hosts(["*"]).addresses(host, 80)


async def test_a_name_that_cannot_exist() -> None:
    for host in ("a..b", "x" * 70 + ".com"):
        with pytest.raises(ToolError):
            await Hosts(["*"]).addresses(host, 80)


async def test_a_name_without_address() -> None:
    async def resolve(host: str, port: int) -> list[str]:
        return []

    with pytest.raises(ToolError, match="has no address"):
        await Hosts(["*"], resolve=resolve).addresses("x", 80)

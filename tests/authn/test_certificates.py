"""Whom client certificates name."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.name import _ASN1Type
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import strategies as st

from apfproxy.authn import certificates
from apfproxy.authn.certificates import (
    BAD_LIFETIME_S,
    CREDENTIAL_ID_KEY,
    MAX_CHAIN,
    UID_OID,
    ClientCertificates,
    said,
)
from apfproxy.authn.credentials import Peer
from apfproxy.request.attributes import User
from loadtest.certificates import DAY, Authority, Issued, new_rsa_key

if TYPE_CHECKING:
    from collections.abc import Callable

NOW = dt.datetime.now(dt.UTC).replace(microsecond=0)
NOW_S = NOW.timestamp()
PAST: dict[str, Any] = {"not_before": NOW - 2 * DAY, "not_after": NOW - DAY}
FUTURE: dict[str, Any] = {"not_before": NOW + DAY, "not_after": NOW + 2 * DAY}
COMMON, GROUP = NameOID.COMMON_NAME, NameOID.ORGANIZATION_NAME

AUTHORITIES = {name: Authority(name) for name in ("users", "proxies")}


def authority(name: str = "users") -> Authority:
    return AUTHORITIES[name]


def judges(
    *, client: bool = True, front_proxy: bool = False, allowed: tuple[str, ...] = ()
) -> ClientCertificates:
    return ClientCertificates(
        authority("users").pem if client else None,
        authority("proxies").pem if front_proxy else None,
        allowed,
        lambda: NOW_S,
    )


def judge(issued: Issued, judges_: ClientCertificates | None = None) -> Peer:
    return (judges_ or judges()).judge(issued.der, issued.chain_der)


def attribute(oid: x509.ObjectIdentifier, value: str) -> x509.NameAttribute[str]:
    return x509.NameAttribute(oid, value, _type=_ASN1Type.UTF8String, _validate=False)


def user(*attributes: tuple[x509.ObjectIdentifier, str], name: str = "u", **more: Any) -> Issued:  # noqa: ANN401 - as of `issue`
    """A certificate of the CA "users" with such attributes besides."""
    return authority().issue(name, attributes=[attribute(*each) for each in attributes], **more)


def test_names_a_user() -> None:
    """The common name is the user, the organizations are the groups, in their order."""
    issued = authority().issue("ada", ["b", "a"], attributes=[attribute(UID_OID, "42")])
    peer = judge(issued)

    fingerprint = issued.certificate.fingerprint(hashes.SHA256()).hex()
    extra = ((CREDENTIAL_ID_KEY, (f"X509SHA256={fingerprint}",)),)
    until_s = issued.certificate.not_valid_after_utc.timestamp() + 1.0
    expected = User("ada", ("b", "a"), "42", extra)
    assert Peer(expected, has_certificate=True, valid_until_s=until_s) == peer


@pytest.mark.parametrize(
    ("make", "name"),
    [
        pytest.param(lambda: user(usage="none"), "u", id="no-usage-said"),
        pytest.param(lambda: user(usage="any"), "u", id="any-usage"),
        pytest.param(lambda: user(usage="both"), "u", id="both-usages"),
        pytest.param(lambda: user(key=new_rsa_key()), "u", id="rsa"),
        pytest.param(lambda: authority().below("mid").issue("u"), "u", id="intermediate"),
        pytest.param(
            lambda: authority().below("mid", max_path=0).issue("u"), "u", id="path-just-long-enough"
        ),
        pytest.param(lambda: user((COMMON, "v")), "v", id="the-last-of-two-names"),
        pytest.param(lambda: user(name="system:node:a/ü"), "system:node:a/ü", id="unicode"),
    ],
)
def test_takes(make: Callable[[], Issued], name: str) -> None:
    """What Go takes for the authentication of a client."""
    peer = judge(make())

    assert (name, "") == (peer.user and peer.user.name, peer.problem)


def _without_its_chain() -> Issued:
    """A user's certificate of an intermediate CA that is not sent along."""
    issued = authority().below("mid").issue("u")
    return Issued(issued.certificate, issued.key)


def _issued_by_a_user() -> Issued:
    """A user's certificate in the place of an intermediate CA's."""
    user = authority().issue("user")
    false = Authority("user")
    assert isinstance(user.key, ec.EllipticCurvePrivateKey)
    false.name, false.key = user.certificate.subject, user.key
    issued = false.issue("admin", ["system:masters"])
    return Issued(issued.certificate, issued.key, (user.certificate,))


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        pytest.param(lambda: Authority("users").issue("u"), "", id="namesake-of-the-ca"),
        pytest.param(lambda: authority("proxies").issue("u"), "candidates", id="other-ca"),
        pytest.param(lambda: user(usage="server"), "incompatible key usage", id="server"),
        pytest.param(lambda: user(**PAST), "it expired at ", id="expired"),
        pytest.param(lambda: user(**FUTURE), "it is not valid before ", id="not-yet-valid"),
        pytest.param(_without_its_chain, "candidates", id="without-intermediate"),
        pytest.param(
            lambda: authority().below("a", max_path=0).below("b").issue("u"),
            "path length",
            id="path-too-long",
        ),
        pytest.param(_issued_by_a_user, "cA must be asserted", id="issued-by-a-user"),
        pytest.param(
            lambda: Authority("old", issuer=authority(), not_after=NOW - DAY / 24).issue("u"),
            "not valid at",
            id="expired-intermediate",
        ),
        pytest.param(lambda: user((COMMON, "a\0b"), name=""), "common name has a", id="nul"),
        pytest.param(lambda: user((COMMON, "a\r\nb"), name=""), "common name has a", id="line-end"),
        pytest.param(lambda: user((GROUP, "a\nb")), "organization has a control", id="group"),
        pytest.param(lambda: user((UID_OID, "1"), (UID_OID, "2")), "more than one uid", id="uids"),
        pytest.param(lambda: user((UID_OID, "")), "uid is empty", id="empty-uid"),
    ],
)
def test_refuses(make: Callable[[], Issued], problem: str) -> None:
    """What is no good names nobody, and says why in one line."""
    peer = judge(make())

    assert (None, False, True) == (peer.user, peer.is_front_proxy, peer.has_certificate)
    assert peer.problem.startswith("verifying certificate SN=")
    assert problem in peer.problem
    assert peer.problem.isprintable()


def test_no_name_is_nobody() -> None:
    """A good certificate without a common name is no bad credential."""
    peer = judge(authority().issue("", ["group"]))

    assert (None, "") == (peer.user, peer.problem)


def test_no_authorities() -> None:
    """Where no CA says whom certificates name they say nothing."""
    peer = judge(authority().issue("u"), judges(client=False))

    assert Peer(has_certificate=True) == peer


@pytest.mark.parametrize(
    ("name", "issuer", "allowed", "is_believed"),
    [
        pytest.param("front", "proxies", ("front", "other"), True, id="allowed"),
        pytest.param("front", "proxies", (), True, id="any"),
        pytest.param("", "proxies", (), True, id="any-without-a-name"),
        pytest.param("Front", "proxies", ("front",), False, id="other-case"),
        pytest.param("", "proxies", ("front",), False, id="without-a-name"),
        pytest.param("front", "users", ("front",), False, id="a-user-of-that-name"),
    ],
)
def test_front_proxy(name: str, issuer: str, allowed: tuple[str, ...], is_believed: bool) -> None:
    """A front proxy needs the CA and, where there are some, one of the names."""
    judge_ = judges(client=False, front_proxy=True, allowed=allowed)
    peer = judge(authority(issuer).issue(name), judge_)

    assert (is_believed, None, not is_believed) == (
        peer.is_front_proxy,
        peer.user,
        bool(peer.problem),
    )


def test_front_proxy_for_servers_is_not_believed() -> None:
    """The usage has to be that of clients."""
    peer = judge(
        authority("proxies").issue("front", usage="server"), judges(front_proxy=True, client=False)
    )

    assert not peer.is_front_proxy
    assert "incompatible key usage" in peer.problem


def test_user_where_front_proxies_are_known() -> None:
    """That a user's certificate is no front proxy's is no problem."""
    peer = judge(authority("users").issue("ada"), judges(front_proxy=True, allowed=("front",)))

    assert (False, "ada", "") == (peer.is_front_proxy, peer.user and peer.user.name, peer.problem)


def test_both() -> None:
    """Where both are of one CA a front proxy is a user as well."""
    pem = authority("users").pem
    peer = judge(
        authority("users").issue("front"),
        ClientCertificates(pem, pem, ("front",), lambda: NOW_S),
    )

    assert (True, "front") == (peer.is_front_proxy, peer.user and peer.user.name)


def test_valid_until_the_first_of_the_chain_expires() -> None:
    """An intermediate CA may expire before the certificate."""
    until = NOW + dt.timedelta(hours=1)
    middle = Authority("mid", issuer=authority(), not_after=until)

    assert until.timestamp() + 1.0 == judge(middle.issue("u")).valid_until_s


def test_several_authorities() -> None:
    """A bundle may hold many."""
    bundle = authority("proxies").pem + authority("users").pem

    assert "u" == judge(authority().issue("u"), ClientCertificates(bundle, None)).user.name  # type: ignore[union-attr]


def test_bundle_of_an_intermediate_alone() -> None:
    """As in Go what is in the bundle is trusted, root or not."""
    middle = authority().below("mid")
    peer = judge(middle.issue("u"), ClientCertificates(middle.pem, None))

    assert "" == peer.problem


@pytest.mark.parametrize("pem", [b"", b"nonsense", authority().issue("u").key_pem])
def test_bundle_that_is_none(pem: bytes) -> None:
    """A CA file without a certificate is the operator's mistake."""
    with pytest.raises(ValueError, match=r"PEM|certificate"):
        ClientCertificates(pem, None)


def test_equal_certificates_are_judged_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thousands of connections share few certificates."""
    issued = authority().issue("u")
    judge_ = judges()
    first = judge(issued, judge_)
    monkeypatch.setattr(certificates, "_verified_until_s", None)

    assert first is judge(issued, judge_)


def test_expired_since_it_was_kept() -> None:
    """What is kept is no longer believed than the certificate is valid."""
    times = iter([NOW_S, NOW_S + DAY.total_seconds(), NOW_S + DAY.total_seconds() + 1.0])
    judge_ = ClientCertificates(authority().pem, None, (), lambda: next(times))
    issued = authority().issue("u", not_after=NOW + DAY)
    found = [judge(issued, judge_).problem.rpartition(" failed: ")[2] for _ in range(3)]

    assert ["", "", f"it expired at {(NOW + DAY).isoformat()}"] == found


def test_valid_since_it_was_kept() -> None:
    """A certificate whose time comes is judged again."""
    times = iter([NOW_S, NOW_S + BAD_LIFETIME_S])
    judge_ = ClientCertificates(authority().pem, None, (), lambda: next(times))
    issued = authority().issue("u", not_before=NOW + dt.timedelta(seconds=1))

    assert [True, False] == [bool(judge(issued, judge_).problem) for _ in range(2)]


def test_few_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those used last stay."""
    monkeypatch.setattr(certificates, "MAX_KEPT", 2)
    judge_ = judges()
    users = [authority().issue(name) for name in "abc"]
    first = judge(users[0], judge_)
    second = judge(users[1], judge_)
    judge(users[0], judge_)
    judge(users[2], judge_)

    assert first is judge(users[0], judge_)
    assert second is not judge(users[1], judge_)


GOOD = authority().issue("ada", ["g"], attributes=[attribute(UID_OID, "42")])


@given(
    st.binary(max_size=64)
    | st.builds(
        lambda at, byte: GOOD.der[:at] + bytes([byte]) + GOOD.der[at + 1 :],
        st.integers(0, len(GOOD.der) - 1),
        st.integers(0, 255),
    )
    | st.integers(0, len(GOOD.der) - 1).map(lambda end: GOOD.der[:end])
)
def test_broken_certificates(der: bytes) -> None:
    """Any bytes are judged, and only a good certificate names a user."""
    for client, front_proxy in ((True, False), (True, True)):
        peer = judges(client=client, front_proxy=front_proxy).judge(der, [der, GOOD.der])
        if der != GOOD.der:
            assert (None, False) == (peer.user, peer.is_front_proxy)
            assert peer.problem


def forged(subject: Authority, serial_number: int, issuer: Authority | None = None) -> bytes:
    """A CA's certificate with the name and key of one, issued by a client's own CA."""
    issuer = issuer or OWN
    key = subject.key.public_key()
    return (
        x509.CertificateBuilder()
        .subject_name(subject.name)
        .issuer_name(issuer.name)
        .public_key(key)
        .serial_number(serial_number)
        .not_valid_before(NOW - DAY)
        .not_valid_after(NOW + DAY)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer.key.public_key()),
            critical=False,
        )
        .sign(issuer.key, hashes.SHA256())
        .public_bytes(serialization.Encoding.DER)
    )


OWN = Authority("of the client itself")


def test_chain_of_many_ways() -> None:
    """Certificates that lead on to each other are no work: without a bound it would be hours."""
    issued = authority().issue("u")
    chain = [forged(authority(), 1), *(forged(OWN, 1 + each) for each in range(1, MAX_CHAIN))]
    peer = judges(front_proxy=True).judge(issued.der, (issued.der, *chain))

    assert peer.user is not None
    assert "u" == peer.user.name
    assert not peer.is_front_proxy


@pytest.mark.parametrize("is_first", [False, True])
def test_twin_of_a_known_issuer_is_kept(is_first: bool) -> None:
    """An intermediate CA that two others have signed leads to the one that is known."""
    middle = authority().below("mid")
    issued = middle.issue("u")
    twins = [issued.chain_der[0], forged(middle, 1)]
    peer = judges().judge(issued.der, twins if is_first else twins[::-1])

    assert peer.user is not None
    assert "u" == peer.user.name


@pytest.mark.parametrize(("more", "is_taken"), [(0, True), (1, False)])
def test_long_chains(more: int, is_taken: bool) -> None:
    """Nobody needs so many certificates."""
    issued = authority().issue("u")
    chain = [forged(OWN, 1 + each) for each in range(MAX_CHAIN + more)]
    peer = judges().judge(issued.der, (issued.der, *chain))

    assert is_taken == (peer.user is not None)
    assert (
        "" if is_taken else "the certificate is broken: more than 8 certificates came with it"
    ) == (peer.problem)


def test_says_one_short_line() -> None:
    """What the library says may quote the certificate."""
    assert "a?b" == said(ValueError("a\nb (encountered processing <Certificate"))
    assert 203 == len(said(ValueError("x" * 1000)))
    assert "ValueError" == said(ValueError())

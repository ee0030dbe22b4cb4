"""Client certificates: the users that they name, and front proxies."""

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
from tests.support.certificates import DAY, Authority, Issued, new_rsa_key

if TYPE_CHECKING:
    from collections.abc import Callable

NOW = dt.datetime.now(dt.UTC).replace(microsecond=0)
NOW_S = NOW.timestamp()
PAST: dict[str, Any] = {"not_before": NOW - 2 * DAY, "not_after": NOW - DAY}
FUTURE: dict[str, Any] = {"not_before": NOW + DAY, "not_after": NOW + 2 * DAY}
COMMON, GROUP = NameOID.COMMON_NAME, NameOID.ORGANIZATION_NAME

USERS, PROXIES = Authority("users"), Authority("proxies")
OWN = Authority("of the client itself")


def judges(
    *, client: bool = True, front_proxy: bool = False, allowed: tuple[str, ...] = ()
) -> ClientCertificates:
    return ClientCertificates(
        USERS.pem if client else None,
        PROXIES.pem if front_proxy else None,
        allowed,
        lambda: NOW_S,
    )


def judge(issued: Issued, judges_: ClientCertificates | None = None) -> Peer:
    return (judges_ or judges()).judge(issued.der, issued.chain_der)


def attribute(oid: x509.ObjectIdentifier, value: str) -> x509.NameAttribute[str]:
    return x509.NameAttribute(oid, value, _type=_ASN1Type.UTF8String, _validate=False)


def user(*attributes: tuple[x509.ObjectIdentifier, str], name: str = "u", **more: Any) -> Issued:  # noqa: ANN401 - as of `issue`
    return USERS.issue(name, attributes=[attribute(*each) for each in attributes], **more)


def test_names_a_user() -> None:
    issued = USERS.issue("ada", ["b", "a"], attributes=[attribute(UID_OID, "42")])
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
        pytest.param(lambda: user(key=new_rsa_key()), "u", id="rsa"),
        pytest.param(lambda: USERS.below("mid", max_path=0).issue("u"), "u", id="intermediate"),
        pytest.param(lambda: user((COMMON, "v")), "v", id="the-last-of-two-names"),
        pytest.param(lambda: user(name="system:node:a/ü"), "system:node:a/ü", id="unicode"),
        pytest.param(lambda: USERS.issue("", ["group"]), None, id="no-name-is-nobody"),
    ],
)
def test_takes(make: Callable[[], Issued], name: str | None) -> None:
    peer = judge(make())

    assert (name, "") == (peer.user and peer.user.name, peer.problem)


def _without_its_chain() -> Issued:
    """A user's certificate of an intermediate CA that is not sent along."""
    issued = USERS.below("mid").issue("u")
    return Issued(issued.certificate, issued.key)


def _issued_by_a_user() -> Issued:
    """A user's certificate in the place of an intermediate CA's."""
    user = USERS.issue("user")
    false = Authority("user")
    assert isinstance(user.key, ec.EllipticCurvePrivateKey)
    false.name, false.key = user.certificate.subject, user.key
    issued = false.issue("admin", ["system:masters"])
    return Issued(issued.certificate, issued.key, (user.certificate,))


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        pytest.param(lambda: Authority("users").issue("u"), "", id="namesake-of-the-ca"),
        pytest.param(lambda: PROXIES.issue("u"), "candidates", id="other-ca"),
        pytest.param(lambda: user(usage="server"), "incompatible key usage", id="server"),
        pytest.param(lambda: user(**PAST), "it expired at ", id="expired"),
        pytest.param(lambda: user(**FUTURE), "it is not valid before ", id="not-yet-valid"),
        pytest.param(_without_its_chain, "candidates", id="without-intermediate"),
        pytest.param(
            lambda: USERS.below("a", max_path=0).below("b").issue("u"),
            "path length",
            id="path-too-long",
        ),
        pytest.param(_issued_by_a_user, "cA must be asserted", id="issued-by-a-user"),
        pytest.param(
            lambda: Authority("old", issuer=USERS, not_after=NOW - DAY / 24).issue("u"),
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
    peer = judge(make())

    assert (None, False, True) == (peer.user, peer.is_front_proxy, peer.has_certificate)
    assert peer.problem.startswith("verifying certificate SN=")
    assert problem in peer.problem
    assert peer.problem.isprintable()


def test_no_authorities() -> None:
    assert Peer(has_certificate=True) == judge(USERS.issue("u"), judges(client=False))


@pytest.mark.parametrize(
    ("issued", "allowed", "is_believed"),
    [
        pytest.param(PROXIES.issue("front"), ("front", "other"), True, id="allowed"),
        pytest.param(PROXIES.issue(""), (), True, id="any-without-a-name"),
        pytest.param(PROXIES.issue("Front"), ("front",), False, id="other-case"),
        pytest.param(PROXIES.issue(""), ("front",), False, id="without-a-name"),
        pytest.param(PROXIES.issue("front", usage="server"), (), False, id="for-servers"),
        pytest.param(USERS.issue("front"), ("front",), False, id="a-user-of-that-name"),
    ],
)
def test_front_proxy(issued: Issued, allowed: tuple[str, ...], is_believed: bool) -> None:
    peer = judge(issued, judges(client=False, front_proxy=True, allowed=allowed))

    assert (is_believed, None) == (peer.is_front_proxy, peer.user)
    assert is_believed == (not peer.problem)


def test_users_where_front_proxies_are_known() -> None:
    """A user's certificate need not be a front proxy's; where one CA has both it is."""
    both = ClientCertificates(USERS.pem, USERS.pem, ("front",), lambda: NOW_S)
    for name, judge_, is_front_proxy in (
        ("ada", judges(front_proxy=True, allowed=("front",)), False),
        ("front", both, True),
    ):
        peer = judge(USERS.issue(name), judge_)
        assert (is_front_proxy, name, "") == (
            peer.is_front_proxy,
            peer.user and peer.user.name,
            peer.problem,
        )


def test_valid_until_the_first_of_the_chain_expires() -> None:
    """An intermediate CA may expire before the certificate."""
    until = NOW + dt.timedelta(hours=1)
    middle = Authority("mid", issuer=USERS, not_after=until)

    assert until.timestamp() + 1.0 == judge(middle.issue("u")).valid_until_s


def test_bundles() -> None:
    """A bundle may hold many CAs; as in Go what is in it is trusted, root or not."""
    middle = USERS.below("mid")

    assert "" == judge(USERS.issue("u"), ClientCertificates(PROXIES.pem + USERS.pem, None)).problem
    assert "" == judge(middle.issue("u"), ClientCertificates(middle.pem, None)).problem


@pytest.mark.parametrize("pem", [b"", b"nonsense", USERS.issue("u").key_pem])
def test_bundle_without_a_certificate(pem: bytes) -> None:
    with pytest.raises(ValueError, match=r"PEM|certificate"):
        ClientCertificates(pem, None)


def test_expired_since_it_was_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cached verdict holds no longer than the certificate; while it does nothing is verified."""
    times = iter([NOW_S, NOW_S + DAY.total_seconds(), NOW_S + DAY.total_seconds() + 1.0])
    judge_ = ClientCertificates(USERS.pem, None, (), lambda: next(times))
    issued = USERS.issue("u", not_after=NOW + DAY)
    first = judge(issued, judge_)
    with monkeypatch.context() as patch:
        patch.setattr(certificates, "_verified_until_s", None)
        assert first is judge(issued, judge_)

    assert judge(issued, judge_).problem.endswith(f"it expired at {(NOW + DAY).isoformat()}")


def test_valid_since_it_was_kept() -> None:
    times = iter([NOW_S, NOW_S + BAD_LIFETIME_S])
    judge_ = ClientCertificates(USERS.pem, None, (), lambda: next(times))
    issued = USERS.issue("u", not_before=NOW + dt.timedelta(seconds=1))

    assert [True, False] == [bool(judge(issued, judge_).problem) for _ in range(2)]


def test_few_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(certificates, "MAX_KEPT", 2)
    judge_ = judges()
    users = [USERS.issue(name) for name in "abc"]
    first, second, _, _ = (judge(users[number], judge_) for number in (0, 1, 0, 2))

    assert first is judge(users[0], judge_)
    assert second is not judge(users[1], judge_)


GOOD = USERS.issue("ada", ["g"], attributes=[attribute(UID_OID, "42")])


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
    for client, front_proxy in ((True, False), (True, True)):
        peer = judges(client=client, front_proxy=front_proxy).judge(der, [der, GOOD.der])
        if der != GOOD.der:
            assert (None, False) == (peer.user, peer.is_front_proxy)
            assert peer.problem


def forged(subject: Authority, serial_number: int) -> bytes:
    """A CA's certificate with the name and key of one, issued by a client's own CA."""
    key = subject.key.public_key()
    return (
        x509.CertificateBuilder()
        .subject_name(subject.name)
        .issuer_name(OWN.name)
        .public_key(key)
        .serial_number(serial_number)
        .not_valid_before(NOW - DAY)
        .not_valid_after(NOW + DAY)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(OWN.key.public_key()),
            critical=False,
        )
        .sign(OWN.key, hashes.SHA256())
        .public_bytes(serialization.Encoding.DER)
    )


def test_chain_of_many_ways() -> None:
    """Certificates that lead on to each other are no work: without a bound it would be hours."""
    issued = USERS.issue("u")
    chain = [forged(USERS, 1), *(forged(OWN, 1 + each) for each in range(1, MAX_CHAIN))]
    peer = judges(front_proxy=True).judge(issued.der, (issued.der, *chain))

    assert ("u", False) == (peer.user and peer.user.name, peer.is_front_proxy)


@pytest.mark.parametrize("step", [1, -1])
def test_twin_of_a_known_issuer_is_kept(step: int) -> None:
    """An intermediate CA that two others have signed leads to the one that is known."""
    middle = USERS.below("mid")
    issued = middle.issue("u")
    twins = [issued.chain_der[0], forged(middle, 1)]
    peer = judges().judge(issued.der, twins[::step])

    assert "u" == (peer.user and peer.user.name)


@pytest.mark.parametrize(("more", "is_taken"), [(0, True), (1, False)])
def test_long_chains(more: int, is_taken: bool) -> None:
    issued = USERS.issue("u")
    chain = [forged(OWN, 1 + each) for each in range(MAX_CHAIN + more)]
    peer = judges().judge(issued.der, (issued.der, *chain))
    problem = "the certificate is broken: more than 8 certificates came with it"

    assert (is_taken, "" if is_taken else problem) == (peer.user is not None, peer.problem)


def test_says_one_short_line() -> None:
    """The library's messages may quote the certificate."""
    assert "a?b" == said(ValueError("a\nb (encountered processing <Certificate"))
    assert 203 == len(said(ValueError("x" * 1000)))
    assert "ValueError" == said(ValueError())

"""Client certificates: which user one names, and whether it is a front proxy's.

A certificate counts if a chain leads from it to a CA of a bundle, every link of which is valid now
and usable for client authentication: its extended key usage names that, or any usage, or there is
none.  As in Go it needs no alternative name, may itself be in the bundle, and a bundle may hold
intermediate CAs alone.  There are no revocation lists, as in kube-apiserver.

Differences from kube-apiserver: a name, group or uid with control characters, which no header field
can carry, is refused; and the library must know every critical extension.

Sources: kubernetes/apiserver `authentication/request/x509/x509.go`; the UID's OID is of
kubernetes/apiserver `authentication/request/x509` and kubernetes/kubernetes' feature
AllowParsingUserUIDFromCertAuth, on since 1.34.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import time
from collections import OrderedDict
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509 import verification
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID, ObjectIdentifier

from apfproxy.authn.credentials import Peer
from apfproxy.request.attributes import User

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

# The subject's attribute with the user's uid, below the CNCF's enterprise number.
UID_OID = ObjectIdentifier("1.3.6.1.4.1.57683.2")
CREDENTIAL_ID_KEY = "authentication.kubernetes.io/credential-id"
MAX_KEPT = 4096  # certificates whose verdict is cached, at about 2 KB each
BAD_LIFETIME_S = 10.0  # of a refusal: the certificate may become valid meanwhile
MAX_PROBLEM_CHARS = 200  # of the library's message, which quotes the certificate
# Certificates that a client may send beside its own: the longest chain of the library.
MAX_CHAIN = 8
CLIENT_USAGES = frozenset(
    {ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE}
)


class SubjectError(ValueError):
    pass


class ClientCertificates:
    """Judges clients' certificates, and caches the verdicts; ValueError if a CA is no PEM.

    Args:
        client_ca: PEM of the CAs of users' certificates; None if certificates name no users.
        front_proxy_ca: PEM of the CAs of front proxies' certificates; None if there are none.
        allowed_names: Common names of which a front proxy must have one; any if empty.
        now_s: Unix time.
    """

    def __init__(
        self,
        client_ca: bytes | None,
        front_proxy_ca: bytes | None,
        allowed_names: tuple[str, ...] = (),
        now_s: Callable[[], float] = time.time,
    ) -> None:
        client_cas, front_proxy_cas = _loaded(client_ca), _loaded(front_proxy_ca)
        self._client_store = verification.Store(client_cas) if client_cas else None
        self._front_proxy_store = verification.Store(front_proxy_cas) if front_proxy_cas else None
        self._anchors = frozenset(each.subject for each in (*client_cas, *front_proxy_cas))
        self._allowed_names = frozenset(allowed_names)
        self._now_s = now_s
        # By SHA-256 of all certificates, with the time until which it counts; last used is last.
        self._kept: OrderedDict[bytes, tuple[Peer, float]] = OrderedDict()

    def judge(self, leaf_der: bytes, chain: Sequence[bytes] = ()) -> Peer:
        """The peer that a certificate makes; never raises, whatever the bytes.

        The chain is what the client sent, in any order, with or without the certificate.
        """
        digest = hashlib.sha256(leaf_der)
        fingerprint = digest.hexdigest()
        for each in chain:
            digest.update(each)
        key = digest.digest()
        now_s = self._now_s()
        kept = self._kept.get(key)
        if kept is not None and now_s < kept[1]:
            self._kept.move_to_end(key)
            return kept[0]
        peer = self._judged(leaf_der, chain, fingerprint, now_s)
        until_s = now_s + BAD_LIFETIME_S if peer.problem else peer.valid_until_s
        self._kept[key] = (peer, until_s)
        self._kept.move_to_end(key)
        if len(self._kept) > MAX_KEPT:
            self._kept.popitem(last=False)
        return peer

    def _judged(
        self, leaf_der: bytes, chain: Sequence[bytes], fingerprint: str, now_s: float
    ) -> Peer:
        user = None
        is_front_proxy = False
        valid_until_s = float("inf")
        problems: list[str] = []
        try:
            leaf = x509.load_der_x509_certificate(leaf_der)
            sent = [each for each in chain if each != leaf_der]
            if len(sent) > MAX_CHAIN:
                raise SubjectError(f"more than {MAX_CHAIN} certificates came with it")  # noqa: TRY301 - as for one that is broken
            others = _without_twins(map(x509.load_der_x509_certificate, sent), self._anchors)
            for store in filter(None, (self._front_proxy_store, self._client_store)):
                try:
                    until_s = _verified_until_s(leaf, others, store, now_s)
                    if store is self._front_proxy_store:
                        self._check_name(leaf)
                        is_front_proxy = True
                    else:
                        user = _user_of(leaf, fingerprint)
                    valid_until_s = min(valid_until_s, until_s)
                except (verification.VerificationError, SubjectError) as error:
                    problems.append(_problem(leaf, error, now_s))
        except Exception as error:  # noqa: BLE001 - the library has many for a broken certificate
            return Peer(has_certificate=True, problem=f"the certificate is broken: {said(error)}")
        is_known = user is not None or is_front_proxy
        problem = "" if is_known else "; ".join(dict.fromkeys(problems))
        return Peer(user, is_front_proxy, True, problem, valid_until_s)

    def _check_name(self, leaf: x509.Certificate) -> None:
        name = _common_name(leaf)
        if self._allowed_names and name not in self._allowed_names:
            raise SubjectError(f"subject with cn={name!r} is not in the allowed list")


def _without_twins(
    certificates: Iterable[x509.Certificate], anchors: frozenset[x509.Name]
) -> list[x509.Certificate]:
    """One certificate of each key and name: of twins the one issued by an anchor, or the first.

    The library tries every chain, and anybody can make n certificates that lead on to each other in
    every order: the eighth power of n chains, while nothing else is served.
    """
    kept: dict[tuple[x509.Name, bytes], x509.Certificate] = {}
    for each in certificates:
        key = each.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        if (each.subject, key) not in kept or each.issuer in anchors:
            kept[each.subject, key] = each
    return list(kept.values())


def _verified_until_s(
    leaf: x509.Certificate,
    others: list[x509.Certificate],
    store: verification.Store,
    now_s: float,
) -> float:
    """The Unix time at which a certificate of a chain to one of the store's CAs first expires."""
    now = dt.datetime.fromtimestamp(now_s, dt.UTC).replace(tzinfo=None)
    verifier = (
        verification.PolicyBuilder()
        .store(store)
        .time(now)
        .extension_policies(ca_policy=_CA_POLICY, ee_policy=_LEAF_POLICY)
        .build_client_verifier()
    )
    chain = verifier.verify(leaf, others).chain
    # A certificate is valid through the second that it names.
    return min(each.not_valid_after_utc.timestamp() for each in chain) + 1.0


def _common_name(certificate: x509.Certificate) -> str:
    """The last one of several, as in Go; "" if there is none."""
    names = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return _text(names[-1], "common name") if names else ""


def _user_of(certificate: x509.Certificate, fingerprint: str) -> User | None:
    """The user that a certificate names; None without a common name.

    SubjectError if a name is no text, or there is more than one uid, or an empty one.
    """
    name = _common_name(certificate)
    if not name:
        return None
    subject = certificate.subject
    organizations = subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
    groups = tuple(_text(each, "organization") for each in organizations)
    uids = [_text(each, "uid") for each in subject.get_attributes_for_oid(UID_OID)]
    if len(uids) > 1:
        raise SubjectError("the subject has more than one uid")
    if uids and not uids[0]:
        raise SubjectError("the subject's uid is empty")
    extra = ((CREDENTIAL_ID_KEY, (f"X509SHA256={fingerprint}",)),)
    return User(name, groups, uids[0] if uids else "", extra)


def said(error: Exception) -> str:
    text = str(error) or type(error).__name__
    text = text.partition(" (encountered processing")[0]
    text = "".join(each if each.isprintable() else "?" for each in text)
    return text if len(text) <= MAX_PROBLEM_CHARS else f"{text[:MAX_PROBLEM_CHARS]}..."


def _problem(leaf: x509.Certificate, error: Exception, now_s: float) -> str:
    until, since = leaf.not_valid_after_utc, leaf.not_valid_before_utc
    if now_s >= until.timestamp() + 1.0:
        why = f"it expired at {until.isoformat()}"
    elif now_s < since.timestamp():
        why = f"it is not valid before {since.isoformat()}"
    else:
        why = said(error)
    return f"verifying certificate SN={leaf.serial_number} failed: {why}"


def _text(attribute: x509.NameAttribute[str | bytes], what: str) -> str:
    value = attribute.value
    if not isinstance(value, str):
        raise SubjectError(f"the subject's {what} is no text")
    if any(each < " " or each == "\x7f" for each in value):
        raise SubjectError(f"the subject's {what} has a control character")
    return value


def _loaded(pem: bytes | None) -> list[x509.Certificate]:
    return [] if pem is None else x509.load_pem_x509_certificates(pem)


def _check_signs_certificates(
    _policy: verification.Policy, _certificate: x509.Certificate, usage: x509.KeyUsage | None
) -> None:
    if usage is not None and not usage.key_cert_sign:
        raise ValueError("an issuer's key may not sign certificates")


def _check_client_usage(
    _policy: verification.Policy,
    _certificate: x509.Certificate,
    usage: x509.ExtendedKeyUsage | None,
) -> None:
    if usage is not None and CLIENT_USAGES.isdisjoint(usage):
        raise ValueError("certificate specifies an incompatible key usage")


_ANY = verification.Criticality.AGNOSTIC
_LEAF_POLICY = verification.ExtensionPolicy.permit_all().may_be_present(
    x509.ExtendedKeyUsage, _ANY, _check_client_usage
)
_CA_POLICY = (
    verification.ExtensionPolicy.permit_all()
    .require_present(x509.BasicConstraints, _ANY, None)
    .may_be_present(x509.KeyUsage, _ANY, _check_signs_certificates)
    .may_be_present(x509.ExtendedKeyUsage, _ANY, _check_client_usage)
)
"""The extensions' rules beside the library's own: that issuers are CAs, their names' constraints,
and the length of the path."""

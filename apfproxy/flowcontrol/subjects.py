"""The subjects of a rule: whose requests it is about."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from apfproxy.objects.types import Subject
    from apfproxy.request.user import User

ALL: Final = "*"
SERVICE_ACCOUNT_PREFIX: Final = "system:serviceaccount:"


class Subjects:
    """The subjects of one rule, merged; `user_prefixes` are all service accounts of a namespace."""

    def __init__(self, subjects: Iterable[Subject]) -> None:
        self.is_all = False
        self.users: set[str] = set()
        self.groups: set[str] = set()
        self.user_prefixes: tuple[str, ...] = ()
        for subject in subjects:
            self._add(subject)

    def _add(self, subject: Subject) -> None:
        if subject.kind == "User" and subject.user is not None:
            self.is_all |= subject.user.name == ALL
            self.users.add(subject.user.name)
        elif subject.kind == "Group" and subject.group is not None:
            self.is_all |= subject.group.name == ALL
            self.groups.add(subject.group.name)
        elif subject.kind == "ServiceAccount" and subject.service_account is not None:
            prefix = f"{SERVICE_ACCOUNT_PREFIX}{subject.service_account.namespace}:"
            if subject.service_account.name == ALL:
                self.user_prefixes += (prefix,)
            else:
                self.users.add(prefix + subject.service_account.name)

    def match(self, user: User) -> bool:
        """Whether any of them is the user or one of its groups."""
        return (
            self.is_all
            or user.name in self.users
            or not self.groups.isdisjoint(user.groups)
            or user.name.startswith(self.user_prefixes)
        )

"""Whether a version satisfies a specifier, with a pre-release counting as its version."""

from __future__ import annotations

from functools import lru_cache

from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion, Version


@lru_cache(maxsize=4096)
def satisfies(version: str, specifier: str) -> bool:
    """Say whether ``version`` fits; nightlies of 2.3 count as 2.3 unless the specifier itself speaks of pre-releases."""
    wanted = SpecifierSet(specifier)
    try:
        found = Version(version)
    except InvalidVersion:
        return not specifier
    if found.is_prerelease and not wanted.prereleases:
        found = Version(found.base_version)
    return wanted.contains(found, prereleases=True)

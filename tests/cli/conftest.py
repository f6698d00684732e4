"""Tests of the command find none of the settings that the tester's shell has chosen; places for
those that end badly."""

import os

import pytest
from process_place import place

__all__ = ["place"]


@pytest.fixture(autouse=True, scope="module")
def without_settings():
    with pytest.MonkeyPatch.context() as patch:
        for name in list(os.environ):
            is_ours = name.startswith(("PAGEWIRE_", "FI_", "MPIR_CVAR_", "OMPI_MCA_"))
            if is_ours and not name.startswith("PAGEWIRE_TEST_"):
                patch.delenv(name)
        yield

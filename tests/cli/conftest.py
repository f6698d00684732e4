"""Tests of the command find none of the settings that the tester's shell has chosen."""

import os

import pytest


@pytest.fixture(autouse=True, scope="module")
def without_settings():
    with pytest.MonkeyPatch.context() as patch:
        for name in list(os.environ):
            is_ours = name.startswith(("PAGEWIRE_", "FI_", "MPIR_CVAR_", "OMPI_MCA_"))
            if is_ours and not name.startswith("PAGEWIRE_TEST_"):
                patch.delenv(name)
        yield

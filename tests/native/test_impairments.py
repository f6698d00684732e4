"""Text form of impairment sites, and plans that are refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pagewire.native.impairments import DENOM_MAX, SITES, ImpairmentsConfig, Site, total
from pagewire.native.settings import ConfigError
from pagewire.run.settings.config import load

ALWAYS_FATAL = ("packet_loss", "packet_corruption", "lost_ack", "link_loss")


@given(
    st.integers(0, DENOM_MAX).flatmap(
        lambda num: st.builds(
            Site,
            st.just(num),
            st.integers(max(num, 1), DENOM_MAX),
            st.integers(0, 2**63 - 1),
            st.integers(0, 2**63 - 1),
        )
    )
)
def test_site_survives_its_own_text(site):
    assert Site.parse(str(site)) == site


@given(st.text(max_size=15))
def test_any_text_is_a_site_or_refused_with_the_setting_named(text):
    try:
        Site.parse(text, "impairments.delay")
    except ConfigError as error:
        assert "impairments.delay" in str(error) and "num:denom:seed" in str(error)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("1:100", "2 numbers instead of 3 or 4"),
        ("1:2:3:4:5", "5 numbers"),
        ("1%:100:7", "'1%' is not a whole number"),
        ("-1:100:7", "'-1' is not a whole number"),
        ("1:0:7", "denom 0 is not from 1 to 1000000000"),
        ("1:1000000001:7", "denom 1000000001 is not from 1"),
        ("3:2:7", "num 3 is more than denom 2"),
        (f"1:2:{2**63}", "seed and limit go to"),
        ("١:2:3", "is not a whole number"),
    ],
)
def test_bad_site_names_setting_value_and_limit(text, reason):
    with pytest.raises(ConfigError) as caught:
        load([f"impairments.packet_loss={text}"], environ={})
    assert f"impairments.packet_loss = '{text}'" in str(caught.value) and reason in str(
        caught.value
    )


@pytest.mark.parametrize("name", SITES)
def test_everything_fails_only_where_blocks_still_come_through(name):
    lossy = "network.lossy=0 to 1"  # what link_loss needs
    if name not in ALWAYS_FATAL:
        words = [lossy, f"impairments.{name}=1:1:0"]
        assert load(words, environ={}).impairments.sites()[name].is_on
        return
    with pytest.raises(ConfigError, match=f"impairments.{name} = '1:1:0': no block would ever"):
        load([lossy, f"impairments.{name}=1:1:0"], environ={})
    words = [lossy, f"impairments.{name}=1:1:0:5"]
    assert load(words, environ={}).impairments.sites()[name].limit == 5


@pytest.mark.parametrize("name", ["packet_loss", "lost_ack", "lost_nack", "lost_err", "fifo_full"])
def test_loss_without_a_timeout_is_refused(name):
    with pytest.raises(
        ConfigError, match=f"impairments.{name} = '1:100:7' with run.timeout = none"
    ):
        load([f"impairments.{name}=1:100:7", "run.timeout=none"], environ={})
    assert load([f"impairments.{name}=0:1:0", "run.timeout=none"], environ={})


@pytest.mark.parametrize("name", ["packet_corruption", "duplication", "delay", "late_tasklet"])
def test_sites_that_need_no_timeout_go_without(name):
    config = load([f"impairments.{name}=1:100:7", "run.timeout=none"], environ={})
    assert config.impairments.sites()[name].is_on


def test_base_system_of_mini_says_nothing_of_damage_and_needs_a_timeout_for_it():
    damage = ("run.translation=static", "impairments.packet_corruption=1:100:7")
    with pytest.raises(ConfigError, match="impairments.packet_corruption .* run.timeout = none"):
        load((*damage, "run.timeout=none"), environ={})
    config = load((*damage, "run.timeout=250us"), environ={})
    assert config.impairments.sites()["packet_corruption"].is_on


@pytest.mark.parametrize("name", ["lost_err", "fifo_full"])
def test_lost_err_with_a_cancelled_timer_is_refused(name):
    with pytest.raises(ConfigError, match=f"impairments.{name} .* with run.nack_cancels_timer"):
        load([f"impairments.{name}=1:100:7", "run.nack_cancels_timer=true"], environ={})


def test_nothing_is_on_by_default():
    config = load(environ={})
    assert not any(site.is_on for site in config.impairments.sites().values())
    assert config.impairments == ImpairmentsConfig()
    assert list(config.impairments.sites()) == list(SITES)


def test_counts_are_summed_by_site():
    one = {"delay": {"eligible": 5, "injected": 2}, "packet_loss": {"eligible": 1, "injected": 0}}
    assert total([one, {}, {"delay": {"eligible": 1, "injected": 1}}]) == {
        "packet_loss": {"eligible": 1, "injected": 0},
        "delay": {"eligible": 6, "injected": 3},
    }

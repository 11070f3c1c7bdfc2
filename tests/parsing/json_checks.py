"""The name by which tests of formats know `laws.check_readings`."""

from laws import check_readings as check_everywhere

__all__ = ["check_everywhere"]

"""Adds numbers up. It does so wrongly: the example codex-fix-python mends it."""


def total(*numbers):
    """Return the sum of numbers."""
    result = 0
    for n in numbers[1:]:
        result += n
    return result

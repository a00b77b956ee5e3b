#!/usr/bin/env python3
"""Converts a quantity: result = value * factor + offset.

usage: convert.py --value NUMBER --factor NUMBER [--offset NUMBER]
       convert.py NUMBER NUMBER [NUMBER]

Numbers are decimal (26.2, -40, 1e-3) or fractions (5/9). What comes out is one
line of JSON with value, factor, offset and result. It is computed exactly and
rounded once, at the end.

  convert.py --value 26.2 --factor 1.60934
  convert.py 98.6 5/9 -160/9

exit codes: 0 done, 1 a number or the result is too large, 2 wrong arguments
"""

import json
import re
import sys
from fractions import Fraction

NAMES = ("value", "factor", "offset")
# Bounded: a long exponent would keep the exact arithmetic busy for hours.
NUMBER = re.compile(r"[+-]?(\d{1,30}(\.\d{0,30})?|\.\d{1,30})(e[+-]?\d{1,3})?(/\d{1,30})?", re.ASCII | re.IGNORECASE)


class WrongArguments(Exception):
    pass


def number(name, text):
    """Reads a decimal number or a fraction of one."""
    text = text.strip()
    if not NUMBER.fullmatch(text):
        raise WrongArguments(f"--{name}: {text[:40]!r} is no number; write one like 26.2, -40 or 5/9, without a unit and without separators")
    above, _, below = text.partition("/")
    if below and int(below) == 0:
        raise WrongArguments(f"--{name}: {text!r} divides by zero")
    return Fraction(above) / int(below or 1)


def read(argv):
    """Takes --name value and --name=value in any order, and loose numbers for value, factor and offset."""
    given, loose = {}, []
    rest = iter(argv)
    for word in rest:
        if not word.startswith("--"):
            loose.append(word)
            continue
        name, equals, text = word[2:].partition("=")
        if name not in NAMES:
            raise WrongArguments(f"{word[:40]!r} is unknown; there are --value, --factor, --offset and --help")
        if not equals:
            text = next(rest, None)
        if text is None:
            raise WrongArguments(f"--{name} needs a number behind it")
        if name in given:
            raise WrongArguments(f"--{name} is given twice")
        given[name] = text
    for name in NAMES:
        if loose and name not in given:
            given[name] = loose.pop(0)
    if loose:
        raise WrongArguments(f"{loose[0][:40]!r} is one number too many; give a value, a factor and an offset at most")
    missing = [f"--{name}" for name in ("value", "factor") if name not in given]
    if missing:
        raise WrongArguments(f"{' and '.join(missing)} missing; such as: convert.py --value 26.2 --factor 1.60934")
    return {name: number(name, text) for name, text in given.items()}


def shown(fraction):
    """Makes an int or a float of a fraction; OverflowError if it is too large."""
    whole = fraction.denominator == 1 and abs(fraction) < 10**15
    return int(fraction) if whole else float(fraction)


def main(argv):
    if "--help" in argv or "-h" in argv:
        print(__doc__.strip())
        return 0
    try:
        numbers = read(argv)
    except WrongArguments as wrong:
        print(f"convert.py: {wrong}", file=sys.stderr)
        return 2
    numbers["result"] = numbers["value"] * numbers["factor"] + numbers.get("offset", 0)
    try:
        print(json.dumps({name: shown(numbers[name]) for name in (*NAMES, "result") if name in numbers}))
    except OverflowError:
        print("convert.py: a number, or the result, is too large", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

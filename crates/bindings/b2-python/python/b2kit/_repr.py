"""Representations of arrays as text and HTML."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from b2kit._array import Array


def size(nbytes: float) -> str:
    """Formats a number of bytes for people to read."""
    if nbytes < 1024:
        return f"{nbytes:.0f} bytes"
    for unit in ("KiB", "MiB", "GiB", "TiB"):
        nbytes /= 1024
        if nbytes < 1024 or unit == "TiB":
            break
    return f"{nbytes:.1f} {unit}"


class Info(Mapping[str, object]):
    """Properties of an array by name, displayed as a table."""

    def __init__(self, facts: Mapping[str, object]) -> None:
        self._facts = dict(facts)

    def __getitem__(self, name: str) -> object:
        return self._facts[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._facts)

    def __len__(self) -> int:
        return len(self._facts)

    def __repr__(self) -> str:
        width = max(map(len, self._facts), default=0)
        return "\n".join(f"{name:<{width}} : {_shown(value)}" for name, value in self._facts.items())

    def _repr_html_(self) -> str:
        rows = "".join(
            f'<tr><th style="text-align:left">{escape(name)}</th>'
            f'<td style="text-align:left">{escape(_shown(value))}</td></tr>'
            for name, value in self._facts.items()
        )
        return f"<table>{rows}</table>"


def printable(text: str) -> str:
    """Makes text from a file safe for a terminal by escaping control characters."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in text)


def _shown(value: object) -> str:
    text = printable(str(value))
    return text if len(text) <= 200 else f"{text[:200]}..."


def facts(array: Array) -> Info:
    shown: dict[str, object] = {
        "shape": array.shape,
        "dtype": array.dtype,
        "chunks": array.chunks,
        "blocks": array.blocks,
        "codec": f"{array.codec}, level {array.level}",
        "filters": ", ".join(map(str, array.filters)) or "none",
        "nbytes": f"{array.nbytes} ({size(array.nbytes)})",
        "cbytes": f"{array.cbytes} ({size(array.cbytes)})",
        "ratio": f"{array.ratio:.2f}",
        "path": array.path or "in memory",
        "mode": array.mode,
        "attrs": ", ".join(array.attrs) or "none",
    }
    return Info(shown)


def html(array: Array) -> str:
    drawing = _drawing(array)
    return (
        '<table><tr><td style="vertical-align:top">'
        f'{facts(array)._repr_html_()}</td><td style="vertical-align:middle">{drawing}</td></tr></table>'
    )


def _drawing(array: Array) -> str:
    """Draws the last two dimensions with their chunks, and the blocks of the first chunk, as SVG."""
    lengths = list(array.shape[-2:])
    chunks, blocks = list(array.chunks[-2:]), list(array.blocks[-2:])
    if not lengths or 0 in lengths:
        return ""
    if len(lengths) == 1:
        lengths, chunks, blocks = [1, *lengths], [1, *chunks], [1, *blocks]
    longest = max(lengths)
    height, width = (max(160 * n / longest, 16) for n in lengths)
    parts = [f'<rect width="{width:.1f}" height="{height:.1f}" fill="#dce9f5" stroke="#33597f"/>']
    for axis, (length, side) in enumerate(zip(lengths, (height, width))):
        other = width if axis == 0 else height
        for step, end, color in ((blocks[axis], min(chunks[axis], length), "#9db9d3"), (chunks[axis], length, "#33597f")):
            # More lines than this would merge into a grey area, so they are left out.
            if step <= 0 or end / step > 200:
                continue
            across = other if step == chunks[axis] else min(1.0, chunks[1 - axis] / lengths[1 - axis]) * other
            for at in range(step, end, step):
                place = side * at / length
                line = (0, place, across, place) if axis == 0 else (place, 0, place, across)
                x1, y1, x2, y2 = line
                parts.append(f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{color}"/>')
    return (
        f'<svg width="{width + 2:.0f}" height="{height + 2:.0f}" viewBox="-1 -1 {width + 2:.1f} {height + 2:.1f}" '
        f'role="img" aria-label="chunks and blocks">{"".join(parts)}</svg>'
    )


def plain(text: str) -> str:
    """Returns text as HTML."""
    return escape(_shown(text))


def group_html(name: str, members: Sequence[tuple[str, Any]], more: int) -> str:
    """Draws a group as a table of its members; those that are not arrays are only named."""
    rows = [_row("th", "key", "shape", "dtype", "chunks", "size", "ratio")]
    for key, member in members:
        if isinstance(member, str):
            rows.append(_row("td", key, member))
        elif not hasattr(member, "shape"):
            rows.append(_row("td", key, member.kind, "", "", size(member.nbytes)))
        else:
            ratio = f"{member.ratio:.1f}"
            rows.append(_row("td", key, member.shape, member.dtype, member.chunks, size(member.nbytes), ratio))
    if more > 0:
        rows.append(_row("td", f"... and {more} more"))
    return f"<div><b>{escape(_shown(name))}</b><table>{''.join(rows)}</table></div>"


def _row(tag: str, *cells: object) -> str:
    shown = "".join(f'<{tag} style="text-align:left">{escape(_shown(cell))}</{tag}>' for cell in cells)
    return f"<tr>{shown}</tr>"

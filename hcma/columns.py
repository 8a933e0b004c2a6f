"""Tables as text."""


def align(rows):
    """Rows of text in columns: the first to the left, the others to the right."""
    widths = [max(len(cell) for cell in column) for column in zip(*rows)]
    lines = ['  '.join(cell.ljust(width) if column == 0 else cell.rjust(width)
                       for column, (cell, width) in enumerate(zip(row, widths))) for row in rows]
    return '\n'.join(line.rstrip() for line in lines)

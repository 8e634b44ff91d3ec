"""Ratios of one run, and the bounds they stand under."""


def rate(size, seconds):
    """MB/s, for people."""
    return round(size / 1e6 / seconds, 1)


def bounds(stock, flash, share):
    """What nobody can exceed: everything on flash; and, where all time is the disks', all but the share left to them."""
    return {
        "all_flash_over_stock": round(stock / flash, 2) if flash else None,
        "one_over_share_left": round(1 / (1 - share), 2) if share < 1 else None,
    }


def compare(size, stock, headstart, flash=None):
    """One cell: `ratio` is stock's time over Headstart's, to the last close; `drained_ratio` to the last byte on the disks. Each
    side has `seconds`, Headstart's `flash_share` as well, stock's and Headstart's `drained_seconds` where bytes were written."""
    cell = {
        "ratio": round(stock["seconds"] / headstart["seconds"], 3),
        "stock_mb_s": rate(size, stock["seconds"]),
        "headstart_mb_s": rate(size, headstart["seconds"]),
        "flash_share": round(headstart["flash_share"], 4),
    }
    if "drained_seconds" in stock:
        cell["drained_ratio"] = round(stock["drained_seconds"] / headstart["drained_seconds"], 3)
    if flash is not None:
        cell["all_flash_mb_s"] = rate(size, flash["seconds"])
        cell["of_all_flash"] = round(flash["seconds"] / headstart["seconds"], 3)
    cell["bounds"] = bounds(stock["seconds"], flash["seconds"] if flash else None, headstart["flash_share"])
    return cell

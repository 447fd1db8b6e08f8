"""Lynx and hare: pelts that the Hudson's Bay Company bought, 1900 to 1920.

The numbers are Hewitt's (1921) as given by Howard (2009), which the Stan case study of Carpenter
(2018) uses: thousands of pelts a year, which stand for the animals.
"""

from __future__ import annotations

from smcpn.base.arguments import checked
from smcpn.datasets.inventory import columns_of, require_file
from smcpn.model.record import Record

YEARS = 21
FILE = "lynx_hare.csv"
SOURCE = (
    "from hudson-bay-lynx-hare.csv of github.com/stan-dev/example-models (knitr/lotka-volterra), "
    "without its comments and with the columns named year,hare,lynx"
)


@checked
def lynx_hare() -> Record:
    """Read ``lynx_hare.csv``: hare and lynx, thousands of pelts, one sample a year.

    Time is in years since 1900.

    Raises
    ------
    InputError
        If the file is missing or is not what it should be.
    """
    path = require_file("lynx_hare", FILE, SOURCE)
    table = columns_of(path, ["year", "hare", "lynx"], "lynx and hare", rows=YEARS)
    return Record(
        y=table[:, 1:],
        t=table[:, 0] - table[0, 0],
        y_unit="thousands",
        t_unit="year",
        name="lynx and hare, 1900 to 1920",
    )

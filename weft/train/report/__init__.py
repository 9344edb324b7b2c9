"""Reports of runs: one HTML page with curves, a table, the best run, pictures and settings.

``python -m weft.train.report DIR`` writes it; with ``--serve`` it stays up to date.
"""

from weft.train.report.making import make_report as make_report
from weft.train.report.server import ReportServer as ReportServer

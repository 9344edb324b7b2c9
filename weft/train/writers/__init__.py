"""Writers of metrics: to the console, to JSON lines, to CSV, and to TensorBoard."""

from weft.train.writers.base import MetricWriter as MetricWriter
from weft.train.writers.base import MultiWriter as MultiWriter
from weft.train.writers.console import ConsoleWriter as ConsoleWriter
from weft.train.writers.console import ProgressBar as ProgressBar
from weft.train.writers.default import create_default_writer as create_default_writer
from weft.train.writers.events import TensorBoardWriter as TensorBoardWriter
from weft.train.writers.files import CsvWriter as CsvWriter
from weft.train.writers.files import JsonLinesWriter as JsonLinesWriter
from weft.train.writers.files import read_json_lines as read_json_lines
from weft.train.writers.png import encode_png as encode_png

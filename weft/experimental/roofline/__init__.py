"""How much a function computes and moves, counted from its program without running it."""

from weft.experimental.roofline.counting import RooflineResult as RooflineResult
from weft.experimental.roofline.counting import RooflineRuleContext as RooflineRuleContext
from weft.experimental.roofline.counting import RooflineShape as RooflineShape
from weft.experimental.roofline.counting import register_roofline as register_roofline
from weft.experimental.roofline.counting import (
    register_standard_roofline as register_standard_roofline,
)
from weft.experimental.roofline.functions import roofline as roofline
from weft.experimental.roofline.functions import roofline_and_grad as roofline_and_grad

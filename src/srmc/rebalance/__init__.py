"""What can be done with draws and their scores: rebalancing, weights and control variates."""

from srmc.rebalance import rule
from srmc.rebalance.control_variates import Controlled
from srmc.rebalance.errors import rebalanced_error
from srmc.rebalance.report import Report

__all__ = ["Controlled", "Report", "rebalanced_error", "rule"]

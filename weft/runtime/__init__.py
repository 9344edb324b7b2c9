"""Devices, concrete arrays and evaluation: where programs meet memory."""

"""Alerts on failed runs and refused models, sent to a signed webhook. Loads without TensorFlow."""

from components.alerts.event import Event
from components.alerts.sending import send
from components.alerts.target import target_of

__all__ = ["Event", "send", "target_of"]

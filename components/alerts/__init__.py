"""Alerts on failed runs and refused models, sent to a signed webhook. Loads without TensorFlow."""

from sangam.components.alerts.event import Event, event_of
from sangam.components.alerts.sending import send
from sangam.components.alerts.target import target_of

__all__ = ["Event", "event_of", "send", "target_of"]

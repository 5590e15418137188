"""Alerts on failed runs and refused models, sent to a signed webhook. Loads without TensorFlow."""

from components.alerts.event import Event, event_of
from components.alerts.sending import send
from components.alerts.target import target_of

__all__ = ["Event", "event_of", "send", "target_of"]

"""Alerts on failed runs, refused models, warnings and days without a push. Loads without TensorFlow."""

from sangam.components.alerts.event import Event, event_of, last_push, live_of, silence_of
from sangam.components.alerts.sending import send, send_all
from sangam.components.alerts.target import target_of

__all__ = ["Event", "event_of", "last_push", "live_of", "send", "send_all", "silence_of", "target_of"]

"""What user functions see: functions, state, windows, triggers, timers."""

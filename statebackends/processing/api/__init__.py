"""The interfaces of user functions: functions, state, windows, triggers, evictors and timers."""

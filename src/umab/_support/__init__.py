"""Helpers for all rooms: checks of arguments, extras, whole files, progress bars, memory, display."""

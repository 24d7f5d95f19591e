"""The dashboard: pages for people, drawn by the server, beside the API for programs."""

from umab_service.dashboard.pages import MOST_FORM, Dashboard

__all__ = ["MOST_FORM", "Dashboard"]

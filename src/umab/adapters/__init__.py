"""umab's policies in other libraries; each module needs the extra of its name."""

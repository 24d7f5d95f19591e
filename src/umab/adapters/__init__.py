"""umab inside other libraries; each module needs an extra, which its first line names."""
